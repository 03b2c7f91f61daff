"""Findings of agents that a test proves: base passes it, head fails it as predicted, twice."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.code_review.agents.prover import FIXED, GONE, with_proofs
from orchestrator.code_review.findings.verdict_findings import Synthesis
from orchestrator.code_review.verdict.document_parts import DOUBTED, Proof
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response
from orchestrator.mcp_server.answers import explain, list_findings
from orchestrator.posting.answer_command import explain_finding
from orchestrator.report.formats import FormatInputs, render_format
from orchestrator.report.formats.markdown import describe_tests
from orchestrator.report.verdict_text import render_verdict
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.review.proofs.test_prove_finding import PYTEST, TOTAL, UNITTEST, as_method
from tests.review.push_kit import UNREAD, alone, judged, said
from tests.review.review_kit import PYTEST_ALONE, change, review
from tests.review.team_kit import facts, scores
from tests.scripted_model import ScriptedModel, ScriptedReply, text_reply

BASE = "def total(prices):\n    return sum(prices)\n\n\ndef label(name):\n    return name.upper()\n"
HEAD = BASE.replace("sum(prices)", "sum(prices[1:])")
QUOTE = "    return sum(prices[1:])"
TEST = as_method(TOTAL)
OF_PYTEST = "from shop import total\n\n\ndef test_total():\n    assert total([2, 3]) == 5\n"


def settings(command: Sequence[str] = UNITTEST.command, **more: object) -> Mapping[str, str]:
    tests = {"command": command, "seconds": 20, **more}
    return {".diffcourt/config/defaults.yaml": f"tests: {json.dumps(tests)}\n", **PYTEST_ALONE}


def claim(**more: object) -> dict[str, object]:
    return {
        "path": "shop.py", "start_line": 2, "end_line": 2, "quote": QUOTE, "severity": "high",
        "title": "total() loses the first price", "confidence": 0.6, **more,
    }  # fmt: skip


def written(test: str = TEST, **more: object) -> dict[str, object]:
    return {
        "finding": "F1", "claim": "total([2, 3]) is 3", "path": "tests/test_claim.py",
        "test": test, "exception": "AssertionError", "value": "3 != 5", **more,
    }  # fmt: skip


def writes(*tests: Mapping[str, object]) -> Response:
    return text_reply(json.dumps({"summary": "written", "tests": list(tests)}))


async def reviewed(
    path: Path,
    *replies: ScriptedReply,
    base: Mapping[str, str] | None = None,
    head: Mapping[str, str | None] | None = None,
    more: Mapping[str, str] | None = None,
    run_tests: bool = True,
    **told: object,
) -> Verdict:
    before = {"shop.py": BASE, **(settings() if more is None else more), **(base or {})}
    repo = change(path, before, {"shop.py": HEAD, **(head or {})})
    lines = {"generalist": [said(claim(**told))], "prover": list(replies)}
    return await review(repo, ScriptedModel(lines), adjust=alone, run_tests=run_tests, prover=True)


def only(verdict: Verdict) -> Finding:
    (finding,) = (one for one in verdict.findings if "generalist" in one.reported_by)
    return finding


async def test_a_test_that_base_passes_and_head_fails_as_predicted_proves_the_finding(
    namespaces: None, tmp_path: Path
) -> None:
    test = written(OF_PYTEST, value="3 == 5", not_shown="what carts do")
    verdict = await reviewed(tmp_path, writes(test), more=settings(PYTEST.command))
    finding = only(verdict)
    (proof,) = finding.proofs
    assert (proof.state, proof.reason) == ("reproduced", "")
    assert (finding.support, finding.confidence) == ("proven", 0.95)
    assert "assert 3 == 5" in proof.head
    assert "1 passed" in proof.base
    assert re.fullmatch(r"Python [\d.]+, pytest-[\d.]+", proof.versions)
    assert verdict.verdict == "needs_changes"
    for shown in (describe_tests(finding), render_format("html", verdict, FormatInputs())):
        assert "Add this test, that base passes and head fails: total(" in shown
        assert "tests/test_claim.py" in shown
    for shown in (
        describe_tests(finding),
        render_format("html", verdict, FormatInputs()),
        render_verdict(verdict),
    ):
        assert "is 3; it does not show: what carts do" in " ".join(shown.split())
    assert replace(proof, not_shown=" \n").whole_claim == proof.claim
    assert (
        replace(proof, claim="It is 3.", not_shown="x").whole_claim
        == "It is 3; it does not show: x"
    )


async def test_a_claim_of_which_one_third_is_shown_is_not_told_as_proven_as_a_whole(
    namespaces: None, tmp_path: Path
) -> None:
    lost = as_method("self.assertEqual(shop.label('a'), 'A')")
    mocked = "import shop\nfrom unittest.mock import Mock\n\n\ndef test_mock():\n    assert shop.total(Mock()) == 5\n"
    tests = [
        written(),
        written(lost, claim="label() is lost", path="tests/test_b.py", value="'a' != 'A'"),
        written(mocked, claim="carts are emptied", path="tests/test_c.py"),
    ]
    verdict = await reviewed(tmp_path, writes(*tests), writes(*tests[1:]), severity="critical")
    finding = only(verdict)
    assert verdict.verdict == "needs_changes"
    (reason,) = verdict.reasons
    assert (
        reason
        == f"1 finding ({finding.id}) at or above critical, proven in part and so not blocking"
    )
    assert [one.state for one in finding.proofs] == ["reproduced", "inconclusive", "inconclusive"]
    assert finding.proofs[0].not_shown == "carts are emptied; label() is lost"
    assert finding.support == "proven"
    rest = "is 3; it does not show: carts are emptied; label() is lost"
    html, *formats = (render_format(one, verdict, FormatInputs()) for one in (
        "html", "markdown", "sarif", "github", "rdjson", "junit", "checkstyle"))  # fmt: skip
    for shown in (html, render_verdict(verdict), describe_tests(finding)):
        assert rest in " ".join(shown.split())
    calls = map(json.dumps, (list_findings(verdict, 0), explain(verdict, finding)))
    texts = (
        explain_finding(finding, {}),
        render_verdict(verdict),
        render_verdict(verdict, detail="brief"),
    )
    for shown in (html, *formats, *calls, *texts):
        assert "proven in part" in " ".join(shown.split()).lower()


@pytest.mark.attack("test that fails by a harmless difference at the cited lines")
@pytest.mark.parametrize("says", ["refuted", "confirmed", ""])
async def test_what_a_test_shows_blocks_unless_the_verifier_finds_that_it_is_not_the_harm(
    says: str, namespaces: None, tmp_path: Path
) -> None:
    def verifier(request: Request, says: str = says) -> Response:
        (shown,) = facts(request)["claims"]
        (test,) = shown["tests"]
        assert (test["test"], "OK" in test["base"], "3 != 5" in test["head"]) == (TEST, True, True)
        quotes = [
            {"file": "shop.py", "quote": text} for text in (QUOTE.strip(), "def total(prices):")
        ]
        given = {
            "finding": shown["id"],
            "verdict": says,
            "reason": "No money is lost.",
            "quotes": quotes,
        }
        return text_reply(json.dumps({"verdicts": [given] if says else []}))

    told = claim(severity="critical", title="Customers pay for what others buy")
    lines: dict[str, list[ScriptedReply]] = {
        "generalist": [said(told)], "prover": [writes(written())], "verifier": [verifier],
    }  # fmt: skip
    model = ScriptedModel(lines)
    repo = change(tmp_path, {"shop.py": BASE, **settings()}, {"shop.py": HEAD})
    look = partial(review, repo, adjust=alone, run_tests=True, prover=True, verifier=True)
    verdict = await look(model)
    model.finish()
    finding = only(verdict)
    assert (finding.support, finding.severity) == ("proven", "critical")
    if says != "refuted":
        assert verdict.verdict == "block"
        return
    assert (verdict.verdict, finding.support_told) == ("needs_changes", "proven in part")
    assert finding.proofs[0].not_shown == DOUBTED
    (objection,) = finding.objections
    assert (objection.reason, objection.refutes) == ("No money is lost.", True)
    repo.commit({"notes.md": "Of another head.\n"}, "Note")
    lines = {"generalist": [said()], "verifier": [partial(verifier, says="confirmed")]}
    assert (await look(ScriptedModel(lines), base="HEAD~2", previous=verdict)).verdict == "block"


@pytest.mark.parametrize("says", ["cannot_tell", "older"])
async def test_a_finding_whose_test_base_fails_too_stays_open_and_says_so(
    says: str, namespaces: None, tmp_path: Path
) -> None:
    base = {"shop.py": HEAD, "old.py": HEAD.replace("total", "total_of")}
    head = {"shop.py": HEAD.replace("[1:])", "[1:], 0)")}
    repo = change(tmp_path, {**settings(), **base}, head)
    quoted = {"file": "shop.py", "quote": QUOTE.strip()}
    answer = {
        "finding": "F1",
        "verdict": says,
        "reason": "As quoted.",
        "quotes": [quoted] * (says == "older"),
    }
    told = claim(quote=QUOTE.replace(")", ", 0)"))
    lines: dict[str, list[ScriptedReply]] = {"generalist": [said(told)], "prover": [writes(written()), writes(written())],
             "verifier": [text_reply(json.dumps({"verdicts": [answer]}))]}  # fmt: skip
    model = ScriptedModel(lines)
    verdict = await review(repo, model, adjust=alone, run_tests=True, prover=True, verifier=True)
    (asked,) = [request for request in model.requests if request.agent == "verifier"]
    assert "run_snippet" in {tool.name for tool in asked.tools}  # it may run what decides
    if says == "older":
        (entry,) = verdict.rejected
        assert (entry.cause, entry.reason.partition("; ")[2]) == (
            "older",
            "base fails its test too",
        )
        return
    assert [proof.state for proof in only(verdict).proofs] == ["not_introduced"]
    brief = (render_verdict(verdict, detail=how) for how in ("brief", "short"))
    for shown in (
        *brief,
        *(render_format(n, verdict, FormatInputs()) for n in ("html", "markdown")),
    ):
        assert ", and base fails its test too" in " ".join(shown.split())


async def test_the_judge_sees_what_a_test_predicted_and_what_came(
    namespaces: None, tmp_path: Path
) -> None:
    seen: list[Mapping[str, Any]] = []

    def judge(request: Request) -> Response:
        seen.extend(facts(request)["findings"])
        return scores()

    repo = change(tmp_path, {"shop.py": BASE, **settings()}, {"shop.py": HEAD, **UNREAD})
    lines: dict[str, list[ScriptedReply]] = {
        "generalist": [said(claim())], "prover": [writes(written())], "judge": [judge],
    }  # fmt: skip
    await review(
        repo, ScriptedModel(lines), run_tests=True, prover=True,
        adjust=judged,
    )  # fmt: skip
    (shown,) = [one for one in seen if "proofs" in one]
    (proof,) = shown["proofs"]
    assert shown["support"] == "proven"
    assert proof["predicted"] == "AssertionError: 3 != 5"
    assert "3 != 5" in proof["came"]
    assert len(proof["came"].splitlines()) <= 3


async def test_a_test_that_proves_nothing_is_corrected_once_and_keeps_its_prediction(
    namespaces: None, tmp_path: Path
) -> None:
    shown: list[str] = []

    def second(request: Request) -> Response:
        shown.append(str(request.messages[0]))
        assert "run_snippet" in {tool.name for tool in request.tools}  # to try an input first
        other_claim = written(claim="label() shouts", value="X")
        return writes(written(value="4 != 5"), other_claim)

    first = writes(written(TEST.replace("[2, 3]", "[0, 5]"), not_shown="floats"))
    verdict = await reviewed(tmp_path, first, second)
    (proof,) = only(verdict).proofs
    assert (proof.state, proof.value, proof.not_shown) == ("reproduced", "3 != 5", "floats")
    (note,) = [note for note in verdict.change.notes if "second test" in note]
    assert note.endswith("was not run: no first one of that finding is left to correct")
    assert "head passes the test" in shown[0]
    assert [agent.agent for agent in verdict.agents] == ["generalist", "prover", "prover"]


async def test_a_prediction_and_claim_that_are_refused_before_any_run_may_be_corrected(
    namespaces: None, tmp_path: Path
) -> None:
    first = writes(written(value="assert"))
    second = writes(written(claim="total([2, 3]) loses 2"))
    refused, proof = only(await reviewed(tmp_path, first, second)).proofs
    assert (refused.state, proof.state, proof.value) == ("inconclusive", "reproduced", "3 != 5")
    assert (proof.claim, proof.not_shown) == ("total([2, 3]) loses 2", "total([2, 3]) is 3")


async def test_a_package_that_the_tests_lack_is_said_and_not_corrected(
    namespaces: None, tmp_path: Path
) -> None:
    head = {"shop.py": "import nowhere\n" + HEAD}
    verdict = await reviewed(
        tmp_path, writes(written(OF_PYTEST)), base={"shop.py": "import nowhere\n" + BASE}, head=head,
        more=settings(PYTEST.command), start_line=3, end_line=3,
    )  # fmt: skip
    (proof,) = only(verdict).proofs
    assert "the environment of the tests lacks nowhere; install it where" in proof.reason
    (note,) = [note for note in verdict.change.notes if "did not run" in note]
    assert "lacks nowhere" in note
    assert [agent.agent for agent in verdict.agents] == ["generalist", "prover"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("shop._version", "No module named 'shop._version'"), ("old", "SyntaxError: "), ("shop", "")],
)
async def test_where_base_does_not_load_no_prover_is_asked_and_it_is_said_once(
    namespaces: None, tmp_path: Path, name: str, said: str
) -> None:
    needs = (
        f"from {name} import (\n    total,\n)\n\nTEXT = '''\nimport nowhere\n'''\n\n\n"
        "def test_shop():\n    assert total([2]) == 2\n"
    )
    found = [written(finding=number) for number in ("F1", "F2")]  # one of them is an analyzer's
    replies = [] if said else [writes(*found)]
    other = {"tests/test_a.py": "def test_a():\n    pass\n"}  # as near, of another name
    more = {"old.py": "def total(async=1):\n    pass\n"} if name == "old" else {}
    base = {"tests/test_shop.py": needs, **other, **more}
    verdict = await reviewed(tmp_path, *replies, base=base)
    asked = [agent.agent for agent in verdict.agents]
    notes = [note for note in verdict.change.notes if "proven by a test" in note]
    if not said:
        assert (notes, only(verdict).support) == ([], "proven")
        return
    (note,) = notes
    assert f"lacks what base's own tests import ({said}" in note
    assert asked == ["generalist"]


async def test_a_verified_claim_whose_test_passes_on_head_is_a_claim(tmp_path: Path) -> None:
    verdict = await reviewed(tmp_path, more={})
    for reason, support in (
        ("head passes the test", "claimed"),
        ("no end within 60 s", "verified"),
    ):
        proof = Proof(
            state="inconclusive", reason=reason, claim="c", path="t.py", test="t", command=(),
            exception="E", value="v",
        )  # fmt: skip
        finding = replace(only(verdict), support="verified")
        (shown,) = with_proofs(Synthesis((finding,)), {finding.fingerprint: [proof]}).findings
        assert shown.support == support


async def test_what_cannot_be_shown_refutes_nothing(namespaces: None, tmp_path: Path) -> None:
    weak = writes(written(TEST.replace("assertEqual", "assertNotEqual"), value="5 == 5"))
    verdict = await reviewed(tmp_path, weak, weak)
    finding = only(verdict)
    (proof,) = finding.proofs
    assert proof.state == "inconclusive"
    assert (finding.support, finding.confidence, finding.severity) == ("claimed", 0.6, "high")
    assert verdict.verdict == "needs_changes"


@pytest.mark.parametrize(
    ("more", "run_tests", "why"),
    [
        ({}, True, "base configures no tests"),
        (settings(["make", "test"]), True, "set tests.single to the command that runs one file"),
        (settings(), False, "allow it with --run-tests or DIFFCOURT_RUN_TESTS=1"),
        (settings(), True, "no sandbox"),
    ],
)
async def test_where_no_test_may_run_nobody_writes_one_and_it_is_said_once(
    tmp_path: Path, more: Mapping[str, str], run_tests: bool, why: str
) -> None:
    verdict = await reviewed(tmp_path, more=more, run_tests=run_tests)
    notes = [note for note in verdict.change.notes if "no finding was proven by a test" in note]
    assert len(notes) == 1
    assert why in notes[0]
    assert only(verdict).proofs == ()


async def test_small_findings_and_those_of_analyzers_get_no_test(
    namespaces: None, tmp_path: Path
) -> None:
    verdict = await reviewed(tmp_path, severity="low")  # the prover's script has no line
    assert only(verdict).proofs == ()
    assert not any("proven by a test" in note for note in verdict.change.notes)


async def test_a_resumed_review_runs_no_test_again(namespaces: None, tmp_path: Path) -> None:
    repo = change(tmp_path, {"shop.py": BASE, **settings()}, {"shop.py": HEAD})
    clock = SystemClock()
    store = MemoryStore(clock)
    await store.create("run", clock.now(), {})
    script: dict[str, list[ScriptedReply]] = {
        "generalist": [said(claim())],
        "prover": [writes(written())],
    }
    given = partial(review, repo, adjust=alone, run_tests=True, prover=True, store=store)
    first = await given(ScriptedModel(script))
    performed: list[Event] = []
    again = await given(ScriptedModel({}), observer=performed.append)
    assert again.digest == first.digest
    assert [one.tool for one in performed if one.kind == "tool_started" and not one.replayed] == []


async def test_on_the_next_push_the_same_test_decides_whether_the_finding_is_fixed(
    namespaces: None, tmp_path: Path
) -> None:
    start = "START = 0\n\n\ndef total(prices):\n    return 1 + sum(prices[START:]) - 1\n"
    broken = "START = 1\n\n\ndef total(prices):\n    return sum(prices[START:])\n"
    quote = "    return sum(prices[START:])"
    repo = change(tmp_path, {"shop.py": start, **settings()}, {"shop.py": broken})
    script: dict[str, list[ScriptedReply]] = {
        "generalist": [said(claim(start_line=5, end_line=5, quote=quote))],
        "prover": [writes(written())],
    }
    given = partial(review, repo, adjust=alone, run_tests=True, prover=True)
    first = await given(ScriptedModel(script))
    assert only(first).support == "proven"
    repo.commit({"README.md": "# Another\n"})
    open_still = await given(ScriptedModel({"generalist": [said()]}), base="HEAD~2", previous=first)
    assert (only(open_still).support, only(open_still).since_previous) == ("proven", "open")
    repo.commit({"shop.py": broken.replace("START = 1", "START = 0")})
    fixed = await given(ScriptedModel({"generalist": [said()]}), base="HEAD~3", previous=open_still)
    assert [(one.cause, one.reason) for one in fixed.rejected] == [("fixed", FIXED)]
    assert [one for one in fixed.findings if one.state == "open" and one.severity == "high"] == []


async def test_a_defect_that_a_fix_only_moves_stays_open(namespaces: None, tmp_path: Path) -> None:
    repo = change(tmp_path, {"shop.py": BASE, **settings()}, {"shop.py": HEAD})
    script: dict[str, list[ScriptedReply]] = {
        "generalist": [said(claim())],
        "prover": [writes(written())],
    }
    given = partial(review, repo, adjust=alone, run_tests=True, prover=True)
    first = await given(ScriptedModel(script))
    repo.commit({"shop.py": HEAD.replace(QUOTE, "    rest = prices[1:]\n    return sum(rest)")})
    silent = {"generalist": [said()]}
    moved = await given(ScriptedModel(silent), base="HEAD~2", previous=first)
    assert (only(moved).support, only(moved).since_previous) == ("proven", "open")
    assert only(moved).evidence.quote in {"    rest = prices[1:]", "    return sum(rest)"}
    unshown = await review(
        repo, ScriptedModel(silent), adjust=alone, prover=True, base="HEAD~2", previous=first
    )
    assert [one.reason for one in unshown.rejected] == [GONE]
    repo.commit({"shop.py": HEAD.replace(QUOTE, "    rest = prices[0:]\n    return sum(rest)")})
    fixed = await given(ScriptedModel(silent), base="HEAD~3", previous=moved)
    assert [one.cause for one in fixed.rejected] == ["fixed"]
    assert [one for one in fixed.findings if one.severity == "high"] == []
