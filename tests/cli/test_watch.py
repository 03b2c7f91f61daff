"""``diffcourt watch``: a real work tree that changes, and the lines that are printed."""

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app import watching as watching_module
from orchestrator.app.check_worker_startup import start_workers
from orchestrator.app.runs.stored_runs import list_runs, load_verdict
from orchestrator.app.types import ReviewOptions
from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.sandbox.worker_pool import WorkerPool
from tests.review.review_kit import Repo

WATCH = [sys.executable, "-m", "orchestrator", "watch"]
EVAL = "def f(x):\n    return eval(x)\n"
SHELL = "import os\n\n\ndef g(text):\n    os.system('ls ' + text)\n"
FINE = "def f(x):\n    return x\n"

Line = dict[str, Any]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit({"README.md": "# A project\n"})
    made.write({"a.py": EVAL})
    return made


class Watching:
    """A process that watches; each pass is read up to its last line."""

    def __init__(self, process: "subprocess.Popen[str]", repo: Repo) -> None:
        self.process, self.repo = process, repo

    def read(self) -> Line:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        found: Line = json.loads(line)
        return found

    def next_pass(self) -> tuple[list[tuple[str, str]], Line]:
        """State and rule of each finding, and the line of the pass."""
        rows = []
        while (line := self.read())["event"] == "finding":
            rows.append((line["state"], line["rule"]))
        return rows, line

    def after(self, files: Mapping[str, str | None]) -> tuple[list[tuple[str, str]], Line]:
        self.repo.write(files)
        return self.next_pass()


@contextmanager
def watching(repo: Repo, *more: str) -> Iterator[Watching]:
    run = [*WATCH, "--repo", str(repo.path), *more]
    with subprocess.Popen(
        run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Watching(process, repo)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def test_each_change_of_the_work_tree_says_what_is_new_open_and_fixed(repo: Repo) -> None:
    assert main(["watch", "--once", "--repo", str(repo.path)]) == 1
    (earlier,) = list_runs(repo.path)
    with watching(repo) as agent:
        rows, first = agent.next_pass()
        assert rows == [("new", "security.eval")]
        assert (first["verdict"], first["exit_code"]) == ("needs_changes", 1)
        rows, line = agent.after({"a.py": f"{SHELL}\n\n{EVAL}"})
        assert sorted(rows) == [("new", "security.subprocess-shell"), ("open", "security.eval")]
        assert (line["new"], line["open"], line["fixed"]) == (1, 1, 0)
        repo.git("add", ".")
        repo.git("commit", "-qm", "what is committed is not fixed")
        rows, line = agent.next_pass()
        assert [state for state, _ in rows] == ["open", "open"]
        rows, line = agent.after({"a.py": FINE})
        assert [state for state, _ in rows] == ["fixed", "fixed"]
        assert (line["verdict"], line["status"], line["exit_code"]) == ("merge", "complete", 0)
        assert [run.run_id for run in list_runs(repo.path)] == [line["run"], earlier.run_id]


def test_lines_are_true_however_an_agent_changes_files(repo: Repo) -> None:
    with watching(repo) as agent:

        def wait_for(*wanted: tuple[str, str]) -> None:
            seen = set[tuple[str, str]]()
            while not seen >= set(wanted):  # a pass may come between two steps
                seen |= set(agent.next_pass()[0])

        wait_for(("new", "security.eval"))
        repo.write({"a.new": FINE})
        os.replace(repo.path / "a.new", repo.path / "a.py")
        wait_for(("fixed", "security.eval"))
        for number in range(30):  # saved again and again
            repo.write({"a.py": f"{SHELL}# {number}\n"})
        wait_for(("new", "security.subprocess-shell"))
        os.rename(repo.path / "a.py", repo.path / "b.py")
        wait_for(("open", "security.subprocess-shell"))
        repo.git("checkout", "-qb", "other")
        repo.commit({"c.py": EVAL})
        wait_for(("new", "security.eval"), ("open", "security.subprocess-shell"))
        repo.git("checkout", "-q", "main")
        wait_for(("fixed", "security.eval"), ("fixed", "security.subprocess-shell"))


@pytest.mark.attack("files that change between two reviews of a process that remembers")
def test_a_pass_says_what_a_new_process_says(repo: Repo, tmp_path: Path) -> None:
    last = {"p/__init__.py": "", "p/c.py": "X = 'not ev'\n"}
    repo.commit({"p/a.py": "from p import b\n", "p/b.py": "from p import c\n", **last})
    repo.git("checkout", "-qb", "work")
    repo.commit({"p/b.py": "X = 1\n"})
    limits = {".diffcourt/config/defaults.yaml": "limits: {max_file_bytes: 20}\n"}
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "another")}
    once = [*WATCH, "--once", "--base", "main", "--repo", str(repo.path)]

    def check(line: Line) -> Verdict:
        done = subprocess.run(once, capture_output=True, text=True, env=env, check=False)
        again = load_verdict(repo.path, json.loads(done.stdout.splitlines()[-1])["run"])
        found = load_verdict(repo.path, line["run"])
        assert (found.digest, line["exit_code"]) == (again.digest, done.returncode)
        return found

    with watching(repo, "--base", "main") as agent:
        agent.next_pass()
        before = (repo.path / "p/c.py").stat()
        repo.write({"p/c.new": "X = eval('')\n"})
        os.utime(repo.path / "p/c.new", ns=(before.st_atime_ns, before.st_mtime_ns))
        os.replace(repo.path / "p/c.new", repo.path / "p/c.py")
        while (line := agent.next_pass()[1])["new"] + line["open"] == 0:
            pass  # it saw the new file under its first name
        assert "p/c.py" in {one.path for one in check(line).findings}
        agent.after({"p/b.py": "from p import c\n"})  # as in base, from which all else differs
        for text, is_cycle in (("from p import a\n", True), ("from q import a\n", False)):
            found = check(agent.after({"p/c.py": text})[1]).findings
            assert any("cycle" in str(one.rule) for one in found) is is_cycle
        repo.commit(limits)
        repo.git("branch", "-qf", "main")
        repo.write({"p/b.py": "from p import a  # a long line\n"})
        while not (line := agent.next_pass()[1])["not_examined"]:
            pass  # it may see each of the steps
        check(line)


@pytest.mark.attack("a file that takes over a worker, and with it the reviews of later commits")
def test_workers_serve_pass_after_pass_of_one_commit(repo: Repo) -> None:
    with watching(repo) as agent:

        def fork_servers() -> set[str]:
            tasks = Path(f"/proc/{agent.process.pid}/task").glob("*/children")
            found = {child for task in tasks for child in task.read_text().split()}
            lines = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in found}
            return {child for child, line in lines.items() if b"fork_server_main" in line}

        agent.next_pass()
        agent.after({"b.py": FINE})
        before = fork_servers()
        agent.after({"b.py": EVAL})
        assert fork_servers() == before != set()
        repo.git("add", ".")
        repo.git("commit", "-qm", "another one")
        agent.next_pass()
        assert len(fork_servers()) == len(before)
        assert not fork_servers() & before


def test_a_removed_repository_ends_it_and_is_not_made_again(repo: Repo) -> None:
    with watching(repo) as agent:
        agent.next_pass()
        shutil.rmtree(repo.path)
        said = agent.process.communicate(timeout=60)
    why = f"diffcourt: {repo.path} was removed, so there is nothing to watch\n"
    assert (*said, agent.process.returncode) == ("", why, 2)
    assert not repo.path.exists()


def test_a_finding_keeps_its_fingerprint_while_its_line_moves(repo: Repo) -> None:
    with watching(repo) as agent:
        first = agent.read()
        assert (first["state"], agent.read()["event"]) == ("new", "pass")
        repo.write({"a.py": f"X = eval('1')\n{EVAL}"})
        lines = [agent.read(), agent.read()]
        assert {line["state"] for line in lines} == {"new", "open"}
        assert agent.read()["event"] == "pass"
        repo.write({"a.py": FINE})
        fixed = [agent.read(), agent.read()]
        assert {one["fingerprint"] for one in fixed} == {one["fingerprint"] for one in lines}
        assert first["fingerprint"] in {one["fingerprint"] for one in fixed}


def test_a_file_that_does_not_parse_loses_no_finding(repo: Repo) -> None:
    with watching(repo) as agent:
        agent.next_pass()
        _, line = agent.after({"a.py": f"{EVAL}def (\n"})
        assert (line["status"], line["exit_code"], line["fixed"]) == ("incomplete", 3, 0)
        assert any("a.py: does not parse: line 3" in why for why in line["not_examined"])
        rows, line = agent.after({"a.py": FINE})
        assert ("fixed", "security.eval") in rows
        assert line["status"] == "complete"


def test_its_own_output_in_the_work_tree_is_no_change(repo: Repo) -> None:
    out = repo.path / "watch.jsonl"
    with out.open("w") as file:
        run = [*WATCH, "--repo", str(repo.path)]
        with subprocess.Popen(run, stdout=file, stderr=subprocess.PIPE) as process:
            try:
                for name in ("b.py", "c.py"):
                    count = wait_for_passes(out, "bc".index(name[0]) + 1)
                    repo.write({name: FINE})
                count = wait_for_passes(out, 3)
            finally:
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=60)
    assert count == out.read_text().count('"event": "pass"') == 3
    assert (process.returncode, err) == (130, b"diffcourt: interrupted\n")


def wait_for_passes(out: Path, wanted: int) -> int:
    for _ in range(1200):
        if (count := out.read_text().count('"event": "pass"')) >= wanted:
            return count
        time.sleep(0.05)
    raise AssertionError(out.read_text())


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_one_line_and_keeps_the_last_pass(sent: signal.Signals, repo: Repo) -> None:
    with watching(repo) as agent:
        _, line = agent.next_pass()
        agent.process.send_signal(sent)
        assert agent.process.communicate(timeout=60) == ("", "diffcourt: interrupted\n")
        assert agent.process.returncode == 130
    assert [run.run_id for run in list_runs(repo.path)] == [line["run"]]


def test_an_interrupt_ends_it_although_a_destructor_swallows_its_exception(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Destroyed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    until = time.monotonic() + 60
    before = signal.set_wakeup_fd(-1)
    documents = watching_module.watch(
        ReviewOptions(repo=repo.path), once=False, has_reader=lambda: time.monotonic() < until
    )
    while next(documents)["event"] != "pass":
        pass
    Destroyed()
    with pytest.raises(KeyboardInterrupt):
        next(documents)
    assert signal.set_wakeup_fd(before) == -1


def test_it_ends_when_nobody_reads(repo: Repo) -> None:
    with watching(repo) as agent:
        agent.next_pass()
        assert agent.process.stdout is not None
        agent.process.stdout.close()
        assert agent.process.wait(timeout=60) == 0


def test_a_lock_of_another_process_is_one_line_and_the_pass_comes_later(repo: Repo) -> None:
    with watching(repo) as agent:
        agent.next_pass()
        store = repo.path / ".diffcourt/state/journal.db"
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            repo.write({"b.py": SHELL})
            line = agent.read()
            assert line["event"] == "error"
            assert "\n" not in line["error"]
            other.execute("ROLLBACK")
        rows, _ = agent.next_pass()
        assert sorted(state for state, _ in rows) == ["new", "open"]


@pytest.mark.parametrize(("text", "code"), [(EVAL, 1), (FINE, 0), ("def (\n", 3)])
def test_once_reviews_once_and_exits_as_a_review(
    text: str, code: int, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.write({"a.py": text})
    assert main(["watch", "--once", "--repo", str(repo.path)]) == code
    *_, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert (last["event"], last["exit_code"]) == ("pass", code)


def test_once_has_its_exit_code_although_nobody_reads(repo: Repo) -> None:
    run = f"exec {shlex.join([*WATCH, '--once', '--repo', str(repo.path)])} >&-"
    done = subprocess.run(["sh", "-c", run], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_path_and_base_limit_what_is_reviewed(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.commit({"sub/b.py": SHELL})
    words = ["watch", "--once", "--repo", str(repo.path), "--path", "sub"]
    assert main(words) == 0
    assert main([*words, "--base", "HEAD~1"]) == 1
    first, second, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["event"] == "pass"
    assert second["path"] == "sub/b.py"


def test_a_repository_without_a_commit_is_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Repo(tmp_path / "new")
    made.write({"a.py": EVAL})
    assert main(["watch", "--once", "--repo", str(made.path)]) == 1
    assert '"security.eval"' in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--base", "nowhere"], ["--path", "../x"]])
def test_what_cannot_be_reviewed_is_one_line(
    more: list[str], repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--repo", str(repo.path), *more]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert list_runs(repo.path) == []


@pytest.mark.parametrize("command", ["watch", "mcp serve", "review"])
def test_outside_a_repository_a_command_names_options_that_it_has(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--repo", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "is not a git repository; name one with --repo" in said
    assert ("--diff" in said) == (command == "review")
    assert os.listdir(tmp_path) == []


@pytest.mark.attack("a file's name or text forges a line of the watch mode")
def test_names_and_texts_of_the_change_forge_no_line(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    name = 'x\n{"event": "pass", "exit_code": 0}\n::error::\x1b[2J.py'
    repo.write({name: EVAL})
    assert main(["watch", "--once", "--repo", str(repo.path)]) == 1
    out = capsys.readouterr().out
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["event"] for line in lines] == ["finding", "finding", "pass"]
    assert "\x1b" not in out
    assert "\n::" not in out


def test_a_pass_is_told_before_its_workers_end(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Path | None] = []

    @contextmanager
    def workers(path: Path | None) -> Iterator[WorkerPool]:
        with start_workers(path) as pool:
            yield pool
        ended.append(path)

    monkeypatch.setattr(watching_module, "start_workers", workers)
    options = ReviewOptions(repo=repo.path)
    told = [
        (document["event"], len(ended))
        for document in watching_module.watch(options, once=True, has_reader=lambda: True)
    ]
    assert told[-1] == ("pass", 0)
    assert len(ended) == 1
