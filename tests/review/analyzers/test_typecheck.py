"""The type checker that base configures runs on both sides, and new errors are findings."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.code_review.analyzers.configured_programs import NO_SANDBOX, NOT_ALLOWED
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import ConfigError
from orchestrator.sandbox.level_and_launchers import SANDBOX
from tests.review.review_kit import change, in_ci, options

REQUIRED = "required_checks:\n  - {name: types-fit, tools: [typecheck], when: ['**/*.py']}\n"
OLD = "\n\ndef old() -> str:\n    return 1\n"
BASE = {
    "pay.py": f"def pay(n: int) -> str:\n    return str(n)\n{OLD}",
    "use.py": "from pay import pay\n\npay(3)\n",
    "gone.py": "LEFT: str = 1\n",
}
HEAD = {"pay.py": f"X: int = 'x'\n\n\ndef pay(n: bytes) -> str:\n    return str(n)\n{OLD}"}
# Prints what tsc would, of each line that calls nope().
STAND_IN = """\
import sys
from pathlib import Path

found = 0
for path in sorted(Path().rglob("*.ts")):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if "nope(" in line:
            print(f"{path}({number},{line.index('nope') + 1}): error TS2304: Cannot find name 'nope'.")
            found += 1
sys.exit(2 * bool(found))
"""
TS_BASE = {"a.ts": "nope(1);\n", "b.ts": "export {};\n"}


def review(
    place: Path,
    base: Mapping[str, str],
    head: Mapping[str, str | None],
    *,
    allowed: bool | None = True,
    **given: Any,
) -> Verdict:
    sandbox = {"sandbox": given.pop("sandbox")} if "sandbox" in given else {}
    configured = {
        ".diffcourt/config/defaults.yaml": json.dumps({"typecheck": given, **sandbox}),
        ".diffcourt/config/verdict.yaml": REQUIRED,
    }
    repository = change(place / "repo", {**configured, **base}, head).path
    return run_review(options(repository, run_analyzers=allowed), ignore_event)


def found(verdict: Verdict) -> list[tuple[str, int]]:
    return [(one.path, one.start_line) for one in verdict.findings if one.rule == "qa.type-error"]


def gap(verdict: Verdict) -> str:
    (why,) = [skip.why for skip in verdict.skipped if skip.path == "typecheck" and skip.gap]
    return why


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs on PATH."""
    place = tmp_path / "programs"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)
    return place


def install(programs: Path, text: str, name: str = "tsc") -> None:
    program = programs / name
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)


def test_mypy_says_what_the_change_breaks_also_in_files_that_it_leaves_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configuration is base's; an error that base has is not new, wherever it stands now."""
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
    switched_off = {"mypy.ini": "[mypy]\nignore_errors = True\n"}
    moved = {"gone.py": None, "came.py": "A = 1\nLEFT: str = 1\n"}
    verdict = review(tmp_path, BASE, {**HEAD, **switched_off, **moved}, command=["mypy", "."])
    assert found(verdict) == [("pay.py", 1), ("use.py", 3)]
    caller = next(one for one in verdict.findings if one.path == "use.py")
    assert (caller.severity, caller.confidence, caller.evidence.quote) == ("medium", 1, "pay(3)")
    assert caller.detail == (
        'Argument 1 to "pay" has incompatible type "int"; expected "bytes"\n'
        "Reported by mypy as arg-type, in a file that the change leaves alone"
    )
    assert caller.reported_by == ("qa", "typecheck")
    assert verdict.verdict == "needs_changes"
    (required,) = verdict.required_checks
    assert (required.name, required.status) == ("types-fit", "ran")
    (checked,) = [one for one in verdict.checked if one.path == "pay.py"]
    assert "typecheck" in checked.by
    assert not [skip for skip in verdict.skipped if skip.gap]


def test_only_errors_that_base_does_not_have_are_new(tmp_path: Path, programs: Path) -> None:
    install(programs, STAND_IN)
    head = {"a.ts": "f();\n  nope(1);\nnope(2);\n", "b.ts": None, "c.ts": "export {};\n"}
    verdict = review(tmp_path, TS_BASE, head, command=["tsc", "-p", "."])
    assert found(verdict) == [("a.ts", 3)]
    assert not [skip for skip in verdict.skipped if skip.gap and skip.path == "typecheck"]


def test_a_file_that_is_deleted_breaks_those_that_import_it(tmp_path: Path, programs: Path) -> None:
    looks = "import sys\nfrom pathlib import Path\nif not Path('b.ts').exists():\n"
    tells = "    print(\"a.ts(1,1): error TS2307: Cannot find module './b'.\")\n    sys.exit(1)\n"
    install(programs, looks + tells)
    verdict = review(tmp_path, TS_BASE, {"b.ts": None}, command=["tsc"])
    assert found(verdict) == [("a.ts", 1)]


NEW = {"a.ts": "f();\nnope(1);\nnope(2);\n"}
SPEAKS = "import sys\nprint({!r})\nsys.exit({})\n"


@pytest.mark.parametrize(
    ("text", "why", "expected"),
    [
        (
            "import sys; sys.exit('bad option')",
            "ended with exit code 1 and reports no error in a",
            [],
        ),
        (SPEAKS.format("error TS18003: No inputs were found.", 1), "No inputs were found", []),
        (SPEAKS.format("It broke", 3), "ended with exit code 3: It broke", []),
        ("import os; os.kill(os.getpid(), 11)", "ended with signal 11", []),
        ("import time; time.sleep(60)", "tsc ran longer than 1 s", []),
        (
            "import os\nif 'base' not in os.getcwd(): print('../x.ts(1,1): error TS1: No.')\n"
            + STAND_IN,
            "left out errors that are in no file of the tree: 1, such as ../x.ts No.",
            [3],
        ),
        (
            "import os, sys\nif 'base' in os.getcwd(): sys.exit(7)\n" + STAND_IN,
            "on base: ended with exit code 7: it printed no error; so only errors at added lines",
            [3],
        ),
    ],
)
def test_a_failing_type_checker_is_a_gap(
    tmp_path: Path, programs: Path, text: str, why: str, expected: list[int]
) -> None:
    install(programs, text)
    verdict = review(tmp_path, TS_BASE, NEW, command=["tsc"], seconds=1 if "sleep" in text else 30)
    assert why in gap(verdict)
    assert verdict.status == "incomplete"
    assert found(verdict) == [("a.ts", line) for line in expected]


def test_it_runs_only_where_the_user_allows_it_and_a_required_check_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"command": ["no-such-checker"], "format": "mypy"}
    refused = review(tmp_path / "no", BASE, HEAD, allowed=None, **given)
    assert gap(refused) == NOT_ALLOWED
    (required,) = refused.required_checks
    assert (required.status, required.detail) == ("failed", "typecheck did not do all of its work")
    assert refused.status == "incomplete"
    missing = gap(review(tmp_path / "missing", BASE, HEAD, **given))
    assert missing.startswith("no-such-checker is not installed")
    assert "remove it from `typecheck`" in missing
    in_ci(monkeypatch)
    assert gap(review(tmp_path / "ci", BASE, HEAD, allowed=None, **given)) == missing
    try:
        assert gap(review(tmp_path / "off", BASE, HEAD, sandbox="off", **given)) == NO_SANDBOX
    finally:
        SANDBOX.use("auto")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"command": ["./check.sh"]}, "command must begin with"),
        ({"command": ["make", "types"]}, "command names none of mypy, pyright, tsc"),
        ({"command": ["mypy", "{files}"]}, "command may not contain {files}"),
        ({"command": ["mypy"], "files": ["#*.py"]}, "typecheck: the pattern"),
        ({"command": ["mypy"], "dependencies": [".git"]}, "typecheck.dependencies: .git"),
        ({"command": ["mypy"], "format": "gcc"}, "format"),
    ],
)
def test_a_configuration_that_cannot_work_is_an_error(
    tmp_path: Path, given: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        review(tmp_path, BASE, HEAD, **given)
    assert why in str(raised.value)
