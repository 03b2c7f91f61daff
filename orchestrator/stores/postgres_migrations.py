"""Numbered SQL files, each applied once to a PostgreSQL database."""

import hashlib
from collections.abc import Mapping
from importlib import resources

import psycopg
from psycopg import sql

from orchestrator.errors import StoreError

MIGRATION_LOCK = 0x6469666663
"""The number of the advisory lock under which one process at a time migrates."""


def migrate(db: psycopg.Connection, table: str, files: Mapping[str, bytes]) -> None:
    """Bring the tables up to date: numbered files, each applied once, all or none.

    Args:
        table: where the applied files are listed.
        files: name → SQL; applied in the order of their names.

    Raises:
        StoreError: a newer version was here, or an applied file is not the one we have.
    """
    listed = sql.Identifier(table)
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        db.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (name TEXT PRIMARY KEY,"
                " sha256 TEXT NOT NULL, applied TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())"
            ).format(listed)
        )
        applied: dict[str, str] = dict(
            db.execute(sql.SQL("SELECT name, sha256 FROM {}").format(listed)).fetchall()
        )
        for name, digest in applied.items():
            if name not in files or hashlib.sha256(files[name]).hexdigest() != digest:
                raise StoreError(
                    f"the store was migrated by another version of diffcourt ({name}); "
                    "use that version, or another database"
                )
        for name in sorted(files.keys() - applied.keys()):
            db.execute(files[name])
            db.execute(
                sql.SQL("INSERT INTO {} (name, sha256) VALUES (%s, %s)").format(listed),
                (name, hashlib.sha256(files[name]).hexdigest()),
            )


def sql_files(package: str) -> dict[str, bytes]:
    """The SQL files in a package's folder ``migrations``, by name."""
    directory = resources.files(package) / "migrations"
    return {
        file.name: file.read_bytes() for file in directory.iterdir() if file.name[-4:] == ".sql"
    }
