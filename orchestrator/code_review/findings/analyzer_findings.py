"""From an analyzer's report to evidence: located, compared with base, quoted and redacted."""

import re
from bisect import bisect_left
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from diffchecks.check_io import FlowStep, RawFinding
from diffchecks.enclosing_scopes import lines_without_scope, scopes_by_line
from diffchecks.jobs import ChangedFile
from diffchecks.new_findings import (
    RuledFinding,
    chosen_passwords,
    comparable,
    find_moved,
    find_new,
    identity,
    join_many,
    remove_white_space,
)
from diffchecks.path_kinds import vendored_directory
from diffchecks.rules import ImportedRule, Rule
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side
from orchestrator.code_review.analyzers.own_checks import call_check_in_batches
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.findings.located_findings import LocatedFinding, RejectedFinding
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.model import Cause
from orchestrator.engine.canonical_json import digest
from orchestrator.sandbox.worker_pool import WorkerPool

WITHHELD = "[withheld]"
UNSEARCHED = "Not shown, since it could hold a secret: this file could not be searched for any"
SECONDS = 10.0
"""For each call of a check about files; a usual one takes milliseconds."""
MAX_SEARCHED_PASSWORDS = 20
MAX_SEARCHED = 200
"""Findings whose texts are searched for in base: for more, all of base is analyzed instead."""

Introduced = tuple[tuple[LocatedFinding, ...], tuple[RejectedFinding, ...]]
"""The findings that a change introduces, those without a text to quote apart."""

NO_FINDINGS: Introduced = ((), ())


class _SideReader:
    """The files of one side, each read once, and checks over them."""

    def __init__(self, workspace: ReviewWorkspace, side: Side, pool: WorkerPool) -> None:
        self._workspace, self._side, self._pool = workspace, side, pool
        self._lines: dict[str, Sequence[str]] = {}

    def lines(self, path: str) -> Sequence[str]:
        """The lines of a file; none where it cannot be read."""
        if path not in self._lines:
            self._lines[path] = self._workspace.read(self._side, path)
        return self._lines[path]

    async def scopes(self, raws: Iterable[RawFinding]) -> Mapping[tuple[str, int], str]:
        """Path and line → enclosing scope; found in a worker, which may have to parse the file."""
        lines = lines_without_scope(raws)
        replies, _ = await self._call("enclosing_scopes:run", {"lines": lines}, lines)
        return scopes_by_line(replies, lines)

    async def quotes(
        self, findings: Mapping[str, RuledFinding]
    ) -> tuple[Mapping[str, Sequence[str]], Mapping[str, str]]:
        """What can be shown of findings; a worker searches the files for secrets first.

        Returns:
            Fingerprint → quote, message, detail, title, steps; and path → error where it failed.
        """
        cited: dict[str, dict[str, Any]] = {}
        for fingerprint, (_, raw) in findings.items():
            cited.setdefault(raw.path, {})[fingerprint] = {
                "line": raw.line,
                "end_line": raw.end_line,
                "redact": raw.redact,
                "texts": [
                    raw.message,
                    raw.detail,
                    raw.reported.title if raw.reported else "",
                    *(step.text for step in raw.steps),
                ],
            }
        return await self._call("redacted_text:redact_quotes", {"cited": cited}, cited)

    async def _call(
        self, function: str, job: Mapping[str, Any], paths: Iterable[str]
    ) -> tuple[Mapping[str, list[str]], Mapping[str, str]]:
        """The replies of a check as one, and path → error."""
        whole = {"root": str(self._side.root), **job}
        replies, errors = await call_check_in_batches(
            self._pool, function, whole, sorted(paths), SECONDS, dict[str, list[str]]
        )
        return ChainMap(*replies), errors


async def files_to_compare(
    workspace: ReviewWorkspace, head: AnalyzerReport, side: Side, files: Sequence[ChangedFile]
) -> Sequence[ChangedFile]:
    """The files whose base may hold a counterpart of a finding in head, and those with a gap.

    No other file of base has to be analyzed: see ``find_new`` for what a counterpart is. Files on a
    finding's flow are among them, because a taint check starts where a value comes from.

    Args:
        side: head.
    """
    counted = [raw for raw in head.findings if workspace.rules.find_for(head.tool, raw)]
    if len(counted) > MAX_SEARCHED or any(raw.key is not None for raw in counted):
        return files
    named = {raw.path for raw in counted} | {step.path for raw in counted for step in raw.steps}
    named.update(head.gaps)
    named.update(old for old, path in find_moved(files).items() if path in named)
    others = {f.old_path or f.path: f for f in files if f.in_base and f.path not in named}
    if counted and others:
        base, _ = await workspace.side("base", list(others))
        read = cache(partial(workspace.read, side))
        texts = CitedTexts(read(raw.path)[raw.line - 1 : raw.end_line] for raw in counted)
        named.update(
            file.path for old, file in others.items() if texts.occur_in(workspace.read(base, old))
        )
    return [file for file in files if file.path in named]


async def introduced_findings(
    workspace: ReviewWorkspace,
    pool: WorkerPool,
    base: AnalyzerReport,
    head: AnalyzerReport,
    sides: tuple[Side, Side],
    *,
    base_unknown: frozenset[str] = frozenset(),
) -> Introduced:
    """The findings of head's report that base's does not have.

    Args:
        base_unknown: files whose base could not be read; only their added lines count.
    """
    before, after = (_SideReader(workspace, side, pool) for side in sides)
    old = await _classify(workspace, base, before)
    # What lay among vendored code was never reviewed, so moving it out does not make it known.
    reviewed = [finding for finding in old if not _is_vendored(finding)]
    in_head = await _classify(workspace, head, after)
    vendored = [finding for finding in in_head if _is_vendored(finding)]
    others = [finding for finding in in_head if not _is_vendored(finding)]
    new = [
        finding
        for finding in (
            *find_new(reviewed, others, workspace.change.files),
            *find_new(old, vendored, workspace.change.files),
        )
        if (raw := finding[1]).path not in base_unknown or raw.line in workspace.added(raw.path)
    ]
    known = await _known_passwords(workspace, new)
    new = [finding for finding in new if not known.issuperset(chosen_passwords(finding) or {""})]
    return await _quote(assign_fingerprints(new, old), after)


async def _known_passwords(
    workspace: ReviewWorkspace, findings: Iterable[RuledFinding]
) -> set[str]:
    """The passwords that some file of base has as a value: nothing new becomes known."""
    known, git = set[str](), Git.of(workspace.change)
    passwords = {each for finding in findings for each in chosen_passwords(finding)}
    for password in sorted(passwords)[:MAX_SEARCHED_PASSWORDS]:
        value = f"[=:>\"'` ]{re.escape(password)}([\"'`<@;,[:space:]]|$)"
        grep = ("grep", "-qE", "-f", "-", workspace.change.base_tree, "--")
        if (await git.attempt(*grep, stdin=value.encode("utf-8", "surrogateescape"))).code == 0:
            known.add(password)
    return known


def _is_vendored(finding: RuledFinding) -> bool:
    return vendored_directory(finding[1].path) is not None


async def all_findings(
    workspace: ReviewWorkspace, pool: WorkerPool, report: AnalyzerReport, sides: tuple[Side, Side]
) -> Introduced:
    """The findings of a report that compares both sides itself: all are introduced."""
    quoted, rejected = NO_FINDINGS
    for in_base, side in zip((True, False), sides, strict=True):
        reader = _SideReader(workspace, side, pool)
        own = tuple(raw for raw in report.findings if raw.in_base is in_base)
        findings = join_many(await _classify(workspace, replace(report, findings=own), reader))
        more = await _quote(assign_fingerprints(findings), reader)
        quoted, rejected = quoted + more[0], rejected + more[1]
    return quoted, rejected


async def _classify(
    workspace: ReviewWorkspace, report: AnalyzerReport, files: _SideReader
) -> list[RuledFinding]:
    """The findings of a report that a rule is on for, each with what it is compared by."""
    counted = (_on_lines_of_git(raw, files) for raw in report.findings)
    rules = [(raw, workspace.rules.find_for(report.tool, raw)) for raw in counted]
    kept = [(rule, raw) for raw, rule in rules if rule]
    scopes = await files.scopes(raw for _, raw in kept)
    return [(rule, comparable(raw, files.lines, scopes)) for rule, raw in kept]


def _on_lines_of_git(raw: RawFinding, files: _SideReader) -> RawFinding:
    """The finding on lines that end in a line feed, as git counts them.

    To Python and others a carriage return alone ends a line too, so that they may name a line
    that the file does not have.
    """
    lines = files.lines(raw.path)
    if raw.end_line <= len(lines) or not any("\r" in line for line in lines):
        return raw
    ends = list(accumulate(line.removesuffix("\r").count("\r") + 1 for line in lines))

    def line_of(number: int) -> int:
        return min(bisect_left(ends, number) + 1, len(lines))

    steps = tuple(
        replace(step, line=line_of(step.line)) if step.path == raw.path else step
        for step in raw.steps
    )
    return replace(
        raw, line=line_of(raw.line), end_line=line_of(raw.end_line), column=0, steps=steps, edits=()
    )


async def _quote(findings: Mapping[str, RuledFinding], files: _SideReader) -> Introduced:
    quoted: list[LocatedFinding] = []
    rejected: list[RejectedFinding] = []
    quotes, errors = await files.quotes(findings)
    for fingerprint, (rule, raw) in findings.items():
        why = errors.get(raw.path, "it could not be read")
        shown = quotes.get(fingerprint, (WITHHELD, f"{UNSEARCHED} ({why})", "", ""))
        located = _locate(rule, raw, fingerprint, shown)
        if 1 <= raw.line <= len(files.lines(raw.path)) and located.quote.strip():
            quoted.append(located)
        else:
            reason = f"there is no text at {raw.path}:{raw.line} in {located.side} to quote"
            rejected.append(RejectedFinding(located, reason))
    return tuple(quoted), tuple(rejected)


def _locate(rule: Rule, raw: RawFinding, fingerprint: str, shown: Sequence[str]) -> LocatedFinding:
    quote, message, detail, title, *steps = shown  # in the order of the worker's reply
    return LocatedFinding(
        fingerprint=fingerprint,
        rule=rule.id,
        severity=rule.severity_of(raw),
        category=rule.category,
        cwe=rule.cwe,
        confidence=raw.confidence,
        title=(title or rule.id) if isinstance(rule, ImportedRule) else rule.title,
        detail="\n".join(filter(None, (message, detail))),
        fix_suggestion=rule.advice(raw.code),
        path=raw.path,
        side="base" if raw.in_base else "head",
        start_line=raw.line,
        end_line=raw.end_line,
        start_column=raw.column,
        quote=quote,
        because_of=Cause(raw.removed_path, raw.removed_line, True) if raw.removed_line else None,
        # Without texts, when the file could not be searched for secrets.
        steps=tuple(
            FlowStep(step.path, step.line, text)
            for step, text in zip(raw.steps, steps, strict=False)
        ),
        edits=raw.edits,
    )


_WORD = re.compile(r"\w+")


class CitedTexts:
    """The lines that findings cite, to find the files that hold them as well."""

    def __init__(self, cited: Iterable[Sequence[str]]) -> None:
        self._texts: dict[str, str] = {}
        for lines in cited:
            words = _WORD.findall("\n".join(lines))
            self._texts[remove_white_space(lines)] = max(words, key=len, default="")

    def occur_in(self, lines: Sequence[str]) -> bool:
        """Whether a file holds the text of one of them, white space aside."""
        whole = "\n".join(lines)
        likely = [text for text, word in self._texts.items() if word in whole]
        if not likely:
            return False
        bare = remove_white_space(lines)
        return any(text in bare for text in likely)


def assign_fingerprints(
    findings: Iterable[RuledFinding], base: Iterable[RuledFinding] = ()
) -> Mapping[str, RuledFinding]:
    """Findings by fingerprint, in reading order; 16 hex digits, stable across runs.

    Args:
        base: findings that are numbered first, so that a further equal finding gets a new
            fingerprint: that of an old one may be waived.
    """
    counts = Counter((*identity(finding), finding[1].path) for finding in base)
    numbered: dict[str, RuledFinding] = {}
    for finding in sorted(
        findings, key=lambda found: (found[1].path, found[1].line, *identity(found)[:2])
    ):
        place = (*identity(finding), finding[1].path)
        numbered[digest([*place, counts[place]])[:16]] = finding
        counts[place] += 1
    return numbered
