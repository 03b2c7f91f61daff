"""The tools and contracts that a catalog is checked against, and short ways to load one."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from orchestrator.catalog.catalog import Catalog, find_problems, load_catalog
from orchestrator.catalog.data_file_layers import Layer, make_overlay, read_shipped_layer
from orchestrator.code_review.agent_report_contracts import contracts
from orchestrator.code_review.tools.registry import TOOLS, TOPICS

NAVIGATION = frozenset(
    {"read_file", "glob", "search", "git_diff", "git_log", "git_blame", "run_snippet"}
)
CONTRACTS = contracts()


@pytest.fixture(scope="session")
def navigation() -> frozenset[str]:
    """The tools for looking around, which playbooks leave to a model."""
    return NAVIGATION


@pytest.fixture(scope="session")
def loaded() -> Callable[..., Catalog]:
    """Load some layers."""

    def build(*sources: Layer) -> Catalog:
        return load_catalog(sources, tools=TOOLS.keys(), analyzers=TOPICS, contracts=CONTRACTS)

    return build


@pytest.fixture
def with_files(loaded: Callable[..., Catalog]) -> Callable[[Mapping[str, str]], Catalog]:
    """Load the shipped data with a repository's own files on top."""
    return lambda files: loaded(*_layers(files))


@pytest.fixture
def faults_of() -> Callable[[Mapping[str, str]], list[str]]:
    """The faults of a repository's own files, as a person reads them."""

    def find(files: Mapping[str, str]) -> list[str]:
        return [
            str(fault)
            for fault in find_problems(
                _layers(files), tools=TOOLS.keys(), analyzers=TOPICS, contracts=CONTRACTS
            )
        ]

    return find


def _layers(files: Mapping[str, str]) -> Sequence[Layer]:
    own = {name: text.encode() for name, text in files.items()}
    return [read_shipped_layer(), make_overlay(".diffcourt", own)]
