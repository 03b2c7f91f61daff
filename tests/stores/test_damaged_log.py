"""A write-ahead log that was damaged on disk: SQLite drops what follows without an error."""

import random
import re
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.ports import Row
from orchestrator.errors import StoreError
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.stores.sqlite_log_damage import refuse_damaged_log

COMMITS = 25
HEADER, FRAME = 32, 24 + 4096


def _row(seq: int) -> Row:
    return Row(seq, "note", f"k{seq}", 1.0, b"1" * 900, "h")


async def _fill(store: SqliteStore) -> None:
    await store.create("r", 1.0, {})
    fence = await store.acquire("r", "me", 30)
    for seq in range(1, COMMITS + 1):
        await store.append("r", fence, [_row(seq)], 30)
    await store.release("r", fence)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a process that was killed: all of it is in its log."""
    live, folder = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed")
    store = SqliteStore(live / "journal.db")
    anyio.run(_fill, store)
    for name in ("journal.db", "journal.db-wal"):
        shutil.copy(live / name, folder / name)
    store.close()
    return folder


@pytest.fixture
def copy(killed: Path, tmp_path: Path) -> Path:
    """A copy of that journal."""
    for file in killed.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / "journal.db"


def _log(journal: Path) -> Path:
    return journal.with_name("journal.db-wal")


def _flip(log: Path, byte: int, bit: int = 0) -> None:
    data = bytearray(log.read_bytes())
    data[byte] ^= 1 << bit
    log.write_bytes(data)


def _rows(journal: Path) -> list[Row]:
    store = SqliteStore(journal)
    try:
        return anyio.run(store.rows, "r")
    finally:
        store.close()


def test_the_log_of_a_killed_process_is_read_whole(copy: Path) -> None:
    assert _rows(copy) == [_row(seq) for seq in range(1, COMMITS + 1)]


@pytest.mark.parametrize("place", ["page", "page number", "size", "salt", "checksum"])
def test_a_flipped_bit_in_a_frame_is_one_line(copy: Path, place: str) -> None:
    log, offset = _log(copy), {"page number": 3, "size": 7, "salt": 8, "checksum": 20}
    frames = (log.stat().st_size - HEADER) // FRAME
    for frame in random.Random(1).sample(range(frames - 8), 6):
        sound = log.read_bytes()
        _flip(log, HEADER + frame * FRAME + offset.get(place, 24 + 2000), 5)
        for _ in range(2):  # opening it destroys no evidence
            with pytest.raises(StoreError, match="is damaged") as caught:
                SqliteStore(copy)
        assert "\n" not in str(caught.value)
        log.write_bytes(sound)


@pytest.mark.parametrize("byte", [0, 7, 11, 15, 16, 23, 24, 31])
def test_a_flipped_bit_in_the_log_s_header_is_one_line(copy: Path, byte: int) -> None:
    _flip(_log(copy), byte, 1)
    with pytest.raises(StoreError, match="is damaged"):
        SqliteStore(copy)


def test_the_named_command_keeps_what_is_before_the_damage(copy: Path) -> None:
    log = _log(copy)
    _flip(log, log.stat().st_size // 2 // FRAME * FRAME + 2000)
    with pytest.raises(StoreError) as caught:
        SqliteStore(copy)
    command = re.search(r"truncate -s \d+ \S+/journal\.db-wal", str(caught.value))
    assert command
    subprocess.run(command.group().split(), check=True)
    rows = _rows(copy)
    assert 5 < len(rows) < COMMITS
    assert rows == [_row(seq) for seq in range(1, len(rows) + 1)]


def test_a_log_that_a_crash_cut_anywhere_is_no_damage(copy: Path) -> None:
    log = _log(copy)
    for size in (0, 10, HEADER, *random.Random(2).sample(range(log.stat().st_size), 12)):
        data = log.read_bytes()
        log.write_bytes(data[:size])
        refuse_damaged_log(copy)
        log.write_bytes(data)


def test_a_last_commit_that_a_crash_wrote_in_part_is_no_damage(copy: Path) -> None:
    log = _log(copy)
    _flip(log, log.stat().st_size - 100)
    assert _rows(copy) == [_row(seq) for seq in range(1, COMMITS + 1)]  # it was the release


async def test_a_log_that_is_in_use_and_was_begun_anew_is_no_damage(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "journal.db")
    await _fill(store)
    store._db.execute("PRAGMA wal_checkpoint(RESTART)")
    fence = await store.acquire("r", "you", 30)  # new salts, with older frames behind
    SqliteStore(tmp_path / "journal.db").close()
    await store.release("r", fence)
    store.close()
