"""What the tools for looking around show a model."""

import os
import re
from pathlib import Path

import pytest

from orchestrator.code_review.tools import repository_navigation
from orchestrator.code_review.tools.lead_tools import by_risk
from orchestrator.code_review.tools.path_globs import path_matcher, searched_matcher
from orchestrator.code_review.tools.repository_navigation import SPECS, Navigation
from orchestrator.engine.tool_registry import validator
from orchestrator.errors import InputError, SandboxError
from tests.review.review_kit import Repo, change, workspace_of


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", "a.py src/b.py src/deep/c.py"),
        ("src/*.py", "src/b.py"),
        ("src/**/*.py", "src/b.py src/deep/c.py"),
        ("**/c.py", "src/deep/c.py"),
        ("**", "a.py src/b.py src/deep/c.py src/deep/d.ts"),
        ("src/deep/", "src/deep/c.py src/deep/d.ts"),
        ("src/**/*.{py,ts}", "src/b.py src/deep/c.py src/deep/d.ts"),
        ("{a,src/{b,deep/c}}.py", "a.py src/b.py src/deep/c.py"),
        ("/*.py", "a.py"),
        ("!/*.py", "src/b.py src/deep/c.py src/deep/d.ts"),
        ("!*.{py,md}", "src/deep/d.ts"),
    ],
)
def test_a_glob_matches_as_in_gitignore_and_with_braces(pattern: str, found: str) -> None:
    paths = ["a.py", "src/b.py", "src/deep/c.py", "src/deep/d.ts"]
    assert list(filter(searched_matcher(pattern), paths)) == found.split()


@pytest.mark.parametrize("pattern", ["!a", "#a", "!#a", "{a,b}" * 20])
def test_a_glob_that_cannot_match_is_an_error_and_not_an_empty_answer(pattern: str) -> None:
    with pytest.raises(InputError, match="pattern"):
        (path_matcher if pattern == "!a" else searched_matcher)(pattern)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    lines = [f"line {number}" for number in range(1, 121)]
    changed = [line for line in lines if line != "line 50"]
    changed[9:10] = ["line ten", "and more"]
    moved = "".join(f"{number}\n" for number in range(50))
    made = change(
        tmp_path / "repo",
        {"app.py": "\n".join(lines) + "\n", "old name.txt": moved, "gone.txt": "needle\n"},
        {
            "app.py": "\n".join(changed) + "\n",
            "old name.txt": None,
            "new name.txt": moved + "50\n",
            "gone.txt": None,
            "auth/login.py": "check = True\n",
        },
    )
    made.git("commit", "-q", "--amend", "-m", "Check logins\n\nThe body says why.")
    return made


async def test_a_diff_shows_the_number_of_each_line_and_the_riskiest_file_first(repo):
    async with workspace_of(repo) as workspace:
        look = Navigation(workspace)
        whole = await look.git_diff({})
        one = await look.git_diff({"path": "app.py"})
        assert await look.git_diff({"path": "README.md"}) == "README.md did not change"
        shown = {whole.split("\n")[0]}
        rest = (await look.git_diff({}, shown)).split("\n")
        again = await look.git_diff({"path": "auth/login.py"}, shown)
        new = await look.read_file({"path": "auth/login.py"}, shown)
        gone = await look.read_file(
            {"path": "gone.txt", "side": "base"}, {"diff --git a/gone.txt b/gone.txt"}
        )
        unseen = await look.read_file({"path": "auth/login.py"})
        part = await look.read_file({"path": "app.py", "end": 1}, {one.split("\n")[0]})
    assert new == "auth/login.py is added: your first message has all of it in the diff"
    assert gone == "gone.txt is deleted: your first message has all of it in the diff"
    assert unseen.endswith("\n1: check = True")
    assert part.endswith("\n1: line 1")
    files = [line for line in whole.split("\n") if line.startswith("diff --git")]
    assert [line.rpartition(" b/")[2] for line in files] == [
        "auth/login.py", "app.py", "gone.txt", "new name.txt",
    ]  # fmt: skip
    assert "rename from old name.txt" in whole
    assert rest[0] == "[your first message has the diffs of 1 more file]"
    assert rest[1:] == whole.split("\n")[-len(rest) + 1 :]
    assert again == "your first message has the whole diff of auth/login.py"
    head = repo.git("show", "HEAD:app.py").split("\n")
    base = repo.git("show", "HEAD~1:app.py").split("\n")
    numbered = re.findall(r"^([-+ ])(\d+): (.*)$", one, re.MULTILINE)
    assert len(numbered) > 10
    assert {sign for sign, _, _ in numbered} == {" ", "+", "-"}
    for sign, number, text in numbered:
        assert (base if sign == "-" else head)[int(number) - 1] == text


async def test_a_file_has_as_many_lines_as_it_has_line_ends(tmp_path):
    texts = {"ended.py": "a\nb\n", "open.py": "a\nb", "blank.py": "a\n\n", "empty.py": ""}
    made = change(tmp_path / "ends", {"x.py": "x\n"}, dict(texts))
    async with workspace_of(made) as workspace:
        look = Navigation(workspace)
        read = {path: await workspace.read_head(path) for path in texts}
        shown = {path: (await look.read_file({"path": path})).split("\n") for path in texts}
        for outside in ({"start": 3}, {"start": 2, "end": 1}):
            with pytest.raises(InputError, match="lines 1 to 2"):
                await look.read_file({"path": "ended.py", **outside})
    assert read == {
        "ended.py": ["a", "b"], "open.py": ["a", "b"], "blank.py": ["a", ""], "empty.py": [""],
    }  # fmt: skip
    for path, lines in read.items():
        assert shown[path][0].endswith(f"of {len(lines)}")
        assert len(shown[path]) == 1 + len(lines)


FOUND = (
    f"latin.js:\n1: evil('\udce9')\nlong.js:\n1: x;{' ' * 398}\n"
    "new.ts:\n2: evil();\nold.ts:\n2: evil();"
)


async def test_what_a_diff_cuts_or_git_calls_binary_can_be_read(tmp_path, monkeypatch):
    nul = b"f(`\0`);\nevil();\n" + b"f(1);\n" * 400
    head: dict[str, str | bytes | None] = {
        "new.ts": nul,
        "old.ts": nul,
        "long.js": "x;" + " " * 2_000 + "evil();\n",
        "latin.js": b"evil('\xe9')\n",
        "b.bin": b"\0",
        "and more": "odd\n",
        "odd:\n1: path": "odd\n",
        os.fsdecode(b"\xe9.txt"): "odd\n",
    }
    made = change(tmp_path / "hidden", {"old.ts": "f(1);\n" * 400}, head)
    async with workspace_of(made) as workspace:
        look = Navigation(workspace)
        whole = await look.git_diff({})
        seen = {line for line in whole.split("\n") if line.startswith("diff --git")}
        read = [await look.read_file({"path": path}, seen) for path in ("old.ts", "long.js")]
        assert "all of it in the diff" in await look.read_file({"path": "new.ts"}, seen)
        assert await look.search({"pattern": "evil"}) == FOUND
        monkeypatch.setattr(repository_navigation, "NUL", "(")  # is looked for once, or fails
        odd = "and more:\n1: odd\nodd:\\n1: path:\n1: odd\n\udce9.txt:\n1: odd"
        assert await look.search({"pattern": "odd"}) == odd  # none is lost, or taken for another
        assert "b.bin" not in await look.search({"pattern": "", "glob": "b.*"})
        with pytest.raises(InputError, match="binary"):
            await look.read_file({"path": "b.bin"}, seen)
    assert whole.count("\n+2: evil();") == 2
    assert whole.count("diff --git") == 8
    assert all("evil();" in text for text in read)


async def test_of_a_long_line_that_is_replaced_a_diff_shows_what_differs(tmp_path):
    texts = {side: f"X\n{'a' * 3_000}{side}{'b' * 3_000}\n" for side in ("old", "new")}
    base = {"package.json": texts["old"], "end.json": "a" * 3_000}
    made = change(tmp_path, base, {"package.json": texts["new"], "end.json": "a" * 3_000 + "!"})
    async with workspace_of(made) as workspace:
        shown = (await Navigation(workspace).git_diff({})).split("\n")
    cut = " [cut: characters 2901 to 3900 of 6003]"
    for sign, side in (("-", "old"), ("+", "new")):
        assert f"{sign}2: {'a' * 100}{side}{'b' * 897}{cut}" in shown
    assert f"+1: {'a' * 999}! [cut: characters 2002 to 3001 of 3001]" in shown


async def test_a_path_may_have_the_prefix_of_a_diff(repo):
    async with workspace_of(repo) as workspace:
        look = Navigation(workspace)
        for path in ("b/app.py", "./app.py", "a/app.py"):
            assert await look.read_file({"path": path}) == await look.read_file({"path": "app.py"})
            assert await look.git_diff({"path": path}) == await look.git_diff({"path": "app.py"})


async def test_a_large_diff_is_read_page_by_page_without_a_loss(repo, monkeypatch):
    async with workspace_of(repo) as workspace:
        look = Navigation(workspace)
        whole = (await look.git_diff({})).split("\n")
        monkeypatch.setattr(repository_navigation, "DIFF_CHARACTERS", 250)
        read, offset, pages = list[str](), 1, 0
        while offset:
            page = (await look.git_diff({"offset": offset})).split("\n")
            offset = 0
            if page[-1].startswith("[lines"):
                offset = int(page.pop().rpartition(" ")[2].rstrip("]"))
            read += page[1:] if page[0].startswith("[continued: diff --git") else page
            pages += 1
        assert "behind them" in await look.git_diff({"offset": 9999})
    assert read == whole
    assert pages > 3


async def test_a_search_sorts_by_number_shows_context_and_reads_base(repo):
    async with workspace_of(repo) as workspace:
        look = Navigation(workspace)
        found = await look.search({"pattern": r"line (9|11|1\d\d)$", "glob": "*.{py,js}"})
        path, *lines = found.split("\n")
        numbers = [int(line.split(":")[0]) for line in lines]
        assert path == "app.py:"
        assert numbers == sorted(numbers)
        near = await look.search({"pattern": "line ten", "context": 1})
        assert near == "app.py:\n9- line 9\n10: line ten\n11- and more"
        assert await look.search({"pattern": "needle"}) == "nothing matches"
        assert await look.search({"pattern": "needle", "side": "base"}) == "gone.txt:\n1: needle"
        apart = await look.search({"pattern": "line (20|30)", "context": 1})
        assert apart.count("--\n") == 1
        with pytest.raises(InputError, match=r"no file of head matches the glob '\*.rb'"):
            await look.search({"pattern": "x", "glob": "*.rb"})


async def test_a_search_of_one_directory_is_not_lost_for_what_others_have(tmp_path):
    wide = {f"data/{n}.txt": ("x" * 900_000 + "\n") * 30 for n in range(3)}
    repo = change(tmp_path, wide, {"docs/a.md": "one\n"})
    async with workspace_of(repo) as workspace:
        look = Navigation(workspace)
        with pytest.raises(SandboxError, match="rg (printed more|ran longer) than"):
            await look.search({"pattern": "."})
        assert await look.search({"pattern": ".", "glob": "docs/*"}) == "docs/a.md:\n1: one"


async def test_one_large_file_leaves_room_for_the_others_in_a_search(tmp_path):
    wide = "needle " + "x" * 190 + "\n"
    base = {"a.py": wide * 150, "b.py": wide * 250, "c.py": "x\nneedle\n", "d.py": wide * 3}
    async with workspace_of(change(tmp_path, base, {"e.py": "e\n"})) as workspace:
        look = Navigation(workspace)
        found = await look.search({"pattern": "needle"})
        lines = found.split("\n")
        shown = dict(re.findall(r"^(\w\.py):\n((?:\d.*\n)+)", found, re.MULTILINE))
        assert shown["c.py"] == "2: needle\n"
        assert shown["d.py"].count("\n") == 3
        (first, second) = [line for line in lines if " more in " in line]
        cut = 150 - shown["a.py"].count("needle")
        assert first == f"and {cut} more in a.py"
        assert lines[-1] == "narrow the pattern or the glob to see them"
        assert second.startswith("and at least ")
        assert sum(map(len, lines)) < 19_000
        for n in range(5):  # few of very many files fit
            assert (await look.search({"pattern": "needle", "context": n})).count("more in") == 2
    many = {f"{n % 2}/m{n:03}.py": f"needle {n}\n" * 9 for n in range(400)}
    async with workspace_of(change(tmp_path / "many", many, {"1/z.py": "needle\n"})) as workspace:
        found = await Navigation(workspace).search({"pattern": "needle"})
        assert found.startswith("1/z.py:\n1: needle\n1/m001.py:\n1: ")  # what is near the change
        assert re.search(r"\nand \d+ more in \d+ files\nnarrow the pattern .*\Z", found)
        assert len(found) < 19_000


async def test_the_log_without_a_path_holds_the_messages_of_the_change(repo):
    async with workspace_of(repo) as workspace:
        look = Navigation(workspace)
        log = await look.git_log({})
        assert log.endswith("Check logins\nThe body says why.")
        assert len(log.split("\n\n")) == 1
        assert "Check logins" in await look.git_log({"path": "app.py"})


async def test_a_file_with_long_lines_says_where_to_continue(tmp_path):
    text = "".join(f"{'x' * 300} {number}\n" for number in range(100))
    async with workspace_of(change(tmp_path, {}, {"a.txt": text})) as workspace:
        page = await Navigation(workspace).read_file({"path": "a.txt"})
        head, *lines = page.split("\n")
        assert len(page) < 20_000
        assert head.endswith(f"; continue with start {len(lines) + 1}")
        rest = await Navigation(workspace).read_file({"path": "a.txt", "start": len(lines) + 1})
        assert rest.split("\n")[1].startswith(f"{len(lines) + 1}: ")


async def test_a_file_whose_path_names_something_sensitive_is_read_first(repo):
    async with workspace_of(repo) as workspace:
        assert by_risk(workspace.change.files)[0].path == "auth/login.py"


def test_an_argument_that_a_tool_does_not_have_is_answered_with_what_it_has() -> None:
    spec = next(spec for spec in SPECS if spec.name == "read_file")
    (error,) = validator(spec.schema)({"path": "a.py", "line": 4})
    assert error == "the whole: unknown 'line'; it has path, start, end, side"


async def test_too_much_context_is_cut_and_said_instead_of_losing_the_search(repo):
    async with workspace_of(repo) as workspace:
        look = Navigation(workspace)
        most, more = [await look.search({"pattern": "line 60", "context": n}) for n in (10, 12)]
    assert more == f"context 12 is too much, shown is 10\n{most}"
    (spec,) = (spec for spec in SPECS if spec.name == "search")
    assert not list(validator(spec.schema)({"pattern": "x", "context": 12}))
    assert "at most 10" in spec.schema["properties"]["context"]["description"]


async def test_every_file_of_code_is_riskier_than_the_largest_test(tmp_path):
    tests = {"tests/sql/test_session_auth.py": "X = 1\n" * 500, "a_test.go": "package a\n"}
    made = change(tmp_path / "t", {}, {**tests, "app.py": "X = 1\n", "zz.py": "Y = 1\n"})
    async with workspace_of(made) as workspace:
        ordered = [file.path for file in by_risk(workspace.change.files)]
    assert ordered == ["app.py", "zz.py", "tests/sql/test_session_auth.py", "a_test.go"]
