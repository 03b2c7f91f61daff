"""Shared by the tests of providers."""

from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """The thread in which servers run."""
    with start_blocking_portal() as opened:
        yield opened
