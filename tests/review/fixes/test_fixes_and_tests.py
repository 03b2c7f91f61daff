"""A patch that analyzers like and the tests of base do not is refused."""

import json
import sys
from pathlib import Path

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.engine.observer_events import ignore_event
from tests.review.fixes.test_proven_fixes import MODULE, SHELL, claim, mend
from tests.review.proofs import test_proven_findings as proven
from tests.review.push_kit import alone, said
from tests.review.review_kit import change, options, review
from tests.scripted_model import ScriptedModel, ScriptedReply, text_reply

RULE = "security.subprocess-shell"
CHECK = "import a\nimport b\n\nassert a.os.sep and b.f() == 1\n"
A = "import os\n\nVALUE = 1\n"
B = "import re\n\n\ndef f():\n    return 1\n"


def test_tests_that_passed_must_pass_with_all_patches(namespaces: None, tmp_path: Path) -> None:
    command = json.dumps({"command": [sys.executable, "check.py"], "seconds": 20})
    base = {".diffcourt/config/defaults.yaml": f"tests: {command}\n", "check.py": CHECK}
    before = {"a.py": A.replace("1", "os.sep"), "b.py": B.removeprefix("import re\n\n\n")}
    repo = change(tmp_path, base | before, {"a.py": A, "b.py": B})
    verdict = run_review(options(repo.path, run_tests=True), ignore_event)
    fixes = {finding.path: finding.fix for finding in verdict.findings if finding.fix}
    assert fixes["b.py"].state == "verified"
    assert fixes["a.py"].state == "refused"
    assert "run_tests rejects it" in fixes["a.py"].reason


@pytest.mark.parametrize(
    ("new", "state", "why"),
    [
        ('    subprocess.run(["ls", name], check=True, timeout=9)', "verified", ""),
        ("    pass", "applies", "it removes code"),
        ('    raise ValueError(subprocess, "ls")', "refused", "run_tests rejects it"),
    ],
)
async def test_an_agents_patch_is_verified_where_tests_of_base_speak_for_it(
    namespaces: None, tmp_path: Path, new: str, state: str, why: str
) -> None:
    command = json.dumps({"command": [sys.executable, "check.py"], "seconds": 20})
    check = "import a\n\na.run('.')\n"
    base = {".diffcourt/config/defaults.yaml": f"tests: {command}\n", "check.py": check}
    repo = change(
        tmp_path,
        base | {"a.py": "def run(name):\n    pass\n"},
        {"a.py": MODULE + SHELL + "\n\nPIPE = subprocess.PIPE\n"},
    )
    said_so = said(claim("a.py", mend("a.py", new)))
    verdict = await review(
        repo, ScriptedModel({"generalist": [said_so]}), adjust=alone, run_tests=True
    )
    (fix,) = (finding.fix for finding in verdict.findings if finding.rule == RULE)
    assert fix is not None
    assert (fix.state, why in fix.reason) == (state, True), fix.reason


@pytest.mark.parametrize(
    ("new", "state", "why"),
    [
        ("sum(prices)", "verified", ""),
        ("sum(price for price in prices)", "verified", ""),
        ("sum(prices[2:])", "refused", "the test that shows 'total([2, 3]) is 3' does not pass"),
    ],
)
async def test_a_patch_is_proven_by_the_test_that_reproduced_its_finding(
    namespaces: None, tmp_path: Path, new: str, state: str, why: str
) -> None:
    base = {"shop.py": proven.BASE, **proven.settings()}
    repo = change(tmp_path, base, {"shop.py": proven.HEAD})
    line = proven.QUOTE.replace("sum(prices[1:])", new)
    patch = "--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,2 @@\n def total(prices):\n"
    fixes = {
        "summary": "fixed",
        "fixes": [{"finding": "F1", "patch": f"{patch}-{proven.QUOTE}\n+{line}\n"}],
    }
    lines: dict[str, list[ScriptedReply]] = {
        "generalist": [said(proven.claim())],
        "prover": [proven.writes(proven.written())],
        "fixer": [text_reply(json.dumps(fixes))] * 2,
    }
    verdict = await review(
        repo, ScriptedModel(lines), adjust=alone, run_tests=True, prover=True, fixer=True
    )
    fix = proven.only(verdict).fix
    assert fix is not None
    assert (fix.state, why in fix.reason) == (state, True), fix.reason
    assert ("prove_finding" in fix.proved_by) == (state == "verified")
