"""Worker pools whose processes serve the next pool: to start them takes as long as a small review."""

import atexit
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, Self

from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.worker_pool import ForkServer, WorkerPool, _WorkerSlot

POOLS = 200
"""Pools that a worker serves, so that what checks keep in its memory has a bound."""

_idle: defaultdict[Hashable, list[tuple[ForkServer, list[_WorkerSlot], int]]] = defaultdict(list)


@atexit.register
def _close_all() -> None:
    for servers in _idle.values():
        for server, _, _ in servers:
            server.close()


class KeptWorkers(WorkerPool):
    """Takes the fork server that an earlier pool of the same kind left, with its workers."""

    def __init__(self, size: int, *, modules: Sequence[str] = (), **given: Any) -> None:
        # What else most reviews of the suite import in a worker.
        super().__init__(size, modules=(*modules, "diffchecks.api.api_breakage"), **given)
        self._pools = 0

    def start(self) -> None:
        self._take_server()
        super().start()

    async def __aenter__(self) -> Self:
        self._take_server()
        return await super().__aenter__()

    @property
    def _servers(self) -> list[tuple[ForkServer, list[_WorkerSlot], int]]:
        return _idle[self._size, self._home, tuple(self._modules), self._reads]

    def _take_server(self) -> None:
        if self._server is None and self._servers and bubblewrap.find_bwrap() is None:
            self._server, self._slots, self._pools = self._servers.pop()

    def _end(self) -> None:
        without = bubblewrap.find_bwrap() is None
        if self._server and self._server.alive and without and self._pools < POOLS:
            self._servers.append((self._server, self._slots, self._pools + 1))
            self._server, self._slots = None, []
        self._pools = 0
        super()._end()
