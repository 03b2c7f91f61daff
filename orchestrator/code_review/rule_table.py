"""The rule table of a review: the rules of all layers, read from ``config/rules/*.yaml``."""

from collections.abc import Iterable, Sequence

from msgspec import to_builtins

from diffchecks.rules import Rule, RuleFile, RuleTable
from orchestrator.catalog.data_file_layers import Layer, find_files, locate_text, read_directory
from orchestrator.engine.canonical_json import digest
from orchestrator.errors import ConfigError

DIRECTORY = "config/rules"


def rules_digest(table: RuleTable) -> str:
    """SHA-256 of all rules, in hex."""
    return digest([to_builtins(rule) for _, rule in sorted(table.rules.items())])


def load_rules(sources: Sequence[Layer]) -> RuleTable:
    """Read the rule files of all layers."""
    rules: dict[str, Rule] = {}
    owner: dict[str, str] = {}
    for file in read_directory(sources, DIRECTORY, RuleFile):
        for rule in file.rules:
            if rule.id in rules:
                raise ConfigError(
                    f"the rule {rule.id} appears twice; ids must be unique",
                    *locate_text(sources, f"{DIRECTORY}/*.yaml", rule.id),
                )
            rules[rule.id] = rule
            for code in rule.codes:
                if code in owner:
                    raise ConfigError(
                        f"{code} is in both {owner[code]} and {rule.id}; keep one of them",
                        *locate_text(sources, f"{DIRECTORY}/*.yaml", code),
                    )
                owner[code] = rule.id
    _check_tools(sources, rules.values())
    return RuleTable(rules.values())


def _check_tools(sources: Sequence[Layer], rules: Iterable[Rule]) -> None:
    """Check that a repository's own rules name tools that exist."""
    if not find_files(sources[1:], f"{DIRECTORY}/*.yaml"):
        return
    shipped = (
        rule for file in read_directory(sources[:1], DIRECTORY, RuleFile) for rule in file.rules
    )
    tools = {code.partition(":")[0] for rule in shipped for code in rule.codes}
    for rule in rules:
        for code in rule.codes:
            if code.partition(":")[0] not in tools:
                raise ConfigError(
                    f"{rule.id} is from {code!r}, which must be TOOL:CODE with one of these tools: "
                    f"{', '.join(sorted(tools))}",
                    *locate_text(sources, f"{DIRECTORY}/*.yaml", code),
                )
