"""Every code of oxlint that is on: a script with the defect, and one without."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from diffchecks.rules import RuleTable
from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.analyzers.program_execution import Program
from tests.diffchecks.programs.program_tools import Oxlint

pytestmark = pytest.mark.either_loop

Export = Callable[[Mapping[str, str | bytes]], Side]

# code -> (bad, good)
SAMPLES: dict[str, tuple[str, str]] = {
    "no-dupe-keys": ("f({ a: 1, a: 2 });", "f({ a: 1, b: 2 });"),
    "no-dupe-class-members": ("class A { f() {} f() {} }", "class A { f() {} g() {} }"),
    "no-dupe-else-if": (
        "if (a) { f(); } else if (a) { g(); }",
        "if (a) { f(); } else if (b) { g(); }",
    ),
    "no-duplicate-case": (
        "switch (a) { case 1: f(); break; case 1: g(); }",
        "switch (a) { case 1: f(); break; case 2: g(); }",
    ),
    "no-const-assign": ("const a = 1; a = 2;", "let a = 1; a = 2;"),
    "no-import-assign": ('import a from "a"; a = 2;', 'import b from "a"; let a = 2; a = b;'),
    "no-obj-calls": ("Math();", "Math.abs(1);"),
    "no-this-before-super": (
        "class A extends B { constructor() { this.a = 1; super(); } }",
        "class A extends B { constructor() { super(); this.a = 1; } }",
    ),
    "use-isnan": ("f(a === NaN);", "f(Number.isNaN(a));"),
    "valid-typeof": ('f(typeof a === "strnig");', 'f(typeof a === "string");'),
    "no-unreachable": ("function f() { return 1; g(); }", "function f() { g(); return 1; }"),
    "no-unsafe-finally": (
        "function f() { try { g(); } finally { return 1; } }",
        "function f() { try { g(); } finally { h(); } return 1; }",
    ),
    "no-unsafe-negation": ("if (!a in b) { f(); }", "if (!(a in b)) { f(); }"),
    "no-unsafe-optional-chaining": ("(a?.b)();", "a?.b();"),
    "no-debugger": ("f(); debugger;", "f();"),
    "no-async-promise-executor": (
        "f(new Promise(async (r) => { r(await g()); }));",
        "f(new Promise((r) => { r(g()); }));",
    ),
    "oxc/const-comparisons": ("f(a < 1 && a > 2);", "f(a > 1 && a < 2);"),
    "oxc/missing-throw": (
        'function f() { new Error("x"); }',
        'function f() { throw new Error("x"); }',
    ),
    "no-class-assign": ("class A {} A = 1;", "class A {} let b = A; b();"),
    "no-invalid-regexp": ('f(new RegExp("["));', 'f(new RegExp("[a]"));'),
    "no-new-native-nonconstructor": ('f(new Symbol("a"));', 'f(Symbol("a"));'),
    "unicorn/no-invalid-fetch-options": (
        'fetch("/", { method: "GET", body: a });',
        'fetch("/", { method: "POST", body: a });',
    ),
    "no-compare-neg-zero": ("f(a === -0);", "f(a === 0);"),
    "oxc/bad-char-at-comparison": ('f(a.charAt(1) === "ab");', 'f(a.charAt(1) === "a");'),
    "oxc/bad-comparison-sequence": ("f(a == b == c);", "f(a == b && b == c);"),
    "oxc/bad-object-literal-comparison": ("f(a === {});", "f(a === b);"),
    "no-ex-assign": ("try { f(); } catch (e) { e = 1; }", "try { f(); } catch (e) { g(e); }"),
    "typescript/no-duplicate-enum-values": ("enum A { b = 1, c = 1 }", "enum A { b = 1, c = 2 }"),
    "oxc/erasing-op": ("f(a * 0);", "f(a * 2);"),
    "oxc/misrefactored-assign-op": ("a += a + b;", "a += b;"),
    "oxc/bad-min-max-func": (
        "f(Math.min(Math.max(100, a), 0));",
        "f(Math.max(Math.min(100, a), 0));",
    ),
    "oxc/uninvoked-array-callback": (
        "f(new Array(5).map((_, i) => i));",
        "f([...Array(5)].map((_, i) => i));",
    ),
    "for-direction": (
        "for (let i = 0; i < a; i--) { f(i); }",
        "for (let i = 0; i < a; i++) { f(i); }",
    ),
    "no-useless-backreference": ("f(/(?:\\1(a))/);", "f(/(a)\\1/);"),
    "getter-return": ("f({ get a() { g(); } });", "f({ get a() { return g(); } });"),
    "oxc/bad-array-method-on-arguments": (
        "function f() { arguments.map((a) => a); }",
        "function f(...all) { all.map((a) => a); }",
    ),
    "oxc/bad-replace-all-arg": ('f(a.replaceAll(/b/, "c"));', 'f(a.replaceAll(/b/g, "c"));'),
    "oxc/bad-match-all-arg": ("f(a.matchAll(/b/));", "f(a.matchAll(/b/g));"),
    "oxc/number-arg-out-of-range": ("f(a.toString(1));", "f(a.toString(2));"),
    "no-loss-of-precision": ("f(9007199254740993);", "f(9007199254740991);"),
    "unicorn/no-array-fill-with-reference-type": (
        "f(new Array(3).fill([]));",
        "f(new Array(3).fill(0));",
    ),
    "unicorn/no-await-in-promise-methods": (
        "async function f() { await Promise.all([await a, b]); }",
        "async function f() { await Promise.all([a, b]); }",
    ),
    "typescript/no-non-null-asserted-optional-chain": ("f(a?.b!);", "f(a?.b);"),
    "unicorn/no-invalid-remove-event-listener": (
        'a.removeEventListener("x", () => f());',
        'a.removeEventListener("x", f);',
    ),
}


async def test_every_code_is_found_in_its_bad_sample_only(export: Export, rules: RuleTable) -> None:
    files = {
        f"{kind}/{number}.{'ts' if code.startswith('typescript/') else 'js'}": sample[nth]
        for number, (code, sample) in enumerate(SAMPLES.items())
        for nth, kind in enumerate(("bad", "good"))
    }
    report = await Oxlint(rules.codes("oxlint")).run(export(files), list(files))
    assert report.error is None
    assert not report.gaps
    found = {(finding.path.partition(".")[0], finding.code) for finding in report.findings}
    assert found == {(f"bad/{number}", code) for number, code in enumerate(SAMPLES)}


def test_every_code_of_the_table_has_a_sample(rules: RuleTable) -> None:
    assert rules.codes("oxlint") == set(SAMPLES)


@pytest.mark.parametrize("suffix", ["js", "jsx", "mjs", "cjs", "ts", "mts", "cts", "tsx"])
async def test_every_kind_of_script_is_analyzed(export: Export, suffix: str) -> None:
    side = export({f"a.{suffix}": "f();\ndebugger;\n"})
    report = await Oxlint({"no-debugger"}).run(side, [f"a.{suffix}"])
    assert [(finding.line, finding.code) for finding in report.findings] == [(2, "no-debugger")]


async def test_a_name_of_dots_and_a_suffix_hides_no_other_file(export: Export) -> None:
    side = export({"..js": "debugger;\n", "b.ts": "debugger;\n"})
    report = await Oxlint({"no-debugger"}).run(side, ["..js", "b.ts"])
    assert [finding.path for finding in report.findings] == ["..js", "b.ts"]


@pytest.mark.parametrize("suffix", ["d.ts", "d.mts", "d.cts"])
async def test_declaration_files_are_parsed_as_declarations(export: Export, suffix: str) -> None:
    path = f"typings/my.index.{suffix}"
    report = await Oxlint({"no-debugger"}).run(export({path: "export const a: number;\n"}), [path])
    assert report.gaps == {}
    assert report.examined == {path}


async def test_nobody_mends_what_a_bundler_wrote(export: Export) -> None:
    start = "(function(){function r(e,n,t){function o(i,f){}}return r})()({1:[function(require){\n"
    helper = "function _createForOfIteratorHelper(o, allow) { return o; }\n"
    modules = "/******/ var __webpack_modules__ = ({});\n"
    files = {
        "a.js": f"{start}debugger;\n}}]}});\n",
        "b.js": f"{helper}debugger;\n",
        "c.js": f"{modules}debugger;\n",
        "d.js": f"// {helper}use(__webpack_require__);\ndebugger;\n",
    }
    report = await Oxlint({"no-debugger"}).run(export(files), list(files))
    assert report.examined == set(files)
    assert [finding.path for finding in report.findings] == ["d.js"]


async def test_script_that_does_not_parse_is_a_gap(export: Export) -> None:
    side = export({"a.ts": "f();\nconst x: = 1;\n", "b.ts": "debugger;\n"})
    report = await Oxlint({"no-debugger"}).run(side, ["a.ts", "b.ts"])
    assert report.gaps == {"a.ts": "oxlint cannot parse it: line 2: Unexpected token"}
    assert report.examined == {"b.ts"}
    assert [finding.path for finding in report.findings] == ["b.ts"]


@pytest.mark.parametrize(
    "comment",
    ["// eslint-disable-next-line", "// oxlint-disable-next-line", "/* eslint-disable */"],
)
async def test_suppression_comments_of_the_change_have_no_effect(
    export: Export, comment: str
) -> None:
    off = '{"rules": {"no-debugger": "off"}, "ignorePatterns": ["**"]}'
    names = {".oxlintrc.json": off, ".eslintignore": "*", "a.js": f"{comment}\ndebugger;\n"}
    report = await Oxlint({"no-debugger"}).run(export(names), ["a.js"])
    assert [finding.line for finding in report.findings] == [2]


@pytest.mark.parametrize(
    ("body", "why"), [("exit 3", "exit code 3"), ("echo '{}'", "with an unknown structure")]
)
async def test_program_that_fails_is_an_error(
    export: Export, fake_program: Callable[[str, str], str], tmp_path: Path, body: str, why: str
) -> None:
    program = Program("oxlint", "oxlint", search=fake_program("oxlint", body))
    report = await Oxlint({"no-debugger"}, program).run(export({"a.js": "f();"}), ["a.js"])
    assert report.error is not None
    assert why in report.error
    assert not report.examined
