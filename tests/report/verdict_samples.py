"""Verdicts to render: built from the real models, so that a field that changes breaks them."""

from typing import Any

from orchestrator.code_review.verdict.document_parts import (
    AgentReport,
    Checked,
    DepthCounts,
    Fix,
    FixState,
    VerdictIteration,
)
from orchestrator.code_review.verdict.model import (
    ChangeRef,
    CriterionScore,
    Evidence,
    Finding,
    Provenance,
    Rejected,
    RequiredCheck,
    ReviewScore,
    RunUsage,
    Skipped,
    Verdict,
    VerdictStop,
)


def finding(number: int = 1, **changed: Any) -> Finding:
    fields: dict[str, Any] = {
        "id": f"F{number}",
        "fingerprint": f"{number:064x}",
        "severity": "high",
        "confidence": 1.0,
        "title": "`subprocess` call with `shell=True` seems safe, but may be changed in the future",
        "detail": "",
        "category": "security",
        "rule": "ruff:S602",
        "path": "src/upload.py",
        "start_line": 42,
        "end_line": 42,
        "evidence": Evidence(
            quote="    run(f'convert {name}', shell=True)", tool_calls=("1/ruff",)
        ),
        "reported_by": ("ruff",),
    }
    return Finding(**{**fields, **changed})


PATCH = (
    "--- a/src/upload.py\n+++ b/src/upload.py\n@@ -40,4 +40,4 @@\n def convert(name):\n"
    "     check(name)\n-    run(f'convert {name}', shell=True)\n+    run(['convert', name])\n"
    "     return name\n"
)


def fixed(
    number: int = 1, *, patch: str = PATCH, state: FixState = "verified", **changed: Any
) -> Finding:
    """A finding with a patch."""
    fix = Fix(
        state=state,
        patch=patch,
        source="ruff",
        proved_by=("ruff_bugs", "parse_check"),
        reason="" if state == "verified" else "it brings another defect",
    )
    return finding(number, fix=fix, **changed)


def verdict(**changed: Any) -> Verdict:
    """A merge with nothing to say, unless told otherwise."""
    fields: dict[str, Any] = {
        "run_id": "20260314-092653-k3f9",
        "change": ChangeRef(
            base="3f2a1bc0d1e2f3a4b5c6d7e8f90123456789abcd",
            head="9d0e4f2a1b2c3d4e5f60718293a4b5c6d7e8f901",
            files=1,
            added_lines=3,
            removed_lines=1,
        ),
        "verdict": "merge",
        "status": "complete",
        "confidence": 0.9,
        "reasons": ("no open finding, and every required check passed",),
        "stop": VerdictStop(
            reason="done", detail="every gate passed", next_human_action="Merge the change."
        ),
        "score": ReviewScore(total=0.95, threshold=0.8, criteria=()),
        "findings": (),
        "rejected": (),
        "checked": (
            Checked(path="src/upload.py", by=("ruff",), tool_calls=("1/ruff",), depth="code"),
        ),
        "skipped": (),
        "required_checks": (),
        "next_actions": (),
        "agents": (),
        "iterations": (
            VerdictIteration(
                number=1, score=0.95, new_findings=0, new_evidence=4, gaps=0, decision="done"
            ),
        ),
        "usage": RunUsage(iterations=1, tool_calls=21, seconds=2.34),
        "provenance": Provenance(version="0.1.0", provider="offline", digests={}, analyzers={}),
    }
    return Verdict(**{**fields, **changed})


def rich_verdict() -> Verdict:
    """What a busy day looks like."""
    return verdict(
        verdict="needs_changes",
        status="incomplete",
        confidence=0.71,
        change=ChangeRef(
            base="main",
            head="9d0e4f2a1b2c3d4e5f60718293a4b5c6d7e8f901",
            files=61,
            added_lines=1404,
            removed_lines=233,
            notes=("the clone is shallow: blame and history reach back 50 commits only",),
        ),
        reasons=(
            "2 open findings of severity high or above (policy: needs_changes at high)",
            "the review is incomplete, and an incomplete review is never a merge",
        ),
        findings=_findings(),
        rejected=tuple(
            Rejected(
                finding=finding(number, path="src/api.py", start_line=number),
                reason="the quoted text is not at the cited line",
            )
            for number in (8, 9)
        ),
        skipped=_skipped(),
        checked=tuple(
            Checked(path=f"src/m{n}.py", by=("ruff",), tool_calls=("1/ruff",), depth="code")
            for n in range(17)
        ),
        depth=DepthCounts(code=17, none=44, share_as_code=0.8),
        required_checks=(
            RequiredCheck(name="secret scan", status="ran"),
            RequiredCheck(name="parse checks", status="failed", detail="2 files do not parse"),
            RequiredCheck(name="workflow audit", status="not_applicable"),
        ),
        score=_score(),
        agents=_agents(),
        iterations=(
            VerdictIteration(
                number=1,
                score=0.64,
                new_findings=5,
                new_evidence=31,
                gaps=2,
                decision="again: the docs agent has not looked at 3 files",
            ),
            VerdictIteration(
                number=2,
                score=0.82,
                new_findings=1,
                new_evidence=4,
                gaps=2,
                decision="stop: the gaps cannot be closed by looking again",
            ),
        ),
        stop=VerdictStop(
            reason="stagnation",
            detail="the same failure came twice (ruff cannot parse src/legacy/py2.py), and looking "
            "again added no evidence",
            uncertain=("whether src/legacy/py2.py holds defects: nothing could parse it",),
            next_human_action="Read src/legacy/py2.py yourself, or port it to Python 3 first.",
        ),
        next_actions=("Fix F1 and F2.", "Run `diffcourt review` again."),
        usage=RunUsage(
            iterations=2,
            model_calls=48,
            tool_calls=133,
            input_tokens=120_400,
            output_tokens=8_200,
            cached_tokens=90_000,
            usd=0.4213,
            seconds=187.2,
            limits={"iterations": 3, "tool_calls": 400, "usd": 2.0, "seconds": 900},
        ),
        provenance=Provenance(
            version="0.1.0",
            provider="anthropic",
            models=("a-fast-model", "a-strong-model"),
            digests={},
            analyzers={},
        ),
    )


def _findings() -> tuple[Finding, ...]:
    return (
        finding(
            1,
            severity="critical",
            title="A private key is committed",
            rule="secrets:private-key",
            cwe=(798,),
            path="deploy/keys/production.pem",
            start_line=1,
            end_line=3,
            evidence=Evidence(
                quote="-----BEGIN [redacted]\n[redacted]\n-----END [redacted]", tool_calls=("2",)
            ),
            reported_by=("secrets", "security"),
            fix_suggestion="revoke the key, then remove it from the history of the branch",
        ),
        finding(
            2,
            cwe=(78,),
            reported_by=("ruff", "security"),
            confidence=0.85,
            detail="`name` comes from the request in line 31 and reaches the shell unquoted.",
            fix_suggestion="pass the arguments as a list, and leave out shell=True",
        ),
        finding(
            3,
            severity="medium",
            rule="complexity:cyclomatic",
            category="architecture",
            title="`reconcile` has a cyclomatic complexity of 31, from 12 before the change",
            path="src/billing/services/subscriptions/internal/reconciliation_worker.py",
            start_line=1088,
            end_line=1102,
            evidence=Evidence(
                quote="\n".join(f"    if state == {n}:" for n in range(15)), tool_calls=("3",)
            ),
            reported_by=("complexity",),
        ),
        finding(
            4,
            severity="low",
            rule="links:broken",
            category="docs",
            path="docs/getting started.md",
            title="The link target setup.md does not exist",
            start_line=7,
            evidence=Evidence(quote="See [the setup](setup.md).", tool_calls=("4",)),
            reported_by=("links",),
        ),
        finding(5, severity="low", state="waived", title="Assert used outside tests"),
    )


def _skipped() -> tuple[Skipped, ...]:
    locks = tuple(
        Skipped(path=f"packages/p{n}/yarn.lock", why="lock file", gap=False) for n in range(42)
    )
    return (
        *locks,
        Skipped(path="assets/logo.png", why="binary", gap=False),
        Skipped(
            path="src/legacy/py2.py",
            tool="ruff",
            gap=True,
            why="could not be parsed: line 3: missing parentheses in call to 'print'",
        ),
        Skipped(
            path=".github/workflows/ci.yml", tool="zizmor", gap=True, why="ran longer than 60 s"
        ),
    )


def _score() -> ReviewScore:
    return ReviewScore(
        total=0.82,
        threshold=0.8,
        criteria=(
            CriterionScore(
                id="files-accounted", kind="measured", weight=3, score=1.0, why="61 of 61 files"
            ),
            CriterionScore(
                id="analyzers-healthy",
                kind="measured",
                weight=2,
                score=0.5,
                why="2 of 14 analyzers left gaps",
                missing=("ruff on src/legacy/py2.py",),
            ),
            CriterionScore(
                id="clarity",
                kind="judged",
                weight=1,
                score=None,
                why="not scored: no model is there to judge it",
            ),
        ),
    )


def _agents() -> tuple[AgentReport, ...]:
    return (
        AgentReport(
            agent="security",
            iteration=1,
            status="ok",
            findings=("F1", "F2"),
            checked=18,
            turns=7,
            tool_calls=31,
        ),
        AgentReport(
            agent="qa",
            iteration=1,
            status="timeout",
            checked=4,
            turns=3,
            tool_calls=9,
            summary="ran longer than 60 s",
            gaps=("zizmor on .github/workflows/ci.yml",),
        ),
        AgentReport(
            agent="docs",
            iteration=2,
            status="ok",
            findings=("F4",),
            checked=3,
            turns=4,
            tool_calls=6,
        ),
    )
