"""Reports of other analyzers become findings of the review."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from diffchecks.imported_reports import changed_results
from diffchecks.imported_reports.formats import read_report
from diffchecks.imported_reports.result import Result
from diffchecks.xml_reports import ReportError
from orchestrator.app.review_inputs.copied_inputs import MAX_REPORT_BYTES
from orchestrator.app.rubric_scoring.rescore import Rescored, rescore
from orchestrator.app.run_review import run_review
from orchestrator.app.runs.stored_runs import show_run
from orchestrator.cli.main import main
from orchestrator.data_directories import data_root
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import EXIT_USAGE, InputError
from orchestrator.tuning.file_formats.rubric_file import read_rubric
from tests.diffchecks.check_kit import run_check
from tests.review.analyzers.report_samples import SAMPLES
from tests.review.review_kit import change, options

BASE = {"app/pay.py": "import os\n\n\ndef pay(order):\n    return order\n"}
HEAD = {"app/pay.py": BASE["app/pay.py"] + "\n\ndef refund(order):\n    return order.paid\n"}


def sarif(
    uri: str, line: int | None, *, rule: str = "py/odd", run: Any = None, **result: Any
) -> dict[str, Any]:
    region = {"region": {"startLine": line}} if line else {}
    about = {
        "id": rule,
        "shortDescription": {"text": "Odd refund"},
        "properties": {"tags": ["security", "external/cwe/cwe-840"], "security-severity": "7.5"},
    }
    found = {
        "ruleId": rule,
        "message": {"text": "The refund is odd"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}],
        **result,
    }
    return {
        "tool": {"driver": {"name": "CodeQL", "rules": [about]}},
        "results": [found],
        **(run or {}),
    }


def log(*runs: dict[str, Any]) -> bytes:
    return json.dumps({"version": "2.1.0", "runs": runs}).encode()


def review(place: Path, *reports: bytes, prefix: str = "", **given: Any) -> Any:
    repository = change(place / "repo", BASE, HEAD).path
    names = []
    for number, data in enumerate(reports):
        report = place / f"report-{number}"
        report.write_bytes(data)
        names.append(f"{prefix}{report}")
    return run_review(options(repository, imports=names, **given), ignore_event)


def imported(verdict: Any) -> list[Any]:
    return [one for one in verdict.findings if one.rule.startswith("import.")]


def test_results_at_added_lines_are_findings_and_those_of_other_lines_are_not(
    tmp_path: Path,
) -> None:
    verdict = review(tmp_path, log(sarif("app/pay.py", 9), sarif("app/pay.py", 4)))
    (found,) = imported(verdict)
    assert (found.rule, found.severity, found.title) == (
        "import.codeql.py-odd", "high", "Odd refund",
    )  # fmt: skip
    assert (found.path, found.start_line, found.cwe) == ("app/pay.py", 9, (840,))
    assert found.category == "security"
    assert found.evidence.quote == "    return order.paid"
    assert found.detail == "The refund is odd\nReported by CodeQL as py/odd"


def test_a_result_that_cannot_be_placed_is_a_gap_and_the_rest_counts(tmp_path: Path) -> None:
    other = {"versionControlProvenance": [{"repositoryUri": "x", "revisionId": "f" * 40}]}
    stale = sarif("app/pay.py", 9)
    place = stale["results"][0]["locations"][0]["physicalLocation"]
    place["region"]["snippet"] = {"text": "return order.unpaid"}
    runs = [
        sarif("file:///etc/passwd", 1),
        sarif("../../x.py", 1),
        sarif("lib/pay.py", 1),
        sarif("built/gone.py", 1),
        sarif("app/pay.py", None),
        sarif("app/pay.py", 400),
        sarif("app/pay.py", 9, run=other),
        stale,
        sarif("file:///home/ci/work/app/pay.py", 8),
    ]
    verdict = review(tmp_path, log(*runs), b"<nonsense/>", b'{"version": "2.0.0", "runs": []}')
    (found,) = imported(verdict)
    assert found.start_line == 8
    gaps = {gap.path: gap.why for gap in verdict.skipped}
    assert "results in files outside the repository: 2, such as /etc/passwd" in gaps["report-0"]
    assert "results in files that head does not have: 1, such as lib/pay.py" in gaps["report-0"]
    assert "results without a line: 1, such as app/pay.py" in gaps["report-0"]
    assert "results about another version of the file: 2" in gaps["report-0"]
    assert "CodeQL was run on commit ffffffffffff" in gaps["report-0"]
    assert gaps["report-1"].startswith("is in no known format")
    assert gaps["report-2"] == "is SARIF 2.0.0, of which only 2.1.0 is read"


def test_a_report_that_is_too_large_is_a_gap_and_a_missing_one_ends_the_review(
    tmp_path: Path,
) -> None:
    large = tmp_path / "large.sarif"
    with large.open("wb") as file:
        file.truncate(MAX_REPORT_BYTES + 1)
    repository = change(tmp_path / "repo", BASE, HEAD).path
    verdict = run_review(options(repository, imports=[f"sarif:{large}"]), ignore_event)
    assert [gap.why for gap in verdict.skipped if gap.path == "large.sarif"] == [
        "is larger than 64 MiB; import a report of less"
    ]
    with pytest.raises(InputError, match="cannot read the report none"):
        run_review(options(repository, imports=[str(tmp_path / "none")]), ignore_event)


def test_secrets_and_control_characters_of_a_report_are_not_shown(tmp_path: Path) -> None:
    secret = "ghp_" + "q7Zt2LxPf9Wd4Kc8Rb1NvYs6Hm3JgTe5Ua0X"
    report = sarif("app/pay.py", 9, message={"text": f"token {secret}\x1b[31m\nnext"})
    report["tool"]["driver"]["rules"][0]["shortDescription"]["text"] = f"Leaks {secret}"
    (found,) = imported(review(tmp_path, log(report)))
    assert secret not in found.detail + found.title
    assert "\x1b" not in found.detail
    assert found.title == "Leaks [redacted]"


@pytest.mark.parametrize(
    ("lines", "found"), [("added", [9]), ("context", [4, 9]), ("file", [1, 4, 9])]
)
def test_base_says_which_lines_count_and_how_severe_a_rule_is(
    tmp_path: Path, lines: str, found: list[int]
) -> None:
    settings = json.dumps({"imports": {"lines": lines, "severities": {"codeql:py/*": "info"}}})
    base = BASE | {".diffcourt/config/defaults.yaml": settings}
    repository = change(tmp_path / "repo", base, base | HEAD).path
    report = tmp_path / "a.sarif"
    report.write_bytes(log(*(sarif("app/pay.py", line) for line in (1, 4, 9))))
    made = imported(run_review(options(repository, imports=[str(report)]), ignore_event))
    assert sorted(one.start_line for one in made) == found
    assert {one.severity for one in made} == {"info"}


def test_base_may_waive_a_rule_of_another_analyzer(tmp_path: Path) -> None:
    waiver = {"rule": "import.codeql.py-odd", "why": "refunds are odd"}
    base = BASE | {".diffcourt/config/verdict.yaml": json.dumps({"waivers": [waiver]})}
    repository = change(tmp_path / "repo", base, base | HEAD).path
    report = tmp_path / "a.sarif"
    report.write_bytes(log(sarif("app/pay.py", 9)))
    (found,) = imported(run_review(options(repository, imports=[str(report)]), ignore_event))
    assert found.state == "waived"


def test_a_report_is_copied_so_a_run_is_resumed_and_scored_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = change(tmp_path / "repo", BASE, HEAD).path
    report = tmp_path / "a.sarif"
    report.write_bytes(log(sarif("app/pay.py", 9)))
    monkeypatch.chdir(tmp_path)
    review = ["review", "--quiet", "--repo", str(repository), "--base", "HEAD~1"]
    main([*review, "--import", "sarif:a.sarif"])
    first = show_run(repository, "latest").verdict
    report.unlink()
    main(["resume", "--quiet", "--repo", str(repository), "latest"])
    again = show_run(repository, "latest").verdict
    assert first is not None
    assert again is not None
    assert (len(imported(again)), again.digest) == (1, first.digest)
    (scored,) = rescore(repository, [], read_rubric(data_root() / "rubrics" / "pr-review.yaml"))
    assert isinstance(scored, Rescored)
    assert main([*review, "--import", "a.sarif"]) == EXIT_USAGE
    assert "cannot read the report a.sarif" in capsys.readouterr().err


XML = '<?xml version="1.0"?>'
REPORTS = {
    "golangci-lint": XML + '<checkstyle version="5.0"><file name="a.go"><error line="3" column="2" '
    'message="not checked" severity="error" source="errcheck"></error></file></checkstyle>',
    "phpstan": XML + '<checkstyle><file name="a.php"><error line="3" column="1" severity="error" '
    'message="Call to an undefined method" /></file></checkstyle>',
    "cppcheck": log(
        {
            "tool": {"driver": {"name": "Cppcheck", "rules": [{"id": "nullPointer"}]}},
            "results": [
                {
                    "ruleId": "nullPointer",
                    "level": "error",
                    "message": {"text": "Null pointer dereference: p"},
                    "locations": [
                        {
                            "physicalLocation": {
                                "artifactLocation": {"uri": "a.c"},
                                "region": {"startLine": 3, "startColumn": 2},
                            }
                        }
                    ],
                }
            ],
        }
    ).decode(),
    "trivy": log(sarif("main.tf", 3, rule="AVD-AWS-0107")).decode(),
    "clippy": '{"message":"unneeded return","location":{"path":"a.rs","range":{"start":{"line":3,'
    '"column":5}}},"severity":"WARNING","source":{"name":"clippy"},"code":{"value":"x"}}\n',
    "rdjson": '{"source":{"name":"tool"},"diagnostics":[{"message":"m","location":{"path":"a.py",'
    '"range":{"start":{"line":3}}}}]}',
    "eslint": '[{"filePath":"/ci/a.js","messages":[{"ruleId":"no-eval","severity":2,"message":"m",'
    '"line":3,"column":1,"endLine":3}],"errorCount":1}]',
    "gitlab": '[{"description":"m","check_name":"c","fingerprint":"f","severity":"critical",'
    '"location":{"path":"a.py","lines":{"begin":3}}}]',
}


PRINTED = """\
a.c:3:2: error: Null pointer dereference: p [nullPointer]
a.py:3: [W0612(unused-variable), f] Unused variable 'x'
a.py:3:0: W0612: Unused variable 'x' (unused-variable)
a.py:3:80: E501 line too long
a.yaml:3:2: [error] trailing spaces (trailing-spaces)
a.sh:3:5: note: Double quote to prevent globbing. [SC2086]
a.cc:3:5: warning: do not use this [bugprone-x,-warnings-as-errors]
a.py:3: error: Bad  [arg-type]
a.py:3: note: See the manual
a.go:3:2: unreachable code
In function main:
    return p;
Found 3 errors in 1 file
"""


def test_lines_as_a_compiler_prints_them_are_results_with_their_rules() -> None:
    results = read_report(PRINTED.encode(), "gcc").results
    assert [(one.rule, one.level, one.message) for one in results] == [
        ("nullPointer", "major", "Null pointer dereference: p"),
        ("unused-variable", "minor", "Unused variable 'x'"),
        ("unused-variable", "minor", "Unused variable 'x'"),
        ("E501", "minor", "line too long"),
        ("trailing-spaces", "major", "trailing spaces"),
        ("SC2086", "info", "Double quote to prevent globbing."),
        ("bugprone-x", "minor", "do not use this"),
        ("arg-type", "major", "Bad"),
        ("result", "minor", "unreachable code"),
    ]
    assert {one.line for one in results} == {3}


def test_long_lines_of_text_are_read_in_time() -> None:
    data = (
        b"a.c:1: " + b" " * 1_000_000 + b"[" * 1_000_000 + b"\n" + (b"a.c:1: (" * 500 + b"\n") * 500
    )
    began = time.monotonic()
    assert read_report(data + b"\xff\n", "gcc")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("name", SAMPLES)
def test_reports_of_well_known_analyzers_become_findings(tmp_path: Path, name: str) -> None:
    sample = SAMPLES[name]
    repository = change(tmp_path / "repo", {}, {sample.path: "one\ntwo\nthree\n"}).path
    (tmp_path / "report").write_text(sample.report)
    imports = [str(tmp_path / "report")]
    verdict = run_review(options(repository, imports=imports), ignore_event)
    (found,) = imported(verdict)
    assert (found.rule, found.severity, found.category, found.cwe) == (
        sample.rule,
        sample.severity,
        sample.category,
        sample.cwe,
    )
    assert (found.path, found.start_line, found.evidence.quote) == (sample.path, 3, "three")
    assert not [skip for skip in verdict.skipped if skip.path == "report"]


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_the_format_of_a_report_is_told_from_its_content(name: str) -> None:
    results = read_report(REPORTS[name].encode()).results
    assert results
    assert all(isinstance(one, Result) and one.line == 3 for one in results)
    assert all(one.places and one.message for one in results)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"runs": 1}',
        b"[" * 100_000,
        b'{"runs":' + b"[" * 100_000,
        b"plain text",
        b'<!DOCTYPE x [<!ENTITY a "b">]><checkstyle/>',
        b"<checkstyle><file>",
        b'{"runs":[{"tool":{"driver":{"name":"a"}},"results":[{"message":3}]}]}',
    ],
)
def test_an_invalid_report_is_named(data: bytes) -> None:
    with pytest.raises(ReportError):
        read_report(data)


def test_a_result_that_our_table_knows_is_one_finding_under_our_rule(tmp_path: Path) -> None:
    body = "import subprocess\n\n\ndef go(c):\n    subprocess.run(c, shell=True)\n"
    repository = change(tmp_path / "repo", BASE, BASE | {"app/go.py": body}).path
    ruff = Path(sys.executable).with_name("ruff")
    command = [
        str(ruff),
        "check",
        "--isolated",
        "--select",
        "S602",
        "--output-format",
        "sarif",
        ".",
    ]
    done = subprocess.run(command, cwd=repository, capture_output=True, check=False)
    report = tmp_path / "ruff.sarif"
    report.write_bytes(done.stdout)
    assert b"S602" in done.stdout
    verdict = run_review(options(repository, imports=[str(report)]), ignore_event)
    alone = run_review(options(repository), ignore_event)
    assert {one.fingerprint for one in verdict.findings} == {
        one.fingerprint for one in alone.findings
    }
    assert not imported(verdict)
    (shell,) = [one for one in verdict.findings if one.rule == "security.subprocess-shell"]
    assert "imported_reports" not in shell.reported_by


def test_a_type_checkers_lines_are_findings_with_its_own_rules(tmp_path: Path) -> None:
    body = "def pay(n: int) -> str:\n    return n\n"
    repository = change(tmp_path / "repo", BASE, BASE | {"app/typed.py": body}).path
    report = tmp_path / "mypy.txt"
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    done = subprocess.run(
        [*command, "app/typed.py"], cwd=repository, capture_output=True, check=False
    )
    report.write_bytes(done.stdout)
    verdict = run_review(options(repository, imports=[f"gcc:{report}"]), ignore_event)
    (found,) = imported(verdict)
    assert (found.rule, found.start_line) == ("import.gcc.return-value", 2)
    assert found.title == 'Incompatible return value type (got "int", expected "str")'


def test_the_work_on_a_large_report_is_bounded_by_its_files_and_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results beyond the most are only counted, and results of one file are placed once."""
    calls: list[str] = []
    for name in ("secrets_in", "find_meant"):
        real = getattr(changed_results, name)

        def counted(*given: Any, real: Any = real, name: str = name) -> Any:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(changed_results, name, counted)
    (tmp_path / "pay.py").write_text("x = 1\n" * 3000)
    run = sarif("pay.py", 1)
    run["results"] = [sarif("pay.py", line)["results"][0] for line in range(1, 3001)]
    (tmp_path / "report").write_bytes(log(run))
    reply = run_check(
        changed_results.run,
        {
            "head_root": str(tmp_path),
            "head_tree": ["pay.py", "other/pay.py"],
            "head_commit": "",
            "files": [{"path": "pay.py", "status": "added", "added": list(range(1, 3001))}],
            "lines": "added",
            "severities": {},
            "reports": [
                {"name": "report", "path": str(tmp_path / "report"), "format": "", "error": ""}
            ],
        },
    )
    assert len(reply.findings) == changed_results.MAX_FINDINGS
    assert reply.gaps == {"report": "left out findings beyond the first 2000: 1000, such as pay.py"}
    assert calls.count("secrets_in") == changed_results.MAX_FINDINGS
    assert calls.count("find_meant") == 1
