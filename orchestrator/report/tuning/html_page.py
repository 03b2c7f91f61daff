"""A tuning as one HTML page that fetches nothing and reads well light, dark and narrow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from urllib.parse import urlsplit

from orchestrator.report.terminal_escaping import visible
from orchestrator.report.tuning import charts
from orchestrator.report.tuning.text import flips_heading, label_counts, more_labels, signed
from orchestrator.tuning.confidence_intervals import Compared, number
from orchestrator.tuning.decision_flips import Flip
from orchestrator.tuning.tune import Outcome, Table

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


def render_page(outcome: Outcome, title: str) -> str:
    """The page, ending in a newline.

    Args:
        title: what was tuned; escaped here, as everything from outside is.
    """
    body = [
        f"<h1>{text(title)}</h1>",
        _verdict(outcome),
        _labels(outcome),
        *(_fitted(outcome, outcome.compared) if outcome.compared is not None else ()),
    ]
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Nothing may be fetched or run, whatever an item's text holds.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{text(title)}</title><style>{STYLE}</style></head>"
    )
    return f"{head}\n<body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"


def text(raw: str) -> str:
    """Text from outside, fit for HTML."""
    return escape(visible(raw))


def _verdict(outcome: Outcome) -> str:
    word = "Gain proven" if outcome.proven else "No new rubric"
    kind = " proven" if outcome.proven else ""
    why = "".join(f"<p>{text(line)}.</p>" for line in outcome.why)
    return f'<section class="verdict{kind}"><strong>{word}</strong>{why}</section>'


def _labels(outcome: Outcome) -> str:
    a = outcome.advice
    facts = f"{', '.join(label_counts(a))}."
    human = ""
    if a.human.twice and a.human.kappa and a.human.alpha:
        human = (
            f" Rater against rater on {a.human.twice:,} items: kappa {a.human.kappa.shown()}, "
            f"alpha {a.human.alpha.shown()}."
        )
    notes = "".join(f"<li>{text(note)}</li>" for note in a.notes)
    return f"<h2>Labels</h2><p>{facts}{human}</p><ul>{notes}</ul>"


def _fitted(outcome: Outcome, compared: Compared) -> Iterable[str]:
    yield "<h2>Held out, by group</h2>" + _compared(outcome, compared)
    yield '<div class="charts">'
    yield figure(
        "Reliability",
        f"share accepted by predicted probability; error {number(outcome.ece, 3)}",
        charts.reliability(outcome.reliability),
    )
    for spread in outcome.spread:
        yield figure(
            f"Totals by label, {spread.name}",
            f"accepted above, rejected below the line; threshold {spread.threshold:.3g}",
            charts.spread(spread),
        )
    yield figure(
        "Weights", "share of the total: present (grey), fitted with refits", charts.weights(outcome)
    )
    value, sign = ("cost", -1.0) if outcome.plan.aim.by_cost else ("kappa", 1.0)
    note = f"{value} held out, by labels; grey: where the worst 5% begin. {more_labels(outcome)}"
    yield figure("Learning curve", note, charts.learning(outcome.curve, sign))
    yield "</div>"
    if outcome.tables:
        yield "<h2>Confusion</h2>" + _confusion(outcome.tables)
    yield "<h2>Criteria</h2>" + _criteria(outcome)
    yield f"<h2>{flips_heading(outcome)}</h2>"
    yield _flips(outcome.flips)


def figure(caption: str, note: str, svg: str) -> str:
    """A captioned chart."""
    return (
        f"<figure><figcaption>{text(caption)}<small>{text(note)}</small></figcaption>{svg}</figure>"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{h}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _compared(outcome: Outcome, compared: Compared) -> str:
    by_cost = outcome.plan.aim.by_cost
    name = "cost a decision" if by_cost else "kappa"
    shown = [(name, compared, -1.0 if by_cost else 1.0)]
    if outcome.kappa is not None:
        shown.append(("kappa", outcome.kappa, 1.0))
    rows = [
        [label, *(signed(v, s).shown() for v in (c.before, c.after, c.delta))]
        for label, c, s in shown
    ]
    rows += [
        [text(policy), "", number(-v if by_cost else v), ""]
        for policy, v in (outcome.trivial or {}).items()
    ]
    penalty = "infinite" if math.isinf(outcome.penalty) else f"{outcome.penalty:g}"
    before, after = outcome.threshold or (math.nan, math.nan)
    foot = (
        f'<p class="dim">Threshold {before:.4g} → {after:.4g}, penalty {penalty}, '
        f"seed {outcome.seed}.</p>"
    )
    return table(["", "before", "after", "change"], rows) + foot


def _confusion(tables: tuple[Table, Table]) -> str:
    rows = [
        [word, *(f"{t[i][j]:.4g}" for t in tables for j in (0, 1))]
        for i, word in enumerate(("people reject", "people accept"))
    ]
    return table(["", "before: reject", "before: accept", "after: reject", "after: accept"], rows)


def _criteria(outcome: Outcome) -> str:
    rows = [
        [
            text(c.name),
            "n/a" if c.auc is None else c.auc.shown(),
            number(c.before),
            "" if c.after is None else c.after.shown(),
            "n/a" if c.drop is None else f"{c.drop:+.3f}",
            "" if c.kept is None else f"{c.kept:.0%}",
            text("; ".join(c.notes)),
        ]
        for c in outcome.criteria
    ]
    return table(["", "AUC alone", "share", "fitted", "drop-one AUC", "kept in refits", ""], rows)


def _flips(flips: Iterable[Flip]) -> str:
    rows = []
    for flip in flips:
        was, now = ("accept", "reject") if flip.accepted_before else ("reject", "accept")
        totals = f"{number(flip.before)} → {number(flip.after)}"
        rows.append([_link(flip), f"{was} → {now}", totals, text(flip.label)])
    return table(["item", "decision", "total", "people"], rows) if rows else "<p>None.</p>"


def _link(flip: Flip) -> str:
    if urlsplit(flip.url).scheme not in {"http", "https"}:
        return text(flip.id)
    return f'<a rel="noreferrer" href="{escape(flip.url)}">{text(flip.id)}</a>'
