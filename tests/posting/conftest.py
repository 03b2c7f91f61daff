"""No test of posting waits as forges ask."""

from importlib.util import find_spec

import pytest

from orchestrator.posting import forgejo


@pytest.fixture(autouse=True)
def _do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgejo, "sleep", lambda seconds: None)
    if find_spec("github"):  # an extra
        monkeypatch.setattr("orchestrator.posting.github.SECONDS_BETWEEN_WRITES", 0)
