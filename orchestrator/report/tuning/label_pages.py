"""The pages of eval, disagree, rate and drift: what labels say about a rubric."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from orchestrator.report.page_templates import PageSection, charts, element, html, table
from orchestrator.report.tuning.charts import draw_intervals, draw_periods, draw_reliability_diagram
from orchestrator.report.tuning.html_report import (
    MAX_LISTED,
    Conclusion,
    format_score,
    list_articles,
    render_confusion,
    render_criteria,
    render_ordinal,
    render_page,
    render_people,
)
from orchestrator.report.tuning.label_reports import (
    describe_since,
    describe_worth,
    format_label,
    list_changes,
    list_rates,
)
from orchestrator.report.tuning.text_report import (
    SIMPLE_HEAD,
    describe_judge_noise,
    list_agreement,
    list_simple_rules,
)
from orchestrator.tuning.evaluation import Evaluation
from orchestrator.tuning.labels.corrected_rate import CorrectedRate
from orchestrator.tuning.labels.disagreements import (
    CriterionAgreement,
    CriterionView,
    Disagreement,
    DisagreementReport,
)
from orchestrator.tuning.labels.drift import Drift
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.simple_rules import describe_simple_rules
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
    reasons = [*warnings, *filter(None, [found.in_sample])]
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
    return render_page(title, Conclusion(found.is_trusted, sentence, reasons), shown)


def disagreement_sections(found: DisagreementReport) -> list[PageSection]:
    """Where the rubric and people disagree, item by item and criterion by criterion."""
    count = len(found.disagreements)
    articles = [_render_disagreement(one) for one in found.disagreements[:MAX_LISTED]]
    name = f"{found.name} version {found.version}"
    intro = html(
        "<p>{} contradicts {:,} of {}, the most confident first.</p>",
        name,
        count,
        count_noun(found.labels, "label"),
    )
    return [
        PageSection(
            "disagreements", f"Disagreements with {name}", intro + list_articles(articles, count)
        ),
        PageSection(
            "criteria-labels", "Criteria as people see them", _render_labels(found.criteria)
        ),
    ]


def _render_disagreement(one: Disagreement) -> Markup:
    why = f"total {format_statistic(one.total)}, {one.confidence:.0%} sure"
    if one.blocked_by:
        why = f"blocked by {', '.join(one.blocked_by)}"
    said = f"{one.rater} says {format_label(one.label)}"
    if one.history:
        said += f" (before: {', '.join(map(format_label, one.history))})"
    scores = [
        (view.id, format_score(view.score), _compare(view), view.reason) for view in one.criteria
    ]
    return element("disagreement", one, why, said, scores)


def _compare(view: CriterionView) -> str:
    if view.label is None:
        return ""
    said = format_label(view.label or "")
    return html('<b class="off">{}</b> (differs)', said) if view.agrees is False else said


def _render_labels(criteria: Iterable[CriterionAgreement]) -> Markup:
    """Agreement on single criteria, where people labeled them."""
    rows = [
        (
            c.id,
            f"{c.labels:,}",
            *map(format_interval, (c.false_accepts, c.false_rejects, c.kappa, c.alpha)),
        )
        for c in criteria
    ]
    head = ("Criterion", "Labels", "False accepts", "False rejects", "Kappa", "Alpha of people")
    return table("Labels of criteria", head, rows)


def _render_agreement(found: Evaluation) -> Markup:
    rows = [(name, *map(format_interval, both)) for name, *both in list_agreement(found)]
    head = ("Statistic", "Rubric and people", "People among themselves")
    ordinal = {} if found.ordinal is None else {"Rubric and people": found.ordinal}
    return (
        table("Agreement", head, rows)
        + (render_ordinal(ordinal, None) if ordinal else Markup())
        + table(SIMPLE_HEAD[0], SIMPLE_HEAD, list_simple_rules(found.simple_rules))
        + element("bullets", describe_simple_rules(found.simple_rules, Objective()))
        + render_confusion(("Rubric",), [found.confusion])
    )


def _render_reliability(found: Evaluation) -> Markup:
    source = "calibrated probability" if found.calibrated else "total, which is not calibrated"
    error = format_statistic(found.calibration_error, 3)
    note = f"share that people accept by {source}; calibration error {error}"
    chart = ("Predicted and true shares", note, draw_reliability_diagram(found.reliability))
    return charts(chart) + element("bullets", describe_judge_noise(found))


def drift_sections(found: Drift | None) -> list[PageSection]:
    """What has changed over time; nothing without times."""
    if found is None:
        return []
    note = (
        "share of what people accept that the judge accepts (blue), and of what they reject that "
        "it rejects (orange), with 95% intervals"
    )
    months = [
        (p.month, f"{p.labels:,}", format_interval(p.sensitivity), format_interval(p.specificity))
        for p in found.periods
    ]
    chart = ("Agreement by month", note, draw_periods(found.periods))
    body = (
        (charts(chart) if found.periods else Markup())
        + table("Months", ("Month", "Labels", "Of accepted", "Of rejected"), months)
        + html("<p>{}:</p>", describe_since(found))
        + table("Changes", ("Who", "Of accepted", "Of rejected"), list_changes(found))
    )
    if found.untimed:
        body += html("<p>{} without a time not used.</p>", count_noun(found.untimed, "label"))
    return [PageSection("drift", "Drift", body)]


def _render_rate(found: CorrectedRate) -> Markup:
    rates = list_rates(found)
    drawn = [(name, value, 0.0) for name, value in rates[:4]]
    figure = draw_intervals("share accepted", drawn, 1.0)
    rows = [(name, format_interval(value)) for name, value in rates]
    return (
        charts(("Share accepted", "with 95% intervals", figure))
        + table("Rates", ("Rate", "Share accepted"), rows)
        + html("<p>{}.</p>", describe_worth(found))
    )
