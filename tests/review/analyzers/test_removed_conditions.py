"""A removed condition in a whole review: a lead, unless the base branch has a rule for it."""

from pathlib import Path

from orchestrator.app.run_review import run_review
from orchestrator.engine.observer_events import ignore_event
from tests.review.review_kit import change, options

DROP = "def drop(user, doc):\n    doc.delete()\n"
ADMIN = DROP.replace("    doc", "    if not user.is_admin:\n        raise Denied\n    doc")
LIMIT = DROP.replace("    doc", "    if doc.size > MAX_SIZE:\n        raise TooLarge\n    doc")
RULE = """\
rules:
  - id: security.condition-gone
    title: A condition that may protect is gone
    severity: medium
    cwe: [770]
    from: ["protections:removed-condition"]
    why: The function goes on with what it rejected before.
    fix: Restore it, or show where the value is rejected now.
    example: {bad: 'doc.delete()', good: 'if doc.size > MAX_SIZE: raise TooLarge'}
"""


def reviewed(path: Path, guarded: str, base: dict[str, str]) -> tuple[str, list[str]]:
    repo = change(path, {"drop.py": guarded, **base}, {"drop.py": DROP}).path
    verdict = run_review(options(repo), ignore_event)
    return verdict.verdict, [finding.rule for finding in verdict.findings]


def test_a_removed_condition_is_a_finding_only_under_a_rule_of_the_base_branch(
    tmp_path: Path,
) -> None:
    assert reviewed(tmp_path / "shipped", LIMIT, {}) == ("merge", [])
    own = {".diffcourt/config/rules/shop.yaml": RULE}
    assert reviewed(tmp_path / "own", LIMIT, own) == ("needs_changes", ["security.condition-gone"])


def test_a_denial_of_access_that_goes_is_told_and_decides_nothing(tmp_path: Path) -> None:
    assert reviewed(tmp_path, ADMIN, {}) == ("merge", ["security.denial-removed"])
