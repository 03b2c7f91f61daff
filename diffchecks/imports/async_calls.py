"""Calls of asynchronous functions of other files, in scripts and Python, that nothing awaits.

What a file offers is known by the text of its definitions; how a result is used, by the language's
patterns. A call counts that the change adds, or whose function it makes asynchronous. A name is
dotted where an object has the function, such as ``mailer.send``.
"""

import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any

from msgspec.structs import replace

from diffchecks import DATA
from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, read_if_possible
from diffchecks.data_files import read_yaml
from diffchecks.jobs import ComparisonJob
from diffchecks.patterns import Program, find_matches, programs_in
from diffchecks.patterns.pattern_loading import Pattern, load_language
from diffchecks.python.imported_files import module_index

MAX_DEPTH = 3  # files through which a name is handed on
_TABLE = read_yaml("async_calls.yaml")
_FILES = tuple(map(str, sorted((DATA / "patterns").glob("*.yaml"))))


def run(job: ComparisonJob) -> CheckReply:
    """Report the calls that lines of changed files add, and those that became asynchronous."""
    base, head = _Tree(job.base_root, job.base_tree), _Tree(job.head_root, job.head_tree)
    reply = CheckReply()
    for file in (each for each in job.files if each.in_head and each.whole):
        names = head.names(file.path)
        new = names - base.names(file.old_path) if names and file.old_path else names
        source = Source(file.path, head.text(file.path).encode("utf-8", "replace"))
        found = _calls(source, names, head.names(file.path, failing=True))
        reply.findings.extend(one for one, name in found if one.line in file.added or name in new)
        reply.examined.append(file.path)
    return reply


def _calls(source: Source, names: set[str], failing: set[str]) -> Iterator[tuple[RawFinding, str]]:
    """The calls of some names whose result a file uses, or drops with an error, unawaited."""
    for program in programs_in(source) if names else ():
        if language := load_language(_FILES, program.suffix):
            own = (each for each in language.patterns if each.code in _TABLE["codes"].split())
            with suppress(Gap, RecursionError):  # other checks report what cannot be read
                failures = _TABLE["failures"].split()
                calls = [_of(each, failing if each.code in failures else names) for each in own]
                for one in find_matches(calls, Program(program, language)):
                    start = source.lines[one.line - 1][one.column - 1 :]
                    yield replace(one, path=source.path), re.split(r"[^\w$.]", start)[0]


def _of(pattern: Pattern, names: set[str]) -> Pattern:
    """A pattern about asynchronous functions of its file, for those of others."""
    given = pattern.config.get("constraints", {})
    limits: dict[str, Any] = {name: {"regex": "^$"} for name in pattern.only_names}
    called = {"regex": f"^(?:{'|'.join(map(re.escape, names))})$"}
    limits["F"] = {"all": [given.get("F", called), called]}
    config = {**pattern.config, "constraints": {**given, **limits}}
    return replace(pattern, config=config, only_names={}, words=frozenset[str]())


class _Tree:
    """One side of a change."""

    def __init__(self, root: str, tree: list[str]) -> None:
        self.modules, self.scripts = module_index(tree), {_name(path): path for path in tree}
        self.text = cache(lambda path: Source(path, read_if_possible(root, path)).text)
        self.offers, self.names = cache(self._offers), cache(self._names)

    def _offers(self, path: str, failing: bool, depth: int = MAX_DEPTH) -> set[str]:
        """The asynchronous functions that other files can import from one, or those that fail."""
        text, table = self.text(path), _table(path)
        handled = re.compile(table["handled"] if failing else "(?!)")
        found = {name for each in table["functions"] for name in _defined(each, text, handled)}
        for one in re.finditer(table["holders"], text):
            first, body = one["first"], f"\n{one['first']}{one['body']}"
            for each in table["members"]:
                methods = _defined(each.replace("FIRST", first), body, handled)
                found.update(f"{one[1] or one[2] or 'default'}.{name}" for name in methods)
        for alias in _found(table["aliases"], text):
            file = self.resolve(path, alias["module"]) if alias["module"] and depth else ""
            known = self.offers(file, failing, depth - 1) if file else found
            outer = "" if alias["module"] else alias["outer"] or "default"
            pairs = _renamed(alias["names"]) or [(alias["inner"], outer)]
            found |= {name for pair in pairs for name in _under(*pair, known)}
        return found

    def _names(self, path: str, failing: bool = False) -> set[str]:
        """The asynchronous functions of other files, or those that fail, as a file calls them."""
        found = set[str]()
        for one in _found(_table(path)["imports"], self.text(path)):
            pairs = [("", one["whole"]), ("default", one["default"]), *_renamed(one["names"])]
            for name, local in filter(lambda pair: pair[1], pairs):
                taken = _under(name, local, self.offers(self.resolve(path, one["module"]), failing))
                if path.endswith(".py") and name:
                    inner = self.resolve(path, one["module"], name)
                    taken |= _under("", local, self.offers(inner, failing))
                found |= taken | self._methods(path, local, taken)
        return found

    def _methods(self, path: str, local: str, names: set[str]) -> set[str]:
        """The names as a file calls them of its objects of a class; empty: there is none."""
        table, text = _table(path), self.text(path)
        methods = [name.removeprefix(local) for name in names if "." in name]
        made = re.findall(table["objects"].replace("CLASS", local), text) if methods else ()
        objects = set(filter(None, chain.from_iterable(made)))
        rebound = table["rebound"].replace("CLASS", local)
        known = [each for each in objects if not re.search(rebound.replace("NAME", each), text)]
        ways = [own + each for own in ("", table["own"]) for each in known]
        return {way + method for way in ways for method in methods}

    def resolve(self, path: str, module: str, name: str = "") -> str:
        """The file that a module is in another one; empty: it is not of this tree."""
        if path.endswith(".py"):
            inner = module.lstrip(".")
            dotted = ".".join(filter(None, (inner, name)))
            return self.modules.resolve(path, dotted, len(module) - len(inner)) or ""
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        if module.startswith("."):
            return self.scripts.get(whole) or self.scripts.get(_name(whole), "")
        for end in filter(None, (re.match(each, _name(module)) for each in _TABLE["placed"])):
            near = [file for name, file in self.scripts.items() if f"/{name}".endswith(end[1])]
            if len(near) == 1:
                return near[0]
        return ""


def _defined(definition: str, text: str, handled: re.Pattern[str]) -> list[str]:
    """The names of functions whose body does not handle each error."""
    return [one[1] for one in re.finditer(definition, text) if not handled.match(text, one.end())]


def _name(path: str) -> str:
    return re.sub(_TABLE["ending"], "", path)


def _table(path: str) -> Any:
    return _TABLE["python" if path.endswith(".py") else "scripts"]


def _found(expressions: list[str], text: str) -> Iterator[dict[str, str]]:
    """The groups of all matches; empty where one has no part."""
    for one in chain.from_iterable(re.finditer(each, text) for each in expressions):
        yield {name: one.groupdict().get(name) or "" for name in _TABLE["groups"].split()}


def _renamed(names: str) -> list[tuple[str, str]]:
    return [(name, other or name) for name, other in re.findall(_TABLE["renamed"], names)]


def _under(inner: str, outer: str, names: set[str]) -> set[str]:
    """Those of some names that are, or begin with, an inner one: with the outer one instead."""
    prefix = f".{inner}" if inner else ""
    near = (name for name in names if f".{name}.".startswith(f"{prefix}."))
    return {(outer + f".{name}"[len(prefix) :]).lstrip(".") for name in near}
