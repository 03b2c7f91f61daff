"""What an offline review finds in real applications whose flaws are labeled: precision, recall, F1.

Each file of ``bench/data/applications`` labels one public application: repository, commit, license, the
paths that were labeled, then a row per flaw with its places (``path:lines``, any of them counts), its
classes (CWE numbers), and why. The whole application is reviewed as new code, without a model.

A flaw is found when a finding at medium or above stands in the same file, within three lines of one of
its places, and names a CWE of the same class. One finding finds one flaw. A finding is false when no
flaw of its class is there; findings without a CWE and outside the labeled paths do not count.

    python bench/applications.py --clones FOLDER [--half learn|held] [--misses] [--bandit BANDIT] [NAME ...]

FOLDER holds the clones as ``owner+name`` or ``owner/name``. A file says its half, or seed 41 draws it: rules
may learn from the misses of one half, the other one tells whether they hold elsewhere.
"""

import argparse
import json
import random
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from io import BytesIO
from pathlib import Path

from msgspec import Struct

from orchestrator.app.run_review import run_review
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.yaml_validation import describe_unknown_name
from orchestrator.engine.observer_events import ignore_event

DATA = Path(__file__).parent / "data" / "applications"
GRAVE = ("critical", "high", "medium")
NEAR = 3
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
CLASSES = [
    set(map(int, line.split()))
    for line in """
    89 564 943
    77 78 88
    94 95 96 1336 470
    22 23 36 73 377
    79 80 116
    798 259 321 547 1392
    327 328 916 759 760 326
    330 331 338 340 337
    200 209 497 201
    532 312 200 359
    614 1004 1275 565 315
    639 862 863 285 284 306 269 287
    611 776 827
    489 94 215
    347 345 346 290
    400 770 674 1333 730 625
    113 93 117
    256 312 522 916
    434 73
    """.strip().splitlines()
]


class Finding(Struct, frozen=True):
    """What one tool says about some lines."""

    path: str
    start: int
    end: int
    cwe: tuple[int, ...]
    title: str


class Flaw(Struct, frozen=True):
    """One labeled flaw."""

    places: tuple[tuple[str, int, int], ...]
    cwe: frozenset[int]
    why: str

    def is_at(self, finding: Finding) -> bool:
        """Whether a finding says this."""
        same = any(
            cwe in self.cwe or any(cwe in one and self.cwe & one for one in CLASSES)
            for cwe in finding.cwe
        )
        return same and any(
            finding.path == path and finding.start <= last + NEAR and finding.end >= first - NEAR
            for path, first, last in self.places
        )


class Application(Struct):
    """The labels of one application, and where its code is."""

    name: str
    repository: str
    commit: str
    folder: str
    code: tuple[str, ...]
    flaws: list[Flaw]


def load(path: Path) -> Application:
    """Read one file of labels."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = dict(re.findall(r"^# (\w+): (.*)$", "\n".join(lines), re.MULTILINE))
    flaws = []
    for line in lines:
        if not line.startswith("#"):
            where, cwe, why = line.split("\t")
            places = []
            for place in where.split():
                name, _, span = place.rpartition(":")
                first, _, last = span.partition("-")
                places.append((name, int(first), int(last or first)))
            flaws.append(Flaw(tuple(places), frozenset(map(int, cwe.split())), why))
    return Application(
        path.stem, head["repository"], head["commit"], head.get("folder", ""),
        tuple(head["code"].split()), flaws,
    )  # fmt: skip


def check_out(application: Application, clones: Path, into: Path) -> Path:
    """A repository whose newest commit adds all code of the application to an empty one."""
    owner, _, name = application.repository.partition("/")
    clone = next(
        place
        for start in (f"{owner}+{name}", f"{owner}/{name}")
        for place in (clones / start, clones / start / "repo")
        if (place / ".git").exists() or (place / "HEAD").exists()
    )
    tree = ":".join(filter(None, (application.commit, application.folder)))
    archive = subprocess.run(
        ["git", "-C", str(clone), "archive", tree], check=True, capture_output=True
    )
    subprocess.run([*GIT, "init", "-q", str(into)], check=True)
    git = [*GIT, "-C", str(into)]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Start"], check=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as members:
        members.extractall(into, filter="data")
    subprocess.run([*git, "add", "-f", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Add the application"], check=True)
    return into


def review(repository: Path) -> list[Finding]:
    """What an offline review says at medium or above."""
    options = ReviewOptions(
        repo=repository, base="HEAD~1", head="HEAD", worktree=False, diff=None, diff_name="",
        provider=None, pattern=None, max_iterations=None, max_tool_calls=None, max_minutes=None,
        max_usd=None,
    )  # fmt: skip
    return [
        Finding(one.path, one.start_line, one.end_line, one.cwe, f"{one.severity} {one.rule}")
        for one in run_review(options, ignore_event).findings
        if one.severity in GRAVE and one.cwe
    ]


def run_bandit(bandit: str, repository: Path) -> list[Finding]:
    """What bandit says at medium or above."""
    command = [bandit, "-q", "-r", "-ll", "-f", "json", str(repository)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [
        Finding(
            str(Path(one["filename"]).relative_to(repository)), one["line_number"],
            one["line_number"], (one["issue_cwe"]["id"],), f"{one['test_id']} {one['issue_text']}",
        )
        for one in json.loads(done.stdout)["results"]
    ]  # fmt: skip


def score(application: Application, findings: list[Finding], tool: str, show: bool) -> Counter[str]:
    """Found, missed, false of one tool."""
    left = list(application.flaws)
    tally: Counter[str] = Counter()
    for finding in findings:
        if not finding.path.startswith(application.code):
            continue
        hits = [flaw for flaw in application.flaws if flaw.is_at(finding)]
        new = next((flaw for flaw in hits if flaw in left), None)
        if new:
            left.remove(new)
            tally["found"] += 1
        elif not hits:
            tally["false"] += 1
            if show:
                place = f"{finding.path}:{finding.start}"
                print(f"  {tool} false {application.name} {place} {finding.title}")
    tally["missed"] = len(left)
    if show:
        for flaw in left:
            path, first, _ = flaw.places[0]
            place = f"{path}:{first} CWE {sorted(flaw.cwe)}"
            print(f"  {tool} missed {application.name} {place} {flaw.why}")
    return tally


def row(name: str, tally: Counter[str]) -> str:
    """One line of the table."""
    found, missed, false = tally["found"], tally["missed"], tally["false"]
    recall = found / (found + missed or 1)
    precision = found / (found + false or 1)
    f1 = 2 * precision * recall / (precision + recall or 1)
    return f"{name:32} {found:5} {missed:6} {false:5} {precision:9.2f} {recall:6.2f} {f1:5.2f}"


def main() -> None:
    """Print a row for each application and tool, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="applications; all where none is named"
    )
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--half", choices=("learn", "held"))
    parser.add_argument("--misses", action="store_true", help="list what is missed or false")
    parser.add_argument("--bandit", help="compare with this program")
    args = parser.parse_args()
    names = sorted(path.stem for path in DATA.glob("*.tsv"))
    for name in {*args.names}.difference(names):
        parser.error(describe_unknown_name("application", name, names))
    said = {
        name: re.search(r"^# half: (\w+)$", (DATA / f"{name}.tsv").read_text("utf-8"), re.MULTILINE)
        for name in names
    }
    drawn = [name for name in names if not said[name]]
    random.Random(41).shuffle(drawn)
    halves = {"learn": drawn[: len(drawn) // 2], "held": drawn[len(drawn) // 2 :]}
    for name, half in said.items():
        if half:
            halves[half[1]].append(name)
    print(f"{'':32} found missed false precision recall    F1")
    totals: dict[str, Counter[str]] = {}
    for name in args.names or sorted(halves[args.half] if args.half else names):
        application = load(DATA / f"{name}.tsv")
        with tempfile.TemporaryDirectory() as folder:
            repository = check_out(application, args.clones, Path(folder) / "repository")
            found = {"diffcourt": review(repository)}
            if args.bandit:
                found["bandit"] = run_bandit(args.bandit, repository)
        for tool, findings in found.items():
            tally = score(application, findings, tool, args.misses)
            print(row(f"{name} {tool}", tally), flush=True)
            totals.setdefault(tool, Counter()).update(tally)
    for tool, tally in totals.items():
        print(row(f"all {tool}", tally))


if __name__ == "__main__":
    main()
