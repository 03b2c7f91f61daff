"""Tries proposed fixes on the samples that the tools are tested by.

A proposal is good where its edits apply, every tool that reads the file can still read it, the
finding is gone, and no tool that ran says anything new.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from diffchecks import DATA, infrastructure, patterns, sql, syntax_and_duplicates, taint, templates
from diffchecks.check_io import CheckReply, Edit, RawFinding
from diffchecks.fixes.template_edits import run as propose
from diffchecks.patterns.pattern_loading import load
from orchestrator.code_review.analyzer_types import Side
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.fix_kit import apply
from tests.diffchecks.infrastructure import infrastructure_kit
from tests.diffchecks.patterns import test_pattern_files, test_samples
from tests.diffchecks.programs import (
    docker_samples,
    ruff_samples,
    ruff_security_samples,
    shell_samples,
    test_oxlint,
    workflow_samples,
)
from tests.diffchecks.programs.program_tools import MAKES
from tests.diffchecks.programs.ruff_text import IMPORTS
from tests.diffchecks.sql_samples import SAMPLES as SQL
from tests.diffchecks.taint.taint_pairs import LIBRARY_MODELS, pairs
from tests.diffchecks.templates.test_templates import planted
from tests.review.analyzers.conftest import put, table

TEMPLATES = sorted(str(file) for file in (DATA / "fixes").glob("*.yaml"))
CHECKS: Mapping[str, Callable[[Any], CheckReply]] = {
    "patterns": patterns.run,
    "infrastructure": infrastructure.run,
    "sql": sql.run,
    "templates": templates.run,
    "taint": taint.run,
}
_OPTIONS: Mapping[str, Mapping[str, object]] = {
    "patterns": {"data": test_pattern_files.FILES, "codes": test_pattern_files.CODES},
    "infrastructure": {"data": infrastructure_kit.FILES},
    "taint": {"data": LIBRARY_MODELS},
}


@dataclass(frozen=True)
class Sample:
    """A file with a defect, and the tool that knows it."""

    tool: str
    path: str
    text: str


@dataclass
class Trial:
    """A finding of a sample, its proposals, and what became of the file with each of them."""

    number: int
    sample: Sample
    finding: RawFinding
    rule: str
    proposals: list[Sequence[Edit]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether one of its proposals is."""
        return "" in self.troubles


def samples() -> Iterator[Sample]:
    """Every positive sample of the tools that look at one file at a time."""
    yield from _samples_of_programs()
    yield from _samples_of_patterns()
    for several in SQL.values():
        yield from (Sample("sql", "a.sql", bad) for bad, _ in several)
    for path, bad, _ in infrastructure_kit.cases().values():
        yield Sample("infrastructure", path, bad)
    for kind in sorted(infrastructure_kit.SAMPLES):
        for each in infrastructure_kit.samples(kind):
            yield Sample("infrastructure", each["path"], each["bad"])
    for page in planted():
        yield Sample("templates", page["name"], page["bad"])
    for case in pairs():
        if len(case.bad) == 1:
            yield Sample("taint", "case.py", case.bad["case.py"])


def _samples_of_programs() -> Iterator[Sample]:
    for code, (bad, _) in {**ruff_samples.SAMPLES, **ruff_security_samples.SAMPLES}.items():
        head = "" if code in {"F401", "F404", "F407"} else IMPORTS
        yield Sample("ruff", "a.py", head + bad)
    for tool, name, given in (
        ("shellcheck", "a.sh", shell_samples.SAMPLES),
        ("hadolint", "Dockerfile", docker_samples.SAMPLES),
        ("oxlint", "a.js", test_oxlint.SAMPLES),
    ):
        yield from (Sample(tool, name, bad) for bad, _ in given.values())
    for path, bad, _ in workflow_samples.SAMPLES.values():
        yield Sample("zizmor", path, bad)


def _samples_of_patterns() -> Iterator[Sample]:
    for language in load(tuple(test_pattern_files.FILES)):
        for pattern in language.patterns:
            suffix = test_pattern_files.example_suffix(pattern, language)
            yield Sample("patterns", f"a{suffix}", pattern.bad)
    for name in sorted(test_samples.SAMPLES):
        suffix = test_samples.SUFFIXES.get(name, f".{name}")
        for pair in test_samples.planted(name):
            yield Sample("patterns", f"a{pair.get('suffix', suffix)}", pair["bad"])


def try_all(root: Path, given: Sequence[Sample]) -> list[Trial]:
    """Look for the findings of samples, ask for fixes of them, and look at what these make."""
    before = {number: found or () for number, found in enumerate(_look(root / "bad", given))}
    trials = [
        Trial(number, given[number], finding, rule.id)
        for number, findings in before.items()
        for finding in findings
        if (rule := table().find(given[number].tool, finding.code))
    ]
    _ask(root / "bad", trials)
    fixed = [
        (trial, Sample(trial.sample.tool, trial.sample.path, text))
        for trial in trials
        for text in trial.results
    ]
    after = _look(root / "fixed", [sample for _, sample in fixed])
    for (trial, sample), findings in zip(fixed, after, strict=True):
        trial.troubles.append(_trouble(trial, sample, before[trial.number], findings))
    return trials


def _ask(root: Path, trials: Sequence[Trial]) -> None:
    """Fill in the proposals: those of the tool, then those of templates."""
    asked = {
        f"{number}": {
            "fingerprint": f"{number}",
            "path": f"{trial.number}/{trial.sample.path}",
            "rule": trial.rule,
            "line": trial.finding.line,
            "end_line": trial.finding.end_line,
            "column": trial.finding.column,
        }
        for number, trial in enumerate(trials)
    }
    paths = sorted({str(each["path"]) for each in asked.values()})
    job = {"paths": paths, "templates": TEMPLATES, "findings": list(asked.values())}
    found = propose({"root": str(root), **job})
    for number, trial in enumerate(trials):
        own = [trial.finding.edits] if trial.finding.edits else []
        trial.proposals = [*own, *found.get(f"{number}", ())][:3]
        trial.results = [apply(trial.sample.text, edits) for edits in trial.proposals]


def _look(root: Path, given: Sequence[Sample]) -> list[Sequence[RawFinding] | None]:
    """The findings in each sample; None where its tool could not read it."""
    found: list[Sequence[RawFinding] | None] = [()] * len(given)
    for tool in sorted({sample.tool for sample in given}):
        own = [number for number, sample in enumerate(given) if sample.tool == tool]
        if tool in MAKES:
            found_now = _run_program(root, tool, {number: given[number] for number in own})
        else:
            found_now = {number: _run_check(root, number, given[number]) for number in own}
        for number, findings in found_now.items():
            found[number] = findings
    return found


def _run_program(
    root: Path, tool: str, given: Mapping[int, Sample]
) -> Mapping[int, Sequence[RawFinding] | None]:
    # Where the kind of a file follows from its place, that place begins the path.
    def place(number: int, path: str) -> str:
        if tool != "zizmor":
            return f"{number}/{path}"
        return path.replace(".yml", f"{number}.yml") if "workflows" in path else f"{number}/{path}"

    paths = {place(number, sample.path): number for number, sample in given.items()}
    side = put(root, {path: given[number].text for path, number in paths.items()})
    for number, sample in given.items():
        put(root, {f"{number}/{sample.path}": sample.text})
    report = anyio.run(MAKES[tool](table().codes(tool)).run, Side("head", side.root), list(paths))
    assert report.error is None
    found: dict[int, Sequence[RawFinding] | None] = {number: [] for number in given}
    for raw in report.findings:
        number = paths[raw.path]
        found[number] = [*(found[number] or ()), raw]
    return found | {paths[path]: None for path in report.gaps}


def _run_check(root: Path, number: int, sample: Sample) -> Sequence[RawFinding] | None:
    put(root / str(number), {sample.path: sample.text})
    job = {"root": str(root / str(number)), "paths": [sample.path], "tree": [sample.path]}
    reply = run_check(CHECKS[sample.tool], {**job, **_OPTIONS.get(sample.tool, {})})
    return None if reply.gaps else reply.findings


def new_elsewhere(root: Path, trials: Sequence[Trial]) -> list[tuple[str, str, str]]:
    """What tools beside the one that knows the sample say of the first good result only.

    Returns:
        The rule that was fixed, the new code, and the result.
    """
    results = [trial.results[trial.troubles.index("")] for trial in trials]
    sides = {
        kind: {f"{n}/{trial.sample.path}": text for n, (trial, text) in enumerate(pairs_)}
        for kind, pairs_ in (
            ("before", [(trial, trial.sample.text) for trial in trials]),
            ("after", list(zip(trials, results, strict=True))),
        )
    }
    said = {kind: _said_by_all(put(root / kind, files), files) for kind, files in sides.items()}
    return [
        (trial.rule, code, results[n])
        for n, trial in enumerate(trials)
        for code in said["after"].get(n, Counter()) - said["before"].get(n, Counter())
    ]


def _said_by_all(side: Side, files: Mapping[str, str]) -> Mapping[int, Counter[str]]:
    """Number of a trial -> how often each code is reported, or a tool cannot read the file."""
    said: dict[int, Counter[str]] = {}

    def add(tool: str, findings: Iterable[RawFinding], gaps: Iterable[str]) -> None:
        for path, code in [
            *((raw.path, raw.code) for raw in findings),
            *((g, "gap") for g in gaps),
        ]:
            said.setdefault(int(path.partition("/")[0]), Counter())[f"{tool}:{code}"] += 1

    for tool, make in MAKES.items():
        if tool == "typos":
            continue  # no fix is about words
        analyzer = make(table().codes(tool))
        report = anyio.run(analyzer.run, side, [path for path in files if analyzer.wants(path)])
        assert report.error is None
        add(tool, report.findings, report.gaps)
    job = {"root": str(side.root), "paths": list(files)}
    for tool in ("patterns", "infrastructure", "templates", "sql"):
        reply = run_check(CHECKS[tool], {**job, **_OPTIONS.get(tool, {})})
        add(tool, reply.findings, reply.gaps)
    reply = run_check(syntax_and_duplicates.run, job)
    add("parse_check", reply.findings, reply.gaps)
    return said


def _trouble(
    trial: Trial, sample: Sample, before: Sequence[RawFinding], after: Sequence[RawFinding] | None
) -> str:
    """Why a proposal is not good; empty where it is."""
    if after is None:
        return "cannot be read"
    if sample.path.endswith(".py"):
        try:
            ast.parse(sample.text)
        except SyntaxError as error:
            return f"does not parse: {error}"
    left = Counter(raw.code for raw in after)
    had = Counter(raw.code for raw in before)
    if left[trial.finding.code] >= had[trial.finding.code]:
        return "is found again"
    new = left - had
    return f"brings {', '.join(sorted(new))}" if new else ""
