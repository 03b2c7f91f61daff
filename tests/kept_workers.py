"""Worker pools whose processes serve the next pool: to start them takes as long as a small review."""

import atexit
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.worker_pool import ForkServer, WorkerPool, _WorkerSlot

POOLS = 200
"""Pools that a worker serves, so that what checks keep in its memory has a bound."""

_Workers = list[tuple[str, bool]]
"""Of each slot, the token of its worker and whether that waits for a request."""

_idle: defaultdict[Hashable, list[tuple[ForkServer, _Workers, int]]] = defaultdict(list)


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
        self._left: _Workers = []  # by an earlier pool, until this one has slots
        self._pools = 0

    @property
    def _servers(self) -> list[tuple[ForkServer, _Workers, int]]:
        return _idle[self._size, self._home, tuple(self._modules), self._reads]

    def start(self) -> None:
        self._take_server()
        super().start()

    async def _take_slot(self) -> _WorkerSlot:
        self._take_server()
        if not self._slots:
            if self._pools >= POOLS:
                self._has_served, self._pools = True, 0
            if self._has_served:  # then the new slots get new workers
                self._left = []
        taken = await super()._take_slot()
        left, self._left = self._left, []
        for slot, (token, ready) in zip(self._slots, left, strict=False):
            slot._token, slot._ready = token, ready
        return taken

    def _take_server(self) -> None:
        if self._server is None and self._servers and bubblewrap.find_bwrap() is None:
            self._server, self._left, self._pools = self._servers.pop()

    async def _close_slots(self) -> None:
        if self._slots:
            self._left = [(slot._token, slot._ready) for slot in self._slots]
        await super()._close_slots()

    def _end(self) -> None:
        if self._server and self._server.alive and bubblewrap.find_bwrap() is None:
            self._servers.append((self._server, self._left, self._pools + 1))
            self._server = None
        self._left, self._pools = [], 0
        super()._end()
