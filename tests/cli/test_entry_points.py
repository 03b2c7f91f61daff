"""Each way to start a review, in a checkout that shadows all that could be found: none of it runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import packages_distributions
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import httpx2
import pytest

from orchestrator.cli.main import main
from tests.plain_http import PLAIN, press_sign_in
from tests.review.review_kit import Repo, change

if TYPE_CHECKING:
    from tests.service.service_kit import Service
    from tests.stores.postgres_server import Server

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
DIFFCOURT = str(BIN / "diffcourt")
GIT = shutil.which("git") or ""
PINNED = f"git+https://example.org/diffcourt@{40 * 'a'}"
SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
MODULES = {*sys.stdlib_module_names, *("sitecustomize", "usercustomize", "startup")}
PACKAGES = ("orchestrator", "venv", "pip", "ensurepip", "msgspec")
PROGRAMS = {
    *(
        "diffcourt",
        "ruff",
        "typos",
        "zizmor",
        "oxlint",
        "hadolint",
        "shellcheck",
        "mcp-server-time",
    ),
    *("git", "git-remote-http", "sh", "bash", "env", "python", "python3", "node", "uname", "bwrap"),
    *("rg", "make", "mktemp", "rm", "cat", "gcc", "cc", "ld", "objdump", "ldconfig", "pg_ctl"),
    *("xdg-open", "www-browser", "firefox", "ssh", "gpg", "pip", "pipx", "uv", "docker"),
}
PLACES = (
    *("", "bin/", ".venv/bin/", "venv/bin/", "node_modules/.bin/"),
    f"__pypackages__/{sys.version_info.major}.{sys.version_info.minor}/lib/bin/",
)
HOSTILE_PATH = f":.:bin:.venv/bin:./venv/bin:node_modules/.bin:{os.defpath}:/usr/local/bin:"

pytestmark = pytest.mark.attack("a checkout that shadows every module and program")


class Hostile:
    """A checkout that shadows everything; what runs of it leaves a line in ``ran``."""

    reviewed: "subprocess.CompletedProcess[str]"

    def __init__(self, folder: Path) -> None:
        self.folder, self.ran, self.told = folder, folder / "ran", folder / "told"
        module = f"open({str(self.ran)!r}, 'a').write(__file__ + '\\n')\n"
        program = f'#!/bin/sh\necho "$0 $*" >>{self.ran}\nexit 3\n'
        installed = filter(str.isidentifier, packages_distributions())  # slow: not at import
        modules = MODULES.union(installed)
        base: dict[str, str | bytes] = {f"{name}.py": module for name in modules}
        for name in PACKAGES:
            base |= {f"{name}/__init__.py": module, f"{name}/__main__.py": module}
        programs = {f"{place}{name}" for place in PLACES for name in PROGRAMS} - {*PACKAGES}
        base |= {"here.pth": f"import os; {module}", **dict.fromkeys(programs, program)}
        server = {"command": [sys.executable, "-m", "mcp_server_time"], "tools": {}}
        base[".diffcourt/config/mcp.yaml"] = json.dumps({"servers": {"time": server}})
        self.repo = change(folder / "checkout", base, {"app.py": SHELL})
        for name in programs:
            (self.repo.path / name).chmod(0o755)
        bell = f"import json, sys; open({str(self.told)!r}, 'w').write(sys.stdin.read())"
        mine = {"channels": {"bell": {"command": ["python3", "-c", bell]}}}
        (folder / "config/diffcourt").mkdir(parents=True)
        (folder / "config/diffcourt/notify.yaml").write_text(json.dumps(mine))
        self.env = {
            "HOME": str(folder / "home"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PATH": os.pathsep.join((*(str(self.repo.path / it) for it in PLACES), HOSTILE_PATH)),
            "PWD": str(self.repo.path),
            "PYTHONPATH": "",
            "PYTHONSTARTUP": "startup.py",
            "BIN": str(BIN),
            **{f"GIT_{who}_NAME": "a" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "a@example.org" for who in ("AUTHOR", "COMMITTER")},
        }

    def start(self, *argv: str, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            argv, cwd=self.repo.path, env={**self.env, **more}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *argv: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run to the end; nothing of the checkout ran."""
        with self.start(*argv, **more) as process:
            out, err = process.communicate(timeout=100)
        self.nothing_ran()
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def what_ran(self) -> list[str]:
        lines = self.ran.read_text().splitlines() if self.ran.exists() else []
        self.ran.unlink(missing_ok=True)
        return lines

    def nothing_ran(self) -> None:
        assert self.what_ran() == []


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    made = Hostile(tmp_path_factory.mktemp("hostile"))
    made.reviewed = made.run(DIFFCOURT, "review", "--base", "HEAD~1", "--json", "-", "--quiet")
    return made


def test_the_checkout_is_hostile(hostile: Hostile) -> None:
    """What is started there by name, or imports from there, runs what it planted."""
    for argv in ((sys.executable, "-c", "import re"), (sys.executable, "-m", "orchestrator")):
        hostile.start(*argv).communicate()
        assert hostile.what_ran()
    hostile.start("/bin/sh", "-c", "git; python3; uname; mktemp").communicate()
    assert len(hostile.what_ran()) == 4


def test_a_review_finds_nothing_in_the_checkout_and_is_complete(hostile: Hostile) -> None:
    done = hostile.reviewed
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["status"]) == (1, "complete"), done.stderr
    assert [one["path"] for one in verdict["findings"]] == ["app.py"]


COMMANDS = [
    ("doctor",), ("init", "--ci", "github", "--from", PINNED, "--comments", "no"), ("catalog",), ("runs",),
    ("mcp", "accept", "time"), ("fix", "latest", "--yes"), ("stats",),
]  # fmt: skip
ONE_AFTER_ANOTHER = """
import json, runpy, sys
program = sys.argv[1]
for command in json.loads(sys.argv[2]):
    sys.argv[:] = [program, *command]
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as ended:
        print("ended:", *command, ended.code, file=sys.stderr)
"""


def test_commands_run_nothing_of_the_checkout(hostile: Hostile) -> None:
    """In one process: each imports what is its own, and looks up its programs."""
    script = hostile.folder / "one_after_another.py"
    script.write_text(ONE_AFTER_ANOTHER)
    done = hostile.run(sys.executable, str(script), DIFFCOURT, json.dumps(COMMANDS))
    assert "Traceback" not in done.stderr
    ended = [line for line in done.stderr.splitlines() if line.startswith("ended: ")]
    assert ended == [f"ended: {' '.join(command)} 0" for command in COMMANDS], done.stderr


def test_make_review_runs_nothing_of_the_repository(hostile: Hostile) -> None:
    done = hostile.run("/bin/sh", str(ROOT / "tools/review.sh"), ".", "", "", "--quiet")
    assert (done.returncode, "NEEDS CHANGES" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("hook", ["pre-commit", "pre-push"])
def test_a_git_hook_runs_nothing_of_the_checkout(hostile: Hostile, hook: str) -> None:
    place = hostile.repo.path / ".git/hooks" / hook
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\nexec {DIFFCOURT} review --hook --quiet --short\n")
    place.chmod(0o755)
    (hostile.repo.path / "more.py").write_text(SHELL)
    try:
        if hook == "pre-commit":
            hostile.repo.git("add", "more.py")
            done = hostile.run(GIT, "commit", "-q", "-m", "more")
        else:
            hostile.repo.git("init", "-q", "--bare", str(hostile.folder / "remote.git"))
            done = hostile.run(GIT, "push", str(hostile.folder / "remote.git"), "HEAD:main")
    finally:
        place.unlink()
        hostile.repo.git("rm", "-q", "--force", "--ignore-unmatch", "more.py")
        (hostile.repo.path / "more.py").unlink(missing_ok=True)
    assert "NEEDS CHANGES" in done.stdout + done.stderr


def test_a_run_that_a_page_continues_runs_nothing_of_the_checkout(
    hostile: Hostile, capsys: pytest.CaptureFixture[str]
) -> None:
    limited = ("review", "--base", "HEAD~1", "--no-cache", "--max-tool-calls", "3")
    done = hostile.run(DIFFCOURT, *limited, "--json", "-", "--quiet")
    assert done.returncode == 3
    assert json.loads(hostile.told.read_text())["event"] == "budget"
    run_id = json.loads(done.stdout)["run_id"]
    again = hostile.run(DIFFCOURT, "resume", run_id, "--max-tool-calls", "4", "--quiet")
    assert again.returncode == 3

    def state() -> str:
        main(["runs", "--json", "--repo", str(hostile.repo.path)])
        found = json.loads(capsys.readouterr().out)
        return str(next(one["state"] for one in found if one["run_id"] == run_id))

    with hostile.start(DIFFCOURT, "view") as pages:
        try:
            assert pages.stdout is not None
            link = pages.stdout.readline().split()[1]
            with httpx2.Client(follow_redirects=True, verify=PLAIN) as person:
                page = str(press_sign_in(person, link).url).rstrip("/") + f"/runs/{run_id}"
                csrf = re.search('name="csrf" value="([^"]+)"', person.get(page).text)
                assert csrf
                form = {"csrf": csrf[1], "max_tool_calls": "50"}
                origin = {"Origin": link.split("/open")[0]}
                answer = person.post(f"{page}/grant", data=form, headers=origin)
                assert answer.status_code == 200
            until = time.monotonic() + 60
            while state() != "finished":
                assert not hostile.ran.exists(), hostile.what_ran()
                assert time.monotonic() < until
                time.sleep(0.1)
        finally:
            pages.terminate()
    hostile.nothing_ran()


@contextmanager
def refusing_model() -> Iterator[str]:
    """The address of a model server that knows nobody."""

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_library_of_a_provider_runs_nothing_of_the_checkout(hostile: Hostile) -> None:
    """OpenAI's asks ``uname`` for the processor, by that name."""
    with refusing_model() as url:
        review = (DIFFCOURT, "review", "--base", "HEAD~1", "--provider", "openai")
        done = hostile.run(*review, OPENAI_API_KEY="a-key", OPENAI_BASE_URL=url)
    assert "OPENAI_API_KEY" in done.stderr


@pytest.mark.parametrize("path", ["src:./src/..:.", ":/nonexistent", "/nonexistent:"])
def test_a_relative_python_path_ends_before_libraries_are_imported(
    tmp_path: Path, path: str
) -> None:
    """What Python imports at its start is beyond our reach: ``docs/sandbox.md`` says so."""
    ran = tmp_path / "ran"
    repo = Repo(tmp_path / "checkout")
    module = f"open({str(ran)!r}, 'a').write(__file__)\n"
    names = ("argparse", "json", "msgspec", "anyio")
    repo.write({f"{folder}{name}.py": module for name in names for folder in ("", "src/")})
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": path}
    subprocess.run([DIFFCOURT, "runs"], cwd=repo.path, env=env, timeout=60, check=True)
    assert not ran.exists()


@pytest.fixture
def service(postgres: "Server", tmp_path: Path) -> "Iterator[Service]":
    pytest.importorskip("procrastinate")
    from tests.posting.forge_server import serving
    from tests.posting.forgejo_server import ForgejoServer
    from tests.service.service_kit import Service

    with serving(ForgejoServer()) as forge:
        yield Service(postgres.fresh(f"service_{os.urandom(4).hex()}"), tmp_path, forge)


def test_server_and_worker_run_nothing_of_the_directory_they_start_in(
    hostile: Hostile, service: "Service"
) -> None:
    service.cwd, service.path = hostile.repo.path, HOSTILE_PATH
    service.push()
    with service.server() as url, service.worker():
        assert httpx2.get(f"{url}/readyz", verify=PLAIN).status_code == 200
        service.wait(service.is_posted)
    assert service.statuses()[-1] == "failure"
    hostile.nothing_ran()
