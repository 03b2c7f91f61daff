"""Every code of oxlint that is on: a script with the defect, and one without."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from diffchecks.rules import RuleTable
from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.analyzers.oxlint import Oxlint
from orchestrator.code_review.analyzers.program_execution import Program

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
    "oxc/bad-object-literal-comparison": ("f(a === {});", "f(a === b);"),
    "oxc/missing-throw": (
        'function f() { new Error("x"); }',
        'function f() { throw new Error("x"); }',
    ),
    "unicorn/no-invalid-remove-event-listener": (
        'a.removeEventListener("x", () => f());',
        'a.removeEventListener("x", f);',
    ),
}


async def test_every_code_is_found_in_its_bad_sample_only(export: Export, rules: RuleTable) -> None:
    files = {
        f"{kind}/{number}.js": sample[nth]
        for number, sample in enumerate(SAMPLES.values())
        for nth, kind in enumerate(("bad", "good"))
    }
    report = await Oxlint(rules.codes("oxlint")).run(export(files), list(files))
    assert report.error is None
    assert not report.gaps
    found = {(finding.path, finding.code) for finding in report.findings}
    assert found == {(f"bad/{number}.js", code) for number, code in enumerate(SAMPLES)}


def test_every_code_of_the_table_has_a_sample(rules: RuleTable) -> None:
    assert rules.codes("oxlint") == set(SAMPLES)


@pytest.mark.parametrize("suffix", ["js", "jsx", "mjs", "cjs", "ts", "mts", "cts", "tsx"])
async def test_every_kind_of_script_is_analyzed(export: Export, suffix: str) -> None:
    side = export({f"a.{suffix}": "f();\ndebugger;\n"})
    report = await Oxlint({"no-debugger"}).run(side, [f"a.{suffix}"])
    assert [(finding.line, finding.code) for finding in report.findings] == [(2, "no-debugger")]


@pytest.mark.parametrize("suffix", ["d.ts", "d.mts", "d.cts"])
async def test_declaration_files_are_parsed_as_declarations(export: Export, suffix: str) -> None:
    path = f"typings/my.index.{suffix}"
    report = await Oxlint({"no-debugger"}).run(export({path: "export const a: number;\n"}), [path])
    assert report.gaps == {}
    assert report.examined == {path}


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
