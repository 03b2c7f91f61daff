"""PostgreSQL restarted and crashed in the middle of reviews by two workers: all end, once each"""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg

from tests.posting.forge_server import serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import Service
from tests.stores.postgres_server import NoServer, Server, server
from tests.torture.processes import Figures

FULL = 20
SAMPLE = 1
STALLED = 30.0
FIRST_NUMBER = 12
"""The one request that the stand-in for the forge takes posts on."""


def run(count: int, say: Callable[[str], None] = print) -> Figures:
    """Review as many changes, with three outages of the database; returns (passed, failed)."""
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    try:
        with server() as postgres, serving(ForgejoServer()) as forge:
            service = Service(postgres.fresh("torture"), folder, forge, stalled=STALLED)
            service.configure("enqueuing: {slots: 64, debounce: 0}")
            return _reviewed(postgres, service, count, say)
    except NoServer as why:
        return Figures(0, 0, (str(why),))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reviewed(
    postgres: Server, service: Service, count: int, say: Callable[[str], None]
) -> Figures:
    for number in range(FIRST_NUMBER, FIRST_NUMBER + count):
        service.repo.git("update-ref", f"refs/pull/{number}/head", service.head)
        service.push(number)
    began = time.monotonic()
    with service.worker("a") as a, service.worker("b") as b:
        with suppress(psycopg.Error), service.journals_held():
            service.reviewing(a, b)
            _restart(postgres, signal.SIGINT)
        for done, sent in ((count // 3, signal.SIGQUIT), (2 * count // 3, signal.SIGINT)):
            service.wait(partial(_ended, service, done), seconds=600)
            _restart(postgres, sent)
        service.wait(partial(_ended, service, count), seconds=600)
        service.wait(lambda: service.forge.comments)
    wrong = _wrong(service, count)
    for line in wrong:
        say(line)
    print(f"  {count} reviews and three outages in {time.monotonic() - began:.0f} s")
    return Figures(count - min(len(wrong), count), len(wrong))


def _restart(postgres: Server, sent: signal.Signals) -> None:
    """End the server, by SIGQUIT as in a crash, and start it again."""
    postgres.stop(sent)
    postgres.start()


def _ended(service: Service, count: int) -> bool:
    return [job["status"] for job in service.jobs()].count("succeeded") >= count


def _wrong(service: Service, count: int) -> list[str]:
    """What is not as without an outage, a line each."""
    (made,) = service.rows(
        "SELECT (SELECT count(*) FROM diffcourt_runs) AS runs,"
        " count(DISTINCT (run)) AS verdicts,"
        " count(DISTINCT convert_from(body, 'UTF8')::jsonb->>'digest') AS digests"
        " FROM diffcourt_journal WHERE kind = 'note' AND key = 'verdict'"
    )
    repeated = service.rows(
        "SELECT run, key FROM diffcourt_journal WHERE kind = 'outcome' GROUP BY run, key"
        " HAVING count(*) > 1"
    )
    crashed = service.rows("SELECT change FROM service_changes WHERE crashes > 0 OR problem <> ''")
    found = [f"done twice: {row['run']} {row['key']}" for row in repeated]
    found += [f"counted as crashed or parked: {row['change']}" for row in crashed]
    if made != {"runs": count, "verdicts": count, "digests": 1}:
        found.append(f"{count} changes have {made}")
    if len(service.forge.comments) != 1:
        found.append(f"{len(service.forge.comments)} comments on one request")
    return found
