"""Tests of other languages: removed, skipped, focused, by what is sure."""

from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest

from diffchecks.test_quality import weakened_tests as check

Codes = Callable[..., list[str]]

JS = "describe('pay', () => {\n  it('adds', () => {});\n  it(\"takes\", async () => {});\n});\n"
GO = "package pay\n\nfunc TestAdd(t *testing.T) {\n\tx()\n}\n\nfunc TestTake(t *testing.T) {\n\ty()\n}\n"
JAVA = (
    "class PayTest {\n  @Test\n  void adds() {\n  }\n\n"
    '  @Test @DisplayName("x")\n  public void takes() throws E {\n  }\n}\n'
)
RUBY = "describe 'pay' do\n  it 'adds' do\n  end\n  it 'takes' do\n  end\nend\n"
RUBY_UNIT = "class PayTest\n  test 'adds' do\n  end\n  test 'takes' do\n  end\nend\n"

FILES = [
    ("src/pay.test.ts", JS, '  it("takes", async () => {});\n'),
    ("src/pay.spec.jsx", JS, '  it("takes", async () => {});\n'),
    ("pay_test.go", GO, "func TestTake(t *testing.T) {\n\ty()\n}\n"),
    ("PayTest.java", JAVA, '  @Test @DisplayName("x")\n  public void takes() throws E {\n  }\n'),
    ("pay_spec.rb", RUBY, "  it 'takes' do\n  end\n"),
    ("pay_test.rb", RUBY_UNIT, "  test 'takes' do\n  end\n"),
]


@pytest.mark.parametrize(("path", "text", "test"), FILES)
def test_a_removed_test(compare: Callable[..., Any], path: str, text: str, test: str) -> None:
    (one,) = compare(check, {path: text}, {path: text.replace(test, "")}).findings
    name = "TestTake" if path.endswith(".go") else "takes"
    assert (one.code, one.message) == ("removed", f"1 test was removed: {name!r}")


@pytest.mark.parametrize(
    ("path", "text", "old", "line"),
    [
        ("a.test.ts", JS, "async () => {}", "expect(pay(1)).toBe(1);"),
        ("a_test.go", GO, "\ty()\n", 't.Fatal("no")'),
        ("a_test.go", GO, "\ty()\n", "check(t, pay(1))"),
        ("ATest.java", JAVA, "throws E {", "assertEquals(1, pay(1));"),
        ("ATest.java", JAVA, "throws E {", 'mvc.perform(get("/")).andExpect(ok);'),
        ("a_spec.rb", RUBY, "'takes' do", "expect(pay(1)).to eq 1"),
    ],
)
def test_a_test_that_lost_its_assertions(
    codes: Codes, path: str, text: str, old: str, line: str
) -> None:
    def holding(body: str) -> str:
        end = "}" if old.endswith("}") else ""
        return text.replace(old, f"{old.removesuffix(end)}\n{indent(body, '    ')}\n  {end}")

    comment = "# " if path.endswith(".rb") else "// "
    for emptied in ("pay(1)", comment + line, "bill = pay(1)\nbill.isEmpty()"):
        changed = holding(emptied)
        assert codes(check, {path: holding(f"pay(1)\n{line}")}, {path: changed}) == [
            "assertions-removed"
        ]
        assert codes(check, {path: holding("pay(1)")}, {path: changed}) == []
    assert codes(check, {path: holding(line)}, {path: holding("same(pay(1))")}) == []


@pytest.mark.parametrize(
    ("path", "was", "now"),
    [
        ("a.spec.ts", "  test('a', async ({ p }) => {", "  test('a', async ({\n    p,\n  }) => {"),
        ("a.spec.js", "  it('a', () => {", "  it('a', (\n    b\n  ) => {\n    pay(`\nb`)"),
        ("a_spec.rb", "  it 'a' do", "  it 'a' do\n    pay(1,\nb: 2)\n    pay(<<~A)\nb\n    A"),
    ],
)
def test_another_layout_takes_no_assertion(codes: Codes, path: str, was: str, now: str) -> None:
    ruby = path.endswith(".rb")
    line, end = ("to eq 1", "  end\n") if ruby else ("toBe(1)", "  })\n")
    kept, gone = f"    expect(pay(1)).{line}\n{end}", f"    pay(1)\n{end}"
    assert codes(check, {path: f"{was}\n{kept}"}, {path: f"{now}\n{kept}"}) == []
    assert codes(check, {path: f"{now}\n{kept}"}, {path: f"{now}\n{gone}"}) == [
        "assertions-removed"
    ]
    other = f"{now}\n{gone}{was.replace('a', 'b', 1)}\n{kept}"  # the next test is another one
    assert codes(check, {path: f"{now}\n{kept}"}, {path: other}) == ["assertions-removed"]


@pytest.mark.parametrize(("path", "text", "test"), FILES)
def test_a_test_that_moved_or_was_rewritten(codes: Codes, path: str, text: str, test: str) -> None:
    other = f"b/{path}" if path.endswith(".java") else f"b_{path.rpartition('/')[2]}"
    assert codes(check, {path: text}, {path: text.replace(test, ""), other: test}) == []
    renamed = text.replace("takes", "gives").replace("TestTake", "TestGive")
    assert codes(check, {path: text}, {path: renamed}) == []


@pytest.mark.parametrize(
    ("path", "text", "was", "now"),
    [
        ("a.test.js", JS, "it('adds'", "it.skip('adds'"),
        ("a.test.js", JS, "it('adds'", "xit('adds'"),
        ("a.test.js", JS, "describe('pay'", "describe.skip('pay'"),
        ("a_test.go", GO, "{\n\tx()", '{\n\tt.Skip("later")\n\tx()'),
        ("ATest.java", JAVA, "  @Test\n  void adds", '  @Disabled("x") @Test\n  void adds'),
        ("ATest.java", JAVA, "  @Test\n  void adds", "  @Test\n  @Ignore\n  void adds"),
        ("a_spec.rb", RUBY, "  it 'adds'", "  xit 'adds'"),
    ],
)
def test_an_existing_test_that_is_skipped(
    codes: Codes, path: str, text: str, was: str, now: str
) -> None:
    assert was in text
    skipped = text.replace(was, now)
    assert codes(check, {path: text}, {path: skipped}) == ["skipped"]
    assert codes(check, {path: skipped}, {path: text}) == []
    assert codes(check, {path: "x\n"}, {path: skipped}) == []


@pytest.mark.parametrize(
    ("path", "text", "was", "now"),
    [
        ("a.test.js", JS, "it('adds'", "// it.skip('other'"),
        ("a_test.go", GO, "{\n\tx()", "{\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n\tx()"),
    ],
)
def test_what_only_looks_skipped(codes: Codes, path: str, text: str, was: str, now: str) -> None:
    assert "skipped" not in codes(check, {path: text}, {path: text.replace(was, now)})


@pytest.mark.parametrize(
    ("path", "text", "was", "now"),
    [
        ("a.test.ts", JS, "it('adds'", "it.only('adds'"),
        ("a.test.ts", JS, "describe('pay'", "fdescribe('pay'"),
        ("a_spec.rb", RUBY, "  it 'adds'", "  fit 'adds'"),
    ],
)
def test_a_focused_test_disables_the_others(
    codes: Codes, path: str, text: str, was: str, now: str
) -> None:
    assert "focused" in codes(check, {path: text}, {path: text.replace(was, now)})
    focused = text.replace(was, now)
    assert codes(check, {path: focused}, {path: focused + "\n"}) == []


def test_a_deleted_test_file_is_reported_unless_its_subject_was_deleted_too(codes: Codes) -> None:
    base = {"a/pay.test.ts": JS, "a/pay.ts": "export {}\n", "b.test.ts": "it('x', f);\n"}
    head = {"a/pay.ts": "export {}\n", "b.test.ts": "it('x', g);\n"}
    assert codes(check, base, head) == ["removed"]
    del head["a/pay.ts"]
    assert codes(check, base, head) == []
