"""What a call's page, a bundle and a trace show of a review with a model, which was resumed."""

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from msgspec.structs import replace

from orchestrator.app.runs.run_details import CallDetails, RunDetails, describe_call, load_details
from orchestrator.app.runs.run_record import read_record
from orchestrator.app.tracing.spans import MAX_CONTENT, MessageWriter, SpanBuilder, text_part
from orchestrator.cli.main import main
from orchestrator.engine.ports import Row
from orchestrator.engine.types import Response, Text
from orchestrator.web.access import Access
from orchestrator.web.runs import make_runs_part
from orchestrator.web.site import Site, running
from tests.engine.engine_kit import RUN, created
from tests.engine.test_agent_context import long_work, work
from tests.model_server.server_script import ServerReply
from tests.providers.test_escalation_over_the_wire import NAME, NOTHING, REFUSED, REVIEW
from tests.providers.whole_kit import BASE, HEAD, POLICY, judges, serving
from tests.report.browser import Browser, needs_axe, needs_chromium
from tests.review.review_kit import change
from tests.scripted_model import tool_call_reply
from tests.web.view_kit import HOSTILE

SECRET = "qwertz-lorem-9471-ipsum"
CALLS = tool_call_reply(("read_file", {"path": "app.py"}), ("no_such_tool", {}))


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a run that asked a person, was resumed, and had a report sent back."""
    head = {"app.py": HEAD["app.py"] + f"\n\n# {SECRET} {HOSTILE}\n"}
    repo = change(tmp_path_factory.mktemp("calls"), {**BASE, **POLICY}, head).path
    says: dict[str, Sequence[ServerReply]] = {
        "generalist": [REFUSED, REFUSED, CALLS, Response((Text("Fine."),), "end"), NOTHING],
        "judge": [judges()],
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        start_blocking_portal() as portal,
        serving(portal, patch, NAME, says) as server,
    ):
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("SOME_API_TOKEN", SECRET)
        assert main([*REVIEW, "--repo", str(repo)]) == 3
        resume = ("resume", "latest", "--answer", "Go on.", "--quiet", "--repo", str(repo))
        assert main(resume) == 1
        server.finish()
    return repo


@pytest.fixture
def found(reviewed: Path) -> RunDetails:
    return load_details(reviewed, "latest")


def last_call(found: RunDetails) -> CallDetails:
    """The last call of the reviewer's model."""
    spans = [s for s in found.record.spans if s.kind == "model" and s.agent == "generalist"]
    return describe_call(found, spans[-1].row)


def test_the_opening_is_one_row_for_all_attempts_and_agents_also_after_a_resumption(
    found: RunDetails,
) -> None:
    kept = [row for row in found.rows if row.kind == "data" and b"This is the change" in row.body]
    (opening,) = kept
    opened = [
        dict(asked["texts"]).get("opening")
        for row in found.rows
        if row.kind == "intent"
        and (asked := json.loads(row.body).get("asked"))
        and "texts" in asked
    ]
    first_turns = [name for name in opened if name]
    assert first_turns == [opening.key] * 3  # three attempts; the judge has an opening of its own
    assert SECRET.encode() not in b"".join(row.body for row in found.rows)


def test_a_call_shows_the_whole_request_in_order(found: RunDetails) -> None:
    call = last_call(found)
    titles = [one.title.partition(":")[0] for one in call.sent]
    assert titles == [
        "System prompt, rules",
        "Input guards modified texts of this agent; the original texts are shown here",
        "Opening, the same for lead and examiners",
        "Role and task",
        "Turn 1, calls read_file",
        "Turn 1, calls no_such_tool",
        "Turn 1, result of read_file",
        "Turn 1, result of no_such_tool",
        "Turn 2, answer",
        "Turn 3, report sent back",
        "6 tools",
        "Output contract",
    ]
    by_title = dict(zip(titles, (one.text for one in call.sent), strict=True))
    assert "return eval(text)" in by_title["Opening, the same for lead and examiners"]
    assert "[redacted]" in by_title["Opening, the same for lead and examiners"]
    assert by_title["Role and task"].startswith("Agent: generalist")
    assert "answered:\nGo on." in by_title["Role and task"]
    assert "there is no tool" in by_title["Turn 1, result of no_such_tool"]
    assert "not valid JSON" in by_title["Turn 3, report sent back"]
    assert "read_file" in call.sent[-2].title
    assert [one.title for one in call.sent if one.new] == ["Turn 3, report sent back"]


@needs_chromium
@needs_axe
def test_its_page_and_a_bundle_are_read_at_both_widths_and_run_nothing(
    reviewed: Path, found: RunDetails, browser: Browser, tmp_path: Path
) -> None:
    site, file = Site(Access("dana"), [make_runs_part([reviewed])]), tmp_path / "run.html"
    assert main(["view", "--repo", str(reviewed), "--bundle", "latest", str(file)]) == 0
    path = f"/runs/{found.summary.run_id}/calls/{last_call(found).span.row}"
    with running(site):
        page = browser.new_page()
        page.sign_in(site.access.new_link(may_act=False))
        for place in (site.access.origin + site.url(path), file):
            for look in page.looks(place):
                page.run("document.querySelectorAll('details').forEach(one => one.open = true)")
                assert page.overflow() == 0, (place, look)
                assert page.axe() == [], (place, look)
            text = page.run("document.querySelector('#calls, #sent').parentElement.innerText")
            for words in ("This is the change", "Agent: generalist", "Go on.", "[redacted]"):
                assert words in text, place
            assert SECRET not in text
            assert page.complaints() == []
        page.open(file)
        page.run("document.querySelector('a[href^=\"#call-\"]').click()")
        unfolded = "document.querySelectorAll('details.effect[open]').length"
        assert page.run(unfolded) == 1
        assert page.run("document.querySelectorAll('pre[aria-label^=\"Opening\"]').length") == 1


def test_omissions_by_compaction_are_shown(found: RunDetails) -> None:
    async def worked() -> list[Row]:
        store = await created()
        await work(store, long_work(12, words=210), turns=12, size=1_500)
        return await store.rows(RUN)

    rows = anyio.run(worked)
    record = read_record(RUN, rows)
    last = [span for span in record.spans if span.kind == "model"][-1]
    call = describe_call(replace(found, rows=rows, record=record), last.row)
    (note,) = [one for one in call.sent if one.title.startswith("Left out")]
    first, second, *_ = note.text.splitlines()
    assert first.startswith(
        "Before turn 5: 3 results, each now a line: echo (turn 1), echo (turn 2)"
    )
    assert second.startswith("Before turn 7: the oldest 2 answers and what followed; ")
    shown = [one for one in call.sent if one.title == "Turn 9, result of echo"]
    assert ["left out, no room: echo" in one.text for one in shown] == [True]
    assert not [one for one in call.sent if one.title.startswith("Turn 1, ")]


def test_a_trace_with_content_has_the_messages_and_none_without(found: RunDetails) -> None:
    for content in (False, True):
        builder = SpanBuilder(found.summary.run_id, content=content)
        spans = [span for row in found.rows for span in builder.feed(row)]
        key = last_call(found).span.key
        (chat,) = [s for s in spans if s.attributes.get("diffcourt.journal.key") == key]
        assert ("gen_ai.input.messages" in chat.attributes) == content
    messages = json.loads(str(chat.attributes["gen_ai.input.messages"]))
    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "assistant", "user"]
    opening, role = (part["content"] for part in messages[0]["parts"])
    assert opening.startswith("This is the change")
    assert role.startswith("Agent: generalist")
    calls, results = messages[1]["parts"], messages[2]["parts"]
    assert [part["id"] for part in calls] == [part["id"] for part in results]
    assert results[0]["type"] == "tool_call_response"
    assert "return eval(text)" in results[0]["response"]
    assert SECRET not in json.dumps(messages)


def test_messages_that_are_too_long_lose_the_end_of_their_longest_texts() -> None:
    write = MessageWriter(lambda value: value).write
    parts = [text_part("a" * 50_000), text_part("b" * 50_000), text_part("short")]
    (said,) = json.loads(write([{"role": "user", "parts": parts}]))
    long, other, short = (part["content"] for part in said["parts"])
    each = (MAX_CONTENT - 5) // 2
    assert long == "a" * each + f" [{50_000 - each} characters cut]"
    assert other.endswith("characters cut]")
    assert short == "short"
