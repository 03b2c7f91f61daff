"""The parts of the page around the findings: outcome, coverage, agents, score, cost."""

from orchestrator.code_review.verdict.model import CriterionScore, Verdict
from orchestrator.report import review_gaps_text
from orchestrator.report.findings_text import count_by_severity
from orchestrator.report.formats.open_findings import describe_skip, gaps, joined_gaps
from orchestrator.report.html_elements import fold, render_section, render_table, text
from orchestrator.report.text_layout import format_duration
from orchestrator.report.verdict_text import describe_since_previous
from orchestrator.wording import count_noun

MAX_FILES = 3_000
_TITLES = {"merge": "Merge", "needs_changes": "Needs changes", "block": "Block"}


def title_of(verdict: Verdict) -> str:
    """``Needs changes: 2 high, 1 low``."""
    found = count_by_severity(verdict.findings) or "no findings"
    return f"{_TITLES[verdict.verdict]}: {found}"


def render_header(verdict: Verdict) -> str:
    """The outcome, why, and the change."""
    change = verdict.change
    incomplete = verdict.status == "incomplete"
    reliance = "analyzers only" if not verdict.used_model else "not judged"
    if verdict.used_model and verdict.confidence is not None:
        reliance = f"confidence {verdict.confidence:.2f}"
    facts = [
        ("Change", f"{change.base[:12]}..{change.head[:12]}"),
        ("Files", f"{change.files:,}"),
        ("Lines", f"+{change.added_lines:,} −{change.removed_lines:,}"),
        ("Review", f"{'incomplete' if incomplete else 'complete'}, {reliance}"),
    ]
    items = "".join(f"<li><span class='soft'>{name}</span> <b>{text(one)}</b></li>"
                    for name, one in facts)  # fmt: skip
    parts = [
        '<p class="soft small">Diffcourt</p>',
        f'<h1><span class="{verdict.verdict}">{_TITLES[verdict.verdict]}</span></h1>',
        f'<p class="lead">{text(count_by_severity(verdict.findings) or "No findings")}</p>',
    ]
    if incomplete:
        count = len(gaps(verdict))
        why = f": {count_noun(count, 'gap')}" if count else ""
        parts.append(
            f'<p class="note"><b>Review incomplete</b>{why}. '
            '<a href="#read">What was not reviewed</a></p>'
        )
    if verdict.lead_summary:
        parts.append(f'<p class="lead">{text(verdict.lead_summary)}</p>')
    if verdict.reasons:
        parts.append(f'<p class="soft">Why: {text("; ".join(verdict.reasons))}</p>')
    if since := describe_since_previous(verdict):
        parts.append(f'<p class="soft">Since {text(since)}</p>')
    if override := verdict.override:
        words = f"Overridden to {override.verdict} by {override.by} at {override.at}, for this head"
        parts.append(f'<p class="note">{text(f"{words} only: {override.reason}")}</p>')
    questions = review_gaps_text.questions_to_author(verdict)
    if questions:
        asked = "".join(f"<li>{text(one)}</li>" for one in questions)
        parts.append(f'<div class="note">Questions to the author<ul>{asked}</ul></div>')
    return f'<header><div>{"".join(parts)}<ul class="facts">{items}</ul></div></header>'


def render_coverage(verdict: Verdict) -> str:
    """How deep each file was read, and what was not."""
    rows = [
        (text(entry.path), entry.depth, text(", ".join((*entry.by, *entry.read_by))))
        for entry in verdict.checked[:MAX_FILES]
    ]
    not_reviewed = "".join(
        f'<li><span class="place">{text(entry.path)}</span> {text(describe_skip(entry))}</li>'
        for entry in joined_gaps(verdict)
    )
    left_out = [
        (text(entry.path), text(describe_skip(entry))) for entry in verdict.skipped if not entry.gap
    ]
    excluded = render_table("Left out", ("File", "Why"), left_out)
    return (
        '<section aria-labelledby="read"><h2 id="read">What was read</h2>'
        + _render_depth(verdict)
        + (f'<div class="note"><b>Not reviewed</b><ul>{not_reviewed}</ul></div>'
           if not_reviewed else "")
        + fold(f"{count_noun(len(verdict.checked), 'file')} by depth",
                render_table("Depth of files", ("File", "Depth", "Read by"), rows))
        + fold(f"{len(left_out):,} left out by policy", excluded)
        + "</section>"
    )  # fmt: skip


def _render_depth(verdict: Verdict) -> str:
    """A bar of the files by depth, and the same in words; empty without files."""
    depth = verdict.depth
    counts = {"code": depth.code, "text": depth.text, "none": depth.none}
    total = sum(counts.values())
    if not total:
        return ""
    bars, at = [], 0.0
    for kind, count in counts.items():
        width = 100 * count / total
        bars.append(
            f'<rect class="{kind}-depth" x="{at:.2f}%" width="{width:.2f}%" height="100%"/>'
        )
        at += width
    words = (
        f"{depth.code:,} of {count_noun(total, 'file')} read as code, {depth.text:,} as text only, "
        f"{depth.none:,} not read"
    )
    return (
        f'<svg role="img" aria-label="{words}">{"".join(bars)}</svg><p class="small">{words}.</p>'
    )


def render_checks(verdict: Verdict) -> str:
    """The required checks of the policy."""
    rows = [
        (text(check.name), check.status.replace("_", " "), text(check.detail))
        for check in verdict.required_checks
        if check.status != "not_applicable"
    ]
    if not rows:
        return ""
    return render_section(
        "checks",
        "Required checks",
        render_table("Checks and their status", ("Check", "Status", "Detail"), rows),
    )


def render_review(verdict: Verdict) -> str:
    """Agents by iteration, the score by criterion, and what it cost."""
    agents = [
        (
            str(one.iteration),
            text(one.agent),
            one.status,
            f"{one.turns:,}",
            f"{one.tool_calls:,}",
            f"{len(one.findings):,}",
            text(one.summary),
        )
        for one in verdict.agents
    ]
    head = ("Round", "Agent", "Status", "Turns", "Calls", "Findings", "Summary")
    rounds = [
        (str(one.number), "none" if one.score is None else f"{one.score:.2f}", text(one.decision))
        for one in verdict.iterations
    ]
    body = render_table("Agents", head, agents) + fold(
        "Rounds", render_table("Rounds", ("Round", "Score", "Decision"), rounds)
    )
    parts = [render_section("agents", "How it was reviewed", body)] if agents or rounds else []
    scores = [
        (text(one.id), _score_bar(one.score), f"{one.weight:.2f}", _why(one))
        for one in verdict.score.criteria
    ]
    if scores:
        total = verdict.score.total
        words = "Not scored" if total is None else f"{total:.2f}"
        needed = f"{words}; at least {verdict.score.threshold:.2f} is needed."
        intro = f"<p>{needed} The score is of the review, not of the change.</p>"
        table = render_table("Criteria", ("Criterion", "Score", "Weight", "Why"), scores)
        parts.append(render_section("score", "Score", intro + table))
    used = verdict.usage
    facts = [
        ("Time", format_duration(used.seconds)),
        ("Model calls", f"{used.model_calls:,}"),
        ("Tool calls", f"{used.tool_calls:,}"),
        ("Tokens", f"{used.input_tokens + used.output_tokens:,}"),
        ("Cost", f"${used.usd:.4f}"),
    ]
    items = "".join(
        f'<li><span class="soft">{name}</span> <b>{one}</b></li>' for name, one in facts
    )
    parts.append(render_section("cost", "Cost", f'<ul class="facts">{items}</ul>'))
    return "".join(parts)


def _why(one: CriterionScore) -> str:
    """Why a criterion has its score, with the evidence."""
    items = "".join(f'<li class="place">{text(each)}</li>' for each in one.evidence)
    return text(one.why) + (f'<ul class="plain">{items}</ul>' if items else "")


def _score_bar(score: float | None) -> str:
    if score is None:
        return "not scored"
    return (
        f'{score:.2f}<svg role="presentation"><rect class="rail" width="100%" height="100%"/>'
        f'<rect class="mark" width="{100 * score:.1f}%" height="100%"/></svg>'
    )
