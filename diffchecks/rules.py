"""The rules: which codes of which checks count as findings, with severity and texts.

They are data: ``data/rules``, a file per topic. A code without a rule is disabled.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct, convert, field

from diffchecks import DATA, Severity
from diffchecks.check_io import RawFinding, ReportedRule
from diffchecks.data_files import parse_yaml
from diffchecks.path_kinds import Kind, path_kinds

MALICIOUS_CODE = 506
"""The CWE of rules about code that hides, downloads or sends away what nobody asked for."""


class RuleExample(Struct, frozen=True, forbid_unknown_fields=True):
    """Code that violates the rule and code that follows it, with one difference."""

    bad: str
    good: str


class Rule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One rule of the table.

    Attributes:
        codes: ``tool:code`` pairs that it turns on (``from`` in the file); ``tool:*-code`` is one
            code in any language, ``tool:*`` all codes of the tool that no other rule names.
        severity_from_request: the severity if the check says that request data reaches the place.
        fixes: language -> what ``fix`` is in its files, by the start of a pattern's code
            (``go`` for ``patterns:go-sql``).
        not_constant: a class of sinks (``data/taint/classes.yaml``): a finding is rejected where
            taint tracking shows that only constants reach such a sink.
        together: several findings of a ``file`` or a ``change``, or with the same ``message`` in a
            change, are one, as they have one cause.
        arguable: it is a matter of judgment, so an agent's objection with evidence may set it
            aside.
        fact: no argument changes it, such as a syntax error: no number of objections outweighs it.
        loss: it says which protection was lost; what the same line now allows is the same defect.
    """

    id: Annotated[str, Meta(pattern=r"^[a-z]+\.[a-z0-9-]+$")]
    title: str
    severity: Severity
    severity_from_request: Severity | None = None
    cwe: tuple[int, ...] = ()
    codes: Annotated[tuple[str, ...], Meta(min_length=1)] = field(name="from")
    why: str
    fix: str
    fixes: Mapping[str, str] = {}
    example: RuleExample | None = None
    not_in: tuple[Kind, ...] = ()
    not_constant: str = ""
    together: Literal["", "file", "change", "message"] = ""
    arguable: bool = False
    fact: bool = False
    loss: bool = False

    def __post_init__(self) -> None:
        # Test runners, builders of documentation and installers run files of every kind.
        if self.is_malicious and self.not_in:
            what = f"not_in is not allowed with CWE-{MALICIOUS_CODE}"
            raise ValueError(f"{what}, which holds everywhere")

    @property
    def is_malicious(self) -> bool:
        """Whether it is about malicious code, which no kind of file excuses."""
        return MALICIOUS_CODE in self.cwe

    @property
    def category(self) -> str:
        """``security``, ``qa``, ``docs`` or ``architecture``."""
        return self.id.split(".", 1)[0]

    @property
    def severities(self) -> set[Severity]:
        """Those that its findings can have."""
        return {self.severity, self.severity_from_request or self.severity}

    def severity_of(self, raw: RawFinding) -> Severity:
        """The severity of a finding."""
        return (raw.from_request and self.severity_from_request) or self.severity

    def in_others_code(self, severity: Severity) -> bool:
        """Whether a finding of a severity counts in a file that is vendored or generated."""
        return severity in {"critical", "high"} or (severity == "medium" and self.is_malicious)

    def advice(self, code: str) -> str:
        """How to fix the findings of a code, in the code's language."""
        return self.fixes.get(code.partition("-")[0], self.fix)


IMPORTED = "import."
"""What the ids of the rules of imported reports begin with."""

IMPORTED_RESULTS = "imported_reports"
"""The tool that reports results of analyzers that ran elsewhere."""

CONFIGURED_ANALYZERS = "configured_analyzers"
"""The tool that runs the analyzers of base's configuration, and reports their results."""


class ImportedRule(Rule, frozen=True, kw_only=True):
    """A rule that an imported report describes.

    Attributes:
        topic: its category, which its id does not begin with.
    """

    topic: str

    @property
    def category(self) -> str:
        """``security`` or ``qa``."""
        return self.topic


def imported_rule(reported: ReportedRule) -> ImportedRule:
    """The rule that an imported report describes; agents may dispute its findings."""
    return ImportedRule(
        id=f"{IMPORTED}{reported.tool}.{reported.rule}",
        title=reported.title,
        severity=convert(reported.severity, Severity),
        cwe=reported.cwe,
        codes=(f"{reported.tool}:{reported.rule}",),
        why="",
        fix=reported.fix,
        arguable=True,
        topic=reported.category,
    )


class RuleFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of the rule table."""

    rules: tuple[Rule, ...]


class RuleTable:
    """All rules; ``rules`` holds them by id."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = {rule.id: rule for rule in rules}
        self.losses = frozenset(rule.id for rule in self.rules.values() if rule.loss)
        self._by_code = {code: rule for rule in self.rules.values() for code in rule.codes}

    def find(self, tool: str, code: str) -> Rule | None:
        """The rule for a tool's code; None if the code is disabled."""
        in_any = f"*-{code.partition('-')[2]}"
        found = (self._by_code.get(f"{tool}:{name}") for name in (code, in_any, "*"))
        return next(filter(None, found), None)

    def find_for(self, tool: str, raw: RawFinding) -> Rule | None:
        """The rule for a finding; None if its code is disabled, or disabled in files of its kind.

        A result of an imported report gets our own rule if the table has one for it.
        """
        kinds = path_kinds(raw.path).difference({"tests", "samples"} if raw.in_use else ())
        kinds = kinds.union({"tests"} if raw.in_tests else ())
        names = raw.reported.own if raw.reported else ((tool, raw.code),)
        known = filter(None, (self.find(*name) for name in names))
        rule = next((one for one in known if kinds.isdisjoint(one.not_in)), None)
        return rule or (imported_rule(raw.reported) if raw.reported else None)

    def is_arguable(self, rule: str) -> bool:
        """Whether agents may dispute an analyzer's findings under a rule."""
        known = self.rules.get(rule)
        return known.arguable if known else rule.startswith(IMPORTED)

    def is_fact(self, rule: str) -> bool:
        """Whether no objection outweighs findings under a rule; so for a rule of others' own."""
        known = self.rules.get(rule)
        return known.fact if known else not rule.startswith(IMPORTED)

    def codes(
        self, tool: str, category: str | None = None, *, others_code: bool = False
    ) -> frozenset[str]:
        """The enabled codes of a tool, of all categories or of one.

        Args:
            others_code: only those that may count in a vendored or a generated file.
        """
        rules = self._by_tool.get(tool, {}).items()
        return frozenset(
            code
            for code, rule in rules
            if category in {None, rule.category}
            and (not others_code or any(map(rule.in_others_code, rule.severities)))
        )

    @cached_property
    def _by_tool(self) -> Mapping[str, Mapping[str, Rule]]:
        """Tool → code → rule."""
        found = defaultdict[str, dict[str, Rule]](dict)
        for name, rule in self._by_code.items():
            tool, _, code = name.partition(":")
            found[tool][code] = rule
        return found


@cache
def shipped_rules() -> RuleTable:
    """The rules in ``data/rules``."""
    texts = (file.read_bytes() for file in sorted((DATA / "rules").glob("*.yaml")))
    return RuleTable(rule for text in texts for rule in convert(parse_yaml(text), RuleFile).rules)
