"""Finds damage in SQLite's write-ahead log, which SQLite itself takes for the log's end.

A crash can leave one transaction, the last, half written. SQLite begins the next one only when the
commit before it is on disk, so a transaction behind a broken one proves that what was durable got
damaged. See https://sqlite.org/fileformat2.html#the_write_ahead_log.
"""

import os
import shlex
import struct
import sys
from array import array
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from orchestrator.errors import StoreError

HEADER, FRAME_HEADER = 32, 24
"""Bytes."""

PAGE = 4096
"""Bytes of SQLite's pages by default, where the log's header is not legible."""

MAGIC = {0x377F0682: "little", 0x377F0683: "big"}
"""How a log begins, by the byte order of the words that its checksums add up."""

Sums = tuple[int, int]


class LogPage(NamedTuple):
    """A page in the log, as it stands there.

    Attributes:
        start: its first byte's place in the log.
        ends: whether it is the last of a transaction.
        sums: its checksum, which goes on from that of the frame before it.
        summed: what the checksum covers.
    """

    start: int
    ends: bool
    salts: bytes
    sums: Sums
    summed: bytes


def refuse_damaged_log(database: Path) -> None:
    """Check the log that a killed process left behind, before SQLite reads it.

    Raises:
        StoreError: transactions that were on disk cannot be read any more.
    """
    log = database.with_name(f"{database.name}-wal")
    try:
        with os.fdopen(os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read()
            start = find_damage(data)
            if start is None:
                return
            file.seek(0)
            if file.read(HEADER) != data[:HEADER]:
                return  # another process restarts it while we read
    except OSError:
        return  # there is none, or SQLite says why it cannot be read
    raise StoreError(
        f"the journal's log {log} is damaged at byte {start}, so the rows behind are lost; restore "
        f"it from a copy, or, once no review runs, give those rows up: truncate -s {start} "
        f"{shlex.quote(str(log))}"
    )


def find_damage(log: bytes) -> int | None:
    """The byte at which a log breaks off though later transactions were durable, or None."""
    if len(log) < HEADER:
        return None
    order, page, salts, sums = _read_header(log)
    size = FRAME_HEADER + page
    frames = [
        LogPage(
            start,
            _pair(log, start)[1] != 0,
            log[start + 8 : start + 16],
            _pair(log, start + 16),
            log[start : start + 8] + log[start + FRAME_HEADER : start + size],
        )
        for start in range(HEADER, len(log) - size + 1, size)
    ]
    if not salts and frames:  # the header is damaged, or was never written
        salts, broken = frames[0].salts, 0
    else:
        broken = len(frames)
        for number, frame in enumerate(frames):
            if frame.salts != salts or frame.sums != (sums := _add_up(frame.summed, sums, order)):
                broken = number
                break
    before = frames[broken - 1].sums if broken else _pair(log, 24)
    for frame, following in pairwise(frames[broken:]):
        if frame.ends and frame.salts == following.salts == salts:
            seeds = (frame.sums, _add_up(frame.summed, before, order))  # one of them is damaged
            if any(_add_up(following.summed, seed, order) == following.sums for seed in seeds):
                return frames[broken].start if broken else 0
        before = frame.sums
    return None


def _read_header(log: bytes) -> tuple[str, int, bytes, Sums]:
    """Byte order, size of pages, salts and checksum of a log; without salts if it is damaged."""
    magic, _, page = struct.unpack_from(">III", log)
    order, sums = MAGIC.get(magic, ""), _pair(log, 24)
    if order and _add_up(log[:24], (0, 0), order) == sums:
        return order, page, log[16:24], sums
    return sys.byteorder, PAGE, b"", (0, 0)


def _pair(log: bytes, start: int) -> Sums:
    first, second = struct.unpack_from(">II", log, start)
    return first, second


def _add_up(data: bytes, sums: Sums, order: str) -> Sums:
    words = array("I", data)
    if order != sys.byteorder:
        words.byteswap()
    (first, second), pairs = sums, iter(words)
    for one, two in zip(pairs, pairs, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
