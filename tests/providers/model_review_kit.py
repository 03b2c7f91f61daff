"""Scripted reviews whose outcome is known: slips, inventions, duplicates and false alarms.

``bench/model_review.py`` measures many of them, a test a few.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from msgspec import Struct, convert

from orchestrator.code_review.agent_report_contracts import ReportedFinding
from orchestrator.code_review.findings.agent_reports import claim_fingerprint
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.types import Json, Response, Text
from tests.model_server.server import ModelServer
from tests.model_server.server_script import ServerReply
from tests.providers.whole_kit import (
    NO_FIXER,
    POLICY,
    TEAM,
    judges,
    plans,
    reports,
    review,
    says,
    serving,
)
from tests.review.review_kit import change
from tests.scripted_model import tool_call_reply

PER_FILE = 10
SETTINGS = f"{NO_FIXER}judge: false\nbounds: {{usd: 50, tokens: 50000000, tool_calls: 5000}}\n"

BASE = '''
def load_{n}(path, owner):
    """Read record {n}."""
    record = open_record(path, kind="kind {n}")
    if not owner.may_read(record, "{n}"):
        raise PermissionError("{n}")
    total = record.amount * {n}
    notes = [note for note in record.notes if note.kind == "{n}"]
    return render(record, total, notes, "{n}")

'''
HEAD = '''
def load_{n}(path, owner):
    """Read record {n}."""
    record = open_record(path, kind="kind {n}")
    label_{n} = f"{{owner.name}}:  \u202e{{record.id}}"
    password_{n} = "qX7vT2mK9s{n:03}Lp4Z"
    total = record.amount / record.count_{n}
    cache_{n}[path] = (
        total,
        label_{n},
    )
    send(owner, password_{n})
    notes = [note for note in record.notes if note.kind == "{n}"]
    return render(record, total, notes, "{n}")

'''


class Report(Struct, frozen=True):
    """A finding as a model reports it, and where it is true: 0 in base and for an invention."""

    slip: str
    said: dict[str, Json]
    line: int


def sources(files: int) -> tuple[dict[str, str], dict[str, str]]:
    """Base and head of a change with ``PER_FILE`` defects in each file."""
    sides = []
    for form in (BASE, HEAD):
        text = {
            f"shop/m{at}.py": '"""Records."""\n'
            + "".join(form.format(n=at * PER_FILE + n) for n in range(PER_FILE))
            for at in range(files)
        }
        sides.append(text)
    return sides[0], sides[1]


def _number(text: str, line: str) -> int:
    return text.split("\n").index(line) + 1


Slip = Callable[[int, list[str], int], tuple[str, int]]
"""Number, lines of head and index of the true line → quote and cited line."""


def _off(n: int, lines: list[str], at: int) -> tuple[str, int]:
    by = 1 + n % 20
    return lines[at], at + 1 + (by if n % 2 else -min(by, at))


SLIPS: dict[str, Slip] = {
    "exact": lambda n, lines, at: (lines[at], at + 1),
    "line off by 1 to 20": _off,
    "white space": lambda n, lines, at: ("\t" + "  ".join(lines[at].split(" ")) + "  ", at + 1),
    "fence": lambda n, lines, at: (f"```python\n{lines[at]}\n```", at + 1),
    "line number before it": lambda n, lines, at: (f"{at + 1}: {lines[at]}", at + 1),
    "numbers of the diff": lambda n, lines, at: (f"+{at + 1}: {lines[at]}", at + 1),
    "diff prefix": lambda n, lines, at: (f"+{lines[at]}", at + 1),
    "elided lines": lambda n, lines, at: (f"{lines[at]}\n    ...\n{lines[at + 4]}", at + 1),
}
"""Slips in quoting the line ``total = ...`` that the change adds."""

RARE_SLIPS: dict[str, Slip] = {
    "code quotes": lambda n, lines, at: (f"`{lines[at].strip()}`", at + 1),
    "double quotes": lambda n, lines, at: (f'"{lines[at].strip()}"', at + 1),
    "dots at the end": lambda n, lines, at: (lines[at][:34] + "...", at + 1),
    "indentation removed": lambda n, lines, at: (
        "\n".join(line.strip() for line in lines[at : at + 3]),
        at + 1,
    ),
    "carriage returns": lambda n, lines, at: ("\r\n".join(lines[at : at + 2]), at + 1),
    "escapes of JSON": lambda n, lines, at: (lines[at - 1].strip().replace('"', '\\"'), at),
    "lines joined by spaces": lambda n, lines, at: (
        " ".join(line.strip() for line in lines[at + 1 : at + 5]),
        at + 2,
    ),
    "L and a number before it": lambda n, lines, at: (f"L{at + 1}: {lines[at].strip()}", at + 1),
    "number and bar before it": lambda n, lines, at: (f"{at + 1} | {lines[at].strip()}", at + 1),
}
"""Slips that are less common."""

OTHERS = ("escaped character", "redacted", "context line", "removed line with head's number")
KINDS = (*SLIPS, *OTHERS)


def true_report(n: int, head: str, kinds: Sequence[str]) -> Report:
    """The n-th defect with one of these slips."""
    kind, lines = kinds[n % len(kinds)], head.split("\n")
    lines_at = {
        "escaped character": f'    label_{n} = f"{{owner.name}}:  \u202e{{record.id}}"',
        "redacted": f'    password_{n} = "qX7vT2mK9s{n:03}Lp4Z"',
        "context line": f'    notes = [note for note in record.notes if note.kind == "{n}"]',
    }
    line = _number(head, lines_at.get(kind, f"    total = record.amount / record.count_{n}"))
    if slip := (SLIPS | RARE_SLIPS).get(kind):
        quote, cited = slip(n, lines, line - 1)
        line = cited if kind in RARE_SLIPS else line
    elif kind == "removed line with head's number":
        quote, cited = f'    if not owner.may_read(record, "{n}"):', line
    else:
        quote, cited = lines[line - 1].strip(), line
        quote = quote.replace("\u202e", "\\u202e").replace(f"qX7vT2mK9s{n:03}Lp4Z", "[redacted]")
    said = _said(f"Defect {n}", n // PER_FILE, cited, quote)
    return Report(kind, said, 0 if kind.startswith("removed") else line)


INVENTED = (
    "    os.system(path)",
    "    total = record.amount % record.count_{n}",
    "    if owner.may_write(record, '{n}'):",
    '    password_{n} = "hunter2"\n    ...\n    eval(password_{n})',
    "def load_{n}(path, owner, force=True):",
)


def invented_report(n: int) -> Report:
    """A finding whose quotation stands nowhere."""
    quote = INVENTED[n % len(INVENTED)].format(n=n)
    return Report("invented", _said(f"Invented {n}", n // PER_FILE, 5, quote), 0)


def _said(title: str, file: int, line: int, quote: str) -> dict[str, Json]:
    return {
        "path": f"shop/m{file}.py",
        "start_line": line,
        "end_line": line,
        "quote": quote,
        "title": title,
        "severity": "high",
        "confidence": 0.9,
        "detail": "It harms whoever calls it.",
        "category": "qa",
    }


def repository(folder: Path, files: int, settings: str = SETTINGS) -> Path:
    """A change of so many files."""
    base, head = sources(files)
    return change(
        folder, {**POLICY, ".diffcourt/config/defaults.yaml": settings, **base}, head
    ).path


def run(
    repo: Path, lines: Mapping[str, Sequence[ServerReply]], **options: object
) -> tuple[Verdict, ModelServer]:
    """Review it over the wire, with these replies."""
    with (
        pytest.MonkeyPatch.context() as patch,
        start_blocking_portal() as portal,
        serving(portal, patch, "anthropic", lines) as server,
    ):
        return review(repo, "anthropic", **options), server  # type: ignore[arg-type]


def team_reports(said: Mapping[str, Json]) -> dict[str, Sequence[ServerReply]]:
    """Each agent reports once; further requests get the same reply."""
    ends = [reports(summary="Read it.", findings=[])]
    lead: list[ServerReply] = [plans(), *[says(summary="It changes records.", findings=[])] * 5]
    return {
        "lead": lead,
        **{
            name: [reports(**said.get(name, {}))] * 5 if name in said else ends * 5 for name in TEAM
        },
    }


def shown(verdict: Verdict, title: str) -> Finding | None:
    """The open finding that a report became, alone or together with others."""
    for found in verdict.findings:
        titles = {found.title, *(one.title for one in found.reports)}
        if title in titles and found.state == "open":
            return found
    return None


def slips(
    folder: Path, reviews: int, kinds: Sequence[str] = KINDS
) -> Iterator[tuple[Report, bool]]:
    """Reports with slips, ten true ones and two invented ones an agent: report, whether it counts."""
    files = len(TEAM) * reviews
    repo = repository(folder, files)
    _, head = sources(files)
    for at in range(reviews):
        given: dict[str, list[Report]] = {}
        for place, name in enumerate(TEAM):
            file = at * len(TEAM) + place
            path, first = f"shop/m{file}.py", file * PER_FILE
            numbers = range(first, first + PER_FILE)
            true = [true_report(n, head[path], kinds) for n in numbers]
            given[name] = [*true, invented_report(first), invented_report(first + 3)]
        said = {name: {"findings": [one.said for one in own]} for name, own in given.items()}
        verdict, _ = run(repo, team_reports(said))
        for own in given.values():
            for one in own:
                found = shown(verdict, one.said["title"])
                right = found is not None and (
                    not one.line or found.start_line <= one.line <= found.end_line
                )
                yield one, right


WORDS: tuple[tuple[str, str, str, list[int]], ...] = (
    ("Division by zero", "high", "Nothing checks that the count is not zero.", [369]),
    ("Crashes for an empty record", "medium", "ZeroDivisionError where count is 0.", []),
    ("The documented total is not computed", "medium", "A quotient is no product.", [682]),
    ("Contract of load changed", "high", "Callers relied on a product.", []),
)


def duplicates(folder: Path) -> int:
    """Four agents report the same ten defects in other words: pairs that stay in the verdict."""
    repo = repository(folder, 1)
    head = sources(1)[1]["shop/m0.py"].split("\n")
    said: dict[str, Json] = {}
    places = [head.index(f"    total = record.amount / record.count_{n}") for n in range(PER_FILE)]
    for number, (name, (title, severity, detail, cwe)) in enumerate(zip(TEAM, WORDS, strict=True)):
        found = []
        for at in places:
            last = at + number % 2  # half of them quote the next line too
            quote = "\n".join(head[at : last + 1])
            one = _said(f"{title} in line {at + 1}", 0, at + 1, quote)
            found.append(one | {"end_line": last + 1, "severity": severity, "detail": detail}
                         | {"cwe": cwe, "rule": f"{name}.{number}", "category": name})  # fmt: skip
        said[name] = {"findings": found}
    verdict, _ = run(repo, team_reports(said))
    pairs = 0
    for at in places:
        here = [f for f in verdict.findings if f.start_line <= at + 1 <= f.end_line]
        here = [f for f in here if f.state == "open" and set(f.reported_by) & set(TEAM)]
        assert here, f"the defect of line {at + 1} is lost"
        pairs += len(here) * (len(here) - 1) // 2
    return pairs


def refuted(folder: Path, reviews: int, *, agreed: bool = False) -> int:
    """Ten invented critical findings a review, each refuted by a colleague: how many block.

    Args:
        agreed: a colleague of the same model family reports the same instead.
    """
    repo = repository(folder, 1)
    head = sources(1)[1]["shop/m0.py"].split("\n")
    blocking = 0
    for at in range(reviews):
        false, against = [], []
        for n in range(PER_FILE):
            line = f"    total = record.amount / record.count_{n}"
            one = _said(f"Remote code execution {at}-{n}", 0, head.index(line) + 1, line)
            one |= {"severity": "critical", "category": "security", "detail": "It calls eval."}
            false.append(one)
            fingerprint = claim_fingerprint(convert(one, ReportedFinding))
            evidence = {"source": "file", "name": "shop/m0.py", "quote": line.strip()}
            against.append(
                {
                    "fingerprint": fingerprint,
                    "reason": "The line divides two numbers; nothing is evaluated.",
                    "evidence": [evidence],
                }
            )
        said: dict[str, Json] = {"security": {"findings": false}, "qa": {"objections": against}}
        if agreed:
            said["qa"] = {"findings": false}
        verdict, _ = run(repo, team_reports(said))
        if verdict.verdict == "block":
            found = [shown(verdict, str(one["title"])) for one in false]
            blocking += sum(f is not None and f.severity == "critical" for f in found)
    return blocking


def reads(body: dict[str, Json], report: Response) -> Response:
    """What a careful agent does: read the change if it was not given, look around once, report."""
    text = json.dumps(body["messages"]) + json.dumps(body["system"])
    turns = sum(message["role"] == "assistant" for message in body["messages"])
    if "total = record.amount / record.count_0" not in text:
        return tool_call_reply(("git_diff", {}))
    if turns < 1:
        return tool_call_reply(
            ("read_file", {"path": "shop/m0.py"}), ("search", {"pattern": "load_"})
        )
    return report


class Cost(Struct, frozen=True):
    """What a review used: uncached and all input tokens, US dollars, requests up to a report."""

    uncached: int
    tokens: int
    usd: float
    requests: int


def cost(folder: Path, pattern: str | None, settings: str = "") -> Cost:
    """The same change and the same finding, by agents that read it as they must.

    Uncached are input tokens that are not read from the cache, whether written to it or not; a
    write costs what the list says. The judge's tokens count for both patterns, those of the lead
    for a team; agents of different models share nothing.
    """
    repo = repository(folder, 4, SETTINGS.replace("judge: false", "judge: true") + settings)
    line = "    total = record.amount / record.count_0"
    number = sources(4)[1]["shop/m0.py"].split("\n").index(line) + 1
    done = reports(summary="Read it.", findings=[_said("Division by zero", 0, number, line)])

    def act(body: dict[str, Json]) -> Response:
        return reads(body, done)

    ends = [says(summary="It divides (F1).", findings=["F1"])]
    lines: dict[str, Sequence[ServerReply]] = {
        "lead": [says(tasks=[]), *ends * 9],  # it agrees with what code proposes
        "judge": [judges(None)] * 9,
        "generalist": [act] * 40,
        **dict.fromkeys(TEAM, [act] * 40),
    }
    verdict, server = run(repo, lines, pattern=pattern)
    used = verdict.usage
    asked = [request.agent for request in server.requests]
    first = max(asked.count(name) for name in (*TEAM, "generalist"))
    return Cost(used.input_tokens - used.cached_tokens, used.input_tokens, used.usd, first)


def trivial_tokens(folder: Path, *, looks: int) -> int:
    """The input tokens of a review of four changed lines, in a repository with long guidance."""
    base, head = sources(1)
    guide = "".join(f"Rule {n}: name what a function does, not how.\n" for n in range(400))
    text = base["shop/m0.py"]
    changed = text.replace("    total = record.amount * 0\n", "    total = record.amount * 2\n", 1)
    changed = changed.replace('note.kind == "0"]', 'note.kind == "1"]', 1)
    assert changed != text, head
    repo = change(
        folder, {**POLICY, **base, "CONTRIBUTING.md": guide}, {"shop/m0.py": changed}
    ).path
    look = tool_call_reply(("read_file", {"path": "shop/m0.py"}), ("search", {"pattern": "load_"}))
    lines = {"generalist": [*[look] * looks, reports(summary="Read it.")]}
    verdict, server = run(repo, lines, pattern=None, run_tests=True)
    assert verdict.status == "complete", verdict.stop
    assert len(server.requests) == looks + 1
    offered = {tool["name"] for tool in server.requests[0].body["tools"]}
    assert offered == {"read_file", "search", "run_snippet"}
    return verdict.usage.input_tokens


def _report(**said: Any) -> Response:
    return reports(**said)


LGTM = Response((Text("LGTM"),), "end")
SCRIPTS: dict[str, list[ServerReply]] = {
    "empty reports": [_report(summary="")] * 9,
    "no JSON": [LGTM] * 30,
    "a report with text around it": [
        Response((Text('Here it is:\n```json\n{"findings": [], "checked": []}\n```'),), "end")
    ]
    * 9,
    "tools that do not exist": [tool_call_reply(("lint", {})), *[_report(summary="")] * 9],
    "arguments that do not exist": [
        tool_call_reply(("read_file", {"file": "shop/m0.py"})), *[_report(summary="")] * 9,
    ],
}  # fmt: skip


def checks_not_run(folder: Path, names: Sequence[str] = tuple(SCRIPTS)) -> dict[str, int]:
    """Required checks without a result, by script and pattern."""
    policy = {name: text for name, text in POLICY.items() if "verdict" not in name}
    base, head = sources(1)
    repo = change(
        folder, {**policy, ".diffcourt/config/defaults.yaml": SETTINGS, **base}, head
    ).path
    missing: dict[str, int] = {}
    for name in names:
        for pattern in ("team", "single"):
            lines = dict.fromkeys(("lead", "generalist", *TEAM), SCRIPTS[name])
            verdict, _ = run(repo, lines, pattern=pattern)
            missing[f"{name}, {pattern}"] = sum(
                check.status == "not_run" for check in verdict.required_checks
            )
    return missing
