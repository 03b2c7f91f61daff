"""One PostgreSQL server for all the tests of stores."""

from collections.abc import Iterator

import pytest

from tests.stores.postgres_server import NoServer, Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        with server() as started:
            yield started
    except NoServer as why:
        pytest.skip(str(why))
