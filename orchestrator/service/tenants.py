"""Separates installations: each has its own schema and role for its runs, if configured.

A review's process knows only the address of its own schema. So even if the change under review took
over the process, the database would refuse access to the rows of others and to the queue.
"""

import hashlib
import hmac
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from orchestrator.errors import InputError
from orchestrator.service.settings import ServiceSettings


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
