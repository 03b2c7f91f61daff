"""One run: overview, findings, timeline, calls, and journal; and two runs side by side."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from orchestrator.app.finding_excerpts import ExcerptLine, FileExcerpt, read_change, read_excerpts
from orchestrator.app.human_decisions.run_decisions import GRANTED
from orchestrator.app.runs.run_details import RunDetails, describe_call, load_details, verify_rows
from orchestrator.app.runs.run_index import CachedRunIndex, RunSummary
from orchestrator.app.runs.run_record import EffectSpan
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.errors import InputError, RunNotFound
from orchestrator.foreign_json import parse_json
from orchestrator.report.formats.html_page import run_sections
from orchestrator.report.formats.html_page.findings import render_findings, render_lines
from orchestrator.report.formats.html_page.run_sections import TimelineWindow
from orchestrator.report.ranking import AT_LENGTH, headline, open_findings, rank_findings
from orchestrator.web.runs.decisions import RunProcesses
from orchestrator.web.runs.run_list import chosen_page
from orchestrator.web.site import Visit

ROWS_PER_PAGE = 200
CALLS_PER_PAGE = FINDINGS_PER_PAGE = 100
MAX_KEPT = 8
"""Runs that are kept, for the next page of one."""
MAX_BODY = 300
"""Characters of a row that the journal's page shows."""
LIMITS = {"usd": "US dollars", "tokens": "Tokens", "tool_calls": "Tool calls", "minutes": "Minutes"}


class Meter(Struct, frozen=True):
    """A part of the budget: the used amount and the limit; None: no known limit."""

    name: str
    used: float
    limit: float | None
    money: bool = False

    @property
    def percent(self) -> float:
        """How much of the limit is used, at most 100."""
        return min(100 * self.used / self.limit, 100.0) if self.limit else 0.0


def live_meters(run: RunSummary) -> list[Meter]:
    """What a run without a verdict has used so far, by its journal."""
    if run.record is None:
        return []
    spent = run.record.spent
    return _meters(spent.usd, spent.tokens, spent.tool_calls, run.record.seconds, run.limits)


def meters_of(found: RunDetails) -> list[Meter]:
    """The budget of a run, by its verdict or else its journal."""
    if found.verdict is None:
        return live_meters(found.summary)
    used = found.verdict.usage
    tokens = used.input_tokens + used.output_tokens
    return _meters(used.usd, tokens, used.tool_calls, used.seconds, used.limits)


def _meters(
    usd: float, tokens: float, tool_calls: float, seconds: float, limits: Mapping[str, float]
) -> list[Meter]:
    def limit(name: str) -> float | None:
        value = limits.get(name)
        return value if value and isfinite(value) else None

    return [
        Meter("Cost", usd, limit("usd"), money=True),
        Meter("Tokens", tokens, limit("tokens")),
        Meter("Tool calls", tool_calls, limit("tool_calls")),
        Meter("Minutes", seconds / 60, limit("minutes")),
    ]


class RunPages:
    """The pages of one run of an index."""

    def __init__(
        self,
        index: CachedRunIndex,
        processes: RunProcesses,
        finding_actions: Callable[[Visit, RunDetails, Finding], Markup],
    ) -> None:
        self._index, self._processes = index, processes
        self._finding_actions = finding_actions
        self._kept: dict[str, tuple[str, RunDetails]] = {}

    def load(self, run_id: str) -> RunDetails:
        """A run of any of the repositories, read again when a journal has changed."""
        mark = self._index.mark()
        known = self._kept.get(run_id)
        if known is not None and known[0] == mark:
            return known[1]
        for repo in self._index.repos:
            try:
                found = load_details(repo, run_id)
            except RunNotFound:
                continue
            self._kept = dict([*self._kept.items(), (run_id, (mark, found))][-MAX_KEPT:])
            return found
        raise RunNotFound(f"there is no run {run_id} here; it may have been removed")

    def _render(self, visit: Visit, tab: str, found: RunDetails, **context: Any) -> Response:
        run = found.summary
        return visit.render(
            f"runs/{tab}.html",
            title=f"{run.name}, {run.run_id}",
            tab=tab,
            run=run,
            found=found,
            verdict=found.verdict,
            record=found.record,
            process=self._processes.state_of(run.run_id),
            **context,
        )

    def overview(self, visit: Visit) -> Response:
        """The state of the run, what waits for a person, scores, decisions, cost."""
        found = self.load(visit.values["run"])
        verdict, record = found.verdict, found.record
        state = record.states[-1].name if record.states else ""
        states = {} if found.summary.is_of_program else FLOW.states
        targets = states[state].targets if state in states else ()
        visited = {step.name for step in record.states}
        return self._render(
            visit,
            "overview",
            found,
            meters=meters_of(found),
            targets=targets,
            unvisited=[name for name in states if name not in visited],
            grants=_raisable(found),
            sections=run_sections.render_coverage(verdict) if verdict else "",
            headline=headline(verdict) if verdict else "",
            top=[*chain(*rank_findings(verdict).at_length)][:AT_LENGTH] if verdict else [],
        )

    def findings(self, visit: Visit) -> Response:
        """Findings on the lines of the change, by page; ``at`` names one of the page."""
        found, html, page, pages = self.load(visit.values["run"]), Markup(), 1, 1
        if found.verdict is not None:
            shown = rank_findings(found.verdict).in_order
            at = [place for place, one in enumerate(shown) if one.id == visit.query.get("at")]
            _, page, pages = chosen_page(visit, shown, FINDINGS_PER_PAGE)
            page = at[0] // FINDINGS_PER_PAGE + 1 if at else page
            part = slice((page - 1) * FINDINGS_PER_PAGE, page * FINDINGS_PER_PAGE)
            here = replace(found.verdict, findings=tuple(shown[part]))

            def actions(finding: Finding) -> Markup:
                return self._finding_actions(visit, found, finding)

            html = render_findings(
                found.verdict,
                read_excerpts(found.summary.repo, here),
                actions,
                part=part,
                link="?at={0.id}#{0.id}".format,
            )
        return self._render(visit, "findings", found, html=html, page=page, pages=pages)

    def change(self, visit: Visit) -> Response:
        """The lines of the change, with the findings at them."""
        found = self.load(visit.values["run"])
        verdict = found.verdict
        files = split_into_pages(read_change(found.summary.repo, verdict) if verdict else [])
        (shown,), page, pages = chosen_page(visit, files, 1)
        reported = open_findings(verdict) if verdict else []
        shown_files = [
            _show_file(file, [finding for finding in reported if finding.path == file.path])
            for file in shown
        ]
        return self._render(visit, "change", found, files=shown_files, page=page, pages=pages)

    def timeline(self, visit: Visit) -> Response:
        """Lanes of a part of the run, and the calls in it."""
        found = self.load(visit.values["run"])
        record, run_id = found.record, quote(found.summary.run_id)
        whole = run_sections.whole_window(record)
        window = _window_of(visit, whole)
        base = f"/runs/{run_id}/timeline"

        def link(start: float, end: float) -> str:
            start, end = max(start, 0.0), min(end, whole.end)
            return f"{base}?{urlencode({'from': f'{start:.3f}', 'to': f'{end:.3f}'})}"

        def lane_link(span: EffectSpan) -> str:
            return visit.site.url(link(span.at, span.at + (span.seconds or record.seconds)))

        def call_link(span: EffectSpan) -> str:
            return visit.site.url(f"/runs/{run_id}/calls/{span.row}")

        spans = run_sections.in_window(record.spans, window)
        shown, page, pages = chosen_page(visit, spans, CALLS_PER_PAGE)
        middle, half = (window.start + window.end) / 2, window.seconds / 2
        return self._render(
            visit,
            "timeline",
            found,
            lanes=run_sections.render_timeline(record, window, lane_link, call_link),
            window=window,
            whole=whole,
            zoom={
                "Zoom in": link(middle - half / 2, middle + half / 2),
                "Zoom out": link(middle - half * 2, middle + half * 2),
                "Earlier": link(window.start - half, max(window.end - half, window.seconds)),
                "Later": link(window.start + half, window.end + half),
                "Whole run": base,
            },
            spans=shown,
            count=len(spans),
            page=page,
            pages=pages,
            query={"from": f"{window.start:.3f}", "to": f"{window.end:.3f}"},
        )

    def call(self, visit: Visit) -> Response:
        """The request and result of one call."""
        found = self.load(visit.values["run"])
        given = visit.values["row"]
        if not (given.isascii() and given.isdigit() and len(given) < 9):
            raise RunNotFound("no call has this name")
        return self._render(visit, "call", found, call=describe_call(found, int(given)))

    def journal(self, visit: Visit) -> Response:
        """The rows by page, and whether their hash chain is intact."""
        found = self.load(visit.values["run"])
        rows, page, pages = chosen_page(visit, found.rows, ROWS_PER_PAGE)
        return self._render(
            visit,
            "journal",
            found,
            checked=verify_rows(found),
            rows=[(row, row.at - found.rows[0].at, _shortened(row.body)) for row in rows],
            began={span.row for span in found.record.spans},
            page=page,
            pages=pages,
        )

    def compare(self, visit: Visit) -> Response:
        """The two runs that the URL names."""
        names = visit.query.getlist("run")
        if len(names) != 2:
            raise InputError(f"choose two runs to compare, not {len(names)}")
        left, right = map(self.load, names)
        return _compare(visit, left, right)


def _window_of(visit: Visit, whole: TimelineWindow) -> TimelineWindow:
    """The window in the URL, within the run; the whole run without one."""
    try:
        start, end = float(visit.query.get("from", 0)), float(visit.query.get("to", whole.end))
    except ValueError:
        return whole
    if not (isfinite(start) and isfinite(end)):
        return whole
    start, end = max(start, 0.0), min(end, whole.end)
    return TimelineWindow(start, end) if start < end else whole


def _raisable(found: RunDetails) -> list[tuple[str, str, float]]:
    """Option, name and present value of each limit, if one of them stopped the run."""
    verdict = found.verdict
    if verdict is None or verdict.stop.reason != "budget":
        return []
    limits = verdict.usage.limits
    return [(option, LIMITS[name], limits.get(name, 0)) for option, name in GRANTED.items()]


def _shortened(body: bytes) -> str:
    """The beginning of a row's body, without the digest that every effect has."""
    try:
        loaded = parse_json(body)
    except ValueError:
        return body[:MAX_BODY].decode("utf-8", "replace")
    if isinstance(loaded, dict):
        loaded.pop("request", None)
    return json.dumps(loaded, ensure_ascii=False)[:MAX_BODY]


LINES_PER_PAGE = 1_500


class ShownFile(Struct, frozen=True):
    """One file of a change, with its open findings; ``html`` is empty without lines."""

    path: str
    added: int
    removed: int
    findings: Sequence[Finding]
    html: Markup
    omitted: int


def split_into_pages(files: Sequence[FileExcerpt]) -> list[list[FileExcerpt]]:
    """The files in pages of limited length; a longer file has its own page."""
    pages: list[list[FileExcerpt]] = [[]]
    lines = 0
    for file in files:
        if pages[-1] and lines + len(file.lines) > LINES_PER_PAGE:
            pages.append([])
            lines = 0
        pages[-1].append(file)
        lines += len(file.lines)
    return pages


def _show_file(file: FileExcerpt, findings: Sequence[Finding]) -> ShownFile:
    heads = {n for f in findings if f.evidence.side == "head" for n in _lines_of(f)}
    bases = {n for f in findings if f.evidence.side == "base" for n in _lines_of(f)}

    def is_cited(line: ExcerptLine) -> bool:
        return line.new in heads or line.old in bases

    kinds = [line.kind for line in file.lines]
    html = render_lines("Change of", file.path, file.lines, is_cited) if file.lines else Markup()
    return ShownFile(
        file.path, kinds.count("added"), kinds.count("removed"), findings, html, file.omitted
    )


def _lines_of(finding: Finding) -> range:
    return range(finding.start_line, finding.end_line + 1)


FORMS = {"Cost": "${:,.4f}", "Tokens": "{:,.0f}", "Tool calls": "{:,.0f}", "Minutes": "{:,.2f}"}
_DIGEST = re.compile(r"[0-9a-f]{40,}")


class ValuePair(Struct, frozen=True):
    """A value of two runs, each of which may be None; ``form`` formats it."""

    name: str
    left: float | None
    right: float | None
    form: str = "{:.2f}"

    @property
    def change(self) -> float | None:
        """The difference, right minus left."""
        return None if self.left is None or self.right is None else self.right - self.left


def _compare(visit: Visit, left: RunDetails, right: RunDetails) -> Response:
    """Two runs side by side: outcome, scores, cost, and the findings that only one of them has."""
    if left.summary.started > right.summary.started:
        left, right = right, left
    for one in (left, right):
        if one.verdict is None:
            raise InputError(f"{one.summary.run_id} has no verdict yet")
    before, after = left.verdict, right.verdict
    assert before is not None
    assert after is not None
    old, new = open_findings(before), open_findings(after)
    of_old, of_new = ({one.identity: one for one in found} for found in (old, new))
    meters = zip(meters_of(left), meters_of(right), strict=True)
    return visit.render(
        "runs/compare.html",
        title="Two runs",
        left=left,
        right=right,
        only_left=[one for one in old if one.identity not in of_new],
        only_right=[one for one in new if one.identity not in of_old],
        both=[(one, of_new[one.identity]) for one in old if one.identity in of_new],
        same_change=before.change == after.change,
        scores=_scores(before, after),
        costs=[ValuePair(one.name, one.used, two.used, FORMS[one.name]) for one, two in meters],
        provenance=_provenance(before, after),
    )


def _scores(before: Verdict, after: Verdict) -> list[ValuePair]:
    old = {one.id: one.score for one in before.score.criteria}
    new = {one.id: one.score for one in after.score.criteria}
    total = ValuePair("total", before.score.total, after.score.total)
    return [total, *(ValuePair(name, old.get(name), new.get(name)) for name in {**old, **new})]


def _provenance(before: Verdict, after: Verdict) -> list[tuple[str, str, str]]:
    """Differences in what decided the runs: models, rubric, agents, configuration."""
    one, two = before.provenance, after.provenance
    rows = [
        ("version", one.version, two.version),
        ("models", ", ".join(one.models) or one.provider, ", ".join(two.models) or two.provider),
        ("policy", one.policy_commit or "", two.policy_commit or ""),
    ]
    for old, new in ((one.digests, two.digests), (one.analyzers, two.analyzers)):
        rows += [(name, old.get(name, ""), new.get(name, "")) for name in sorted({**old, **new})]
    return [(name, _shorten(left), _shorten(right)) for name, left, right in rows if left != right]


def _shorten(text: str) -> str:
    """The beginning of a digest; any other text as it is."""
    return text[:12] if _DIGEST.fullmatch(text) else text
