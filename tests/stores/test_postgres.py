"""What the PostgreSQL store alone promises."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

from orchestrator.engine.ports import Row
from orchestrator.errors import InputError, StoreError
from tests.stores.postgres_server import NoServer, Server, server

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

from orchestrator.stores.postgres import PostgresStore  # noqa: E402

ROW = Row(1, "note", "k", 1.0, b"{}", "h")


def applied(address: str) -> list[str]:
    with psycopg.connect(address) as db:
        return [
            name
            for (name,) in db.execute(
                "SELECT name FROM diffcourt_migrations ORDER BY applied, name"
            )
        ]


def test_migrations_are_applied_once_in_order_by_however_many_at_once(postgres: Server) -> None:
    address = postgres.fresh("migrations")
    with ThreadPoolExecutor(6) as pool:
        for store in pool.map(PostgresStore, [address] * 6, ["repo"] * 6):
            store.close()
    assert applied(address) == ["0001_runs_and_journal.sql", "0002_cancellations.sql"]


@pytest.mark.parametrize(("default", "ours"), [("off", "on"), ("remote_apply", "remote_apply")])
def test_an_append_is_durable_whatever_the_servers_default(
    postgres: Server, default: str, ours: str
) -> None:
    address = f"{postgres.fresh('durable')}%20-csynchronous_commit%3D{default}"
    store = PostgresStore(address, "repo")
    assert store._db.execute("SHOW synchronous_commit").fetchone() == (ours,)
    store.close()


def test_a_newer_versions_store_is_left_alone(postgres: Server) -> None:
    address = postgres.fresh("newer")
    PostgresStore(address, "repo").close()
    with psycopg.connect(address) as db:
        db.execute("INSERT INTO diffcourt_migrations (name, sha256) VALUES ('0099_x.sql', '')")
    with pytest.raises(StoreError, match=r"another version of diffcourt \(0099_x.sql\)"):
        PostgresStore(address, "repo")


def test_a_schema_that_is_not_there_is_one_line(postgres: Server) -> None:
    with pytest.raises(StoreError, match="cannot be used") as caught:
        PostgresStore(postgres.address("nowhere"), "repo")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@127.0.0.1:1/db",
        "postgresql://me:hunter2@127.0.0.1:port/db",
        "postgresql://me:hunter2@/db?host=/nowhere",
        "postgresql://me:hunter2@/db?hots=hunter2",
        "postgresql://me:hunter2%",
    ],
)
def test_the_password_is_in_no_message(address: str) -> None:
    with pytest.raises((StoreError, InputError)) as caught:
        PostgresStore(address, "repo")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_appended_rows_survive_a_crash_of_the_server(tmp_path: Path) -> None:
    try:
        with server() as own:
            store = PostgresStore(own.address(), "repo")
            anyio.run(store.create, "r", 1.0, {})
            fence = anyio.run(store.acquire, "r", "me", 30)
            anyio.run(store.append, "r", fence, [ROW], 30)
            own.stop(signal.SIGQUIT)
            with pytest.raises(StoreError, match="Check the connection") as caught:
                anyio.run(store.append, "r", fence, [ROW], 30)
            assert "\n" not in str(caught.value)
            store.close()
            own.start()
            store = PostgresStore(own.address(), "repo")
            assert anyio.run(store.rows, "r") == [ROW]
            store.close()
    except NoServer as why:
        pytest.skip(str(why))
