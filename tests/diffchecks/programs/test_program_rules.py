"""Every code that is on finds a sample with the defect and not one without."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from diffchecks.rules import RuleTable
from orchestrator.code_review.analyzer_types import Side
from tests.diffchecks.programs import (
    docker_samples,
    ruff_samples,
    ruff_security_samples,
    shell_samples,
    workflow_samples,
)
from tests.diffchecks.programs.program_tools import MAKES
from tests.diffchecks.programs.ruff_text import IMPORTS

ANALYZERS = ("ruff", "zizmor", "shellcheck", "hadolint")
NO_IMPORTS = {"F401", "F404", "F407"}


def _python() -> dict[str, tuple[str, str, str]]:
    samples = {**ruff_samples.SAMPLES, **ruff_security_samples.SAMPLES}
    heads = {code: "" if code in NO_IMPORTS else IMPORTS for code in samples}
    return {
        code: (f"{code}.py", heads[code] + bad, heads[code] + good)
        for code, (bad, good) in samples.items()
    }


def _plain(samples: Mapping[str, tuple[str, str]], suffix: str) -> dict[str, tuple[str, str, str]]:
    return {code: (code + suffix, bad, good) for code, (bad, good) in samples.items()}


# tool → code → (path, bad, good)
SAMPLES: dict[str, dict[str, tuple[str, str, str]]] = {
    "ruff": _python(),
    "zizmor": {
        code: (path.replace("ci.yml", f"{code}.yml"), bad, good)
        for code, (path, bad, good) in workflow_samples.SAMPLES.items()
    },
    "shellcheck": _plain(shell_samples.SAMPLES, ".sh"),
    "hadolint": _plain(docker_samples.SAMPLES, ".Dockerfile"),
}

ReportedCodes = dict[tuple[str, str], dict[str, set[str]]]


@pytest.fixture(scope="module")
def reported_codes(rules: RuleTable, tmp_path_factory: pytest.TempPathFactory) -> ReportedCodes:
    """(tool, bad or good) → path → codes; each tool runs once over all of its samples."""
    found: ReportedCodes = {}
    for tool, samples in SAMPLES.items():
        for nth, kind in enumerate(("bad", "good"), start=1):
            root: Path = tmp_path_factory.mktemp(f"{tool}-{kind}")
            for sample in samples.values():
                target = root / sample[0]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(sample[nth].encode())
            paths = [sample[0] for sample in samples.values()]
            analyzer = MAKES[tool](rules.codes(tool))
            report = anyio.run(analyzer.run, Side("head", root), paths)
            assert report.error is None
            # A shell's syntax error is a finding and a gap: the rest of the script is not read.
            unread = set(report.gaps)
            assert not unread or (tool, kind) == ("shellcheck", "bad")
            assert report.examined | unread == set(paths)
            codes: dict[str, set[str]] = {path: set() for path in paths}
            for finding in report.findings:
                codes[finding.path].add(finding.code)
            found[tool, kind] = codes
    return found


@pytest.mark.parametrize("tool", ANALYZERS)
def test_every_code_is_found_in_its_bad_sample_only(
    reported_codes: ReportedCodes, tool: str
) -> None:
    paths = {code: path for code, (path, _, _) in SAMPLES[tool].items()}
    bad, good = (reported_codes[tool, kind] for kind in ("bad", "good"))
    assert [code for code, path in paths.items() if code not in bad[path]] == []
    assert [code for code, path in paths.items() if code in good[path]] == []


@pytest.mark.parametrize("tool", ["zizmor", "shellcheck", "hadolint"])
def test_good_samples_have_no_finding(reported_codes: ReportedCodes, tool: str) -> None:
    assert {path: codes for path, codes in reported_codes[tool, "good"].items() if codes} == {}


@pytest.mark.parametrize("tool", ANALYZERS)
def test_samples_and_codes_of_the_rule_table_are_the_same(rules: RuleTable, tool: str) -> None:
    assert rules.codes(tool) == set(SAMPLES[tool])


def test_only_the_line_that_gives_all_permissions_is_cited(
    rules: RuleTable, tmp_path: Path
) -> None:
    path = ".github/workflows/ci.yml"
    job = "  {}:\n    runs-on: ubuntu-latest\n{}    steps:\n      - run: make\n"
    text = (
        "on: push\njobs:\n" + job.format("a", "") + job.format("b", "    permissions: write-all\n")
    )
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    analyzer = MAKES["zizmor"](rules.codes("zizmor"))
    report = anyio.run(analyzer.run, Side("head", tmp_path), [path])
    line = text.split("\n").index("    permissions: write-all") + 1
    assert [(one.code, one.line) for one in report.findings] == [("excessive-permissions", line)]
