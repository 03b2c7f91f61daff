"""Tests that a model may write to have its claim believed: none of them proves anything."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from diffchecks.test_quality.proof_tests import run
from orchestrator.catalog import settings
from tests.review.proofs import cheats
from tests.review.proofs.test_prove_finding import GO, GO_HEAD, PYTEST, bench

GO_SHOP = "package shop\n\nvar Rate = 1\nvar Rates = map[string]int{}\n\nfunc Total(p []int) (n int) {\n\treturn\n}\n"


def refused(case: cheats.Case, folder: Path) -> list[str]:
    paths = ["shop.py", "lib/shop.mjs", "shop.go"]
    return run(
        {
            "text": case.text, "language": case.language, "paths": paths, "same": case.same,
            "roots": [str(folder / side) for side in ("base", "head")],
            "exception": case.exception, "value": case.value,
        }
    )  # fmt: skip


@pytest.fixture
def sides(tmp_path: Path) -> Path:
    for side, text in (("base", cheats.BASE), ("head", cheats.HEAD)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "shop.py").write_text(text)
        (tmp_path / side / "shop.go").write_text(GO_SHOP)
        (tmp_path / side / "lib").mkdir()
    (tmp_path / "base/lib/shop.mjs").write_text(cheats.SCRIPT)
    (tmp_path / "head/lib/shop.mjs").write_text(cheats.SCRIPT_HEAD)
    return tmp_path


def test_two_hundred_cheats_are_told() -> None:
    told = cheats.all_cheats()
    assert len({case.text + case.exception + case.value for case in told}) == len(told) >= 200
    assert set(Counter(case.language for case in told)) == {"python", "javascript", "go"}
    assert len(cheats.all_honest()) >= 40


@pytest.mark.attack("a test that cannot prove what it claims")
def test_cheats_are_refused_before_they_run_unless_only_running_tells(sides: Path) -> None:
    found = [(case, refused(case, sides)) for case in cheats.all_cheats()]
    assert [(case.kind, case.text) for case, why in found if not (why or case.runs)] == []
    assert [(case.text, why) for case, why in found if why and case.runs] == []


@pytest.mark.parametrize("bare", ["if TYPE_CHECKING:\n    import os", "for n in ():\n    pass"])
def test_a_statement_beside_the_test_is_refused_with_what_to_do(bare: str, sides: Path) -> None:
    text = f"from typing import TYPE_CHECKING\n\nfrom shop import total\n\n{bare}\n\n"
    text += "def test_total():\n    assert total([1, 2]) == 3\n"
    (why,) = refused(cheats.Case("", "python", text, "AssertionError", "5 == 3", runs=False), sides)
    assert "move it into the test, and import without a condition" in why


def test_honest_tests_close_to_a_cheat_may_run(sides: Path) -> None:
    found = [(case, refused(case, sides)) for case in cheats.all_honest()]
    assert [(case.text, why) for case, why in found if why] == []


@pytest.mark.attack("a test that only running shows to prove nothing")
async def test_cheats_that_only_running_tells_prove_nothing_either(
    namespaces: None, tmp_path: Path
) -> None:
    python = [one for one in cheats.all_cheats() if one.runs and one.language == "python"]
    tried = [one for one in python if "while True" not in one.text]  # tried with a short limit
    async with bench(tmp_path, PYTEST, {"shop.py": cheats.BASE}, {"shop.py": cheats.HEAD}) as one:
        ends = [await one.tries(case.text, case.exception, case.value) for case in tried]
    assert [end.reason for end in ends if end.state == "reproduced" or not end.reason] == []


async def test_honest_tests_close_to_a_cheat_are_reproduced(
    namespaces: None, tmp_path: Path
) -> None:
    honest = [one for one in cheats.all_honest() if one.language == "python"]
    told = re.compile(r"shop\.due|sys\.argv = ").search
    async with bench(tmp_path, PYTEST, {"shop.py": cheats.BASE}, {"shop.py": cheats.HEAD}) as one:
        shown = [
            await one.tries(
                case.text, case.exception, case.value, oracle="same" if case.same else "base"
            )
            for case in (honest[0], *(one for one in honest if told(one.text)), honest[-1])
        ]
    assert [end.reason for end in shown if end.state != "reproduced"] == []


@pytest.mark.attack("a test that only running shows to prove nothing")
async def test_cheats_in_go_prove_nothing_either(namespaces: None, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: apt-get install golang")
    tried = [one for one in cheats.all_cheats() if one.runs and one.language == "go"]
    honest = [one for one in cheats.all_honest() if one.language == "go"][:2]
    tests = settings.Tests(("go", "test", "./..."), seconds=60.0)
    async with bench(tmp_path, tests, GO, GO_HEAD) as one:
        ends = [
            await one.tries(case.text, case.exception, case.value, path="claim_test.go")
            for case in (*tried, *honest)
        ]
    assert [end.state == "reproduced" for end in ends] == [False] * len(tried) + [True] * 2
