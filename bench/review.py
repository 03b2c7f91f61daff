"""How long a review takes, against the slowest single analyzer of the same run.

    python bench/review.py [--files 10 50 750]

Makes a repository with a change of that many files, reviews it, lets each analyzer look at the same
change alone, and prints the review's wall time over the slowest of them, the peak memory of all its
processes together, and the start-up of the command over that of a bare interpreter.

Alone means from nothing, as when somebody starts it by hand: a program with its own start, one of our
checks with the start of the process that it runs in. The interpreter and imports of the benchmark
itself are not counted. ``warm`` is the same with the checks' processes up and everything imported.
The reviews run without cached results, but for the last, which finds all of them.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
RUNS = 5
"""Of all that is compared; the least of them counts."""

MODULE = '''"""Module {n}."""

import json
from pathlib import Path


def load_{n}(path: str, *, strict: bool = {flag}) -> dict[str, object]:
    """Read a record."""
    text = Path(path).read_text()
    if strict and not text:
        raise ValueError(path)
    return json.loads(text)


class Store{n}:
    """Keeps records."""

    def __init__(self, root: str) -> None:
        self.root = root

    def get(self, name: str) -> dict[str, object]:
        """One record."""
        return load_{n}(self.root + "/" + name)
'''


def repository(folder: Path, files: int) -> Path:
    """A repository whose newest commit changes that many modules and a few other files."""
    repo = folder / "repo"
    (repo / "pkg").mkdir(parents=True)
    subprocess.run([*GIT, "init", "-q", str(repo)], check=True)
    for flag in ("True", "False"):
        for n in range(files):
            (repo / "pkg" / f"m{n}.py").write_text(MODULE.format(n=n, flag=flag) + "\nX = 1\n" * 20)
        (repo / "pkg/__init__.py").write_text("")
        (repo / "README.md").write_text(f"# A project\n\n[m](pkg/m0.py) {flag}\n")
        (repo / "run.sh").write_text(f"#!/bin/sh\nset -e\necho {flag}\n")
        subprocess.run([*GIT, "-C", str(repo), "add", "-A"], check=True)
        subprocess.run([*GIT, "-C", str(repo), "commit", "-q", "-m", flag], check=True)
    return repo


def timed(command: list[str], runs: int = 1) -> float:
    """The least wall time of some runs, in seconds."""
    found: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        found.append(time.perf_counter() - start)
    return min(found)


ALONE = """
import sys, time
from functools import partial
import anyio
from pathlib import Path
from diffchecks import PREFIX
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.engine.ports import CallContext
from orchestrator.code_review.change.change_construction import from_refs
from orchestrator.code_review.analyzers import check_data_files
from orchestrator.code_review.policy_loading import read_catalog
from orchestrator.code_review.policy_loading import load_rules
from orchestrator.code_review.review_workspace import open_review_workspace
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.code_review.tools.registry import ANALYZERS, make_tool
from orchestrator.code_review.review_workspace import IterationFocus
from orchestrator.sandbox.worker_pool import WorkerPool

async def main(repo):
    change = await from_refs(Path(repo), "HEAD~1", "HEAD")
    rules = load_rules([read_shipped_layer()])
    settings = read_catalog([read_shipped_layer()]).settings
    for name, declared in ANALYZERS.items():
        took = []
        for warm in (False, True):
            modules = ["diffchecks.worker_preload"] if warm else []
            async with (
                WorkerPool(2, prefix=PREFIX, modules=modules) as pool,
                open_review_workspace(change, rules, {}, cores=2) as workspace,
            ):
                if warm:
                    nothing = {"root": ".", "paths": []}
                    await pool.call("diffchecks.conflict_markers:run", nothing, seconds=30)
                data = check_data_files.write_all([read_shipped_layer()], workspace.root)
                inputs = ToolInputs(workspace, pool, settings, IterationFocus(), (), data)
                tool = make_tool(declared, inputs)
                start = time.perf_counter()
                await tool.run({}, CallContext("", "", 120))
                took.append(time.perf_counter() - start)
        print(f"{took[0]:.3f} {took[1]:.3f} {name}")

anyio.run(main, sys.argv[1])
"""


def alone(repo: Path) -> tuple[dict[str, float], dict[str, float]]:
    """The least wall time of each analyzer by itself, from nothing and warm, in seconds."""
    cold: dict[str, float] = {}
    warm: dict[str, float] = {}
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-c", ALONE, str(repo)], capture_output=True, text=True, check=True
        )
        for first, second, name in (line.split() for line in done.stdout.splitlines()):
            cold[name] = min(float(first), cold.get(name, math.inf))
            warm[name] = min(float(second), warm.get(name, math.inf))
    return cold, warm


def processes(root: int) -> list[int]:
    """A process and everything below it."""
    found = [root]
    for pid in found:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def proportional(pid: int) -> float:
    """A process's memory in MB, pages that several share counted once among them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measured(command: list[str]) -> tuple[float, float]:
    """Wall time in seconds, alone, and from a second run the peak memory in MB of all processes."""
    wall = timed(command, RUNS)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(map(proportional, processes(process.pid))))
        time.sleep(0.05)
    return wall, peak


HASH = """
import sys, tempfile, time
from pathlib import Path
import anyio
from orchestrator.code_review.change.change_construction import from_worktree

async def main():
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        await from_worktree(Path(sys.argv[1]), None, Path(scratch))
        print(time.perf_counter() - start)

anyio.run(main)
"""


def hashed(repo: Path, index: Path) -> tuple[float, float]:
    """The least time of finding that a work tree is unchanged, and of git's with a new index."""
    ours, plain = math.inf, math.inf
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-c", HASH, str(repo)], capture_output=True, text=True, check=True
        )
        ours = min(ours, float(done.stdout))
        env = {**os.environ, "GIT_INDEX_FILE": str(index)}
        start = time.perf_counter()
        for command in (["read-tree", "HEAD"], ["update-index", "--refresh"]):
            subprocess.run(["git", "-C", str(repo), *command], env=env, check=True)
        plain = min(plain, time.perf_counter() - start)
        index.unlink()
    return ours, plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[10, 50, 750])
    args = parser.parse_args()
    bare = timed([sys.executable, "-c", "pass"], 7)
    version = timed([str(Path(sys.executable).parent / "diffcourt"), "--version"], 7)
    print(f"start-up: diffcourt --version / bare interpreter = {version / bare:.2f}")
    with tempfile.TemporaryDirectory() as scratch:
        ours, plain = hashed(repository(Path(scratch), 2000), Path(scratch, "index"))
    print(f"2000 files of a work tree hashed: {ours:.2f} s, by git {plain:.2f} s")
    for files in args.files:
        with tempfile.TemporaryDirectory() as scratch:
            repo = repository(Path(scratch), files)
            os.environ["XDG_CACHE_HOME"] = scratch
            command = [sys.executable, "-m", "orchestrator", "review", "--quiet"]
            command += ["--repo", str(repo), "--base", "HEAD~1"]
            wall, peak = measured([*command, "--no-cache"])
            timed(command)  # what it keeps is what the next two find
            again = timed(command, 2)
            cold, hot = alone(repo)
        slowest, name = max((seconds, name) for name, seconds in cold.items())
        warm, warm_name = max((seconds, name) for name, seconds in hot.items())
        print(
            f"{files:4} files: review {wall:.2f} s, slowest alone {slowest:.2f} s ({name}), "
            f"review / (1.5 x slowest + 0.5 s) = {wall / (1.5 * slowest + 0.5):.2f}\n"
            f"            slowest warm {warm:.2f} s ({warm_name}), ratio "
            f"{wall / (1.5 * warm + 0.5):.2f}; again with cached results {again / wall:.2f} of it; "
            f"peak {peak:.0f} MB on {os.cpu_count()} cores"
        )
        if os.environ.get("VERBOSE"):
            for name in cold:
                print(f"{cold[name]:.3f} {hot[name]:.3f} {name}")


if __name__ == "__main__":
    main()
