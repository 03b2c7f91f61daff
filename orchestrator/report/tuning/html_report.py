"""The pages of a tuning and of a comparison: self-contained HTML, for screens and paper."""

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup
from msgspec import Struct

from orchestrator.report.page_templates import (
    PageSection,
    charts,
    element,
    html,
    render_document,
    table,
)
from orchestrator.report.tuning.charts import (
    draw_intervals,
    draw_learning_curve,
    draw_levels,
    draw_reliability_diagram,
    draw_weights,
)
from orchestrator.report.tuning.scoring_text import (
    conclude_jury,
    describe_cascade,
    describe_change,
    describe_jury,
    describe_power,
    list_judges,
)
from orchestrator.report.tuning.text_report import (
    CHECKS_HEADING,
    ORDINAL_HEAD,
    SIMPLE_HEAD,
    apply_sign,
    count_labels,
    describe_cut_points,
    describe_fit,
    describe_flip_count,
    describe_flip_sides,
    describe_more_labels,
    list_checks,
    list_comparisons,
    list_ordinal,
    list_people,
    list_simple_rules,
)
from orchestrator.tuning.criterion_analysis import CriterionAnalysis
from orchestrator.tuning.jury import Jury
from orchestrator.tuning.labels.disagreements import name_trust
from orchestrator.tuning.labels.label_assessment import InterRaterAgreement
from orchestrator.tuning.ordinal_agreement import OrdinalAgreement
from orchestrator.tuning.rubric_comparison import ChangedDecision, RubricComparison
from orchestrator.tuning.rubric_decisions import Flip
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    PairedComparison,
    format_change,
    format_interval,
    format_statistic,
)
from orchestrator.tuning.tune import ConfusionMatrix, TuningResult
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
    ("Sensitivity", "of what people accept, the share that the judge accepts"),
    ("Specificity", "of what people reject, the share that the judge rejects"),
    ("PPI++", "the rate of the labels, made sharper by what the judge says of the other items"),
    ("Rogan–Gladen", "the judge's rate, corrected by its sensitivity and specificity"),
    ("Anchor", "an item whose decisions were frozen, to be judged and labeled again"),
    ("Weighted kappa", "kappa in which two steps off count four times as much as one"),
    ("AUC", "how often an accepted item scores above a rejected one: .5 is guessing"),
    ("Calibration error", "how far predicted shares of accepted items lie from the true ones"),
    ("Alpha, AC1", "agreement between people, with other corrections for chance"),
)


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


def render_page(title: str, conclusion: Conclusion, sections: Sequence[PageSection]) -> str:
    """A page that says first, in a plain sentence, whether a rubric can be trusted.

    At its end it explains those of ``WORDS`` that occur.
    """
    word = name_trust(conclusion.trusted)
    shown = [*conclusion.reasons, *(one.body.striptags() for one in sections if one.body)]
    text = " ".join(shown).lower()
    used = [(name, what) for name, what in WORDS if any(x in text for x in _spellings(name))]
    sections = [*sections, PageSection("words", "Words", element("words", used))]
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
        sections = [*_fit_sections(result, result.comparison, texts)]
    labels = [PageSection("labels", "Labels", _render_labels(result))]
    return render_page(title, _conclude(result), [*sections, *more, *labels])


def _spellings(name: str) -> list[str]:
    """How a term of ``WORDS`` is written in a page."""
    if name.startswith("["):
        return ["95%", " ["]
    own = {"Sensitivity": ["of accepted"], "Specificity": ["of rejected"]}.get(name, [])
    return [*name.lower().split(", "), *own]


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
    head = ("Part of the labels", "Change", "Outcome")
    yield PageSection("checks", CHECKS_HEADING, table("Checks", head, list_checks(result)))
    flips = html("<p>{}.</p>", describe_flip_count(result)) + _render_flips(result.flips, texts)
    yield PageSection("flips", "Changed decisions", flips)
    yield PageSection("reliability", "Reliability", _render_charts(result))
    yield PageSection("criteria", "Criteria", render_criteria(result.criteria))


def _render_labels(result: TuningResult) -> Markup:
    facts = html("<p>{}.</p>", ", ".join(count_labels(result.assessment)))
    raters = [
        (
            r.name,
            r.labels,
            format_interval(r.auc),
            format_interval(r.kappa),
            "as if at random" if r.at_chance else "",
        )
        for r in result.raters
    ]
    head = ("Rater", "Labels", "AUC", "Kappa with the others", "Note")
    people = render_people(result.assessment.inter_rater) + table("Raters", head, raters)
    return facts + people + element("bullets", result.assessment.notes)


def render_people(people: InterRaterAgreement) -> Markup:
    """How well people agree among themselves."""
    if not people.shared_items:
        return Markup(
            "<p>No item has labels of two people, so nobody knows how well people agree, and how "
            "well a judge can agree with them: <code>diffcourt label</code> with another "
            "<code>--rater</code>.</p>"
        )
    rows = [(name, format_interval(value)) for name, value in list_people(people)]
    facts = count_noun(people.shared_items, "item")
    return html(
        "<p>People among themselves, on {} that several labeled. A judge cannot be expected to "
        "agree better.</p>{}",
        facts,
        table("Agreement among people", ("Statistic", "People"), rows),
    )


def _render_comparison(result: TuningResult, comparison: PairedComparison) -> Markup:
    rows = [
        [name, *(apply_sign(v, sign).format() for v in (c.before, c.after, c.change))]
        for name, c, sign in list_comparisons(result, comparison)
    ]
    head = ("Held out", "Before", "After", "Change")
    out = table("Agreement before and after", head, rows)
    if (both := result.ordinal) is not None:
        out += render_ordinal({"Before": both.before, "After": both.after}, both.change)
    sign = -1.0 if result.plan.objective.uses_costs else 1.0
    out += table(SIMPLE_HEAD[0], SIMPLE_HEAD, list_simple_rules(result.simple_rules, sign))
    out += html('<p class="soft small">Threshold {}.</p>', describe_fit(result))
    return out + render_confusion(("Before", "After"), result.confusion or ())


def render_ordinal(sides: Mapping[str, OrdinalAgreement], change: Interval | None) -> Markup:
    """Agreement on the whole scale, of each rubric by its name, and the change of kappa."""
    every = [dict(list_ordinal(found)) for found in sides.values()]
    rows = [[name, *(format_interval(one[name]) for one in every)] for name in every[0]]
    if change is not None:
        rows.append(["change of weighted kappa", "", change.format()])
    kappas = [(name, found.weighted_kappa, 0.0) for name, found in sides.items()]
    note = "people across, rubric up; dots off the diagonal are errors"
    drawn = [
        ("Weighted kappa", "held out, with 95% intervals",
         draw_intervals("weighted kappa", kappas, 1.0)),
        *((f"Levels, {name.lower()}", f"{note}; {describe_cut_points(found)}", draw_levels(found))
          for name, found in sides.items()),
    ]  # fmt: skip
    return table(ORDINAL_HEAD, (ORDINAL_HEAD, *sides), rows) + charts(*drawn)


def render_confusion(names: Sequence[str], matrices: Sequence[ConfusionMatrix]) -> Markup:
    """Counts of decisions by people's, one table for several rubrics."""
    head = ["", *(f"{name}: {word}" for name in names for word in ("rejects", "accepts"))]
    rows = [
        [who, *(f"{m[i][j]:.4g}" for m in matrices for j in (0, 1))]
        for i, who in enumerate(("People reject", "People accept"))
    ]
    return table("Decisions by people's", head, rows) if matrices else Markup()


def _render_charts(result: TuningResult) -> Markup:
    error = format_statistic(result.calibration_error, 3)
    uses_costs = result.plan.objective.uses_costs
    value, sign = ("cost per decision", -1.0) if uses_costs else ("kappa", 1.0)
    note = f"held-out {value} by number of labels, and its worst 5% (gray)"
    return charts(
        (
            "Predicted and true shares",
            f"share accepted by predicted probability; calibration error {error}",
            draw_reliability_diagram(result.reliability),
        ),
        (
            "Weights",
            "share of the total weight: present (bar), fitted with 95% range of refits (dot)",
            draw_weights(result),
        ),
        (
            "Learning curve",
            f"{note}. {describe_more_labels(result)}",
            draw_learning_curve(result.learning_curve, sign),
        ),
    )


def render_criteria(criteria: Sequence[CriterionAnalysis]) -> Markup:
    """What each criterion contributes; ``Fitted`` only where something was fitted."""
    fitted = any(c.share_after is not None for c in criteria)
    rows = [
        (
            c.name,
            format_interval(c.auc),
            format_statistic(c.share_before),
            *([format_interval(c.share_after)] if fitted else []),
            "n/a" if c.auc_drop is None else f"{c.auc_drop:+.3f}",
            "; ".join(c.notes),
        )
        for c in criteria
    ]
    shown = ("Weight", "Fitted") if fitted else ("Weight",)
    return table("Criteria", ("Criterion", "AUC", *shown, "AUC drop without it", "Notes"), rows)


def _render_flips(flips: Sequence[Flip], texts: Mapping[str, str]) -> Markup:
    rows = [
        (
            element("link", f.id, f.url)
            + element("fold", "Text", element("quote", texts.get(f.id, ""))),
            *describe_flip_sides(f),
            f.label,
        )
        for f in flips[:MAX_LISTED]
    ]
    head = ("Item", "Decision", "Total", "Label")
    rest = table("Further changed decisions", head, rows[MAX_OPEN:])
    return (
        table("Changed decisions", head, rows[:MAX_OPEN])
        + element("fold", f"{len(rows) - MAX_OPEN} more", rest)
        + element("omitted", len(flips), MAX_LISTED)
    )


def render_comparison_page(found: RubricComparison, title: str) -> str:
    """The page of a comparison of two rubrics, wordings, prompts or models."""
    sides = [
        (letter, name, judge or "unknown", "unknown" if usd is None else f"${usd:.4f}",
         format_interval(kappa))
        for letter, name, judge, usd, kappa in zip(
            "AB", (found.a, found.b), found.judges, found.usd,
            (found.comparison.before, found.comparison.after), strict=True,
        )
    ]  # fmt: skip
    head = ("Side", "What", "Judge", "Cost", "Kappa with people")
    change = found.comparison.change
    figures = html(
        "<p>Change {}, 95% interval {} to {}, on {} of {}. {}</p>",
        *map(format_change, (change.value, change.low, change.high)),
        count_noun(found.items, "item"),
        count_noun(found.groups, "group"),
        describe_power(found),
    )
    note = f"{count_noun(len(found.left_out), 'labeled item')} without scores of both"
    left_out = element("fold", note, element("bullets", found.left_out))
    paired = found.comparison
    rows = [("A", paired.before, 0.0), ("B", paired.after, 0.0), ("B minus A", change, 0.0)]
    chart = ("Kappa", "with 95% intervals", draw_intervals("kappa of both sides", rows, 1.0))
    body = charts(chart) + table("The two sides", head, sides) + figures + left_out
    decisions = count_noun(found.items, "decision")
    count = html("<p>{:,} of {} differ.</p>", len(found.changed), decisions)
    sections = [
        PageSection("agreement", "Agreement with people", body),
        PageSection("changed", "Decisions that differ", count + _render_changed(found.changed)),
    ]
    return render_page(title, _conclude_comparison(found), sections)


def render_jury_page(found: Jury, title: str) -> str:
    """The page of several judges."""
    kappas = [(judge.name, judge.kappa, 0.0) for judge in found.judges]
    drawn = draw_intervals("kappa of judges", [*kappas, ("majority", found.majority, 0.0)], 1.0)
    head = ("Judge", "Kappa with people", "Majority minus it", "Cost per item")
    body = charts(("Kappa with people", "with 95% intervals", drawn))
    body += table("Judges", head, list_judges(found)) + html("<p>{}.</p>", describe_jury(found))
    sections = [
        PageSection("judges", "Judges", body),
        PageSection("cascades", "Cascades, held out",
                    element("bullets", [describe_cascade(one) for one in found.cascades])),
    ]  # fmt: skip
    sentence = conclude_jury(found)
    proven = any(one.proven for one in found.cascades)
    return render_page(
        title, Conclusion(proven or None, f"{sentence[:1].upper()}{sentence[1:]}."), sections
    )


def _conclude_comparison(found: RubricComparison) -> Conclusion:
    sentence = {
        "better": "B decides as people do more often than A.",
        "no worse": "B decides as people do about as often as A: if it is worse at all, then so "
        "little that it does not matter.",
        "worse": "B decides as people do less often than A.",
        "unknown": "These labels do not show which of the two decides as people do more often.",
    }[found.outcome]
    trusted = {"better": True, "no worse": True, "worse": False, "unknown": None}[found.outcome]
    return Conclusion(trusted, sentence, [describe_change(found), *found.in_sample])


def _render_changed(changed: Sequence[ChangedDecision]) -> Markup:
    order = {"broken": 0, "corrected": 1, "disputed": 2}
    listed = sorted(changed, key=lambda c: order[c.verdict])[:MAX_LISTED]
    return list_articles([_render_changed_item(c) for c in listed], len(changed))


def list_articles(articles: Sequence[Markup], count: int) -> Markup:
    """Items of a list of ``count``: the first ones, and the others folded away."""
    return element("articles", articles, count, MAX_OPEN, MAX_LISTED)


def _render_changed_item(c: ChangedDecision) -> Markup:
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
    scores = [(name, *map(format_score, pair)) for name, pair in c.changed_scores.items()]
    facts = "; ".join([*sides, f"people: {c.label}"])
    return element("changed_decision", c, kind, verdict, facts, scores)


def format_score(score: float | str | None) -> str:
    """A criterion's score as people read it."""
    if score is None:
        return "abstained"
    return "does not apply" if isinstance(score, str) else format_statistic(score)
