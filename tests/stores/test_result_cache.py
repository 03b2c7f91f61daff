"""The result cache: what is put in comes back, and nothing that was damaged or planted."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.stores.result_cache import NAME, SqliteResultCache, open_result_cache


def filled(path: Path, entries: dict[bytes, bytes], max_bytes: int = 1 << 20) -> None:
    with closing(SqliteResultCache(path, max_bytes)) as cache:
        cache.put(entries)


def read(path: Path, *keys: bytes) -> dict[bytes, bytes]:
    with closing(SqliteResultCache(path)) as cache:
        return cache.get(keys)


def test_stored_results_are_returned(tmp_path: Path) -> None:
    many = {bytes([n % 256, n // 256]): b"body %d" % n for n in range(1200)}
    filled(tmp_path / NAME, many)
    assert read(tmp_path / NAME, *many, b"unknown") == many


def test_altered_results_and_those_under_another_key_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / NAME
    filled(path, {b"a": b"first", b"b": b"second"})
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE results SET body = (SELECT body FROM results WHERE key = ?)", (b"b",))
    assert read(path, b"a", b"b") == {b"b": b"second"}


@pytest.mark.parametrize(
    "damage", [b"", b"no database at all, but long enough to be read as one" * 99]
)
def test_a_file_that_is_no_database_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / NAME).write_bytes(damage)
    filled(tmp_path / NAME, {b"a": b"first"})
    assert read(tmp_path / NAME, b"a") == {b"a": b"first"}


def test_damaged_pages_cost_results_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / NAME
    many = {b"%d" % n: b"x" * 500 for n in range(400)}
    filled(path, many)
    data = bytearray(path.read_bytes())
    data[8192:] = bytes(len(data) - 8192)
    path.write_bytes(data)
    found = read(path, *many)
    assert found.items() <= many.items()
    filled(path, many)  # the first may find the damage, the second starts anew
    filled(path, many)
    assert read(path, *many) == many


def test_the_least_recently_used_entries_are_removed_first(tmp_path: Path) -> None:
    path = tmp_path / NAME
    filled(path, {b"old%d" % n: b"x" * 1000 for n in range(100)})
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE results SET used = 1")
    read(path, b"old7")  # used again
    before = path.stat().st_size
    filled(path, {b"new": b"y"}, max_bytes=50_000)
    assert path.stat().st_size < before * 0.7
    assert set(read(path, b"old7", b"new", b"old8", b"old99")) >= {b"old7", b"new"}
    assert len(read(path, *(b"old%d" % n for n in range(100)))) < 60


def test_a_file_in_use_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / NAME
    filled(path, {b"a": b"first"})
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        cache = SqliteResultCache(path)
        cache._db.execute("PRAGMA busy_timeout=1")
        cache.put({b"b": b"second"})
        cache.close()
        db.execute("ROLLBACK")
    assert read(path, b"a", b"b") == {b"a": b"first"}


def test_only_a_directory_of_our_own_outside_the_work_tree_is_used(tmp_path: Path) -> None:
    tree, mine = tmp_path / "tree", tmp_path / "mine"
    tree.mkdir()
    with open_result_cache(mine, outside=tree) as cache:
        assert cache is not None
    assert mine.stat().st_mode & 0o777 == 0o700
    mine.chmod(0o777)
    with open_result_cache(mine, outside=tree) as cache:
        assert cache is None
    (tmp_path / "link").symlink_to(tree / "planted")
    for planted in (tree / "cache", tmp_path / "link"):
        (tree / "planted").mkdir(exist_ok=True)
        with open_result_cache(planted, outside=tree) as cache:
            assert cache is None
        assert not (planted / NAME).exists()
    (tmp_path / "file").write_text("")
    with open_result_cache(tmp_path / "file", outside=tree) as cache:
        assert cache is None
