"""The tool that runs a test on base and on head: what it takes for a proof, and what it does not."""

import ast
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace

from diffchecks.test_quality.proof_python import compares_two
from diffchecks.test_quality.proof_runs import TestEnd
from orchestrator.app.check_worker_startup import new_pool
from orchestrator.catalog import settings
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.agent_report_contracts import WrittenTest, contracts
from orchestrator.code_review.policy_loading import read_policy
from orchestrator.code_review.review_workspace import IterationFocus
from orchestrator.code_review.tools.prove_finding import ProveFinding, is_as_predicted
from orchestrator.code_review.tools.test_runners import single_test
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.code_review.verdict.document_parts import Proof
from orchestrator.engine.ports import CallContext
from tests.review.review_kit import PYTEST_ALONE, change, workspace_of

CONTEXT = CallContext("key", "proofs", 60.0)
PYTEST = settings.Tests((sys.executable, "-m", "pytest", "-q"), seconds=20.0)
BASE = """\
import os


def total(prices):
    return sum(prices)


def user():
    return os.getuid()


def names(row):
    return [row["first"], row["last"]]
"""
HEAD = """\
import os
import time

CACHE = {}


def total(prices):
    return sum(prices[1:])


def user():
    return os.getuid() + 1


def names(row):
    return [row["first"], row["name"]]


def cached(n):
    return CACHE.setdefault("n", n)


def plain(n):
    return n
"""
OWN = "def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n"
"""A conftest of the change that lets every test pass."""


def written(body: str, imports: str = "import shop") -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{imports}\n\n\ndef test_claim(tmp_path):\n{lines}"


class Bench:
    """One change, on which tests are tried."""

    def __init__(self, tool: ProveFinding) -> None:
        self._tool = tool

    async def tries(
        self, test: str, exception: str = "AssertionError", value: str = "3 == 5", **more: str
    ) -> Proof:
        arguments = {
            "finding": "x", "claim": "c", "path": "tests/test_claim.py", "test": test,
            "exception": exception, "value": value, "oracle": "base", **more,
        }  # fmt: skip
        return convert((await self._tool.run(arguments, CONTEXT)).data, Proof)


@asynccontextmanager
async def bench(
    path: Path,
    tests: settings.Tests = PYTEST,
    base: Mapping[str, str] | None = None,
    head: Mapping[str, str] | None = None,
) -> AsyncIterator[Bench]:
    policy = read_policy([read_shipped_layer()], environment="local", author_tier="")
    before = {**PYTEST_ALONE, **(base or {"shop.py": BASE})}
    repo = change(path, before, head or {"shop.py": HEAD, "conftest.py": OWN})
    async with new_pool() as pool, workspace_of(repo) as workspace:
        inputs = ToolInputs(workspace, pool, policy.settings, IterationFocus(), (), {})
        single = single_test(tests)
        assert single is not None
        yield Bench(ProveFinding(tests, single, inputs))


async def test_only_a_failure_of_head_alone_that_was_predicted_is_a_proof(
    namespaces: None, tmp_path: Path
) -> None:
    async with bench(tmp_path) as one:
        wrong = written("assert shop.total([2, 3]) == 5")
        proven = await one.tries(wrong)
        assert (proven.state, proven.reason) == ("reproduced", "")  # whatever its conftest does
        ends = {
            "part of a value": await one.tries(wrong, value="3 == 55"),
            "another exception": await one.tries(wrong, "TypeError"),
            "head passes": await one.tries(written("assert shop.total([0, 1]) == 1")),
            "broken import": await one.tries(written("assert f() == 5", "from shop import f")),
            "base fails as well": await one.tries(
                written("assert shop.total([2, 3]) == 6"), value="3 == 6"
            ),
            "a file of head": await one.tries(wrong, path="shop.py"),
        }
        assert {name: proof.state for name, proof in ends.items()} == {
            **dict.fromkeys(ends, "inconclusive")
        }
        assert "head passes the test" in ends["head passes"].reason
        assert "no name of a pytest test" in ends["a file of head"].reason
        assert "base does not pass" in ends["base fails as well"].reason


@pytest.mark.parametrize(
    ("value", "message", "is_there"),
    [
        ("5", "assert 15 == 3", False),
        ("5 ==", "assert 15 == 3", False),
        ("15 ==", "assert 15 == 3", True),
        ("'name'", "'name'", True),
        (" ", "assert 15 == 3", False),
    ],
)
def test_a_predicted_value_is_in_the_message_as_a_whole(
    value: str, message: str, is_there: bool
) -> None:
    predicted = WrittenTest(
        finding="x", claim="c", path="test_a.py", test="t", exception="AssertionError", value=value
    )
    end = TestEnd("failed", "AssertionError", message)
    assert is_as_predicted(predicted, end) == is_there


def test_the_form_that_the_prover_is_told_of_is_accepted() -> None:
    example = "assert cached(7) == plain(7)"
    assert f"`{example}`" in read_shipped_layer().files["agents/prover.md"].decode()
    assert example in str(contracts()["proofs"])
    (node,) = ast.parse(example).body
    assert compares_two(node)


async def test_a_defect_that_base_has_as_well_is_not_introduced(
    namespaces: None, tmp_path: Path
) -> None:
    base = {"shop.py": "def half(n):\n    return n / 0\n\n\ndef other():\n    return 1\n"}
    head = {"shop.py": base["shop.py"].replace("return 1", "return 2")}
    async with bench(tmp_path, base=base, head=head) as one:
        proof = await one.tries(
            written("assert shop.half(2) == 1"), "ZeroDivisionError", "division by zero"
        )
    assert (proof.state, proof.reason) == ("not_introduced", "base fails the test in the same way")


async def test_two_ways_that_disagree_prove_a_feature_that_base_lacks(
    namespaces: None, tmp_path: Path
) -> None:
    body = "shop.cached(1)\nassert shop.cached(2) == shop.plain(2)"
    async with bench(tmp_path) as one:
        proof = await one.tries(written(body), value="1 == 2", oracle="same")
        assert proof.state == "reproduced", proof.reason
        assert "base does not pass" in (await one.tries(written(body), value="1 == 2")).reason


@pytest.mark.attack("a test of a model that reaches out of its sandbox")
async def test_hostile_tests_end_without_a_proof_and_without_an_effect(
    namespaces: None, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        hostile = {
            "forks": "import os\nwhile os.fork() >= 0:\n    pass",
            "writes outside": f"open({str(outside)!r}, 'w')",
            "edits the code": "open('shop.py', 'w')",
            "needs the network": "import http.client\n"
            f"http.client.HTTPConnection('127.0.0.1', {port}).request('GET', '/')",
            "prints a pass": "print('1 passed')\nimport os\nos._exit(0)",
            "forges its report": "import os\nreport = '.diffcourt-proof-report'\n"
            "open(report, 'w').write('<testsuite><testcase/></testsuite>')\nos._exit(1)",
        }
        tests = {
            name: written(f"shop.run({text!r})\nassert shop.total([2, 3]) == 5")
            for name, text in hostile.items()
        }
        # The code under test does it: a test that does is refused before it runs.
        run = "\n\ndef run(text):\n    exec(text)\n"
        sides = {"shop.py": BASE + run}, {"shop.py": HEAD + run}
        async with bench(tmp_path / "repo", PYTEST, *sides) as one:
            ends = {name: await one.tries(test) for name, test in tests.items()}
    async with bench(tmp_path / "again", replace(PYTEST, seconds=2.0)) as one:
        tests["never ends"] = written("while True:\n    shop.total([1])\nassert shop.user() == 5")
        ends["never ends"] = await one.tries(tests["never ends"])
    assert {name: proof.state for name, proof in ends.items()} == dict.fromkeys(
        tests, "inconclusive"
    ), {name: proof.reason for name, proof in ends.items()}
    assert [
        proof.reason for proof in ends.values() if "\n" in proof.reason or not proof.reason
    ] == []
    assert "the test changed shop.py" in ends["edits the code"].reason
    assert "its report could not be read" in ends["prints a pass"].reason
    assert "no end within 2 s" in ends["never ends"].reason
    assert not outside.exists()


SCRIPT = {
    "lib/shop.mjs": "export const total = (p) => p.reduce((a, b) => a + b, 0);\n",
    "package.json": '{"type": "module"}\n',
}
SCRIPT_HEAD = {
    "lib/shop.mjs": "export const total = (p) => p.slice(1).reduce((a, b) => a + b, 0);\n"
}
NODE_TEST = """\
import test from 'node:test';
import assert from 'node:assert/strict';
import { total } from '../lib/shop.mjs';
test('claim', () => { assert.equal(total([2, 3]), 5); });
"""
GO = {
    "go.mod": "module shop\n\ngo 1.19\n",
    "shop.go": "package shop\n\nfunc Total(p []int) (n int) {\n\tfor _, v := range p {\n\t\tn += v\n\t}\n\treturn\n}\n",
}
GO_HEAD = {"shop.go": GO["shop.go"].replace("range p", "range p[1:]")}
GO_TEST = """\
package shop

import "testing"

func TestClaim(t *testing.T) {
\tif got := Total([]int{2, 3}); got != 5 {
\t\tt.Errorf("Total is %d", got)
\t}
}
"""
UNITTEST = """\
import unittest

import shop


class Claim(unittest.TestCase):
    def test_claim(self):
        self.assertEqual(shop.total([2, 3]), 5)
"""


async def test_unittest_runs_them_as_well(namespaces: None, tmp_path: Path) -> None:
    tests = settings.Tests((sys.executable, "-m", "unittest"), seconds=20.0)
    async with bench(tmp_path, tests) as one:
        proof = await one.tries(UNITTEST, value="3 != 5", path="test_claim.py")
    assert (proof.state, proof.reason) == ("reproduced", "")
    assert re.fullmatch(r"Python [\d.]+\w*", proof.versions)


async def test_a_test_in_another_language_is_refused_in_one_clear_line(
    namespaces: None, tmp_path: Path
) -> None:
    script = "import { expect, test } from 'vitest';\ntest('a', () => { expect(1).toBe(2); });\n"
    async with bench(tmp_path) as one:
        ends = [await one.tries(script, path=path) for path in ("src/a.test.ts", "test_a.py")]
    assert [end.state for end in ends] == ["inconclusive"] * 2
    assert "'a.test.ts' is no name of a pytest test, as tests/test_claim.py is" in ends[0].reason
    assert re.fullmatch("the test proves nothing: it does not parse: [^\n]+", ends[1].reason)


FAKES = {
    "python": (
        PYTEST, "def send(driver):\n    return driver.send()\n", "driver.send", "driver.send_all", "shop.py",
        "class Fake:\n    def send(self):\n        return 5\n\n\n"
        "def test_claim():\n    assert shop.send(Fake()) == 5\n",
        "AttributeError", "no attribute 'send_all'", "tests/test_claim.py",
    ),
    "node": (
        settings.Tests(("node", "--test"), seconds=20.0),
        "export const send = (driver) => driver.send();\n", "driver.send", "driver.sendAll", "lib/shop.mjs",
        "import test from 'node:test';\nimport assert from 'node:assert';\n"
        "import { send } from '../lib/shop.mjs';\n"
        "test('claim', () => { assert.equal(send({ send() { return 5; } }), 5); });\n",
        "TypeError", "driver.sendAll is not a function", "test/claim.test.mjs",
    ),
}  # fmt: skip


@pytest.mark.attack("a fake that lacks what the change calls")
@pytest.mark.parametrize("name", FAKES)
async def test_what_only_the_fake_of_a_test_lacks_proves_nothing(
    namespaces: None, tmp_path: Path, name: str
) -> None:
    tests, code, called, now, file, test, exception, value, path = FAKES[name]
    if shutil.which(tests.command[0]) is None:
        pytest.skip(f"{tests.command[0]} is not installed")
    imports = "import shop\n\n\n" if name == "python" else ""
    async with bench(tmp_path, tests, {file: code}, {file: code.replace(called, now)}) as one:
        proof = await one.tries(imports + test, exception, value, path=path)
    assert proof.state == "inconclusive"
    assert proof.reason == f"it shows only what its own fake lacks: {now.partition('.')[2]!r}"


async def test_node_runs_them_as_well(namespaces: None, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    tests = settings.Tests(("node", "--test"), seconds=20.0)
    async with bench(tmp_path, tests, SCRIPT, SCRIPT_HEAD) as one:
        proof = await one.tries(NODE_TEST, value="3 !== 5", path="test/claim.test.mjs")
        missing = NODE_TEST.replace("{ total }", "{ sum }").replace("total(", "sum(")
        broken = await one.tries(missing, value="3 !== 5", path="test/claim.test.mjs")
    assert (proof.state, proof.reason) == ("reproduced", "")
    assert re.fullmatch(r"node v[\d.]+", proof.versions)
    assert broken.state == "inconclusive"


async def test_go_runs_them_as_well(namespaces: None, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    tests = settings.Tests(("go", "test", "./..."), seconds=60.0)
    async with bench(tmp_path, tests, GO, GO_HEAD) as one:
        proof = await one.tries(GO_TEST, "Error", "Total is 3", path="claim_test.go")
    assert (proof.state, proof.reason) == ("reproduced", "")
    assert re.fullmatch(r"go version go[\d.]+ \w+/\w+", proof.versions)
