"""People and coding agents who change files of one work tree at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.apply_fixes import apply_fixes, choose_fixes
from orchestrator.app.memory.waiver_files import DISMISSAL_FILE, Reason, add_dismissal
from orchestrator.app.runs.rollback import roll_back
from orchestrator.app.runs.stored_runs import list_runs, load_verdict
from orchestrator.cli.main import main
from tests.review.review_kit import Repo, change

SHELL = "import os\n\n\ndef run(text):\n    os.system('ls ' + text)\n"
REVIEW = ["review", "--base", "HEAD~1", "--quiet", "--repo"]
IMPORTS = "import os\n" + "X = 1\n" * 9 + "import re\n" + "X = 2\n" * 9 + "import sys\n"

pytestmark = pytest.mark.attack("two programs that change one file of the work tree at once")


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    files = {f"part_{number}.py": SHELL for number in range(3)}
    repo = change(tmp_path_factory.mktemp("at_once"), {}, {**files, "a.py": IMPORTS})
    assert main([*REVIEW, str(repo.path)]) == 1
    return repo


def findings_in(repo: Path, path: str) -> list[str]:
    return [one.id for one in load_verdict(repo, "latest").findings if one.path.startswith(path)]


def at_once(names: Sequence[str], work: Callable[[str], object], patch: pytest.MonkeyPatch) -> None:
    """Do the work for each name in a thread of its own; all read a file before one writes it.

    Where a lock lets one in at a time, none waits for the others for long.
    """
    start, met, read = Barrier(len(names)), Barrier(len(names)), SafeDirectory.read

    def read_together(tree: SafeDirectory, path: str, max_bytes: int = -1) -> bytes:
        found = read(tree, path, max_bytes)
        with suppress(BrokenBarrierError):
            met.wait(0.3)
        return found

    def begin(name: str) -> None:
        start.wait(60)
        work(name)

    patch.setattr(SafeDirectory, "read", read_together)
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(begin, names))


def test_each_of_two_patches_of_one_file_is_applied(
    reviewed: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*REVIEW, str(reviewed.path)]) == 1  # patches of two runs
    names, runs = findings_in(reviewed.path, "a.py")[:2], list_runs(reviewed.path)
    chosen = {
        name: choose_fixes(reviewed.path, run.run_id, [name])
        for name, run in zip(names, runs, strict=True)
    }
    at_once(names, lambda name: apply_fixes(reviewed.path, chosen[name]), monkeypatch)
    assert (reviewed.path / "a.py").read_text().count("import") == 1


def test_a_rollback_keeps_what_another_writer_changes_meanwhile(reviewed: Repo) -> None:
    path = findings_in(reviewed.path, "a.py")[0]
    chosen = choose_fixes(reviewed.path, load_verdict(reviewed.path, "latest").run_id, [path])
    reviewed.write({"a.py": IMPORTS})
    call, run = apply_fixes(reviewed.path, chosen).call, chosen.verdict.run_id
    with ThreadPoolExecutor(1) as pool:
        with SafeDirectory(reviewed.path) as tree, tree.locked():
            done = pool.submit(roll_back, reviewed.path, run, call)
            with suppress(FutureTimeout):
                done.result(1)
            tree.write("a.py", b"import json\n", 0o644)
        assert [one.kept for one in done.result().values()] == [("a.py",)]
    assert (reviewed.path / "a.py").read_text() == "import json\n"


def test_each_of_several_dismissals_is_kept(
    reviewed: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, verdict = findings_in(reviewed.path, "part"), load_verdict(reviewed.path, "latest")

    def dismiss(name: str) -> None:
        add_dismissal(reviewed.path, verdict, name, Reason(why=f"It is {name}."))

    dismiss(names[0])
    at_once(names[1:], dismiss, monkeypatch)
    known = DISMISSAL_FILE.read((reviewed.path / DISMISSAL_FILE.name).read_bytes())
    assert {one.why for one in known} == {f"It is {name}." for name in names}
    assert len(names) == 3
