"""Sources, carriers and sinks in many mixes: each carrier lets a value through or stops it."""

from pathlib import Path

import pytest

from tests.checks.taint.taint_matrix import CARRIERS, SINKS, SOURCES, program
from tests.checks.taint.taint_pairs import codes

_SOURCES, _SINKS = list(SOURCES), list(SINKS)


def _mixes() -> list[tuple[str, str, str]]:
    """Every carrier with four sources and sinks of their own, and every source with every sink."""
    mixes = [
        (_SOURCES[(3 * place + turn) % len(_SOURCES)], name, _SINKS[(place + turn) % len(_SINKS)])
        for place, name in enumerate(CARRIERS)
        for turn in range(4)
    ]
    return mixes + [(source, "plain", sink) for source in _SOURCES for sink in _SINKS]


@pytest.mark.parametrize(("source", "carrier", "sink"), _mixes())
def test_only_real_flows_are_followed(source: str, carrier: str, sink: str, tmp_path: Path) -> None:
    assert sink in codes(tmp_path / "a", program(source, carrier, sink, flows=True))
    assert sink not in codes(tmp_path / "b", program(source, carrier, sink, flows=False))
