"""All runs: active and waiting ones first, then a table with filters."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar
from urllib.parse import urlencode

from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from orchestrator.app.runs.run_index import CachedRunIndex, RunSummary
from orchestrator.web.site import Visit

T = TypeVar("T")

PER_PAGE = 50
STATES = ("running", "waiting", "interrupted", "finished", "unreadable")
VERDICTS = ("merge", "needs_changes", "block", "incomplete")
POLL_SECONDS = 1.0
BEATS = 15
"""Polls after which something is sent in any case, so that a lost browser is noticed."""


class Filter(Struct, frozen=True):
    """Which runs are listed; empty fields let all pass."""

    words: str = ""
    repo: str = ""
    branch: str = ""
    verdict: str = ""
    state: str = ""

    @classmethod
    def of(cls, visit: Visit) -> "Filter":
        """The filter that the URL says."""
        given = {name: visit.query.get(name, "").strip()[:200] for name in cls.__struct_fields__}
        return cls(**given)

    def passes(self, run: RunSummary) -> bool:
        """Whether a run is listed."""
        incomplete = run.brief is not None and run.brief.status == "incomplete"
        text = f"{run.run_id} {run.branch} {run.change}".lower()
        return (
            self.words.lower() in text
            and self.repo in {"", str(run.repo)}
            and self.branch in {"", run.branch}
            and self.state in {"", run.state}
            and (self.verdict in {"", run.verdict} or (self.verdict == "incomplete" and incomplete))
        )

    def query(self, **more: object) -> str:
        """The filter as the query of a URL."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return urlencode({name: value for name, value in {**given, **more}.items() if value})


def page_number(visit: Visit) -> int:
    """The page that the URL asks for, from 1."""
    given = visit.query.get("page", "1")
    return max(int(given), 1) if given.isascii() and given.isdigit() and len(given) < 9 else 1


def chosen_page(visit: Visit, items: Sequence[T], size: int) -> tuple[Sequence[T], int, int]:
    """The items of the page that the URL asks for, its number, and that of the last page."""
    pages = max((len(items) + size - 1) // size, 1)
    page = min(page_number(visit), pages)
    return items[(page - 1) * size : page * size], page, pages


class RunListPage:
    """Shows the runs of an index."""

    def __init__(self, index: CachedRunIndex) -> None:
        self._index = index

    def show(self, visit: Visit) -> Response:
        """The list."""
        runs, chosen = self._index.list_runs(), Filter.of(visit)
        found = [run for run in runs if chosen.passes(run)]
        live = [run for run in runs if run.state in {"running", "waiting"}]
        shown, page, pages = chosen_page(visit, found, PER_PAGE)
        return visit.render(
            "runs/list.html",
            title="Runs",
            runs=shown,
            live=live,
            count=len(found),
            total=len(runs),
            page=page,
            pages=pages,
            chosen=chosen,
            branches=sorted({run.branch for run in runs if run.branch}),
            repos=self._index.repos,
            states=STATES,
            verdicts=VERDICTS,
        )

    async def changes(self, visit: Visit) -> AsyncIterator[tuple[str, str]]:
        """An event after each change of a journal."""
        last, beats = "", 0
        while True:
            mark = await run_in_threadpool(self._index.mark)
            beats += 1
            if mark != last or beats >= BEATS:
                yield ("changed" if last and mark != last else "alive"), mark
                last, beats = mark, 0
            await asyncio.sleep(POLL_SECONDS)
