"""No test of posting waits as forges ask."""

import pytest

from orchestrator.posting import forgejo, github


@pytest.fixture(autouse=True)
def _do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github, "SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr(forgejo, "sleep", lambda seconds: None)
