"""Two runs side by side: outcome, scores, cost, and the findings that only one of them has."""

import re
from collections.abc import Callable

from msgspec import Struct
from starlette.responses import Response

from orchestrator.app.runs.run_details import RunDetails
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import InputError
from orchestrator.report.ranking import open_findings
from orchestrator.web.runs.run_pages import meters_of
from orchestrator.web.site import Visit

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


def show_comparison(load: Callable[[str], RunDetails], visit: Visit) -> Response:
    """The two runs that the URL names, as ``load`` reads them."""
    names = visit.query.getlist("run")
    if len(names) != 2:
        raise InputError(f"choose two runs to compare, not {len(names)}")
    left, right = (load(name) for name in names)
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
