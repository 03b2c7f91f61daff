"""Runners as they are installed: ``make provers`` installs those of JavaScript, Debian has Go."""

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog import settings
from orchestrator.sandbox import private_paths
from tests.review.proofs import cheats
from tests.review.proofs.test_prove_finding import bench

MODULES = Path(sys.prefix) / "provers/node_modules"
TOTAL = "export const total = (p: number[]): number => p.reduce((a, b) => a + b, 0);\n"
TYPED = {"src/shop.ts": TOTAL}
TYPED_HEAD = {"src/shop.ts": TOTAL.replace("p.reduce", "p.slice(1).reduce")}
COMMON = {
    "package.json": "{}\n",
    "src/shop.js": "exports.total = (p) => p.reduce((a, b) => a + b, 0);\n",
}
COMMON_HEAD = {"src/shop.js": COMMON["src/shop.js"].replace("p.reduce", "p.slice(1).reduce")}
BABEL = {
    "src/babel.config.js": "module.exports = {presets: ['@babel/preset-typescript'],"
    " plugins: ['@babel/plugin-transform-modules-commonjs']};\n"
}
CONFIG = {
    "vitest.config.ts": "import { defineConfig } from 'vitest/config';\nexport default defineConfig({});\n"
}
EXPECT = "test('claim', () => { expect(total([2, 3])).toBe(5); });\n"


class Case(Struct):
    """A project, and how it is tested."""

    command: tuple[str, ...]
    base: Mapping[str, str]
    head: Mapping[str, str]
    path: str
    test: str
    exception: str
    value: str
    versions: str


VITEST, JEST = (f"node_modules/.bin/{name}" for name in ("vitest", "jest"))
CASES = {
    "vitest": Case(
        (VITEST, "run"), {**TYPED, **CONFIG, "package.json": '{"type": "module"}\n'}, TYPED_HEAD, "src/claim.test.ts",
        "import { expect, test } from 'vitest';\nimport { total } from './shop';\n" + EXPECT,
        "AssertionError", "expected 3 to be 5", r"vitest/[\d.]+ [\w-]+ node-v[\d.]+",
    ),
    "jest": Case(
        (JEST,), COMMON, COMMON_HEAD, "src/claim.test.js",
        "const { total } = require('./shop');\n" + EXPECT,
        "AssertionError", "Received: 3", r"jest [\d.]+, node v[\d.]+",
    ),
    "jest with TypeScript below another root": Case(
        (JEST,), {**TYPED, **BABEL, "jest.config.js": "module.exports = {rootDir: 'src'};\n"},
        TYPED_HEAD, "src/claim.test.ts", "import { total } from './shop';\n" + EXPECT,
        "AssertionError", "Received: 3", r"jest [\d.]+, node v[\d.]+",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_runner_of_javascript_as_npm_has_it(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if shutil.which("node") is None or not MODULES.is_dir():
        pytest.skip("the runners are not installed: make provers")
    monkeypatch.setattr(private_paths, "SYSTEM_PRIVATE", ())  # wherever this clone is
    case = CASES[name]
    tests = settings.Tests(case.command, seconds=60.0, reads=(str(MODULES),))
    async with bench(tmp_path, tests, case.base, case.head) as one:
        proof = await one.tries(case.test, case.exception, case.value, path=case.path)
    assert (proof.state, proof.reason) == ("reproduced", ""), proof.head
    assert re.fullmatch(case.versions, proof.versions)
    assert case.value in proof.head
    assert not re.search("json|report", " ".join(proof.command))


HELPER = (
    "import fs from 'node:fs';\nimport cp from 'node:child_process';\nimport net from 'node:net';\n"
)
RUN = "export const run = (text) => new Function('fs', 'cp', 'net', text)(fs, cp, net);\n"
SHOP = {"lib/shop.mjs": HELPER + cheats.SCRIPT + RUN, "package.json": '{"type": "module"}\n'}
SHOP_HEAD = {"lib/shop.mjs": HELPER + cheats.SCRIPT_HEAD + RUN}
OTHERS = {
    "import fs from 'node:fs'": "const fs = require('node:fs')",
    "import cp from 'node:child_process'": "const cp = require('node:child_process')",
    "import net from 'node:net'": "const net = require('node:net')",
    "export const": "const",
    "export ": "",
}
RUNNERS = {
    "node": (("node", "--test"), "import test from 'node:test';\nimport assert from 'node:assert';\n"),
    "vitest": (
        (VITEST, "run"), "import { expect, test } from 'vitest';\nimport assert from 'node:assert';\n",
    ),
    "jest": ((JEST,), "const assert = require('node:assert');\n"),
}  # fmt: skip
PRINTED = {
    "node": "TAP version 13\\nok 1 - claim\\n# pass 1",
    "vitest": "Tests  1 passed (1)",
    "jest": "Tests:       1 passed, 1 total",
}


def of_node(text: str) -> str:
    """A test with the assertions that all runners have."""
    return re.sub(r"expect\((.*)\)\.toBe\((\d)\)", r"assert.equal(\1, \2)", text)


@pytest.mark.attack("a test in JavaScript that cannot prove what it claims")
@pytest.mark.parametrize("name", RUNNERS)
async def test_cheats_of_a_runner_of_javascript_prove_nothing(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if shutil.which("node") is None or not (name == "node" or MODULES.is_dir()):
        pytest.skip("the runners are not installed: make provers")
    monkeypatch.setattr(private_paths, "SYSTEM_PRIVATE", ())  # wherever this clone is
    command, imports = RUNNERS[name]
    outside = tmp_path / "outside.txt"
    report = ".diffcourt-proof-report"
    forged = "<testsuite><testcase/></testsuite>"
    hostile = {
        "leaves a process": "cp.spawn('sleep', ['60'], { detached: true, stdio: 'ignore' }).unref();",
        "writes outside": f"fs.writeFileSync({str(outside)!r}, 'x');",
        "edits the code": "fs.writeFileSync('lib/other.mjs', '');",
        "prints a pass": f"process.stdout.write('{PRINTED[name]}'); process.exit(0);",
        "forges its report": f"fs.writeFileSync('{report}', '{forged}'); process.exit(1);",
    }
    told = [
        (f"{imports}import {{ total, run }} from '../lib/shop.mjs';\ntest('claim', () => {{\n"
         f"  run({json.dumps(text)});\n  assert.equal(total([2, 3]), 6);\n}});\n", "5 == 6")
        for text in hostile.values()
    ]  # fmt: skip
    told += [
        (imports + of_node(case.text), case.value)
        for case in cheats.all_cheats()
        if case.runs and case.language == "javascript" and "while (true)" not in case.text
    ]
    base, head, path = {**SHOP, "lib/other.mjs": "0;\n"}, SHOP_HEAD, "test/claim.test.mjs"
    if name == "jest":
        base = {**base, "lib/shop.mjs": of_jest(base["lib/shop.mjs"]), "package.json": "{}\n"}
        base, head = (
            {file.replace("shop.mjs", "shop.js"): text for file, text in side.items()}
            for side in (base, {"lib/shop.mjs": of_jest(head["lib/shop.mjs"])})
        )
        told, path = [(of_jest(text), value) for text, value in told], "test/claim.test.js"
    reads = () if name == "node" else (str(MODULES),)
    tests = settings.Tests(command, seconds=60.0, reads=reads)
    async with bench(tmp_path / "repo", tests, base, head) as one:
        ends = [await one.tries(text, "AssertionError", value, path=path) for text, value in told]
    assert [end.reason for end in ends if end.state == "reproduced"] == []
    assert [end.reason for end in ends if "\n" in end.reason or not end.reason] == []
    assert not outside.exists()
    async with bench(tmp_path / "again", replace(tests, seconds=4.0), base, head) as one:
        endless = told[0][0].replace("run(", "while (true) total(")
        late = await one.tries(endless, "AssertionError", "5 == 6", path=path)
    assert "no end within 4 s of processor time" in late.reason


def of_jest(text: str) -> str:
    """A module or test of another runner for Jest, whose modules are of CommonJS."""
    for given, ours in OTHERS.items():
        text = text.replace(given, ours)
    text = re.sub(
        r"import (\{.*\}) from '../lib/shop.mjs'", r"const \1 = require('../lib/shop.js')", text
    )
    names = re.findall(r"(?m)^(?:const|function|class) (VERSION|total|old|news|Cart|run)\b", text)
    return text + (f"module.exports = {{ {', '.join(names)} }};\n" if "run" in names else "")
