"""How quiet is the review? Releases of well-known packages, diffed one against the next.

Downloads source distributions with pip at run time, commits one release on top of the other, reviews
the change offline, and prints the verdict per pair and how often each rule fired.

    python bench/noise.py [--show RULE] [--kind wheel] [--folder DIR] [name==old..new ...]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from orchestrator import app
from orchestrator.app.types import ReviewOptions
from orchestrator.engine.events import ignore
from orchestrator.errors import DiffcourtError
from orchestrator.review.verdict import Verdict

PAIRS = (
    "requests==2.31.0..2.32.0",
    "flask==3.0.3..3.1.0",
    "httpx==0.27.2..0.28.0",
    "attrs==23.2.0..24.2.0",
    "click==8.1.7..8.1.8",
    "rich==13.8.1..13.9.0",
    "anyio==4.4.0..4.5.0",
    "tenacity==8.5.0..9.0.0",
    "jinja2==3.1.4..3.1.5",
    "werkzeug==3.0.6..3.1.0",
    "packaging==24.1..24.2",
    "starlette==0.40.0..0.41.0",
    "urllib3==2.2.2..2.2.3",
    "pydantic==2.9.2..2.10.0",
)
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")


def fetch(name: str, version: str, folder: Path, kind: str) -> Path:
    """The unpacked distribution of a release: ``sdist`` (with tests and docs), or ``wheel``."""
    place = folder / kind / f"{name}-{version}"
    if not place.exists():
        place.mkdir(parents=True)
        which = "--no-binary" if kind == "sdist" else "--only-binary"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", which, ":all:"]
        subprocess.run([*command, "-d", str(place), f"{name}=={version}"], check=True)
        archive = next(file for file in place.iterdir() if file.suffix in {".gz", ".whl"})
        shutil.unpack_archive(archive, place / "tree", "gztar" if kind == "sdist" else "zip")
    tree = place / "tree"
    inside = list(tree.iterdir())
    return inside[0] if kind == "sdist" else tree


def repository(old: Path, new: Path, folder: Path) -> Path:
    """A repository with one release committed on top of the other."""
    repo = folder / "repo"
    repo.mkdir()
    subprocess.run([*GIT, "init", "-q", str(repo)], check=True)
    for tree in (old, new):
        git = [*GIT, "-C", str(repo), f"--work-tree={tree}"]
        subprocess.run([*git, "add", "-A", "-f"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "release"], check=True)
    return repo


def review(repo: Path) -> Verdict:
    """Review the newest commit, offline."""
    options = ReviewOptions(
        repo=repo, base="HEAD~1", head="HEAD", worktree=False, diff=None, diff_name="",
        provider=None, pattern=None, max_iterations=None, max_tool_calls=None, max_minutes=None,
        max_usd=None,
    )  # fmt: skip
    return app.review(options, ignore)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="*", default=PAIRS)
    parser.add_argument("--show", default="", help="print the findings of rules that start so")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "noise")
    parser.add_argument("--kind", choices=("sdist", "wheel"), default="sdist")
    args = parser.parse_args()
    fired: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    lines = 0
    for pair in args.pairs:
        name, _, versions = pair.partition("==")
        old, new = (fetch(name, v, args.folder, args.kind) for v in versions.split(".."))
        with tempfile.TemporaryDirectory() as scratch:
            repo = repository(old, new, Path(scratch))
            start = time.perf_counter()
            try:
                verdict = review(repo)
            except DiffcourtError as fault:
                print(f"{pair:36} FAILED {fault}")
                continue
            seconds = time.perf_counter() - start
        report(pair, verdict, seconds, args.show)
        fired.update(finding.rule for finding in verdict.findings)
        verdicts[f"{verdict.verdict}/{verdict.status}"] += 1
        lines += verdict.change.added_lines
    print(f"\n{lines} added lines; verdicts {dict(verdicts)}; findings by rule:")
    for rule, count in fired.most_common():
        print(f"{count:6}  {rule}")


def report(pair: str, verdict: Verdict, seconds: float, show: str) -> None:
    """One line for a pair, and the findings that were asked for."""
    named = {c.path for c in verdict.checked} | {s.path for s in verdict.skipped}
    lost = verdict.change.files - len(named - {"*"})
    counts = Counter(finding.severity for finding in verdict.findings)
    gaps = [skip for skip in verdict.skipped if skip.gap]
    print(
        f"{pair:36} {seconds:6.1f} s  {verdict.change.files:4} files  {verdict.verdict:13} "
        f"{verdict.status:10} {dict(counts)} gaps {len(gaps)} lost {lost}"
    )
    for gap in gaps[:3]:
        print(f"      gap {gap.tool} {gap.path}: {gap.why[:110]}")
    for finding in verdict.findings:
        if show and finding.rule.startswith(show):
            print(f"      {finding.rule} {finding.severity} {finding.path}:{finding.start_line}")
            print(
                f"        {finding.detail.splitlines()[0][:110]}\n        | {finding.evidence.quote[:110]}"
            )


if __name__ == "__main__":
    main()
