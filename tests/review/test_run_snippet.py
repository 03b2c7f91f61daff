"""The tool ``run_snippet``: what it shows, what a hostile snippet can do, and who is given it."""

import os
import socket
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.catalog import settings
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools import run_snippet
from orchestrator.code_review.tools.run_snippet import (
    LIMITS,
    MAX_CODE,
    MAX_OUTPUT,
    RunSnippet,
    citable_part,
)
from orchestrator.code_review.tools.test_runners import python_of
from orchestrator.engine.ports import CallContext
from orchestrator.engine.types import Request, Response, ToolResult
from orchestrator.engine.untrusted_text import unframe
from orchestrator.errors import InputError, SandboxError
from orchestrator.report.formats.html_page.findings import render_findings
from orchestrator.sandbox import private_paths
from orchestrator.sandbox.isolated_run import NO_SANDBOX
from tests.providers.whole_kit import reports, says
from tests.review import push_kit
from tests.review.review_kit import change, review, workspace_of
from tests.review.team_kit import TEAM, claim, facts, judged, plan, report, scores, script, sums
from tests.review.test_responses import CODE, response
from tests.scripted_model import ScriptedModel, ScriptedReply, tool_call_reply

pytestmark = pytest.mark.attack("a snippet that reaches out of its sandbox")

CONTEXT = CallContext("key", "qa", 60.0)
SHOWN = "int(b'-5', 16) -> -5"
TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"[::-1]


async def printed(workspace: ReviewWorkspace, code: str, *more: Any, **arguments: str) -> str:
    tool = RunSnippet(workspace, *more)
    return (await tool.run({"code": code, **arguments}, CONTEXT)).content


HEAD = {
    "pay.py": "def pay(text):\n    return int(text, 16)\n",
    "src/shop/cart.py": "from pay import pay\nfrom till import SIGN\n\nTOTAL = SIGN * pay(b'-5')\n",
    "lib/till.py": "SIGN = 1\n",
}


async def test_it_prints_expressions_errors_and_what_heads_modules_do(
    namespaces: None, tmp_path: Path
) -> None:
    before = os.umask(0o077)  # our files are for us alone, and a snippet runs as somebody else
    try:
        await _print_all(tmp_path)
    finally:
        os.umask(before)


async def _print_all(tmp_path: Path) -> None:
    async with workspace_of(change(tmp_path, {"pay.py": "pay = None\n"}, HEAD)) as workspace:
        assert await printed(workspace, "int(b'-5', 16)") == f"exit status 0\n{SHOWN}"
        code = "from shop.cart import TOTAL\ndef f(x):\n    return x * TOTAL\nf(2)\nNone"
        assert await printed(workspace, code) == "exit status 0\nf(2) -> -10\nNone -> None"
        failed = await printed(workspace, "print('begun')\nint('x')")
        assert failed.startswith("exit status 1\nbegun\nTraceback")
        assert failed.endswith("ValueError: invalid literal for int() with base 10: 'x'")
        assert "SyntaxError" in await printed(workspace, "def")
        assert "No such file or directory: 'no.py'" in await printed(
            workspace, "import os\nopen(os.getcwd() + '/no.py')"
        )
        for code, why in (
            ("é" * MAX_CODE, "8192 bytes"),
            ("'\0'", "NUL"),
            ("'\ud800'", "not valid Unicode"),
        ):
            with pytest.raises(InputError, match=why):
                await printed(workspace, code)


@pytest.mark.attack("file of the change in place of a module of the snippet's runner")
async def test_it_runs_in_the_environment_of_the_tests_and_on_either_side(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_paths, "SYSTEM_PRIVATE", ())
    place = tmp_path / "env"
    venv.create(place, symlinks=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "driver.py").write_text("RATE = 3\n")
    forged = dict.fromkeys(("ast.py", "code/ast.py"), "print('forged')\nraise SystemExit\n")
    bill = "import driver\n\nTOTAL = {} * driver.RATE\n"
    base, head = ({"code/bill.py": bill.format(n), **forged} for n in (1, 2))
    code = "import bill\nbill.TOTAL"
    os.chmod(place, 0o755)
    os.chmod(tmp_path, 0o755)
    async with workspace_of(change(tmp_path / "repo", base, head)) as workspace:
        for program in ("pytest", "python"):
            command = ("env", "PYTHONPATH=code", str(place / "bin" / program), "-m", "pytest")
            tests = settings.Tests(command, reads=(str(place),))
            assert await printed(workspace, code, tests) == "exit status 0\nbill.TOTAL -> 6"
            before = await printed(workspace, code, tests, side="base")
            assert before == "base, exit status 0\nbill.TOTAL -> 3"
            both = await printed(workspace, code, tests, side="both")
            assert both == f"head, exit status 0\nbill.TOTAL -> 6\n{before}"
            assert citable_part(both, code) == "bill.TOTAL -> 6\nbill.TOTAL -> 3"
        without = await printed(
            workspace,
            "import sys\nsys.path.append('code')\nimport bill",
            settings.Tests(("make", "test")),
        )
        version = ".".join(map(str, sys.version_info[:3]))
        own = f"No module named 'driver'\nThis is Python {version} with no packages."
        assert without.endswith(own), without
        monkeypatch.setattr(private_paths, "SYSTEM_PRIVATE", (tmp_path,))
        with pytest.raises(SandboxError, match="snippet not run: tests.reads names"):
            await printed(workspace, code, tests)


@pytest.mark.parametrize(
    ("command", "python"),
    [
        (("python3", "-X", "dev", "-m", "pytest"), ["python3"]),
        (("pytest", "-q"), ["python3"]),
        ((sys.executable, "-m", "unittest"), [sys.executable]),
        (("/usr/bin/env", "A=1", "py.test"), ["/usr/bin/env", "A=1", "python3"]),
        (("/nowhere/bin/python", "-m", "pytest"), []),
        (("npx", "vitest"), []),
    ],
)
def test_the_python_of_the_tests_is_told_from_their_command(
    command: tuple[str, ...], python: list[str]
) -> None:
    assert python_of(settings.Tests(command)) == python


HOSTILE = """
import os, socket, sys
outside, port, tree = {outside!r}, {port}, sys.path[0]
def attempt(name, what):
    try:
        what()
    except OSError:
        return
    print("got", name)
attempt("network", lambda: socket.create_connection(("127.0.0.1", port), 1))
attempt("elsewhere", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("192.0.2.1", 9)))
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
attempt("file", lambda: open(outside).read())
attempt("write", lambda: open(tree + "/pay.py", "a"))
attempt("new", lambda: open(tree + "/new.py", "w"))
attempt("remove", lambda: os.unlink(tree + "/pay.py"))
attempt("mode", lambda: os.chmod(tree + "/pay.py", 0o777))
attempt("outside", lambda: open(outside + ".new", "w"))
attempt("git", lambda: os.stat(tree + "/.git"))
attempt("home", lambda: os.listdir({home!r}))
attempt("disk", lambda: open("/tmp/big", "wb").write(bytes(80 << 20)))
print(sorted(os.environ.keys() - {{"LC_CTYPE"}}), os.environ["HOME"], os.getcwd() == tree)
"""
BOMB = """
import os, time
made = 0
try:
    while made < 5000:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except OSError:
    print("refused after", made)
"""


async def test_a_hostile_snippet_reaches_changes_and_outlives_nothing(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.write_text(TOKEN)
    monkeypatch.setenv("SOME_TOKEN", TOKEN)
    async with workspace_of(change(tmp_path / "repo", {}, HEAD)) as workspace:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            home = os.environ["HOME"]
            said = await printed(
                workspace, HOSTILE.format(outside=str(outside), port=port, home=home)
            )
        names = ["HOME", "LC_ALL", "PATH", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "TMPDIR"]
        assert said == f"exit status 0\n{names} /tmp True"
        began = time.monotonic()
        bombed = await printed(workspace, BOMB)
        assert 0 < int(bombed.rpartition(" ")[2]) < 40
        monkeypatch.setattr(run_snippet, "LIMITS", replace(LIMITS, seconds=2.0))
        late = await printed(workspace, "print('here')\nwhile True: pass")
        assert late == "ended after 2 s, because it ran out of time\nhere"
        flood = await printed(workspace, "while True: print('x' * 9999)")
        assert len(flood) < MAX_OUTPUT + 100
        failed = await printed(workspace, "print('first', 'x' * 9_999)\n1 / 0")
        assert failed.startswith("exit status 1\nfirst xx")
        assert f"\n[all but the first and last {MAX_OUTPUT // 2} bytes left out]\n" in failed
        assert failed.endswith("\nZeroDivisionError: division by zero")
        big = await printed(workspace, "bytearray(2 << 30)")
        assert big.endswith("MemoryError")
        assert time.monotonic() - began < 60
        assert await printed(workspace, "import os\nsorted(os.listdir())") == (
            "exit status 0\nsorted(os.listdir()) -> ['README.md', 'lib', 'pay.py', 'src']"
        )
    assert not outside.with_name("outside.new").exists()
    assert not processes_with("refused after")


def processes_with(argument: str) -> list[Path]:
    """Processes of this machine with an argument that holds some text."""

    def read(place: Path) -> str:
        try:
            return place.read_text(errors="replace")
        except OSError:
            return ""

    return [place for place in Path("/proc").glob("[0-9]*/cmdline") if argument in read(place)]


async def test_without_namespaces_the_answer_says_how_to_get_them(tmp_path: Path) -> None:
    async with workspace_of(change(tmp_path, {}, HEAD)) as workspace:
        with pytest.raises(SandboxError) as raised:
            await printed(workspace, "1")
    assert str(raised.value) == f"snippet not run: {NO_SANDBOX}"


async def test_output_of_a_snippet_is_evidence_and_its_code_is_not(
    namespaces: None, tmp_path: Path
) -> None:
    """A colleague confirms one claim by a value, and another by a sentence of its own."""
    code = f"int(b'-5', 16)\nprint('The name is dangerous')\n'{TOKEN}'[:4] + '{TOKEN[4:]}'"
    cited = {"source": "tool", "name": "run_snippet"}
    seen: list[str] = []

    def confirms(request: Request) -> Response:
        blocks = [block for message in request.messages for block in message.blocks]
        answers = [block.content for block in blocks if isinstance(block, ToolResult)]
        seen[:] = [unframe(answers[-1], request.nonce)]
        assert answers[-1].startswith(f"<untrusted {request.nonce}>")
        return report(responses=[
            response("F1", "confirm", evidence=[{**cited, "quote": SHOWN}]),
            response("F2", "confirm", evidence=[{**cited, "quote": "The name is dangerous"}]),
        ])  # fmt: skip

    misses = scores(score=0, missing=["what the name leads to"])
    lines = script(lead=[plan(*TEAM), plan("security"), sums()], judge=[misses, scores()])
    lines["qa"][-1] = report(findings=[
        claim(severity="critical", title="A"),
        claim(severity="critical", title="B", start_line=4, end_line=4, quote="SIZE = 4"),
    ])  # fmt: skip
    lines["security"] += [tool_call_reply(("run_snippet", {"code": code})), confirms, confirms]
    model = ScriptedModel(lines)
    repo = change(tmp_path, {}, {"app.py": CODE})
    verdict = await review(repo, model, adjust=judged, run_tests=True, secrets=[TOKEN])
    model.finish()
    assert [(one.title, one.support, one.confirmed_by) for one in verdict.findings] == [
        ("A", "claimed", ("security",)),
        ("B", "claimed", ()),
    ]
    assert verdict.verdict == "needs_changes"
    assert SHOWN in seen[0]
    assert "[redacted]" in seen[0]
    assert TOKEN not in seen[0]


async def test_a_finding_shows_the_run_that_its_author_quotes_and_the_verifier_can_quote_it(
    namespaces: None, tmp_path: Path
) -> None:
    code = "from pay import pay\npay(b'-5')"
    flaw: dict[str, Any] = {
        "path": "pay.py", "start_line": 2, "end_line": 2, "quote": "return int(text, 16)",
        "title": "A negative amount is paid", "severity": "high", "confidence": 0.9,
    }  # fmt: skip
    unasked: dict[str, Any] = {"title": "Nobody says that it reads hexadecimal digits"}
    unasked |= {"severity": "low", "start_line": 1, "end_line": 1, "quote": "def pay(text):"}
    seen = list[Any]()

    def corrects(request: Request) -> Response:
        seen.append(str(request.messages[-1]))
        ran = {**flaw, "ran": ["pay(b'-5') -> -5"]}
        return reports(findings=[ran, {**ran, **unasked}])

    def verifies(request: Request) -> Response:
        (shown,) = facts(request)["claims"]
        seen.append([facts(request)["runs"][number - 1] for number in shown["runs"]])
        quotes = [{"file": "pay.py", "quote": flaw["quote"]}]
        quotes.append({"file": "run_snippet", "quote": "pay(b'-5') -> -5"})
        ruling = {"finding": shown["id"], "verdict": "confirmed", "reason": "It is paid."}
        return says(verdicts=[{**ruling, "quotes": quotes}])

    def judges(request: Request) -> Response:
        told = facts(request)
        seen.append([told["runs"], [one["runs"] for one in told["findings"]]])
        return scores()

    wrong = reports(findings=[{**flaw, "ran": ["pay(b'-5') -> 5"]}])
    lines: list[ScriptedReply] = [tool_call_reply(("run_snippet", {"code": code})), wrong, corrects]
    model = ScriptedModel({"generalist": lines, "verifier": [verifies], "judge": [judges]})
    repo = change(tmp_path, {"app.py": CODE}, {"pay.py": HEAD["pay.py"], **push_kit.UNREAD})
    verdict = await review(repo, model, adjust=push_kit.judged, run_tests=True, verifier=True)
    model.finish()
    assert "no snippet of yours printed" in seen[0]
    found, other = verdict.findings
    (run,) = found.runs
    assert (run.code, run.output) == (code, "exit status 0\npay(b'-5') -> -5")
    shown = [{"run": 1, "code": run.code, "output": run.output}]
    assert seen[1:] == [shown, [shown, [[1], [1]]]]
    assert other.runs == (run,)
    assert run.call.endswith("/run_snippet")
    assert found.support == "verified"
    assert str(render_findings(verdict, {})).count("pay(b&#39;-5&#39;) -&gt; -5") == 2


async def test_it_is_offered_only_where_this_repositorys_python_may_run_and_never_called_offline(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path / "python", {}, {"app.py": CODE})
    other = change(tmp_path / "go", {}, {"app.go": "package app\n"})
    for changed, allowed in ((repo, False), (other, True), (repo, True)):
        model = ScriptedModel(script(lead=[plan(*TEAM)]))
        await review(changed, model, run_tests=allowed)
        model.finish()
        offered = {
            request.agent
            for request in model.requests
            if any(tool.name == "run_snippet" for tool in request.tools)
        }
        assert offered == ({"security", "qa"} if allowed and changed is repo else set())
    called: set[str] = set()
    await review(repo, run_tests=True, observer=lambda event: called.add(event.tool))  # offline
    assert "secrets" in called
    assert "run_snippet" not in called
