"""What a journal tells of its rows: notes, decisions, refusals, costs; and how errors are kept."""

from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn

import pytest

from orchestrator.engine.budget import Account, Cost, Reservation
from orchestrator.engine.journal import EffectResult, Journal, Record, open_journal, redact_error
from orchestrator.engine.journal_rows import error_from_json, error_to_json
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.types import Bounds, Json, Level, Refusal
from orchestrator.errors import (
    BudgetExhausted,
    DiffcourtError,
    GuardRefused,
    ModelError,
    ProviderRefused,
    ReplayMismatch,
    SandboxError,
    StoreError,
    VendorDown,
)
from tests.engine.engine_kit import RUN, created, open_memory_journal

SECRET = "hunter2-hunter2"
WORST = Cost(turns=1, tokens=100, usd=0.5)


FREE = Cost()


def ours(keys: Iterable[str]) -> list[str]:
    """The keys, without those of the sessions."""
    return [key for key in keys if not key.startswith("session/")]


def giving(value: Json, cost: Cost = FREE) -> Callable[[], Awaitable[EffectResult]]:
    async def perform() -> EffectResult:
        return EffectResult(value, cost)

    return perform


def failing(error: Exception) -> Callable[..., Awaitable[EffectResult]]:
    async def perform(*given: object) -> EffectResult:
        raise error

    return perform


def admitting(account: Account) -> Callable[[], Awaitable[tuple[None, Reservation]]]:
    async def admit() -> tuple[None, Reservation]:
        return None, account.reserve(WORST)

    return admit


async def test_a_request_is_kept_with_a_level_above_read() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        await journal.effect("w", {"q": 1}, giving(1), level=Level.WRITE)
        await journal.effect("r", None, giving(1), level=Level.READ)
    intents = [row.body for row in await store.rows(RUN) if row.kind == "intent"]
    assert intents == [b'{"asked":{"q":1},"level":"WRITE"}', b'{"asked":null}']


async def test_changed_arguments_are_kept_beside_those_that_were_asked_for() -> None:
    store = await created()
    held = Account("the run", Bounds()).reserve(FREE)
    held.effective = {"text": SECRET}

    async def admit() -> tuple[str, Reservation]:
        return "given", held

    async def perform(given: str) -> EffectResult:
        return EffectResult(given)

    async with open_memory_journal(store, secrets=[SECRET]) as journal:
        await journal.effect("k", {"text": "a"}, perform, admit=admit)
        ((_, record),) = journal.records("k")
    assert (record.kind, record.body["effective"]) == ("outcome", {"text": "[redacted]"})
    (intent,) = [row.body for row in await store.rows(RUN) if row.kind == "intent"]
    assert intent == b'{"asked":{"text":"a"},"effective":{"text":"[redacted]"}}'


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (ModelError("no answer"), {"error": "ModelError", "message": "no answer"}),
        (SandboxError("killed"), {"error": "SandboxError", "message": "killed"}),
        (
            BudgetExhausted("nothing left"),
            {"error": "BudgetExhausted", "code": "budget_exhausted", "reason": "nothing left"},
        ),
        (
            GuardRefused("rate", "too often"),
            {
                "error": "GuardRefused",
                "code": "guard_refused",
                "reason": "too often",
                "guard": "rate",
            },
        ),
    ],
)
def test_an_error_is_kept_by_its_parts_and_read_back(
    error: DiffcourtError, body: dict[str, Json]
) -> None:
    assert error_to_json(error) == body
    read = error_from_json(body)
    assert (type(read), read.args) == (type(error), error.args)


def test_an_error_of_a_kind_that_is_not_known_here_is_an_error_of_the_model() -> None:
    read = error_from_json({"error": "NoSuchError", "message": "odd"})
    assert (type(read), str(read)) == (ModelError, "odd")


def test_an_error_is_kept_without_secrets() -> None:
    redact = Redactor([SECRET])
    clean = ModelError("no answer", billed=False)
    assert redact_error(clean, redact) is clean
    shown = redact_error(GuardRefused("rate", f"not {SECRET}"), redact)
    assert (type(shown), shown.args) == (GuardRefused, ("rate", "not [redacted]"))


def test_a_refusal_is_read_from_its_code_and_reason_and_a_note_costs_nothing() -> None:
    body = {"code": "c", "reason": "r", "guard": "g"}
    assert Record("refusal", body).refusal() == Refusal("c", "r", "g")
    assert Record("refusal", {"code": "c", "reason": "r"}).refusal() == Refusal("c", "r", "")
    assert Record("outcome", {"code": "c"}).refusal() is None
    assert Record("note", {"cost": {"usd": 1.0}}).cost() == FREE
    assert Record("outcome", {"reason": "r"}).refusal() is None


async def test_notes_are_read_by_key_by_topic_and_all() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        journal.note("state/1", {"n": 1})
        journal.note("states/1", {"value": 2})
        journal.note("state", {"n": 3})
        await journal.effect("state/2", 1, giving("v"))
        with pytest.raises(ModelError):
            await journal.effect("failed/1", 1, failing(ModelError("no answer")))
    async with open_memory_journal(store) as journal:
        assert journal.noted("state/1") == {"n": 1}
        assert journal.noted("state/2") is None
        assert journal.noted("state/3") is None
        assert journal.notes("state") == {"state/1": {"n": 1}, "state": {"n": 3}}
        assert ours(journal.notes()) == ["state/1", "states/1", "state"]
        known = ["state/1", "states/1", "state", "state/2", "failed/1"]
        assert ours(dict(journal.records())) == known
        assert journal.outcomes() == {"state/2": "v"}


async def test_another_note_under_a_key_is_a_mismatch_and_a_renewed_one_is_the_newest() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        journal.note("a", {"n": 1})
        journal.note("b", {"n": 2})
        journal.note("a", {"n": 1})
        with pytest.raises(ReplayMismatch) as caught:
            journal.note("a", {"n": 9})
        assert (caught.value.key, caught.value.recorded) == ("a", {"n": 1})
        journal.renew_note("a", {"n": 3})
        assert ours(journal.notes()) == ["b", "a"]
    rows = [(row.kind, row.key) for row in await store.rows(RUN)]
    assert rows[1:] == [("note", "a"), ("note", "b"), ("note", "a")]
    async with open_memory_journal(store) as journal:
        assert ours(journal.notes()) == ["b", "a"]
        assert journal.noted("a") == {"n": 3}


async def test_added_notes_are_numbered() -> None:
    async with open_memory_journal() as journal:
        assert journal.add_note("asked", {"n": 1}, "2/act/call") == "asked/1/2/act/call"
        assert journal.add_note("asked", {"n": 1}) == "asked/2"
        assert journal.add_note("other", {"n": 1}) == "other/1"
        assert journal.notes("asked") == {"asked/1/2/act/call": {"n": 1}, "asked/2": {"n": 1}}


async def test_a_value_is_kept_with_its_text() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        name = journal.put({"a": 1})
    _, row = await store.rows(RUN)
    assert (row.kind, row.key, row.body) == ("data", name, b'{"value":{"a":1}}')


async def test_a_decision_stands_until_something_happens_under_its_call() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        journal.add_note("approval", {"who": "a"}, "1/act/x")
        journal.add_note("approval", {"who": "b"}, "1/act/y")
        journal.note("1/act/z", {})
    async with open_memory_journal(store) as journal:
        assert journal.decisions == {"1/act/x": {"who": "a"}, "1/act/y": {"who": "b"}}
        # Only notes decide: an effect of such a key is none.
        await journal.effect("approval/9/1/act/z", 1, giving("v"))
        assert set(journal.decisions) == {"1/act/x", "1/act/y"}
        await journal.effect("1/act/x", 1, giving("v"))
        assert journal.decisions == {"1/act/y": {"who": "b"}}
        await journal.effect("imported/9", 1, giving("v"))
        assert set(journal.decisions) == {"1/act/y"}
        journal.add_note("imported", {})
        assert journal.decisions == {}


async def test_effects_are_listed_in_the_order_in_which_they_ended() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        journal.note("n", {})
        await journal.effect("b", 1, giving("v"))
        await journal.effect("a", 1, giving("w"))
    async with open_memory_journal(store) as journal:
        assert [(key, record.value()) for key, record in journal.ended] == [("b", "v"), ("a", "w")]


async def test_a_limit_counts_as_raised_since_by_a_grant_that_was_recorded_later() -> None:
    async with open_memory_journal() as journal:
        await journal.effect("grant/1", 1, giving("v"))
        journal.note("x", {})
        assert not journal.granted_after("x")
        await journal.effect("1/plan", 1, giving("v"))
        journal.note("grant/2", {})
        assert not journal.granted_after("x")
        await journal.effect("grant/3", 1, giving("v"))
        assert journal.granted_after("x")
        assert journal.granted_after("grant/2")
        assert not journal.granted_after("grant/3")


async def test_a_replay_performs_nothing() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        await journal.effect("k", 1, giving("v"))
        rows = [(row.kind, row.key, row.body) for row in await store.rows(RUN)]
        replay = Journal(journal.log, rows, replay_only=True)
        assert await replay.effect("k", 1, giving("other")) == "v"
        with pytest.raises(StoreError) as caught:
            await replay.effect("k2", 1, giving("v"))
    assert str(caught.value) == "k2 is not in the run's journal, and a replay performs no effects"


@pytest.mark.parametrize(
    ("error", "cost"),
    [
        (ModelError("lost"), WORST),
        (ModelError("turned away", billed=False), Cost(turns=1)),
        (SandboxError("killed"), Cost()),
        # The turn is left to the vendor that replaces it.
        (VendorDown("lost"), Cost(tokens=100, usd=0.5)),
        (VendorDown("turned away", billed=False), Cost()),
    ],
)
async def test_a_failed_effect_costs_what_it_may_have_used(error: Exception, cost: Cost) -> None:
    account = Account("the run", Bounds())
    async with open_memory_journal() as journal:
        with pytest.raises(type(error)):
            await journal.effect("k", 1, failing(error), admit=admitting(account))
        assert journal.spent() == cost
        assert journal.unseen() == Cost()
    assert (account.used, account.held) == (cost, Cost())


async def test_an_effect_settles_what_it_used() -> None:
    account, used = Account("the run", Bounds()), Cost(turns=1, tokens=7)

    async def perform(given: None) -> EffectResult:
        return EffectResult("v", used)

    async with open_memory_journal() as journal:
        await journal.effect("k", 1, perform, admit=admitting(account))
    assert (account.used, account.held) == (used, Cost())


async def test_an_attempt_whose_reply_was_lost_counts_at_its_worst_beside_the_next() -> None:
    store = await created()

    async def twice(given: None) -> EffectResult:
        journal.begin_again("k")
        assert journal.unseen() == Cost(tokens=200, usd=1.0)
        return EffectResult("v", Cost(turns=1, tokens=30))

    async with open_memory_journal(store) as journal:
        await journal.effect("k", 1, twice, admit=admitting(Account("a", Bounds())))
        assert journal.unseen() == Cost(tokens=100, usd=0.5)
        assert journal.spent() == Cost(turns=1, tokens=130, usd=0.5)
        assert journal.unseen() == Cost(tokens=100, usd=0.5)
    kinds = [(row.kind, row.key) for row in await store.rows(RUN)]
    assert kinds[1:] == [("intent", "k"), ("intent", "k"), ("outcome", "k")]


async def test_a_turn_that_the_provider_refused_is_open_and_counts_once() -> None:
    store = await created()
    async with open_memory_journal(store) as journal:
        with pytest.raises(ProviderRefused):
            refused = failing(ProviderRefused("no credit"))
            await journal.effect("k", 1, refused, admit=admitting(Account("a", Bounds())))
        assert not journal.recorded("k")
        assert journal.spent() == Cost()
    async with open_memory_journal(store) as journal:
        await journal.effect("k", 1, giving("v", Cost(turns=1, tokens=30)))
        assert journal.spent() == Cost(turns=1, tokens=30)
        assert journal.unseen() == Cost()


async def test_a_refusal_is_raised_and_kept_without_secrets() -> None:
    async def refuse() -> NoReturn:
        raise BudgetExhausted(f"not {SECRET}")

    async def perform(given: None) -> EffectResult:
        raise AssertionError

    store, redact = await created(), Redactor([SECRET])
    async with open_journal(RUN, store, SystemClock(), holder="a", redact=redact) as journal:
        with pytest.raises(BudgetExhausted, match=r"not \[redacted\]"):
            await journal.effect("k", 1, perform, admit=refuse)
        assert journal.refusals("k") == {"k": Refusal("budget_exhausted", "not [redacted]")}
