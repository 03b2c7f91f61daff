"""Whether reviews find known defects: real changes that people had reviewed, and a model's replies to them.

    python bench/detection.py --cache DIR [--case NAME] [--effort quick]
    python bench/detection.py --cache DIR --provider anthropic          with a key: measures a model
    python bench/detection.py --cache DIR --prepare                     to write replies by hand
    python bench/detection.py --case NAME --record FOLDER --as honest   keeps them

Each case of ``bench/detection/`` is the commit that caused a regression, which a later commit fixed and named.
Base and head are fetched by commit into DIR, together with an environment for the tests that prove
findings; nothing of the projects is stored here. DIR may not be below ``/tmp`` or a home, which tests
cannot read. Replays need no key: the replies were written by hand, by somebody who saw only the
requests. ``honest`` is played as well as one can; ``slips`` has the mistakes of models.

Prints for each effort: the share of defects named in the first five findings, precision by support,
findings told at length and those of them that nobody would act on, claims at medium and above that
end reproduced, seconds of a proof, requests, tokens and US dollars. Findings are judged by who played (``labels``);
those of other models are counted as unlabeled. Exits 1 if a replay misses a defect that was named when it was played.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from msgspec import Struct, field
from msgspec import json as msgspec_json

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.play_the_model import read_reply
from orchestrator.app.run_review import run_review
from orchestrator.catalog.yaml_validation import describe_unknown_name
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.observer_events import Event
from orchestrator.engine.types import Json, Response, Text, ToolCall
from orchestrator.report.ranking import rank_findings
from tests.model_server.server import KEY, ModelServer, start_server
from tests.model_server.server_script import ServerReply, parse_line
from tests.prompt_cache import PromptCache
from tests.review.review_kit import options

CASES = Path(__file__).with_suffix("")
REMOTE = "https://github.com/{owner}/{name}"
FIRST = 5
TEAM = "team"  # instead of an effort: the pattern, whatever the tier
PEOPLE_ARE_SLOW = 36_000
AGENTS = [path.stem for path in (CASES.parents[1] / "agents").glob("*.md")]


class Defect(Struct, frozen=True):
    """The known defect: a finding names it whose path and text these regular expressions match."""

    path: str
    words: tuple[str, ...]

    def named_by(self, finding: Finding) -> bool:
        said = [(finding.path, finding.title, finding.detail)]
        said += [(one.path, one.title, one.detail) for one in finding.reports]
        return any(
            re.search(self.path, path)
            and all(re.search(word, f"{title} {detail}", re.IGNORECASE) for word in self.words)
            for path, title, detail in said
        )


class Played(Struct, frozen=True, omit_defaults=True):
    """Replies to one review, and what its findings are worth.

    Attributes:
        labels: a finding's title → ``act``, ``ignore`` (true, but nobody would act on it) or
            ``wrong``.
        replies: agent → its replies, as lines of a script of the model server.
    """

    effort: str
    named: bool
    labels: dict[str, str]
    replies: dict[str, list[Any]]


class Case(Struct, frozen=True):
    """A change that caused a regression.

    Attributes:
        requirements: packages that its tests need.
        source: the directory of its packages.
    """

    repository: str
    cause: str
    fix: str
    requirements: tuple[str, ...]
    source: str
    defect: Defect
    reviews: dict[str, Played] = field(default_factory=dict)


def git(folder: Path, *arguments: str, **variables: str) -> str:
    command = ("git", "-C", str(folder), *arguments)
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout.strip()


def environment_for(case: Case, cache: Path) -> Path:
    """The virtual environment of its tests; made once, if we can run them."""
    folder = cache / f"env-{case.repository.partition('/')[2]}"
    if case.requirements and not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = (str(folder / "bin/pip"), "install", "--quiet", *case.requirements)
        subprocess.run(pip, check=True)
        (folder / "made").touch()
    return folder


def settings_for(case: Case, environment: Path) -> dict[str, str]:
    """Base's settings: how its tests run if we can, time for people, and no fixer."""
    # Without the project's own settings of pytest, which name plugins of their time.
    pytest = [
        "/usr/bin/env",
        f"PYTHONPATH={case.source}",
        f"{environment}/bin/pytest",
        "-q",
        "-c",
        "/dev/null",
        "--rootdir=.",
    ]
    single = [*pytest, "-p", "no:cacheprovider", "--junitxml={report}", "{test}"]
    tests = {"command": [*pytest, "--version"], "single": single, "reads": [str(environment)]}
    limits = {name: {"seconds": PEOPLE_ARE_SLOW} for name in AGENTS}
    defaults = {
        **({"tests": tests} if case.requirements else {}),
        "fixes": {"agent": None},
        "bounds": {"minutes": 600, "usd": 20},
        "agents": limits,
    }
    models = {"calls": {"timeout": PEOPLE_ARE_SLOW, "deadline": PEOPLE_ARE_SLOW}}
    return {"defaults.yaml": json.dumps(defaults), "models.yaml": json.dumps(models)}


def prepare(name: str, case: Case, cache: Path, remote: str) -> Path:
    """A repository with ``main`` and ``pr``, one commit each: the cause's parent, and the cause."""
    settings = settings_for(case, environment_for(case, cache))
    folder = cache / name
    if not (folder / ".git").exists():
        git(cache, "init", "--quiet", str(folder))
    owner, _, project = case.repository.partition("/")
    known = f"{case.cause}^{{commit}}"
    if subprocess.run(["git", "-C", str(folder), "cat-file", "-e", known], check=False, stderr=subprocess.DEVNULL).returncode:  # fmt: skip
        git(
            folder,
            "fetch",
            "--quiet",
            "--depth=2",
            remote.format(owner=owner, name=project),
            case.cause,
        )
    blobs = {}
    for file, text in settings.items():
        (folder / ".git" / file).write_text(text)
        blobs[f".diffcourt/config/{file}"] = git(folder, "hash-object", "-w", f".git/{file}")
    parent: tuple[str, ...] = ()
    author = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
              (("NAME", "nobody"), ("EMAIL", "nobody@example.invalid"), ("DATE", "2026-01-01T00:00:00Z"))}  # fmt: skip
    for branch, commit in (("main", f"{case.cause}^"), ("pr", case.cause)):
        git(folder, "read-tree", commit)
        for file, blob in blobs.items():
            git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{file}")
        message = git(folder, "log", "-1", "--format=%B", commit) if branch == "pr" else "Base"
        made = git(
            folder, "commit-tree", git(folder, "write-tree"), *parent, "-m", message, **author
        )
        git(folder, "update-ref", f"refs/heads/{branch}", made)
        parent = ("-p", made)
    (folder / ".git/shallow").unlink(missing_ok=True)
    forget(folder)
    git(folder, "symbolic-ref", "HEAD", "refs/heads/pr")
    git(folder, "reset", "--quiet", "--hard")
    return folder


def forget(repo: Path) -> None:
    """Remove the earlier reviews of a repository, which would hand their findings on."""
    shutil.rmtree(repo / ".diffcourt/state", ignore_errors=True)


def case_of(name: str) -> Case:
    return msgspec_json.decode((CASES / f"{name}.json").read_bytes(), type=Case)


def record(name: str, played: str, folder: Path, effort: str) -> None:
    """Keep the replies of a folder, in the order of their requests, in the case's file."""
    path = CASES / f"{name}.json"
    case = json.loads(path.read_text())
    lines: dict[str, list[Json]] = defaultdict(list)
    for reply in sorted(folder.glob("*.reply.*")):
        agent = reply.name.split(".")[0].partition("-")[2]
        lines[agent].append(_as_line(reply))
    known = case["reviews"].get(played, {"named": True, "labels": {}})
    case["reviews"][played] = {**known, "effort": effort, "replies": lines}
    path.write_text(json.dumps(case, indent=1) + "\n")


def _as_line(reply: Path) -> Json:
    read = read_reply(reply.read_text(), reply.suffix == ".json", reply.name.partition("-")[0])
    assert isinstance(read, Response)
    calls = [{"name": one.name, "arguments": one.arguments} for one in read.blocks if isinstance(one, ToolCall)]  # fmt: skip
    if calls:
        return {"calls": calls}
    text = "".join(block.text for block in read.blocks if isinstance(block, Text))
    try:
        return {"report": json.loads(text)}
    except ValueError:
        return {"text": text}


@contextmanager
def environment_variables(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def replay(repo: Path, played: Played) -> tuple[Verdict, list[float]]:
    script: dict[str, Sequence[ServerReply]] = {
        agent: [parse_line(line, f"{agent}-{number}") for number, line in enumerate(lines)]
        for agent, lines in played.replies.items()
    }
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(
        start_server(ModelServer(script, count=PromptCache()))
    ) as server, environment_variables(ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY):  # fmt: skip
        found = measure(repo, "anthropic", played.effort)
        for problem in server.rejected:
            print(f"  the recorded replies no longer fit: {problem}")
    return found


def measure(repo: Path, provider: str, effort: str) -> tuple[Verdict, list[float]]:
    """A review, and the seconds of each proof."""
    began: dict[str, float] = {}
    seconds: list[float] = []

    def observe(event: Event) -> None:
        if event.tool == "prove_finding" and event.kind == "tool_started":
            began[event.key] = time.monotonic()
        elif event.tool == "prove_finding" and event.kind == "tool_finished" and event.key in began:
            seconds.append(time.monotonic() - began.pop(event.key))

    asked = (
        {"pattern": TEAM} if effort == TEAM else {"effort": None if effort == "auto" else effort}
    )
    given = options(
        repo, base="main", head="pr", provider=provider, **asked,
        run_tests=True, allow_spending=True, no_cache=True,
    )  # fmt: skip
    return run_review(given, observe), seconds


class Sums:
    """What the reviews of one effort add up to."""

    def __init__(self) -> None:
        self.named: list[bool] = []
        self.support: dict[str, Counter[str]] = defaultdict(Counter)
        self.length: Counter[str] = Counter()
        self.claims: Counter[bool] = Counter()
        self.seconds: list[float] = []
        self.requests = self.tokens = 0
        self.usd = 0.0

    def report(
        self,
        name: str,
        verdict: Verdict,
        seconds: Sequence[float],
        defect: Defect,
        labels: Mapping[str, str],
    ) -> bool:
        """Add a review and print it. Returns whether it names the defect early."""
        shown = rank_findings(verdict).in_order
        told = [one for one in shown[:FIRST] if one.support != "refuted"]
        named = any(map(defect.named_by, told))
        self.named.append(named)
        for one in shown:
            self.support[one.support][label_of(one, labels)] += 1
        for cause in rank_findings(verdict).at_length:
            self.length[label_of(cause[0], labels)] += 1
        for one in shown:
            if one.severity in {"critical", "high", "medium"} and set(one.reported_by) & set(
                AGENTS
            ):
                self.claims[any(proof.is_reproduced for proof in one.proofs)] += 1
        self.seconds += seconds
        self.requests += verdict.usage.model_calls
        self.tokens += verdict.usage.input_tokens + verdict.usage.output_tokens
        self.usd += verdict.usage.usd
        print(
            f"{name}: {'names' if named else 'MISSES'} the defect; {verdict.verdict}; {verdict.usage.model_calls} requests"
        )
        for one in shown:
            print(f"    {one.severity:<8} {one.support:<8} {label_of(one, labels):<9} {one.title}")
            for proof in one.proofs:
                print(f"        {proof.state} {' '.join(proof.reason.split())[:240]}")
        return named

    def show(self, effort: str) -> None:
        count = len(self.named)
        print(f"\n{effort}: {count} reviews")
        print(f"  defects named in the first {FIRST} findings   {sum(self.named)} of {count}")
        for support, labels in sorted(self.support.items()):
            judged = sum(labels.values()) - labels["unlabeled"]
            print(f"  precision, {support:<10} {labels['act'] + labels['ignore']} of {judged} true, {labels['unlabeled']} unlabeled")  # fmt: skip
        told = sum(self.length.values())
        idle = self.length["ignore"] + self.length["wrong"]
        print(f"  findings at length {told}, wrong or nobody would act on {idle}, unlabeled {self.length['unlabeled']}")  # fmt: skip
        print(
            f"  claims at medium and above that ended reproduced {self.claims[True]} of {self.claims.total()}"
        )
        if self.seconds:
            middle = sorted(self.seconds)[len(self.seconds) // 2]
            print(f"  seconds of a proof, median {middle:.1f}, longest {max(self.seconds):.1f}")
        print(f"  per review: {self.requests / count:.1f} requests, {self.tokens / count:,.0f} tokens, USD {self.usd / count:.3f}")  # fmt: skip


def label_of(finding: Finding, labels: Mapping[str, str]) -> str:
    said = (finding.title, *(one.title for one in finding.reports))
    return next((labels[title] for title in said if title in labels), "unlabeled")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, help="directory of repositories and environments")
    parser.add_argument(
        "--remote", default=REMOTE, help="where git fetches from, default: %(default)s"
    )
    parser.add_argument("--case", metavar="NAME", help="of a file of bench/detection; default: all")
    parser.add_argument("--effort", choices=["auto", "quick", "standard", "thorough", TEAM])
    parser.add_argument("--provider", help="measure the model of this provider, with its key")
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="keep the replies of this folder"
    )
    parser.add_argument(
        "--as", dest="played", default="honest", help="their name, default: %(default)s"
    )
    parser.add_argument(
        "--prepare", action="store_true", help="only print where the repositories are"
    )
    args = parser.parse_args()
    cases = [path.stem for path in sorted(CASES.glob("*.json"))]
    names = [args.case] if args.case else cases
    if names[0] not in cases:
        parser.error(describe_unknown_name("case", args.case, cases))
    if args.record:
        record(names[0], args.played, args.record, args.effort or "auto")
        return 0
    if args.cache is None:
        parser.error("name a directory with --cache")
    args.cache.mkdir(parents=True, exist_ok=True)
    sums: dict[str, Sums] = defaultdict(Sums)
    lost = 0
    for name in names:
        case = case_of(name)
        repo = prepare(name, case, args.cache.resolve(), args.remote)
        if args.prepare:
            print(repo)
        elif args.provider:
            effort = args.effort or "auto"
            sums[effort].report(name, *measure(repo, args.provider, effort), case.defect, {})
        else:
            for kind, played in case.reviews.items():
                if args.effort in {None, played.effort}:
                    forget(repo)
                    found = replay(repo, played)
                    named = sums[f"{played.effort}, {kind}"].report(
                        f"{name}, {kind}", *found, case.defect, played.labels
                    )
                    lost += played.named and not named
    for effort, figures in sums.items():
        figures.show(effort)
    return int(lost > 0)


if __name__ == "__main__":
    raise SystemExit(main())
