"""What an installation has of its own: a schema and role for its runs, and a daily budget.

A review's process knows only the address of its own schema. So even if the change under review took
over the process, the database would refuse access to the rows of others and to the queue.
"""

import hashlib
import hmac
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlencode

import anyio
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from orchestrator.app.runs.state_directory import repository_identity
from orchestrator.app.statistics.run_facts import read_run
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.service.changes import StoredChange
from orchestrator.service.database import QUERIES
from orchestrator.service.settings import ServiceSettings
from orchestrator.stores.postgres import PostgresStore


class Tenants:
    """Addresses of the journals, one for each installation, created on first use."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._made: set[tuple[str, str]] = set()

    def address(self, forge: str, installation: str) -> str:
        """The address of an installation's journals; blocks while the schema is created.

        Raises:
            InputError: the service's role cannot create schemas or roles.
        """
        database = self._settings.database.read()
        if self._settings.tenants is None:
            return database
        key = self._settings.tenants.read()
        name = f"tenant_{hashlib.sha256(f'{forge}:{installation}'.encode()).hexdigest()[:16]}"
        password = hmac.new(key.encode(), name.encode(), hashlib.sha256).hexdigest()
        if (name, password) not in self._made:
            _make(database, name, password)
            self._made.add((name, password))
        given = conninfo_to_dict(database)
        own = {"user": name, "password": password, "options": f"-csearch_path={name}"}
        return f"postgresql:///?{urlencode({**given, **own}, quote_via=quote)}"


def _make(database: str, name: str, password: str) -> None:
    """Create a role and its schema if necessary, and set the password."""
    who = sql.Identifier(name)
    try:
        with psycopg.connect(database) as db:
            db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (name,))
            if db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).rowcount == 0:
                db.execute(sql.SQL("CREATE ROLE {} LOGIN").format(who))
                db.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(who))
            db.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(who, sql.Literal(password)))
            db.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}").format(who, who))
            db.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    except psycopg.errors.InsufficientPrivilege:
        raise InputError(
            "the service's role may not make a role and a schema for each tenant; give it "
            "CREATEROLE and CREATE on the database, or leave out tenants"
        ) from None


async def reserve(
    db: psycopg.AsyncConnection, settings: ServiceSettings, row: StoredChange
) -> float | None:
    """Reserve the maximum cost of a run; returns its limit in US dollars, None for no limit.

    A resumed run keeps the limit with which it began.

    Raises:
        InputError: the day's budget is used up.
    """
    most = settings.review.max_usd
    limits = settings.limits
    if limits.installation_daily_usd is None and limits.repository_daily_usd is None:
        return most
    values = {name: getattr(row, name) for name in ("run", "forge", "installation", "repository")}
    async with db.transaction():
        lock = f"spending {row.forge}:{row.installation}"
        await db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (lock,))
        used = await (await db.execute(QUERIES["spent_today"], values)).fetchone()
        assert used is not None
        left = [
            (limit - spent, whose)
            for limit, spent, whose in (
                (limits.installation_daily_usd, used[0], "the installation"),
                (limits.repository_daily_usd, used[1], row.repository),
            )
            if limit is not None
        ]
        least, whose = min(left)
        if least <= 0:
            raise InputError(
                f"the daily budget of {whose} is used up; push again after 00:00 UTC, or raise it"
            )
        usd = least if most is None else min(most, least)
        reserved = await (await db.execute(QUERIES["reserve"], {**values, "usd": usd})).fetchone()
        assert reserved is not None
        return float(reserved[0])


async def settle(db: psycopg.AsyncConnection, run: str, usd: float) -> None:
    """Replace the reservation of a run by its cost so far."""
    await db.execute("UPDATE service_spending SET usd = %s WHERE run = %s", (usd, run))


def cost_so_far(address: str, repo: Path, run_id: str) -> float | None:
    """The cost of a run, by its journal; None if that cannot be read. Blocks."""
    try:
        with closing(PostgresStore(address, repository_identity(repo))) as store:
            found = [run for run in anyio.run(store.runs) if run.run_id == run_id]
            return read_run(found[0], anyio.run(store.rows, run_id)).usd if found else 0.0
    except (DiffcourtError, OSError):
        return None
