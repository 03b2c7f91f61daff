"""The verdict as a document that other programs read: ids, counts, columns and its schema."""

import json
from pathlib import Path

import jsonschema_rs
from msgspec import to_builtins

from orchestrator.code_review.verdict.model import SeverityCounts, json_schema
from tests.review.review_kit import change, review

WORKFLOW = """\
on: issues
jobs:
  a:
    runs-on: ubuntu-latest
    steps:
      - run: echo "${{ github.event.issue.title }}"
"""
FILES = {
    "app.py": 'import subprocess\n\n\ndef f(name):\n    subprocess.run("ls " + name, shell=True)\n',
    "run.sh": '#!/bin/sh\nset -e\nrm -rf "$1/"*\n',
    "Dockerfile": "FROM alpine:3.20\nUSER root\n",
    "main.go": 'package main\n\nfunc f(x string) {\n\texec.Command("sh", "-c", "ls "+x).Run()\n}\n',
    "key.txt": "  token = ghp_" + "a8Kd03mZq7Lw2Xc9Vb5Nh1Tj6Rf4Ys0PeUiG\n",
    "b.js": "function f(a) {\n  if (a === NaN) { return 1 }\n}\n",
    ".github/workflows/ci.yml": WORKFLOW,
}


async def test_findings_name_the_column_that_their_reporter_names(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, FILES))
    columns = {(one.path, one.start_line): one.start_column for one in verdict.findings}
    assert columns["app.py", 5] == 5
    assert columns["run.sh", 3] == 8
    assert columns["Dockerfile", 2] == 1
    assert columns["main.go", 4] == 2
    assert columns["key.txt", 1] == 11
    assert columns["b.js", 2] == 13
    assert columns[".github/workflows/ci.yml", 6] == 24


async def test_the_document_counts_its_findings_and_names_its_exit_code(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path / "findings", {}, FILES))
    counts = to_builtins(verdict.counts)
    assert list(counts) == ["critical", "high", "medium", "low", "info"]
    assert sum(counts.values()) == len(verdict.findings)
    assert counts["high"] == sum(one.severity == "high" for one in verdict.findings)
    assert verdict.exit_code == 1
    quiet = await review(change(tmp_path / "quiet", {}, {"notes.txt": "Nothing to see.\n"}))
    assert (quiet.exit_code, quiet.counts) == (0, SeverityCounts())


async def test_tool_calls_are_short_ids_of_one_table(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, FILES))
    keys = {call.id: call.key for call in verdict.calls}
    assert list(keys) == [f"C{number}" for number in range(1, len(keys) + 1)]
    (shell,) = (one for one in verdict.findings if one.path == "app.py" and one.start_line == 5)
    assert {keys[call].rsplit("/", 1)[1] for call in shell.evidence.tool_calls} == {"ruff_security"}
    used = {call for one in verdict.checked for call in one.tool_calls}
    used |= {call for one in verdict.findings for call in one.evidence.tool_calls}
    assert used == keys.keys()


async def test_the_schema_accepts_the_document_and_what_a_later_version_adds(
    tmp_path: Path,
) -> None:
    schema = jsonschema_rs.validator_for(json_schema())
    document = json.loads(json.dumps(to_builtins(await review(change(tmp_path, {}, FILES)))))
    schema.validate(document)
    document["added_later"] = 1
    document["findings"][0]["added_later"] = {"a": []}
    schema.validate(document)
    del document["verdict"]
    assert not schema.is_valid(document)
    assert json_schema()["$id"] == "urn:diffcourt:verdict:1"
