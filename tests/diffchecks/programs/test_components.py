"""Scripts in component files, as oxlint and the pattern check read them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from diffchecks import DATA, patterns
from diffchecks.check_io import CheckReply
from orchestrator.code_review.analyzer_types import Side
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.programs.program_tools import Oxlint

pytestmark = pytest.mark.either_loop

Export = Callable[[Mapping[str, str | bytes]], Side]

BAD = "debugger; eval(x)"
# Name of the file -> its text, and the lines where ``BAD`` is to be found.
READ: dict[str, tuple[str, list[int]]] = {
    "plain.vue": (f"<template><p>debugger</p></template>\n<script>\n{BAD}\n</script>\n", [3]),
    "typed.vue": (f"<script setup lang='ts'>\nlet a: number;\n{BAD}\n</script>\n", [3]),
    "long.vue": (f'<script\n  setup\n  lang="ts"\n>\nlet a: number;\n{BAD}\n</script>\n', [6]),
    "bare.vue": (f"<SCRIPT lang=tsx>const a: any = <p/>;\n{BAD}</SCRIPT>", [2]),
    "three.vue": (f"<script>{BAD}\n</script>\n" * 3, [1, 3, 5]),
    "windows.vue": (f"<script>\r\nf();\r\n{BAD}\r\n</script>\r\n", [3]),
    "gone.vue": (f"<!-- <script>{BAD}</script> -->\n<script>f();</script>\n", []),
    "good.vue": ("<script>\nf(x)\n</script>\n", []),
    "shut.vue": (f'<script lang="ts" src="./a.ts" />\n<script>\n{BAD}\n</script>', [3]),
    "marks.vue": (f"<script>\n// <!-- <script>\n{BAD}\n</script>\n", [3]),
    "data.vue": ('<script type="application/json">{debugger}</script><script>f()</script>', []),
    "named.vue": (f'<script data-type="x" data-lang="y">\n{BAD}\n</script>', [2]),
    "both.svelte": (
        f"<script context='module'>\n{BAD}\n</script>\n<script>\n$: y = 1;\n{BAD}\n</script>\n<p/>",
        [2, 6],
    ),
    "generic.svelte": (f'<script lang="ts" generics="T extends R<S, X>">\n{BAD}\n</script>', [2]),
    "head.svelte": (f"<svelte:head>\n<script>{BAD}</script>\n</svelte:head>", [2]),
    "front.astro": (
        f"\n---\nconst a: number = await f();\nif (a) {{ return g('---'); }}\n{BAD}\n---\n"
        f"<p>debugger</p>\n<script>\nlet a: number;\n{BAD}\n</script>\n",
        [5, 10],
    ),
    "bare.astro": (f"<p>--- debugger</p>\n<script is:inline>\n{BAD}\n</script>\n", [3]),
}
# Name -> text, and why nothing of it is looked at.
UNREAD: dict[str, tuple[str, str]] = {
    "other.vue": ('<script lang="coffee">\nf()\n</script>', "in another language: coffee"),
    "typed.svelte": ('<script type="text/ruby">\nf()\n</script>', "in another language: text/ruby"),
    "open.vue": ("<script>f()", "one of its scripts is not closed"),
    "tag.vue": ("<script setup='>f()</script>", "one of its scripts is not closed"),
    "front.astro": ("---\nf()", "the script at its top is not closed"),
    "many.vue": ("<script>f()</script>\n" * 51, "more than 50 scripts"),
}
NOTHING = {"empty.vue": "<template><p/></template>", "note.vue": "<!-- <script>"}


async def test_oxlint_reads_the_scripts_and_nothing_else(export: Export) -> None:
    files = {
        **NOTHING,
        **{name: text for name, (text, _) in READ.items()},
        **{f"unread/{name}": text for name, (text, _) in UNREAD.items()},
        "broken.vue": "<script>f()</script>\n<script>\nconst x: = 1\n</script>",
    }
    report = await Oxlint({"no-debugger"}).run(export(files), list(files))
    assert report.error is None
    found = {name: [f.line for f in report.findings if f.path == name] for name in READ}
    assert found == {name: lines for name, (_, lines) in READ.items()}
    assert report.gaps["broken.vue"].startswith("oxlint cannot parse it: line 3")
    for name, (_, why) in UNREAD.items():
        assert why in report.gaps[f"unread/{name}"]
    assert report.examined == READ.keys()


@pytest.mark.parametrize("name", READ)
def test_patterns_are_looked_for_in_the_scripts(tmp_path: Path, name: str) -> None:
    text, lines = READ[name]
    (tmp_path / name).write_text(text)
    reply = _patterns(tmp_path, name)
    assert not reply.gaps
    assert [finding.line for finding in reply.findings] == lines


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_that_cannot_be_searched_for_patterns_is_a_gap(tmp_path: Path, name: str) -> None:
    text, why = UNREAD[name]
    (tmp_path / name).write_text(text)
    reply = _patterns(tmp_path, name)
    assert why in reply.gaps[name]
    assert not reply.examined


@pytest.mark.parametrize("name", NOTHING)
def test_a_component_without_a_script_is_neither_read_nor_a_gap(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(NOTHING[name])
    assert _patterns(tmp_path, name) == CheckReply()


def _patterns(root: Path, name: str) -> CheckReply:
    files = sorted(str(file) for file in (DATA / "patterns").glob("*.yaml"))
    job = {"root": str(root), "paths": [name], "data": files, "codes": ["js-eval"]}
    return run_check(patterns.run, job)
