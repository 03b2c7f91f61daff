"""Replies of checks cross a process boundary: what has another shape is an error."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import ValidationError, convert

from diffchecks import PREFIX
from diffchecks.check_io import CheckReply
from orchestrator.code_review.analyzers import own_checks
from orchestrator.code_review.analyzers.own_checks import call_check, call_check_in_batches
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall
from orchestrator.code_review.findings.evidence_from_journal import gaps as open_gaps
from orchestrator.code_review.findings.located_findings import AnalysisResult
from orchestrator.errors import SandboxError
from orchestrator.sandbox.worker_pool import WorkerPool
from tests.review.review_kit import change, review

FINDING = {"code": "c", "path": "a.py", "line": 1, "message": "m"}


async def test_a_reply_of_another_check_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    job = {"root": str(tmp_path), "lines": {"a.py": [1]}}
    async with WorkerPool(1, prefix=PREFIX, reads=[tmp_path]) as pool:
        replies, errors = await call_check_in_batches(
            pool, "enclosing_scopes:run", job, ["a.py"], 20, CheckReply
        )
    assert replies == []
    assert "enclosing_scopes:run sent a malformed reply" in errors["a.py"]


async def test_a_part_that_a_job_does_not_have_is_an_error(tmp_path: Path) -> None:
    job = {"root": str(tmp_path), "paths": [], "codes": []}
    async with WorkerPool(1, prefix=PREFIX, reads=[tmp_path]) as pool:
        with pytest.raises(SandboxError, match="unknown field `codes`"):
            await call_check(pool, "conflict_markers:run", job, 20, CheckReply)


@pytest.mark.attack("file that takes a parser minutes")
@pytest.mark.parametrize("size", [own_checks.BATCH, own_checks.PATTERNS_BATCH])
async def test_a_file_that_takes_a_parser_too_long_is_a_gap_and_the_others_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    calls: list[int] = []

    async def counted(*given: Any) -> Any:
        calls.append(len(given[2]["paths"]))
        return await call_check(*given)

    monkeypatch.setattr(own_checks, "call_check", counted)
    monkeypatch.setattr(own_checks, "FILE_SECONDS", 0.5)
    names = [f"{number}.yaml" for number in range(8)]
    for name in names:
        (tmp_path / name).write_text("a: 1\na: 2\n")
    (tmp_path / "3.yaml").write_text("a: " + "[" * 200_000)
    job = {"root": str(tmp_path)}
    async with WorkerPool(1, prefix=PREFIX, reads=[tmp_path]) as pool:
        replies, errors = await call_check_in_batches(
            pool, "syntax_and_duplicates:run", job, names, 60, CheckReply, size=size
        )
    assert calls == [8, *[1] * 8]  # so the file costs its time twice
    name = "syntax_and_duplicates"
    assert errors == {"3.yaml": f"{name}: the worker took too much processor time for one file"}
    assert {path for reply in replies for path in reply.examined} == {*names} - {"3.yaml"}
    assert sum(len(reply.findings) for reply in replies) == 7


@pytest.mark.attack("limits that base's version of a file reaches, too")
async def test_a_limit_that_base_reaches_too_is_a_gap_and_a_hole_of_base_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_checks, "FILE_SECONDS", 0.25)
    lists = "int a[1][1] = {{1}};\n"
    base = {
        "templates/slow.h": lists + "class A : @ x = () 'a\n" * 8_000,
        "deep.js": "[" * 3_000,
        "hole.h": lists + '  x = = "a" ( y ; gets ( [ line ;\n' * 2,
    }
    head = {path: text + text[-20:] for path, text in base.items()}
    verdict = await review(change(tmp_path, base, {**head, "app.py": "X = 1\n"}))
    whys = {entry.path: entry.why for entry in verdict.skipped if entry.gap}
    assert whys == {
        "templates/slow.h": "patterns: the worker took too much processor time for one file",
        "deep.js": "nested too deeply to be parsed: over 2000 open brackets",
    }
    (note,) = (entry.why for entry in verdict.skipped if not entry.gap)
    assert note == "its grammar cannot parse lines 2, 3, 4; base's version could not be read either"


def test_a_hole_that_base_has_excuses_no_limit_of_a_comparison() -> None:
    hole = AnalysisResult("patterns", known_gaps={"a.h": "its grammar cannot parse line 1"})
    whys = {"a.h": "api_breakage: ran longer than 9 s", "b.h": "does not parse"}
    known = AnalysisResult("patterns", known_gaps={"b.h": "does not parse"})
    comparison = AnalysisResult("api_breakage", gaps=whys, compares=True)
    calls = [
        AnalyzerCall("1/a", 1, "qa", result.tool, "", result)
        for result in (hole, known, comparison)
    ]
    assert open_gaps(calls) == {("api_breakage", "a.h"): whys["a.h"]}


async def test_a_flow_through_files_of_two_batches_is_reported_at_its_sink_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_checks, "WHOLE_TREE_BATCH", 1)
    head = {
        "shop/paths.py": "def place(name):\n    return '/srv/' + name\n",
        "shop/app.py": "from flask import Flask, request\n"
        "from shop.paths import place\n\napp = Flask(__name__)\n\n\n"
        "@app.get('/')\ndef show():\n    return open(place(request.args['name'])).read()\n",
    }
    verdict = await review(change(tmp_path, {"README.md": "A shop.\n"}, head))
    places = [each.path for each in verdict.findings if each.rule == "security.path-traversal"]
    assert places == ["shop/app.py"]


async def test_flows_to_a_sink_that_handlers_share_are_reported_where_each_built_its_text(
    tmp_path: Path,
) -> None:
    head = {
        "shop/shell.py": "import os\n\n\ndef run(line):\n    return os.popen(line).read()\n",
        "shop/app.py": "from flask import Flask, request\n"
        "from shop.shell import run\n\napp = Flask(__name__)\n\n\n"
        "@app.get('/a')\ndef a():\n    return run(request.args['line'])\n\n\n"
        "@app.get('/b')\ndef b():\n    url = request.args['url']\n    return run(f'curl {url}')\n\n\n"
        "@app.get('/c')\ndef c():\n    return run('ps ' + request.args['option'])\n",
    }
    verdict = await review(change(tmp_path, {"README.md": "A shop.\n"}, head))
    places = sorted(
        (each.path, each.start_line)
        for each in verdict.findings
        if each.rule == "security.command-injection"
    )
    assert places == [("shop/app.py", 15), ("shop/app.py", 20), ("shop/shell.py", 5)]


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {"findings": [{**FINDING, "line": "1"}]},
        {"findings": [{**FINDING, "confidence": 2}]},
        {"findings": [{**FINDING, "severity": "info"}]},
        {"findings": [{"code": "c"}]},
        {"examined": "a.py"},
        {"gaps": {"a.py": None}},
    ],
)
def test_a_malformed_reply_is_refused(reply: object) -> None:
    with pytest.raises(ValidationError):
        convert(reply, CheckReply)
