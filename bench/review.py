"""How long a review takes, against the slowest single analyser of the same run.

    python bench/review.py [--files 10 50 750]

Makes a repository with a change of that many files, reviews it, reads from the journal how long each
analyser took when it last ran alone, and prints the review's wall time over the slowest of them, the
peak memory, and the start-up of the command over that of a bare interpreter.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
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
from orchestrator.catalog.source import shipped
from orchestrator.engine.ports import CallContext
from orchestrator.review.change.intake import from_refs
from orchestrator.review.rules import load_rules
from orchestrator.review.session import open_session
from orchestrator.review.toolbox import ANALYSERS, Ground, _analyser
from orchestrator.review.tools.planning import Focus
from orchestrator.sandbox.worker import WorkerPool

async def main(repo):
    change = await from_refs(Path(repo), "HEAD~1", "HEAD")
    rules = load_rules([shipped()])
    for name, entry in ANALYSERS.items():
        async with WorkerPool(2) as pool, open_session(change, rules, {}, cores=2) as session:
            await pool.warm()
            await anyio.sleep(0.3)
            tool = _analyser(name, entry, Ground(session, pool, (), Focus(), ()))
            start = time.perf_counter()
            await tool.run({}, CallContext("", "", 120))
            print(f"{time.perf_counter() - start:.3f} {name}")

anyio.run(main, sys.argv[1])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[10, 50, 750])
    args = parser.parse_args()
    bare = timed([sys.executable, "-c", "pass"], 7)
    version = timed([str(Path(sys.executable).parent / "diffcourt"), "--version"], 7)
    print(f"start-up: diffcourt --version / bare interpreter = {version / bare:.2f}")
    for files in args.files:
        with tempfile.TemporaryDirectory() as scratch:
            repo = repository(Path(scratch), files)
            wall = timed(
                [
                    sys.executable,
                    "-m",
                    "orchestrator",
                    "review",
                    "--repo",
                    str(repo),
                    "--base",
                    "HEAD~1",
                ]
            )
            alone = subprocess.run(
                [sys.executable, "-c", ALONE, str(repo)], capture_output=True, text=True, check=True
            )
        slowest, name = max(
            (float(line.split()[0]), line.split()[1]) for line in alone.stdout.splitlines()
        )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        bound = 1.5 * slowest + 0.5
        print(
            f"{files:4} files: review {wall:.2f} s, slowest alone {slowest:.2f} s ({name}), "
            f"review / (1.5 x slowest + 0.5 s) = {wall / bound:.2f}, largest process {peak:.0f} MB "
            f"on {os.cpu_count()} cores"
        )
        if os.environ.get("VERBOSE"):
            print(alone.stdout)


if __name__ == "__main__":
    main()
