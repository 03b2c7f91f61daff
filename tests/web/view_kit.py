"""A server over real runs of a real repository, and people who are signed in there."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import httpx2
import pytest

from orchestrator.app.types import ReviewOptions
from orchestrator.cli.main import main
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.human_questions import ask_person
from orchestrator.engine.journal import open_journal
from orchestrator.engine.journal_hash_chain import GENESIS, row_hash
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Row, RunMeta, SystemClock
from orchestrator.errors import AnswerPending
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.web.access import Access, _digest
from orchestrator.web.repository_pages import (
    make_memory_part,
    make_statistics_part,
    make_tuning_part,
)
from orchestrator.web.runs import make_runs_part
from orchestrator.web.site import Site, running
from tests.cli.test_approve import Waiting
from tests.plain_http import PLAIN, press_sign_in
from tests.review.review_kit import change

T = TypeVar("T")

HOSTILE = '"><img src=x onerror="document.title=1"><script>document.title=2</script>\u202e'
SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
CALLING = "20260101-000000-ca11ca11"
ASKING = "20260101-000000-a5a5a5a5"
BROKEN = "20260101-000000-baddbadd"
LONG = "20260101-000000-00005000"
QUESTION = f"May old files be read? {HOSTILE}"


class Person:
    """Somebody's HTTP client, which runs no script."""

    def __init__(self, site: Site, *, may_act: bool = True) -> None:
        self.site = site
        self.http = httpx2.Client(base_url=site.access.origin, follow_redirects=True, verify=PLAIN)
        press_sign_in(self.http, site.access.new_link(may_act=may_act))

    def get(self, path: str) -> httpx2.Response:
        return self.http.get(self.site.url(path))

    def post(self, path: str, **form: str) -> httpx2.Response:
        """Send a form with the token of this person's pages."""
        session = self.site.access._sessions[_digest(self.http.cookies["diffcourt"])]
        headers = {"Origin": self.site.access.origin}
        given = {"csrf": session.csrf, **form}
        return self.http.post(self.site.url(path), data=given, headers=headers)


class Shop:
    """A repository with runs of each kind, and the pages over them."""

    def __init__(self, folder: Path) -> None:
        self.repo = change(folder / "shop", {}, {"app.py": SHELL, "b.py": SHELL})
        self.done, self.stopped = self.review(), self.review("--max-tool-calls", "2")
        self.waiting = Waiting(self.repo, CALLING, text=HOSTILE)
        # As it waits: another test may decide the call before this one's rows are copied.
        self.calling_rows = self.rows(CALLING)
        self.ask(ASKING)
        self.store(_add_odd_runs)
        makers = (make_runs_part, make_statistics_part, make_memory_part, make_tuning_part)
        self.site = Site(Access("dana"), [make([self.repo.path]) for make in makers])

    def review(self, *more: str) -> str:
        target = self.repo.path.parent / "verdict.json"
        main(["review", "--repo", str(self.repo.path), "--quiet", "--json", str(target), *more])
        run_id: str = json.loads(target.read_text())["run_id"]
        return run_id

    def store(self, work: Callable[[SqliteStore], Awaitable[T]]) -> T:
        """Do something with the store."""

        async def opened() -> T:
            store = SqliteStore(self.repo.path / ".diffcourt/state/journal.db")
            try:
                return await work(store)
            finally:
                store.close()

        return anyio.run(opened)

    def ask(self, run_id: str) -> None:
        """Add a run that waits for an answer."""

        async def ask(store: SqliteStore) -> None:
            options = ReviewOptions(repo=self.repo.path).as_meta()
            await store.create(run_id, 2.0, {"options": options})
            async with open_journal(run_id, store, SystemClock(), holder="t") as journal:
                with pytest.raises(AnswerPending):
                    await ask_person(journal, {Key("act", 1, "qa"): ("qa", QUESTION)})

        self.store(ask)

    def rows(self, run_id: str) -> list[Row]:
        return self.store(lambda store: store.rows(run_id))


async def _add_odd_runs(store: SqliteStore) -> None:
    meta = next(run.meta for run in await store.runs() if run.run_id == ASKING)
    whole = await store.rows(ASKING)
    broken = Row(3, "note", "state/1", 3.0, b'{"state": "Pl', "0" * 64)
    await store.restore(RunMeta(BROKEN, 3.0, meta), [*whole[:2], broken])
    await store.restore(RunMeta(LONG, 4.0, meta), long_rows(5_000))


def long_rows(count: int) -> list[Row]:
    """A valid journal of a task with many calls."""
    rows: list[Row] = []

    def add(kind: str, key: str, body: dict[str, object]) -> None:
        head, seq, data = rows[-1].hash if rows else GENESIS, len(rows) + 1, canonical(body)
        at = 1000.0 + seq / 10
        rows.append(Row(seq, kind, key, at, data, row_hash(head, seq, kind, key, at, data)))

    add("note", "state/1", {"state": "Act"})
    add("intent", "1/act/qa", {"asked": {"agent": "qa", "brief": "x"}})
    for turn in range(1, (count - 2) // 2 + 1):
        key = f"1/act/qa/turn{turn}/tool1/search"
        asked = {"agent": "qa", "tool": "search", "arguments": {"pattern": HOSTILE}}
        add("intent", key, {"asked": asked, "level": "READ"})
        add("outcome", key, {"cost": {"tool_calls": 1}, "value": {"ok": True, "content": "none"}})
    return rows


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """A shop whose pages are served."""
    shop = Shop(folder)
    with running(shop.site):
        yield shop
