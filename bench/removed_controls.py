"""Does the review notice a security fix that is taken back?

Takes security fixes and ordinary commits from git repositories that are there already, and compares
with `removed_controls` each fix taken back (its head as base), the fix itself, and the ordinary
commits. The projects are split: rules are written while looking at some, measured on the others.

    python bench/removed_controls.py [--show] [--each N] [--ordinary N] FOLDER ...

A FOLDER is a git directory. A fix is a commit without merge that names a CVE or an advisory, or
says in its subject that it mends a security defect, and changes at most 8 files and 250 lines of
code that is neither test nor sample. An ordinary commit changes such code and mentions no security.

Measured on projects that nobody looked at while the rules were written (at most 12 fixes and 30
ordinary commits of each; goals: 40%, 5%, 1%), with the rules as they were before and are now:

    projects               fixes taken back   fixes            ordinary commits
    46 mostly in Python    25.6 to 32.2%      2.3 to 3.7%      1.4% of 1350 to 1.3% of 450
    27 in other languages  14.2 to 18.0%      0.5 to 1.4%      0.6 to 1.1% of 810

There were 301 and 211 fixes. Of those in the projects that were looked at, 36.8 to 49.4% of 253 and
16.2 to 25.5% of 278 are noticed when taken back. Nobody read the selection: some of what it calls a
fix adds a feature, corrects a comment or mends a pattern that takes too long, which another
analyzer judges.

Measured again for the rules about what a function loses without anything new in its place, on a new
split of projects, of which earlier authors may have seen some (at most 12 fixes, 15 and 20 ordinary
commits of each; totals only were read, twice):

    projects               fixes taken back        fixes         ordinary commits
    41 mostly in Python    34.9 to 36.4% of 275    2.2 to 2.5%   1.5 to 1.6% of 615
    28 in other languages  35.2 to 35.2% of 179    1.7 to 1.1%   1.1 to 0.9% of 560

What is missed, as a share of all fixes in the projects that were looked at (359 and 454), told apart
by syntax alone, not read one by one:

    Python   others
    12.0%    15.0%   the function gets new names: the fix is replaced, not only taken out
    11.4%    17.0%   a call goes whose name tells no check
     6.7%    14.3%   what goes is written again with the same words, or a value in it differs
     6.1%     6.8%   no condition, call or setting goes: markup, patterns, versions
     4.7%     6.8%   a condition with what was done under it, or of a value
     4.7%     3.7%   a setting or an entry of a list
     7.5%     7.3%   an argument, a guard clause, or whole functions

There, 2.5 and 3.6% of ordinary commits take out a condition, and 9.8 and 11.4% a call, in a function
that gets no new name: those kinds cannot be told from a fix by syntax alone.
"""

import argparse
import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from orchestrator.checks import removed_controls
from orchestrator.checks.path_kinds import path_kinds

ADVISORY = re.compile(r"CVE-\d{4}-\d+|GHSA-\w{4}-")
SECURITY = re.compile(r"(?i)secure|security|vulnerab|\bXSS\b|injection|traversal|\bcve")
DEFECT = re.compile(
    r"(?i)vulnerab|\b(?:XSS|CSRF|XXE|SSRF|re?dos)\b|traversal|open redirect|denial of service"
    r"|(?:sql|command|code|header|html|shell|template) injection"
    r"|security[ -](?:fix|issue|bug|hole|flaw|problem|hotfix|patch)"
)
CANDIDATE = (  # what git looks for in a message, as the two above in its own syntax, or more
    r"CVE-[0-9]|GHSA-|vulnerab|XSS|CSRF|XXE|SSRF|dos\b|traversal|open redirect|denial of service"
    r"|injection|security[ -]"
)
MENDS = re.compile(
    r"(?i)fix|prevent|protect|disallow|block|reject|validat|saniti|escap|restrict|enforc|avoid"
    r"|address|resolve|mitigat|harden|limit|forbid|prohibit|guard|ensure|check|require"
)
OTHER = re.compile(
    r"(?i)^(?:merge|revert|bump|update|upgrade|release|changelog|docs?\b|version|ci\b)"
)
CODE = re.compile(r".*\.(?:py|js|jsx|mjs|cjs|ts|tsx|go|java|rb|php)")
NEITHER = {"tests", "samples", "documents", "ci", "tooling", "vendored", "generated"}
MOST_FILES, MOST_LINES = 8, 250  # of code, in a fix
HUNK = re.compile(r"(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class Commit(NamedTuple):
    """One commit of a repository, and the files of code that it changes."""

    repo: Path
    name: str
    subject: str
    files: tuple[str, ...]
    adds: bool


def git(repo: Path, *arguments: str, check: bool = True) -> bytes:
    command = ["git", "-C", str(repo), *arguments]
    return subprocess.run(command, capture_output=True, check=check).stdout


def is_code(path: str) -> bool:
    return bool(CODE.fullmatch(path)) and path_kinds(path).isdisjoint(NEITHER)


def fixes(repo: Path) -> Iterator[Commit]:
    """Every fix on any branch, newest first and each once."""
    seen: set[str] = set()
    # A branch of a snapshot can lead to what the snapshot does not hold; the others are read.
    for commit, text, lines in read_log(repo, "--all", "-i", "-E", f"--grep={CANDIDATE}"):
        published = ADVISORY.search(text) or (
            DEFECT.search(commit.subject) and MENDS.search(commit.subject)
        )
        key = re.sub(r"\[.*?\]|\(.*?\)|[^a-z]", "", commit.subject.lower())
        if not published or OTHER.match(commit.subject) or key in seen:
            continue
        if len(commit.files) <= MOST_FILES and lines <= MOST_LINES and commit.adds:
            seen.add(key)
            yield commit


def ordinary_commits(repo: Path, wanted: int) -> Iterator[Commit]:
    """So many commits of the checked out branch, chosen at random, that mention no security."""
    names = git(repo, "rev-list", "--no-merges", "HEAD", check=False).decode().split()
    random.Random(0).shuffle(names)
    for start in range(0, len(names), wanted):
        for commit, text, _ in read_log(repo, "--no-walk", *names[start : start + wanted]):
            if wanted and not SECURITY.search(text) and len(commit.files) <= 40:
                wanted -= 1
                yield commit


def read_log(repo: Path, *arguments: str) -> Iterator[tuple[Commit, str, int]]:
    """Commits that change code, each with its message and how many lines of code it changes."""
    asked = ["--no-merges", "--format=%x01%H%x02%P%x02%s%x02%B%x02", "--numstat"]
    log = git(repo, "log", *asked, *arguments, check=False)
    for record in log.decode("utf-8", "replace").split("\x01")[1:]:
        parts = record.split("\x02")
        if len(parts) != 5 or not parts[1]:  # the first commit has nothing to compare with
            continue
        name, _, subject, text, stat = parts
        rows = [row.split("\t") for row in stat.strip().splitlines() if row.count("\t") == 2]
        code = [row for row in rows if is_code(row[2]) and row[0] != "-"]
        if not code or any("=>" in row[2] for row in code):
            continue
        adds = any(int(row[0]) for row in code)
        lines = sum(int(row[0]) + int(row[1]) for row in code)
        yield Commit(repo, name, subject, tuple(row[2] for row in code), adds), text, lines


def job(commit: Commit, folder: Path, *, back: bool) -> dict[str, object]:
    """The job of the check, with both versions of the files written out."""
    files = []
    sides = (f"{commit.name}^", commit.name)
    before, after = reversed(sides) if back else sides
    for path in commit.files:
        found = {}
        for side, version in (("base", before), ("head", after)):
            try:
                found[side] = git(commit.repo, "show", f"{version}:{path}")
            except subprocess.CalledProcessError:
                continue
            target = folder / side / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(found[side])
        if "head" not in found:
            continue
        removed, added = changed_lines(commit.repo, before, after, path)
        status = "modified" if "base" in found else "added"
        old = path if "base" in found else None
        files.append(
            {"path": path, "old_path": old, "status": status, "removed": removed, "added": added}
        )
    return {"base_root": str(folder / "base"), "head_root": str(folder / "head"), "files": files}


def changed_lines(repo: Path, before: str, after: str, path: str) -> tuple[list[int], list[int]]:
    """Numbers of the lines of base that go, and of head that come."""
    diff = git(repo, "diff", "-U0", before, after, "--", path).decode("utf-8", "replace")
    removed: list[int] = []
    added: list[int] = []
    for match in HUNK.finditer(diff):
        old, gone, new, came = (int(group) if group else 1 for group in match.groups())
        removed += range(old, old + gone)
        added += range(new, new + came)
    return removed, added


def measure(name: str, of: Sequence[Commit], *, back: bool, show: bool) -> None:
    """Print how many of the commits have a finding."""
    codes: Counter[str] = Counter()
    hits = 0
    for commit in of:
        with tempfile.TemporaryDirectory() as scratch:
            findings = removed_controls.run(job(commit, Path(scratch), back=back)).findings
        hits += bool(findings)
        codes.update({finding.code for finding in findings})
        if show and (findings or back):
            print(f"  {commit.repo} {commit.name[:10]} {commit.subject[:70]}")
            for finding in findings[:3]:
                print(f"      {finding.code} {finding.path}:{finding.line} {finding.message[:110]}")
    print(f"{name:24} {hits:4} of {len(of):4} {100 * hits / max(1, len(of)):5.1f}%  {dict(codes)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--each", type=int, default=12, help="fixes of one project, at most")
    parser.add_argument("--ordinary", type=int, default=50, help="ordinary commits of one project")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    mends: list[Commit] = []
    ordinary: list[Commit] = []
    for folder in args.folders:
        mends += (own := list(islice(fixes(folder), args.each)))
        ordinary += (other := list(ordinary_commits(folder, args.ordinary)))
        print(f"{folder}: {len(own)} fixes, {len(other)} ordinary commits")
    measure("fixes taken back", mends, back=True, show=args.show)
    measure("fixes", mends, back=False, show=args.show)
    measure("ordinary commits", ordinary, back=False, show=args.show)


if __name__ == "__main__":
    main()
