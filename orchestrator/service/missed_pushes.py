"""Finds pushes whose webhooks were missed, such as during a downtime, by listing open requests.

Only known repositories are queried, and only requests whose newest push is unknown are enqueued.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx2
import procrastinate
from msgspec import Struct
from psycopg.rows import class_row

from orchestrator.errors import DiffcourtError, InputError
from orchestrator.foreign_json import parse_json
from orchestrator.service.changes import Push, load_change, record_push
from orchestrator.service.forge_tokens import LISTING, ForgeTokens
from orchestrator.service.job_queue import DATABASE_ERRORS, LOG
from orchestrator.service.settings import ForgeSettings, ServiceSettings
from orchestrator.service.webhooks import EventPullRequest, checked_push, push_of

EVERY_SECONDS = 600.0
SECONDS_FOR_EACH = 3.6
"""At most a thousand calls an hour, so that most of what the forge allows is left for posts."""

SWEEP_LOCK = 0x6469666664
"""The number of the advisory lock of the one server that looks."""

CALL_SECONDS = 20.0
KNOWN_DAYS = 30

Connect = Callable[[], Any]
"""Opens a connection of the pool, as an asynchronous context."""

_REPOSITORIES = """
SELECT DISTINCT ON (forge, repository) forge, installation, repository, clone_url, change
FROM service_changes WHERE received > now() - make_interval(days => %s)
ORDER BY forge, repository, received DESC
"""


class KnownRepository(Struct, frozen=True):
    """A repository with recent webhooks; ``change`` is its newest change."""

    forge: str
    installation: str
    repository: str
    clone_url: str
    change: str


class _MergeRequest(Struct, frozen=True):
    """An entry of GitLab's list of merge requests."""

    iid: int
    sha: str
    target_branch: str
    title: str = ""
    description: str | None = None


async def sweep_forever(
    settings: ServiceSettings, queue: procrastinate.App, connect: Connect
) -> None:
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
    settings: ServiceSettings, queue: procrastinate.App, connect: Connect, tokens: ForgeTokens
) -> tuple[int, int]:
    """Enqueue open requests whose newest push is unknown; returns their number, and of API calls.

    After a refusal the forge is not called again this time: it is down or limits the rate.

    Raises:
        Exception: one of ``DATABASE_ERRORS``.
    """
    async with connect() as db, db.cursor(row_factory=class_row(KnownRepository)) as cursor:
        await cursor.execute(_REPOSITORIES, (KNOWN_DAYS,))
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
            pushes = await _open_pushes(forge, repository, connect, tokens)
        except (DiffcourtError, httpx2.HTTPError, ValueError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            LOG.warning("%s cannot be asked for missed pushes: %s", repository.repository, why)
            if not _is_about_one_repository(error):
                refused.add(whose)
            continue
        for push in pushes:
            async with connect() as db, db.transaction():
                row = await load_change(db, push.change)
                if row is None or row.head != push.head:
                    await record_push(db, queue, push, settings.enqueuing)
                    found += 1
    return found, asked


def _is_about_one_repository(error: Exception) -> bool:
    """Whether an error concerns only one repository, so that the next one can be queried."""
    if isinstance(error, httpx2.HTTPStatusError):
        return error.response.status_code in {301, 302, 307, 308, 404, 410, 451}
    return isinstance(error, (InputError, ValueError))


async def _open_pushes(
    forge: ForgeSettings, repository: KnownRepository, connect: Connect, tokens: ForgeTokens
) -> Sequence[Push]:
    """The newest pushes of a repository's open requests; the hundred that changed last."""
    async with connect() as db:
        row = await load_change(db, repository.change)
    assert row is not None
    token = await asyncio.to_thread(tokens.get, forge, row, LISTING)
    address, headers = _listing(forge, repository.repository, token)
    async with httpx2.AsyncClient(timeout=CALL_SECONDS) as client:
        answer = await client.get(address, headers=dict(headers))
    answer.raise_for_status()
    if forge.kind == "gitlab":
        listed = parse_json(answer.content, list[_MergeRequest])
        pushes = [_of_merge_request(repository, request) for request in listed]
    else:
        requests = parse_json(answer.content, list[EventPullRequest])
        pushes = [push_of(repository.forge, row.installation, request) for request in requests]
    return [checked_push(forge, push) for push in pushes]


def _listing(forge: ForgeSettings, repository: str, token: str) -> tuple[str, Mapping[str, str]]:
    """Address and headers of the list of open requests, the last changed first."""
    url = forge.url.rstrip("/")
    if forge.kind == "gitlab":
        project = quote(repository, safe="")
        query = "state=opened&order_by=updated_at&per_page=100"
        address = f"{url}/api/v4/projects/{project}/merge_requests?{query}"
        return address, {"PRIVATE-TOKEN": token}
    if forge.kind == "github":
        query = "state=open&sort=updated&direction=desc&per_page=100"
        return f"{url}/repos/{repository}/pulls?{query}", {"Authorization": f"Bearer {token}"}
    address = f"{url}/api/v1/repos/{repository}/pulls?state=open&sort=recentupdate&limit=50&page=1"
    return address, {"Authorization": f"token {token}"}


def _of_merge_request(repository: KnownRepository, request: _MergeRequest) -> Push:
    return Push(
        forge=repository.forge,
        installation=repository.installation,
        repository=repository.repository,
        number=request.iid,
        clone_url=repository.clone_url,
        base=f"refs/heads/{request.target_branch}",
        head=request.sha,
        title=request.title,
        description=request.description or "",
    )
