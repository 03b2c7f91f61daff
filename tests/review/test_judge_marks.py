"""A judge's report as marks: what is scored, what counts as abstained, and why, in these words."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from diffchecks.jobs import ChangedFile
from orchestrator.catalog import settings as catalog_settings
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.agents import judging
from orchestrator.code_review.agents.judging import (
    _shown,
    judge_evidence,
    read_marks,
    show_criterion,
)
from orchestrator.code_review.agents.participants import named_vendors, participants
from orchestrator.code_review.findings.citations import CitableSources
from orchestrator.code_review.findings.evidence_from_journal import Work
from orchestrator.code_review.policy_loading import read_policy
from orchestrator.code_review.verdict.document_parts import Checked, Proof, Reported
from orchestrator.code_review.verdict.model import Rejected, Skipped
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.rubric_scoring import CriterionMark
from orchestrator.engine.types import Criterion, ScoredExample, ScoreLevel
from tests.review.test_decision import finding

LEVELS = (ScoreLevel(score=0.0, description="bad"), ScoreLevel(score=1.0, description="good"))
CRITERIA = [
    Criterion(id=name, kind="judged", description=f"is {name}", levels=LEVELS)
    for name in ("one", "two", "three")
]
# Of a tool's answers only, so no workspace is read.
KNOWN = CitableSources(None, {}, lambda tool: ["all is well here"] if tool == "search" else [])  # type: ignore[arg-type]
CITED = {"source": "tool", "name": "search", "quote": "all is well"}


def said(name: str, score: float | None, **more: Any) -> dict[str, Any]:
    return {"id": name, "why": f"{name} is so", "score": score, "evidence": [CITED], **more}


async def marks(*criteria: Mapping[str, Any]) -> dict[str, CriterionMark]:
    result = LoopResult("judge", "ok", {"criteria": list(criteria)})
    return await read_marks(CRITERIA, result, KNOWN)


async def test_a_score_with_evidence_counts_and_silence_is_not_scored() -> None:
    found = await marks(said("one", 1.0, missing=["more"]), said("other", 1.0), said("three", 0.0))
    quoted = ("tool search: all is well",)
    assert found == {
        "one": CriterionMark(1.0, "one is so", ("more",), evidence=quoted),
        "two": CriterionMark(None, "not scored: the judge did not speak of it"),
        "three": CriterionMark(0.0, "three is so", evidence=quoted),
    }


@pytest.mark.parametrize(("given", "why"), [
    (said("one", None), "the judge abstained: one is so"),
    (said("one", 0.5), "counts as abstained: 0.5 is not a level of the rubric"),
])  # fmt: skip
async def test_what_does_not_count_says_why_and_keeps_what_is_missing(
    given: dict[str, Any], why: str
) -> None:
    found = await marks({**given, "missing": ["a", "b"]})
    assert found["one"] == CriterionMark(None, why, ("a", "b"))


@pytest.mark.parametrize("evidence", [[], [{**CITED, "quote": "nothing of this"}]])
async def test_a_score_without_evidence_that_is_found_counts_as_abstained(
    evidence: list[dict[str, str]],
) -> None:
    mark = (await marks(said("one", 1.0, evidence=evidence, missing=["a"])))["one"]
    assert mark.score is None
    assert mark.why.startswith("counts as abstained: ")
    assert mark.missing == ("a",)


async def test_criteria_are_scored_in_order_and_once() -> None:
    found = await marks(said("two", 1.0), said("one", 1.0), said("three", 1.0), said("two", 0.0))
    why = "counts as abstained: it was scored twice, or out of the rubric's order"
    assert found["one"] == found["two"] == CriterionMark(None, why)
    assert found["three"].score == 1.0


async def test_a_judge_without_a_report_scores_nothing() -> None:
    found = await read_marks(CRITERIA, LoopResult("judge", "failed", detail="no reply"), KNOWN)
    why = "not scored: the judge failed: no reply"
    assert found == {name: CriterionMark(None, why) for name in ("one", "two", "three")}


def test_a_judge_sees_levels_and_examples_of_a_criterion() -> None:
    shown = {"id": "one", "description": "is one", "levels": [[0.0, "bad"], [1.0, "good"]]}
    assert show_criterion(CRITERIA[0]) == shown
    example = ScoredExample(text="t", score=1.0)
    taught = Criterion(id="one", kind="judged", description="is one", examples=(example,))
    assert show_criterion(taught)["examples"][0]["text"] == "t"  # type: ignore[index]


def test_a_judge_is_shown_no_text_twice_and_of_a_proof_the_lines_that_tell() -> None:
    report = Reported("qa", False, "medium", 0.8, "t", "d", reason="by hand")
    said = "collected 1 item\n  raise KeyError\n\nE  got 'y', expected 'x'\nsummary"
    proof = Proof(
        state="reproduced", claim="c", path="t.py", test="t", command=("pytest",),
        exception="KeyError", value="'x'", head=said,
    )  # fmt: skip
    shown = _shown(replace(finding(), reports=(report,), proofs=(proof,)), ())
    assert shown["reports"] == [
        {"by": "qa", "severity": "medium", "confidence": 0.8, "reason": "by hand"}
    ]
    (told,) = shown["proofs"]
    came = "raise KeyError\nE  got 'y', expected 'x'"
    assert told == {
        "predicted": "KeyError: 'x'", "came": came, "state": "reproduced", "claim": "c",
    }  # fmt: skip
    (told,) = _shown(replace(finding(), proofs=(replace(proof, head="Timeout\n"),)), ())["proofs"]
    assert told["came"] == "Timeout"


@pytest.mark.parametrize("more", [0, 3])
async def test_a_judge_is_shown_the_first_of_everything_and_told_how_much_there_is_more(
    more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    around: list[tuple[object, ...]] = []

    code = [{"path": "a.py", "side": "head", "lines": " 1: q" * bool(more)}]

    async def code_around(*given: object) -> list[dict[str, str]]:
        around.append(given)
        return code

    monkeypatch.setattr(judging, "code_around", code_around)
    files = [ChangedFile(f"f{n:03}.md", "added") for n in range(200 + more)]
    # Two that are alike count as one that is shown, and as two that are not.
    found = [replace(finding(n), title=f"t{n // 2}") for n in range(120 + 2 * more)]
    gaps = [{"why": f"w{n}", "path": "p", "tool": "t"} for n in range(60 + more)]
    ruled_out = [{"path": f"x{n}", "question": "q", "why": "so"} for n in range(60 + more)]
    said = {"findings": [], "checked": [], "gaps": gaps, "ruled_out": ruled_out}
    state = SimpleNamespace(
        synthesis=SimpleNamespace(
            findings=found,
            rejected=[Rejected(finding(n), "no", "unverified") for n in range(60 + more)],
            skipped=[
                Skipped(path="a", tool="ruff", why="died", gap=True),
                Skipped(path="b", why="a lock file", gap=False),
            ],
            checked=[Checked("f001.md", ("qa",), ())],
        ),
        given=SimpleNamespace(workspace=SimpleNamespace(change=SimpleNamespace(files=files))),
        iterations=[SimpleNamespace(plan=SimpleNamespace(summary="adds files" if more else ""))],
        team=lambda: [Work(1, LoopResult("qa", "ok", said)), Work(1, LoopResult("docs", "failed"))],
    )
    shown: dict[str, Any] = await judge_evidence(state)  # type: ignore[arg-type]
    assert shown.get("change") == ("adds files" if more else None)
    assert len(shown["files"]) == 200
    assert shown["files"][0] == "f000.md: added, docs, +0 -0"
    left = [shown.get(name, 0) for name in ("files_not_shown", "findings_not_shown")]
    assert left == [more, 2 * more]
    assert [one["title"] for one in shown["findings"]] == [f"t{n}" for n in range(60)]
    unused = {"confidence", "category", "rule", "cwe"}  # no criterion asks for them
    empty = {"fix_suggestion", "because_of", "proofs", "side"}
    assert not (unused | empty) & shown["findings"][0].keys()
    assert shown["code"] == code
    # What the code repeats is not quoted.
    assert shown["findings"][0].get("quote") == (None if more else "q")
    assert around == [(state, found[0:120:2], 1)]
    assert [len(shown[name]) for name in ("rejected", "gaps_of_agents", "ruled_out")] == [60] * 3
    assert shown["gaps"] == [{"path": "a", "tool": "ruff", "why": "died"}]
    assert shown["gaps_of_agents"][0] == {"path": "p", "tool": "t", "why": "w0"}
    assert shown["ruled_out"][0] == {"path": "x0", "question": "q", "why": "so"}
    assert shown["files_not_checked"][:2] == ["f000.md", "f002.md"]


def test_a_prover_takes_part_where_a_model_and_tests_can_run() -> None:
    policy = read_policy([read_shipped_layer()])
    asked, nobody = policy.settings.proofs, replace(policy.settings.proofs, agent=None)
    tests = catalog_settings.Tests(("pytest",))
    for provider, given, proofs, proves in (
        ("anthropic", tests, asked, True), ("anthropic", tests, nobody, False),
        ("anthropic", None, asked, False), ("offline", tests, asked, False),
    ):  # fmt: skip
        settings = replace(policy.settings, provider=provider, tests=given, proofs=proofs)
        names = [one.name for one in participants(policy.catalog, settings)]
        assert ("prover" in names) is proves, (provider, given, proofs)


@pytest.mark.parametrize(
    ("pattern", "first"),
    [("single", ["generalist"]), ("team", ["lead", "security"]), ("auto", ["lead", "security"])],
)
def test_the_agents_of_each_pattern_take_part(pattern: Any, first: list[str]) -> None:
    policy = read_policy([read_shipped_layer()])
    settings = replace(policy.settings, pattern=pattern)
    names = [one.name for one in participants(policy.catalog, settings)]
    assert names[: len(first)] == first
    assert ("generalist" in names) is (pattern != "team")


def test_the_settings_provider_is_named_first_unless_agents_are_given() -> None:
    policy = read_policy([read_shipped_layer()])
    catalog, settings = policy.catalog, replace(policy.settings, provider="anthropic")
    other = replace(catalog.agents["qa"], model="openai:gpt")
    lead = replace(catalog.agents[settings.lead], model="openai:gpt")
    mixed = replace(catalog, agents={**catalog.agents, settings.lead: lead})
    assert list(named_vendors(mixed, settings)) == ["anthropic", "openai"]
    assert named_vendors(catalog, settings, [other]) == {"openai": ["qa"]}
