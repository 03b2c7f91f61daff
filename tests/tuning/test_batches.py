"""``rubric score --batch``: the same scores at half the price, sent once, whatever happens."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.cli.commands.rubric import scoring
from orchestrator.errors import ConfigError, InputError, ProviderRefused
from orchestrator.providers import batches
from orchestrator.report.tuning.scoring_text import ScoringProgress
from orchestrator.tuning.file_formats.item_files import read_items
from tests.model_server.batch_apis import BatchPlan
from tests.model_server.server import ModelServer
from tests.model_server.server_script import Refuse
from tests.tuning.item_models import judge_line, serving
from tests.tuning.recorded_runs import says
from tests.tuning.test_score_items import by_number, here, sure_or_not, texts  # noqa: F401 - a fixture

Save = Callable[..., Path]
LINE = judge_line(by_number)


@pytest.fixture(params=["anthropic", "openai"])
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def interruptible() -> Iterator[None]:
    """A suite that a shell began with & ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:  # noqa: F811
    own = here / ".diffcourt" / "config" / "models.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("calls: {first_wait: 0.05}\n")
    monkeypatch.setattr(batches, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(batches, "POLL_SECONDS", 0.02)


def score(vendor: str, items: Path, *more: object) -> int:
    from tests.tuning.test_rubric_cli import run

    return run("score", "two.yaml", items, "--provider", vendor, *more)


def sizes(server: ModelServer) -> list[int]:
    """Requests of each batch that was sent."""
    return [len(batch.items) for batch in server.batches.sent]


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


def test_unfinished_and_failed_items_are_sent_again_in_smaller_batches(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(monkeypatch, {"item-judge": [LINE, Refuse(529), *[LINE] * 4]}) as server:
        expired = {1: "expired"} if vendor == "anthropic" else {}
        server.batches.plans = [BatchPlan(fates=expired, polls=3)]
        assert score(vendor, save(texts(5)), "--batch") == 0
        server.finish()
    assert sizes(server) == [5, 2 if expired else 1]
    assert "5 items scored" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["expired", "canceled"])
def test_what_a_batch_did_not_answer_is_asked_again_now_or_with_the_next_command(
    kind: str,
    vendor: str,
    save: Save,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = save(texts(4))
    with serving(monkeypatch, {"item-judge": [LINE] * 4}) as server:
        server.batches.plans = [BatchPlan(fates={0: kind, 2: kind})]
        canceled = kind == "canceled"
        assert score(vendor, items, "--batch") == (3 if canceled else 0)
        if canceled:  # by a person, who may not want it at once
            assert "its batch was canceled at the provider" in capsys.readouterr().out
            assert score(vendor, items, "--batch") == 0
        server.finish()
    assert sizes(server) == [4, 2]


def test_a_report_that_breaks_the_contract_is_sent_back_in_a_smaller_batch(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    slip = says({"criteria": [{"id": "right", "why": "x", "score": 0.7, "quote": ""}]})
    with serving(monkeypatch, {"item-judge": [slip, *[LINE] * 3]}) as server:
        assert score(vendor, save(texts(3)), "--batch", "--out", "o.jsonl") == 0
        server.finish()
    assert sizes(server) == [3, 1]
    assert read_items([Path("o.jsonl")])[0].scores == {"right": 0.0, "clear": 0.5}


def test_a_download_that_is_cut_off_is_read_again_and_a_missing_answer_asked_for_again(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, {"item-judge": [LINE] * 5}) as server:
        server.batches.plans = [BatchPlan(cut=1, fates={3: "lost"})]
        assert score(vendor, save(texts(4)), "--batch") == 0
        server.finish()
    assert sizes(server) == [4, 1]


def test_rate_limits_are_waited_for_and_a_lost_reply_does_not_send_a_batch_twice(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = Refuse(429, headers={"retry-after": "0.05"})
    with serving(monkeypatch, {"item-judge": [LINE] * 5}) as server:
        # Older batches, on other pages of the list, of which one has as many requests.
        server.batches.plans = [BatchPlan(), BatchPlan(refusals=(wait, wait), lose_reply=True)]
        assert score(vendor, save(texts(1)), "--batch") == 0
        assert score(vendor, save(texts(5)), "--batch") == 0
        server.finish()
    assert sizes(server) == [1, 4]


def test_an_interrupted_command_finds_its_batch_again(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(4))
    with serving(monkeypatch, {"item-judge": [LINE] * 4}) as server:
        server.batches.plans = [BatchPlan(polls=4)]
        for _ in range(3):
            with monkeypatch.context() as patch, interruptible():
                patch.setattr(
                    ScoringProgress, "__call__", lambda *_: signal.raise_signal(signal.SIGINT)
                )
                assert score(vendor, items, "--batch") == 130
            assert "run the same command again" in capsys.readouterr().err
        assert score(vendor, items, "--batch", "--out", "o.jsonl") == 0
        server.finish()
    assert sizes(server) == [4]
    assert [i.scores["right"] for i in read_items([Path("o.jsonl")])] == [0, 1, 0, 1]


class Killed(BaseException):
    """Ends a command at once."""


@contextmanager
def killed_once_sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kills the command within when it has sent a batch and does not know its id yet."""
    with monkeypatch.context() as patch, pytest.raises(Killed):
        create = batches.Batches._create

        async def sent(self: Any, *given: Any) -> None:
            await create(self, *given)
            raise Killed

        patch.setattr(batches.Batches, "_create", sent)
        yield


def test_a_command_that_is_killed_before_it_knows_the_id_of_its_batch_finds_it(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = save(texts(4))
    with serving(monkeypatch, {"item-judge": [LINE] * 4}) as server:
        with killed_once_sent(monkeypatch):
            score(vendor, items, "--batch")
        assert score(vendor, items, "--batch") == 0
        server.finish()
    assert sizes(server) == [4]


def test_of_two_equal_batches_that_a_kill_leaves_neither_is_sent_twice(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = save(texts(4))
    monkeypatch.setattr(batches, "MAX_REQUESTS", 2)
    with serving(monkeypatch, {"item-judge": [LINE] * 6}) as server:
        with monkeypatch.context() as patch:
            create = batches.Batches._create

            async def sent(self: Any, *given: Any) -> None:
                await create(self, *given)
                await anyio.sleep(0.3)
                raise Killed

            patch.setattr(batches.Batches, "_create", sent)
            with pytest.raises(Killed):
                score(vendor, items, "--batch")
        assert score(vendor, items, "--batch") == 0
    assert sizes(server) == [2, 2]


def test_of_a_batch_that_was_noted_and_not_sent_a_smaller_budget_sends_parts(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = save(texts(7))
    with serving(monkeypatch, {"item-judge": [LINE] * 7}) as server:
        with monkeypatch.context() as patch:

            async def not_sent(self: Any, *given: Any) -> None:
                raise Killed

            patch.setattr(batches.Batches, "_create", not_sent)
            with pytest.raises(Killed):
                score(vendor, items, "--batch")
        assert score(vendor, items, "--batch", "--max-usd", 0.3) == 0
        server.finish()
    assert len(sizes(server)) > 1
    assert sum(sizes(server)) == 7


def test_a_command_without_batches_says_that_one_is_open(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items, told = save(texts(2)), "a batch of an earlier command is open"
    with serving(monkeypatch, {"item-judge": [LINE] * 2}) as server:
        with monkeypatch.context() as patch, interruptible():
            patch.setattr(
                ScoringProgress, "__call__", lambda *_: signal.raise_signal(signal.SIGINT)
            )
            assert score(vendor, items, "--batch") == 130
        assert told not in capsys.readouterr().err
        assert score(vendor, items, "--estimate") == 0
        assert told in " ".join(capsys.readouterr().out.split())
        assert score(vendor, items, "--batch") == 0
        capsys.readouterr()
        assert score(vendor, items, "--estimate") == 0
        server.finish()
    shown = capsys.readouterr()
    assert told not in " ".join(f"{shown.out} {shown.err}".split())


def test_at_another_address_a_batch_is_sent_anew_and_said_to_be_open(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the same host, whose other port or path is another server with batches of its own.

    Both name their batches alike, and the second's reply with the name is lost.
    """
    items, told = save(texts(2)), "a batch of an earlier command is open"
    with serving(monkeypatch, {"item-judge": [LINE] * 4}) as server:
        with monkeypatch.context() as patch, interruptible():
            patch.setattr(
                ScoringProgress, "__call__", lambda *_: signal.raise_signal(signal.SIGINT)
            )
            assert score(vendor, items, "--batch") == 130
        with serving(monkeypatch, {"item-judge": [LINE] * 2}) as other:
            other.batches.plans = [BatchPlan(lose_reply=True)]
            assert told not in capsys.readouterr().err
            assert score(vendor, items, "--batch") == 0
            assert told in " ".join(capsys.readouterr().err.split())
            other.finish()
        assert (sizes(server), sizes(other)) == ([2], [2])
        assert score(vendor, items, "--batch") == 0
    assert (sizes(server), sizes(other)) == ([2], [2])


def test_a_cascade_in_batches_that_is_killed_between_its_judges_pays_for_none_twice(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = save(texts(6))
    anthropic = ("claude-haiku-5-5", "claude-opus-5-5")
    models = anthropic if vendor == "anthropic" else ("gpt-6-luna", "gpt-6.1-sol")
    cascade = ("--model", models[0], "--model", models[1], "--within", 0.15, "--out", "o.jsonl")

    def reply(body: dict[str, Any]) -> Any:
        return judge_line(sure_or_not if body["model"] == models[0] else lambda *_: 1.0)(body)

    with serving(monkeypatch, {"item-judge": [reply] * 8}) as server:
        with monkeypatch.context() as patch:

            def killed(*_: object) -> bool:
                raise Killed

            patch.setattr(scoring, "is_unsure", killed)
            with pytest.raises(Killed):
                score(vendor, items, *cascade, "--batch")
        assert sizes(server) == [6]
        with killed_once_sent(monkeypatch):
            score(vendor, items, *cascade, "--batch")
        assert sizes(server) == [6, 2]
        assert score(vendor, items, *cascade, "--batch") == 0
        server.finish()
    assert sizes(server) == [6, 2]
    assert [i.judge.split(",")[0] for i in read_items([Path("o.jsonl")])] == [
        models[1], models[0], models[0],
    ] * 2  # fmt: skip


@pytest.mark.attack("a key in what a batch uploads")
def test_what_a_batch_uploads_is_as_redacted_as_a_single_request(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_TOKEN", "kept-out-of-requests-5831")
    items = save(texts(2, context="the token is kept-out-of-requests-5831\u202e"))
    with serving(monkeypatch, {"item-judge": [LINE] * 4}) as server:
        assert score(vendor, items, "--round", "a") == 0
        single = [request.body for request in server.requests]
        assert score(vendor, items, "--round", "b", "--batch") == 0
        batched = [body for _, body in server.batches.sent[0].items]
    assert "kept-out-of-requests" not in json.dumps([single, batched])
    for body in single:
        body.pop("stream", None)
    one, other = ([json.dumps(b, sort_keys=True) for b in sent] for sent in (single, batched))
    assert sorted(one) == sorted(other)


def test_a_batch_that_never_ends_is_given_up_and_found_again(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = save(texts(2))
    with serving(monkeypatch, {"item-judge": [LINE] * 2}) as server:
        server.batches.plans = [BatchPlan(polls=None)]
        with monkeypatch.context() as patch:
            patch.setattr(batches, "DAY_SECONDS", 0.2)
            patch.setattr(batches, "OVERTIME_SECONDS", 0.2)
            expected = r"batch\S* has not ended within a day \(0 of 2 answered\); run the same"
            with pytest.raises(ProviderRefused, match=expected):
                score(vendor, items, "--batch")
        server.batches.sent[0].plan = BatchPlan()
        assert score(vendor, items, "--batch") == 0
        server.finish()
    assert sizes(server) == [2]


@pytest.mark.parametrize("gone", ["batch", "results"])
def test_a_batch_that_is_gone_is_sent_again_only_after_its_time(
    gone: str, vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = save(texts(3))
    with serving(monkeypatch, {"item-judge": [LINE] * 9}) as server:
        server.batches.plans = [BatchPlan(gone=gone)]
        with pytest.raises(ProviderRefused, match="use a key of the same account"):
            score(vendor, items, "--batch")
        assert sizes(server) == [3]
        monkeypatch.setattr(batches, "DAY_SECONDS", 0.0)
        assert score(vendor, items, "--batch") == 0
    assert sizes(server) == [3, 3]


def test_a_batch_that_the_provider_finds_invalid_says_why(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(monkeypatch, {"item-judge": []}) as server:
        server.batches.plans = [BatchPlan(failed="invalid_request_error")]
        assert score("openai", save(texts(2)), "--batch") == 3
    assert "(400): the file is invalid" in " ".join(capsys.readouterr().out.split())


def test_a_small_budget_is_spent_in_several_batches_and_never_exceeded(
    vendor: str, save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(7))
    with serving(monkeypatch, {"item-judge": [LINE] * 7}) as server:
        assert score(vendor, items, "--batch", "--max-usd", 0.3, "--estimate") == 0
        assert "limit 0.30 USD" in " ".join(capsys.readouterr().out.split())
        assert not server.batches.sent
        assert score(vendor, items, "--batch", "--max-usd", 0.3) == 0
        server.finish()
    assert len(sizes(server)) > 1
    assert sum(sizes(server)) == 7


def test_a_provider_without_batches_and_a_server_that_has_none_say_so(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = save(texts(1))
    with serving(monkeypatch, {"item-judge": []}) as server:
        with pytest.raises(InputError, match="openai-compatible has no batches; leave out --batch"):
            score("openai-compatible", items, "--batch")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{server.url}/nothing")
        with pytest.raises(ProviderRefused, match="serves no batches; leave out --batch"):
            score("anthropic", items, "--batch")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong")
        with pytest.raises(ProviderRefused, match="ANTHROPIC_API_KEY"):
            score("anthropic", items, "--batch")
    assert not server.batches.sent


def test_base_may_not_lower_the_price_of_a_batch(
    save: Save,
    here: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = here / ".diffcourt" / "config" / "prices.yaml"
    own.write_text("prices: {claude-sonnet-5-5: {batch: 0.4}}\n")
    with pytest.raises(ConfigError, match=r"claude-sonnet-5-5.batch is 0.4, below the shipped 0.5"):
        score("anthropic", save(texts(1)), "--batch")
