"""Does a review notice when a security fix is reverted?

    python bench/removed_controls.py [--advisories DATABASE ...] [--projects held-out]
        [--show] [--each N] [--ordinary N] FOLDER ...

Takes security fixes and ordinary commits from git repositories that already exist on this machine.
The check `removed_controls` compares each fix with its parent as head (the fix reverted), each fix as it
was made, and the ordinary commits. A FOLDER is a git directory. The projects are split in two by their
names: rules are written while looking at some of them, and measured on the others (``held-out``).

With --advisories, a fix is a commit to which an advisory in one of these git directories links
(pypa/advisory-database, rubysec/ruby-advisory-db and golang/vulndb have links), whatever its message
says. Without, it is a commit whose message names a CVE or an advisory, or whose subject says that it
fixes a security defect. Either changes at most 8 files and 250 lines of code other than tests and
samples. An ordinary commit changes such code, and its message does not mention security.

Each is judged by its syntax, by the history of its base (rule `security.fix-reverted`), and by both.
Leads, which agents get and no rule counts, are counted apart (`lead`), and findings or leads as `any`.

What to know before trusting the figures:

- The history is searched for messages that say that they fix a security defect. If the fixes are chosen
  by their messages, its figure means nothing, so use --advisories. The first line printed has the
  share of fixes whose message says so: the history cannot notice more than these.
- A reverted fix is the exact inverse of its commit, right after it or on the newest commit of the
  branch ("later", only where the patch still applies). The history compares lines, so an exact
  inverse is the easiest case. Fixes that are reverted while the code is rewritten are not measured.
- Ordinary commits whose message mentions security are left out, and with them some that revert a fix
  on purpose.

Measured in 8 projects (aiohttp, urllib3, wagtail, httpx, anyio, flask, gogs, express), with at most 15
fixes from advisories and 60 ordinary commits of each:

                             of     syntax   history   both    lead    any
      fixes reverted          41     9.8%    63.4%     70.7%   51.2%   82.9%
      reverted later          15     6.7%    80.0%     80.0%   66.7%   93.3%
      the fixes themselves    41     0.0%     0.0%      0.0%   29.3%   29.3%
      ordinary commits       480     0.0%    not asked         11.0%   11.0%

Before removed conditions became leads, syntax found 29.3% of these reverted fixes and both found 73.2%;
1.7% of these ordinary commits had a finding (decision 0029). In 280 fixes of projects that no rule was
written for, history alone found 68.2%.
"""

import argparse
import hashlib
import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import anyio
from msgspec import convert, to_builtins

from diffchecks import removed_controls
from diffchecks.check_io import RawFinding
from diffchecks.jobs import ProtectionsJob
from diffchecks.past_fixes import PastFix, classify_message
from diffchecks.path_kinds import path_kinds
from diffchecks.removed_controls.removed_checks import LEADS
from orchestrator.code_review.change.security_fixes import find_past_fixes
from orchestrator.code_review.change.types import Change

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
MAX_FILES, MAX_LINES = 8, 250  # of code, in a fix
ADVISED = re.compile(r"/commit/([0-9a-f]{10,40})\b")  # what an advisory links to as its fix
HUNK = re.compile(r"(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


Way = Literal["forward", "back", "later"]
"""A commit as it is, reverted at once, or reverted on the newest commit of its branch."""


class Commit(NamedTuple):
    """One commit of a repository, and the files of code that it changes."""

    repo: Path
    name: str
    subject: str
    message: str
    files: tuple[str, ...]
    adds: bool


def git(repo: Path, *arguments: str, check: bool = True) -> bytes:
    command = ["git", "-C", str(repo), *arguments]
    return subprocess.run(command, capture_output=True, check=check).stdout


def is_code(path: str) -> bool:
    return bool(CODE.fullmatch(path)) and path_kinds(path).isdisjoint(NEITHER)


def advised_commits(databases: Sequence[Path]) -> list[str]:
    """Every commit that an advisory of such a database links to, sorted."""
    found: set[str] = set()
    for database in databases:
        names = git(database, "ls-tree", "-r", "--name-only", "-z", "HEAD").decode().split("\0")
        asked = "".join(f"HEAD:{name}\n" for name in names if name.endswith((".yaml", ".yml")))
        command = ["git", "-C", str(database), "cat-file", "--batch"]
        told = subprocess.run(command, input=asked.encode(), capture_output=True, check=True)
        found.update(ADVISED.findall(told.stdout.decode("utf-8", "replace")))
    return sorted(found)


def advised_fixes(repo: Path, commits: Sequence[str]) -> Iterator[Commit]:
    """The fixes among those commits, newest first and each once, whatever their messages say."""
    command = ["git", "-C", str(repo), "cat-file", "--batch-check"]
    asked = "".join(f"{commit}^{{commit}}\n" for commit in commits).encode()
    told = subprocess.run(command, input=asked, capture_output=True, check=True).stdout.decode()
    here = [line.split()[0] for line in told.splitlines() if " commit " in line]
    if not here:
        return
    seen: set[str] = set()
    for commit, _, lines in read_log(repo, "--no-walk", "--diff-merges=first-parent", *here):
        key = key_of(commit)
        if key not in seen and is_small(commit, lines):
            seen.add(key)
            yield commit


def key_of(commit: Commit) -> str:
    """Equal for the same fix on another branch; a merge may be called like any other."""
    words = re.sub(r"\[.*?\]|\(.*?\)|[^a-z]", "", commit.subject.lower())
    return commit.name if words.startswith("merge") else words


def is_small(commit: Commit, lines: int) -> bool:
    return len(commit.files) <= MAX_FILES and lines <= MAX_LINES and commit.adds


def published_fixes(repo: Path) -> Iterator[Commit]:
    """Every fix on any branch by its message, newest first and each once."""
    seen: set[str] = set()
    # A branch of a snapshot can lead to what the snapshot does not hold; the others are read.
    for commit, text, lines in read_log(
        repo, "--no-merges", "--all", "-i", "-E", f"--grep={CANDIDATE}"
    ):
        published = ADVISORY.search(text) or (
            DEFECT.search(commit.subject) and MENDS.search(commit.subject)
        )
        key = key_of(commit)
        if not published or OTHER.match(commit.subject) or key in seen:
            continue
        if is_small(commit, lines):
            seen.add(key)
            yield commit


def ordinary_commits(repo: Path, wanted: int) -> Iterator[Commit]:
    """So many commits of the checked out branch, chosen at random, that mention no security."""
    names = git(repo, "rev-list", "--no-merges", "HEAD", check=False).decode().split()
    random.Random(0).shuffle(names)
    asked = max(1, wanted)
    for start in range(0, len(names), asked):
        if not wanted:
            return
        for commit, text, _ in read_log(
            repo, "--no-merges", "--no-walk", *names[start : start + asked]
        ):
            if wanted and not SECURITY.search(text) and len(commit.files) <= 40:
                wanted -= 1
                yield commit


def read_log(repo: Path, *arguments: str) -> Iterator[tuple[Commit, str, int]]:
    """Commits that change code, each with its message and how many lines of code it changes."""
    asked = ["--format=%x01%H%x02%P%x02%s%x02%B%x02", "--numstat"]
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
        files = tuple(row[2] for row in code)
        yield Commit(repo, name, subject, text, files, adds), text, lines


def job(commit: Commit, folder: Path, *, way: Way) -> dict[str, object]:
    """The job of the check, with both versions of the files written out."""
    files = []
    sides = (f"{commit.name}^", commit.name)
    before, after = reversed(sides) if way == "back" else sides
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


def later_job(commit: Commit, folder: Path) -> dict[str, object] | None:
    """The job of taking a fix back out of the newest commit; None where its patch does not apply."""
    files = []
    for path in commit.files:
        try:
            content = git(commit.repo, "show", f"HEAD:{path}")
        except subprocess.CalledProcessError:
            return None
        for side in ("base", "head"):
            target = folder / side / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    patch = git(commit.repo, "diff", f"{commit.name}^", commit.name, "--", *commit.files)
    command = ["git", "apply", "-R", "-"]
    head = folder / "head"
    applied = subprocess.run(command, cwd=head, input=patch, check=False, capture_output=True)
    if applied.returncode:
        return None
    for path in commit.files:
        sides = (f"base/{path}", f"head/{path}")
        command = ["git", "-C", str(folder), "diff", "--no-index", "-U0", "--", *sides]
        diff = subprocess.run(command, check=False, capture_output=True).stdout
        removed, added = parse_lines(diff.decode("utf-8", "replace"))
        files.append(
            {
                "path": path,
                "old_path": path,
                "status": "modified",
                "removed": removed,
                "added": added,
            }
        )
    return {"base_root": str(folder / "base"), "head_root": str(folder / "head"), "files": files}


def changed_lines(repo: Path, before: str, after: str, path: str) -> tuple[list[int], list[int]]:
    """Numbers of the lines of base that go, and of head that come."""
    diff = git(repo, "diff", "-U0", before, after, "--", path).decode("utf-8", "replace")
    return parse_lines(diff)


def parse_lines(diff: str) -> tuple[list[int], list[int]]:
    removed: list[int] = []
    added: list[int] = []
    for match in HUNK.finditer(diff):
        old, gone, new, came = (int(group) if group else 1 for group in match.groups())
        removed += range(old, old + gone)
        added += range(new, new + came)
    return removed, added


def history(repo: Path, base: str, files: Sequence[str]) -> list[dict[str, object]]:
    """What base and the commits before it did to the files, where they fix a security defect."""
    base = git(repo, "rev-parse", base).decode().strip()
    change = Change(base, base, base, base, str(repo))
    listed = git(repo, "ls-tree", "-r", "--name-only", "-z", base).decode("utf-8", "replace")
    tree = set(listed.split("\0"))
    fixes, unsearched = anyio.run(find_past_fixes, change, set(files), tree)
    if unsearched:
        print(f"  {repo} {base[:10]}: {unsearched}")
    return [to_builtins(fix) for fix in fixes]


def look(
    commit: Commit, way: Way
) -> tuple[list[RawFinding], list[RawFinding], list[RawFinding]] | None:
    """The findings by syntax alone, with the history too, and leads; None: no such change."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        asked = later_job(commit, folder) if way == "later" else job(commit, folder, way=way)
        if not asked:
            return None
        base = {"back": commit.name, "later": "HEAD", "forward": f"{commit.name}^"}[way]
        given = convert(asked, ProtectionsJob)
        alone = removed_controls.run(given).findings
        given.fixes = convert(history(commit.repo, base, commit.files), list[PastFix])
        found = removed_controls.run(given).findings if given.fixes else alone
        leads = [finding for finding in alone if finding.code in LEADS]
        return noticed(alone), noticed(found), leads


def noticed(findings: Sequence[RawFinding]) -> list[RawFinding]:
    """Those of medium severity or more, which are no leads."""
    return [finding for finding in findings if finding.code not in LEADS]


def measure(name: str, of: Sequence[Commit], way: Way, *, show: bool) -> None:
    """Print how many of the commits have a finding: by syntax, by history, by either; and a lead."""
    codes: Counter[str] = Counter()
    hits = Counter({"syntax": 0, "history": 0, "both": 0, "lead": 0, "any": 0})
    hints = 0
    count = 0
    for commit in of:
        if not (found := look(commit, way)):
            continue
        count += 1
        alone, findings, leads = found
        hints += len(leads)
        told = any(finding not in alone for finding in findings)  # new, or with a sentence more
        hits.update(syntax=bool(alone), history=told, both=bool(findings))
        hits.update(lead=bool(leads), any=bool(leads or findings))
        codes.update({finding.code for finding in findings})
        if show and (findings or leads or way == "back"):
            mark = "S" * bool(alone) + "H" * told
            print(f"  {mark:2} {commit.repo} {commit.name[:10]} {commit.subject[:70]}")
            for finding in (*findings[:3], *leads[:3]):
                print(f"      {finding.code} {finding.path}:{finding.line} {finding.message[:150]}")
    shares = "  ".join(f"{by} {n:4} {100 * n / max(1, count):5.1f}%" for by, n in hits.items())
    print(f"{name:24} {count:5}: {shares}  {dict(codes)}, {hints} leads")


def part_of(folder: Path) -> str:
    """Whether a project was looked at while the rules were written: one in three.

    Its folder is named ``owner+name`` for the split that the figures are of.
    """
    name = next(part for part in reversed(folder.parts) if part not in {".git", "repo"})
    digest = hashlib.sha256(name.replace("+", "/").lower().encode()).hexdigest()
    return "held-out" if int(digest, 16) % 3 else "watched"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--each", type=int, default=12, help="fixes of one project, at most")
    parser.add_argument("--ordinary", type=int, default=50, help="ordinary commits of one project")
    parser.add_argument("--advisories", nargs="*", type=Path, default=[], help="their databases")
    parser.add_argument("--projects", choices=["all", "watched", "held-out"], default="all")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    mends: list[Commit] = []
    ordinary: list[Commit] = []
    advised = advised_commits(args.advisories)
    for folder in args.folders:
        if args.projects not in {"all", part_of(folder)}:
            continue
        found = advised_fixes(folder, advised) if advised else published_fixes(folder)
        mends += (own := list(islice(found, args.each)))
        ordinary += (other := list(ordinary_commits(folder, args.ordinary)))
        print(f"{folder}: {len(own)} fixes, {len(other)} ordinary commits")
    says = Counter(classify_message(commit.message) or "neither" for commit in mends)
    print(f"{len(mends)} fixes; their messages: {dict(says)}")
    measure("fixes reverted", mends, "back", show=args.show)
    measure("reverted later", mends, "later", show=args.show)
    measure("fixes", mends, "forward", show=args.show)
    measure("ordinary commits", ordinary, "forward", show=args.show)


if __name__ == "__main__":
    main()
