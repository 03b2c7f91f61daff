"""What ``diffcourt audit show`` makes of journals that no review of ours would write."""

from pathlib import Path

import anyio
import pytest

from orchestrator.cli.main import main
from orchestrator.engine.budget import Reservation
from orchestrator.engine.journal import EffectResult, open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Level
from orchestrator.errors import GuardRefused
from orchestrator.stores.sqlite_journal import SqliteStore

JOURNAL = ".diffcourt/state/journal.db"


async def hostile(path: Path) -> None:
    store = SqliteStore(path)
    await store.create("r1", 1.0, {"options": {"has_diff": False}})
    asked = {"tool": "push\x1b[2J", "arguments": {"to": "\u202eeverybody"}, "agent": "a\nb" * 40}

    async def refuse() -> tuple[None, Reservation]:
        raise GuardRefused("rate", "no\x1b]0;owned\x07")

    async def die(given: object = None) -> EffectResult:
        raise KeyError("a crash in the middle")

    async with open_journal("r1", store, SystemClock(), holder="a test") as journal:
        with pytest.raises(GuardRefused):
            await journal.effect("1/x/refused", asked, die, admit=refuse)
        with pytest.raises(KeyError):
            await journal.effect("1/x/open", asked, die, level=Level.IRREVERSIBLE)
    store.close()


def test_show_marks_refusals_and_what_did_not_end_and_prints_nothing_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / JOURNAL
    path.parent.mkdir(parents=True)
    anyio.run(hostile, path)
    assert main(["audit", "show", "r1", "--repo", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 refused" in out.splitlines()[0]
    assert "REFUSED READ" in out
    assert "GuardRefused: rate: no" in " ".join(out.split())
    assert "IRREVERSIBLE approved" in out
    assert "not ended" in " ".join(out.split())
    assert not {"\x1b", "\u202e", "\x07"} & set(out)
    assert max(len(line) for line in out.splitlines()) <= 80
