"""Finds pushes whose webhooks were missed, such as during a downtime, by listing open requests.

Only known repositories are queried, and only requests whose newest push is unknown are enqueued. A
request that is older than its repository's first webhook is recorded, and reviewed from its next
push on.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain
from typing import Annotated, Any
from urllib.parse import quote

import httpx2
from msgspec import Meta
from procrastinate import App
from psycopg import sql
from psycopg.rows import class_row

from orchestrator.data_directories import read_table
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.foreign_json import parse_json
from orchestrator.service import changes, webhooks
from orchestrator.service.changes import Push, StoredChange
from orchestrator.service.database import QUERIES
from orchestrator.service.forge_tokens import LISTING, ForgeTokens
from orchestrator.service.job_queue import DATABASE_ERRORS, LOG
from orchestrator.service.queue_state import KNOWN_DAYS
from orchestrator.service.settings import ForgeSettings, ServiceSettings
from orchestrator.service.webhooks import EventMergeRequest, EventPullRequest

EVERY_SECONDS = 600.0
SECONDS_FOR_EACH = 3.6
"""At most a thousand calls an hour, so that most of what the forge allows is left for posts."""

SWEEP_LOCK = 0x6469666664
"""The number of the advisory lock of the one server that looks."""

CALL_SECONDS = 20.0
MAX_PAGES = 10
"""Of a repository's first list: each has up to a hundred requests."""

_LISTINGS: Mapping[str, Any] = read_table(__file__, "forge_listings.yaml")

Connect = Callable[[], Any]
"""Opens a connection of the pool, as an asynchronous context."""


class KnownRepository(StoredChange, frozen=True, kw_only=True):
    """A repository with recent webhooks, by its newest change.

    Attributes:
        since: when its first webhook came.
        is_listed: its open requests were listed since.
    """

    since: datetime
    is_listed: bool


Time = Annotated[datetime, Meta(tz=True)]


class _PullRequest(EventPullRequest, frozen=True):
    """An entry of GitHub's or Forgejo's list of pull requests."""

    created_at: Time | None = None


class _MergeRequest(EventMergeRequest, frozen=True, kw_only=True):
    """An entry of GitLab's list of merge requests."""

    sha: str
    created_at: Time | None = None


async def sweep_forever(settings: ServiceSettings, queue: App, connect: Connect) -> None:
    """Look for missed pushes now and every ten minutes, or less often with many repositories."""
    tokens = ForgeTokens()
    while True:
        asked = 0
        try:
            async with connect() as db, db.transaction():
                lock = await db.execute("SELECT pg_try_advisory_xact_lock(%s)", (SWEEP_LOCK,))
                if await lock.fetchone() == (True,):
                    found, asked = await find_missed_pushes(settings, queue, connect, tokens)
                    if found:
                        LOG.warning("%d pushes had been missed and are to be reviewed", found)
        except DATABASE_ERRORS as error:
            LOG.warning("missed pushes cannot be looked for: %s", " ".join(str(error).split()))
        await asyncio.sleep(max(EVERY_SECONDS, asked * SECONDS_FOR_EACH))


async def find_missed_pushes(
    settings: ServiceSettings, queue: App, connect: Connect, tokens: ForgeTokens
) -> tuple[int, int]:
    """Enqueue open requests whose newest push is unknown; returns their number, and of API calls.

    After a refusal the forge is not called again this time: it is down or limits the rate.

    Raises:
        Exception: one of ``DATABASE_ERRORS``.
    """
    async with connect() as db, db.cursor(row_factory=class_row(KnownRepository)) as cursor:
        query = sql.SQL(QUERIES["known"].decode()).format(changes.columns_of(KnownRepository))
        await cursor.execute(query, (KNOWN_DAYS,))
        known = await cursor.fetchall()
    found = asked = 0
    refused: set[tuple[str, str]] = set()
    for repository in known:
        forge = settings.forges.get(repository.forge)
        whose = (repository.forge, repository.installation)
        if forge is None or whose in refused:
            continue
        asked += 1
        try:
            pages = await _open_pushes(forge, repository, tokens)
        except (DiffcourtError, httpx2.HTTPError, ValueError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            LOG.warning("%s cannot be asked for missed pushes: %s", repository.repository, why)
            if not _is_about_one_repository(error):
                refused.add(whose)
            continue
        asked += len(pages) - 1
        for push, created in chain.from_iterable(pages):
            is_old = created is not None and created < repository.since
            found += await _record(settings, queue, connect, push, is_old=is_old)
        async with connect() as db:
            await db.execute(QUERIES["set_listed"], (repository.forge, repository.repository))
    return found, asked


async def _record(
    settings: ServiceSettings, queue: App, connect: Connect, push: Push, *, is_old: bool
) -> bool:
    """Record the newest push of an open request; whether it was missed and is to be reviewed."""
    async with connect() as db, db.transaction():
        row = await changes.load_change(db, push.change)
        if row is None and is_old and not settings.enqueuing.already_open:
            await changes.record_open(db, push)
            return False
        if row is not None and row.head == push.head:
            return False
        await changes.record_push(db, queue, push, settings.enqueuing)
        return True


def _is_about_one_repository(error: Exception) -> bool:
    """Whether an error concerns only one repository, so that the next one can be queried."""
    if isinstance(error, httpx2.HTTPStatusError):
        return error.response.status_code in {301, 302, 307, 308, 404, 410, 451}
    return isinstance(error, (InputError, ValueError))


async def _open_pushes(
    forge: ForgeSettings, repository: KnownRepository, tokens: ForgeTokens
) -> list[list[tuple[Push, datetime | None]]]:
    """Pages of the newest pushes of open requests, and when the requests were opened.

    All pages the first time; then only the first one, of those that changed last.
    """
    token = await asyncio.to_thread(tokens.get, forge, repository, LISTING)
    address, headers = _listing(forge, repository.repository, token)
    pages = []
    async with httpx2.AsyncClient(timeout=CALL_SECONDS) as client:
        for number in range(1, 2 if repository.is_listed else MAX_PAGES + 1):
            answer = await client.get(f"{address}&page={number}", headers=headers)
            answer.raise_for_status()
            page = _read_page(forge, repository, answer.content)
            pages.append([(webhooks.checked_push(forge, push), created) for push, created in page])
            if not page:
                break
    return pages


def _read_page(
    forge: ForgeSettings, repository: KnownRepository, content: bytes
) -> list[tuple[Push, datetime | None]]:
    if forge.kind == "gitlab":
        names = ("forge", "installation", "repository", "clone_url")
        of = {name: getattr(repository, name) for name in names}
        return [
            (webhooks.push_of_merge_request(request, head=request.sha, **of), request.created_at)
            for request in parse_json(content, list[_MergeRequest])
        ]
    requests = parse_json(content, list[_PullRequest])
    return [
        (webhooks.push_of(repository.forge, repository.installation, request), request.created_at)
        for request in requests
    ]


def _listing(forge: ForgeSettings, repository: str, token: str) -> tuple[str, dict[str, str]]:
    """Address and headers of the list of open requests."""
    listed = _LISTINGS[forge.kind]
    name = quote(repository, safe="") if forge.kind == "gitlab" else repository
    headers = {header: text.format(token) for header, text in listed["header"].items()}
    return f"{forge.url.rstrip('/')}{listed['path'].format(name)}", headers
