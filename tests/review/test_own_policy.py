"""A repository's own data that names what does not exist is a fault with its place, not silence."""

import json
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.code_review.findings.measured_criteria import MEASURES

RULE = "rules:\n  - {id: security.x, title: T, severity: high, why: w, fix: f, from: ["
PATTERN = """extends: javascript
patterns:
  - code: js-x
    rule: {pattern: RULE}
    where: {A: {is: [varies]}}
    message: m
    example: {bad: "shop.raw(text);", good: "GOOD"}
"""
RUBRIC = """name: mine
version: 1
description: d
threshold: 0.5
criteria:
  - {id: files-acounted, kind: measured, description: d}
"""
WAIVER = "waivers:\n  - {rule: security.nosuch, paths: ['**'], why: w}\n"


def fixes(keys: str, grammars: str = "{.py: [python]}") -> dict[str, str]:
    text = f"grammars: {grammars}\nfixes:\n  - {{{keys}}}\n"
    return {"config/fixes/x.yaml": text}


SINK = "sinks: [{match: a.b, class: sql, args: ['0'], "


def pattern(rule: str, good: str = "shop.raw('a');") -> dict[str, str]:
    return {
        "config/patterns/x.yaml": PATTERN.replace("RULE", rule).replace("GOOD", good),
        "config/rules/x.yaml": RULE + '"patterns:js-x"]}\n',
    }


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config/rules/x.yaml": RULE + '"rufff:S1"]}\n'}, "config/rules/x.yaml:2: security.x is"),
        (
            {"config/rules/x.yaml": RULE + '"ruff:S602"]}\n'},
            "config/rules/x.yaml:2: ruff:S602 is in both security",
        ),
        ({"config/verdict.yaml": WAIVER}, "config/verdict.yaml:2: there is no rule sec"),
        (
            {"config/taint/x.yaml": "sinks: [{match: a.b, class: sqll, args: ['0']}]\n"},
            "config/taint/x.yaml: there is no class 'sqll'; allowed: attribute, code, ",
        ),
        (
            {"config/taint/x.yaml": "sanitizers: [{match: a.b, clears: [all, SQL]}]\n"},
            "config/taint/x.yaml: there is no class 'SQL'; allowed: attribute, code, ",
        ),
        (
            {"config/taint/x.yaml": SINK + "confidence: 3}]\n"},
            "config/taint/x.yaml: sinks: an entry is wrong: Expected `float` <= 1.0 - at `$.confidence`",
        ),
        ({"rubrics/mine.yaml": RUBRIC}, "rubrics/mine.yaml:6: nothing measures 'files-acounted'"),
        (pattern("shop.row($A)"), "x.yaml: js-x does not match its bad example; correct"),
        (pattern("'shop.raw($A'"), "x.yaml: js-x does not match its bad example; correct"),
        (
            pattern("shop.raw($A)", "shop.raw(t);"),
            "x.yaml: js-x matches its good example too; correct",
        ),
        (pattern("shop.raw($A)"), ""),
        (
            fixes("rule: security.nosuch, match: f($A), replace: $A"),
            "config/fixes/x.yaml: there is no rule 'security.nosuch' to fix",
        ),
        (
            fixes("rule: security.eval, match: f($A), replace: $A", "{}"),
            "config/fixes/x.yaml: not a valid file of fixes: match needs grammars (security.eval)",
        ),
        (
            fixes("rule: security.eval, match: f($A), replace: $A", "{.x: [klingon]}"),
            "config/fixes/x.yaml: ast-grep rejects the fix of security.eval",
        ),
        (
            fixes("rule: security.eval, replace: x"),
            "config/fixes/x.yaml: not a valid file of fixes: a template of security.eval needs",
        ),
        (fixes("rule: security.eval, regex: '(', replace: x"), "x.yaml: not a valid file of fixes"),
        (fixes("rule: security.eval, match: {kind: nosuch}, replace: x"), "ast-grep rejects"),
        (fixes("rule: security.eval, match: f($A), replace: $A"), ""),
    ],
)
def test_a_setting_without_effect_is_an_error(
    files: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        place = tmp_path / ".diffcourt" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    assert main(["catalog", "--repo", str(tmp_path)]) == (2 if said else 0)
    told = capsys.readouterr()
    assert told.err.count("\n") == bool(said)
    assert said in told.err
    assert bool(told.out) != bool(said)  # an empty list would say that there is nothing


def test_all_that_the_shipped_rubric_measures_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/rubrics.md").read_text()
    listed = page.partition("Measured criteria: ")[2].partition(".")[0]
    assert {name.strip("` \n") for name in listed.split(",")} == set(MEASURES)
    assert main(["catalog", "--repo", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
