"""The tables of the service (the queue's own, those of changes, the journals') and its queries."""

from importlib import resources

import psycopg

from orchestrator.data_directories import read_queries
from orchestrator.errors import InputError, StoreError
from orchestrator.stores.postgres import DURABLE, migrate, sql_files

QUEUE_SCHEMA = "0001_procrastinate_3_10.sql"

QUERIES = {name: text.encode() for name, text in read_queries(__file__, "queries.sql").items()}
"""Name → query, of ``queries.sql``."""


def prepare_database(address: str) -> None:
    """Create the tables, or migrate them to this version.

    Raises:
        InputError: the address is invalid.
        StoreError: the server cannot be reached, or its tables are another version's.
    """
    queue = (resources.files("procrastinate.sql") / "schema.sql").read_bytes()
    files = {QUEUE_SCHEMA: queue, **sql_files("orchestrator.service")}
    try:
        with psycopg.connect(address, autocommit=True) as db:
            db.execute(DURABLE)
            migrate(db, "service_migrations", files)
    except psycopg.ProgrammingError as error:
        # Without libpq's message about an address, which may quote the password.
        why = "the address is none of PostgreSQL" if not error.sqlstate else str(error)
        raise InputError(
            f"the service's database cannot be used: {' '.join(why.split())}"
        ) from None
    except psycopg.Error as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(f"the service's database cannot be used: {why}") from None
