"""The rule table: what a tool's code means here, and how much it matters.

One table, in ``config/rules/*.yaml``, a file per category. A code that no rule names is off.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated

from msgspec import Meta, field, to_builtins

from orchestrator.catalog.data_sources import Source, latest, place_of
from orchestrator.catalog.fields import Severity
from orchestrator.catalog.layered_files import read_all
from orchestrator.checks.path_kinds import Kind
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.field_types import Strict
from orchestrator.errors import ConfigError

FOLDER = "config/rules"


class Example(Strict, frozen=True):
    """A pair that differs by one thing."""

    bad: str
    good: str


class Rule(Strict, frozen=True, kw_only=True):
    """One rule.

    Attributes:
        codes: ``tool:code`` pairs that it stands for (``from`` in the file); ``tool:*`` stands for
            the codes that no other rule names.
        not_in: kinds of file it does not speak of.
        not_constant: a class of the tracer's sinks (``config/taint/classes.yaml``): where it shows
            that nothing but constants gets there, the pattern was wrong.
        arguable: it is a matter of judgment, so an agent with evidence may argue it down.
    """

    id: Annotated[str, Meta(pattern=r"^[a-z]+\.[a-z0-9-]+$")]
    title: str
    severity: Severity
    cwe: tuple[int, ...] = ()
    codes: Annotated[tuple[str, ...], Meta(min_length=1)] = field(name="from")
    why: str
    fix: str
    example: Example | None = None
    not_in: tuple[Kind, ...] = ()
    not_constant: str = ""
    arguable: bool = False

    @property
    def category(self) -> str:
        """``security``, ``qa``, ``docs`` or ``architecture``."""
        return self.id.split(".", 1)[0]


class RuleFile(Strict, frozen=True):
    """One file of the table."""

    rules: tuple[Rule, ...]


class RuleTable:
    """All rules, by id and by code."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = {rule.id: rule for rule in rules}
        self._by_code = {code: rule for rule in self.rules.values() for code in rule.codes}

    def of(self, tool: str, code: str) -> Rule | None:
        """The rule that a tool's code stands for, None when it is off."""
        return self._by_code.get(f"{tool}:{code}") or self._by_code.get(f"{tool}:*")

    def codes(self, tool: str, category: str | None = None) -> frozenset[str]:
        """A tool's codes that are on, all of them or one category's."""
        return frozenset(
            name.split(":", 1)[1]
            for name, rule in self._by_code.items()
            if name.startswith(f"{tool}:") and category in {None, rule.category}
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the whole table."""
        return digest([to_builtins(rule) for _, rule in sorted(self.rules.items())])


def load_rules(sources: Sequence[Source]) -> RuleTable:
    """Read the table of all layers.

    Raises:
        ConfigError: a fault in a file, an id or a code that stands twice.
    """
    rules: dict[str, Rule] = {}
    owner: dict[str, str] = {}
    for file in read_all(sources, FOLDER, RuleFile):
        for rule in file.rules:
            if rule.id in rules:
                raise ConfigError(
                    f"the rule {rule.id} stands twice; ids are unique",
                    *place_of(sources, f"{FOLDER}/*.yaml", rule.id),
                )
            rules[rule.id] = rule
            for code in rule.codes:
                if code in owner:
                    raise ConfigError(
                        f"{code} belongs to both {owner[code]} and {rule.id}; give it one",
                        *place_of(sources, f"{FOLDER}/*.yaml", code),
                    )
                owner[code] = rule.id
    _check_tools(sources, rules.values())
    return RuleTable(rules.values())


def _check_tools(sources: Sequence[Source], rules: Iterable[Rule]) -> None:
    """See that a repository's own rules speak of tools that there are."""
    if not latest(sources[1:], f"{FOLDER}/*.yaml"):
        return
    shipped = (rule for file in read_all(sources[:1], FOLDER, RuleFile) for rule in file.rules)
    tools = {code.partition(":")[0] for rule in shipped for code in rule.codes}
    for rule in rules:
        for code in rule.codes:
            if code.partition(":")[0] not in tools:
                raise ConfigError(
                    f"{rule.id} is from {code!r}, which must be TOOL:CODE with a tool of these: "
                    f"{', '.join(sorted(tools))}",
                    *place_of(sources, f"{FOLDER}/*.yaml", code),
                )
