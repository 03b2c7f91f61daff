"""Which model answers: providers by name."""

from __future__ import annotations

from orchestrator.engine.ports import Model
from orchestrator.errors import InputError
from orchestrator.providers.offline import OfflineModel

PROVIDERS = ("offline",)


def make_model(name: str) -> Model:
    """A provider's model.

    Raises:
        InputError: no provider of that name.
    """
    if name != "offline":
        raise InputError(f"there is no provider {name!r}; there is {', '.join(PROVIDERS)}")
    return OfflineModel()
