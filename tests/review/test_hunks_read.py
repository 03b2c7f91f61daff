"""Which hunks of a change agents with a model have read, and what is said of the others."""

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.types import Json
from orchestrator.report.review_gaps_text import describe_depth
from tests.providers.whole_kit import reports
from tests.review.review_kit import change, review
from tests.scripted_model import ScriptedModel, tool_call_reply

OLD = [f"VALUE_{n} = {n}\n" for n in range(400)]
NEW = [f"VALUE_{n} = {n + (n in {9, 199, 399})}\n" for n in range(400)]
Hunks = list[tuple[int, int, str, tuple[str, ...]]]


def with_little_room(settings: ReviewSettings) -> ReviewSettings:
    auto = replace(settings.auto, tokens_per_agent=100)
    return replace(settings, provider="scripted", judge=False, pattern="single", auto=auto)


async def read_with(
    tmp_path: Path, base: dict[str, str], head: dict[str, str], *calls: tuple[str, dict[str, Json]]
) -> Verdict:
    replies = [*([tool_call_reply(*calls)] if calls else []), reports(summary="Read.")]
    repo = change(tmp_path, base, head)
    return await review(repo, ScriptedModel({"generalist": replies}), adjust=with_little_room)


def hunks(verdict: Verdict, path: str = "a.py") -> Hunks:
    (entry,) = (entry for entry in verdict.checked if entry.path == path)
    return [(hunk.first, hunk.last, hunk.side, hunk.read_by) for hunk in entry.hunks]


async def test_a_hunk_is_read_by_who_was_shown_all_its_lines(tmp_path: Path) -> None:
    verdict = await read_with(
        tmp_path,
        {"a.py": "".join(OLD)},
        {"a.py": "".join(NEW)},
        ("read_file", {"path": "a.py", "start": 190, "end": 210}),
        ("read_file", {"path": "a.py", "start": 1, "end": 20, "side": "base"}),
    )
    assert hunks(verdict) == [
        (10, 10, "head", ()),
        (200, 200, "head", ("generalist",)),
        (400, 400, "head", ()),
    ]
    assert (verdict.depth.hunks, verdict.depth.unread_hunks) == (3, 2)
    said = "1 file: 1 read as code; 2 of 3 hunks by no agent (a.py:10, a.py:400)"
    assert describe_depth(verdict) == said


async def test_the_diff_of_a_file_shows_all_its_hunks(tmp_path: Path) -> None:
    verdict = await read_with(
        tmp_path,
        {"a.py": "".join(OLD), "b.py": "X = 1\n" * 40},
        {"a.py": "".join(NEW), "b.py": "Y = 1\n" * 40},
        ("git_diff", {"path": "a.py"}),
    )
    assert {readers for *_, readers in hunks(verdict)} == {("generalist",)}
    assert {readers for *_, readers in hunks(verdict, "b.py")} == {()}


async def test_the_diff_of_all_files_counts_for_each_that_it_shows(tmp_path: Path) -> None:
    wide = {f"{name}.py": f"X = '{name * 90}'\n" * 400 for name in "abc"}
    whole = await read_with(tmp_path, {}, wide, ("git_diff", {}))
    read = {path: hunks(whole, path)[0][-1] for path in wide}
    assert sorted(read.values()) == [(), (), ("generalist",)]


async def test_a_page_of_a_long_hunk_is_not_all_of_it(tmp_path: Path) -> None:
    long = {"a.py": "".join(f"VALUE_{n} = '{'x' * 90}'\n" for n in range(900))}
    first = await read_with(tmp_path / "1", {}, long, ("git_diff", {"path": "a.py"}))
    assert hunks(first) == [(1, 900, "head", ())]
    second: dict[str, Json] = {"path": "a.py", "offset": 450}
    pages = ("git_diff", {"path": "a.py"}), ("git_diff", second)
    both = await read_with(tmp_path / "2", {}, long, *pages)
    assert hunks(both) == [(1, 900, "head", ("generalist",))]


async def test_a_limit_that_kept_an_agent_from_a_file_cuts_the_review_short(tmp_path: Path) -> None:
    wide = {f"m{n}.py": "".join(f"V{k} = {k}\n" for k in range(60)) for n in range(120)}
    looks = [("glob", {"pattern": f"*{n}"}) for n in range(100)]
    reads = [("read_file", {"path": path}) for path in wide]
    verdict = await read_with(tmp_path, {}, wide, *looks, *reads)
    assert verdict.depth.unread_hunks > 0
    assert (verdict.status, verdict.stop.reason) == ("incomplete", "budget")


async def test_a_rate_limit_that_kept_an_agent_from_a_file_leaves_a_gap(tmp_path: Path) -> None:
    wide = {f"m{n}.py": f"V{n} = {n}\n" * 90 for n in range(3)}
    looks = [("glob", {"pattern": f"*{n}"}) for n in range(101)]  # of 100
    verdict = await read_with(tmp_path / "unread", {}, wide, *looks)
    assert (verdict.status, verdict.stop.reason) == ("incomplete", "done")
    gaps = {one.path: one.why for one in verdict.skipped if one.gap}
    why = "could not look further with glob: glob was already called 100 times in this run"
    assert gaps == dict.fromkeys(wide, f"not read whole: {why}")
    small = {"a.py": "X = 1\n"}
    read = await read_with(tmp_path / "read", {}, small, *looks)
    assert (read.status, read.depth.unread_hunks) == ("complete", 0)
    assert any("could not look further with glob" in one for one in read.stop.uncertain)


async def test_what_a_guard_cuts_out_of_the_opening_is_not_read(tmp_path: Path) -> None:
    base = {".diffcourt/config/guards.yaml": "limits: {characters: 3000}\n"}
    head = {"a.py": "".join(NEW)[:1500]}
    adjust = partial(replace, provider="scripted", judge=False, pattern="single")
    found = []
    for number, calls in enumerate(([], [tool_call_reply(("git_diff", {"path": "a.py"}))])):
        model = ScriptedModel({"generalist": [*calls, reports(summary="Read.")]})
        repo = change(tmp_path / str(number), base, head)
        verdict = await review(repo, model, adjust=adjust)
        assert "left out here" in str(model.requests[0].messages)
        found.append(verdict.depth.unread_hunks)
    assert found == [1, 0]


async def test_what_a_hunk_only_removes_is_seen_in_base(tmp_path: Path) -> None:
    files = {"a.py": "".join(OLD)}, {"a.py": "".join(OLD[:200] + OLD[210:])}
    page: dict[str, Json] = {"path": "a.py", "start": 195, "end": 215}
    head = await read_with(tmp_path / "1", *files, ("read_file", page))
    assert hunks(head) == [(201, 210, "base", ())]
    base = await read_with(tmp_path / "2", *files, ("read_file", {**page, "side": "base"}))
    assert hunks(base) == [(201, 210, "base", ("generalist",))]


async def test_the_opening_shows_small_changes_whole_and_offline_nobody_reads_hunks(
    tmp_path: Path,
) -> None:
    small = {"a.py": "X = 1\n"}, {"a.py": "X = 2\n"}
    shown = await read_with(tmp_path / "1", *small)
    assert hunks(shown) == [(1, 1, "head", ("generalist",))]
    assert describe_depth(shown) == ""
    offline = await review(change(tmp_path / "2", *small))
    assert hunks(offline) == []
    assert (offline.depth.hunks, offline.depth.unread_hunks) == (0, 0)


async def opened(
    tmp_path: Path, head: dict[str, str], *calls: tuple[str, dict[str, Json]]
) -> tuple[str, Verdict]:
    """The opening of one agent, and the verdict."""
    replies = [*([tool_call_reply(*calls)] if calls else []), reports(summary="Read.")]
    model = ScriptedModel({"generalist": replies})
    adjust = partial(replace, provider="scripted", judge=False, pattern="single")
    verdict = await review(change(tmp_path, {}, head), model, adjust=adjust)
    return str(model.requests[0].messages), verdict


CASES = {f"tests/test_{n}.py": f"NUMBER_{n} = {n}\n" * 20 for n in range(9)}
LONG = {"tests/test_long.py": "".join(f"VALUE_{n} = '{'x' * 60}'\n" for n in range(200))}
APP = {"app.py": "def total(prices):\n    return sum(prices)\n"}


async def test_beside_code_tests_are_shown_up_to_a_bound_and_the_others_named(
    tmp_path: Path,
) -> None:
    text, verdict = await opened(tmp_path / "1", {**APP, **CASES, **LONG})
    assert "NUMBER_1 = 1" in text, "what is small is shown whole"
    assert "VALUE_7" not in text
    assert "only if a finding depends on it: tests/test_long.py" in text
    assert "- tests/test_long.py: added, test, +200 -0" in text
    assert text.index("diff --git a/app.py") < text.index("diff --git a/tests/test_")
    assert (hunks(verdict, "tests/test_long.py")[0][-1], verdict.depth.unread_hunks) == ((), 1)
    assert verdict.status == "complete"
    (followed,) = [c for c in verdict.score.criteria if c.id == "playbooks-followed"]
    assert followed.score == 1, "nobody asks for it"
    asked = ("git_diff", {"path": "tests/test_long.py"})
    _, looked = await opened(tmp_path / "2", {**APP, **LONG}, asked)
    assert looked.depth.unread_hunks == 0


async def test_a_change_of_tests_alone_is_shown_whole(tmp_path: Path) -> None:
    text, verdict = await opened(tmp_path, LONG)
    assert "VALUE_199" in text
    assert verdict.depth.unread_hunks == 0


async def test_the_opening_shows_what_a_link_takes_the_place_of(tmp_path: Path) -> None:
    guard = {"guard.py": "def check():\n    raise PermissionError\n"}
    repo = change(tmp_path, {"a.py": "X = 1\n", **guard}, {"a.py": "X = 2\n", "guard.py": None})
    (tmp_path / "guard.py").symlink_to("a.py")
    repo.git("add", "--all")
    repo.git("commit", "-q", "--amend", "-m", "change")
    model = ScriptedModel({"generalist": [reports(summary="Read.")]})
    await review(repo, model, adjust=with_little_room)
    assert "raise PermissionError" in str(model.requests[0].messages)
