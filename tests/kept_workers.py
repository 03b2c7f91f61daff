"""Worker pools whose fork servers serve the next pool: to start one takes as long as a small review."""

import atexit
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.fork_server_client import ForkServer
from orchestrator.sandbox.worker_pool import WorkerPool, _WorkerSlot

_idle: defaultdict[Hashable, list[ForkServer]] = defaultdict(list)


@atexit.register
def _close_all() -> None:
    for servers in _idle.values():
        for server in servers:
            server.close()


class KeptWorkers(WorkerPool):
    """Takes the fork server that an earlier pool of the same kind left; its workers are new."""

    def __init__(self, size: int, *, modules: Sequence[str] = (), **given: Any) -> None:
        # What else most reviews of the suite import in a worker.
        super().__init__(size, modules=(*modules, "orchestrator.checks.api.api_breakage"), **given)

    @property
    def _servers(self) -> list[ForkServer]:
        return _idle[self._size, self._home, tuple(self._modules), self._reads]

    def start(self) -> None:
        self._take_server()
        super().start()

    async def _take_slot(self) -> _WorkerSlot:
        self._take_server()
        return await super()._take_slot()

    def _take_server(self) -> None:
        if self._server is None and self._servers and bubblewrap.find_bwrap() is None:
            self._server, self._has_served = self._servers.pop(), True

    def _end(self) -> None:
        if self._server and self._server.alive and bubblewrap.find_bwrap() is None:
            self._servers.append(self._server)
            self._server = None
        super()._end()
