"""The pages of a tuning and of a comparison: self-contained HTML, for screens and paper."""

from collections.abc import Iterable, Mapping, Sequence

from orchestrator.report.figure_pages import PageSection, table
from orchestrator.report.html_elements import bullets, figure, fold, link, quote, text
from orchestrator.report.tuning import charts
from orchestrator.report.tuning.comparison_text import describe_change, describe_power
from orchestrator.report.tuning.conclusion_page import Conclusion, render_page
from orchestrator.report.tuning.text_report import (
    CHECKS_HEADING,
    apply_sign,
    count_labels,
    describe_fit,
    describe_flip_count,
    describe_flip_sides,
    describe_more_labels,
    list_checks,
    list_comparisons,
)
from orchestrator.tuning.criterion_analysis import CriterionAnalysis
from orchestrator.tuning.labels.label_assessment import InterRaterAgreement
from orchestrator.tuning.rubric_comparison import ChangedDecision, RubricComparison
from orchestrator.tuning.rubric_decisions import Flip
from orchestrator.tuning.statistics.confidence_intervals import (
    PairedComparison,
    format_change,
    format_interval,
    format_statistic,
)
from orchestrator.tuning.tuning_result import ConfusionMatrix, TuningResult
from orchestrator.wording import count_noun

MAX_OPEN = 10
"""Items of one list that are not folded away."""
MAX_LISTED = 200
"""Items of one list; ``--json`` has all."""
WORDS = (
    ("Kappa", "agreement beyond what guessing would reach: 0 is guessing, 1 is always the same"),
    ("[low, high]", "a 95% interval: other labels of the same kind would give a value in it"),
    ("Held out", "measured on items that the rule was not fitted to"),
    ("Group", "items that resemble each other, such as those of a pull request"),
    ("AUC", "how often an accepted item scores above a rejected one: .5 is guessing"),
    ("Calibration error", "how far predicted shares of accepted items lie from the true ones"),
    ("Alpha, AC1", "agreement between people, with other corrections for chance"),
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
        sections = [*_fit_sections(result, result.comparison, texts)]
    labels = [PageSection("labels", "Labels", _render_labels(result))]
    return render_page(title, _conclude(result), [*sections, *more, *labels, words()])


def words() -> PageSection:
    """What the terms mean."""
    rows = "".join(f"<dt>{text(a)}</dt><dd>{text(b)}</dd>" for a, b in WORDS)
    return PageSection("words", "Words", f'<dl class="words">{rows}</dl>')


def _conclude(result: TuningResult) -> Conclusion:
    shares = [_share_agreed(matrix) for matrix in result.confusion or ()]
    if result.proven:
        sentence = "On items that it was not fitted to, the new rubric decides better than the old."
    elif not shares:
        sentence = "These labels do not allow a new rubric, so nothing was changed."
    else:
        sentence = "No new rubric is proven to be better, so the old one stays."
    if shares and not result.plan.objective.uses_costs:
        old, new = shares
        who = "It" if result.proven else "The new one"
        sentence += (
            f" {who} decides as people do in {new:.0f} of 100 cases, the old one in {old:.0f}."
        )
    return Conclusion(result.proven, sentence, (*result.reasons, *result.notes))


def _share_agreed(matrix: ConfusionMatrix) -> float:
    """Of 100 decisions, those as people's."""
    (rr, ra), (ar, aa) = matrix
    return 100.0 * (rr + aa) / (rr + ra + ar + aa)


def _fit_sections(
    result: TuningResult, comparison: PairedComparison, texts: Mapping[str, str]
) -> Iterable[PageSection]:
    yield PageSection("agreement", "Agreement with people", _render_comparison(result, comparison))
    checks = [[text(cell) for cell in row] for row in list_checks(result)]
    head = ("Part of the labels", "Change", "Outcome")
    yield PageSection("checks", CHECKS_HEADING, table("Checks", head, checks))
    flips = f"<p>{describe_flip_count(result)}.</p>" + _render_flips(result.flips, texts)
    yield PageSection("flips", "Changed decisions", flips)
    yield PageSection("reliability", "Reliability", _render_charts(result))
    yield PageSection("criteria", "Criteria", render_criteria(result.criteria))


def _render_labels(result: TuningResult) -> str:
    facts = f"<p>{', '.join(count_labels(result.assessment))}.</p>"
    raters = [
        (
            text(r.name),
            str(r.labels),
            format_interval(r.auc),
            format_interval(r.kappa),
            "as if at random" if r.at_chance else "",
        )
        for r in result.raters
    ]
    head = ("Rater", "Labels", "AUC", "Kappa with the others", "Note")
    people = render_people(result.assessment.inter_rater) + table("Raters", head, raters)
    return facts + people + bullets(result.assessment.notes)


def render_people(people: InterRaterAgreement) -> str:
    """How well people agree among themselves."""
    if not people.shared_items:
        return (
            "<p>No item has labels of two people, so nobody knows how well people agree, and how "
            "well a judge can agree with them: <code>diffcourt label</code> with another "
            "<code>--rater</code>.</p>"
        )
    rows = [
        (name, format_interval(value))
        for name, value in (
            ("Kappa", people.kappa),
            ("Alpha", people.alpha),
            ("AC1", people.ac1),
            ("Alpha, whole scale", people.ordinal_alpha),
        )
    ]
    facts = count_noun(people.shared_items, "item")
    return (
        f"<p>People among themselves, on {facts} that several labeled. A judge cannot be expected "
        f"to agree better.</p>{table('Agreement among people', ('Statistic', 'People'), rows)}"
    )


def _render_comparison(result: TuningResult, comparison: PairedComparison) -> str:
    uses_costs = result.plan.objective.uses_costs
    rows = [
        [name, *(apply_sign(v, sign).format() for v in (c.before, c.after, c.change))]
        for name, c, sign in list_comparisons(result, comparison)
    ]
    rows += [
        [text(policy), "", format_statistic(-value if uses_costs else value), ""]
        for policy, value in (result.trivial_policies or {}).items()
    ]
    head = ("Held out", "Before", "After", "Change")
    out = table("Agreement before and after", head, rows)
    out += f'<p class="soft small">Threshold {describe_fit(result)}.</p>'
    return out + (render_confusion(("Before", "After"), result.confusion or ()))


def render_confusion(names: Sequence[str], matrices: Sequence[ConfusionMatrix]) -> str:
    """Counts of decisions by people's, one table for several rubrics."""
    head = ["", *(f"{name}: {word}" for name in names for word in ("rejects", "accepts"))]
    rows = [
        [who, *(f"{m[i][j]:.4g}" for m in matrices for j in (0, 1))]
        for i, who in enumerate(("People reject", "People accept"))
    ]
    return table("Decisions by people's", head, rows) if matrices else ""


def _render_charts(result: TuningResult) -> str:
    error = format_statistic(result.calibration_error, 3)
    parts = [
        figure(
            "Predicted and true shares",
            f"share accepted by predicted probability; calibration error {error}",
            charts.draw_reliability_diagram(result.reliability),
        )
    ]
    parts += [
        figure(
            f"Totals by label, {histogram.name}",
            f"accepted above the axis, rejected below; threshold {histogram.threshold:.3g}",
            charts.draw_histogram(histogram),
        )
        for histogram in result.histograms
    ]
    weights = "share of the total weight: present (bar), fitted with 95% range of refits (dot)"
    parts.append(figure("Weights", weights, charts.draw_weights(result)))
    uses_costs = result.plan.objective.uses_costs
    value, sign = ("cost per decision", -1.0) if uses_costs else ("kappa", 1.0)
    note = f"held-out {value} by number of labels, and its worst 5% (gray)"
    curve = charts.draw_learning_curve(result.learning_curve, sign)
    parts.append(figure("Learning curve", f"{note}. {describe_more_labels(result)}", curve))
    return f'<div class="charts">{"".join(parts)}</div>'


def render_criteria(criteria: Sequence[CriterionAnalysis]) -> str:
    """What each criterion contributes; ``Fitted`` only where something was fitted."""
    fitted = any(c.share_after is not None for c in criteria)
    rows = [
        (
            text(c.name),
            format_interval(c.auc),
            format_statistic(c.share_before),
            *([format_interval(c.share_after)] if fitted else []),
            "n/a" if c.auc_drop is None else f"{c.auc_drop:+.3f}",
            text("; ".join(c.notes)),
        )
        for c in criteria
    ]
    shown = ("Weight", "Fitted") if fitted else ("Weight",)
    return table("Criteria", ("Criterion", "AUC", *shown, "AUC drop without it", "Notes"), rows)


def _render_flips(flips: Sequence[Flip], texts: Mapping[str, str]) -> str:
    rows = [
        (
            link(f.id, f.url) + fold("Text", quote(texts.get(f.id, ""))),
            *describe_flip_sides(f),
            text(f.label),
        )
        for f in flips[:MAX_LISTED]
    ]
    head = ("Item", "Decision", "Total", "Label")
    first = table("Changed decisions", head, rows[:MAX_OPEN])
    rest = table("Further changed decisions", head, rows[MAX_OPEN:])
    return first + fold(f"{len(rows) - MAX_OPEN} more", rest) + _omitted(len(flips))


def _omitted(count: int) -> str:
    left = count - MAX_LISTED
    return f"<p>{left:,} more: <code>--json</code> has all.</p>" if left > 0 else ""


def render_comparison_page(found: RubricComparison, title: str) -> str:
    """The page of a comparison of two rubrics, wordings, prompts or models."""
    sides = [
        (letter, text(name), text(judge or "unknown"), "unknown" if usd is None else f"${usd:.4f}",
         format_interval(kappa))
        for letter, name, judge, usd, kappa in zip(
            "AB", (found.a, found.b), found.judges, found.usd,
            (found.comparison.before, found.comparison.after), strict=True,
        )
    ]  # fmt: skip
    head = ("Side", "What", "Judge", "Cost", "Kappa with people")
    change = found.comparison.change
    figures = (
        f"<p>Change {format_change(change.value)}, 95% interval {format_change(change.low)} to "
        f"{format_change(change.high)}, on {count_noun(found.items, 'item')} of "
        f"{count_noun(found.groups, 'group')}. {text(describe_power(found))}</p>"
    )
    left_out = found.left_out
    note = f"{count_noun(len(left_out), 'labeled item')} without scores of both"
    body = (
        table("The two sides", head, sides)
        + figures
        + fold(note, bullets(left_out)) * bool(left_out)
    )
    count = f"<p>{len(found.changed):,} of {count_noun(found.items, 'decision')} differ.</p>"
    sections = [
        PageSection("agreement", "Agreement with people", body),
        PageSection("changed", "Decisions that differ", count + _render_changed(found.changed)),
        words(),
    ]
    return render_page(title, _conclude_comparison(found), sections)


def _conclude_comparison(found: RubricComparison) -> Conclusion:
    sentence = {
        "better": "B decides as people do more often than A.",
        "no worse": "B decides as people do about as often as A: if it is worse at all, then so "
        "little that it does not matter.",
        "worse": "B decides as people do less often than A.",
        "unknown": "These labels do not show which of the two decides as people do more often.",
    }[found.outcome]
    trusted = {"better": True, "no worse": True, "worse": False, "unknown": None}[found.outcome]
    return Conclusion(trusted, sentence, [describe_change(found)])


def _render_changed(changed: Sequence[ChangedDecision]) -> str:
    order = {"broken": 0, "corrected": 1, "disputed": 2}
    listed = sorted(changed, key=lambda c: order[c.verdict])[:MAX_LISTED]
    return list_articles([_render_changed_item(c) for c in listed], len(changed))


def list_articles(articles: Sequence[str], count: int) -> str:
    """Items of a list of ``count``: the first ones, and the others folded away."""
    rest = fold(f"{len(articles) - MAX_OPEN} more", "".join(articles[MAX_OPEN:]))
    return "".join(articles[:MAX_OPEN]) + rest + _omitted(count)


def _render_changed_item(c: ChangedDecision) -> str:
    words = {
        "broken": ("bad", "right only with A"),
        "corrected": ("good", "right only with B"),
        "disputed": ("", "people disagree"),
    }
    kind, verdict = words[c.verdict]
    sides = [
        f"{letter} {'accepts' if accepted else 'rejects'} ({format_statistic(total)})"
        for letter, accepted, total in (
            ("A", c.accepted_a, c.total_a),
            ("B", c.accepted_b, c.total_b),
        )
    ]
    scores = [
        (text(name), *(text(format_score(score)) for score in pair))
        for name, pair in c.changed_scores.items()
    ]
    facts = "; ".join([*sides, f"people: {c.label}"])
    return (
        f'<article class="{kind}"><h3>{link(c.id, c.url)} <span class="pill">{verdict}</span></h3>'
        f'<p class="soft">{text(facts)}</p>{quote(c.text)}'
        f"{table('Scores that differ', ('Criterion', 'A', 'B'), scores)}</article>"
    )


def format_score(score: float | str | None) -> str:
    """A criterion's score as people read it."""
    if score is None:
        return "abstained"
    return "does not apply" if isinstance(score, str) else format_statistic(score)
