"""The argument parser, argument types, and the arguments that ``arguments.toml`` lists."""

import argparse
import math
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from diffchecks import show_bytes

SUBPARSERS = {"title": "subcommands", "metavar": "SUBCOMMAND", "dest": "part", "required": True}


class HelpFormatter(argparse.HelpFormatter):
    """Wraps each paragraph of a description; a paragraph with indented lines stays as written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import fill

        return "\n\n".join(
            paragraph if "\n " in paragraph else fill(" ".join(paragraph.split()), width)
            for paragraph in text.split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors and without abbreviated options.

    Its texts stand in ``help.yaml``, which is read when the help is printed.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", HelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def format_help(self) -> str:
        """The help, with the texts of ``help.yaml``, and examples at the end."""
        texts = read_help()
        own = texts[self.prog]
        summary, self.usage = own.get("summary", ""), own.get("usage", self.usage)
        self.description = own.get("description", f"{summary[:1].upper()}{summary[1:]}.")
        groups = []
        for heading, names in own.get("commands", {}).items():
            lines = [f"  {name:<15}  {texts[f'diffcourt {name}']['summary']}" for name in names]
            groups.append("\n".join([f"{heading}:", *lines]))
        self.epilog = "\n\n".join([*groups, own.get("exit_codes", "")]).strip()
        arguments = {key.split()[0]: (key, text) for key, text in own.get("arguments", {}).items()}
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                action._choices_actions = [
                    action._ChoicesPseudoAction(name, (), texts[parser.prog]["summary"])
                    for name, parser in action.choices.items()
                    if action.help is None
                ]
            elif action.dest != "help":
                key, action.help = arguments[name_in_help(action)]
                if placeholders := key.split()[1:]:
                    action.metavar = tuple(placeholders) if placeholders[1:] else placeholders[0]
        lines = [f"  {self.prog} {args}".rstrip() for args in own["examples"]]
        return "\n".join([super().format_help(), "examples:", *lines, ""])

    def add_subparsers(self, **settings: Any) -> "argparse._SubParsersAction[Any]":
        """Add subcommands; the chosen one is ``args.part``, unless said otherwise."""
        for name, value in SUBPARSERS.items():
            settings.setdefault(name, value)
        parts: argparse._SubParsersAction[Any] = super().add_subparsers(**settings)
        return parts

    def _get_positional_kwargs(self, dest: str, **settings: Any) -> dict[str, Any]:
        if "choices" not in settings:
            settings.setdefault("metavar", dest.upper())  # errors say it, too
        return super()._get_positional_kwargs(dest, **settings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        options = list(map(str, action.choices))
        hint = did_you_mean(str(value), options)
        if action.dest == "command":
            self.error(f"there is no command {str(value)!r}{hint}")
        allowed = "" if hint else f"; choose from {', '.join(options)}"
        raise argparse.ArgumentError(action, f"invalid choice: {str(value)!r}{hint}{allowed}")

    def _print_message(self, message: str, file: Any = None) -> None:
        from orchestrator.report.terminal_escaping import emit

        emit(message, sys.stderr if file is None else file)

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, and exit with code 2."""
        command = self.prog.removeprefix("diffcourt").strip()
        where = f"{command}: " if command else ""
        self.exit(2, f"diffcourt: {where}{show_bytes(message)} (see {self.prog} --help)\n")


def read_help() -> dict[str, dict[str, Any]]:
    """The texts of each command, from ``help.yaml``."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C it takes a tenth of the time
    texts: dict[str, dict[str, Any]] = loader(
        Path(__file__).with_name("help.yaml").read_bytes()
    ).get_single_data()
    return texts


def name_in_help(action: argparse.Action) -> str:
    """What ``help.yaml`` calls an argument: its last option, or the name in the usage."""
    return [str(action.metavar or action.dest), *action.option_strings][-1]


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """A hint at a similar option, to append to an error; empty if there is none."""
    from difflib import get_close_matches

    names = {option.lstrip("-"): option for option in options}  # dashes make no two words alike
    near = get_close_matches(word.lstrip("-"), names, n=1)
    return f"; did you mean {names[near[0]]}?" if near else ""


def ref(text: str) -> str:
    """Argument type: a git ref. An empty one is most often an unset variable."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name a commit, branch or tag")
    if text.startswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a commit, branch or tag")
    return text


def directory(text: str) -> Path:
    """Argument type: an existing directory."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a directory")
    try:
        found = Path(text).is_dir()
    except (OSError, ValueError):
        found = False
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a directory")
    if not os.access(text, os.R_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read by this user")
    return Path(text)


def name_of(what: str) -> Callable[[str], str]:
    """An argument type: a name that must not be empty."""

    def name(text: str) -> str:
        if not text.strip():
            raise argparse.ArgumentTypeError(f"is empty; name {what}")
        return text

    return name


def count(text: str) -> int:
    """Argument type: a whole number, at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return value


def amount(text: str) -> float:
    """Argument type: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


TYPES: dict[str, Callable[[str], Any]] = {
    "amount": amount,
    "count": count,
    "directory": directory,
    "float": float,
    "int": int,
    "path": Path,
    "ref": ref,
    "text": str,
}
"""What ``arguments.toml`` may call the type of an argument."""


@cache
def read_arguments(*names: str) -> dict[str, dict[str, Any]]:
    """The tables of ``arguments.toml`` that begin with these names; without a name all.

    Every command waits for its own and what it shares, and for no others.
    """
    text = Path(__file__).with_name("arguments.toml").read_text("utf-8")
    if names:
        heading = rf'\["?(?:{"|".join(names)})[\]."\s]'
        text = "".join(part for part in re.split(r"(?m)^(?=\[)", text) if re.match(heading, part))
    return tomllib.loads(text)


def add_arguments(parser: Parser, command: str) -> None:
    """Add the arguments of a command, and its subcommands with theirs."""
    tables = read_arguments(command)
    _add_table(parser, tables[command])
    parts = [name for name in tables if name.startswith(f"{command} ")]
    if not parts:
        return
    own = {action.dest for action in parser._actions}
    optional = {"metavar": "[SUBCOMMAND]", "required": False} if tables[command] else {}
    subparsers = parser.add_subparsers(**optional)
    for name in parts:
        part = subparsers.add_parser(name.partition(" ")[2])
        _add_table(part, tables[name])
        for action in part._actions:
            # An option of both may precede or follow the subcommand: a default after it must not
            # overwrite a value before it.
            if action.dest in own:
                action.default = argparse.SUPPRESS


def _add_table(target: argparse._ActionsContainer, table: dict[str, Any]) -> None:
    for key, given in table.items():
        if key == "use":
            for name in given:
                _add_table(target, read_arguments("kinds", "shared")["shared"][name])
        elif key == "group":
            for title, inner in given.items():
                about = inner.get("description")
                _add_table(target.add_argument_group(title, about), inner)
        elif key in ("one_of", "must_be_one_of"):
            required = key == "must_be_one_of"
            _add_table(target.add_mutually_exclusive_group(required=required), given)
        elif key != "description":
            settings = _read_settings(given)
            name = key
            if not key.startswith("-"):  # its place in the usage; in the code, it is lower-case
                settings |= {} if key.islower() else {"metavar": key}
                name = settings.pop("dest", key.lower())
            target.add_argument(name, **settings)


def _read_settings(given: str | dict[str, Any]) -> dict[str, Any]:
    """The settings for ``add_argument`` of a value in ``arguments.toml``."""
    if isinstance(given, str):
        given = dict(read_arguments("kinds", "shared")["kinds"].get(given, {"type": given}))
    settings = {**given}
    if kind := settings.pop("kind", None):
        settings = _read_settings(kind) | settings
    if what := settings.pop("name", None):
        settings["type"] = name_of(what)
    if isinstance(name := settings.get("type"), str):
        settings["type"] = TYPES.get(name) or _load(name)
    if isinstance(choices := settings.get("choices"), str):
        settings["choices"] = tuple(_load(choices))
    return settings


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"orchestrator.{module}"), attribute)
