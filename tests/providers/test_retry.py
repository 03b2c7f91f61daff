"""Retries, waits, deadlines and the circuit breaker, through the SDKs and directly."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.catalog.model_config import BreakerPolicy, CallPolicy
from orchestrator.engine.types import Text
from orchestrator.errors import ModelError, ProviderRefused
from orchestrator.providers.provider_errors import TransientError, parse_retry_after, redact_key
from orchestrator.providers.retry import PROBE_POLL_SECONDS, CircuitBreaker, Retrier
from tests.model_server.server_script import Refuse, ServerReply, Slow
from tests.providers.provider_kit import MODELS, PROVIDERS, QUICK, open_session, request
from tests.scripted_model import text_reply
from tests.server_replies import cut, garble, raw

pytestmark = pytest.mark.either_loop

DONE = text_reply("done")
SECRET = "sk-test-" + "k3y" * 12


@pytest.mark.parametrize("name", PROVIDERS)
async def test_transient_statuses_are_reattempted_and_reported(name):
    statuses = (408, 409, 429, 500, 503, 529)
    async with open_session(name, [line for at in statuses for line in (Refuse(at), DONE)]) as used:
        for status in statuses:
            answer = await used.model.respond(request(name))
            assert answer.blocks[0] == Text("done")
            event = used.events[-1]
            assert (event.kind, event.agent, event.model) == ("retry", "qa", MODELS[name])
            assert str(status) in event.detail
            assert not event.lost
        assert len(used.events) == len(statuses)
        used.server.finish()


@pytest.mark.parametrize("name", PROVIDERS)
async def test_lost_and_late_replies_are_reattempted_and_may_have_been_billed(name):
    policy = replace(QUICK, timeout=1.0)
    lines: list[ServerReply] = [
        cut(20, text_reply("lost")),
        Slow(5, text_reply("late")),
        text_reply("done"),
    ]
    async with open_session(name, lines, policy=policy) as used:
        answer = await used.model.respond(request(name))
        used.server.finish()
    assert answer.blocks[0] == Text("done")
    assert [event.lost for event in used.events] == [True, True]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_refused_connection_is_not_billed(name):
    async with open_session(name, []) as used:
        pass
    async with open_session(name, []) as used:
        used.model.client.base_url = "http://127.0.0.1:9/"
        with pytest.raises(ModelError, match=r"in 3 attempts.*no connection.*_BASE_URL"):
            await used.model.respond(request(name))
    assert not any(event.lost for event in used.events)


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "models"),
        (401, "_API_KEY"),
        (403, "_API_KEY"),
        (404, "_BASE_URL"),
        (413, "max_output"),
    ],
)
async def test_permanent_statuses_are_not_reattempted_and_name_the_setting(name, status, said):
    message = f"your key {SECRET} is wrong:\nfix it"
    async with open_session(name, [Refuse(status, message)], key="test-key") as used:
        used.model._secret = SECRET
        kind = ProviderRefused if status in {401, 403, 404} else ModelError
        with pytest.raises(kind, match=rf"\({status}\)") as error:
            await used.model.respond(request(name))
        assert len(used.server.requests) == 1
    text = str(error.value)
    assert said in text
    assert "\n" not in text
    assert SECRET not in text
    assert error.value.__cause__ is None


def failure(message, status=200, **kinds):
    """An error in a vendor's form, in a reply of that status."""
    body = json.dumps({"error": {"message": message, **kinds}}).encode()
    return raw(body, "application/json", status=status)


def gateway(body, status=200):
    """An error in another form than a vendor's."""
    return raw(json.dumps(body).encode(), "application/json", status=status)


QUOTED = {"raw": '{"error": {"code": "insufficient_quota"}}', "provider_name": "o"}
CREDIT = "Your credit balance is too low to access the Anthropic API."


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (failure("Check your plan.", 429, type="insufficient_quota"), "Check your plan"),
        (failure(CREDIT, 400, type="invalid_request_error"), "credit balance is too low"),
        (failure("Billing hard limit has been reached", 400), "Billing hard limit"),
        (failure("Insufficient Balance", 402), "Insufficient Balance"),
        (failure("This organization has been disabled.", 400), "has been disabled"),
        (failure("Your account is not active.", 429, code="billing_not_active"), "not active"),
        (failure("You have reached your specified API usage limits.", 400), "usage limits"),
        (failure("The model `m` does not exist or you do not have access.", 400), "not exist"),
        (failure("no such thing", 404), "no such thing"),
        (failure("your key may not use it", 403), "may not use it"),
        (failure("No cookie auth credentials found", code=401), "_API_KEY"),
        (failure("Insufficient credits", code=402), "Insufficient credits"),
        (failure("You ran out.", code="insufficient_quota"), "You ran out"),
        (failure("m is unknown", code="model_not_found"), "m is unknown"),
        (failure("Provider returned error", 429, metadata=QUOTED), "insufficient_quota"),
        (failure("Key limit exceeded (total limit).", code=403), "Key limit"),
        (failure("Budget has been exceeded! Current cost: 1.2", 400), "Current cost"),
        (failure("make sure your account is in good standing.", 400), "good standing"),
        (failure("Your prepayment credits are depleted.", 429), "prepayment"),
        (failure("Inactive subscription or usage limit reached", 429), "Inactive subscription"),
        (gateway([{"error": {"code": 400, "message": "API key not valid."}}], 400), "_API_KEY"),
        (gateway({"code": 30001, "message": "the balance is insufficient"}, 403), "balance is"),
        (
            gateway({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
            "bal",
        ),
        (gateway({"code": "x", "error": "it used all available credits"}), "used all"),
        (gateway({"Message": "you may not use it"}, 403), "you may not use it"),
        (gateway({"object": "error", "message": "no m", "code": 404}), "no m"),
    ],
)
async def test_an_error_of_the_account_ends_the_run_at_once_in_the_providers_words(
    name, line, said
):
    async with open_session(name, [line]) as used:
        with pytest.raises(ProviderRefused, match=said) as error:
            await used.model.respond(request(name))
        used.server.finish()
    assert "\n" not in str(error.value)
    assert not used.events


IN_CHOICE = {"error": {"code": 502, "message": "full"}, "finish_reason": "error"}
TYPED = b'{"type": "error", "error": {"type": "overloaded_error", "message": "full"}}'


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize(
    "line",
    [
        failure("full", code=503),
        failure("full", code="429"),
        failure("full"),
        raw(b'{"error": "full", "choices": null}', "application/json"),
        gateway({"object": "error", "message": "full", "type": "InternalServerError"}),
        gateway({"detail": [{"loc": ["body"], "msg": "full", "type": "missing"}]}),
        gateway({"success": False, "errors": [{"code": 7, "message": "full"}], "result": None}),
        gateway({"fault": {"faultstring": "full", "detail": {"errorcode": "a.b"}}}),
        gateway({"statusCode": 429, "message": "full"}),
        gateway({"a": [], "choices": None, "base_resp": {"status_code": 1, "status_msg": "full"}}),
        raw(TYPED, "application/json"),
        raw(json.dumps({"choices": [IN_CHOICE]}).encode(), "application/json"),
    ],
)
async def test_a_passing_error_in_a_reply_is_retried_and_its_message_shown(name, line):
    async with open_session(name, [line, DONE]) as used:
        assert (await used.model.respond(request(name))).blocks[0] == Text("done")
        used.server.finish()
    (event,) = used.events
    assert "full" in event.detail
    assert not event.lost


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_page_of_a_proxy_is_named_by_its_title(name):
    page = b"<!DOCTYPE html><html><head><title>Sign in\nhere</title></head></html>"
    lines = [raw(page, "text/html", status=502), raw(page, "text/html")]
    async with open_session(name, lines) as used:
        with pytest.raises(ModelError, match="not JSON, but an HTML page: Sign in here"):
            await used.model.respond(request(name))
    assert "HTML page: Sign in here" in used.events[0].detail


async def test_a_gateways_refusal_of_contents_fails_one_attempt_only():
    name = "openai-compatible"
    async with open_session(name, [failure("Your input was flagged", 403)]) as used:
        with pytest.raises(ModelError, match="flagged"):
            await used.model.respond(request(name))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_wrong_key_is_one_line_that_never_holds_the_key(name):
    async with open_session(name, [text_reply("done")], key=SECRET) as used:
        with pytest.raises(ProviderRefused, match="rejected the API key") as error:
            await used.model.respond(request(name))
        assert SECRET not in f"{error.value!r} {used.model!r} {used.events}"


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_redirect_is_not_followed(name):
    line = Refuse(307, headers={"location": "http://127.0.0.1:9/elsewhere"})
    async with open_session(name, [line]) as used:
        with pytest.raises(ProviderRefused, match=r"redirect .*_BASE_URL"):
            await used.model.respond(request(name))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_garbled_reply_is_paid_for_and_not_reattempted(name):
    async with open_session(name, [garble(7, text_reply("done"))]) as used:
        with pytest.raises(ModelError, match="invalid reply"):
            await used.model.respond(request(name))
        used.server.finish()


# On trio the HTTP library leaves its own generators behind when a body is not read to its end.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_reply_above_the_size_limit_is_rejected():
    async with open_session("anthropic", [raw(b" " * 9_000_000)]) as used:
        with pytest.raises(ModelError, match="larger than the limit"):
            await used.model.respond(request("anthropic"))


async def test_a_requested_wait_is_kept_or_fails_at_once():
    async with open_session(
        "anthropic", [Refuse(429, headers={"retry-after": "0.4"}), text_reply("done")]
    ) as used:
        started = anyio.current_time()
        await used.model.respond(request("anthropic"))
        assert anyio.current_time() - started >= 0.4
    async with open_session("anthropic", [Refuse(429, headers={"retry-after": "60"})]) as used:
        started = anyio.current_time()
        with pytest.raises(ModelError, match="the server asks to wait 60 s"):
            await used.model.respond(request("anthropic"))
        assert anyio.current_time() - started < 1


def test_retry_after_is_read_as_seconds_milliseconds_or_a_date():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert parse_retry_after({"retry-after": "7"}) == 7
    assert parse_retry_after({"retry-after-ms": "250", "retry-after": "7"}) == 0.25
    wait = parse_retry_after({"retry-after": soon})
    assert wait is not None
    assert 28 <= wait <= 30
    past = format_datetime(datetime(2020, 1, 1, tzinfo=UTC), usegmt=True)
    assert parse_retry_after({"retry-after": past}) == 0
    for nonsense in ({}, {"retry-after": "soon"}, {"retry-after": "-3"}, {"retry-after": "nan"}):
        assert parse_retry_after(nonsense) is None


def test_no_long_piece_of_a_key_is_left_in_a_message():
    assert redact_key(f"bad key {SECRET[:20]}...", SECRET) == "bad key [key]..."
    assert redact_key("nothing to hide", SECRET) == "nothing to hide"


class FakeClock:
    """A clock that only sleeping advances."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def make_retrier(
    policy: CallPolicy,
) -> tuple[FakeClock, Retrier, CircuitBreaker, list[tuple[str, str]]]:
    time = FakeClock()
    changes: list[tuple[str, str]] = []
    breaker = CircuitBreaker(
        policy.breaker.failures,
        policy.breaker.cooldown,
        time,
        lambda before, after, why: changes.append((before, after)),
    )
    return time, Retrier(policy, time, time.sleep), breaker, changes


def failing_attempt(
    times: int, error: Exception | None = None
) -> tuple[Callable[[float], Awaitable[bytes]], list[float]]:
    attempted: list[float] = []

    async def attempt(seconds: float) -> bytes:
        attempted.append(seconds)
        if len(attempted) <= times:
            raise error or TransientError("it is down")
        return b"done"

    return attempt, attempted


async def test_waits_grow_with_jitter_up_to_the_longest():
    policy = CallPolicy(
        attempts=7, deadline=1000, first_wait=1, longest_wait=8, breaker=BreakerPolicy(99)
    )
    time, retrier, breaker, _ = make_retrier(policy)
    attempt, _ = failing_attempt(6)
    reported = []
    answer = await retrier.run(attempt, breaker, "x", lambda error, wait: reported.append(wait))
    assert answer == b"done"
    assert reported == time.slept
    for wait, minimum in zip(time.slept, (1, 2, 4, 8, 8, 8), strict=True):
        assert minimum <= wait <= minimum * 1.25


async def test_the_deadline_ends_and_bounds_attempts():
    policy = CallPolicy(
        attempts=99, timeout=50, deadline=60, first_wait=10, breaker=BreakerPolicy(99)
    )
    time, retrier, breaker, _ = make_retrier(policy)
    attempt, attempted = failing_attempt(99)
    with pytest.raises(ModelError, match=r"calls\.deadline"):
        await retrier.run(attempt, breaker, "x", lambda *_: None)
    assert time.now < 60
    assert attempted[0] == 50
    assert attempted[-1] <= 60 - time.now + 0.001


async def test_the_breaker_opens_probes_once_and_closes():
    policy = CallPolicy(attempts=20, deadline=1000, first_wait=1, breaker=BreakerPolicy(3, 100))
    time, retrier, breaker, changes = make_retrier(policy)
    attempt, attempted = failing_attempt(4)
    assert await retrier.run(attempt, breaker, "x", lambda *_: None) == b"done"
    assert len(attempted) == 5
    assert changes == [
        ("closed", "open"),
        ("open", "half-open"),
        ("half-open", "open"),
        ("open", "half-open"),
        ("half-open", "closed"),
    ]
    assert time.now > 200


async def test_an_open_breaker_beyond_the_deadline_fails_at_once():
    policy = CallPolicy(attempts=2, deadline=30, breaker=BreakerPolicy(2, 100))
    time, retrier, breaker, _ = make_retrier(policy)
    attempt, attempted = failing_attempt(99)
    for _ in range(2):
        with pytest.raises(ModelError):
            await retrier.run(attempt, breaker, "claude fast", lambda *_: None)
    assert len(attempted) == 2
    assert time.now < 30


async def test_rate_limits_and_refusals_do_not_open_the_breaker():
    policy = CallPolicy(attempts=5, deadline=1000, breaker=BreakerPolicy(2))
    _, retrier, breaker, changes = make_retrier(policy)
    attempt, _ = failing_attempt(4, TransientError("429", server_down=False))
    await retrier.run(attempt, breaker, "x", lambda *_: None)
    attempt, _ = failing_attempt(1, ModelError("a wrong key"))
    with pytest.raises(ModelError, match="a wrong key"):
        await retrier.run(attempt, breaker, "x", lambda *_: None)
    assert changes == []


def test_half_open_admits_one_call_and_a_cancelled_one_frees_its_place():
    policy = CallPolicy(breaker=BreakerPolicy(1, 10))
    time, _, breaker, _ = make_retrier(policy)
    assert breaker.admit() == 0
    breaker.record_failure("down")
    assert breaker.admit() == 10
    time.now = 10
    assert breaker.admit() == 0
    assert breaker.admit() == PROBE_POLL_SECONDS
    breaker.release()
    assert breaker.admit() == 0
    breaker.record_success()
    assert breaker.state == "closed"


async def test_agents_share_the_breaker_and_its_changes_are_reported():
    policy = replace(QUICK, attempts=2, breaker=BreakerPolicy(2, 0.2))
    script: dict[str, list[ServerReply]] = {"qa": [Refuse(503), Refuse(503), text_reply("done")]}
    async with open_session("openai", script, policy=policy) as used:
        with pytest.raises(ModelError, match="in 2 attempts"):
            await used.model.respond(request("openai"))
        answer = await used.model.respond(request("openai"))
        used.server.finish()
    assert answer.blocks[0] == Text("done")
    changes = [event.detail.split(":")[0] for event in used.events if event.kind == "breaker"]
    assert changes == ["closed -> open", "open -> half-open", "half-open -> closed"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_cancelled_call_leaves_the_model_usable(name):
    async with open_session(name, [Slow(5, text_reply("late")), text_reply("done")]) as used:
        script = used.server._script
        assert script is not None
        (lines,) = script.values()
        async with anyio.create_task_group() as group:
            group.start_soon(used.model.respond, request(name))
            while len(lines) == 2:  # the server has not been asked yet
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        answer = await used.model.respond(request(name))
    assert answer.blocks[0] == Text("done")
