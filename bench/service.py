"""The service on this machine: webhooks, queue and workers over a real PostgreSQL.

    python bench/service.py [webhooks] [flood] [pushes] [overhead] [growth] [workers] [latency]

webhooks: 1,000 deliveries in ten seconds, a third of them twice, from a client process; how many
are recorded, and how long the answers take. flood: bodies that never end and have no right signature;
memory of the server over that of an idle one. pushes: twenty pushes to one change, three seconds
apart; how many reviews run to their end. overhead: jobs that do nothing, over a bare
insert-and-update in the same database. growth: the same with up to 100,000 ended jobs in the table,
over the empty one. workers: reviews of ten-file changes by one worker and by two, and what the
database keeps of each. latency: one worker and two where jobs only wait for others, as for a model.
"""

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from orchestrator.service.job_queue import make_queue
from tests.posting.forge_server import serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import Service
from tests.stores.postgres_server import Server, server

DELIVERIES, SECONDS = 1000, 10.0
HELD, HELD_BYTES = 50, 24 << 20
PUSHES, PAUSE = 20, 3.0
JOBS = 200
GROWN = (0, 10_000, 100_000)
CHANGES, FILES = 12, 10
WAITING, WAIT = 40, 0.3

_STORED = """
SELECT (SELECT count(*) FROM diffcourt_journal) AS rows,
       sum(pg_total_relation_size(oid)) FILTER (WHERE relname LIKE 'diffcourt%%') AS journals,
       sum(pg_total_relation_size(oid)) FILTER (WHERE relname NOT LIKE 'diffcourt%%') AS queue
FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
"""

CLIENT = """
import asyncio, hashlib, hmac, json, sys, time
import httpx2
url, forge, head, count, seconds = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5])

def request(number):
    repo = {"full_name": f"acme/shop{number % 40}", "clone_url": forge + "/a/b.git"}
    body = json.dumps({"action": "synchronized", "pull_request": {
        "number": number % 97 + 1, "head": {"sha": f"{number:040x}"}, "title": "x" * 200,
        "base": {"sha": head, "repo": repo}, "body": "y" * 4000}}).encode()
    signature = hmac.new(b"hook-secret", body, hashlib.sha256).hexdigest()
    return body, {"X-Forgejo-Event": "pull_request", "X-Forgejo-Delivery": f"d{number}",
                  "X-Forgejo-Signature": signature}

async def main():
    numbers = [n for n in range(count * 3 // 4) for _ in range(2 if n % 3 == 0 else 1)][:count]
    took = []
    async with httpx2.AsyncClient(timeout=30, limits=httpx2.Limits(max_connections=64)) as client:
        async def send(place, number):
            await asyncio.sleep(place * seconds / len(numbers))
            body, headers = request(number)
            began = time.monotonic()
            answer = await client.post(url, content=body, headers=headers)
            took.append((time.monotonic() - began, answer.status_code))
        await asyncio.gather(*(send(place, n) for place, n in enumerate(numbers)))
    print(json.dumps([len(set(numbers)), took]))
asyncio.run(main())
"""


@contextmanager
def service(postgres: Server) -> Iterator[Service]:
    """A service on a fresh schema."""
    with tempfile.TemporaryDirectory() as folder, serving(ForgejoServer()) as forge:
        address = postgres.fresh(f"bench_{os.urandom(4).hex()}")
        yield Service(address, Path(folder), forge, stalled=30.0)


def webhooks(postgres: Server) -> None:
    """A thousand deliveries."""
    with service(postgres) as made, made.server() as url:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, f"{url}/webhooks/forge", made.forge.url, made.base, str(DELIVERIES),
             str(SECONDS)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        different, took = json.loads(done.stdout)
        seconds = sorted(each for each, _ in took)
        (recorded,) = made.rows("SELECT count(*) AS n FROM service_deliveries")
        (pushes,) = made.rows("SELECT sum(pushes) AS n FROM service_changes")
        print(
            f"{len(took)} deliveries, {different} different, in {SECONDS:.0f} s: "
            f"{sum(status == 202 for _, status in took)} taken, {recorded['n']} recorded, "
            f"{pushes['n']} pushes; answers p50 {statistics.median(seconds) * 1000:.0f} ms, "
            f"p99 {seconds[int(len(seconds) * 0.99)] * 1000:.0f} ms, "
            f"longest {seconds[-1] * 1000:.0f} ms"
        )


def flood(postgres: Server) -> None:
    """Bodies of nearly the largest size, held open by somebody who does not know the secret."""
    with service(postgres) as made, made.server() as url, ExitStack() as held:
        idle = _memory(made.server_pid, "VmRSS")
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        head = (
            f"POST /webhooks/forge HTTP/1.1\r\nHost: x\r\nX-Forgejo-Signature: {'0' * 64}\r\n"
            f"Content-Length: {HELD_BYTES + 1}\r\n\r\n"
        ).encode()

        def send(connection: socket.socket) -> str:
            with suppress(OSError):
                connection.sendall(head + bytes(HELD_BYTES))
            with suppress(OSError):
                return connection.recv(100).decode()[9:12]
            return "closed"

        connections = [
            held.enter_context(socket.create_connection(address, timeout=60)) for _ in range(HELD)
        ]
        with ThreadPoolExecutor(HELD) as threads:
            answers = Counter(threads.map(send, connections))
        most = _memory(made.server_pid, "VmHWM")
        print(
            f"{HELD} bodies of {HELD_BYTES >> 20} MiB held open: {most / idle:.2f} times the memory"
            f" of an idle server ({most >> 10} MB over {idle >> 10} MB); answers: {dict(answers)}"
        )


def _memory(process: int, field: str) -> int:
    """Kilobytes of a process, as its status names them."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def pushes(postgres: Server) -> None:
    """Twenty pushes to one change within a minute."""
    with service(postgres) as made, made.worker("a"), made.worker("b"):
        heads = []
        for number in range(PUSHES):
            made.repo.write({f"f{number}.py": "import subprocess\n" * 50})
            made.repo.git("add", "-A")
            made.repo.git("commit", "-qm", f"Push {number}")
            heads.append(made.repo.git("rev-parse", "HEAD"))
            made.forge.head = heads[-1]
            made.repo.git("update-ref", "refs/pull/12/head", heads[-1])
            made.push(head=heads[-1], debounce=2 * PAUSE)
            time.sleep(PAUSE if number < PUSHES - 1 else 0)
        made.wait(made.is_posted)
        ended = [job["status"] for job in made.jobs()]
        (row,) = made.rows("SELECT run_head FROM service_changes")
        print(
            f"{PUSHES} pushes in {PUSHES * PAUSE:.0f} s: {ended.count('succeeded')} reviews to "
            f"their end, {ended.count('aborted')} ended by a newer push; the last head has the "
            f"verdict: {row['run_head'] == heads[-1]}; {len(made.statuses())} posts"
        )


def _jobs_per_second(address: str, jobs: int, seconds: float = 0.0) -> float:
    """How many jobs that only wait a worker of one process does in a second."""

    async def measure() -> float:
        queue, _ = make_queue(address, connections=4)
        left = jobs
        done = asyncio.Event()

        @queue.task(name="wait", queue="wait")
        async def wait() -> None:
            nonlocal left
            await asyncio.sleep(seconds)
            left -= 1
            if not left:
                done.set()

        async with queue.open_async():
            for _ in range(jobs):
                await wait.defer_async()
            began = time.monotonic()
            running = asyncio.create_task(
                queue.run_worker_async(queues=["wait"], install_signal_handlers=False)
            )
            await done.wait()
            took = time.monotonic() - began
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return jobs / took

    return asyncio.run(measure())


def _bare(address: str, jobs: int) -> float:
    """Seconds of one insert and two updates, each a transaction of its own."""
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, state text)")
        began = time.monotonic()
        for _ in range(jobs):
            row = db.execute("INSERT INTO bare (state) VALUES ('todo') RETURNING id").fetchone()
            for state in ("doing", "done"):
                db.execute("UPDATE bare SET state = %s WHERE id = %s", (state, row and row[0]))
        return (time.monotonic() - began) / jobs


def overhead(postgres: Server) -> None:
    """What the queue adds to a job."""
    with service(postgres) as made:
        bare = _bare(made.address, JOBS)
        each = 1 / _jobs_per_second(made.address, JOBS)
        print(
            f"a job that does nothing: {each * 1000:.1f} ms, {each / bare:.1f} times an insert "
            f"and two updates ({bare * 1000:.1f} ms)"
        )


def growth(postgres: Server) -> None:
    """What a job costs when many have ended."""
    with service(postgres) as made:
        first = 0.0
        there = 0
        for rows in GROWN:
            with psycopg.connect(made.address, autocommit=True) as db:
                db.execute(
                    "INSERT INTO procrastinate_jobs (queue_name, task_name, status, args)"
                    " SELECT 'review', 'review', 'succeeded',"
                    " jsonb_build_object('change', 'forge:acme/shop#' || n)"
                    " FROM generate_series(1, %s) n",
                    (rows - there,),
                )
                db.execute("ANALYZE procrastinate_jobs")
            there = rows
            each = 1 / _jobs_per_second(made.address, JOBS)
            began = time.monotonic()
            made.push()
            pushed = time.monotonic() - began
            first = first or each
            print(
                f"{rows:7,} ended jobs: {each * 1000:5.1f} ms a job, {each / first:.2f} of the "
                f"empty table; a push is recorded in {pushed * 1000:.0f} ms"
            )


def workers(postgres: Server) -> None:
    """Two workers over one."""
    took = []
    for names in ("a", "ab"):
        with service(postgres) as made:
            made.repo.write({f"f{n}.py": f"import os\n\n\ndef run(x):\n    os.system(x)  # {n}\n"
                             for n in range(FILES)})  # fmt: skip
            made.repo.git("add", "-A")
            made.repo.git("commit", "-qm", "Ten files")
            made.configure("enqueuing: {slots: 64, debounce: 0}")
            head = made.repo.git("rev-parse", "HEAD")
            for number in range(1, CHANGES + 1):
                made.repo.git("update-ref", f"refs/pull/{number}/head", head)
                made.push(number, head)
            began = time.monotonic()
            _with_workers(made, names, partial(_all_reviewed, made))
            took.append(time.monotonic() - began)
            (stored,) = made.rows(_STORED)
    print(
        f"stored of a review: {stored['rows'] / CHANGES:.0f} rows of a journal, "
        f"{stored['journals'] / CHANGES / 1000:.0f} kB of journals, "
        f"{stored['queue'] / CHANGES / 1000:.1f} kB of the queue"
    )
    print(
        f"{CHANGES} reviews of {FILES} files: one worker {took[0]:.1f} s, two {took[1]:.1f} s, "
        f"{took[0] / took[1]:.2f} times as fast ({os.cpu_count()} cores)"
    )


def latency(postgres: Server) -> None:
    """Two workers over one where jobs wait for others, as for a model, and not for the cores."""
    took = []
    for count in (1, 2):
        with service(postgres) as made:
            took.append(asyncio.run(_wait_with(made.address, count)))
    print(
        f"{WAITING} jobs that wait {WAIT} s: one worker {took[0]:.1f} s, two {took[1]:.1f} s, "
        f"{took[0] / took[1]:.2f} times as fast"
    )


async def _wait_with(address: str, workers: int) -> float:
    """Seconds that some workers, two jobs at a time each, take for jobs that only wait."""
    queue, _ = make_queue(address)
    left, done = WAITING, asyncio.Event()

    @queue.task(name="wait", queue="wait")
    async def wait() -> None:
        nonlocal left
        await asyncio.sleep(WAIT)
        left -= 1
        if not left:
            done.set()

    async with queue.open_async():
        for _ in range(WAITING):
            await wait.defer_async()
        began = time.monotonic()
        running = [
            asyncio.create_task(
                queue.run_worker_async(
                    queues=["wait"], concurrency=2, install_signal_handlers=False
                )
            )
            for _ in range(workers)
        ]
        await done.wait()
        took = time.monotonic() - began
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return took


def _with_workers(made: Service, names: str, done: Callable[[], Any]) -> None:
    if not names:
        made.wait(done, seconds=600)
        return
    with made.worker(names[0]):
        _with_workers(made, names[1:], done)


def _all_reviewed(made: Service) -> bool:
    return [job["status"] for job in made.jobs()].count("succeeded") == CHANGES


PARTS = {
    each.__name__: each for each in (webhooks, flood, pushes, overhead, growth, workers, latency)
}


def main() -> None:
    """Run the parts that are asked for, or all."""
    chosen = sys.argv[1:] or list(PARTS)
    if unknown := set(chosen) - PARTS.keys():
        sys.exit(f"there is no {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    with server() as postgres:
        for name in chosen:
            PARTS[name](postgres)


if __name__ == "__main__":
    main()
