"""Runners as they are installed: ``make provers`` installs those of JavaScript, Debian has Go."""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from orchestrator.catalog import settings
from orchestrator.sandbox import private_paths
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
        (VITEST, "run"), {**TYPED, "package.json": '{"type": "module"}\n'}, TYPED_HEAD, "src/claim.test.ts",
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
