"""ShellCheck: selected warnings about shell scripts, and about what Makefiles run."""

import re
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

from diffchecks.check_io import RawFinding
from diffchecks.file_patterns import file_names, matches, suffix_of
from diffchecks.patterns.makefile_commands import extract_make_commands, is_makefile
from diffchecks.programs import TABLES, FileCopies, Linter, one_line
from diffchecks.script_languages import SHELLS, interpreter, is_husky_hook

_DIRECTIVES = re.compile(rb"(#[ \t]*shellcheck[ \t][^\n]*)")
_SUPPRESSION = re.compile(rb"\b(?:disable|extended-analysis)=")
_TABLE = TABLES["shellcheck"]
# In the format ``json1`` a tab is one column. ``precedence`` and ``insertionPoint`` order what is
# inserted at one place, of which ``FileCopies.edits`` takes none.
_REPLACEMENT = itemgetter("line", "column", "endLine", "endColumn", "replacement")
_NO_FIX: Mapping[str, Any] = {"replacements": ()}
_ROOT = 2115  # an argument of rm
_LOCAL = 2168  # outside of a function; a part without a first line may be read in one
_VARIABLES = re.compile(r"\$\{?(\w+)")
_CRLF = 1017  # reported for each line; one report is enough


class ShellCheck(Linter):
    """ShellCheck without configuration of the change or suppressions, but for split arguments."""

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name with the suffix, which names the dialect where no first line does."""
        pure = PurePosixPath(path)
        is_bash = is_makefile(path) or pure.name == ".envrc" or pure.name.startswith(".bash")
        return f"f{number}{'.bash' if is_bash else suffix_of(pure.name) or '.sh'}"

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """The file; of a Makefile what it runs, none where that is not for a shell of Unix."""
        if not is_makefile(path):
            return [data]
        commands = extract_make_commands(path, data.decode("utf-8", "surrogateescape"))
        return [commands.encode("utf-8", "surrogateescape")] if commands else []

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """Remove suppression comments; None when it is not a script of a supported shell."""
        shell = interpreter(data)
        named = matches(path, file_names("shell_scripts")) or is_husky_hook(path)
        named = named or is_makefile(path)
        if shell not in SHELLS and (shell is not None or not named):
            return None
        return _DIRECTIVES.sub(lambda found: _SUPPRESSION.sub(b"unused=", found[1]), data)

    def arguments(self, codes: Collection[str], copies: FileCopies) -> Iterable[list[str]]:
        """These codes and those of scripts that it cannot parse."""
        numbers = {code.removeprefix("SC") for code in codes}
        numbers.update(map(str, _TABLE["parse_errors"]))
        return [[f"--include={','.join(sorted(numbers))}"]]

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A script that it cannot parse completely."""
        if result["code"] not in _TABLE["parse_errors"] or "((..))" in result["message"]:
            return None  # a second result says where arithmetic ends that no shell can read
        return copies.path_of(result["file"]), f": line {result['line']}: {result['message']}"

    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """A finding; none about a constant that is a variable of Make."""
        name, code = copies.name_of(result["file"]), result["code"]
        one_branch = f" on line {result['line']}." in result["message"]  # two patterns of a case
        of_make = code in _TABLE["about_constants"] and is_makefile(copies.paths[name])
        if one_branch or of_make or (code == _CRLF and result["line"] != 1):
            return None
        if code == _ROOT and _is_constant(copies.text(name), result["line"], result["column"]):
            return None
        if code == _LOCAL and not copies.text(name, 1, 1).startswith("#!"):
            return None
        return RawFinding(
            code=f"SC{code}",
            path=copies.paths[name],
            line=result["line"],
            end_line=result["endLine"],
            column=result["column"],
            message=one_line(result["message"]).removesuffix("."),
            edits=copies.edits(name, map(_REPLACEMENT, (result["fix"] or _NO_FIX)["replacements"])),
        )


def _is_constant(text: str, number: int, column: int) -> bool:
    """Whether a variable of a path has a constant value, on each way to its line."""
    *above, line = text.split("\n")[:number]
    margin = line[: len(line) - len(line.lstrip())]
    sets = rf"^(?:{margin})?(?:(?:export|local|readonly) )?"
    changes = r"\b(?:for|read|select|unset)\b.{0,200}\b"  # it need not be a constant any more
    for name in _VARIABLES.findall(line[column - 1 :].partition(" ")[0]):
        values = re.findall(rf"\b{name}=[\"']?(.?)|{changes}{name}\b", text)
        if all(map(str.isalnum, values)) and any(re.match(f"{sets}{name}=", one) for one in above):
            return True
    return False


LINTER = ShellCheck("shellcheck")
