"""Several providers as one model: each request goes to the one that its model's name names."""

from collections.abc import Mapping

from msgspec.structs import replace

from orchestrator.catalog.model_config import ModelsConfig
from orchestrator.engine.model_call_events import CallEvent, CallListener
from orchestrator.engine.ports import MayRetry, Model, always_retry
from orchestrator.engine.types import Request, Response, Usage
from orchestrator.errors import ModelUnavailable, ProviderRefused, VendorDown


class VendorRouter:
    """The models of a run with several vendors.

    A vendor that is down or has no credit is asked no more in this run: each agent moves to another
    one. The last vendor has none to be replaced by, and fails as if it were alone.

    Args:
        models: provider → its model; the first also answers requests that name no provider.
        down: provider → why it is not asked any more, as known from earlier sessions of the run.
        on_event: called when a vendor is given up.
    """

    def __init__(
        self,
        config: ModelsConfig,
        models: Mapping[str, Model],
        down: Mapping[str, str],
        on_event: CallListener,
    ) -> None:
        self.name = ", ".join(models)
        self._config, self._models, self._on_event = config, models, on_event
        self._down = {name: why for name, why in down.items() if name in models}

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Answer a request at its vendor.

        Raises:
            VendorDown: the vendor cannot answer, and another one could.
            ModelError, ProviderRefused: as the vendor's model.
        """
        vendor, sent = self._addressed(request)
        if vendor in self._down:
            raise VendorDown(self._down[vendor], billed=False)
        try:
            return await self._models[vendor].respond(sent, may_retry)
        except (ModelUnavailable, ProviderRefused) as error:
            down = isinstance(error, ModelUnavailable) or error.account
            # Another agent may have given up a vendor in the meantime.
            if not down or not self._models.keys() - {vendor, *self._down}:
                raise
            if vendor not in self._down:
                self._down[vendor] = str(error)
                self._on_event(
                    CallEvent("down", vendor, sent.model, request.agent, self._down[vendor])
                )
            billed = isinstance(error, ModelUnavailable) and error.billed
            raise VendorDown(str(error), billed=billed) from None

    def worst_case(self, request: Request) -> Usage:
        """The most that the request can use at its vendor."""
        vendor, sent = self._addressed(request)
        return self._models[vendor].worst_case(sent)

    def _addressed(self, request: Request) -> tuple[str, Request]:
        vendor, model = self._config.split(request.model, next(iter(self._models)))
        return vendor, replace(request, model=model)
