"""Every rule finds its bad case and not its good one, in one real review of all cases."""

from collections import defaultdict
from pathlib import Path

from orchestrator.app.run_review import run_review
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.rule_table import load_rules
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
from tests.review.review_kit import change, options

RULES = load_rules([read_shipped_layer()]).rules


def found_in(path: Path, base: Files, head: Files, **said: object) -> set[tuple[str, str]]:
    verdict = run_review(options(change(path, base, head, PAST).path, **said), ignore_event)
    return {(finding.rule, finding.path) for finding in verdict.findings}


def told(place: Path) -> set[tuple[str, str]]:
    """(rule, path) of every finding of one change that holds the cases of all rules."""
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
    return found_in(place / "all", base, head, **given)


def test_a_rule_reports_its_defect_and_not_the_case_that_differs_by_one_thing(
    tmp_path: Path,
) -> None:
    paths = defaultdict[str, set[str]](set)
    for rule, path in told(tmp_path):
        paths[rule].add(path)
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


def test_rules_of_the_change_as_a_whole(tmp_path: Path) -> None:
    bad = found_in(tmp_path / "bad", WHOLE.base, WHOLE.bad)
    good = found_in(tmp_path / "good", WHOLE.base, WHOLE.good)
    assert {rule for rule, _ in bad} >= set(WHOLE_RULES)
    assert not {rule for rule, _ in good} & set(WHOLE_RULES)


def test_every_case_has_a_rule() -> None:
    assert set(OWN) <= set(RULES)
