"""A person can answer in a model's place, through files."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal

from bench.play_the_model import HandWrittenReplies, read_reply
from orchestrator import testing
from orchestrator.app.run_review import run_review
from orchestrator.engine.types import Response, Text
from orchestrator.errors import InputError
from tests.model_server.server import KEY, ModelServer, start_server
from tests.plain_http import PLAIN
from tests.providers.refusals import BODIES, HEADERS, PATHS
from tests.providers.whole_kit import BASE, HEAD, asked, judges
from tests.review.review_kit import change

PAGE = Path(__file__).parents[2] / "docs/play-the-model.md"
FENCE = re.compile(r"^```(\w+) (file|reply)=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOOL = {"type": "object", "properties": {"pattern": {"type": "string"}}}
TOOLS = {
    "messages": {"name": "search", "description": "Finds.", "input_schema": TOOL},
    "responses": {"type": "function", "name": "search", "parameters": TOOL, "strict": False},
    "chat": {"type": "function", "function": {"name": "search", "parameters": TOOL}},
}


async def appears(path: Path) -> Path:
    with anyio.fail_after(20):
        while not await anyio.Path(path).exists():
            await anyio.sleep(0.01)
    return path


@pytest.mark.either_loop
@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_that_a_person_writes_is_sent_in_the_form_of_each_api(api, stream, tmp_path):
    server = ModelServer(reply=HandWrittenReplies(tmp_path / "play"))
    body = {**BODIES[api], "tools": [TOOLS[api]], "stream": stream}
    replies = []
    async with (
        start_server(server),
        httpx2.AsyncClient(base_url=server.url, timeout=20, verify=PLAIN) as client,
        anyio.create_task_group() as group,
    ):

        async def post():
            replies.append(await client.post(PATHS[api], json=body, headers=HEADERS))

        group.start_soon(post)
        request = await appears(tmp_path / "play/0001-qa.request.md")
        text = request.read_text()
        assert "You look for bugs." in text
        assert "**search**" in text
        assert "hello" in text
        assert json.loads((tmp_path / "play/0001-qa.request.json").read_text()) == body
        (tmp_path / "play/0001-qa.reply.md").write_text('CALL search {"pattern": eval}\n')
        problem = await appears(tmp_path / "play/0001-qa.problem.md")
        assert "line 1: the arguments of search are not JSON" in problem.read_text()
        assert replies == []
        (tmp_path / "play/0001-qa.reply.json").write_text("{")
        await appears(tmp_path / "play/0001-qa.unreadable-2.json")
        good = 'I look.\n\nCALL search {"pattern":\n "eval"}\nCALL search {}\n'
        (tmp_path / "play/0001-qa.reply.md").write_text(good)
    (reply,) = replies
    assert not problem.exists()
    assert reply.status_code == 200
    assert reply.text.count("call-0001-1") >= 1
    assert "I look." in reply.text or stream


def test_the_server_takes_replies_by_hand_under_the_name_that_scripts_use(tmp_path):
    command = [sys.executable, "-m", "orchestrator.testing.model_server", "--port", "0"]
    with subprocess.Popen(
        [*command, "--by-hand", str(tmp_path / "play")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on http://127.0.0.1:")
        process.terminate()
    assert process.returncode == 0
    assert (tmp_path / "play").is_dir()


def test_an_installation_without_the_tests_says_that_the_server_needs_a_clone(tmp_path):
    copy = shutil.copy(testing.__file__.replace("__init__", "model_server"), tmp_path)
    ended = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Start the model server in a clone of Diffcourt")


async def test_a_request_shows_only_what_is_new_to_its_agent(tmp_path):
    server = ModelServer(reply=HandWrittenReplies(tmp_path))
    first = BODIES["chat"]["messages"]
    later = [*first, {"role": "assistant", "content": "A."}, {"role": "user", "content": "And B?"}]
    (tmp_path / "0001-qa.reply.json").write_text('"A."')
    (tmp_path / "0002-qa.reply.json").write_text('{"calls": [{"name": "search"}]}')
    async with (
        start_server(server),
        httpx2.AsyncClient(base_url=server.url, timeout=20, verify=PLAIN) as client,
    ):
        for messages in (first, later, first):
            body = {"model": "m", "messages": messages}
            reply = await client.post(PATHS["chat"], json=body, headers=HEADERS)
            assert reply.status_code == 200
    shown = (tmp_path / "0002-qa.request.md").read_text()
    assert "As in 0001-qa." in shown
    assert "the first 1 as in 0001-qa" in shown
    assert "And B?" in shown
    assert "hello" not in shown
    assert not (tmp_path / "0003-qa.request.md").exists(), "a repeated request has the same reply"
    with pytest.raises(InputError, match="empty"):
        read_reply(" \n", False, "1")
    with pytest.raises(InputError, match="text stands before the first call"):
        read_reply("CALL search {}\nAnd more.", False, "1")
    with pytest.raises(InputError, match="not a JSON object"):
        read_reply("CALL search []", False, "1")
    with pytest.raises(InputError, match="invalid reply"):
        read_reply("{", True, "1")
    bare = {"summary": "", "findings": []}
    assert read_reply(json.dumps(bare), True, "1") == read_reply(json.dumps(bare), False, "1")
    both = read_reply("Text.\nCALL a {}\nCALL b {}", False, "1")
    assert isinstance(both, Response)
    assert len(both.blocks) == 3


JUDGED = "".join(block.text for block in judges(None).blocks if isinstance(block, Text))


def play(folder: Path, replies: Iterator[str], done: Callable[[], bool]) -> None:
    """Answer each request that waits with the next reply."""
    while not done():
        for request in sorted(folder.glob("*.request.md")):
            reply = request.with_name(request.name.replace(".request.", ".reply."))
            if not reply.exists():
                judged = "-judge." in request.name
                reply.write_text(JUDGED if judged else next(replies))
        threading.Event().wait(0.05)


def test_the_example_of_the_page_reviews_a_change(tmp_path, monkeypatch):
    found = FENCE.findall(PAGE.read_text("utf-8"))
    policy = {name: text for _, kind, name, text in found if kind == "file"}
    replies = iter([text for _, kind, _, text in found if kind == "reply"])
    quick = {".diffcourt/config/verdict.yaml": "required_checks: []\n"}
    repo = change(tmp_path / "repo", {**BASE, **policy, **quick}, HEAD).path
    server = ModelServer(reply=HandWrittenReplies(tmp_path / "play"))
    ended = threading.Event()
    player = threading.Thread(target=play, args=(tmp_path / "play", replies, ended.is_set))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(start_server(server)):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        player.start()
        try:
            given = asked(repo, "anthropic", pattern="single", run_tests=False)
            verdict = run_review(given, lambda _: None)
        finally:
            ended.set()
            player.join()
    assert server.rejected == []
    assert next(replies, None) is None
    assert "Evaluates any text that a caller passes" in {one.title for one in verdict.findings} | {
        report.title for one in verdict.findings for report in one.reports
    }
