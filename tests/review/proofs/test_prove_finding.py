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

from diffchecks.test_quality.proof_ends import BY_ITSELF, Prediction, is_as_predicted
from diffchecks.test_quality.proof_python import compares_two
from diffchecks.test_quality.proof_runs import TestEnd
from orchestrator.app.check_worker_startup import new_pool
from orchestrator.catalog import settings
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.agent_report_contracts import contracts
from orchestrator.code_review.policy_loading import read_policy
from orchestrator.code_review.review_workspace import IterationFocus
from orchestrator.code_review.tools.prove_finding import ProveFinding
from orchestrator.code_review.tools.test_runners import single_test
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.code_review.verdict.document_parts import NEARBY, UNTIED, Proof
from orchestrator.engine.ports import CallContext
from tests.review.review_kit import PYTEST_ALONE, change, workspace_of

CONTEXT = CallContext("key", "proofs", 60.0)
PYTEST = settings.Tests((sys.executable, "-m", "pytest", "-q"), seconds=20.0)
UNITTEST = settings.Tests((sys.executable, "-m", "unittest"), seconds=20.0)
"""Starts in a quarter of pytest's time: where it does not matter which of them runs the tests."""
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


TOTAL = "self.assertEqual(shop.total([2, 3]), 5)"


def as_method(*statements: str) -> str:
    lines = "".join(f"        {statement}\n" for statement in statements)
    head = "import unittest\n\nimport shop\n\n\nclass Claim(unittest.TestCase):\n"
    return f"{head}    def test_claim(self):\n{lines}"


class Bench:
    """One change, on which tests are tried."""

    def __init__(self, tool: ProveFinding) -> None:
        self._tool = tool

    async def tries(
        self, test: str, exception: str = "AssertionError", value: str = "3 == 5", **more: object
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
    head: Mapping[str, str | None] | None = None,
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
        ("15 == 33", "assert 15 == 3", False),
        ("'name'", "'name'", True),
        (" ", "assert 15 == 3", False),
    ],
)
def test_a_predicted_value_is_in_the_message_as_a_whole(
    value: str, message: str, is_there: bool
) -> None:
    predicted = Prediction("test_a.py", "t", "AssertionError", value, "")
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
    async with bench(tmp_path, UNITTEST, base, head) as one:
        test = as_method("self.assertEqual(shop.half(2), 1)")
        proof = await one.tries(test, "ZeroDivisionError", "division by zero")
    assert (proof.state, proof.reason) == ("not_introduced", "base fails the test in the same way")


async def test_two_ways_that_disagree_prove_a_feature_that_base_lacks(
    namespaces: None, tmp_path: Path
) -> None:
    test = as_method("shop.cached(1)", "self.assertEqual(shop.cached(2), shop.plain(2))")
    async with bench(tmp_path, UNITTEST) as one:
        proof = await one.tries(test, value="1 != 2", oracle="same")
        assert proof.state == "reproduced", proof.reason
        assert "base does not pass" in (await one.tries(test, value="1 != 2")).reason


@pytest.mark.attack("a test of a model that reaches out of its sandbox")
async def test_hostile_tests_end_without_a_proof_and_without_an_effect(
    namespaces: None, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        hostile = {
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
        forks = written(
            "shop.run('import os\\nwhile os.fork() >= 0:\\n    pass')\nassert shop.user() == 5"
        )
        # The code under test does it: a test that does is refused before it runs.
        run = "\n\ndef run(text):\n    exec(text)\n"
        sides = {"shop.py": BASE + run}, {"shop.py": HEAD + run}
        async with bench(tmp_path / "repo", PYTEST, *sides) as one:
            ends = {name: await one.tries(test) for name, test in tests.items()}
    never = written("while True:\n    shop.total([1])\nassert shop.user() == 5")
    tests |= {"forks": forks, "never ends": never}
    async with bench(tmp_path / "again", replace(PYTEST, seconds=1.0), *sides) as one:
        ends |= {name: await one.tries(tests[name]) for name in ("forks", "never ends")}
    assert {name: proof.state for name, proof in ends.items()} == dict.fromkeys(
        tests, "inconclusive"
    ), {name: proof.reason for name, proof in ends.items()}
    assert [
        proof.reason for proof in ends.values() if "\n" in proof.reason or not proof.reason
    ] == []
    assert "the test changed shop.py" in ends["edits the code"].reason
    assert "its report could not be read" in ends["prints a pass"].reason
    assert "no end within 1 s of processor time" in ends["never ends"].reason
    assert "no end within " in ends["forks"].reason
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


async def test_unittest_runs_them_as_well(namespaces: None, tmp_path: Path) -> None:
    async with bench(tmp_path, UNITTEST) as one:
        proof = await one.tries(as_method(TOTAL), value="3 != 5", path="test_claim.py")
    assert (proof.state, proof.reason) == ("reproduced", "")
    assert re.fullmatch(r"Python [\d.]+\w*", proof.versions)


async def test_a_test_in_another_language_is_refused_in_one_clear_line(
    namespaces: None, tmp_path: Path
) -> None:
    script = "import { expect, test } from 'vitest';\ntest('a', () => { expect(1).toBe(2); });\n"
    runs = "import os, doctest\nimport shop\n\ndef test_a():\n    assert doctest.testmod(shop)[0] == 0\n"
    is_one = 'def test_a():\n    """\n    >>> import shop; shop.total([2, 3])\n    5\n    """\n'
    async with bench(tmp_path) as one:
        ends = [await one.tries(script, path=path) for path in ("src/a.test.ts", "test_a.py")]
        doctests = [await one.tries(text) for text in (runs, is_one)]
    assert all("it runs or is a doctest, which asserts nothing" in end.reason for end in doctests)
    assert [end.state for end in (*ends, *doctests)] == ["inconclusive"] * 4
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


TWO = {
    "python": (
        UNITTEST, "shop.py",
        "START = 0\n\n\ndef label(name):\n    return name.upper()\n\n\n"
        "def total(prices):\n    return 0 + sum(prices[START:])\n",
        {"START = 0": "START = 1", "upper": "lower", "0 + sum": "sum"}, "tests/test_claim.py",
        as_method("self.assertEqual({}, {})"),
        ("shop.total([2, 3])", "5", "3 != 5"), ("shop.label('a')", "'A'", "'a' != 'A'"),
    ),
    "node": (
        settings.Tests(("node", "--test"), seconds=20.0), "lib/shop.mjs",
        "const START = 0;\nexport const label = (name) => name.toUpperCase();\n\n"
        "export const total = (p) => p.slice(START).reduce((a, b) => a + b, 0 + 0);\n",
        {"START = 0": "START = 1", "toUpper": "toLower", "0 + 0": "0"}, "test/claim.test.mjs",
        "import test from 'node:test';\nimport assert from 'node:assert/strict';\n"
        "import {{ label, total }} from '../lib/shop.mjs';\n"
        "test('claim', () => {{ assert.equal({}, {}); }});\n",
        ("total([2, 3])", "5", "3 !== 5"), ("label('a')", "'A'", "'a' !== 'A'"),
    ),
    "go": (
        settings.Tests(("go", "test", "./..."), seconds=60.0), "shop.go",
        "package shop\n\nvar start = 0\n\nfunc Label() string {\n\treturn \"A\"\n}\n\n"
        "func Total(p []int) (n int) {\n\tn = 0\n\tfor _, v := range p[0+start:] {\n\t\tn += v\n\t}\n\treturn\n}\n",
        {"start = 0": "start = 1", '"A"': '"a"', "0+start": "start"}, "claim_test.go",
        'package shop\n\nimport "testing"\n\nfunc TestClaim(t *testing.T) {{\n'
        '\tif got := {}; got != {} {{\n\t\tt.Errorf("got %v", got)\n\t}}\n}}\n',
        ("Total([]int{2, 3})", "5", "got 3"), ("Label()", '"A"', "got a"),
    ),
}  # fmt: skip


@pytest.mark.attack("a test of another difference than the finding's")
@pytest.mark.parametrize("name", TWO)
async def test_a_test_has_to_rest_on_the_lines_of_its_finding(
    namespaces: None, tmp_path: Path, name: str
) -> None:
    tests, file, code, edits, path, test, honest, other = TWO[name]
    if shutil.which(tests.command[0]) is None:
        pytest.skip(f"{tests.command[0]} is not installed")
    head = code
    for old, new in edits.items():
        head = head.replace(old, new)
    is_cited = re.compile(r"\[START:|\(START|\[start:").search
    number = next(n for n, line in enumerate(head.splitlines(), 1) if is_cited(line))
    place = {"path": file, "first": number, "last": number}
    exception = "AssertionError"
    sides = {file: code, "go.mod": GO["go.mod"], "package.json": "{}\n", "other.txt": "1\n"}
    async with bench(tmp_path, tests, sides, {file: head, "other.txt": "2\n"}) as one:

        async def tried(given: tuple[str, str, str], **at: object) -> Proof:
            text = test.format(*given[:2])
            return await one.tries(text, exception, given[2], path=path, place={**place, **at})

        shown = await tried(honest)
        cheated = await tried(other)
        elsewhere = await tried(honest, path="README.md") if name == "python" else None
    # The cited line alone is right with base's `START`, which it names.
    assert (shown.state, shown.not_shown, shown.reason) == ("reproduced", "", "")
    assert cheated.state == "inconclusive"
    assert "it shows another difference than the finding's" in cheated.reason
    if elsewhere:
        assert (elsewhere.state, elsewhere.not_shown) == ("reproduced", UNTIED)


async def test_a_finding_whose_cause_cannot_be_taken_back_alone_is_reproduced_with_a_note(
    namespaces: None, tmp_path: Path
) -> None:
    rate = "def rate(n):\n    return n * K\n"
    caller = "from lib import rate\n\n\ndef price(n):\n    return rate(n)\n"
    base = {"shop.py": caller, "lib.py": f"from rates import K\n\n\n{rate}", "rates.py": "K = 5\n"}
    head = {
        "shop.py": caller.replace("rate(n)\n", "rate(n) + 0\n"),
        "lib.py": f"K = 3\n\n\n{rate}",
        "rates.py": None,
    }
    place = {"path": "shop.py", "first": 5, "last": 5}
    async with bench(tmp_path, UNITTEST, base, head) as one:
        test = as_method("self.assertEqual(shop.price(1), 5)")
        shown = await one.tries(test, value="3 != 5", place=place)
    assert (shown.state, shown.not_shown, shown.reason) == ("reproduced", UNTIED, "")


PRICE = "def price(n):\n    factor = 5\n    cap = min(100, 900)\n    return factor * n + 0\n"
RATE = "def of(n):\n    return n\n\n\ndef rate(n):\n    return of(n) * 5\n\n\nONE = 1\nTWO = 2\nTWICE = of(2)\n"
WITH_UNIT = (
    RATE.replace("of(n):", "of(n, unit=1):").replace("* 5", "* 3").replace("of(2)", "of(2, 1)")
)
ELSEWHERE = {
    # The cause is another line of the cited line's function, which neither names.
    "price": (PRICE, PRICE.replace("factor = 5", "factor = 3").replace(", 900", ", 800"), 3, NEARBY),
    # What the cited line names does not fit to the rest of head.
    "rate": (RATE, WITH_UNIT, 6, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
async def test_a_test_rests_on_the_cited_lines_or_on_others_of_their_function(
    namespaces: None, tmp_path: Path, name: str
) -> None:
    base, head, line, not_shown = ELSEWHERE[name]
    place = {"path": "shop.py", "first": line, "last": line}
    async with bench(tmp_path, UNITTEST, {"shop.py": base}, {"shop.py": head}) as one:
        test = as_method(f"self.assertEqual(shop.{name}(1), 5)")
        shown = await one.tries(test, value="3 != 5", place=place)
    assert (shown.state, shown.not_shown, shown.reason) == ("reproduced", not_shown, "")


NAMES = "shop.names({'first': 1, 'last': 2})"
SCRIPT_ROW = "export const row = (r) => ({ ...r.last, y: r.last.x });\n"
BY_THEMSELVES = {
    "python": (
        PYTEST, {"shop.py": BASE}, {"shop.py": HEAD}, "tests/test_claim.py",
        (written("if shop.total([2, 3]) == 3:\n    int('x')\nassert shop.total([0]) == 0"), "ValueError", "'x'"),
        (written(f"assert {NAMES} == [1, 2]"), "KeyError", "'name'"),
    ),
    "unittest": (
        UNITTEST, {"shop.py": BASE}, {"shop.py": HEAD}, "test_claim.py",
        (as_method("5 // (shop.total([2, 3]) - 3)", TOTAL), "ZeroDivisionError", "division"),
        (as_method(NAMES, TOTAL), "KeyError", "'name'"),
    ),
    "node": (
        settings.Tests(("node", "--test"), seconds=20.0), {**SCRIPT, "lib/row.mjs": SCRIPT_ROW},
        {**SCRIPT_HEAD, "lib/row.mjs": SCRIPT_ROW.replace("r.last.x", "r.name.x")}, "test/claim.test.mjs",
        (NODE_TEST.replace("assert.equal", "total([2, 3]) === 3 && JSON.parse('{'); assert.equal"), "SyntaxError", "JSON"),
        (NODE_TEST.replace("total", "row").replace("lib/shop", "lib/row").replace("assert.equal(row([2, 3])", "assert.equal(row({ last: { x: 5 } }).y"), "TypeError", "reading 'x'"),
    ),
    "go": (
        settings.Tests(("go", "test", "./..."), seconds=60.0), GO, GO_HEAD, "claim_test.go",
        (GO_TEST.replace("\tif got", "\tx := []int{1, 2, 3, 4}\n\tx[8-Total([]int{2, 3})] = 0\n\tif got"), "panic", "index out of range"),
        (GO_TEST.replace("[]int{2, 3}", "nil").replace("!= 5", "!= 0"), "panic", "slice bounds out of range"),
    ),
}  # fmt: skip


@pytest.mark.attack("an exception that a test raises by itself")
@pytest.mark.parametrize("name", BY_THEMSELVES)
async def test_an_exception_counts_only_if_it_comes_out_of_the_project(
    namespaces: None, tmp_path: Path, name: str
) -> None:
    tests, base, head, path, *written_tests = BY_THEMSELVES[name]
    if shutil.which(tests.command[0]) is None:
        pytest.skip(f"{tests.command[0]} is not installed")
    async with bench(tmp_path, tests, base, head) as one:
        cheat, honest = [await one.tries(*given, path=path) for given in written_tests]
    assert (cheat.state, cheat.reason) == ("inconclusive", BY_ITSELF)
    assert (honest.state, honest.reason) == ("reproduced", "")


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
