"""Every rule finds its bad case and not its good one, in one real review of all cases."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from tests.review.analyzers.rule_cases import (
    OWN,
    PAST,
    RUN_RULES,
    WHOLE,
    WHOLE_RULES,
    Case,
    Files,
    advisories,
    case_of,
    lcov,
    placed,
)
from tests.review.review_kit import Repo, change, options

RULES = load_rules([read_shipped_layer()]).rules


Opinion = tuple[object, ...]


def opinion(verdict: Verdict) -> Opinion:
    """What a review says of a change, without which agent and call said it."""
    return (
        verdict.verdict,
        verdict.status,
        {(f.rule, f.path, f.start_line, f.severity, f.title) for f in verdict.findings},
        {(file.path, file.depth) for file in verdict.checked},
        {(file.path, file.why, file.gap) for file in verdict.skipped},
        {(check.name, check.status) for check in verdict.required_checks},
    )


def review(repo: Repo, **said: object) -> Verdict:
    return run_review(options(repo.path, **said), ignore_event)


def found_in(path: Path, base: Files, head: Files) -> set[tuple[str, str]]:
    verdict = review(change(path, base, head, PAST))
    return {(finding.rule, finding.path) for finding in verdict.findings}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Verdict]:
    """The verdicts over one change that holds the cases of all rules, of a team and one agent."""
    place = tmp_path_factory.mktemp("cases")
    base: dict[str, str] = {}
    head: dict[str, str] = {}
    for rule in RULES.values():
        case = case_of(rule) or Case({}, {})
        for kind, files in (("bad", case.bad), ("good", case.good)):
            base |= placed(rule.id, kind, case.base)
            head |= placed(rule.id, kind, files)
    report = place / "lcov.info"
    report.write_text(lcov())
    (place / "osv").mkdir()
    for name, advisory in advisories().items():
        (place / "osv" / name).write_text(advisory)
    given = {"coverage": [str(report)], "advisories": str(place / "osv")}
    repo = change(place / "all", base, head, PAST)
    return {name: review(repo, pattern=name, **given) for name in ("team", "single")}


def test_a_rule_reports_its_defect_and_not_the_case_that_differs_by_one_thing(
    told: Mapping[str, Verdict],
) -> None:
    paths = defaultdict[str, set[str]](set)
    for finding in told["team"].findings:
        paths[finding.rule].add(finding.path)
    silent, wrong = set(), set()
    for name in set(RULES) - {*WHOLE_RULES, *RUN_RULES}:
        case = case_of(RULES[name])
        assert case is not None, f"no case in the suite shows {name}"
        assert case.bad != case.good or name in {"qa.untested-function", "qa.uncovered-lines"}
        if not paths[name] & placed(name, "bad", {**case.base, **case.bad}).keys():
            silent.add(name)
        if paths[name] & placed(name, "good", {**case.base, **case.good}).keys():
            wrong.add(name)
    assert (silent, wrong) == (set(), set())


def test_one_agent_says_of_all_samples_what_the_team_says(told: Mapping[str, Verdict]) -> None:
    assert opinion(told["single"]) == opinion(told["team"])


def test_one_agent_finds_what_only_the_teams_architect_looked_for(tmp_path: Path) -> None:
    base = {
        **dict.fromkeys(("app/__init__.py", "app/low/__init__.py", "app/high/__init__.py"), ""),
        "app/high/a.py": "X = 1\n",
        "app/low/b.py": '"""Low."""\n\nY = 1\n',
        "pyproject.toml": '[tool.importlinter]\nroot_package="app"\n[[tool.importlinter.contracts]]\n'
        'name="layers"\ntype="layers"\nlayers=["app.high","app.low"]\n',
    }
    head = {"app/low/b.py": '"""Low."""\n\nfrom app.high.a import X\n\nY = X\n'}
    repo = change(tmp_path, base, head)
    single = review(repo, pattern="single")
    assert [finding.rule for finding in single.findings] == ["architecture.layering-contract"]
    assert single.exit_code == 1
    assert opinion(single) == opinion(review(repo, pattern="team"))


def test_rules_of_the_change_as_a_whole(tmp_path: Path) -> None:
    bad = found_in(tmp_path / "bad", WHOLE.base, WHOLE.bad)
    good = found_in(tmp_path / "good", WHOLE.base, WHOLE.good)
    assert {rule for rule, _ in bad} >= set(WHOLE_RULES)
    assert not {rule for rule, _ in good} & set(WHOLE_RULES)


def test_every_case_has_a_rule() -> None:
    assert set(OWN) <= set(RULES)
