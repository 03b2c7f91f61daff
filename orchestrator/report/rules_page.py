"""The rule table as a Markdown page: what is found, why it matters, and how to waive it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from diffchecks.rules import Rule
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.report.text_layout import MIN_WIDTH, UNBOUNDED, TextLayout

TOPICS = ("security", "qa", "docs", "architecture")

HEAD = """\
# Findings

What each finding means, why it matters, and how to fix it: the shipped rules and your repository's
own. `diffcourt catalog RULE` explains one.

A rule is found by one or more tools; a tool's result that no rule names is ignored. Only problems
that the change introduces are reported. The severity is the rule's, never the tool's: **critical**
blocks the merge, **high** and **medium** need changes, **low** and **info** are shown and do not
affect the outcome. Change the thresholds in `.diffcourt/config/verdict.yaml` (`block_at`,
`needs_changes_at`).

Every text file is searched for secrets, invisible characters and conflict markers. Further checks
depend on the file type: Python in most depth; JavaScript, TypeScript, C, C++, C#, Dart, Elixir, Go,
Java, Kotlin, Lua, PHP, Ruby, Rust, Scala, Solidity, Swift and Terraform by their syntax trees; then
shell, Dockerfiles, Makefiles, workflows, data files and Markdown. In `.vue`, `.svelte` and `.astro`
files the scripts are analyzed, in `.erb` files the embedded Ruby, in `.php` files the code between
the tags, in Makefiles the recipes. Templates of HTML (Jinja, Django, Twig, Mako, Blade, ERB, EJS,
Handlebars, Razor, Thymeleaf, Vue, Svelte and others) are read for values that they print without
escaping; other markup is treated as plain text. For each file, the verdict's `checked` lists the
tools that examined it.

A rule marked *arguable* is a matter of judgment: an agent with evidence can have its finding set to
`rejected`. A finding of any other rule stays open, with the argument recorded beside it. At
`medium` it no longer decides if two agents and the judge refute it, except in security and for a
*fact*.

To waive a rule, or a single finding by its `fingerprint` in the verdict's JSON, commit this to the
base branch as `.diffcourt/waivers.yaml` (`diffcourt waive` writes it). A waived finding is shown
and not counted. A waiver in the change under review has no effect.

```yaml
waivers:
  - rule: security.subprocess-shell
    paths: ["tools/**"]      # omitted: all paths
    until: 2027-06-30        # omitted: no expiry
    why: Run by hand only.
```

To turn a rule off, everywhere or in some files, or to lower its severity, commit this to the base
branch as `.diffcourt/memory/preferences.md` (docs/memory.md):

```markdown
---
rules:
  - {rule: docs.missing-docstring, severity: "off", paths: ["tools/**"], why: Not read.}
---
```

To add rules, or raise the severity of shipped ones, put a file into `.diffcourt/config/rules/`.
One with the name of a shipped file replaces it.
"""


LANGUAGES = """\
## What is read in which language

The tools that read it as code, by topic. What a verdict makes of files that were read as text only:
see docs/reading-depth.md.

| language | security | qa | docs | architecture |
|---|---|---|---|---|
"""


def render_rules_page(
    rules: Sequence[Rule], readers: Mapping[str, Mapping[str, Sequence[str]]]
) -> str:
    """What is read as code, and all rules by category, most severe first; ends in a newline.

    Args:
        readers: language → topic → the tools that read it as code.
    """
    ordered = sorted(rules, key=lambda r: (r.category, SEVERITIES.index(r.severity), r.id))
    parts = [HEAD, _render_readers(readers)]
    for category, group in groupby(ordered, key=lambda rule: rule.category):
        entries = list(group)
        parts.append(f"## {category} ({len(entries)})\n")
        parts += [render_rule(rule) for rule in entries]
    return "\n".join(parts)


_LANGUAGES = {
    "c": "C and C++", "csharp": "C#", "dart": "Dart", "elixir": "Elixir", "go": "Go",
    "java": "Java", "js": "JavaScript", "kotlin": "Kotlin", "lua": "Lua", "php": "PHP",
    "ruby": "Ruby", "rust": "Rust", "scala": "Scala", "solidity": "Solidity", "blade": "Blade",
    "django": "Django", "erb": "ERB", "html": "HTML", "jinja": "Jinja", "mako": "Mako",
    "svelte": "Svelte", "twig": "Twig", "vue": "Vue", "ejs": "EJS", "jsp": "JSP",
    "handlebars": "Handlebars", "thymeleaf": "Thymeleaf", "razor": "Razor", "liquid": "Liquid",
    "swift": "Swift", "terraform": "Terraform", "shell": "Shell", "sql": "SQL",
}  # fmt: skip


def _render_readers(readers: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    rows = [
        f"| {language} | " + " | ".join(", ".join(tools.get(topic, ())) for topic in TOPICS) + " |"
        for language, tools in readers.items()
        if tools
    ]
    text_only = ", ".join(language for language, tools in readers.items() if not tools)
    return LANGUAGES + "\n".join(rows) + f"\n\nRead as text only: {text_only}.\n"


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
        lines += [
            "",
            *(f"- In {_LANGUAGES.get(key, key)}: {fix}" for key, fix in rule.fixes.items()),
        ]
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
        *((f"  in {_LANGUAGES.get(key, key)}", fix) for key, fix in rule.fixes.items()),
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
