"""Which sides of a change an analyzer runs on."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from diffchecks import packed_files
from diffchecks.packed_files import contents_path, read_file
from orchestrator.app.check_worker_startup import new_pool
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side
from orchestrator.code_review.analyzers.configured_analyzers import LinterCheck
from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.code_review.change import contents as contents_module
from orchestrator.code_review.change.git import objects
from orchestrator.code_review.findings.analyzer_findings import MAX_SEARCHED
from orchestrator.code_review.findings.located_findings import AnalysisResult
from orchestrator.code_review.tools.analyzer_tools import SideTool, make_observation
from orchestrator.engine.ports import CallContext
from tests.diffchecks.programs.program_tools import Ruff
from tests.review.review_kit import change, review, workspace_of

CONTEXT = CallContext("", "", 60)
EVAL = "def run(name):\n    return eval(name)\n"


class Watched(LinterCheck):
    """Ruff that says which sides it was asked about."""

    def __init__(self) -> None:
        super().__init__(Ruff.check, {"S307"})
        self.asked: list[str] = []
        self.paths: dict[str, list[str]] = {}

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        self.asked.append(side.name)
        self.paths[side.name] = sorted(paths)
        return await super().run(side, paths)


@pytest.mark.parametrize(
    ("base", "head", "asked", "new"),
    [
        ("x = 1\n", "x = 2\n", ["head"], 0),
        (EVAL, "x = 2\n", ["head"], 0),
        ("x = 1\n", EVAL, ["head", "base"], 1),
        (EVAL, "x = 2\n" + EVAL, ["head", "base"], 0),
        (EVAL, EVAL + "\n\ndef more(x):\n    return eval(x + 1)\n", ["head", "base"], 1),
    ],
    ids=["silent", "mended", "brought-in", "was-there", "one-more"],
)
async def test_base_is_analyzed_when_head_has_findings(
    tmp_path: Path, base: str, head: str, asked: list[str], new: int
) -> None:
    repo, ruff = change(tmp_path, {"app.py": base}, {"app.py": head}), Watched()
    async with workspace_of(repo) as workspace, new_pool() as pool:
        seen = await SideTool("ruff_security", "", [ruff], workspace, pool).run({}, CONTEXT)
    result = AnalysisResult.from_json(seen.data)
    assert (ruff.asked, len(result.findings)) == (asked, new)
    assert result.examined == ("app.py",)
    assert result.version


async def test_of_base_only_files_that_may_hold_the_same_finding_are_analyzed(
    tmp_path: Path,
) -> None:
    wrapped = "def moved(name):\n    return eval(\n        name\n    )\n"
    before = {"old.py": EVAL, "other.py": "x = 1\n", "near.py": "evaluated = 1\n"}
    after = {"old.py": "x = 2\n", "other.py": "x = 2\n", "near.py": "x = 3\n", "new.py": wrapped}
    ruff = Watched()
    async with workspace_of(change(tmp_path, before, after)) as workspace, new_pool() as pool:
        seen = await SideTool("ruff_security", "", [ruff], workspace, pool).run({}, CONTEXT)
    result = AnalysisResult.from_json(seen.data)
    assert (result.findings, ruff.paths["base"]) == ((), ["old.py"])
    assert result.examined == ("near.py", "new.py", "old.py", "other.py")


async def test_where_head_has_very_many_findings_all_of_base_is_analyzed(tmp_path: Path) -> None:
    before = {"many.py": "x = 1\n", "other.py": "x = 1\n"}
    after = {"many.py": "eval(x)\n" * (MAX_SEARCHED + 1), "other.py": "x = 2\n"}
    ruff = Watched()
    async with workspace_of(change(tmp_path, before, after)) as workspace, new_pool() as pool:
        seen = await SideTool("ruff_security", "", [ruff], workspace, pool).run({}, CONTEXT)
    (joined,) = AnalysisResult.from_json(seen.data).findings
    assert f"also at {MAX_SEARCHED} other places in the file (lines 2, 3, 4, " in joined.detail
    assert ruff.paths["base"] == ["many.py", "other.py"]


async def test_one_cause_in_many_places_is_one_finding_of_what_the_change_adds(
    tmp_path: Path,
) -> None:
    view = "@csrf_exempt\ndef pay{0}(request):\n    charge(request.POST['card{0}'])\n\n\n"
    before = {"a.py": view.format(0), "b.py": "x = 1\n"}
    after = {"a.py": view.format(0) + view.format(1), "b.py": view.format(2)}
    verdict = await review(change(tmp_path, before, after))
    (found,) = [each for each in verdict.findings if each.rule == "security.csrf-off"]
    assert (found.path, found.start_line) == ("a.py", 6)
    assert found.detail.endswith("; 2 places, also in b.py")
    asked = "def {}(password):\n    return password == 'Sup3rGeheim!9'\n\n\n"
    script = "#!/bin/sh\ncp $@ /tmp/{}\n"
    after = {"a.py": asked.format("f") + asked.format("g"), "a.sh": script.format(1)}
    verdict = await review(change(tmp_path / "2", {}, {**after, "b.sh": script.format(2)}))
    assert [(one.rule, one.path) for one in verdict.findings] == [
        ("security.literal-password", "a.py"),
        ("qa.shell-split-arguments", "a.sh"),
    ]


def test_a_list_of_many_files_for_a_model_stays_valid_json() -> None:
    paths = [f"package/module_{number}.py" for number in range(400)]
    reached = {path: {"importers": paths[:9]} for path in paths}
    result = AnalysisResult(
        "graph",
        "1",
        examined=tuple(paths),
        gaps={paths[0]: "too large"},
        facts={"reached": reached, "not_listed": 3},
    )
    seen = make_observation(result, 8_000)
    shown = json.loads(seen.content)
    assert len(seen.content) <= 8_000
    assert [gap["path"] for gap in shown["gaps"]] == [paths[0]]
    assert shown["facts"]["not_listed"] == 3
    assert len(shown["checked"]) == 400 - shown["left_out"]["checked"] > 100
    assert len(shown["facts"]["reached"]) == 400 - shown["left_out"]["reached"]
    assert AnalysisResult.from_json(seen.data).facts["reached"] == reached


async def test_a_program_without_a_version_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "bin/ruff"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncase "$1" in --version) exit 3;; esac\necho "[]"\n')
    program.chmod(0o755)
    ruff = Ruff({"S307"}, Program("ruff", "ruff", search=str(program.parent)))
    repo = change(tmp_path / "repo", {"app.py": "x = 1\n"}, {"app.py": EVAL})
    async with workspace_of(repo) as workspace, new_pool() as pool:
        seen = await SideTool("ruff_security", "", [ruff], workspace, pool).run({}, CONTEXT)
    assert not seen.ok
    result = AnalysisResult.from_json(seen.data)
    assert "exit code 3" in result.error
    assert result.examined == ()


async def test_a_file_that_both_sides_share_is_written_once(tmp_path: Path) -> None:
    before = {"pkg/same.py": "x = 1\n", "pkg/other.py": "x = 1\n", "link": "pkg/same.py"}
    repo = change(tmp_path / "repo", before, {"pkg/other.py": "x = 2\n", "link": None})
    (repo.path / "link").symlink_to("pkg/same.py")
    repo.git("add", "-A")
    repo.git("commit", "-q", "--amend", "-m", "change")
    async with workspace_of(repo) as workspace:
        base, _ = await workspace.side("base", list(before))
        head, refused = await workspace.side("head", list(before))
        sides = base.root, head.root
        inodes = {
            name: {(root / name).stat().st_ino for root in sides} for name in list(before)[:2]
        }
        assert {name: len(found) for name, found in inodes.items()} == {
            "pkg/same.py": 1,
            "pkg/other.py": 2,
        }
        assert [(root / "pkg/other.py").read_text() for root in sides] == ["x = 1\n", "x = 2\n"]
        assert list(refused) == ["link"]  # the same blob, and a link in head alone
        assert (base.root / "link").is_file()
        assert not (head.root / "link").exists()


async def test_checks_read_what_is_packed_and_no_file_is_made_for_it(tmp_path: Path) -> None:
    before = {"pkg/same.py": "x = 1\n", "pkg/other.py": "x = 1\n# base\n", "large.py": "#" * 9999}
    repo = change(tmp_path / "repo", before, {"pkg/other.py": "x = 2\n", "link.py": "pkg/same.py"})
    (repo.path / "link.py").unlink()
    (repo.path / "link.py").symlink_to("pkg/same.py")
    repo.git("add", "-A")
    repo.git("commit", "-q", "--amend", "-m", "change")
    async with workspace_of(repo) as workspace:
        head, base = workspace.root / "head", workspace.root / "base"
        await workspace.packing.add("head", ["pkg/other.py", "link.py", "none.py"])
        assert read_file(head, "pkg/other.py") == b"x = 2\n"
        await workspace.packing.add("head", before)  # a reader sees what was added since
        packed = contents_path(head).stat().st_size
        assert read_file(head, "large.py", 3) == b"###"
        await workspace.packing.add("base", before)
        shared = contents_path(base).stat().st_size - packed
        assert (read_file(base, "pkg/other.py"), shared) == (b"x = 1\n# base\n", 13)
        assert read_file(base, "pkg/same.py") == b"x = 1\n"
        assert not [*head.iterdir(), *base.iterdir()]
        for path in ("link.py", "none.py", "../base.index"):
            with pytest.raises(OSError):
                read_file(head, path)
        await workspace.side("head", ["pkg/same.py"])
        contents_path(head).write_bytes(b"x")  # as if the disk had been full
        with pytest.raises(OSError):
            read_file(head, "large.py")


async def test_the_next_review_of_a_process_reads_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = change(tmp_path / "repo", {"a.py": "a = 1\n", "b.py": "b = 1\n"}, {"b.py": "b = 2\n"})
    asked, in_batches = list[str](), objects.Objects.in_batches

    async def noted(self: objects.Objects, oids: Sequence[str], consume: Any) -> None:
        asked.extend(oids)
        await in_batches(self, oids, consume)

    monkeypatch.setattr(objects.Objects, "in_batches", noted)
    for text in ("a = 1\n", "a = 2\n", "a = 2\n"):
        repo.commit({"a.py": text, "c.py": f"# {len(asked)}\n"})
        async with workspace_of(repo) as workspace:
            await workspace.packing.add("head", ["a.py", "b.py"])
            head = workspace.root / "head"
            found = [read_file(head, path).decode() for path in ("a.py", "b.py")]
            assert found == [text, "b = 2\n"]
    blobs = [repo.git("rev-parse", f"HEAD{at}") for at in ("~2:a.py", ":a.py", ":b.py")]
    assert [asked.count(blob) for blob in blobs] == [1, 1, 1]


async def test_packing_goes_on_where_a_cancelled_check_left_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"m{n}.py": f"x = {n}\n" for n in range(300)}
    repo = change(tmp_path / "repo", files, {"m0.py": "x = 'new'\n"})
    monkeypatch.setattr(objects, "_BYTES_AT_ONCE", 100)
    async with workspace_of(repo) as workspace:
        append = packed_files.append_contents
        with anyio.CancelScope() as scope:

            def last(root: Path, contents: Iterable[bytes]) -> int:
                start = append(root, contents)
                if start > 1000:
                    anyio.from_thread.run_sync(scope.cancel)
                return start

            monkeypatch.setattr(contents_module, "append_contents", last)
            await workspace.packing.add("base", files)
        assert scope.cancelled_caught
        monkeypatch.setattr(contents_module, "append_contents", append)
        await workspace.packing.add("base", files)
        base = workspace.root / "base"
        assert {path: read_file(base, path).decode() for path in files} == files


async def test_code_that_moves_out_of_where_it_is_not_reviewed_is_new(tmp_path: Path) -> None:
    lines = "".join(f"export const v{n} = {n};\n" for n in range(40))
    text = f"{lines}export const run = (x) => eval(x);\n"
    base = {
        "vendor/a.js": text,
        "dist/b.js": lines,
        ".gitattributes": "dist/** linguist-generated\n",
    }
    head = {"vendor/a.js": None, "dist/b.js": None, "src/a.js": text, "src/b.js": text}
    verdict = await review(change(tmp_path, base, head))
    assert {finding.path for finding in verdict.findings} == {"src/a.js", "src/b.js"}
    assert not verdict.skipped
