"""The repository's own data files, held against what a review has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.data_sources import Source, place_of
from orchestrator.engine.types import Rubric
from orchestrator.errors import ConfigError
from orchestrator.review.analyzers import check_data
from orchestrator.review.findings import waivers
from orchestrator.review.findings.measured_criteria import MEASURES
from orchestrator.review.rule_table import RuleTable


def check(catalog: Catalog, rules: RuleTable, sources: Sequence[Source]) -> None:
    """See that nothing is named which does not exist, and would say or do nothing.

    Raises:
        ConfigError: the first fault.
    """
    waivers.check(catalog.verdict_policy, rules, sources)
    _check_rubrics(catalog.rubrics.values(), sources)
    check_data.check(sources, rules)


def _check_rubrics(rubrics: Iterable[Rubric], sources: Sequence[Source]) -> None:
    for rubric in rubrics:
        for criterion in rubric.criteria:
            if criterion.kind == "measured" and criterion.id not in MEASURES:
                raise ConfigError(
                    f"nothing measures {criterion.id!r}; allowed: {', '.join(MEASURES)}",
                    *place_of(sources, f"rubrics/{rubric.name}.yaml", criterion.id),
                )
