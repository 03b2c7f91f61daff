"""The rubric in use, where it is from, and what people's labels and feedback say of it."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from starlette.responses import Response

from orchestrator.app.memory.past_reviews import load_reviews
from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.app.runs.state_directory import repo_root
from orchestrator.code_review.policy_loading import read_catalog
from orchestrator.data_directories import OVERLAY
from orchestrator.engine.types import Rubric
from orchestrator.errors import DiffcourtError
from orchestrator.optional_dependencies import install_command
from orchestrator.tuning.file_formats.rubric_file import find_stale_inputs
from orchestrator.tuning.labels.label_files import Label, read_labels
from orchestrator.web.site import SitePage, SitePart, Visit

if TYPE_CHECKING:
    from orchestrator.tuning.labels.feedback_rate import FeedbackReport

LABELS = "labels.jsonl"
"""Where ``diffcourt label`` writes by default."""
COMMANDS = (
    ("Label", "diffcourt label --runs --rater NAME --web --open"),
    ("Score what is labeled", "diffcourt rubric score {name} --runs --json > items.jsonl"),
    ("Disagreements", "diffcourt rubric disagree {name} items.jsonl --labels labels.jsonl"),
    ("Tune", "diffcourt rubric tune {name} items.jsonl --labels labels.jsonl --report tuning.html"),
    ("Drift", "diffcourt rubric drift {name} items.jsonl --labels labels.jsonl"),
    ("Feedback for experts", "diffcourt rubric feedback --out findings.jsonl"),
)


class LabelCounts(Struct, frozen=True):
    """What a label file holds.

    Attributes:
        drawn: labels of items that were drawn at random.
        corrected: labels that replaced an earlier one.
        newest: day of the newest, empty where no label has one.
    """

    labels: int
    items: int
    raters: int
    drawn: int
    corrected: int
    newest: str

    @classmethod
    def of(cls, labels: Sequence[Label]) -> "LabelCounts":
        """The counts of labels."""
        return cls(
            len(labels),
            len({one.item for one in labels}),
            len({one.rater for one in labels}),
            sum(bool(one.drawn) for one in labels),
            sum(one.revision > 1 for one in labels),
            max((one.at[:10] for one in labels), default=""),
        )


class TuningState(Struct, kw_only=True):
    """One repository's rubric and what is known of it.

    Attributes:
        tuned: the rubric's provenance, empty for one written by hand.
        stale: what has changed since it was tuned, one sentence each.
        labels: None where there is no label file.
        problems: why something is not shown.
    """

    repo: Path
    rubric: Rubric | None = None
    tuned: dict[str, Any]
    stale: Sequence[str] = ()
    labels: LabelCounts | None = None
    feedback: "FeedbackReport | None" = None
    problems: list[str]

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What to do next, and the command for it."""
        name = self.rubric.name if self.rubric else "pr-review"
        if (file := Path(OVERLAY, "rubrics", f"{name}.yaml")) and (self.repo / file).is_file():
            name = str(file)
        return [(what, command.format(name=name)) for what, command in COMMANDS]


class TuningPage:
    """Computes from the files and runs each time that it is asked; writes nothing."""

    def __init__(self, repos: Sequence[Path]) -> None:
        self._repos = repos

    def show(self, visit: Visit) -> Response:
        """A section for each repository."""
        return visit.render(
            "tuning.html",
            title="Tuning",
            found=[read_tuning(repo) for repo in self._repos],
            file=LABELS,
        )


def read_tuning(repo: Path) -> TuningState:
    """What is known of a repository's rubric, as its work tree has it."""
    found, labels = TuningState(repo=repo, tuned={}, problems=[]), list[Label]()
    try:
        catalog = read_catalog(read_layers_on_disk(repo))
        found.rubric = catalog.rubrics[catalog.settings.rubric]
        tuned = found.rubric.provenance.get("tuned")
        found.tuned = tuned if isinstance(tuned, dict) else {}
        found.stale = find_stale_inputs(found.rubric)
    except DiffcourtError as error:
        found.problems.append(str(error))
    try:
        if (path := repo_root(repo) / LABELS).is_file():
            labels = read_labels([path])
            found.labels = LabelCounts.of(labels)
    except DiffcourtError as error:
        found.problems.append(str(error))
    _add_feedback(found, labels)
    return found


def _add_feedback(found: TuningState, labels: Sequence[Label]) -> None:
    """Measure what people did with findings against those labels that are of findings."""
    if find_spec("numpy") is None:
        found.problems.append(f"agreement from feedback needs: {install_command('tune')}")
        return
    from orchestrator.app.memory.comment_feedback import collect_feedback  # noqa: PLC0415 - numpy
    from orchestrator.tuning.labels.feedback_rate import measure_feedback  # noqa: PLC0415

    try:
        findings, _ = collect_feedback(found.repo, load_reviews(found.repo, ()))
        known = {one.id for one in findings}
        found.feedback = measure_feedback(findings, [one for one in labels if one.item in known])
    except DiffcourtError as error:
        found.problems.append(str(error))


def make_tuning_part(repos: Sequence[Path]) -> SitePart:
    """What some repositories' rubrics are worth."""
    return SitePart([SitePage("/tuning", TuningPage(repos).show)], title="Tuning", path="/tuning")
