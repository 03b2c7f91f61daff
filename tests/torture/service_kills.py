"""a worker killed at every journal write of a review: another ends it, and posts once"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.posting.forge_server import serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import Service, children, is_gone
from tests.stores.postgres_server import NoServer, Server, server
from tests.torture.processes import PATIENCE, Figures

FULL = 1000
SAMPLE = 1
STALLED = 3.0
"""Seconds without a heartbeat, at least, until a worker counts as dead."""

_HOLD_AT = """
CREATE FUNCTION hold_at() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.seq = TG_ARGV[0]::bigint THEN PERFORM pg_advisory_xact_lock(4711); END IF;
    RETURN NEW;
END; $$;
"""
_HELD = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"


def run(count: int, say: Callable[[str], None] = print) -> Figures:
    """Kill workers at as many writes as there are at most, spread over the whole review."""
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    failed = 0
    took: list[float] = []
    try:
        with server() as postgres:
            # One kill is at the first write; that the digest stays is seen where there are more.
            digest, writes = _whole(postgres, folder / "whole") if count > 1 else ("", 1)
            count = min(count, writes)
            points = [1 + number * writes // count for number in range(count)]
            for number, at in enumerate(points):
                try:
                    took.append(_killed_at(postgres, folder / str(number), at, digest))
                except AssertionError as error:
                    failed += 1
                    say(f"killed at row {at}: {error}")
    except NoServer as why:
        return Figures(0, 0, (str(why),))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if took:
        ordered = sorted(took)
        print(
            "  another worker had ended the review after "
            f"{ordered[len(ordered) // 2]:.1f} s (median), {ordered[-1]:.1f} s (longest)"
        )
    return Figures(count - failed, failed)


def _whole(postgres: Server, folder: Path) -> tuple[str, int]:
    """The digest of an uninterrupted review, and how many rows it writes."""
    with _service(postgres, folder) as service:
        service.push()
        with service.worker():
            service.wait(service.is_posted)
        (row,) = service.rows("SELECT max(seq) AS writes FROM diffcourt_journal")
        return _digest(service), int(row["writes"])


def _killed_at(postgres: Server, folder: Path, at: int, digest: str) -> float:
    """Kill a worker at one write, with which its review ends; returns seconds until the post.

    Raises:
        AssertionError: the other worker did not end the review as it should.
    """
    with _service(postgres, folder) as service, psycopg.connect(service.address) as db:
        db.execute(_HOLD_AT.encode())
        db.execute(
            "CREATE TRIGGER hold BEFORE INSERT ON diffcourt_journal FOR EACH ROW"
            f" EXECUTE FUNCTION hold_at({at})".encode()
        )
        db.commit()
        db.execute("SELECT pg_advisory_lock(4711)")
        service.push()
        with service.worker("a") as a, service.worker("b") as b:
            service.wait(lambda: service.rows(_HELD) and (children(a.pid) or children(b.pid)))
            victim = a if children(a.pid) else b
            (doing,) = children(victim.pid)
            victim.kill()
            service.wait(lambda: is_gone(doing))
            began = time.monotonic()
            db.execute("SELECT pg_advisory_unlock(4711)")
            db.execute("DROP TRIGGER hold ON diffcourt_journal")
            db.commit()
            service.wait(service.is_posted)
            took = time.monotonic() - began
        assert _digest(service) == (digest or _digest(service)), "the verdict differs"
        crashes = service.rows("SELECT crashes FROM service_changes")
        assert crashes == [{"crashes": 1}], f"crashes: {crashes}"
        runs = service.rows("SELECT run FROM diffcourt_runs")
        assert len(runs) == 1, f"{len(runs)} runs"
        repeated = service.rows(
            "SELECT key FROM diffcourt_journal WHERE kind = 'outcome' GROUP BY key"
            " HAVING count(*) > 1"
        )
        assert not repeated, f"done twice: {[row['key'] for row in repeated]}"
        posts = len(service.forge.comments), len(service.statuses())
        assert posts == (1, 1), f"{posts} comments and statuses"
        return took


def _digest(service: Service) -> str:
    (row,) = service.rows(
        "SELECT convert_from(body, 'UTF8')::jsonb->>'digest' AS digest FROM diffcourt_journal"
        " WHERE kind = 'note' AND key = 'verdict'"
    )
    assert row["digest"], "the verdict has no digest"
    return str(row["digest"])


@contextmanager
def _service(postgres: Server, folder: Path) -> Iterator[Service]:
    folder.mkdir()
    with serving(ForgejoServer()) as forge, pytest.MonkeyPatch.context() as patch:
        for who in ("AUTHOR", "COMMITTER"):  # the same commits each time, so the same digests
            patch.setenv(f"GIT_{who}_DATE", "@1 +0000")
        address = postgres.fresh(f"torture_{os.urandom(4).hex()}")
        # On a busy machine the heartbeats of the living are late as well.
        stalled = max(STALLED, os.getloadavg()[0] / (os.cpu_count() or 1))
        yield Service(address, folder, forge, stalled=stalled, patience=PATIENCE)
    shutil.rmtree(folder, ignore_errors=True)
