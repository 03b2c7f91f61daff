"""Is an offline review fair on everyday history? The last commits of repositories, one by one.

Reviews each of the newest commits against its first parent, offline, and prints per repository how
many reviews are incomplete and how many findings at medium or above there are per commit, with
the reasons and the findings for a person to judge. ``--span 10`` reviews ten commits as one change;
``pairs`` counts a rule at medium or above once in each.

    python bench/history.py [--commits N] [--span N] [--skip N] REPOSITORY ...

A repository is any clone, bare or not; its files are not touched.
"""

import argparse
import subprocess
import time
from collections import Counter
from pathlib import Path
from statistics import median

from msgspec import Struct, field

from orchestrator.app.run_review import run_review
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import DiffcourtError

GRAVE = ("critical", "high", "medium")


class Row(Struct):
    """What the reviews of one repository gave."""

    name: str
    commits: int = 0
    incomplete: int = 0
    pairs: int = 0
    severities: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        grave = sum(self.severities[each] for each in GRAVE)
        counts = "/".join(str(self.severities[each]) for each in (*GRAVE, "low", "info"))
        share = self.incomplete / self.commits if self.commits else 0
        each = grave / self.commits if self.commits else 0
        return (
            f"{self.name[:34]:34} {self.commits:7} {self.incomplete:4} ({share:5.1%})"
            f" {counts:>16} {self.pairs:5} {each:9.2f} {median(self.seconds or [0]):6.1f}"
        )


def list_changes(repository: Path, count: int, span: int, skip: int) -> list[tuple[str, str]]:
    """Base and head of the newest changes, on the way of first parents."""
    log = ["git", "-C", str(repository), "log", "--first-parent", "--format=%H"]
    most = f"-{count * span + skip + 1}"
    text = subprocess.run([*log, most], check=True, capture_output=True, text=True)
    ends = text.stdout.split()[skip::span]
    return list(zip(ends[1:], ends, strict=False))


def review(repository: Path, base: str, head: str) -> Verdict:
    """Review one change, offline."""
    options = ReviewOptions(
        repo=repository, base=base, head=head, worktree=False, diff=None, diff_name="",
        provider=None, pattern=None, max_iterations=None, max_tool_calls=None, max_minutes=None,
        max_usd=None,
    )  # fmt: skip
    return run_review(options, ignore_event)


def judge(row: Row, commit: str, verdict: Verdict, seconds: float) -> None:
    """Count one review, and print what somebody would have to look at."""
    row.commits += 1
    row.seconds.append(seconds)
    row.pairs += len({one.rule for one in verdict.findings if one.severity in GRAVE})
    row.severities.update(finding.severity for finding in verdict.findings)
    gaps = [skip for skip in verdict.skipped if skip.gap]
    if verdict.status != "complete":
        row.incomplete += 1
        for why in [f"{gap.path}: {gap.why}" for gap in gaps] or ["no gap is named"]:
            print(f"  {row.name} {commit[:10]} incomplete: {why}")
    for finding in verdict.findings:
        if finding.severity in GRAVE:
            place = f"{finding.path}:{finding.start_line}"
            rule = f"{finding.severity} {finding.rule}"
            print(f"  {row.name} {commit[:10]} {rule} {place} {finding.title[:90]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--commits", type=int, default=20, help="changes of each repository")
    parser.add_argument("--span", type=int, default=1, help="commits of a change")
    parser.add_argument("--skip", type=int, default=0, help="the newest ones to leave out")
    args = parser.parse_args()
    rows = []
    for repository in args.repositories:
        place = repository.resolve()
        name = place.parent.name if place.name == "repo" else place.name
        row = Row(name)
        for base, commit in list_changes(place, args.commits, args.span, args.skip):
            start = time.monotonic()
            try:
                verdict = review(place, base, commit)
            except DiffcourtError as error:
                print(f"  {row.name} {commit[:10]} failed: {error}")
                continue
            judge(row, commit, verdict, time.monotonic() - start)
        rows.append(row)
        print(row, flush=True)
    total = Row("all")
    for row in rows:
        total.commits += row.commits
        total.incomplete += row.incomplete
        total.pairs += row.pairs
        total.severities.update(row.severities)
        total.seconds += row.seconds
    head = f"{'repository':34} changes incomplete  crit/hi/med/lo/i pairs  >=med per change  s"
    print("", head, *rows, total, sep="\n")


if __name__ == "__main__":
    main()
