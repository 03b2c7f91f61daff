"""How one run of a test ended, by the report of a real runner."""

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
