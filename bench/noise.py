"""How quiet is the review? Releases of well-known packages, diffed one against the next.

Downloads releases at run time (pip, and npm where it is installed), commits one on top of the
other, reviews the change offline, and prints the verdict per pair, how often each rule fired, how many
comments `diffcourt post` would write at lines, and a sample of findings for a person to judge.

    python bench/noise.py [--show RULE] [--sample N] [--kind wheel] [--folder DIR] [PAIR ...]

A pair is name==old..new, npm:name==old..new, or for other languages git:FOLDER==old..new: two tags
of a clone that is there already.
"""

import argparse
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from orchestrator.app.run_review import run_review
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import DiffcourtError
from orchestrator.posting.forge import Posted, PullRequest
from orchestrator.posting.posting_plan import GRAVE_ENOUGH, plan_posting

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
    "npm:express==4.21.0..4.21.2",
    "npm:axios==1.7.2..1.7.4",
    "npm:commander==11.1.0..12.0.0",
    "npm:ws==8.16.0..8.17.1",
    "npm:semver==7.5.4..7.6.0",
    "npm:undici==6.18.0..6.19.0",
    "npm:koa==2.15.0..2.15.3",
    "npm:winston==3.11.0..3.13.0",
    "marshmallow==3.21.0..3.22.0",
    "typer==0.12.0..0.12.5",
    "uvicorn==0.29.0..0.30.0",
    "markdown==3.6..3.7",
    "paramiko==3.4.0..3.5.0",
    "sqlparse==0.5.0..0.5.1",
)
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")


def fetch(name: str, version: str, folder: Path, kind: str) -> Path:
    """The unpacked release: of Python ``sdist`` (with tests and docs), or ``wheel``."""
    source, _, package = name.rpartition(":")
    place = folder / kind / f"{name}-{version}".replace("/", "-").replace(":", "-")
    if not (place / "tree").exists():
        shutil.rmtree(place, ignore_errors=True)  # what an earlier call did not finish
        place.mkdir(parents=True)
        if source == "git":
            clone = Path(package).absolute()
            command = ["git", "-C", str(clone), "archive", f"--output={place}/release.tgz", version]
        elif source == "npm":
            command = ["npm", "pack", "--silent", f"{package}@{version}"]
        else:
            which = "--no-binary" if kind == "sdist" else "--only-binary"
            command = ["pip", "download", "--quiet", "--no-deps", which, name, f"{name}=={version}"]
        subprocess.run(command, check=True, cwd=place, stdout=subprocess.DEVNULL)
        endings = {".gz": "gztar", ".tgz": "gztar", ".whl": "zip"}
        archive = next(file for file in place.iterdir() if file.suffix in endings)
        shutil.unpack_archive(archive, place / "tree", endings[archive.suffix])
    tree = place / "tree"
    inside = list(tree.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else tree


def repository(old: Path, new: Path, folder: Path) -> Path:
    """A repository with one release committed on top of the other."""
    repo = folder / "repo"
    repo.mkdir()
    subprocess.run([*GIT, "init", "-q", str(repo)], check=True)
    for tree in (old, new):
        git = [*GIT, "-C", str(repo), f"--work-tree={tree}"]
        subprocess.run([*git, "add", "-A", "-f"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "release"], check=True)
    return repo


def review(repo: Path) -> Verdict:
    """Review the newest commit, offline."""
    options = ReviewOptions(
        repo=repo, base="HEAD~1", head="HEAD", worktree=False, diff=None, diff_name="",
        provider=None, pattern=None, max_iterations=None, max_tool_calls=None, max_minutes=None,
        max_usd=None,
    )  # fmt: skip
    return run_review(options, ignore_event)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="*", default=PAIRS)
    parser.add_argument("--show", default="", help="print findings of rules that start so, or all")
    parser.add_argument("--sample", type=int, default=0, help="print that many, drawn at random")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "noise")
    parser.add_argument("--kind", choices=("sdist", "wheel"), default="sdist")
    args = parser.parse_args()
    fired: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    shown: list[tuple[str, Finding]] = []
    lines, comments, grave, reviewed = 0, 0, 0, 0
    for pair in args.pairs:
        name, _, versions = pair.partition("==")
        try:
            old, new = (fetch(name, v, args.folder, args.kind) for v in versions.split(".."))
        except (OSError, subprocess.CalledProcessError) as fault:
            print(f"{pair:36} could not be fetched: {type(fault).__name__}")
            continue
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
        shown += [(pair, finding) for finding in verdict.findings]
        fired.update(finding.rule for finding in verdict.findings)
        verdicts[f"{verdict.verdict}/{verdict.status}"] += 1
        lines += verdict.change.added_lines
        reviewed += 1
        comments += count_comments(verdict)
        grave += sum(finding.severity in GRAVE_ENOUGH for finding in verdict.findings)
    print(f"\n{lines} added lines; verdicts {dict(verdicts)}; findings by rule:")
    if reviewed:
        each = f"{comments / reviewed:.2f} comments at lines, {grave / reviewed:.2f} findings"
        print(f"{each} at or above medium for each of {reviewed} changes")
    for rule, count in fired.most_common():
        print(f"{count:6}  {rule}")
    for pair, finding in random.Random(0).sample(shown, min(args.sample, len(shown))):
        print(f"\n{pair}")
        tell(finding)


def count_comments(verdict: Verdict) -> int:
    """Comments at lines that a first posting of the verdict would write."""
    lines: dict[str, frozenset[int]] = {}
    for finding in verdict.findings:  # all of them are at lines that the diff shows
        shown = range(finding.start_line, finding.end_line + 1)
        lines[finding.path] = lines.get(finding.path, frozenset()).union(shown)
    request = PullRequest(verdict.change.head, True, lines)
    return len(plan_posting(verdict, request, Posted()).comments)


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
        if show == "all" or (show and finding.rule.startswith(show)):
            tell(finding)


def tell(finding: Finding) -> None:
    """One finding in three lines."""
    print(f"      {finding.rule} {finding.severity} {finding.path}:{finding.start_line}")
    print(f"        {finding.detail.splitlines()[0][:160]}")
    print(f"        | {finding.evidence.quote[:160]}")


if __name__ == "__main__":
    main()
