"""One vendor's model finds, another's verifies and proves: whole reviews over the wire."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal
from msgspec.structs import replace

from orchestrator.app.run_review import resume_review
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.types import Json, Response
from tests.model_server.server import ModelServer
from tests.model_server.server_script import Refuse, Reshaped, ServerReply
from tests.providers.whole_kit import POLICY, reports, review, says, serving
from tests.review.proofs.test_prove_finding import TOTAL, as_method
from tests.review.review_kit import change

Script = Mapping[str, Sequence[ServerReply]]

TESTS = json.dumps({"command": [sys.executable, "-m", "unittest"], "seconds": 20})
BASE = {
    **POLICY,
    ".diffcourt/config/defaults.yaml": f"fixes: {{agent: null}}\njudge: false\ntests: {TESTS}\n",
    "shop.py": "def total(prices):\n    return sum(prices)\n",
    "web.py": "import calc\n\n\ndef handle(request):\n    return calc.run(request.args)\n",
    "calc.py": "def run(query):\n    return int(query)\n",
}  # fmt: skip
HEAD = {
    "shop.py": "def total(prices):\n    return sum(prices[1:])\n",
    "calc.py": "def run(query):\n    if unsafe(query):\n        return 1\n    return evaluate(query)\n",
}
LOST = {
    "path": "shop.py", "start_line": 2, "end_line": 2, "quote": "return sum(prices[1:])",
    "title": "total() loses the first price", "severity": "high", "confidence": 0.6,
}  # fmt: skip
HARM = {
    "path": "calc.py", "start_line": 4, "end_line": 4, "quote": "return evaluate(query)",
    "title": "Evaluates what a visitor sends", "severity": "critical", "confidence": 0.9,
}  # fmt: skip
LEADS = {"file": "web.py", "quote": "return calc.run(request.args)"}
PLACE = {"file": "calc.py", "quote": "return evaluate(query)"}
STOPS = {"file": "calc.py", "quote": "if unsafe(query):"}
FOUND = reports(summary="Two.", findings=[LOST, HARM], checked=["shop.py", "calc.py"])


def about(title: object, say: Callable[[str], Response]) -> ServerReply:
    """A reply about the finding of a title, by the id that the request gives it."""

    def reply(body: dict[str, Json]) -> Response:
        before = json.dumps(body).replace("\\", "").partition(str(title))[0]
        return say(re.findall(r'"id": ?"(F\d+)"', before)[-1])

    return reply


def writes(finding: str) -> Response:
    test = {
        "finding": finding, "claim": "total([2, 3]) is 3", "path": "tests/test_claim.py",
        "test": as_method(TOTAL),
        "exception": "AssertionError", "value": "3 != 5", "oracle": "base", "not_shown": "",
    }  # fmt: skip
    return says(summary="written", tests=[test])


def confirms(finding: str, verdict: str = "confirmed", *quotes: Mapping[str, str]) -> Response:
    told = {
        "finding": finding,
        "verdict": verdict,
        "reason": "As quoted.",
        "one_place": "",
        "duplicate_of": "",
    }
    return says(summary="read", verdicts=[{**told, "quotes": list(quotes or (LEADS, PLACE))}])


PROVES, VERIFIES = about(LOST["title"], writes), about(HARM["title"], confirms)
CHECKS: Script = {"prover": [PROVES], "verifier": [VERIFIES]}
CLOSED = Reshaped(FOUND, lambda reply: replace(reply, cut=0))
FAILURES: Mapping[str, ServerReply] = {"429": Refuse(429), "500": Refuse(500), "closed": CLOSED}
VENDORS = ("anthropic", "openai")
Run = tuple[Verdict, ModelServer, ModelServer]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return change(tmp_path, BASE, HEAD).path


def reviewed(
    portal: BlockingPortal,
    patch: pytest.MonkeyPatch,
    repo: Path,
    finds: str,
    first: Script,
    second: Script,
) -> Run:
    """A review by the finder of one vendor and the helpers of the other."""
    other = next(name for name in VENDORS if name != finds)
    vendors = {"generalist": finds, "prover": other, "verifier": other}
    models = [f"{name}={vendor}:strong" for name, vendor in vendors.items()]
    with serving(portal, patch, finds, first) as one, serving(portal, patch, other, second) as two:
        verdict = review(repo, finds, pattern="single", models=models, run_tests=True)
        one.finish()
        two.finish()
    return verdict, one, two


def supports(verdict: Verdict) -> dict[str, str]:
    return {one.title: one.support for one in verdict.findings if "generalist" in one.reported_by}


GOOD = {str(LOST["title"]): "proven", str(HARM["title"]): "verified"}


@pytest.mark.parametrize("finds", VENDORS)
def test_what_one_finds_the_other_verifies_and_proves(
    namespaces: None,
    portal: BlockingPortal,
    monkeypatch: pytest.MonkeyPatch,
    repo: Path,
    finds: str,
) -> None:
    verdict, one, two = reviewed(portal, monkeypatch, repo, finds, {"generalist": [FOUND]}, CHECKS)
    assert supports(verdict) == GOOD
    assert verdict.escalations == ()
    assert {seen.agent for seen in one.requests} == {"generalist"}
    assert {seen.agent for seen in two.requests} == {"prover", "verifier"}


@pytest.mark.parametrize("finds", VENDORS)
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("down", ["generalist", "prover", "verifier"])
def test_a_vendor_that_is_down_in_any_role_is_replaced_and_said_once(
    namespaces: None, portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path,
    finds: str, failure: str, down: str,
) -> None:  # fmt: skip
    fails = [FAILURES[failure]] * 3
    first: dict[str, Sequence[ServerReply]] = {"generalist": [FOUND]}
    second = dict(CHECKS)
    if down == "generalist":
        first, second = {"generalist": fails}, {**second, **first}
    else:
        second[down] = fails
        first[down] = CHECKS[down]
        if down == "prover":  # it is asked first, and then nobody asks this vendor again
            first["verifier"] = second.pop("verifier")
    verdict, *_ = reviewed(portal, monkeypatch, repo, finds, first, second)
    assert supports(verdict) == GOOD
    moved = [one.agent for one in verdict.escalations]
    assert moved == (["prover", "verifier"] if down == "prover" else [down])
    assert {agent.status for agent in verdict.agents} == {"ok"}
    assert resume_review(repo, verdict.run_id, ignore_event).digest == verdict.digest


@pytest.mark.parametrize("finds", VENDORS)
@pytest.mark.parametrize(("quote", "support"), [(STOPS, "refuted"), (PLACE, "claimed")])
def test_what_one_claims_and_the_other_refutes_is_kept_and_blocks_nothing(
    namespaces: None, portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, repo: Path,
    finds: str, quote: Mapping[str, str], support: str,
) -> None:  # fmt: skip
    """A quotation of the claimed line itself refutes nothing."""
    refutes = about(HARM["title"], lambda name: confirms(name, "refuted", quote))
    second: Script = {"prover": [PROVES], "verifier": [refutes] * (1 + (support == "claimed"))}
    verdict, *_ = reviewed(portal, monkeypatch, repo, finds, {"generalist": [FOUND]}, second)
    assert supports(verdict) == {**GOOD, str(HARM["title"]): support}
    assert verdict.verdict == "needs_changes"
