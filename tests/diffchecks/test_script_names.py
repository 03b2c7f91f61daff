"""Names in JavaScript and TypeScript that a change leaves without a declaration."""

from pathlib import Path

import pytest

from diffchecks.imports.script_names import run
from diffchecks.jobs import ChangedFile, ComparisonJob


def found(place: Path, base: dict[str, str], head: dict[str, str]) -> list[str]:
    """What the check says of files of head, every line of which is new where base has another."""
    for side, files in (("base", base), ("head", head)):
        for path, text in files.items():
            (place / side / path).parent.mkdir(parents=True, exist_ok=True)
            (place / side / path).write_text(text, "utf-8")
    changed = []
    for path, text in head.items():
        old, new = base.get(path, "").split("\n"), text.split("\n")
        changed.append(
            ChangedFile(
                path,
                old_path=path if path in base else None,
                old_blob="1" if path in base else None,
                new_blob="2",
                added=tuple(n for n, line in enumerate(new, 1) if line not in old),
                removed=tuple(n for n, line in enumerate(old, 1) if line not in new),
            )
        )
    before, after = str(place / "base"), str(place / "head")
    reply = run(
        ComparisonJob(files=changed, base_tree=sorted(base), base_root=before, head_root=after)
    )
    return [f"{each.path}:{each.line} {each.message}" for each in reply.findings]


# The shapes of commits of uptime-kuma (a71569379), npm (15d2c6930), hexo (c0b67b30) and mongoose
# (9408e1d8b), which brought such names back, and of wekan's `card`.
@pytest.mark.parametrize(
    ("path", "base", "head", "expected"),
    [
        (
            "a.js",
            'const { UP, DOWN } = require("./states");\nmodule.exports = (s) => s === UP;\n',
            'const { DOWN } = require("./states");\nmodule.exports = (s) => s === UP;\n',
            "a.js:2 Nothing declares UP any more",
        ),
        (
            "a.ts",
            "export function f(name: string) {\n  return load(name);\n}\nfunction load(n) {}\n",
            "export function f(name: string) {\n  return load(newName);\n}\nfunction load(n) {}\n",
            "a.ts:2 Nothing declares newName",
        ),
        (
            "a.js",
            'import h from "h";\nexport const f = () => {\n  let result = h();\n  return result;\n};\n',
            'import h from "h";\nexport const f = () => {\n  h();\n  return result;\n};\n',
            "a.js:4 Nothing declares result any more",
        ),
        (
            "a.jsx",
            "",
            'import { card } from "./b";\nexport const A = () => <Box of={card} />;\n',
            "a.jsx:2 Nothing declares Box",
        ),
        (
            "a.js",
            "",
            "export function f() { const card = 1; return card; }\nexport const g = () => card.id;\n",
            "a.js:2 Nothing declares card",
        ),
        (
            "a.vue",
            '<script>\nimport b from "b";\nexport default { m() { return b(1); } };\n</script>\n',
            "<script>\nexport default { m() { return b(1); } };\n</script>\n",
            "a.vue:2 Nothing declares b any more",
        ),
    ],
)
def test_a_name_that_nothing_declares_any_more_is_found(
    tmp_path: Path, path: str, base: str, head: str, expected: str
) -> None:
    assert found(tmp_path, {path: base} if base else {}, {path: head}) == [expected]


def test_names_that_something_declares_or_asks_for_are_quiet(tmp_path: Path) -> None:
    head = """import a, { b as c, type D } from "x";
export * as ns from "y";
export { default as z } from "w";
import E = require("e");
/* global given */
type Args = [first: string, second?: number];
enum Kind { One = 1, Two = One }
declare const ambient: number;
export function f({ g, h: [i = c], ...j }: D, k = g, ...l: Args[]): j is D {
  for (const m of i) { try { later(m, k, l); } catch (n) { report(n); } }
  outer: for (;;) { continue outer; }
  if (typeof maybe !== "undefined") { maybe(); }
  window.known = 1;
  $localize`:@@copied:It was copied`;
  return known && given && ambient && E && a && Kind && f<Record<string, Set>, 1>(process);
  function later(...o) { return arguments.length + o.length; }
}
const report = (error: NodeJS.Error) => <div title={error.name}>{JSON.stringify(error)}</div>;
({ p: q } = a);
q.r({ s: 1, report });
"""
    assert found(tmp_path, {}, {"a.tsx": head}) == []


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("b.js", 'import x from "x";\nshared.use(x);\n'),
        ("b.js", "var shared = 1;\n"),
        ("b.js", 'import x from "x";\nshared = x();\n'),
        ("b.js", 'import x from "x";\nglobalThis.shared = x;\n'),
        (".eslintrc.json", '{"globals": {"shared": "readonly"}}'),
        ("types/b.d.ts", "declare global { var shared: number; }\nexport {};\n"),
        ("nuxt.config.ts", "export default {};\n"),
    ],
)
def test_a_name_that_other_files_of_base_share_is_quiet(
    tmp_path: Path, other: str, text: str
) -> None:
    head = 'import y from "y";\nshared.use(y);\n'
    assert found(tmp_path, {other: text}, {"a.js": head}) == []


def test_the_value_of_a_store_is_known_in_a_component_only(tmp_path: Path) -> None:
    text = (
        '{}import {{ name }} from "./a";\n$: other = name;\nname.set($name + $other + $gone);{}\n'
    )
    says = found(tmp_path, {}, {"a.svelte": text.format("<script>\n", "</script>")})
    assert says == ["a.svelte:4 Nothing declares $gone"]
    says = found(tmp_path, {}, {"a.svelte.js": text.format("", "")})
    assert [each[27:] for each in says] == ["res $gone", "res $name", "res $other"]


@pytest.mark.parametrize(
    ("above", "behind", "count"),
    [
        ("// eslint-disable-next-line no-undef -- given by a plug-in", "", 0),
        ("/* oxlint-disable-next-line */", "", 0),
        ("// biome-ignore lint/correctness/noUndeclaredVariables: given\n// by a plug-in", "", 0),
        ("// @ts-expect-error cannot find name", "", 0),
        ("// @ts-ignore", "", 0),
        ("", " // eslint-disable-line no-undef", 0),
        ("/* eslint-disable no-console, no-undef */\nlog();", "", 0),
        ("/* eslint no-undef: 0 */\nlog();", "", 0),
        ("/* eslint-disable no-undef */\n/* eslint-enable no-undef */", "", 1),
        ("// eslint-disable-next-line no-console", "", 1),
        ("// eslint-disable-next-line no-undef\nlog();", "", 1),
        ("// eslint-disable-next-line no-undef\nlog(given);", "", 1),
        ("", " // undef", 1),
    ],
)
def test_a_comment_tells_a_linter_that_a_name_is_meant(
    tmp_path: Path, above: str, behind: str, count: int
) -> None:
    head = f'import {{ log }} from "log";\n{above}\nlog(given);{behind}\n'
    says = found(tmp_path / "new", {}, {"a.ts": head.replace("\n\n", "\n")})
    assert len(says) == count, says
    # What lost its declaration is reported, if the comment is not about just that.
    base = head.replace("{ log }", "{ log, given }")
    says = found(tmp_path / "lost", {"a.ts": base}, {"a.ts": head})
    named = ("no-undef" in head and "-line" in head) or "lint/" in head or "cannot" in head
    assert len(says) == (count or not named), says


def test_a_test_of_what_is_not_defined_is_quiet(tmp_path: Path) -> None:
    text = 'import x from "x";\nx(() => { NOT_DEFINED; });\nx(() => given);\n'
    says = found(tmp_path, {}, {"test/a.js": text, "src/a.js": text})
    assert [each[: each.index(" ")] for each in says] == ["test/a.js:3", "src/a.js:2", "src/a.js:3"]


def test_a_local_name_of_another_file_or_of_a_test_is_no_shared_one(tmp_path: Path) -> None:
    base = {
        "b.js": 'import x from "x";\nexport const f = (shared) => shared.use(x);\n',
        "test/b.test.js": 'import x from "x";\nshared.use(x);\n',
    }
    head = 'import y from "y";\nshared.use(y);\n'
    assert len(found(tmp_path, base, {"a.js": head})) == 1
    assert found(tmp_path, base, {"a.js": "shared.use(1);\n"}) == []  # a script of a page
