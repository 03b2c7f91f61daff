"""The result of a tuning as one self-contained HTML page, for light, dark and narrow screens."""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import urlsplit

from orchestrator.report.terminal_escaping import escape_unprintable
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
from orchestrator.tuning.calibration import ReliabilityBin
from orchestrator.tuning.confidence_intervals import PairedComparison, format_statistic
from orchestrator.tuning.cross_validation import LearningCurvePoint
from orchestrator.tuning.rubric_decisions import Flip
from orchestrator.tuning.tune import ConfusionMatrix, TotalHistogram, TuningResult

STYLE = """
:root{color-scheme:light dark;--ink:#1d2330;--dim:#5b6475;--line:#d5dae3;--bg:#fff;--card:#f5f7fa;
--a:#2563c9;--b:#b4501a;--good:#19713d;--warn:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--dim:#a2abbb;--line:#3a4250;--bg:#14171d;
--card:#1d222b;--a:#7fb0ff;--b:#f0a070;--good:#6fd19a;--warn:#e8bd63}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--bg);margin:0 auto;
max-width:60rem;padding:1rem;overflow-wrap:anywhere}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}
.verdict{border-left:.4rem solid var(--warn);background:var(--card);padding:.6rem 1rem}
.verdict.proven{border-color:var(--good)}
.charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr))}
figure{margin:0;background:var(--card);padding:.8rem;border-radius:.4rem}
figcaption{font-weight:600;margin-bottom:.4rem}figcaption small{display:block;font-weight:400;
color:var(--dim)}
svg{width:100%;max-width:100%;height:auto;display:block}
svg text{fill:var(--dim);font:11px system-ui,sans-serif}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top;
overflow-wrap:normal}td:first-child{overflow-wrap:anywhere;min-width:7rem}
th{color:var(--dim);font-weight:600}a{color:var(--a)}.dim{color:var(--dim)}
"""


def render_tuning_page(result: TuningResult, title: str) -> str:
    """The page, ending in a newline."""
    body = [
        f"<h1>{_escape(title)}</h1>",
        _render_conclusion(result),
        _render_labels(result),
        *(_render_fit(result, result.comparison) if result.comparison is not None else ()),
    ]
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Nothing may be fetched or executed, whatever an item's text contains.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_escape(title)}</title><style>{STYLE}</style></head>"
    )
    return f"{head}\n<body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"


def _escape(raw: str) -> str:
    """External text as HTML."""
    return escape(escape_unprintable(raw))


def _render_conclusion(result: TuningResult) -> str:
    heading = "Gain proven" if result.proven else "No new rubric"
    kind = " proven" if result.proven else ""
    reasons = "".join(f"<p>{_escape(line)}.</p>" for line in (*result.reasons, *result.notes))
    return f'<section class="verdict{kind}"><strong>{heading}</strong>{reasons}</section>'


def _render_labels(result: TuningResult) -> str:
    facts = f"{', '.join(count_labels(result.assessment))}."
    people, agreement = result.assessment.inter_rater, ""
    if people.shared_items and people.kappa and people.alpha:
        agreement = (
            f" Inter-rater agreement on {people.shared_items:,} items: kappa "
            f"{people.kappa.format()}, alpha {people.alpha.format()}."
        )
    notes = "".join(f"<li>{_escape(note)}</li>" for note in result.assessment.notes)
    return f"<h2>Labels</h2><p>{facts}{agreement}</p><ul>{notes}</ul>"


def _render_fit(result: TuningResult, comparison: PairedComparison) -> Iterable[str]:
    yield "<h2>Held-out agreement, cross-validated by group</h2>"
    yield _render_comparison(result, comparison)
    yield '<div class="charts">'
    error = format_statistic(result.calibration_error, 3)
    yield _render_figure(
        "Reliability diagram",
        f"share accepted by predicted probability; expected calibration error {error}",
        draw_reliability_diagram(result.reliability),
    )
    for histogram in result.histograms:
        yield _render_figure(
            f"Totals by label, {histogram.name}",
            f"accepted above the axis, rejected below; threshold {histogram.threshold:.3g}",
            draw_histogram(histogram),
        )
    yield _render_figure(
        "Weights",
        "share of the total weight: present (bar), fitted with 95% range of refits (dot)",
        draw_weights(result),
    )
    value, sign = (
        ("cost per decision", -1.0) if result.plan.objective.uses_costs else ("kappa", 1.0)
    )
    yield _render_figure(
        "Learning curve",
        f"held-out {value} by number of labels, and its worst 5% (gray). "
        f"{describe_more_labels(result)}",
        draw_learning_curve(result.learning_curve, sign),
    )
    yield "</div>"
    if result.confusion:
        yield "<h2>Confusion matrix</h2>" + _render_confusion(result.confusion)
    yield f"<h2>{CHECKS_HEADING}</h2>" + _render_checks(result)
    yield "<h2>Criteria</h2>" + _render_criteria(result)
    yield f"<h2>{describe_flip_count(result)}</h2>"
    yield _render_flips(result.flips)


def _render_figure(caption: str, note: str, svg: str) -> str:
    return (
        f"<figure><figcaption>{_escape(caption)}<small>{_escape(note)}</small></figcaption>"
        f"{svg}</figure>"
    )


def _render_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{h}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _render_comparison(result: TuningResult, comparison: PairedComparison) -> str:
    uses_costs = result.plan.objective.uses_costs
    rows = [
        [name, *(apply_sign(v, sign).format() for v in (c.before, c.after, c.change))]
        for name, c, sign in list_comparisons(result, comparison)
    ]
    rows += [
        [_escape(policy), "", format_statistic(-value if uses_costs else value), ""]
        for policy, value in (result.trivial_policies or {}).items()
    ]
    foot = f'<p class="dim">Threshold {describe_fit(result)}.</p>'
    return _render_table(["", "before", "after", "change"], rows) + foot


def _render_confusion(matrices: tuple[ConfusionMatrix, ConfusionMatrix]) -> str:
    rows = [
        [name, *(f"{m[i][j]:.4g}" for m in matrices for j in (0, 1))]
        for i, name in enumerate(("people reject", "people accept"))
    ]
    head = ["", "before: reject", "before: accept", "after: reject", "after: accept"]
    return _render_table(head, rows)


def _render_checks(result: TuningResult) -> str:
    rows = [[_escape(cell) for cell in row] for row in list_checks(result)]
    table = _render_table(["part of the labels", "change", "outcome"], rows)
    if not result.raters:
        return table
    raters = [
        [
            _escape(r.name),
            str(r.labels),
            *("n/a" if v is None else v.format() for v in (r.auc, r.kappa)),
            "as if at random" if r.at_chance else "",
        ]
        for r in result.raters
    ]
    head = ["rater", "labels", "AUC", "kappa with the others", ""]
    return table + _render_table(head, raters)


def _render_criteria(result: TuningResult) -> str:
    rows = [
        [
            _escape(c.name),
            "n/a" if c.auc is None else c.auc.format(),
            format_statistic(c.share_before),
            "" if c.share_after is None else c.share_after.format(),
            "n/a" if c.auc_drop is None else f"{c.auc_drop:+.3f}",
            "" if c.selection_frequency is None else f"{c.selection_frequency:.0%}",
            _escape("; ".join(c.notes)),
        ]
        for c in result.criteria
    ]
    head = ["", "AUC", "weight", "fitted", "AUC drop when removed", "selected in refits", "notes"]
    return _render_table(head, rows)


def _render_flips(flips: Iterable[Flip]) -> str:
    rows = [[_render_link(f), *describe_flip_sides(f), _escape(f.label)] for f in flips]
    return _render_table(["item", "decision", "total", "label"], rows) if rows else "<p>None.</p>"


def _render_link(flip: Flip) -> str:
    if urlsplit(flip.url).scheme not in {"http", "https"}:
        return _escape(flip.id)
    return f'<a rel="noreferrer" href="{escape(flip.url)}">{_escape(flip.id)}</a>'


WIDTH, HEIGHT = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 10, 28


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _svg(label: str, parts: Iterable[str], height: int = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, color: str, more: str = "") -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="var(--{color})" {more}/>'
    )


def _label(x: float, y: float, text: str, anchor: str = "middle") -> str:
    escaped = escape(escape_unprintable(text))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped}</text>'


def _axes(low: float = 0.0, top: float = 1.0) -> list[str]:
    """Both axes; the vertical one from ``low`` to ``top``."""
    parts = [_line(_x(0), _y(0), _x(1), _y(0), "line"), _line(_x(0), _y(0), _x(0), _y(1), "line")]
    return parts + [
        _label(LEFT - 5, _y(share) + 4, f"{low + share * (top - low):.2f}", "end")
        for share in (0.0, 0.5, 1.0)
    ]


def draw_reliability_diagram(curve: Sequence[ReliabilityBin]) -> str:
    """Predicted against observed probability; a dot's area is proportional to its items."""
    parts = _axes()
    parts += [_label(_x(s), HEIGHT - 8, f"{s:.1f}") for s in (0.0, 0.5, 1.0)]
    parts.append(_line(_x(0), _y(0), _x(1), _y(1), "line", 'stroke-dasharray="4 4"'))
    maximum = max((b.weight for b in curve), default=1.0)
    for b in curve:
        x, y = _x(b.mean_predicted), _y(b.fraction_accepted)
        radius = 2.5 + 6 * (b.weight / maximum) ** 0.5
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
            f'fill="var(--a)" fill-opacity=".75"><title>{b.weight:g} items: predicted '
            f"{b.mean_predicted:.2f}, accepted {b.fraction_accepted:.2f}</title></circle>"
        )
    return _svg("reliability diagram", parts)


def draw_histogram(s: TotalHistogram) -> str:
    """Totals of accepted items above the axis, of rejected ones below, and the threshold."""
    steps = len(s.accepted)
    maximum = max((*s.accepted, *s.rejected, 1.0))
    middle, half = (_y(0) + _y(1)) / 2, (_y(0) - _y(1)) / 2
    parts = [_label(_x(v), HEIGHT - 8, f"{v:.1f}") for v in (0.0, 0.5, 1.0)]
    for i in range(steps):
        x, wide = _x(i / steps), (_x(1) - _x(0)) / steps - 1
        for count, color, up in ((s.accepted[i], "a", True), (s.rejected[i], "b", False)):
            height = half * count / maximum
            top = middle - height if up else middle
            parts.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}" '
                f'fill="var(--{color})"><title>{count:g}</title></rect>'
            )
    parts.append(_line(_x(0), middle, _x(1), middle, "line"))
    at = _x(min(max(s.threshold, 0.0), 1.0))
    parts.append(_line(at, _y(0), at, _y(1), "ink", 'stroke-dasharray="3 3"'))
    return _svg(f"totals by label, {s.name}", parts)


def draw_weights(result: TuningResult) -> str:
    """Share of the total weight: a bar before, a dot with the 95% range of refits after."""
    row = 26
    height = TOP + row * len(result.criteria) + 8
    ends = [c.share_before for c in result.criteria]
    ends += [max(c.share_after.high, c.share_after.value) for c in result.criteria if c.share_after]
    maximum = max([*ends, 1e-9])
    start, room = 120, WIDTH - 120 - RIGHT
    parts = []
    for i, c in enumerate(result.criteria):
        y = TOP + row * i + row / 2
        name = c.name if len(c.name) <= 18 else c.name[:17] + "…"
        parts.append(_label(start - 6, y + 4, name, "end"))
        parts.append(
            f'<rect x="{start}" y="{y - 7:.1f}" width="{room * c.share_before / maximum:.1f}" '
            'height="14" fill="var(--line)"/>'
        )
        if (share := c.share_after) is not None:
            low, high, at = (
                start + room * v / maximum for v in (share.low, share.high, share.value)
            )
            parts.append(_line(low, y, high, y, "a", 'stroke-width="2"'))
            parts.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="4" fill="var(--a)"/>')
    return _svg("weights before and after", parts, height)


def draw_learning_curve(curve: Sequence[LearningCurvePoint], sign: float) -> str:
    """Mean held-out value by number of labels, and its 5th percentile."""
    if not curve:
        return _svg("learning curve", [_label(WIDTH / 2, HEIGHT / 2, "not enough labels")])
    values = [sign * v for p in curve for v in (p.value, p.low)]
    low, top = min([*values, 0.0]), max(values)
    top = top if top > low else low + 1.0
    maximum = curve[-1].labels
    parts = _axes(low, top)
    spots = [(_x(p.labels / maximum), p) for p in curve]
    for color, pick in (("a", 0), ("dim", 1)):
        line = " ".join(
            f"{x:.1f},{_y((sign * (p.value, p.low)[pick] - low) / (top - low)):.1f}"
            for x, p in spots
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="var(--{color})"/>')
    parts += [_label(x, HEIGHT - 8, f"{p.labels}") for x, p in spots]
    return _svg("learning curve", parts)
