"""Waivers: a finding that a person has accepted is still shown, and does not decide."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.errors import ConfigError
from tests.review.review_kit import change, review

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
        ("{rule: security.no-such-rule, why: x}", "there is no rule security.no-such-rule"),
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
