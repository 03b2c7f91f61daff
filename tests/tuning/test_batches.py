"""``rubric score --batch``: the same scores at half the price, sent once, whatever happens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.providers import batches
from tests.model_server.batch_apis import BatchPlan
from tests.model_server.server import ModelServer
from tests.tuning.item_models import judge_line, serving
from tests.tuning.test_score_items import by_number, here, texts  # noqa: F401 - a fixture

Save = Callable[..., Path]
VENDORS = ("anthropic", "openai")
LINE = judge_line(by_number)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(batches, "POLL_SECONDS", 0.02)


def score(vendor: str, items: Path, *more: object) -> int:
    from tests.tuning.test_rubric_cli import run

    return run("score", "two.yaml", items, "--provider", vendor, *more)


def sizes(server: ModelServer) -> list[int]:
    """Requests of each batch that was sent."""
    return [len(batch.items) for batch in server.batches.sent]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_batch_gives_the_same_scores_at_half_the_price(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(6))
    with serving(monkeypatch, {"item-judge": [LINE] * 12}) as server:
        assert score(vendor, items, "--out", "one.jsonl", "--round", "a") == 0
        single = capsys.readouterr()
        assert score(vendor, items, "--out", "batch.jsonl", "--round", "b", "--batch") == 0
        server.finish()
    assert sizes(server) == [6]
    batched = capsys.readouterr()
    assert "0 of 6 answered" in batched.err
    assert "in batches, answered within a day" in batched.err
    rows = [
        [json.loads(line) for line in Path(f"{name}.jsonl").read_text().splitlines()]
        for name in ("one", "batch")
    ]
    for one, other in zip(*rows, strict=True):
        price, half = one.pop("usd"), other.pop("usd")
        assert half == pytest.approx(price / 2, rel=0.02)
        for row in (one, other):
            row.pop("scored_at"), row.pop("at")
        assert one == other
    assert single.out.splitlines()[0].split(";")[0] == batched.out.splitlines()[0].split(";")[0]
