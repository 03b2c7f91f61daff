"""How much effort a review makes: the tier of a change, what raises it, and what each tier costs."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.app.cost_estimate import estimate_cost
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.verdict.document_parts import Assignment
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response, Text
from orchestrator.errors import ConfigError, ModelError
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.markdown import render_markdown
from orchestrator.report.verdict_text import render_verdict
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.providers.whole_kit import TEAM, judges, reports, says
from tests.review.review_kit import change, options, review
from tests.review.team_kit import facts
from tests.scripted_model import ScriptedModel, tool_call_reply

pytestmark = pytest.mark.either_loop

SUMS = "".join(f"def sum_{n}(x):\n    y = x + {n}\n    return y\n\n\n" for n in range(30))
BASE = {"shop/sums.py": SUMS, "README.md": "# Shop\n", "shop/__init__.py": ""}
SMALL = {"shop/sums.py": SUMS.replace("y = x + 7\n", "y = x + 8\n")}
VIEWS = """\
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse


{}def orders(request):
    return HttpResponse("all")
"""
QUERY = """\
import sqlite3

from flask import request


def find():
    name = {}
    return sqlite3.connect("a").execute("select * from t where name = '" + name + "'")
"""
FIXES = [(f"Fix sum {n}", {"shop/sums.py": SUMS + f"# {n}\n"}) for n in range(5)]

Files = Mapping[str, Any]
CASES: dict[str, tuple[str, list[str], Files, Files]] = {
    "a value in a function": ("trivial", ["2 changed lines"], {}, SMALL),
    "small changes of what is not sensitive": (
        "trivial",
        ["6 changed lines"],
        {
            "docs/login.md": "a\n",
            "author_namespace.py": "A = 1\n",
            "tests/test_payment.py": "A = 1\n",
        },
        {
            "docs/login.md": "b\n",
            "author_namespace.py": "A = 2\n",
            "tests/test_payment.py": "A = 2\n",
        },
    ),
    "prose, a form for issues, and a new function": (
        "trivial",
        ["11 changed lines"],
        {},
        {
            "README.md": "# The shop\n",
            ".github/ISSUE_TEMPLATE/bug.md": "What?\n",
            "shop/more.py": (
                '"""More.\n\nIt has the permissions of\nthe caller.\n"""\n# No password\n'
                "def more(deserializer):\n    return deserializer\n"
            ),
        },
    ),
    "forty lines": (
        "ordinary",
        ["60 lines"],
        {},
        {"shop/sums.py": SUMS.replace("y = x", "y = 1 + x")},
    ),
    "few long lines": (
        "ordinary",
        ["tokens", "lines that are cut: cut.txt"],
        {},
        {"a.txt": ("word " * 190 + "\n") * 19, "cut.txt": "word " * 300 + "\n"},
    ),
    "what is a little sensitive": (
        "ordinary",
        [
            "1 public names",
            "links, moves and modes: shop/moved.py",
            "configuration: app/settings.py",
            "lock files: yarn.lock",
        ],
        {
            "app/settings.py": "A = 1\n",
            "shop/move.py": SUMS.replace("sum", "all"),
            "yarn.lock": "a@1:\n  version 1\n",
        },
        {
            "shop/sums.py": SUMS.replace("def sum_3(x)", "def sum_3(x, z)"),
            "shop/move.py": None,
            "shop/moved.py": SUMS.replace("sum", "all"),
            "app/settings.py": "A = 2\n",
            "yarn.lock": "a@1:\n  version 2\n",
        },
    ),
    "what is sensitive": (
        "risky",
        [
            "deployment: web/DockerFile, deploy/app.yaml",
            "authentication: a/Login.java, web/OAuthClient.ts, web/SignIn.tsx",
            "permissions: shop/permissions.py",
            "payments: pay/refunds.go",
            "cryptography: hmac",
            "deserialization: pickle",
            "isolation: infra/iptables.sh, net/NetworkPolicy.yml",
            "migrations: app/migrations/0002_name.py",
            "CI: .github/workflows/ci.yml",
            "dependencies: go.mod",
            "removed controls: security.access-control-removed",
            "data flow: security.sql-injection",
            "rules of reviews: .diffcourt/config/defaults.yaml",
        ],
        {
            "web/DockerFile": "FROM a\n",
            "deploy/app.yaml": "a: 1\n",
            "a/Login.java": "//\n",
            "web/OAuthClient.ts": "let a = 1;\n",
            "web/SignIn.tsx": "let a = 1;\n",
            "shop/permissions.py": SUMS.replace("sum", "all"),
            "pay/refunds.go": "a\n",
            "a.py": "KEY = 1\n",
            "go.mod": "module a\n",
            "shop/views.py": VIEWS.format("@login_required\n"),
            "shop/find.py": QUERY.format('"x"'),
        },
        {
            "web/DockerFile": "FROM b\n",
            "deploy/app.yaml": "a: 2\n",
            "a/Login.java": "// x\n",
            "web/OAuthClient.ts": "let a = 2;\n",
            "web/SignIn.tsx": "let a = 2;\n",
            "shop/permissions.py": None,
            "shop/other.py": SUMS.replace("sum", "all"),
            "pay/refunds.go": "b\n",
            "a.py": "import hmac\nimport pickle\n\nKEY = hmac, pickle\n",
            "infra/iptables.sh": "iptables -P INPUT DROP\n",
            "net/NetworkPolicy.yml": "a: 1\n",
            "app/migrations/0002_name.py": "dependencies = []\n",
            ".github/workflows/ci.yml": "on: push\npermissions: {}\njobs: {}\n",
            "go.mod": "module b\n",
            "shop/views.py": VIEWS.format(""),
            "shop/find.py": QUERY.format('request.args["name"]'),
            ".diffcourt/config/defaults.yaml": "effort: {level: quick}\n",
        },
    ),
    "one sensitive file": ("risky", ["authentication"], {}, {"web/SignIn.tsx": "let a = 1;\n"}),
}


def script(**other: Sequence[Any]) -> ScriptedModel:
    """Everybody reports at once that nothing was found; nobody answers twice."""
    silent = {name: [reports(summary="Read.")] for name in (*TEAM, "generalist")}
    lead = [says(summary="It changes something.", tasks=[]), says(summary="Done.", findings=[])]
    return ScriptedModel({**silent, "lead": lead, "judge": [judges(None)], **other})


def effort(settings: ReviewSettings, **given: Any) -> ReviewSettings:
    """A review with a model, with these settings of its effort, in one iteration."""
    once = replace(settings.bounds, iterations=1)
    chosen = replace(settings.effort, **given)
    return replace(settings, provider="scripted", effort=chosen, bounds=once)


def assigned(verdict: Verdict) -> Assignment:
    assert verdict.assignment is not None
    return verdict.assignment


async def reviewed(
    path: Path, base: Files, head: Files, model: ScriptedModel | None = None, **given: Any
) -> Verdict:
    repo = change(path, {**BASE, **base}, head)
    return await review(repo, model or script(), adjust=partial(effort, **given))


@pytest.mark.parametrize("name", CASES)
async def test_code_tells_the_tier_of_a_change(name: str, tmp_path: Path) -> None:
    tier, reasons, base, head = CASES[name]
    model = script()
    verdict = await reviewed(tmp_path, base, head, model)
    found = assigned(verdict)
    assert found.tier == tier, found
    told = "; ".join(found.tier_reasons)
    assert [reason for reason in reasons if reason not in told] == [], told
    readers = {request.agent for request in model.requests}
    assert (readers == {"generalist"}) == (tier == "trivial")
    assert ("security" in readers) == (tier == "risky")
    schemas = [str(one.output_schema) for one in model.requests if one.agent == "generalist"]
    asked = [str(one.messages).count("Answer findings of others") for one in model.requests]
    answerable = "Findings of analyzers (0)" not in str(model.requests)
    of_a_team = answerable and tier != "trivial"
    assert [one for one in schemas if ("duplicate_of" in one) != of_a_team] == []
    may_answer = "'responses': {'type': 'array', 'items'" in "".join(schemas)
    assert (may_answer, max(asked)) == (answerable, int(answerable))
    text = " ".join(render_verdict(verdict).split())
    assert f"Effort {tier} (" in text


async def test_a_claim_about_a_trivial_change_is_verified_and_nothing_else_is_asked(
    tmp_path: Path,
) -> None:
    line = SMALL["shop/sums.py"].splitlines().index("    y = x + 8") + 1
    claim = {
        "path": "shop/sums.py", "start_line": line, "end_line": line, "quote": "y = x + 8",
        "title": "Sums are wrong", "severity": "high", "confidence": 0.9, "detail": "Off by one.",
        "cwe": ["CWE-682", 193],
    }  # fmt: skip

    def verify(request: Request) -> Response:
        (shown,) = facts(request)["claims"]
        return says(verdicts=[{"finding": shown["id"], "verdict": "cannot_tell", "reason": "No."}])

    report = reports(summary="Read.", findings=[claim], responses=[])  # there is none to answer
    more = tool_call_reply(*[("search", {"pattern": f"sum_{n}"}) for n in range(9)])
    model = script(generalist=[more, report], verifier=[verify])
    repo = change(tmp_path, BASE, SMALL)
    verdict = await review(repo, model, adjust=effort, verifier=True)
    assert (assigned(verdict).tier, verdict.verdict) == ("trivial", "needs_changes")
    assert verdict.findings[0].cwe == (682, 193)
    assert [request.agent for request in model.requests] == ["generalist"] * 2 + ["verifier"]
    # It was told that it may look no further, and reported: nothing was cut off.
    assert (verdict.status, verdict.stop.reason) == ("complete", "done")
    assert any("could not look further with search" in one for one in verdict.stop.uncertain)


async def test_earlier_fixes_of_a_file_raise_the_tier(tmp_path: Path) -> None:
    repo = change(tmp_path, BASE, SMALL, FIXES)
    verdict = await review(repo, script(), adjust=effort)
    assert assigned(verdict).tier == "ordinary"
    assert assigned(verdict).tier_reasons == ("5 earlier fixes",)


async def test_a_change_of_an_outsider_is_not_trivial(tmp_path: Path) -> None:
    repo = change(tmp_path, BASE, SMALL)
    verdict = await review(repo, script(), adjust=effort, tier="outside")
    assert assigned(verdict).tier_reasons == ("its author is of the tier outside",)
    assert assigned(verdict).tier == "ordinary"


@pytest.mark.parametrize(
    ("given", "head", "tier"),
    [
        ({"level": "thorough"}, SMALL, "risky"),
        ({"level": "standard"}, {"auth.py": "A = 1\n"}, "ordinary"),
        ({"level": "quick"}, {"auth.py": "A = 1\n"}, "trivial"),
        ({"level": "quick", "minimum": "standard"}, SMALL, "ordinary"),
        ({"minimum": "thorough"}, SMALL, "risky"),
        ({"paths": {"shop/**": "thorough"}}, SMALL, "risky"),
        ({"level": "quick", "paths": {"/README.md": "standard"}}, SMALL, "trivial"),
    ],
)
async def test_effort_is_what_is_asked_for_and_at_least_the_minimum_of_base(
    given: dict[str, Any], head: Files, tier: str, tmp_path: Path
) -> None:
    verdict = await reviewed(tmp_path, {}, head, **given)
    assert assigned(verdict).tier == tier


@pytest.mark.attack("a change lowers the effort of its own review")
async def test_a_change_cannot_lower_the_effort_of_its_own_review(tmp_path: Path) -> None:
    ours = {
        ".diffcourt/config/defaults.yaml": "effort: {minimum: standard}\n",
        ".diffcourt/config/effort.yaml": "areas: {ours: {tier: risky, words: [sums]}}\n",
    }
    lowered = {
        ".diffcourt/config/defaults.yaml": "effort: {level: quick, minimum: quick}\n",
        ".diffcourt/config/effort.yaml": "areas: {ours: {tier: trivial}}\n",
        ".gitattributes": "* linguist-generated\n",
        **SMALL,
    }
    repo = change(tmp_path, {**BASE, **ours}, lowered)
    found = assigned(await review(repo, script(), adjust=effort))
    assert found.tier == "risky"
    assert "ours: shop/sums.py" in found.tier_reasons
    # Base's minimum holds, whoever asks for less.
    quick = await review(repo, script(), adjust=partial(effort, level="quick"))
    assert assigned(quick).tier == "ordinary"


async def test_a_link_is_not_trivial(tmp_path: Path) -> None:
    repo = change(tmp_path, BASE, {})
    repo.path.joinpath("here").symlink_to("README.md")
    repo.commit({})
    verdict = await review(repo, script(), adjust=effort)
    assert assigned(verdict).tier_reasons == ("links, moves and modes: here",)
    assert assigned(verdict).tier == "ordinary"


async def test_a_trivial_change_is_one_short_call_that_says_so(tmp_path: Path) -> None:
    guide = "".join(f"Rule {n}: write this and that, and be kind.\n" for n in range(150))
    base = {"CONTRIBUTING.md": guide, "shop/AGENTS.md": "Sums are integers.\n"}
    model = script()
    verdict = await reviewed(tmp_path, base, SMALL, model)
    (request,) = model.requests
    text = str(request.messages)
    assert "Sums are integers." in text
    assert "be kind" not in text
    assert {tool.name for tool in request.tools} == {"read_file", "search"}
    assert "score" not in str(request.output_schema)[:400]
    assert verdict.status == "complete"
    assert (verdict.confidence, len(verdict.agents)) == (None, 1)
    shown = {one.path: (one.shown, one.why_not) for one in verdict.guidance}
    assert shown["CONTRIBUTING.md"] == (0, "a trivial change is shown only what concerns its files")
    assert "; by generalist" in " ".join(render_verdict(verdict).split())
    assert "Effort: trivial" in render_markdown(verdict, FormatInputs())


async def test_the_agent_of_a_trivial_change_may_look_twice_and_still_reports(
    tmp_path: Path,
) -> None:
    look = ("read_file", {"path": "shop/sums.py", "start_line": 1, "end_line": 40})
    lines = [tool_call_reply(look), tool_call_reply(look), reports(summary="Read.")]
    model = script(generalist=lines)
    verdict = await reviewed(tmp_path, {}, SMALL, model)
    assert verdict.status == "complete"
    assert "Report now" in str(model.requests[-1].messages[-1])


async def test_an_ordinary_change_takes_at_most_five_requests(tmp_path: Path) -> None:
    look = tool_call_reply(("search", {"pattern": "sum_3"}))
    model = script(generalist=[look, reports(summary="Read.")], judge=[look, judges(None)])
    verdict = await reviewed(tmp_path, {}, {"shop/sums.py": SUMS * 2}, model)
    assert assigned(verdict).tier == "ordinary"
    assert len(model.requests) <= 5
    assert {request.agent for request in model.requests} == {"generalist", "judge"}


@pytest.mark.parametrize(
    ("beside", "more", "readers"),
    [
        (["security"], [], ["generalist", "security"]),
        ([], [], ["generalist"]),
        ([], ["crowds"], ["generalist", "crowds"]),  # whose prompt nobody else has
        (TEAM, [], TEAM),
    ],
)
async def test_of_a_risky_change_each_playbook_has_one_reader(
    beside: list[str], more: list[str], readers: list[str], tmp_path: Path
) -> None:
    crowds = "---\nname: crowds\ndescription: Finds crowds.\ntools: [search]\nmetadata: {contract: report}\n---\nFind them.\n"
    base = {**BASE, ".diffcourt/agents/crowds.md": crowds}
    head = {f"shop/auth{n}.py": SUMS for n in range(6)}
    model = script(crowds=[reports(summary="Read.")])

    def adjust(settings: ReviewSettings) -> ReviewSettings:
        auto = replace(settings.auto, beside=tuple(beside))
        return effort(replace(settings, auto=auto, specialists=(*TEAM, *more)))

    verdict = await review(change(tmp_path, base, head), model, adjust=adjust)
    found, asked = assigned(verdict), {one.agent: one.messages[0].blocks for one in model.requests}
    assert {share.agent: set(share.paths) for share in found.shares} == {
        name: {*head} for name in readers
    }
    assert found.pattern == ("team" if len(readers) > 1 else "single")
    assert ("lead" in asked) == ("generalist" not in readers)
    assert len({asked[name][0] for name in readers}) == 1
    shown = "".join(str(asked[name][1]) for name in readers)
    told = Counter(re.findall(r"# Skill: ([\w-]+)", shown))
    assert max(told.values()) == 1
    bounded = {name for name in readers if "at most 3 turns, 8 tool calls" in str(asked[name][1])}
    assert bounded == (set(beside) if "generalist" in readers else set())
    needed = "security-triangulation regression-risk test-strength api-compatibility dependency-structure"
    assert set(told) >= set(needed.split())
    assert verdict.stop.uncertain == ()


async def test_the_single_agent_reads_every_file_though_the_settings_name_it_beside_itself(
    tmp_path: Path,
) -> None:
    def adjust(settings: ReviewSettings) -> ReviewSettings:
        auto = replace(settings.auto, beside=("docs", "security"))
        return effort(replace(settings, auto=auto, single="docs"))

    head = {"shop/auth.py": SUMS.replace("def sum", "def _sum"), "docs/use.md": "# Use\n"}
    model = script(docs=[reports(summary="Read.")])
    verdict = await review(change(tmp_path, BASE, head), model, adjust=adjust)
    (own,) = (share for share in assigned(verdict).shares if share.agent == "docs")
    assert set(own.paths) == {*head}


CUT = Response((Text('{"findings": ['),), "max_tokens")


@pytest.mark.parametrize(
    "fails",
    [
        [ModelError("out of order")],
        [Response((Text("No."),), "refused")],
        [Response((Text("Nothing here."),), "end")] * 2,
        [CUT] * 2,
    ],
)
async def test_who_fails_beside_the_single_agent_is_a_gap_and_is_asked_again_alone(
    fails: list[Any], tmp_path: Path
) -> None:
    repo = change(tmp_path, BASE, {"auth.py": SUMS})
    once = await review(repo, script(security=fails * 2), adjust=effort)
    assert once.status == "incomplete"
    assert [skip.tool for skip in once.skipped if skip.gap] == ["security"]
    model = script(security=[*fails, reports(summary="Read.")], judge=[judges(None)] * 2)

    def adjust(settings: ReviewSettings) -> ReviewSettings:
        return replace(effort(settings), bounds=replace(settings.bounds, iterations=2))

    verdict = await review(repo, model, adjust=adjust)
    readers = [(one.agent, one.status) for one in verdict.agents if one.agent != "judge"]
    assert readers == [("generalist", "ok"), ("security", "failed"), ("security", "ok")]


async def test_a_resumed_run_keeps_the_tier_that_it_began_with(tmp_path: Path) -> None:
    repo, clock = change(tmp_path, BASE, SMALL), SystemClock()
    whole = await review(repo, script(), adjust=effort)
    store = MemoryStore(clock)
    await store.create("run", clock.now(), {})
    with anyio.CancelScope() as run:

        def interrupted(request: Request) -> Response:
            run.cancel()
            return reports(summary="Read.")

        await review(repo, script(generalist=[interrupted]), adjust=effort, store=store)
    assert run.cancelled_caught
    resumed = await review(repo, script(generalist=[]), adjust=effort, store=store)
    again = await review(repo, script(generalist=[]), adjust=effort, store=store)
    assert assigned(resumed) == assigned(whole) == assigned(again)
    assert resumed.digest == whole.digest == again.digest


@pytest.mark.parametrize(
    ("path", "text", "error"),
    [
        ("effort", "findings: {ours: {tier: risky, severity: low, tools: [tain]}}", "tool 'tain'"),
        ("effort", "areas: {ours: {tier: risky, paths: ['!a']}}", "areas.ours: the pattern '!a'"),
        ("effort", "measures: {words: {risky: 3}}", "'public names'"),
        ("defaults", "effort: {paths: {'!a': thorough}}", "effort.paths: the pattern '!a'"),
        ("defaults", "effort: {minimum: risky}", "minimum"),
        ("defaults", "auto: {beside: [nobody]}", "nobody"),
    ],
)
def test_an_error_in_the_table_of_effort_is_named(
    path: str, text: str, error: str, tmp_path: Path
) -> None:
    name = f".diffcourt/config/{path}.yaml"
    repo = change(tmp_path, {**BASE, name: f"{text}\n"}, SMALL).path
    with pytest.raises(ConfigError, match=re.escape(error)) as raised:
        estimate_cost(options(repo, provider="anthropic"))
    assert name in str(raised.value)


def test_an_estimate_follows_the_tier(tmp_path: Path) -> None:
    repo = change(tmp_path, BASE, SMALL).path
    few = estimate_cost(options(repo, provider="anthropic", allow_spending=True))
    assert [share.agent for share in few.shares] == ["generalist"]
    assert few.total[0].tokens <= 15_000
    assert any("trivial (2 changed lines" in note for note in few.notes)
    many = estimate_cost(
        options(repo, provider="anthropic", allow_spending=True, effort="thorough")
    )
    assert [share.agent for share in many.shares] == ["generalist", "security", "verifier", "judge"]
