"""Sources, carriers and sinks in many mixes: each carrier lets a value through or stops it."""

from pathlib import Path

import pytest

from tests.diffchecks.taint.taint_matrix import CARRIERS, SINKS, SOURCES, program
from tests.diffchecks.taint.taint_pairs import codes

_SOURCES, _SINKS = list(SOURCES), list(SINKS)


def _mixes() -> list[tuple[str, str, str]]:
    """Source, carrier, sink: every carrier with four of both, and every source with every sink."""
    mixes = [
        (_SOURCES[(3 * place + turn) % len(_SOURCES)], name, _SINKS[(place + turn) % len(_SINKS)])
        for place, name in enumerate(CARRIERS)
        for turn in range(4)
    ]
    return mixes + [(source, "plain", sink) for source in _SOURCES for sink in _SINKS]


@pytest.mark.parametrize("source", _SOURCES)
def test_only_real_flows_are_followed(source: str, tmp_path: Path) -> None:
    wrong = []
    for number, (_, carrier, sink) in enumerate(mix for mix in _mixes() if mix[0] == source):
        root = tmp_path / str(number)
        followed = sink in codes(root / "a", program(source, carrier, sink, flows=True))
        invented = sink in codes(root / "b", program(source, carrier, sink, flows=False))
        if (followed, invented) != (True, False):
            wrong.append((carrier, sink, followed, invented))
    assert not wrong
