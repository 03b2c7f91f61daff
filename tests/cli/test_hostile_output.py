"""Whatever a file or a journal says, no command prints a character that a terminal obeys."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec import to_builtins

from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Rejected, Skipped, Verdict
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_hash_chain import GENESIS, row_hash
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.report.formats import FORMATS
from orchestrator.report.terminal_escaping import emit, emit_line
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.cli.test_approve import Waiting
from tests.report.verdict_samples import finding, fixed, verdict
from tests.review.review_kit import Repo, change

LINE = "Applied all patches."
HOSTILE = (
    f"\x1b]0;pwned\x07\x1b[2K\x1b[1A\x9b31m\x00\x08\x7f\u202e\u2066\u200b\u2028\r\n{LINE}\n{LINE}"
)
RUN = "20260101-000000-feedface"
CODE = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"

pytestmark = pytest.mark.attack("escape sequences in a verdict, a journal or a setting")
Printed = Callable[..., str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Run a command, however it ends; what it prints is checked and returned."""

    def run(*given: object) -> str:
        main([str(one) for one in given])
        shown = "".join(capsys.readouterr())
        raw = sorted({char for char in shown if not char.isprintable() and char not in "\n\t"})
        assert raw == [], given
        rendered = {"html", "markdown", "junit"} & set(given)  # their source is no text to read
        assert rendered or LINE not in shown.split("\n"), (given, shown)
        return shown

    return run


def poison(document: Any, accepts: Callable[[Any], bool] = lambda _: True) -> Any:
    """The document with the hostile text behind every string that still is accepted with it."""
    whole = json.loads(json.dumps(document))

    def walk(place: Any) -> None:
        for key, value in place.items() if isinstance(place, dict) else enumerate(place):
            if isinstance(value, str):
                place[key] = value + HOSTILE
                if not accepts(whole):
                    place[key] = value
            elif isinstance(value, dict | list):
                walk(value)

    walk(whole)
    return whole


def is_verdict(document: Any) -> bool:
    try:
        msgspec.convert(document, Verdict)
    except msgspec.ValidationError:
        return False
    return True


def hostile_verdict() -> dict[str, Any]:
    known = verdict(
        findings=(fixed(1), finding(2), fixed(3, state="refused"), fixed(4, state="applies")),
        rejected=(Rejected(finding=finding(5), reason="no", cause="unverified"),),
        skipped=(Skipped(path="a", tool="b", why="c", gap=True),),
        verdict="needs_changes",
        run_id=RUN,
    )
    document: dict[str, Any] = poison(to_builtins(known), is_verdict)
    for one, name in zip(document["findings"], ("F1", "F2", "F3", "F4"), strict=True):
        one["id"] = name
    assert HOSTILE in document["run_id"]
    return document


def rechained(rows: list[Row]) -> Iterator[Row]:
    """The rows of a journal with hostile text in every body, under a chain that holds."""
    last = GENESIS
    for seq, row in enumerate(rows, 1):
        given = hostile_verdict() if row.key == "verdict" else poison(json.loads(row.body))
        if row.key.startswith("state/"):
            given["state"] = json.loads(row.body)["state"]
        body = canonical(given)
        last = row_hash(last, seq, row.kind, row.key, row.at, body)
        yield Row(seq, row.kind, row.key, row.at, body, last)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository with a review, a run that waits, and a hostile copy of both."""
    repo = change(tmp_path_factory.mktemp("shop"), {}, {"a.py": CODE, "b.py": "import re\n"})
    assert main(["review", "--repo", str(repo.path), "--quiet"]) == 1
    waiting = Waiting(repo, "20260101-000000-aaaaaaaa", text=HOSTILE)

    async def copy() -> None:
        store = SqliteStore(waiting.folder / "journal.db")
        for run in await store.runs():
            rows = list(rechained(await store.rows(run.run_id)))
            kept = ("provider", "pattern", "diff_name")
            options = {
                name: value + HOSTILE if isinstance(value, str) and name not in kept else value
                for name, value in run.meta["options"].items()
            }
            name = f"{run.run_id[:-8]}{'c' * 8}{HOSTILE}"
            await store.restore(RunMeta(name, run.started + 1, {"options": options}), rows)
        store.close()

    anyio.run(copy)
    return repo


def names_of(repo: Repo) -> list[str]:
    async def read() -> list[str]:
        store = SqliteStore(repo.path / ".diffcourt/state/journal.db")
        try:
            return [run.run_id for run in await store.runs()]
        finally:
            store.close()

    return anyio.run(read)


@pytest.mark.parametrize(
    "given",
    ["fix {}", "fix {} F1", "fix {} F1 F4 --check", "fix {} --yes", "dismiss F1 --run {} --reason x",
     "waive F1 --run {} --why x --by y", "post {} --to github", "comment-command --to github --verdict {}",
     "audit verify latest --verdict {}", "review --quiet --previous {}",
     "rubric score pr-review {}", "rubric export-items {} --to csv --out rows.csv",
     *(f"export {{}} --to {name}" for name in FORMATS)],
)  # fmt: skip
def test_a_verdict_of_somebody_else(
    shop: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed, given: str
) -> None:
    file = tmp_path / "verdict.json"
    file.write_text(json.dumps(hostile_verdict()))
    monkeypatch.chdir(shop.path)
    assert printed(*(str(file) if word == "{}" else word for word in given.split()))


@pytest.mark.parametrize(
    "given",
    ["show {}", "show {} --json", "fix {}", "fix {} F1", "fix {} F1 --check", "runs", "runs --json",
     "runs prune --keep 0 --dry-run", "stats", *(f"stats --by {by}" for by in ("agent", "tool", "model", "rule")),
     "stats --check", "stats --json", "trace {} --to -", "trace {} --to - --with-content", "audit show {}",
     "audit verify {}", "approve {}", "approve {} x", "deny {} x --reason y", "rollback {}", "cancel {}",
     "resume {}", "fork {} --at Triage", "fork {} --at Evaluate --drop F1", "override {} --reason x",
     "feedback F1 useful --run {}", "dismiss F1 --run {} --reason x", "waive F1 --run {} --why x --by y",
     "remember {}", "runs export {} out", "view --bundle {} run.html", "label --runs --list --rater r1",
     "rubric score pr-review --runs", "rubric feedback"],
)  # fmt: skip
def test_a_journal_of_somebody_else(
    shop: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = given.split()
    for name in [one for one in names_of(shop) if HOSTILE in one] if "{}" in words else [""]:
        printed(*(name if word == "{}" else word for word in words), "--repo", shop.path)


CONFIG = {
    "defaults.yaml": {f"a{HOSTILE}": 1},
    "verdict.yaml": {"waivers": [{"rule": f"x{HOSTILE}", "why": HOSTILE, "by": HOSTILE}]},
    "mcp.yaml": {"servers": {f"t{HOSTILE}": {"command": [HOSTILE]}}},
    "notify.yaml": {"channels": {f"n{HOSTILE}": HOSTILE}},
    "dismissals.yaml": {
        "dismissals": [{"fingerprint": "0" * 16, "reason": HOSTILE, "by": HOSTILE}]
    },
}


@pytest.mark.parametrize("name", CONFIG)
@pytest.mark.parametrize(
    "given",
    ["catalog", "catalog --json", "catalog x", "doctor", "mcp list", "mcp accept t", "review"],
)
def test_settings_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed, name: str, given: str
) -> None:
    text = json.dumps(CONFIG[name])
    repo = change(tmp_path, {f".diffcourt/config/{name}": text}, {"a.py": CODE})
    monkeypatch.chdir(repo.path)
    printed(*given.split())


@pytest.mark.parametrize(
    "given",
    ["score pr-review {items}", "check {rubric}", "show {rubric}", "lint {rubric} {items}", "new {items} --out new.yaml",
     "diff pr-review {rubric}", "eval pr-review {items}", "disagree pr-review {items} --all", "rate pr-review {items}",
     "tune pr-review {items}", "export-items {items} --to jsonl --out out.jsonl",
     "import-items {items} --from jsonl --out back.jsonl", "import {items} --out r.yaml",
     "export {rubric}", "compare {items} {items} --rubric pr-review"],
)  # fmt: skip
def test_items_labels_and_rubrics_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Printed, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"{n}{HOSTILE}", "group": f"g{n}{HOSTILE}", "text": HOSTILE, "judge": HOSTILE, "url": HOSTILE,
         "scores": {"evidence": n / 9, HOSTILE: 0.5}, "reasons": {"evidence": HOSTILE}, "label": "accept",
         "rater": HOSTILE, "context": HOSTILE}
        for n in range(9)
    ]  # fmt: skip
    (tmp_path / f"items{HOSTILE[:9]}.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    criterion = {"id": "a", "kind": "judged", "text": HOSTILE, "weight": 1, HOSTILE: 1}
    rubric = {"name": HOSTILE, "version": 1, "description": HOSTILE, "criteria": [criterion]}
    (tmp_path / "rubric.yaml").write_text(json.dumps(rubric))
    files = {"{items}": f"items{HOSTILE[:9]}.jsonl", "{rubric}": "rubric.yaml"}
    printed("rubric", *(files.get(word, word) for word in given.split()))
    printed("label", files["{items}"], "--rater", HOSTILE, "--list")


@pytest.mark.parametrize(
    "given", [f"{HOSTILE}", f"show {HOSTILE}", f"review --base {HOSTILE}", f"--{HOSTILE}"]
)
def test_arguments(tmp_path: Path, printed: Printed, given: str) -> None:
    change(tmp_path, {}, {"a.py": CODE})
    printed(*given.split(" "), "--repo", tmp_path)


def test_a_document_for_a_program_is_left_as_it_is_but_not_on_a_terminal() -> None:
    file, terminal = io.StringIO(), Terminal()
    for stream in (file, terminal):
        emit(f"{HOSTILE}\n", stream, data=True)
    assert file.getvalue() == f"{HOSTILE}\n"
    shown = terminal.getvalue()
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "\\x1b]0;pwned\\x07" in shown


def test_our_styles_are_the_only_sequences_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        emit("\x1b[1mbold\x1b[0m \x1b[5mblink\r\n", stream)
    assert terminal.getvalue() == "\x1b[1mbold\x1b[0m \\x1b[5mblink\n"
    assert pipe.getvalue() == "\\x1b[1mbold\\x1b[0m \\x1b[5mblink\n"
    emit_line(f"a\n{LINE}", line := io.StringIO())
    assert line.getvalue() == f"a\\n{LINE}\n"
