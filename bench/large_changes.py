"""How the cost of an offline review grows with the size of the change.

    python -m bench.large_changes [--files 375 750 1500 3000] [--only-pushes]

Makes a repository of modules that import each other, scripts, tests and documents, and a commit that
changes all of them; every fiftieth module gets a defect. Reviews it without cached results, and
prints wall time, the peak memory of all processes together, and the time of each file over that of
a file in the smallest change: 1.0 in all rows is linear. The last lines are the same as a plot, and
the exponent of the growth. Each review must be complete and find every defect.

Then pushes: in a repository of the largest size, each of them edits one function of one file more
after a first push, whose review has filled the cache. Printed is the time of the second review over
that of a first review in a repository of three files, which is what starting takes.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench.review import GIT, processes, proportional

IMPORTS = 3
"""Modules that each module imports."""

DEFECT_EVERY = 50

SCRIPT = """export function total{n}(items) {{
  let sum = {start};
  for (const item of items) {{
    sum += item.price * item.count;
  }}
  return sum;
}}
"""
TEST = """from pkg{folder}.m{n} import Store{n}


def test_a_store_keeps_what_it_is_given() -> None:
    store = Store{n}({{}})
    store.put("a", {start})
    assert store.get("a") == {start}
"""
GUIDE = "# Module {n}\n\nIt keeps numbers. See [the module](../pkg{folder}/m{n}.py).\n\nVersion {start}.\n"
FOLDER = 100
"""Modules in one package."""


def module(n: int, count: int, start: int, *, defect: bool) -> str:
    """A module of some eighty lines."""
    others = sorted({(n * 7 + step) % count for step in range(1, IMPORTS + 1)} - {n})
    lines = [f'"""Module {n}."""', "", "import os", ""]
    lines += [f"import pkg{other // FOLDER}.m{other} as m{other}" for other in others]
    lines += ["", "", f"class Store{n}:", '    """Keeps numbers."""', ""]
    lines += [
        "    def __init__(self, known: dict[str, int]) -> None:",
        "        self._known = known",
    ]
    for name in ("put", "raise_to", "lower_to"):
        lines += ["", f"    def {name}(self, key: str, value: int) -> None:"]
        lines += [f'        """Store a number ({name})."""']
        lines += [f"        limit = len(m{other}.__name__) + {start}" for other in others[:1]]
        lines += ["        if value > limit:", "            value = limit"]
        lines += ["        self._known[key] = value"]
    lines += ["", "    def get(self, key: str) -> int:", '        """The number of a key."""']
    lines += [f"        return self._known.get(key, {start})", "", ""]
    lines += ["def size(path: str) -> int:", '    """Bytes of a file."""']
    lines += ['    os.system("stat " + path)'] if defect else []
    lines += ["    return os.stat(path).st_size"]
    return "\n".join([*lines, ""])


def files_of(count: int, start: int) -> dict[str, str]:
    """Path → text: two thirds are modules, the others scripts, tests and documents of them."""
    modules = count * 2 // 3
    found = {}
    for n in range(modules):
        defect = start > 0 and n % DEFECT_EVERY == 0
        found[f"pkg{n // FOLDER}/m{n}.py"] = module(n, modules, start, defect=defect)
    for n in range(count - modules):
        folder = n // FOLDER
        kind = n % 3
        if kind == 0:
            found[f"web/total{n}.js"] = SCRIPT.format(n=n, start=start)
        elif kind == 1:
            found[f"tests/test_m{n}.py"] = TEST.format(n=n, folder=folder, start=start)
        else:
            found[f"docs/m{n}.md"] = GUIDE.format(n=n, folder=folder, start=start)
    return found


def repository(folder: Path, count: int) -> Path:
    """A repository whose newest commit changes that many files."""
    repo = folder / "repo"
    repo.mkdir()
    subprocess.run([*GIT, "init", "-q", str(repo)], check=True)
    for start in (0, 1):
        for path, text in files_of(count, start).items():
            (repo / path).parent.mkdir(parents=True, exist_ok=True)
            (repo / path).write_text(text)
        subprocess.run([*GIT, "-C", str(repo), "add", "-A"], check=True)
        subprocess.run([*GIT, "-C", str(repo), "commit", "-q", "-m", f"Set {start}"], check=True)
    return repo


def reviewed(repo: Path, count: int) -> tuple[float, float]:
    """Wall time in seconds and peak memory in MB of a review that must find all defects."""
    out = repo.parent / "verdict.json"
    command = [sys.executable, "-m", "orchestrator", "review", "--quiet", "--no-cache"]
    command += ["--repo", str(repo), "--base", "HEAD~1", "--json", str(out)]
    began, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(map(proportional, processes(process.pid))))
        time.sleep(0.2)
    seconds = time.perf_counter() - began
    verdict = json.loads(out.read_text())
    found = {f["path"] for f in verdict["findings"] if f["rule"] == "security.subprocess-shell"}
    wanted = -(-(count * 2 // 3) // DEFECT_EVERY)
    if verdict["status"] != "complete" or len(found) != wanted:
        gaps = [entry for entry in verdict["skipped"] if entry["gap"]]
        sys.exit(f"{count} files: {verdict['status']}, {len(found)} of {wanted} found, {gaps[:3]}")
    return seconds, peak


PUSHES = 5
"""Second pushes, and first reviews of a tiny repository; the least of each counts."""


def commit_edit(repo: Path, path: str) -> None:
    """A commit that edits one function of one module."""
    text = (repo / path).read_text()
    (repo / path).write_text(text.replace("value = limit", "value = min(limit, value)", 1))
    subprocess.run([*GIT, "-C", str(repo), "commit", "-qam", f"Edit {path}"], check=True)


def review_seconds(repo: Path) -> float:
    """Wall time of a review of what follows the tag ``release``."""
    command = [sys.executable, "-m", "orchestrator", "review", "--quiet", "--repo", str(repo)]
    began = time.perf_counter()
    done = subprocess.run([*command, "--base", "release"], capture_output=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode not in {0, 1}:
        sys.exit(f"a review ended with {done.returncode}: {done.stderr.decode()}")
    return seconds


def least_of_pushes(count: int, *, again: bool) -> float:
    """The least time of reviews in a repository of so many files: first ones, or after a push."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = os.environ["XDG_STATE_HOME"] = scratch
        repo = repository(Path(scratch), count)
        git = [*GIT, "-C", str(repo)]
        subprocess.run([*git, "tag", "release"], check=True)
        if again:
            commit_edit(repo, "pkg0/m0.py")
            review_seconds(repo)
        subprocess.run([*git, "tag", "pushed"], check=True)
        modules = count * 2 // 3
        for push in range(1, PUSHES + 1):
            subprocess.run([*git, "reset", "-q", "--hard", "pushed"], check=True)
            n = push * modules // (PUSHES + 1) if again else push % modules
            commit_edit(repo, f"pkg{n // FOLDER}/m{n}.py")
            if not again:
                os.environ["XDG_CACHE_HOME"] = str(Path(scratch, str(push)))
            found.append(review_seconds(repo))
    return min(found)


def compare_pushes(count: int) -> None:
    """Print what a second review of a large repository takes over a first one of a tiny one."""
    tiny = least_of_pushes(3, again=False)
    large = least_of_pushes(count, again=True)
    print(
        f"\none file pushed in {count} files: {large:.2f} s, a first review of 3 files "
        f"{tiny:.2f} s, ratio {large / tiny:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", default=[375, 750, 1500, 3000])
    parser.add_argument("--only-pushes", action="store_true", help="one file in a large repository")
    args = parser.parse_args()
    sizes = sorted(args.files)
    if args.only_pushes:
        compare_pushes(sizes[-1])
        return
    seconds: list[float] = []
    for count in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["XDG_CACHE_HOME"] = os.environ["XDG_STATE_HOME"] = scratch
            wall, peak = reviewed(repository(Path(scratch), count), count)
        seconds.append(wall)
        each = wall / count / (seconds[0] / sizes[0])
        print(f"{count:5} files: {wall:6.1f} s, {peak:5.0f} MB, each file {each:.2f}", flush=True)
    print("\nseconds")
    for count, wall in zip(sizes, seconds, strict=True):
        print(f"{count:5} |{'#' * round(60 * wall / max(seconds))} {wall:.1f}")
    steps = list(zip(pairwise(sizes), pairwise(seconds), strict=True))
    for (few, many), (short, long) in steps:
        growth = math.log(long / short) / math.log(many / few)
        print(f"{few} to {many} files: time grows with the power {growth:.2f} of the size")
    compare_pushes(sizes[-1])


if __name__ == "__main__":
    main()
