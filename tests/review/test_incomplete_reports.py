"""What the text says of an incomplete review: which part, why, and what to do about it."""

import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.code_review.analyzers import program_execution
from orchestrator.code_review.findings.gap_remedies import VERDICT_POLICY
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.report.verdict_text import render_verdict
from tests.review.review_kit import Repo, change, review

EVAL = "x = eval(input())\n"


def joined(text: str) -> str:
    return " ".join(text.split())


async def test_a_program_that_no_tool_reads_is_named_with_the_way_out(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"pay.cob": "STOP RUN.\n"}))
    for detail in ("short", "brief", "full"):
        said = joined(render_verdict(verdict, detail=detail))
        assert "Read pay.cob by hand: no tool reads it as code." in said
        assert "add `unread: note` to .diffcourt/config/verdict.yaml of the base branch" in said
        assert "unless they run in CI or production" in said
    short = render_verdict(verdict, detail="short")
    assert "\npay.cob: not reviewed: not read as COBOL: only its text was searched\n" in short


async def test_what_decides_comes_first_and_says_how_to_dismiss_it(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"a.py": EVAL, "b.cob": "STOP RUN.\n"}))
    action = verdict.stop.next_human_action
    assert action.startswith("Start with F1 at a.py:1: Text evaluated as code. If it is wrong: ")
    assert "diffcourt dismiss F1 --reason TEXT. Read b.cob by hand" in action


async def test_a_file_that_one_tool_could_not_read_is_not_called_unread(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"a.py": "def f(:\n", "b.py": "X = 1\n"}))
    action = verdict.stop.next_human_action
    assert "no tool reads it" not in action
    assert "unread: note" not in action
    assert "a.py" in action


async def test_a_missing_program_is_told_once_and_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_execution, "OWN_DIRECTORIES", ())
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    verdict = await review(change(tmp_path, {}, {"a.py": "X = 1\n"}))
    assert (verdict.status, verdict.stop.reason, verdict.usage.iterations) == (
        "incomplete",
        "done",
        1,
    )
    for detail in ("short", "brief"):
        said = joined(render_verdict(verdict, detail=detail))
        assert said.count("ruff is not installed") == 1
        assert "Install what is missing, as the gaps say, and review again." in said
        assert "stopped early" not in said


async def test_an_analyzer_that_the_policy_denies_is_named_where_a_check_needs_it(
    tmp_path: Path,
) -> None:
    repo = Repo(tmp_path)
    off = "environments: {local: {deny: [api_breakage]}}\n"
    repo.commit({".diffcourt/config/tools.yaml": off, "a.py": "X = 1\n"})
    repo.commit({"a.py": "X = 2\n"})
    verdict = await review(repo)
    assert verdict.status == "incomplete"
    for detail in ("short", "brief"):
        said = joined(render_verdict(verdict, detail=detail))
        assert "api_breakage did not run: api_breakage is off in local" in said
        assert "take it out of required_checks in .diffcourt/config/verdict.yaml" in said


async def test_a_short_report_lists_ten_gaps_and_ten_findings_and_counts_the_others(
    tmp_path: Path,
) -> None:
    files = {f"p{n:02}.cob": f"MOVE {n} TO X.\n" for n in range(12)}
    files |= {f"a{n:02}.py": EVAL for n in range(13)}
    verdict = await review(change(tmp_path, {}, files))
    once = render_verdict(verdict, detail="short")
    assert "\np00.cob and 11 more: not reviewed: not read as COBOL: only its text" in once
    gaps = [replace(one, why=f"{one.why} {n}") for n, one in enumerate(verdict.skipped)]
    assert "\na00.py:1: medium: Text evaluated as code (and 12 more places) [F1]\n" in once
    # Twelve causes, the last with two findings.
    others = [
        replace(one, title=f"{one.title} {min(number, 11)}")
        for number, one in enumerate(verdict.findings)
    ]
    short = render_verdict(replace(verdict, findings=others, skipped=gaps), detail="short")
    lines = short.splitlines()
    assert sum(": not reviewed: " in line for line in lines) == 10
    assert sum(": medium: " in line for line in lines) == 10
    assert "and 2 more gaps: " in short
    assert "and 3 more findings: " in short
    assert max(map(len, lines)) <= 80


LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{0:064}\nsize 12\n"
GAPS: dict[str, tuple[str, bytes | str | Path]] = {
    "compiled": ("tool", b"\x7fELF\0\0"),
    "hidden": ("page.html", b"<p>\0"),
    "utf-16": ("u.sql", "select 1\n".encode("utf-16")),
    "large": ("big.sql", "select 1;\n" * 275_000),
    "larger": ("larger.csv", "1,2\n" * 1_400_000),
    "archive": ("dist/a [1].zip", b"PK\3\4\0"),
    "link": ("out", Path("/etc/hostname")),
    "lfs": ("model.py", LFS),
    "language": ("a.cob", "STOP RUN.\n"),
    "not parsed by one tool": ("Dockerfile", "FROM a\nFOO bar\n"),
    "bad name": (os.fsdecode(b"na\xefve.jar"), b"PK\3\4\0"),
    "nested": ("n.lisp", "(" * 2_001),
}


# An action names up to three files.
@pytest.mark.parametrize(
    ("kinds", "beside"),
    [
        (["compiled", "hidden", "utf-16"], "ok.py"),
        (["large", "larger", "archive"], "ok.py"),
        (["link", "lfs", "not parsed by one tool"], "ok.py"),
        (["bad name", "nested"], "ok.py"),
        (["language"], "ok.py"),
        (["archive"], ""),
        (["language"], ""),
    ],
)
async def test_the_setting_that_an_incomplete_review_names_makes_it_complete(
    tmp_path: Path, kinds: list[str], beside: str
) -> None:
    async def outcome(base: dict[str, str], name: str) -> Verdict:
        repo = Repo(tmp_path / name)
        repo.commit({"start.txt": "start\n", **base})
        for path, content in map(GAPS.__getitem__, kinds):
            if isinstance(content, Path):
                (repo.path / path).symlink_to(content)
            else:
                repo.write({path: content})
        repo.commit({beside: "X = 1\n"} if beside else {})
        return await review(repo)

    verdict = await outcome({}, "before")
    assert verdict.status == "incomplete"
    assert {skip.path for skip in verdict.skipped if skip.gap} == {GAPS[kind][0] for kind in kinds}
    action = verdict.stop.next_human_action
    assert re.search("unless (it runs|they run) in CI or production", action)
    if "`unread: note`" in action:
        setting = "unread: note\n"
    else:
        entry = re.search(r"add (\{paths: \[.*\], why: TEXT\}) to `exclude`", action)
        assert entry is not None
        setting = f"exclude: [{entry[1]}]\n"
    assert VERDICT_POLICY.split()[0] in action
    green = await outcome({VERDICT_POLICY.split()[0]: setting}, "after")
    assert (green.status, green.verdict) == ("complete", "merge")


BUNDLE = f"!function(){{{'var a=function(e){return e+1};' * 400}}}();\n"
TYPES = "// DO NOT EDIT\nexport declare function f(a: string): number;\n"


@pytest.mark.parametrize(
    ("path", "was", "marks", "status"),
    [
        ("dist/app.js", BUNDLE, "", "incomplete"),
        ("dist/app.js", BUNDLE, "dist/** linguist-generated\n", "complete"),
        ("a.d.ts", TYPES, "", "complete"),
        ("sorbet/a.rbi", TYPES, "", "complete"),
        ("a.ts", TYPES, "", "incomplete"),
    ],
)
async def test_generated_code_alone_is_a_gap_unless_base_marks_it_or_it_only_declares(
    tmp_path: Path, path: str, was: str, marks: str, status: str
) -> None:
    head = {path: f"{was}{was}", ".gitattributes": marks}
    verdict = await review(change(tmp_path, {path: was, ".gitattributes": marks}, head))
    assert verdict.status == status
    told = "mark them `linguist-generated` in .gitattributes of the base branch, unless they run"
    assert (told in verdict.stop.next_human_action) == (status == "incomplete")


async def test_each_kind_of_gap_has_its_own_remedy_in_one_next_step(tmp_path: Path) -> None:
    wide, large = "select 1\n".encode("utf-16"), "select 1;\n" * 275_000
    files: dict[str, str | bytes] = {
        "a.zip": b"PK\3\4\0",
        "big.sql": large,
        "t.cob": "STOP RUN.\n",
        "u.sql": wide,
    }
    action = (await review(change(tmp_path, {}, files))).stop.next_human_action
    assert "Or save u.sql as UTF-8. Or raise `limits.max_file_bytes` in " in action
    assert 'add {paths: ["/a.zip", "/big.sql", "/u.sql"], why: TEXT} to `exclude`' in action
    assert action.endswith(
        "add `unread: note` to .diffcourt/config/verdict.yaml of the base branch, "
        "unless they run in CI or production."
    )
