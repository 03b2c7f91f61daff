"""A branch of ten pushes, reviewed by a model that repeats, contradicts and invents.

What stands in the verdicts: each defect once, from the push that brought it to the one that mends it.
"""

from collections import Counter
from pathlib import Path

from orchestrator.code_review.verdict.model import Finding, Verdict
from tests.review.push_kit import Branch, claims, disputes, said

PUSHES = 10
OPENING = '"""Steps."""\n\n'


def step(number: int) -> str:
    """A function with one defect, on its third line."""
    return (
        f"\ndef step{number}(items):\n"
        f"    kept = sorted(items)\n"
        f"    return kept[{number}] / len(items)\n"
    )


def defect(number: int) -> str:
    return f"return kept[{number}] / len(items)"


def line_of(number: int) -> int:
    return 2 + 4 * number


def true_claim(number: int) -> dict[str, object]:
    """The defect as the reviewer first words it; every third one is severe."""
    severity = "high" if number % 3 == 0 else "medium"
    title = f"step{number} fails for fewer than {number + 1} items"
    return claims(defect(number), title, line_of(number), severity=severity)


OTHER_WORDS = (
    "An index may be out of range",
    "Short input is not handled",
    "IndexError for a short list",
    "The caller is not protected against an empty sequence",
)


def repeated(number: int, push: int) -> dict[str, object]:
    """The defect of an earlier push in other words, and less or more of the line quoted."""
    title = OTHER_WORDS[(number + push) % len(OTHER_WORDS)]
    quote = defect(number) if push % 2 else f"kept[{number}] / len(items)"
    # A reviewer that is not sure any more, or surer than before.
    return {**true_claim(number), "title": title, "quote": quote, "confidence": 0.55 + push / 30}


def nitpick(number: int, push: int) -> dict[str, object]:
    """A new matter of taste on a line of an earlier push, the contrary of that one's."""
    taste = "Sort in place" if push % 2 else "Do not sort in place"
    return claims(
        "kept = sorted(items)", f"{taste} in step{number}, push {push}", line_of(number) - 1,
        severity="low" if number % 2 else "medium",
    )  # fmt: skip


def recanted(found: Finding) -> dict[str, object]:
    """The reviewer says that what it found is none, and shows nothing."""
    return {
        "finding": found.fingerprint, "action": "withdraw", "reason": "It is fine.", "evidence": [],
    }  # fmt: skip


def of_agents(verdict: Verdict) -> list[Finding]:
    return [one for one in verdict.findings if one.support != "proven" and one.state == "open"]


async def test_ten_pushes_show_each_defect_once_and_contradict_nothing(tmp_path: Path) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    text, verdicts = OPENING, list[Verdict]()
    for push in range(1, PUSHES + 1):
        text += step(push)
        findings = [true_claim(push)]
        findings += [repeated(old, push) for old in range(1, push) if (old + push) % 2]
        findings += [nitpick(old, push) for old in range(1, push)]
        earlier = of_agents(verdicts[-1]) if verdicts else []
        back = [recanted(one) for one in earlier[push % 2 :: 3]]
        invented = disputes(earlier[0], "if not items:") if earlier else None
        responses = [*back, *([invented] if invented else [])]
        reply = said(*findings, responses=responses)
        # What does not hold is sent back once; this reviewer insists.
        verdicts.append(await branch.push({"app.py": text}, *[reply] * (2 if responses else 1)))

    names = dict[str, str]()
    for push, verdict in enumerate(verdicts, 1):
        found = of_agents(verdict)
        lines = Counter((one.start_line, one.evidence.quote) for one in found)
        assert lines == Counter((line_of(n), f"    {defect(n)}") for n in range(1, push + 1))
        new = [one for one in found if one.since_previous in {"new", ""}]
        assert [one.title for one in new] == [true_claim(push)["title"]]
        for one in found:  # each keeps its name, its words, and how severe it is
            said_of_it = f"{one.title} {one.severity} {one.confidence}"
            assert names.setdefault(one.fingerprint, said_of_it) == said_of_it
        # The first that is severe comes with the third push; claims below that decide nothing.
        assert verdict.verdict == ("merge" if push < 3 else "needs_changes")
        assert verdict.previous is None or verdict.previous.fixed == ()
        settled = [one for one in verdict.rejected if one.cause == "settled"]
        assert len(settled) == push - 1
    assert len(names) == PUSHES


async def test_fixed_findings_end_in_merge_even_if_the_model_repeats_them(tmp_path: Path) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    text = OPENING + step(1) + step(2)
    await branch.push({"app.py": text}, said(true_claim(1), true_claim(2)))
    text = text.replace(defect(1), "return sum(kept)")
    second = await branch.push({"app.py": text}, said(nitpick(1, 2)))
    assert [one.title for one in of_agents(second)] == [true_claim(2)["title"]]
    text = text.replace(defect(2), "return max(kept)")
    third = await branch.push({"app.py": text}, said(nitpick(1, 3), nitpick(2, 3)))
    assert (of_agents(third), third.verdict) == ([], "merge")
