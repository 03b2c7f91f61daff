"""A whole review takes its time: each of these tests runs on one of the two event loops.

What a review is built of, the engine, the workers, the stores and the providers, is tested on both.
"""

import zlib
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that was collected for both loops keep one, half of the tests each."""
    twins: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        loop = item.callspec.params.get("anyio_backend") if hasattr(item, "callspec") else None
        if loop and item.path.is_relative_to(HERE):
            twins[item.nodeid.replace(loop, "")].append(item)
    left = {
        pair[1 - zlib.crc32(name.encode()) % 2] for name, pair in twins.items() if len(pair) == 2
    }
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=sorted(left, key=lambda item: item.nodeid))
