"""Slips of models in quotations and line numbers are corrected; invented quotations are not."""

from pathlib import Path

from msgspec import convert

from orchestrator.code_review.agent_report_contracts import ReportedFinding
from orchestrator.code_review.findings.agent_reports import read_claim
from orchestrator.code_review.findings.citations import locate_finding
from orchestrator.code_review.findings.evidence_from_journal import Work
from orchestrator.code_review.findings.located_findings import LocatedFinding, Rejection
from orchestrator.code_review.findings.verdict_findings import build_findings
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.engine.agent_loop import LoopResult
from tests.review.review_kit import change, workspace_of
from tests.review.test_merging import POLICY

FILLER = "".join(f"def filler_{number}():\n    return {number}\n\n\n" for number in range(30))
OLD = (
    "import hmac\n\n\n"
    "def check(request, user):\n"
    "    if not user.is_admin:\n"
    "        raise PermissionError(user)\n"
    "    return load(request)\n\n\n"
) + FILLER
NEW = (
    "import hmac\n\n\n"
    "def check(request, user):\n"
    "    token = request.headers['token']\n"
    '    if token == "s3cr\u202eet-Value":\n'
    "        return load(request,\n"
    "                    depth=9)\n"
    "    return load(request)\n\n\n"
) + FILLER
TOKEN = "    token = request.headers['token']"


def claim(quote: str, line: int = 5, end: int = 0, **more: object) -> LocatedFinding:
    given = {
        "path": "app.py", "start_line": line, "end_line": end or line, "quote": quote,
        "title": "Wrong", "severity": "high", **more,
    }  # fmt: skip
    return read_claim(convert(given, ReportedFinding), "qa")


async def place(workspace: ReviewWorkspace, finding: LocatedFinding) -> object:
    found = await locate_finding(workspace, finding)
    if isinstance(found, Rejection):
        return found.reason
    return found.side, found.start_line, found.end_line


SLIPS = {
    "as it stands": (TOKEN, 5, (5, 5)),
    "one line off": (TOKEN, 6, (5, 5)),
    "twenty lines off": (TOKEN, 25, (5, 5)),
    "beyond the file": (TOKEN, 4000, (5, 5)),
    "other white space": ("token  =\trequest.headers[ 'token' ]", 5, (5, 5)),
    "wrapped otherwise": ("return load(request, depth=9)", 7, (7, 8)),
    "a fence": (f"```python\n{TOKEN}\n```", 5, (5, 5)),
    "back quotes": (f"`{TOKEN.strip()}`", 5, (5, 5)),
    "the prefix of a diff": (f"+{TOKEN}\n+    if token ==", 5, (5, 6)),
    "a quotation in Markdown": (f"> {TOKEN}\n>     if token ==", 5, (5, 6)),
    "line numbers": (f"5: {TOKEN}\n6:     if token ==", 5, (5, 6)),
    "a numbered diff": (f"+5: {TOKEN}\n+6:     if token ==", 5, (5, 6)),
    "cut at its end": ("token = request.head...", 5, (5, 5)),
    "cut in its middle": ("token = request… ['token']", 5, (5, 5)),
    "quotation marks": (f'"{TOKEN.strip()}"', 5, (5, 5)),
    "L before a number": (f"L5: {TOKEN}", 5, (5, 5)),
    "an escaped character": ('if token == "s3cr\\u202eet-Value":', 6, (6, 6)),
    "escaped quotes": ('if token == \\"s3cr', 6, (6, 6)),
    "HTML entities": ("if token == &quot;s3cr", 6, (6, 6)),
    "a redacted secret": ('if token == "[redacted]":', 6, (6, 6)),
    "an ellipsis": (f"{TOKEN}\n    ...\n        return load(request,", 5, (5, 7)),
    "a vague range": (TOKEN, 1, (5, 5)),
    "./ before the path": (TOKEN, 5, (5, 5)),
}


async def test_a_slip_in_a_quotation_costs_no_finding(tmp_path: Path) -> None:
    found = {}
    async with workspace_of(change(tmp_path, {"app.py": OLD}, {"app.py": NEW})) as workspace:
        for slip, (quote, line, _) in SLIPS.items():
            path = "./app.py" if "./" in slip else "app.py"
            last = 60 if "vague" in slip else 0
            found[slip] = await place(workspace, claim(quote, line, last, path=path))
    assert found == {slip: ("head", *lines) for slip, (_, _, lines) in SLIPS.items()}


INVENTED = [
    "token = request.cookies['token']",
    "if token == user.token:",
    "```\neval(request)\n```",
    "token = request.headers['token']\n    ...\n    eval(request)",
    "[redacted]",
    "...",
    "",
    "x",
    "a[redacted]b",
    "evil = request...",
    "request.headers... eval(request)",
    "5:",
]


async def test_an_invented_quotation_is_found_nowhere(tmp_path: Path) -> None:
    async with workspace_of(change(tmp_path, {"app.py": OLD}, {"app.py": NEW})) as workspace:
        for quote in INVENTED:
            for line in (1, 5, 40):
                found = await place(workspace, claim(quote, line))
                assert found == "its quote is not in app.py", quote


async def test_a_finding_quotes_the_lines_as_they_stand(tmp_path: Path) -> None:
    async with workspace_of(change(tmp_path, {"app.py": OLD}, {"app.py": NEW})) as workspace:
        found = await locate_finding(workspace, claim("```\n+token=request.headers['token']\n```"))
        assert isinstance(found, LocatedFinding)
        assert found.quote == TOKEN
        hidden = await locate_finding(workspace, claim('if token == "[redacted]":', 6))
        assert isinstance(hidden, LocatedFinding)
        assert hidden.quote == 'if token == "[redacted]":'


async def test_a_removed_line_is_quoted_from_base(tmp_path: Path) -> None:
    async with workspace_of(change(tmp_path, {"app.py": OLD}, {"app.py": NEW})) as workspace:
        quote = "    if not user.is_admin:\n        raise PermissionError(user)"
        for written in (quote, "-" + quote.replace("\n", "\n-")):
            assert await place(workspace, claim(written, 4)) == ("base", 5, 6)


async def test_a_deleted_file_is_quoted_from_base(tmp_path: Path) -> None:
    repo = change(tmp_path, {"gone.py": "def f():\n    return 1\n"}, {"gone.py": None})
    async with workspace_of(repo) as workspace:
        assert await place(workspace, claim("return 1", 9, path="gone.py")) == ("base", 2, 2)


async def test_of_several_places_the_nearest_counts_and_a_far_one_does_not(tmp_path: Path) -> None:
    twice = "x = call(a)\n" + "pass\n" * 20 + "x = call(a)\n" + "pass\n" * 200
    async with workspace_of(change(tmp_path, {}, {"app.py": twice})) as workspace:
        assert await place(workspace, claim("x = call(a)", 5)) == ("head", 1, 1)
        assert await place(workspace, claim("x = call(a)", 18)) == ("head", 22, 22)
        assert await place(workspace, claim("x = call(a)", 200)) == ("its quote is not in app.py")


async def test_a_line_near_the_change_has_the_nearest_changed_line_as_its_cause(
    tmp_path: Path,
) -> None:
    async with workspace_of(change(tmp_path, {"app.py": OLD}, {"app.py": NEW})) as workspace:
        near = await locate_finding(workspace, claim("return load(request)", 9))
        assert isinstance(near, LocatedFinding)
        assert near.because_of is not None
        assert (near.start_line, near.because_of.line) == (9, 8)
        far = await locate_finding(workspace, claim("def filler_20():", 9))
        assert isinstance(far, Rejection)
        assert (far.cause, "names no changed line" in far.reason) == ("outside", True)
        cause = {"path": "app.py", "line": 12}
        moved = await locate_finding(workspace, claim("def filler_20():", 9, because_of=cause))
        assert isinstance(moved, LocatedFinding)
        assert moved.because_of is not None
        assert moved.because_of.line == 8


async def test_a_corrected_finding_replaces_the_refused_one(tmp_path: Path) -> None:
    def work(round_: int, quote: str) -> Work:
        finding = {
            "path": "app.py", "start_line": 5, "end_line": 5, "quote": quote,
            "title": "Wrong", "severity": "high",
        }  # fmt: skip
        return Work(round_, LoopResult("qa", "ok", {"findings": [finding], "checked": []}))

    refused, held = work(1, "no such text here"), work(2, TOKEN)
    async with workspace_of(change(tmp_path, {"app.py": OLD}, {"app.py": NEW})) as workspace:
        for team in ([refused, held], [held, refused], [refused, held, held]):
            found = await build_findings(workspace, [], team, lambda tool: (), POLICY)
            assert [finding.start_line for finding in found.findings] == [5]
            assert found.rejected == ()
