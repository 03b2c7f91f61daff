"""What the worker processes run: a nursery that imports once what checks need, and its forks.

Started as a file, isolated (``-I``): ``worker_main.py HOME SOCKETS BOX GROUPS OUTSIDE [MODULE
...]``. OUTSIDE is what must not be seen in its room, empty where it has none. It goes into the
control groups whose entrances GROUPS are, puts HOME on the path, imports the modules, and forks one
worker for each of the inherited sockets. A worker first gives up what BOX does not name: JSON for
``confine``, empty where that is impossible. Then it takes one JSON line after the other and answers
with one, until its socket ends. One that dies is replaced on the same socket, after a line that
says how it ended. Standard input carries the commands: a line ``PLACE TOKEN`` replaces the worker
of that place. At its end everything ends.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from msgspec import Struct, to_builtins

OUT_OF_MEMORY = 71
NOT_CONFINED = 72
MEMORY = 2 << 30
"""Bytes of address space that a worker may have."""
_LIMITS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_FSIZE, 1 << 20),
    (resource.RLIMIT_CORE, 0),
)


def ready(token: str) -> bytes:
    """The line with which a worker says that it takes requests."""
    return json.dumps({"ready": token}).encode("ascii") + b"\n"


def _encode(value: Any) -> Any:
    """What the JSON encoder does not know: structs are replies, anything else is an error."""
    if isinstance(value, Struct):
        return to_builtins(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _answer(request: dict[str, Any]) -> str:
    """The reply to one request: what the check returned, or its exception in one line."""
    number, (module, _, function) = request["id"], request["function"].partition(":")
    try:
        result = getattr(importlib.import_module(module), function)(request["job"])
        return json.dumps({"id": number, "result": result}, default=_encode)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # a starved interpreter is not worth another check
    except Exception as fault:
        name, line = module.rpartition(".")[2], " ".join(str(fault).split())
        return json.dumps({"id": number, "error": f"{name}: {type(fault).__name__}: {line:.500}"})


def _work(end: socket.socket, token: str) -> None:
    """Serve requests until the socket ends.

    An alarm ends the process a second after a request's own time: a parent that was killed cannot
    end a check that never returns, and a check deep in C code lets no Python code run.
    """
    with end, end.makefile("rb") as requests:
        end.sendall(b"\n" + ready(token))  # whatever was said before ends here
        for line in requests:
            request = json.loads(line)
            signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1)
            reply = _answer(request).encode("ascii")
            signal.setitimer(signal.ITIMER_REAL, 0)
            end.sendall(reply + b"\n")


class _Nursery:
    """Keeps one worker alive at each place."""

    def __init__(self, ends: list[socket.socket], give_up: Callable[[], None]) -> None:
        from orchestrator.sandbox import kernel_calls  # noqa: PLC0415 - it is on the path now

        self._kernel, self._give_up = kernel_calls, give_up
        self._ends, self._tokens = ends, [""] * len(ends)
        self._places: dict[int, int] = {}
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def serve(self) -> NoReturn:
        """Fork the workers and look after them until there are no more commands."""
        # The handler does nothing: that it is there makes the signal write to the pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        signal.set_wakeup_fd(self._wake)
        for place in range(len(self._ends)):
            self._fork(place)
        said = b""
        while True:
            readable, _, _ = select.select([0, self._woken], [], [])
            if self._woken in readable:
                os.read(self._woken, 4096)
                self._reap()
            if 0 in readable:
                heard = os.read(0, 4096)
                if not heard:
                    self._end()
                *commands, said = (said + heard).split(b"\n")
                for command in commands:
                    self._replace(*command.decode("ascii").split())

    def _fork(self, place: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_worker(place)
        self._places[pid] = place
        self._kernel.lead_group(pid)

    def _become_worker(self, place: int) -> NoReturn:
        code = 1
        try:
            self._kernel.lead_group(os.getpid())
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.close(self._woken)
            os.close(self._wake)
            os.dup2(1, 0)
            for other, end in enumerate(self._ends):
                if other != place:
                    end.close()
            code = NOT_CONFINED
            self._give_up()
            code = 1
            _work(self._ends[place], self._tokens[place])
            code = 0
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Replace the workers that have ended."""
        while self._places:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            place = self._places.pop(pid, None)
            if place is None:
                continue
            self._kernel.kill_group(pid)  # what it started
            if os.waitstatus_to_exitcode(status) == NOT_CONFINED:
                os._exit(NOT_CONFINED)  # nor would the next one be
            said = json.dumps({"ended": os.waitstatus_to_exitcode(status)}).encode("ascii")
            with suppress(OSError):  # full, or nobody reads any more
                self._ends[place].send(said + b"\n", socket.MSG_DONTWAIT)
            self._fork(place)

    def _replace(self, place: str, token: str) -> None:
        self._tokens[int(place)] = token
        for pid, at in self._places.items():
            if at == int(place):
                self._kernel.kill_group(pid)

    def _end(self) -> NoReturn:
        for pid in self._places:
            self._kernel.kill_group(pid)
        os._exit(0)


def _giving_up(box: dict[str, Any] | None) -> Callable[[], None]:
    """What a worker does before its first request."""
    if box is None:
        return lambda: None
    from orchestrator.sandbox import confinement, kernel_calls  # noqa: PLC0415 - it is on the path now

    def give_up() -> None:
        user = confinement.user_of(os.getpid()) if kernel_calls.can_change_user() else None
        kernel_calls.go_first()
        confinement.confine(**box, user=user)

    return give_up


def main() -> None:
    """Import, then fork and serve; what a check prints or reads goes to the null device."""
    home, ends, box, groups, outside, *modules = sys.argv[1:]
    sys.path.insert(0, home)
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from orchestrator.sandbox import confinement, kernel_calls  # noqa: PLC0415 - it is on the path now

    if outside and (fault := confinement.fault_of_room(outside)):
        print(fault, file=sys.stderr, flush=True)  # noqa: T201 - to who started us
        os._exit(NOT_CONFINED)
    for what, bound in _LIMITS:
        kernel_calls.limit(what, bound)
    # The kernel takes its time, and there is much to import.
    entering = threading.Thread(target=kernel_calls.enter_groups, args=(groups,))
    entering.start()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    gc.set_threshold(100_000)  # what is imported is no garbage, and neither is a syntax tree
    for module in modules:
        with suppress(Exception):  # the check that needs it will say why it cannot have it
            importlib.import_module(module)
    os.dup2(null, 2)
    os.close(null)
    gc.freeze()  # nothing imported so far is garbage: not looking at it keeps its pages shared
    sockets = [socket.socket(fileno=int(end)) for end in ends.split(",")]
    entering.join()
    _Nursery(sockets, _giving_up(json.loads(box) if box else None)).serve()


if __name__ == "__main__":
    main()
