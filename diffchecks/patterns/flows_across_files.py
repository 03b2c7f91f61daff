"""Data flow from a request in one file to a dangerous call in another, but for Python.

A function of another file is known by its name behind that of its file, which its class, module or
package shares. What is called with request data runs; from a function whose parameter reaches a
dangerous call, the way leads back to its callers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from os.path import commonpath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from diffchecks.check_io import CheckReply, FlowStep, RawFinding, Source, read_if_possible
from diffchecks.flows.calls import TracedFlow
from diffchecks.flows.flow_tables import load_flows, words_of
from diffchecks.flows.syntax import line_of, quote_source
from diffchecks.flows.tracing import Tracing
from diffchecks.flows.values import CLEAN, FlowState, FlowTaint, FlowValue
from diffchecks.jobs import DataJob
from diffchecks.path_kinds import is_product
from diffchecks.patterns import programs_in
from diffchecks.patterns.boxed_getters import find_boxed_getters
from diffchecks.patterns.pattern_loading import load_language
from diffchecks.patterns.readings import read_program, without_comments

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_LEVELS = 2  # of callers: a service, and a controller
_MAX_CALLERS = 10
_MAX_FILES = 25  # beside those that change
_GENERAL = frozenset({"index", "mod", "main"})  # names of files that say nothing
_BARE = (".php", ".rb")  # functions of other files are called by their name alone
_TWO_WORDS = re.compile(r"[a-z]_[a-z]|[a-z][A-Z]")
_DEFINED = re.compile(r"\b(?:function|def)\s+&?(?:self\.)?(\w+)")
_CALLED = re.compile(r"(?:(.*?)(?:\(\))?(?:\.|::|->))?(\w+)\(\)")


def _plain(name: str) -> str:
    """A name as those of files, classes and variables are compared."""
    return re.sub(r"[\W_]", "", name).lower().removesuffix("impl")


def _stem(path: str) -> str:
    """The name by which other files know one."""
    place = PurePosixPath(path)
    of_folder = place.suffix == ".go" or place.stem.lower() in _GENERAL
    return _plain(place.parent.name if of_folder else place.stem)


class _Program(Tracing):
    """A program that runs functions of others."""

    tree: _Tree
    path: str

    def call_elsewhere(
        self, node: SgNode, name: str, values: Sequence[FlowValue], state: FlowState
    ) -> None:
        """Run a function of another file on what comes with a request, or is a parameter."""
        taints = [each for value in values for each in value.taints]
        fresh = [each for each in taints if not (each.parameter and each.before)]
        near = any(len({step.path for step in self.way(each)}) <= _LEVELS for each in fresh)
        for other, function in self.tree.functions(self, name) if near else ():
            step = FlowStep(self.path, line_of(node), quote_source(node))
            begin = line_of(function), quote_source(function.field("name") or function)
            sent = [self.sent(state.checked(value), step, begin) for value in values]
            other.invoke(function, function, sent, FlowState(other.module.values, state.cleared))
            return

    def sent(self, value: FlowValue, step: FlowStep, begin: tuple[int, str]) -> FlowValue:
        """A value in another file."""

        def send(taint: FlowTaint) -> FlowTaint:
            return replace(taint, before=(*self.way(taint), step), steps=(begin,))

        fields = {key: self.sent(each, step, begin) for key, each in value.fields.items()}
        return replace(value, taints=tuple(map(send, value.taints)), fields=fields, function=None)

    def way(self, taint: FlowTaint) -> tuple[FlowStep, ...]:
        """The steps of a value so far, in all files."""
        own = (FlowStep(self.path, line, text) for line, text in taint.steps)
        return (*taint.before, *own)

    def finding(self, flow: TracedFlow, changed: Collection[str]) -> RawFinding | None:
        """What is found where a flow ends, or where it leaves the last changed file."""
        steps = self.way(flow.taint)
        ends = [*steps, FlowStep(self.path, flow.line, flow.call)]
        end = next((one for one in reversed(ends) if one.path in changed), None)
        if end is None or not flow.taint.before or flow.taint.parameter:
            return None
        way = " → ".join(f"{each.text} ({each.path}:{each.line})" for each in ends)
        code, message = f"{self.tables.name}-flow-{flow.code}", words_of(flow.code)
        return RawFinding(
            code, end.path, end.line, f"Request data reaches {message}: {way}",
            end_line=flow.end_line if end is ends[-1] else 0, steps=steps, from_request=True,
            confidence=0.8,
        )  # fmt: skip


class _Tree:
    """The programs of one side, but for its tests and vendored ones, as they are needed."""

    def __init__(self, job: DataJob) -> None:
        self.data = tuple(job.data)
        self.most = len(job.paths) + _MAX_FILES
        self.reached = set[str]()
        self.text = cache(lambda path: Source(path, read_if_possible(job.root, path)).text)
        self.programs: dict[str, _Program | None] = {}
        self.paths = [path for path in job.tree if is_product(path)]
        self.by_stem: dict[str, list[str]] = {}
        for path in self.paths:
            self.by_stem.setdefault(_stem(path), []).append(path)

    @cached_property
    def by_function(self) -> dict[str, list[str]]:
        """The files with each function that needs no more than its name."""
        found: dict[str, list[str]] = {}
        for path in self.paths:
            for name in _DEFINED.findall(self.text(path)) if path.endswith(_BARE) else ():
                found.setdefault(name, []).append(path)
        return found

    def program(self, path: str) -> _Program | None:
        """The program of a file, once its body has run."""
        if path not in self.programs and len(self.programs) < self.most:
            self.programs[path] = None
            whole = Source(path, self.text(path).encode("utf-8", "surrogateescape"))
            for source in programs_in(whole)[:1]:
                language = load_language(self.data, source.suffix)
                if language is not None and (tables := load_flows(source.suffix)) is not None:
                    reading = without_comments(read_program(source, language)[0], language)
                    code = Source(source.path, reading.text.encode())
                    program = _Program(code, reading.root, language, tables)
                    program.tree, program.path, program.marks_parameters = self, path, True
                    program.reached = self.reached
                    self.programs[path] = program
                    program.prepare()
        return self.programs.get(path)

    def functions(self, caller: _Program, called: str) -> Iterator[tuple[_Program, SgNode]]:
        """The functions of other files that a name may be."""
        parts = _CALLED.fullmatch(called)
        owner, name = (parts[1] or "", parts[2]) if parts else ("", "")
        last = re.split(r"[^\w-]", owner)[-1]
        home = caller.module.values.get(last, CLEAN).name.rpartition(".")[0]  # of an imported class
        stems = {*map(_plain, (owner or name, last, home)), _plain(last).removeprefix("i")}
        bare = not owner and _TWO_WORDS.search(name) is not None
        near = {path for stem in stems for path in self.by_stem.get(stem, ())}
        if caller.path.endswith(".go") and (not owner or _TWO_WORDS.search(name)):
            near.update(self.by_stem[_stem(caller.path)])
        if bare and caller.path.endswith(_BARE):
            near.update(self.by_function.get(name, ()))
        for path in sorted(near, key=lambda path: (-len(commonpath([path, caller.path])), path)):
            text = self.text(path) if name and path != caller.path else ""
            if f"{name}(" not in text and "exports" not in text and f"{name} " not in text:
                continue
            other = self.program(path)
            known = other.functions if other else {}
            for function in known.get(name, () if owner or bare else known.get("exports", ())):
                if other is not None and function.field("body") is not None:
                    yield other, function

    def callers(self, path: str, names: Iterable[str]) -> list[str]:
        """The files that may call functions of one."""
        stem = _stem(path)
        wanted = [f"{stem if name == 'exports' else name}(" for name in names]
        others = ((each, self.text(each)) for each in self.paths if each != path)
        near = (each for each, text in others if any(name in text for name in wanted))
        return list(islice((one for one in near if stem in _plain(self.text(one))), _MAX_CALLERS))


def run(job: DataJob) -> CheckReply:
    """Follow requests through the functions of a job's tree, from or to the job's files."""
    tree, changed = _Tree(job), set(job.paths)
    fresh, traced = [path for path in tree.paths if path in changed], set[str]()
    for _ in range(_LEVELS + 1):
        for program in filter(None, map(tree.program, fresh)):
            program.run()
        traced.update(fresh)
        names: dict[str, list[str]] = {}
        for place, _, name in (each.rpartition(" ") for each in sorted(tree.reached)):
            if name and place in fresh:
                names.setdefault(place, []).append(name)
        users = (each for path, own in names.items() for each in tree.callers(path, own))
        fresh = [path for path in dict.fromkeys(users) if path not in traced]
    found: dict[tuple[str, int, str], RawFinding] = {}
    for program in filter(None, tree.programs.values()):
        for flow in program.flows.values():
            if (one := program.finding(flow, changed)) is not None:
                found.setdefault((one.path, one.line, one.code), one)
    objects = find_boxed_getters(job.paths, tree.paths, tree.text)
    return CheckReply([*found.values(), *objects], job.paths)
