"""The rule table as a Markdown page: what is found, why it matters, and how to waive it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from diffchecks.rules import Rule
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.data_directories import read_table
from orchestrator.report.text_layout import MIN_WIDTH, UNBOUNDED, TextLayout

TOPICS = ("security", "qa", "docs", "architecture")


def render_rules_page(
    rules: Sequence[Rule], readers: Mapping[str, Mapping[str, Sequence[str]]]
) -> str:
    """What is read as code, and all rules by category, most severe first; ends in a newline.

    Args:
        readers: language → topic → the tools that read it as code.
    """
    ordered = sorted(rules, key=lambda r: (r.category, SEVERITIES.index(r.severity), r.id))
    head = Path(__file__).with_name("rules_head.md").read_text(encoding="utf-8")
    parts = [head + _render_readers(readers)]
    for category, group in groupby(ordered, key=lambda rule: rule.category):
        entries = list(group)
        parts.append(f"## {category} ({len(entries)})\n")
        parts += [render_rule(rule) for rule in entries]
    return "\n".join(parts)


_LANGUAGES: Mapping[str, str] = read_table(__file__, "language_names.yaml")


def _name_language(key: str) -> str:
    return _LANGUAGES.get(key, key.capitalize())


def _render_readers(readers: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    rows = [
        f"| {language} | " + " | ".join(", ".join(tools.get(topic, ())) for topic in TOPICS) + " |"
        for language, tools in readers.items()
        if tools
    ]
    text_only = ", ".join(language for language, tools in readers.items() if not tools)
    return "\n".join(rows) + f"\n\nRead as text only: {text_only}.\n"


def render_rule(rule: Rule) -> str:
    """A rule as a section of the page; ends in a newline."""
    facts = [
        f"**{rule.severity}**",
        *(
            f"{grave} if a value from a request reaches it"
            for grave in [rule.severity_from_request]
            if grave
        ),
        *(f"CWE-{number}" for number in rule.cwe),
        _describe_tools(rule.codes),
    ]
    if rule.not_in:
        facts.append(f"not in {', '.join(rule.not_in)}")
    if rule.not_constant:
        facts.append("rejected when data flow shows that only constants reach it")
    facts += [name for name in ("arguable", "fact") if getattr(rule, name)]
    lines = [
        f"### {rule.id}",
        "",
        f"{rule.title}. {' · '.join(facts)}",
        "",
        f"{rule.why} {rule.fix}",
    ]
    if rule.fixes:
        lines += ["", *(f"- In {_name_language(key)}: {fix}" for key, fix in rule.fixes.items())]
    if rule.example:
        lines += ["", "```text"]
        lines += _render_example("reported", rule.example.bad) + _render_example(
            "quiet", rule.example.good
        )
        lines += ["```"]
    return "\n".join(lines) + "\n"


TURN_OFF = (
    "To turn it off or lower its severity, commit this to the base branch as "
    ".diffcourt/memory/preferences.md:"
)


def render_rule_text(rule: Rule, width: int) -> str:
    """A rule for a terminal, with what turns it off; ends in a newline."""
    page = TextLayout(max(width, MIN_WIDTH))
    severity: str = rule.severity
    if rule.severity_from_request:
        severity += f", {rule.severity_from_request} if a value from a request reaches it"
    lines = page.wrap(f"{rule.id}: {rule.title}", limit=UNBOUNDED)
    for name, value in (
        ("severity", severity),
        ("CWE", ", ".join(map(str, rule.cwe))),
        ("why", rule.why),
        ("fix", rule.fix),
        *((f"  in {_name_language(key)}", fix) for key, fix in rule.fixes.items()),
        ("not in", ", ".join(rule.not_in)),
        ("arguable", "an agent with evidence can have it rejected" if rule.arguable else ""),
        ("fact", "no argument outweighs it" if rule.fact else ""),
        ("found by", _describe_tools(rule.codes).removeprefix("found by ")),
    ):
        if value:
            lines += page.wrap(value, first=f"{name}: ", rest="  ", limit=UNBOUNDED)
    if rule.example:
        lines += ["", *_render_example("reported", rule.example.bad)]
        lines += _render_example("quiet", rule.example.good)
    person = ', by: "NAME"' if "critical" in {rule.severity, rule.severity_from_request} else ""
    entry = f'  - {{rule: {rule.id}, severity: "off", why: "REASON"{person}}}'
    lines += ["", *page.wrap(TURN_OFF, limit=UNBOUNDED), "---", "rules:", entry, "---"]
    return "\n".join(lines) + "\n"


def _describe_tools(codes: Iterable[str]) -> str:
    """``ruff S602, S604; taint sql``."""
    pairs = [code.split(":", 1) for code in codes]
    tools = [
        f"{tool} {', '.join(code for _, code in group)}".removesuffix(" *")
        for tool, group in groupby(pairs, key=lambda pair: pair[0])
    ]
    return f"found by {'; '.join(tools)}"


def _render_example(what: str, code: str) -> list[str]:
    first, *rest = code.rstrip("\n").split("\n")
    return [f"{what + ':':<10}{first}", *(f"{'':<10}{line}" for line in rest)]
