"""The page on which people label items, by keys or buttons, without seeing scores or verdicts."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import median
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markupsafe import Markup
from msgspec import Struct, field
from starlette.responses import Response

from orchestrator.app.finding_excerpts import ExcerptLine, read_change
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.types import Criterion
from orchestrator.errors import InputError
from orchestrator.report.findings_text import format_location
from orchestrator.report.formats.html_page.findings import render_excerpt, render_lines
from orchestrator.report.ranking import open_findings
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.labels import label_files
from orchestrator.tuning.labels.label_files import Label, LabelQuestion, Value
from orchestrator.web.site import FormAction, SitePage, SitePart, Visit
from orchestrator.wording import count_noun

if TYPE_CHECKING:
    from orchestrator.tuning.labels.label_assessment import RaterAgreement

MAX_TEXT = 20_000
"""Characters of an item's text."""
MAX_LINES = 1_000
"""Lines of an item's context, and of each file of a change."""


class LabelingTask(Struct, frozen=True):
    """The items to label and the label file.

    Attributes:
        reviews: the runs among them, by id.
        list_questions: returns the items for a rater, in order, given the labels of the file.
        answers: key → label.
        criteria: are labeled as well.
    """

    items: Sequence[Item]
    reviews: Mapping[str, Verdict]
    repo: Path | None
    path: Path
    list_questions: Callable[[Sequence[Label], str], list[LabelQuestion]]
    answers: Mapping[str, Value]
    criteria: Sequence[Criterion] = ()


class _RaterSession(Struct):
    """A rater's session.

    Attributes:
        at: index into ``todo`` of the current item.
        given: indices of the labeled items, in order.
        times: when they were, in seconds.
        note: of a label that was undone, to be changed.
    """

    todo: list[LabelQuestion]
    at: int = 0
    given: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    note: str = ""

    def describe_time_left(self) -> str:
        """By the median pace, which a break does not change; empty before it is known."""
        gaps = [after - before for before, after in pairwise(self.times[-21:])]
        if len(gaps) < 3:
            return ""
        minutes = ceil(median(gaps) * (len(self.todo) - self.at) / 60)
        return f"about {count_noun(minutes, 'minute')} left"


class LabelingPage:
    """The pages and actions of a labeling task."""

    def __init__(self, task: LabelingTask) -> None:
        self._task = task
        self._sessions: dict[str, _RaterSession] = {}
        self._lock = Lock()
        self._groups = {item.id: item.group for item in task.items}

    def part(self) -> SitePart:
        """The part of a site."""
        return SitePart(
            [
                SitePage("/", self._show),
                FormAction("/label", self._label),
                FormAction("/skip", self._skip),
                FormAction("/undo", self._undo),
                FormAction("/again", self._again),
            ],
            title="Label",
            filters={
                "place": format_location,
                "excerpt": lambda finding: render_excerpt(finding, ()),
                "diff": lambda file, n: render_lines(
                    f"Diff {n}", file.path, file.lines[:MAX_LINES]
                ),
                "left_out": lambda file: max(len(file.lines) - MAX_LINES, 0) + file.omitted,
            },
        )

    def _read(self) -> list[Label]:
        return label_files.read_labels([self._task.path]) if self._task.path.exists() else []

    def _session_of(self, visit: Visit) -> _RaterSession:
        rater = visit.person.name
        if rater not in self._sessions:
            self._sessions[rater] = _RaterSession(self._task.list_questions(self._read(), rater))
        return self._sessions[rater]

    def _show(self, visit: Visit) -> Response:
        rater, labels = visit.person.name, self._read()
        with self._lock:
            session = self._session_of(visit)
            # The same person may label at the terminal too.
            done = {x.item for x in labels if x.rater == rater}
            while session.at < len(session.todo) and session.todo[session.at].item.id in done:
                if session.todo[session.at].earlier is not None:
                    break
                session.at += 1
            common: dict[str, Any] = {
                "at": session.at,
                "total": len(session.todo),
                "given": len(session.given),
                "time_left": session.describe_time_left(),
                "labels_file": str(self._task.path),
                "labeled": len(done & self._groups.keys()),
                "agreement": self._describe_agreement(labels, rater),
            }
            if session.at == len(session.todo):
                skipped = sum(q.item.id not in done for q in session.todo)
                return visit.render("labeled.html", title="All labeled", skipped=skipped, **common)
            question, note = session.todo[session.at], session.note
        earlier = question.earlier
        return visit.render(
            "label.html",
            title=f"{session.at + 1} of {len(session.todo)}",
            adjudicates=question.adjudicates,
            item=question.item.id,
            earlier="" if earlier is None else _name_value(earlier.label),
            earlier_note="" if earlier is None else earlier.note,
            note=note,
            answers=[(key, _name_value(value)) for key, value in self._task.answers.items()],
            criteria=self._task.criteria,
            **self._describe_item(question.item),
            **common,
        )

    def _label(self, visit: Visit) -> Response:
        answer = visit.form.get("answer", "")
        if answer not in self._task.answers:
            return visit.redirect("/", f"Choose one of {', '.join(self._task.answers)}.")
        criteria = {
            c.id: self._task.answers[given]
            for c in self._task.criteria
            if (given := visit.form.get(f"criteria.{c.id}", "")) in self._task.answers
        }
        with self._lock:
            session = self._session_of(visit)
            if not self._is_asked(session, visit):
                return visit.redirect("/")
            question = session.todo[session.at]
            note = " ".join(visit.form.get("note", "").split())
            label_files.add_label(
                self._task.path,
                Label(
                    question.item.id, visit.person.name, self._task.answers[answer], criteria,
                    note, label_files.now(), question.drawn, adjudicates=question.adjudicates,
                ),
            )  # fmt: skip
            session.given.append(session.at)
            session.times.append(monotonic())
            session.at, session.note = session.at + 1, ""
        return visit.redirect("/")

    def _skip(self, visit: Visit) -> Response:
        with self._lock:
            session = self._session_of(visit)
            if self._is_asked(session, visit):
                session.at, session.note = session.at + 1, ""
        return visit.redirect("/")

    def _is_asked(self, session: _RaterSession, visit: Visit) -> bool:
        """Whether a form is of the current item, not an earlier one that was sent twice."""
        return session.at < len(session.todo) and session.todo[
            session.at
        ].item.id == visit.form.get("item")

    def _undo(self, visit: Visit) -> Response:
        rater = visit.person.name
        with self._lock:
            session = self._session_of(visit)
            if not session.given:
                return visit.redirect("/", "There is no label from this session to undo.")
            if visit.form.get("given") != str(len(session.given)):  # sent twice
                return visit.redirect("/")
            session.at = session.given.pop()
            item = session.todo[session.at].item.id
            own = [x for x in self._read() if (x.item, x.rater) == (item, rater)]
            session.note = own[0].note if own else ""
            label_files.remove_label(self._task.path, item, rater)
        return visit.redirect("/", "The last label was undone.")

    def _again(self, visit: Visit) -> Response:
        """Ask for the skipped items."""
        done = {x.item for x in self._read() if x.rater == visit.person.name}
        with self._lock:
            session = self._session_of(visit)
            skipped = [q for q in session.todo if q.item.id not in done]
            self._sessions[visit.person.name] = _RaterSession(skipped)
        return visit.redirect("/")

    def _describe_item(self, item: Item) -> dict[str, Any]:
        """The description of an item, without scores or a verdict."""
        review = self._task.reviews.get(item.id)
        files = read_change(self._task.repo, review) if review else []
        return {
            "text": review.summary if review else item.text[:MAX_TEXT],
            "link": item.url if urlsplit(item.url).scheme in {"http", "https"} else "",
            "context": _render_context(item.context),
            "findings": open_findings(review) if review else [],
            "files": files,
            "lacks_change": review is not None and not files,
        }

    def _describe_agreement(self, labels: Sequence[Label], rater: str) -> list[str]:
        """Agreement with each other person, in sentences."""
        if len({x.rater for x in labels if x.item in self._groups} | {rater}) < 2:
            return []
        if find_spec("numpy") is None:
            return ["Agreement between people requires numpy."]
        from orchestrator.tuning.labels.label_assessment import measure_rater_agreement  # noqa: PLC0415

        try:
            found = measure_rater_agreement(labels, self._groups, rater)
        except InputError as error:  # labels on several scales
            return [str(error)]
        return [_describe_rater(one) for one in found]


def _name_value(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else value.replace("_", " ").capitalize()


def _describe_rater(found: "RaterAgreement") -> str:
    if found.counted < label_files.SHARED_ITEMS:
        return f"{found.shared} of {label_files.SHARED_ITEMS} items shared with {found.rater}"
    text = f"{found.agreed:.0%} the same as {found.rater} on {found.counted} shared items"
    if found.kappa is not None:
        text += f", kappa {found.kappa.format()}"
    more = [f"{count:,} more for ±{half:.2f}".replace("0.", ".") for half, count in found.needed]
    return "; ".join([text, *more])


def _render_context(context: str) -> Markup:
    """An item's context as lines of code, with the marks of a diff as colors."""
    if not context.strip():
        return Markup()
    is_diff = any(line.startswith("@@ ") for line in context.split("\n"))
    kinds = {"+": "added", "-": "removed"} if is_diff else {}
    lines = []
    for raw in context.split("\n")[:MAX_LINES]:
        kind = kinds.get(raw[:1], "same")
        text = raw[1:] if is_diff and raw[:1] in {"+", "-", " "} else raw
        lines.append(ExcerptLine(kind, 0, 0, text))  # type: ignore[arg-type]
    return render_lines("Context", "", lines)
