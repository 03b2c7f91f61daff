"""The policy of a review: which agents, rules, checks and bounds apply, read from data files.

The files come in layers, lowest first: the shipped ones, and those of ``.diffcourt/`` in the base
commit. The change under review cannot affect them.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from diffchecks.rules import Rule, RuleFile, RuleTable
from orchestrator.catalog.catalog import Catalog, load_catalog
from orchestrator.catalog.data_file_layers import (
    Layer,
    find_files,
    locate_text,
    read_directory,
    read_shipped_layer,
)
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.shared_literals import Environment
from orchestrator.code_review.agent_report_contracts import contracts
from orchestrator.code_review.analyzers import check_data_files
from orchestrator.code_review.analyzers.configured_programs import check_programs
from orchestrator.code_review.findings import waivers
from orchestrator.code_review.findings.measured_criteria import MEASURES
from orchestrator.code_review.repository_guidance import check_globs
from orchestrator.code_review.tools.registry import TOOLS, TOPICS
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Rubric
from orchestrator.errors import ConfigError

DIRECTORY = "config/rules"


@lru_cache(maxsize=8)
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


class Policy(Struct, frozen=True):
    """Everything that decides how a change is reviewed, validated.

    Attributes:
        layers: the data files it was read from, lowest layer first.
        settings: the catalog's settings with the command line's options applied.
        environment: ``ci`` or ``local``: which column of the tool policy and of the guards applies.
        author_tier: the trust tier of the change's author in ``config/guards.yaml``; empty: the
            tier that the file names as its default.
        run_tests: the user who runs the review allows the settings' test command, and snippets.
        run_analyzers: the user who runs the review allows the settings' analyzers.
        private_paths: absolute paths that tests and analyzers may not read, besides those of the
            system.
        checkout: the repository's directory; may be None.
        notes: for a person, how the settings were restricted.
    """

    layers: Sequence[Layer]
    catalog: Catalog
    rules: RuleTable
    settings: ReviewSettings
    environment: Environment = "local"
    author_tier: str = ""
    run_tests: bool = False
    run_analyzers: bool = False
    private_paths: Sequence[Path] = ()
    checkout: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 digests of the files by name; a resumed run must find the same ones."""
        data = check_data_files.digests(self.layers)
        return {**self.catalog.digests, "config/rules": rules_digest(self.rules), **data}


def read_policy(
    layers: Sequence[Layer], *, environment: Environment = "local", author_tier: str = ""
) -> Policy:
    """Read and validate the policy from its layers."""
    is_shipped = layers[0] is read_shipped_layer() and not any(one.files for one in layers[1:])
    catalog, rules = _read_shipped() if is_shipped else _read_and_check(layers)
    bounds = catalog.settings.bounds.for_tier(catalog.guards.resolve_tier(author_tier))
    settings = replace(catalog.settings, bounds=bounds)
    return Policy(layers, catalog, rules, settings, environment, author_tier)


@cache  # it takes a third of the time of a small review
def _read_shipped() -> tuple[Catalog, RuleTable]:
    return _read_and_check([read_shipped_layer()])


def _read_and_check(layers: Sequence[Layer]) -> tuple[Catalog, RuleTable]:
    catalog, rules = read_catalog(layers), load_rules(layers)
    check_references(catalog, rules, layers)
    return catalog, rules


def read_catalog(layers: Sequence[Layer]) -> Catalog:
    """Read the catalog, checked against the tools and report contracts of a review."""
    return load_catalog(layers, tools=TOOLS.keys(), analyzers=TOPICS, contracts=contracts())


def check_references(catalog: Catalog, rules: RuleTable, layers: Sequence[Layer]) -> None:
    """Check that waivers, rubrics and data of checks name only what exists.

    Raises:
        ConfigError: the first name that does not exist, or entry that has no effect.
    """
    check_globs(catalog, layers)
    check_programs(catalog.settings.programs, layers)
    waivers.check_waivers(catalog.verdict_policy, rules, layers)
    _check_rubrics(catalog.rubrics.values(), layers)
    check_data_files.validate(layers, rules)


def _check_rubrics(rubrics: Iterable[Rubric], layers: Sequence[Layer]) -> None:
    for rubric in rubrics:
        for criterion in rubric.criteria:
            if criterion.kind == "measured" and criterion.id not in MEASURES:
                raise ConfigError(
                    f"nothing measures {criterion.id!r}; allowed: {', '.join(MEASURES)}",
                    *locate_text(layers, f"rubrics/{rubric.name}.yaml", criterion.id),
                )
