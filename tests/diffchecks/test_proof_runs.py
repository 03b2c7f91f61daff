"""How one run of a test ended, by the report of a real runner."""

import json
import subprocess
import sys
from pathlib import Path

from diffchecks.test_quality.proof_runs import run

TRIAL = """\
import sys, unittest

class FailTest(AssertionError):
    pass

class Claim(unittest.TestCase):
    failureException = FailTest

    def run(self, result=None):  # as Twisted's trial does with the errors that a test logs
        super().run(result)
        try:
            1 / 0
        except ZeroDivisionError:
            result.addError(self, sys.exc_info())

    def test_claim(self):
        self.assertEqual(3, 5)
"""


def test_an_error_that_a_failed_test_logs_is_no_second_test(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TRIAL)
    report = tmp_path / "report.xml"
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "test_a.py"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, check=False)
    printed = done.stdout.decode()
    end = run({"format": "junit", "code": done.returncode, "printed": printed, "report": report})
    assert "1 failed, 1 error" in printed
    assert (end.kind, end.exception, end.message) == ("failed", "AssertionError", "3 != 5")


def test_a_test_that_a_fixture_runs_twice_has_one_end_if_both_are_the_same(tmp_path: Path) -> None:
    def ends(*values: int) -> tuple[str, str]:
        report = tmp_path / "report.xml"
        failures = (f'<failure message="assert {value} == 5" />' for value in values)
        cases = "".join(f'<testcase name="test_a">{one}</testcase>' for one in failures)
        report.write_text(f"<testsuite>{cases}</testsuite>")
        end = run({"format": "junit", "code": 1, "printed": "", "report": report})
        return end.kind, end.message

    assert ends(3, 3) == ("failed", "assert 3 == 5")
    assert ends(3, 4) == ("broken", "2 tests ran, with different ends: ")


def test_an_exception_without_a_message_ends_with_its_name_alone(tmp_path: Path) -> None:
    report = tmp_path / "report"

    def end(form: str, text: str, printed: str = "") -> tuple[str, str, bool]:
        report.write_text(text)
        done = run({"format": form, "code": 1, "printed": printed, "report": str(report)})
        return done.exception, done.message, "shop" in done.trace

    case = '<testsuite><testcase name="a"><failure message="{}">shop.py:3: </failure></testcase></testsuite>'
    assert end("junit", case.format("shop.errors.LateError")) == ("LateError", "", True)
    assert end("junit", case.format("assert shop")) == ("AssertionError", "assert shop", True)
    failed = {"status": "failed", "failureMessages": ["LateError: \n    at due (shop.js:3:9)"]}
    jest = {"testResults": [{"assertionResults": [failed], "message": ""}]}
    assert end("jest", json.dumps(jest)) == ("LateError", "", True)
    rule = "=" * 70 + "\nERROR: test_a (test_shop.A)\n" + "-" * 70 + "\n"
    raised = "Traceback (most recent call last):\n  File shop.py\nshop.LateError\n\n" + "-" * 70
    printed = f"{rule}{raised}\nRan 1 test in 0.1s\n"
    assert end("unittest", "", printed) == ("LateError", "", True)
