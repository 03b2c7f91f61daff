"""The rule table as a page of Markdown: what is found, why it matters, and how to waive it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from orchestrator.catalog.fields import SEVERITIES
from orchestrator.review.rule_table import Rule

HEAD = """\
# Findings

Made from the rule table by `make docs`; edit `config/rules/*.yaml`, not this page. `diffcourt
catalog --rules` prints the same with your repository's own rules.

A rule is found by one or more tools; what a tool says that no rule names is off. Only what a
change brings in is reported. A severity is the rule's, never the tool's: **high** and
**critical** are for what someone should be woken for, **medium** needs changes, **low** and
**info** are shown and decide nothing. Set others in `.diffcourt/config/verdict.yaml` (`block_at`,
`needs_changes_at`).

Every text is searched for secrets, invisible characters and conflict markers. What else is looked
at goes by the file: Python deepest, then JavaScript, TypeScript, Go, Java and Ruby by their syntax
trees, then shell, Dockerfiles, workflows, data files and Markdown. Of `.vue`, `.svelte` and
`.astro` files the scripts are read, and of `.erb` files the Ruby in their tags; their markup, and
other templates and HTML, are texts and nothing more. For each file the verdict's `checked` names
the tools that looked into it.

A rule that is *arguable* is a matter of judgment: an agent with evidence may argue its finding
down to `rejected`. What any other rule found stays open, with the argument beside it.

To waive a rule, or a single finding by the `fingerprint` that the verdict's JSON states, commit
this to the base branch as `.diffcourt/config/verdict.yaml`; the finding stays in sight and does
not count. A waiver in the change under review has no effect.

```yaml
waivers:
  - rule: security.subprocess-shell
    paths: ["tools/**"]      # left out: everywhere
    until: 2027-06-30        # left out: for good
    why: Run by hand only.
```

To change a rule or turn it off for good, put a file of the same name into
`.diffcourt/config/rules/`: it replaces the shipped one. A file of another name adds rules.
"""


def render_rules_page(rules: Sequence[Rule]) -> str:
    """All rules by category, worst first; ends in a newline."""
    ordered = sorted(rules, key=lambda r: (r.category, SEVERITIES.index(r.severity), r.id))
    parts = [HEAD]
    for category, group in groupby(ordered, key=lambda rule: rule.category):
        entries = list(group)
        parts.append(f"## {category} ({len(entries)})\n")
        parts += [_entry(rule) for rule in entries]
    return "\n".join(parts)


def _entry(rule: Rule) -> str:
    facts = [f"**{rule.severity}**", *(f"CWE-{number}" for number in rule.cwe), _by(rule.codes)]
    if rule.not_in:
        facts.append(f"not in {', '.join(rule.not_in)}")
    if rule.not_constant:
        facts.append("set aside where values were followed and only constants get there")
    if rule.arguable:
        facts.append("arguable")
    lines = [
        f"### {rule.id}",
        "",
        f"{rule.title}. {' · '.join(facts)}",
        "",
        f"{rule.why} {rule.fix}",
    ]
    if rule.example:
        lines += ["", "```text"]
        lines += _shown("reported", rule.example.bad) + _shown("quiet", rule.example.good)
        lines += ["```"]
    return "\n".join(lines) + "\n"


def _by(codes: Iterable[str]) -> str:
    """``ruff S602, S604; taint sql``."""
    pairs = [code.split(":", 1) for code in codes]
    told = [
        f"{tool} {', '.join(code for _, code in group)}".removesuffix(" *")
        for tool, group in groupby(pairs, key=lambda pair: pair[0])
    ]
    return f"found by {'; '.join(told)}"


def _shown(what: str, code: str) -> list[str]:
    first, *rest = code.rstrip("\n").split("\n")
    return [f"{what + ':':<10}{first}", *(f"{'':<10}{line}" for line in rest)]
