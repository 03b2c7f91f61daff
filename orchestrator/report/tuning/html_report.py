"""The pages of tuning: self-contained HTML, for screens and paper; ``tuning.html`` has sections."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from orchestrator.report.page_templates import PageSection, new_environment, render_document
from orchestrator.report.tuning import charts, label_reports, scoring_text, text_report
from orchestrator.report.tuning.scoring_text import SENTENCES
from orchestrator.tuning.evaluation import Evaluation
from orchestrator.tuning.jury import Jury
from orchestrator.tuning.labels.corrected_rate import CorrectedRate
from orchestrator.tuning.labels.disagreements import DisagreementReport, name_trust
from orchestrator.tuning.labels.drift import Drift
from orchestrator.tuning.rubric_comparison import RubricComparison
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.simple_rules import describe_simple_rules
from orchestrator.tuning.statistics import confidence_intervals
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    format_interval,
    format_statistic,
)
from orchestrator.tuning.tune import ConfusionMatrix, TuningResult, describe_beyond_weights
from orchestrator.wording import count_noun

MAX_OPEN = 10
"""Items of one list that are not folded away."""
MAX_LISTED = 200
"""Items of one list; ``--json`` has all."""


class Conclusion(Struct, frozen=True):
    """What a page says first, for a reader who knows no statistics.

    Attributes:
        trusted: None where the labels cannot tell.
        sentence: why, without a statistic's name.
        reasons: the same with figures, a sentence each.
    """

    trusted: bool | None
    sentence: str
    reasons: Sequence[str] = ()


@cache
def _macros() -> Any:
    """The macros of ``tuning.html``."""
    known = {"text": text_report, "labels": label_reports, "scoring": scoring_text, "draw": charts}
    more = {"score": format_score, "as_text": _as_text, "stats": confidence_intervals}
    limits = {"max_open": MAX_OPEN, "max_listed": MAX_LISTED}
    made = new_environment("orchestrator.report", **known, **more, **limits)
    return made.get_template("tuning.html").module


def _section(name: str, heading: str, macro: str, *values: Any) -> PageSection:
    return PageSection(name, heading, getattr(_macros(), macro)(*values).strip())


def _as_text(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return [
        [
            format_interval(cell) if cell is None or isinstance(cell, Interval) else cell
            for cell in row
        ]
        for row in rows
    ]


def render_page(title: str, conclusion: Conclusion, sections: Sequence[PageSection]) -> str:
    """A page that says first, in a plain sentence, whether a rubric can be trusted.

    At its end it explains the terms that occur.
    """
    word = name_trust(conclusion.trusted)
    shown = [*conclusion.reasons, *(one.body.striptags() for one in sections if one.body)]
    sections = [*sections, _section("words", "Words", "explained", " ".join(shown).lower())]
    return render_document(
        "conclusion.html",
        f"{word}: {title}",
        sections,
        subject=title,
        word=word,
        conclusion=conclusion,
    )


def render_tuning_page(
    result: TuningResult, title: str, texts: Mapping[str, str], more: Sequence[PageSection] = ()
) -> str:
    """The page of a tuning.

    Args:
        texts: item id → its text.
        more: further sections, before those about the labels.
    """
    sections: list[PageSection] = []
    if result.comparison is not None:
        sections = [
            _section("agreement", "Agreement with people", "tuning_agreement", result),
            _section("checks", text_report.CHECKS_HEADING, "checks", result),
            _section("flips", "Changed decisions", "flips", result, texts),
            _section("reliability", "Reliability", "fit_charts", result),
            _section("criteria", "Criteria", "criteria", result.criteria),
        ]
    labels = _section("labels", "Labels", "labels_of", result)
    return render_page(title, _conclude(result), [*sections, *more, labels])


def _conclude(result: TuningResult) -> Conclusion:
    shares = [_share_agreed(matrix) for matrix in result.confusion or ()]
    outcome = "proven" if result.proven else "not_proven" if shares else "refused"
    sentence = SENTENCES[outcome]
    if shares and not result.plan.objective.uses_costs:
        old, new = shares
        sentence += SENTENCES["shares"].format("It" if result.proven else "The new one", new, old)
    return Conclusion(result.proven, sentence, (*result.reasons, *result.notes))


def _share_agreed(matrix: ConfusionMatrix) -> float:
    """Of 100 decisions, those as people's."""
    (rr, ra), (ar, aa) = matrix
    return 100.0 * (rr + aa) / (rr + ra + ar + aa)


def render_comparison_page(found: RubricComparison, title: str) -> str:
    """The page of a comparison of two rubrics, wordings, prompts or models."""
    sections = [
        _section("agreement", "Agreement with people", "comparison", found),
        _section("changed", "Decisions that differ", "changed", found),
    ]
    trusted = {"better": True, "no worse": True, "worse": False, "unknown": None}[found.outcome]
    reasons = [scoring_text.describe_change(found), *found.in_sample]
    return render_page(title, Conclusion(trusted, SENTENCES[found.outcome], reasons), sections)


def render_jury_page(found: Jury, title: str) -> str:
    """The page of several judges."""
    sections = [
        _section("judges", "Judges", "judges", found),
        _section("cascades", "Cascades, held out", "cascades", found),
    ]
    sentence = scoring_text.conclude_jury(found)
    proven = any(one.proven for one in found.cascades)
    conclusion = Conclusion(proven or None, f"{sentence[:1].upper()}{sentence[1:]}.")
    return render_page(title, conclusion, sections)


def render_evaluation_page(
    found: Evaluation, disagreements: DisagreementReport, drift: Drift | None
) -> str:
    """The page of ``rubric eval``.

    Args:
        drift: None where the labels have no times.
    """
    warnings = [f"Stale: {line}" for line in found.stale_inputs]
    advice = describe_simple_rules(found.simple_rules, Objective())
    advice += describe_beyond_weights(found.beyond_weights) if found.beyond_weights else []
    sections = [
        *disagreement_sections(disagreements),
        _section("agreement", "Agreement with people", "evaluation", found, advice),
        _section("people", "Agreement of people", "people", found.inter_rater),
        _section("reliability", "Reliability", "reliability", found),
        _section("criteria", "Criteria", "criteria", found.criteria),
        *drift_sections(drift),
    ]
    return render_result_page(f"Rubric {found.name}", disagreements, sections, warnings)


def render_result_page(
    title: str,
    found: DisagreementReport | CorrectedRate | Drift,
    sections: Sequence[PageSection] | None = None,
    warnings: Sequence[str] = (),
) -> str:
    """A page that begins with the result's sentence.

    Args:
        sections: by default those of the result itself.
    """
    sentence = found.plain_sentence().partition(": ")[2]
    reasons = [*warnings, *filter(None, [found.in_sample])]
    if isinstance(found, DisagreementReport):
        own = disagreement_sections(found)
        items, kappa = count_noun(found.items, "item"), format_interval(found.kappa)
        reasons.append(SENTENCES["kappa"].format(kappa, items))
        if found.revised:
            reasons.append(SENTENCES["revised"].format(count_noun(found.revised, "label")))
    elif isinstance(found, Drift):
        own = drift_sections(found)
    else:
        own = [_section("rate", "Rate of all items", "rate", found)]
    shown = own if sections is None else sections
    sentence = f"{sentence[:1].upper()}{sentence[1:]}."
    return render_page(title, Conclusion(found.is_trusted, sentence, reasons), shown)


def disagreement_sections(found: DisagreementReport) -> list[PageSection]:
    """Where the rubric and people disagree, item by item and criterion by criterion."""
    name = f"{found.name} version {found.version}"
    return [
        _section("disagreements", f"Disagreements with {name}", "disagreements", found, name),
        _section(
            "criteria-labels", "Criteria as people see them", "labeled_criteria", found.criteria
        ),
    ]


def drift_sections(found: Drift | None) -> list[PageSection]:
    """What has changed over time; nothing without times."""
    return [] if found is None else [_section("drift", "Drift", "drift", found)]


def format_score(score: float | str | None) -> str:
    """A criterion's score as people read it."""
    if score is None:
        return "abstained"
    return "does not apply" if isinstance(score, str) else format_statistic(score)
