"""Proofs in Go, whose runs share what was compiled, and cannot change it."""

import re
import shutil
from pathlib import Path

import pytest

from orchestrator.catalog import settings
from orchestrator.code_review.tools.test_runners import single_test
from tests.review.proofs.test_prove_finding import GO, GO_HEAD, GO_TEST, bench

GO_SPOILS = """\
package shop

import ("os"; "path/filepath")

func init() {
	cache := os.Getenv("GOCACHE")
	files, _ := filepath.Glob(cache + "/*/*")
	_, err := os.Stat(cache + "/spoiled")
	if len(files) == 0 || err == nil || os.WriteFile(cache+"/spoiled", nil, 0600) == nil {
		panic(cache)
	}
}
"""


@pytest.mark.attack("code of head that writes what a later run is built of")
async def test_go_runs_them_as_well_and_none_can_change_what_the_next_is_built_of(
    namespaces: None, tmp_path: Path
) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    tests = settings.Tests(("go", "test", "./..."), seconds=60.0)
    async with bench(tmp_path, tests, GO, {**GO_HEAD, "spoil.go": GO_SPOILS}) as one:
        proof = await one.tries(GO_TEST, "AssertionError", "Total is 3", path="claim_test.go")
    assert (proof.state, proof.reason) == ("reproduced", "")
    assert re.fullmatch(r"go version go[\d.]+ \w+/\w+", proof.versions)
    assert proof.command[:4] == ("go", "test", "-count=1", "-vet=off")


def test_a_command_that_says_what_executes_a_test_compiles_nothing_beforehand() -> None:
    command = ("go", "test", "-count=1", "{directory}")
    for single, compiling in (
        (command, ["go", "test", "-exec=true", "-count=1", "./a"]),
        ((*command, "-exec=sudo"), []),
        (("make", "test-one", "FILE={test}"), []),
    ):
        found = single_test(settings.Tests(("go", "test", "./..."), single=single))
        assert found is not None
        assert found.compile_argv("a/claim_test.go") == compiling
