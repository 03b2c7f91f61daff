"""Waivers: a finding that a person has accepted is still shown, and does not decide."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from diffchecks.check_io import FlowStep
from diffchecks.rules import shipped_rules
from orchestrator.catalog.repository_memory import DismissedFinding, Preference
from orchestrator.catalog.shared_literals import Severity
from orchestrator.catalog.verdict_policy import Waiver
from orchestrator.code_review.findings.finding_context import ContextBlock
from orchestrator.code_review.findings.waivers import (
    PlacedDismissal,
    apply_waivers,
    check_waivers,
    describe_memory,
    describe_waivers,
    why_reopened,
)
from orchestrator.code_review.verdict.document_parts import (
    FindingContext,
    Guideline,
    MemoryUse,
    WaiverUse,
)
from orchestrator.code_review.verdict.model import Cause, Finding, Verdict
from orchestrator.errors import ConfigError
from tests.review.review_kit import change, review
from tests.review.test_decision import finding
from tests.review.test_merging import POLICY

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
RULE = "security.subprocess-shell"
TODAY = datetime.now(UTC).date()


async def reviewed(tmp_path: Path, waivers: str, path: str = "tools/run.py") -> Verdict:
    base = {".diffcourt/config/verdict.yaml": f"waivers:\n{waivers}"}
    return await review(change(tmp_path / "repo", base, {path: SHELL}))


def shell_finding(verdict: Verdict) -> Finding:
    (found,) = [finding for finding in verdict.findings if finding.rule == RULE]
    return found


async def test_a_waived_finding_is_shown_and_does_not_count(tmp_path: Path) -> None:
    waiver = f"  - {{rule: {RULE}, paths: ['tools/**'], why: Run by hand only.}}\n"
    verdict = await reviewed(tmp_path, waiver)
    assert (shell_finding(verdict).state, shell_finding(verdict).waiver) == (
        "waived",
        "Run by hand only.",
    )
    assert verdict.verdict == "merge"


async def test_a_waiver_holds_for_its_paths_only(tmp_path: Path) -> None:
    waiver = f"  - {{rule: {RULE}, paths: ['tools/**'], why: Run by hand only.}}\n"
    verdict = await reviewed(tmp_path, waiver, "app/run.py")
    assert shell_finding(verdict).state == "open"
    assert verdict.verdict == "needs_changes"


@pytest.mark.parametrize(("days", "state"), [(0, "waived"), (-1, "open")])
async def test_a_waiver_expires_after_its_last_day_and_says_so(
    tmp_path: Path, days: int, state: str
) -> None:
    # The day may turn while this runs: a day more or less is given where it would matter.
    until = TODAY + timedelta(days=days or 1)
    found = shell_finding(
        await reviewed(tmp_path, f"  - {{rule: {RULE}, until: {until}, why: A trial.}}\n")
    )
    assert found.state == state
    assert ("held until" in found.waiver) == (state == "open")


async def test_a_single_finding_is_waived_by_its_fingerprint(tmp_path: Path) -> None:
    first = await review(change(tmp_path / "first", {}, {"tools/run.py": SHELL}))
    mark = shell_finding(first).fingerprint
    verdict = await reviewed(tmp_path, f"  - {{fingerprint: {mark}, why: Known.}}\n")
    assert shell_finding(verdict).state == "waived"


async def test_one_more_equal_finding_is_not_waived(tmp_path: Path) -> None:
    first = await review(change(tmp_path / "first", {}, {"tools/run.py": SHELL}))
    waiver = f"waivers:\n  - {{fingerprint: {shell_finding(first).fingerprint}, why: Known.}}\n"
    base = {".diffcourt/config/verdict.yaml": waiver, "tools/run.py": SHELL}
    again = "\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
    verdict = await review(change(tmp_path / "repo", base, {"tools/run.py": SHELL + again}))
    assert shell_finding(verdict).state == "open"
    assert verdict.verdict == "needs_changes"


async def test_a_waiver_that_the_change_brings_does_not_count(tmp_path: Path) -> None:
    waivers = f"waivers:\n  - {{rule: {RULE}, why: Trust me.}}\n"
    head = {"run.py": SHELL, ".diffcourt/config/verdict.yaml": waivers}
    assert shell_finding(await review(change(tmp_path / "repo", {}, head))).state == "open"


@pytest.mark.parametrize(
    ("waiver", "says"),
    [
        (
            "{rule: security.subprocess-shel, why: x}",
            rf"verdict.yaml:2: there is no rule security.subprocess-shel; did you mean {RULE}\?$",
        ),
        ("{rule: zzz, why: x}", "there is no rule zzz; `diffcourt catalog --rules` lists them$"),
        ("{why: x}", "one of the two"),
        (f"{{rule: {RULE}, until: soon, why: x}}", "until"),
        (f"{{rule: {RULE}}}", "why"),
    ],
)
async def test_a_waiver_that_matches_nothing_is_an_error(
    tmp_path: Path, waiver: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        await reviewed(tmp_path, f"  - {waiver}\n")


FILE = ".diffcourt/waivers.yaml"
REQUEST = "from flask import request\n\n\ndef run():\n    return eval(request.args['x'])\n"


async def reviewed_file(tmp_path: Path, waivers: str, code: str = SHELL) -> Verdict:
    files = {FILE: f"# ours\nwaivers:\n{waivers}"}
    return await review(change(tmp_path / "repo", files, {"tools/run.py": code}))


async def test_the_repositorys_own_file_of_waivers_counts_and_names_who_accepts(
    tmp_path: Path,
) -> None:
    verdict = await reviewed_file(
        tmp_path, f"  - {{rule: {RULE}, why: Run by hand only., by: security-team}}\n"
    )
    found = shell_finding(verdict)
    assert (found.state, found.waiver) == ("waived", "Run by hand only. (security-team)")
    (use,) = verdict.waivers
    assert (use.state, use.name, use.by, use.findings) == (
        "used",
        RULE,
        "security-team",
        (found.id,),
    )


async def test_expired_waivers_and_those_for_no_file_are_listed(tmp_path: Path) -> None:
    waivers = (
        f"  - {{rule: {RULE}, until: 2020-01-01, why: A trial.}}\n"
        f"  - {{rule: {RULE}, paths: ['gone/**'], why: Old.}}\n"
        "  - {fingerprint: 0123456789abcdef, why: Elsewhere.}\n"
    )
    verdict = await reviewed_file(tmp_path, waivers)
    assert shell_finding(verdict).state == "open"
    assert [(use.state, use.why) for use in verdict.waivers] == [
        ("expired", "A trial."),
        ("unmatched", "Old."),
    ]


@pytest.mark.parametrize(("by", "state"), [("", "open"), (", by: security-team", "waived")])
async def test_a_critical_finding_is_waived_by_a_named_person_only(
    tmp_path: Path, by: str, state: str
) -> None:
    rule = "security.code-injection"
    verdict = await reviewed_file(tmp_path, f"  - {{rule: {rule}, why: x{by}}}\n", REQUEST)
    (found,) = [finding for finding in verdict.findings if finding.rule == rule]
    assert found.severity == "critical"
    assert found.state == state
    assert ("needs a person's name" in found.waiver) == (state == "open")


async def test_a_change_cannot_waive_its_own_finding(tmp_path: Path) -> None:
    waiver = f"waivers:\n  - {{rule: {RULE}, why: Mine.}}\n"
    verdict = await review(change(tmp_path / "repo", {}, {"tools/run.py": SHELL, FILE: waiver}))
    assert shell_finding(verdict).state == "open"
    assert verdict.waivers == ()


@pytest.mark.parametrize(
    "content", ["waivers: [{why: x}]", "waivers: [{rule: no.such-rule, why: x}]", "other: 1"]
)
async def test_an_error_in_the_file_of_waivers_names_it(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError, match=r"\.diffcourt/waivers\.yaml"):
        await review(change(tmp_path / "repo", {FILE: content}, {"tools/run.py": SHELL}))


RULED = replace(finding(), rule="r")
FIRST, LAST = date(2026, 1, 1), date(2026, 12, 31)
DAY = "2026-06-01"
PLAIN = Waiver(rule="r", why="known")
ENDED = Waiver(rule="r", why="a trial", until=FIRST)
OFF = Preference(rule="r", why="noise", severity="off")
LOWER = Preference(rule="r", why="noise", severity="low")
ABOUT = DismissedFinding(
    severity="medium", title="t", rule="r", path="a.py", line=1, context="d1", flow="old"
)


def dismissed(
    means: Callable[[object], bool] = lambda _: True,
    added: Callable[[str], frozenset[int]] = lambda _: frozenset(),
    **more: object,
) -> PlacedDismissal:
    given = {"fingerprint": "f1", "why": "fine", "paths": ("a.py",), "about": ABOUT, **more}
    return PlacedDismissal(means=means, added=added, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("waivers", "severity", "state", "says"),
    [
        ([PLAIN], "high", "waived", "known"),
        ([replace(PLAIN, by="Ada")], "critical", "waived", "known (Ada)"),
        ([PLAIN], "critical", "open", "not waived: a critical finding needs a person's name, as by: (known)"),
        ([PLAIN, replace(PLAIN, by="Ada", why="seen")], "critical", "waived", "seen (Ada)"),
        ([Waiver(fingerprint="f1", why="one")], "low", "waived", "one"),
        ([Waiver(fingerprint="f2", why="one")], "low", "open", ""),
        ([replace(PLAIN, rule="s")], "low", "open", ""),
        ([replace(PLAIN, paths=("b.py", "a.*"))], "low", "waived", "known"),
        ([replace(PLAIN, paths=("b.py",))], "low", "open", ""),
        ([replace(PLAIN, until=LAST)], "low", "waived", "known"),
        ([replace(PLAIN, until=date.fromisoformat(DAY))], "low", "waived", "known"),
        ([ENDED], "low", "open", "its waiver held until 2026-01-01 (a trial)"),
        ([ENDED, PLAIN], "low", "waived", "known"),
        ([OFF], "low", "waived", "noise"),
        ([replace(OFF, below_confidence=0.8)], "low", "open", ""),
        ([replace(OFF, below_confidence=0.9)], "low", "waived", "noise"),
        ([LOWER], "high", "low", "low instead of high: noise"),
        ([replace(LOWER, by="Ada")], "critical", "low", "low instead of critical: noise (Ada)"),
        ([LOWER], "critical", "critical", "still critical: to lower that takes a person's name, as by: (noise)"),
        ([LOWER], "low", "low", ""),
        ([replace(OFF, rule="s"), LOWER], "high", "low", "low instead of high: noise"),
        ([replace(LOWER, rule="s"), LOWER], "high", "low", "low instead of high: noise"),
        ([replace(LOWER, severity="high"), LOWER], "medium", "low", "low instead of medium: noise"),
        ([replace(LOWER, until=FIRST), replace(LOWER, rule="s"), LOWER], "medium", "low", "low instead of medium: noise"),
        ([LOWER, PLAIN], "high", "waived", "known"),
        ([PLAIN, LOWER], "high", "waived", "known"),
        ([dismissed()], "medium", "waived", "fine"),
        ([dismissed(lambda _: False)], "medium", "open", ""),
        ([dismissed(until=FIRST)], "medium", "open", "its waiver held until 2026-01-01 (fine)"),
        ([dismissed(is_edited=True)], "medium", "open", "a person dismissed it (fine), and it is open again: the line changed since"),
        (
            [dismissed(is_edited=True, by="Ada", on=FIRST)],
            "medium",
            "open",
            "Ada dismissed it on 2026-01-01 (fine), and it is open again: the line changed since",
        ),
        ([dismissed(is_edited=True), PLAIN], "medium", "waived", "known"),
        ([dismissed(by="Ada"), PLAIN], "critical", "open", "not waived: a critical finding needs a person's name, as by: (fine)"),
    ],
)  # fmt: skip
def test_what_a_waiver_does_to_a_finding(
    waivers: list[Waiver], severity: Severity, state: str, says: str
) -> None:
    policy = replace(POLICY, waivers=tuple(waivers))
    (found,) = apply_waivers([replace(RULED, severity=severity)], policy, DAY)
    assert (state in {found.state, found.severity}, found.waiver) == (True, says)
    assert (found.state == "waived") == (state == "waived")


BLOCK = ContextBlock(3, 9, "def f():", "d2")
AROUND = FindingContext("l", flow="new", scope="def f():", start_line=3, end_line=9)
STEP = FlowStep(path="b.py", line=4, text="")
GONE = Cause("c.py", 5, removed=True)


@pytest.mark.parametrize(
    ("about", "dismissals", "why"),
    [
        (RULED, [dismissed()], ""),
        (RULED, [dismissed(is_edited=True)], "the line changed since"),
        (RULED, [dismissed(is_edited=True), dismissed()], ""),
        (RULED, [dismissed(now=BLOCK, path="a.py")], "the function around it (def f():) at a.py:3-9 changed since"),
        (RULED, [dismissed(now=replace(BLOCK, scope=""), path="a.py")], "the lines around it at a.py:3-9 changed since"),
        (RULED, [dismissed(now=replace(BLOCK, digest="d1"))], ""),
        (RULED, [dismissed(now=BLOCK, in_base=frozenset({"d2"}))], ""),
        (RULED, [dismissed(), dismissed(now=BLOCK, path="a.py")], ""),
        (RULED, [dismissed(now=BLOCK), dismissed()], ""),
        (replace(RULED, severity="high"), [dismissed()], "an analyzer proves it as high, and it was dismissed as medium"),
        (replace(RULED, severity="high", support="claimed"), [dismissed()], ""),
        (
            replace(RULED, severity="critical", support="claimed"),
            [dismissed()],
            "agents report it as critical, and it was dismissed as medium",
        ),
        (replace(RULED, severity="low"), [dismissed()], ""),
        (
            replace(RULED, context=AROUND, steps=(STEP,)),
            [dismissed(added=lambda path: frozenset({4} if path == "b.py" else ()))],
            "b.py:4, which the change adds, leads to it",
        ),
        (replace(RULED, context=AROUND, steps=(STEP,)), [dismissed(added=lambda _: frozenset({5}))], ""),
        (replace(RULED, context=replace(AROUND, flow=""), steps=(STEP,)), [dismissed(added=lambda _: frozenset({4}))], ""),
        (
            replace(RULED, context=AROUND, because_of=GONE),
            [dismissed()],
            "c.py:5, which the change removes, leads to it",
        ),
    ],
)  # fmt: skip
def test_why_a_dismissed_finding_is_open_again(
    about: Finding, dismissals: list[PlacedDismissal], why: str
) -> None:
    assert why_reopened(about, dismissals) == why


def test_waivers_are_listed_with_their_use() -> None:
    waivers = (
        replace(PLAIN, by="Ada", until=LAST),
        ENDED,
        Waiver(fingerprint="gone", why="w", paths=("z.py",)),
        Waiver(rule="s", why="elsewhere"),
        OFF,
    )
    uses = describe_waivers([RULED], replace(POLICY, waivers=waivers), ["a.py"], DAY)
    assert uses == (
        WaiverUse("used", "r", ("**",), "known", "Ada", "2026-12-31", ("F1",)),
        WaiverUse("expired", "r", ("**",), "a trial", "", "2026-01-01", ("F1",)),
        WaiverUse("unmatched", "gone", ("z.py",), "w"),
    )


@pytest.mark.parametrize(
    ("entry", "about", "effect"),
    [
        (replace(OFF, until=FIRST), RULED, "expired"),
        (OFF, replace(RULED, state="waived"), "dismissed"),
        (OFF, RULED, "reopened"),
        (OFF, replace(RULED, severity="critical"), "unnamed"),
        (replace(OFF, by="Ada"), replace(RULED, severity="critical", state="waived"), "dismissed"),
        (LOWER, replace(RULED, waiver="low"), "lowered"),
        (LOWER, RULED, None),
        (replace(LOWER, rule="s"), RULED, None),
        (replace(LOWER, rule="s", paths=("z.py",)), RULED, "unmatched"),
        (dismissed(is_edited=True), replace(RULED, state="waived"), None),
        (dismissed(is_edited=True), RULED, "reopened"),
        (dismissed(lambda _: False), RULED, None),
        (dismissed(lambda _: False, about=replace(ABOUT, path="z.py")), RULED, "unmatched"),
        (dismissed(lambda _: False, about=replace(ABOUT, path="z.py"), path="y.py"), RULED, None),
        (dismissed(lambda _: False, about=None, paths=("z.py",)), RULED, "unmatched"),
    ],
)
def test_entries_of_the_memory_are_listed_with_their_effect(
    entry: Waiver, about: Finding, effect: str | None
) -> None:
    uses = describe_memory([about], replace(POLICY, waivers=(entry, PLAIN)), ["a.py"], DAY)
    assert [use.effect for use in uses] == ([effect] if effect else [])


def test_an_entry_of_the_memory_says_whose_it_is_and_where_it_stands() -> None:
    entries = (replace(OFF, by="Ada", until=LAST), dismissed(recorded_by="bot"))
    line = Guideline(".diffcourt/memory/notes.md", 1, "Never do that.")
    cited = [
        replace(RULED, guideline=line),
        replace(RULED, id="F2", fingerprint="f2", guideline=line),
    ]
    uses = describe_memory(cited, replace(POLICY, waivers=entries), ["a.py"], DAY)
    both = ("F1", "F2")
    assert uses == (
        MemoryUse(file=".diffcourt/memory/preferences.md", entry="r", effect="reopened", why="noise", by="Ada", until="2026-12-31", findings=both),
        MemoryUse(file=".diffcourt/memory/dismissed.yaml", entry="f1", effect="reopened", why="fine", by="bot", findings=both),
        MemoryUse(file=".diffcourt/memory/notes.md", entry="Never do that.", effect="cited", findings=both),
    )  # fmt: skip


def test_a_waiver_of_an_unknown_rule_that_no_file_spells_out_is_an_error_of_the_policy() -> None:
    policy = replace(POLICY, waivers=(Waiver(rule="qa.no-such", why="w"),))
    with pytest.raises(ConfigError, match=r"^config/verdict.yaml: there is no rule qa.no-such; "):
        check_waivers(policy, shipped_rules(), [])
