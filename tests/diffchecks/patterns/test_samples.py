"""Planted defects by language: how many are found, and that what is safe is quiet."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules
from tests.diffchecks.check_kit import read_samples
from tests.diffchecks.patterns.test_pattern_files import look

SAMPLES = {file.stem: file for file in (Path(__file__).parent / "samples").glob("*.yaml")}
SUFFIXES = {
    "cpp": ".cpp", "csharp": ".cs", "javascript": ".js", "kotlin": ".kt", "python": ".py", "python-web": ".py",
    "ruby": ".rb", "rust": ".rs", "perl": ".pl", "terraform": ".tf", "shell": ".sh", "container": ".Dockerfile",
    "pipeline": ".gitlab-ci.yml", "makefile": ".mk", "elixir": ".ex", "solidity": ".sol",
}  # fmt: skip
FOUND_AT_LEAST = 0.8


def planted(language: str) -> list[Mapping[str, str]]:
    """Pairs of a program with a defect and one that does the same without it."""
    return read_samples(SAMPLES[language])


@pytest.mark.parametrize("language", sorted(SAMPLES))
def test_most_planted_defects_are_found_and_nothing_else(tmp_path: Path, language: str) -> None:
    pairs, suffix = planted(language), SUFFIXES.get(language, f".{language}")
    assert 8 <= len(pairs) <= 60
    files = {
        f"{kind}{number}{pair.get('suffix', suffix)}": pair[kind]
        for number, pair in enumerate(pairs)
        for kind in ("bad", "good")
    }
    reply = look(tmp_path, files)
    assert not reply.gaps
    found = {finding.path for finding in reply.findings}
    assert not [(each.path, each.code) for each in reply.findings if each.path.startswith("good")]
    missed = [
        pair["what"]
        for n, pair in enumerate(pairs)
        if not any(f.startswith(f"bad{n}.") for f in found)
    ]
    assert len(missed) <= (1 - FOUND_AT_LEAST) * len(pairs), missed


def test_advice_is_in_the_language_of_the_file() -> None:
    rules = load_rules([read_shipped_layer()])
    for code, advice in [("go-random", "crypto/rand"), ("php-random", "random_bytes")]:
        rule = rules.find("patterns", code)
        assert rule is not None
        assert advice in rule.advice(code)


def test_a_request_that_reaches_a_shell_is_more_severe_than_a_value_of_unknown_origin(
    tmp_path: Path,
) -> None:
    program = "const f = (req, folder) => {{ exec(`ls ${{{}}}`); }};\n"
    files = {"a.js": program.format("req.query.folder"), "b.js": program.format("folder")}
    rules = load_rules([read_shipped_layer()])
    severities = {}
    for finding in look(tmp_path, files).findings:
        rule = rules.find_for("patterns", finding)
        assert rule is not None
        severities[finding.path] = rule.severity_of(finding)
    assert severities == {"a.js": "high", "b.js": "medium"}


# What each is found by has to stand in the file; these are other layouts of it.
LAYOUTS = {
    "python-default-changed": "def f(\n    a,\n    seen=[]  # so far\n):\n    seen.append(a)\n    return seen\n",
    "python-always-same": 'x = (s != "a"  # this one\n     or s != "b") or 1\n',
    "python-hidden-name": "run = \\\n    exec\nrun(text)\n",
    "python-swallowed": "try:\n    charge_card(order)\nexcept Exception:\n    # no matter   \n    pass\n",
    "php-response-request": "<?php\nif ($json) {\n  header('Content-Type: application/json');\n  exit;\n}\necho '<b>' . $_GET['a'];\n",
}


def test_what_a_file_has_to_hold_may_have_any_layout(tmp_path: Path) -> None:
    files = {f"{code}.{code.split('-')[0]}": text for code, text in LAYOUTS.items()}
    reply = look(tmp_path, {path.replace(".python", ".py"): text for path, text in files.items()})
    assert {*LAYOUTS} <= {one.code for one in reply.findings}
