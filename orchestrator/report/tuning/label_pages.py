"""The pages of eval, disagree, rate and drift: what labels say about a rubric."""

from collections.abc import Iterable, Sequence

from orchestrator.report.figure_pages import PageSection, table
from orchestrator.report.html_elements import bullets, figure, link, quote, text
from orchestrator.report.tuning import charts
from orchestrator.report.tuning.conclusion_page import Conclusion, render_page
from orchestrator.report.tuning.html_report import (
    MAX_LISTED,
    format_score,
    list_articles,
    render_confusion,
    render_criteria,
    render_people,
    words,
)
from orchestrator.report.tuning.label_reports import format_label
from orchestrator.tuning.evaluation import Evaluation
from orchestrator.tuning.judge_reliability import STRONG_LENGTH_BIAS
from orchestrator.tuning.labels.corrected_rate import CorrectedRate
from orchestrator.tuning.labels.disagreements import (
    CriterionAgreement,
    CriterionView,
    Disagreement,
    DisagreementReport,
)
from orchestrator.tuning.labels.drift import Drift
from orchestrator.tuning.statistics.confidence_intervals import format_interval, format_statistic
from orchestrator.wording import count_noun


def render_evaluation_page(
    found: Evaluation, disagreements: DisagreementReport, drift: Drift | None
) -> str:
    """The page of ``rubric eval``.

    Args:
        drift: None where the labels have no times.
    """
    warnings = [f"Stale: {line}" for line in found.stale_inputs]
    if found.seen_groups:
        warnings.append("the rubric was tuned on some of these items, so this is optimistic")
    sections = [
        *disagreement_sections(disagreements),
        PageSection("agreement", "Agreement with people", _render_agreement(found)),
        PageSection("people", "Agreement of people", render_people(found.inter_rater)),
        PageSection("reliability", "Reliability", _render_reliability(found)),
        PageSection("criteria", "Criteria", render_criteria(found.criteria)),
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
    reasons = list(warnings)
    if isinstance(found, DisagreementReport):
        own = disagreement_sections(found)
        reasons.append(
            f"Kappa {format_interval(found.kappa)}, on {count_noun(found.items, 'item')}"
        )
        if found.revised:
            reasons.append(
                f"{count_noun(found.revised, 'label')} revised: look again also at items on which "
                "both agree, or the agreement is overstated"
            )
    elif isinstance(found, Drift):
        own = drift_sections(found)
    else:
        own = [PageSection("rate", "Rate of all items", _render_rate(found))]
    shown = own if sections is None else sections
    sentence = f"{sentence[:1].upper()}{sentence[1:]}."
    return render_page(title, Conclusion(found.is_trusted, sentence, reasons), [*shown, words()])


def disagreement_sections(found: DisagreementReport) -> list[PageSection]:
    """Where the rubric and people disagree, item by item and criterion by criterion."""
    count = len(found.disagreements)
    articles = [_render_disagreement(one) for one in found.disagreements[:MAX_LISTED]]
    name = f"{found.name} version {found.version}"
    intro = (
        f"<p>{text(name)} contradicts {count:,} of {count_noun(found.labels, 'label')}, the most "
        "confident first.</p>"
    )
    return [
        PageSection("disagreements", "Disagreements", intro + list_articles(articles, count)),
        PageSection(
            "criteria-labels", "Criteria as people see them", _render_labels(found.criteria)
        ),
    ]


def _render_disagreement(one: Disagreement) -> str:
    decision = "accepts" if one.accepted else "rejects"
    why = f"total {format_statistic(one.total)}, {one.confidence:.0%} sure"
    if one.blocked_by:
        why = f"blocked by {', '.join(one.blocked_by)}"
    said = f"{one.rater} says {format_label(one.label)}"
    if one.history:
        said += f" (before: {', '.join(map(format_label, one.history))})"
    note = f"<p><b>Reason:</b> {text(one.note)}</p>" if one.note else ""
    scores = [
        (
            text(view.id),
            text(format_score(view.score)),
            "" if view.label is None else _compare(view),
            text(view.reason),
        )
        for view in one.criteria
    ]
    head = ("Criterion", "Score", "Person", "Judge's reason")
    kind = "accepted" if one.accepted else "rejected"
    return (
        f'<article class="{kind}"><h3>{link(one.item, one.url)}</h3>'
        f"<p>The rubric {decision} ({text(why)}); {text(said)}.</p>{note}{quote(one.text)}"
        f"{table(f'Scores of {text(one.item)}, {text(one.rater)}', head, scores)}</article>"
    )


def _compare(view: CriterionView) -> str:
    said = text(format_label(view.label or ""))
    return f'<b class="off">{said}</b> (differs)' if view.agrees is False else said


def _render_labels(criteria: Iterable[CriterionAgreement]) -> str:
    """Agreement on single criteria, where people labeled them."""
    rows = [
        (
            text(c.id),
            f"{c.labels:,}",
            *map(format_interval, (c.false_accepts, c.false_rejects, c.kappa, c.alpha)),
        )
        for c in criteria
    ]
    head = ("Criterion", "Labels", "False accepts", "False rejects", "Kappa", "Alpha of people")
    return table("Labels of criteria", head, rows)


def _render_agreement(found: Evaluation) -> str:
    people = found.inter_rater
    rows = [
        (name, format_interval(own), format_interval(theirs))
        for name, own, theirs in (
            ("Kappa", found.kappa, people.kappa),
            ("Alpha", found.alpha, people.alpha),
            ("AC1", found.ac1, people.ac1),
            ("Weighted kappa", found.weighted_kappa, people.weighted_kappa),
            ("AUC", found.auc, None),
        )
    ]
    head = ("Statistic", "Rubric and people", "People among themselves")
    policies = [
        (text(name), format_statistic(value)) for name, value in found.trivial_policies.items()
    ]
    return (
        table("Agreement", head, rows)
        + table("Policies that use little of an item", ("Policy", "Kappa"), policies)
        + render_confusion(("Rubric",), [found.confusion])
    )


def _render_reliability(found: Evaluation) -> str:
    source = "calibrated probability" if found.calibrated else "total, which is not calibrated"
    error = format_statistic(found.calibration_error, 3)
    chart = figure(
        "Predicted and true shares",
        f"share that people accept by {source}; calibration error {error}",
        charts.draw_reliability_diagram(found.reliability),
    )
    lines = []
    if (repeats := found.repeated_scoring) is not None:
        lines.append(
            f"Scored again, {repeats.flip_rate:.1%} of pairs of scorings decide otherwise "
            f"({count_noun(repeats.items, 'item')})."
        )
    if (bias := found.length_correlation) is not None:
        strong = "a strong" if abs(bias) >= STRONG_LENGTH_BIAS else "no strong"
        lines.append(
            f"There is {strong} length bias: longer texts with the same label have "
            f"{'higher' if bias > 0 else 'lower'} totals (rank correlation {bias:+.2f})."
        )
    return f'<div class="charts">{chart}</div>{bullets(lines)}'


def drift_sections(found: Drift | None) -> list[PageSection]:
    """What has changed over time; nothing without times."""
    if found is None:
        return []
    chart = figure(
        "Agreement by month",
        "share of what people accept that the judge accepts (blue), and of what they reject that "
        "it rejects (orange), with 95% intervals",
        charts.draw_periods(found.periods),
    )
    months = [
        (p.month, f"{p.labels:,}", format_interval(p.sensitivity), format_interval(p.specificity))
        for p in found.periods
    ]
    anchors = f"{found.accepted_anchors} and {found.rejected_anchors} anchors"
    changes = [
        (f"Judge, {anchors}", *map(format_interval, (found.sensitivity, found.specificity))),
        ("Judge and people, newer items",
         *map(format_interval, (found.new_sensitivity, found.new_specificity))),
        (f"People accept, {count_noun(found.relabeled, 'anchor')} labeled again",
         format_interval(found.leniency), ""),
    ]  # fmt: skip
    body = (
        f'<div class="charts">{chart}</div>'
        + table("Months", ("Month", "Labels", "Of accepted", "Of rejected"), months)
        + f"<p>Changes since {text(found.since[:16].replace('T', ' '))}:</p>"
        + table("Changes", ("Who", "Of accepted", "Of rejected"), changes)
    )
    if found.untimed:
        body += f"<p>{count_noun(found.untimed, 'label')} without a time not used.</p>"
    return [PageSection("drift", "Drift", body)]


def _render_rate(found: CorrectedRate) -> str:
    rows = [
        (name, format_interval(value))
        for name, value in (
            ("The judge, all items", found.judged),
            ("People, labeled items", found.labeled_only),
            ("Corrected (PPI++)", found.corrected),
            ("Corrected (Rogan–Gladen)", found.rogan_gladen),
            ("Judge minus people", found.bias),
            ("Of accepted, the judge accepts", found.sensitivity),
            ("Of rejected, the judge rejects", found.specificity),
        )
    ]
    counts = f"{found.labeled:,} of {count_noun(found.items, 'item')} labeled"
    worth = f"with the judge they are worth {found.worth:,.0f} random labels"
    return table("Rates", ("Rate", "Share accepted"), rows) + f"<p>{counts}; {worth}.</p>"
