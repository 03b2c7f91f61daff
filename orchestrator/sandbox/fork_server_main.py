"""The fork server and its workers: imports once what checks need, then forks a worker per slot.

Started as a file, isolated (``-I``):
``fork_server_main.py HOME SOCKETS CONFINEMENT CGROUP_FILES NAMESPACES [MODULE ...]``.

It enters the cgroups whose ``cgroup.procs`` are open as CGROUP_FILES, puts HOME on the path,
imports the modules, and forks one worker for each of the inherited SOCKETS. NAMESPACES is what
must not be visible in its namespaces; empty where it has none of its own. A worker first confines
itself to CONFINEMENT: JSON arguments of ``confine``, empty where that is impossible. Then it reads
one JSON request a line and writes one reply a line, until its socket is closed. A worker that dies
is replaced on the same socket, after a line that says how it ended. Standard input carries
commands: a line ``SLOT TOKEN`` replaces the worker of that slot. When it ends, everything ends.
"""

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
from typing import Any, NoReturn, get_type_hints

from msgspec import Struct, convert, to_builtins

OUT_OF_MEMORY = 71
NOT_CONFINED = 72
MEMORY = 2 << 30
"""Bytes of address space that a worker may have."""
_LIMITS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_FSIZE, 1 << 20),
    (resource.RLIMIT_CORE, 0),
)


def ready_line(token: str) -> bytes:
    """The line that a worker writes when it accepts requests."""
    return json.dumps({"ready": token}).encode("ascii") + b"\n"


def _encode(value: Any) -> Any:
    """What the JSON encoder does not know: structs are replies, anything else is an error."""
    if isinstance(value, Struct):
        return to_builtins(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_shared_parts: dict[str, dict[str, Any]] = {}  # the last file → the parts that it holds


def _complete_job(request: dict[str, Any]) -> dict[str, Any]:
    """The job, with the parts that it shares with other jobs; these are read once."""
    path = request["shared"]
    if path and path not in _shared_parts:
        _shared_parts.clear()
        with open(path, "rb") as file:
            _shared_parts[path] = json.load(file)
    return {**_shared_parts.get(path, {}), **request["job"]}


def _run_check(request: dict[str, Any]) -> str:
    """The reply to one request: what the check returned, or its exception in one line."""
    number, (module, _, function) = request["id"], request["function"].partition(":")
    try:
        check = getattr(importlib.import_module(module), function)
        kind = get_type_hints(check).get("job", Any)
        result = check(convert(_complete_job(request), kind))
        return json.dumps({"id": number, "result": result}, default=_encode)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # a starved interpreter is not worth another check
    except Exception as error:
        name, line = module.rpartition(".")[2], " ".join(str(error).split())
        return json.dumps({"id": number, "error": f"{name}: {type(error).__name__}: {line:.500}"})


def _serve_requests(connection: socket.socket, token: str) -> None:
    """Serve requests until the socket is closed.

    An alarm ends the process a second after a request's own time: a parent that was killed cannot
    end a check that never returns, and a check deep in C code lets no Python code run.
    """
    with connection, connection.makefile("rb") as requests:
        # The first newline ends whatever an earlier worker left unfinished.
        connection.sendall(b"\n" + ready_line(token))
        for line in requests:
            request = json.loads(line)
            signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1)
            reply = _run_check(request).encode("ascii")
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.sendall(reply + b"\n")


class _ForkServer:
    """Keeps one worker alive in each slot."""

    def __init__(self, sockets: list[socket.socket], confine: Callable[[], None]) -> None:
        from orchestrator.sandbox import kernel_calls  # noqa: PLC0415 - it is on the path now

        self._kernel, self._confine = kernel_calls, confine
        self._sockets, self._tokens = sockets, [""] * len(sockets)
        self._slots: dict[int, int] = {}  # process id → slot
        self._signals, self._signals_in = os.pipe()
        for number in (self._signals, self._signals_in):
            os.set_blocking(number, False)

    def serve(self) -> NoReturn:
        """Fork the workers and replace dead ones until standard input is closed."""
        # The handler does nothing, but having one makes the signal write to the pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        signal.set_wakeup_fd(self._signals_in)
        for slot in range(len(self._sockets)):
            self._fork(slot)
        unread = b""
        while True:
            readable, _, _ = select.select([0, self._signals], [], [])
            if self._signals in readable:
                os.read(self._signals, 4096)
                self._reap()
            if 0 in readable:
                received = os.read(0, 4096)
                if not received:
                    self._end()
                *commands, unread = (unread + received).split(b"\n")
                for command in commands:
                    self._replace(*command.decode("ascii").split())

    def _fork(self, slot: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._run_worker(slot)
        self._slots[pid] = slot
        self._kernel.lead_process_group(pid)

    def _run_worker(self, slot: int) -> NoReturn:
        code = 1
        try:
            self._kernel.lead_process_group(os.getpid())
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.close(self._signals)
            os.close(self._signals_in)
            os.dup2(1, 0)
            for other, connection in enumerate(self._sockets):
                if other != slot:
                    connection.close()
            code = NOT_CONFINED
            self._confine()
            code = 1
            _serve_requests(self._sockets[slot], self._tokens[slot])
            code = 0
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Replace the workers that have ended."""
        while self._slots:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            slot = self._slots.pop(pid, None)
            if slot is None:
                continue
            self._kernel.kill_process_group(pid)  # what it started
            if os.waitstatus_to_exitcode(status) == NOT_CONFINED:
                os._exit(NOT_CONFINED)  # nor would the next one be
            line = json.dumps({"ended": os.waitstatus_to_exitcode(status)}).encode("ascii")
            with suppress(OSError):  # full, or nobody reads any more
                self._sockets[slot].send(line + b"\n", socket.MSG_DONTWAIT)
            self._fork(slot)

    def _replace(self, slot: str, token: str) -> None:
        self._tokens[int(slot)] = token
        for pid, its_slot in self._slots.items():
            if its_slot == int(slot):
                self._kernel.kill_process_group(pid)

    def _end(self) -> NoReturn:
        for pid in self._slots:
            self._kernel.kill_process_group(pid)
        os._exit(0)


def _confiner(arguments: dict[str, Any] | None) -> Callable[[], None]:
    """The function that confines a worker before its first request."""
    if arguments is None:
        return lambda: None
    from orchestrator.sandbox import kernel_calls, process_confinement  # noqa: PLC0415 - it is on the path now

    def confine_worker() -> None:
        user = (
            process_confinement.user_number(os.getpid()) if kernel_calls.can_change_user() else None
        )
        kernel_calls.raise_oom_score()
        process_confinement.confine(**arguments, user=user)

    return confine_worker


def main() -> None:
    """Import, then fork and serve; what a check prints or reads goes to the null device."""
    home, sockets, confine_arguments, cgroup_files, namespaces, *modules = sys.argv[1:]
    sys.path.insert(0, home)
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from orchestrator.sandbox import kernel_calls, namespace_verification  # noqa: PLC0415 - it is on the path now

    if namespaces and (error := namespace_verification.namespace_error(namespaces)):
        print(error, file=sys.stderr, flush=True)  # noqa: T201 - our parent reads it
        os._exit(NOT_CONFINED)
    for resource_number, bound in _LIMITS:
        kernel_calls.set_limit(resource_number, bound)
    # Entering takes the kernel several milliseconds, during which modules are imported.
    entering = threading.Thread(target=kernel_calls.enter_cgroups, args=(cgroup_files,))
    entering.start()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    # A check makes syntax trees, which it keeps, and hardly any garbage: to look for some as often
    # as Python does takes a third of its time.
    gc.set_threshold(1_000_000)
    for module in modules:
        with suppress(Exception):  # the check that needs it will report the error
            importlib.import_module(module)
    os.dup2(null, 2)
    os.close(null)
    gc.freeze()  # nothing imported so far is garbage; untouched pages stay shared
    connections = [socket.socket(fileno=int(number)) for number in sockets.split(",")]
    entering.join()
    confine_worker = _confiner(json.loads(confine_arguments) if confine_arguments else None)
    _ForkServer(connections, confine_worker).serve()


if __name__ == "__main__":
    main()
