"""The warden, from our side; ``warden_main`` is what it runs.

One per process, started when first needed or ahead by ``start``, and shared by all event loops.
"""

from __future__ import annotations

import atexit
import marshal
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.errors import SandboxError
from orchestrator.sandbox import scratch

MAIN = Path(__file__).with_name("warden_main.py")
PACKAGE = Path(__file__).resolve().parents[1]
SAFE_PATH = "/usr/local/bin:/usr/bin:/bin"


def installed() -> list[str]:
    """The folders of our own installation, which hold nothing but programs."""
    return sorted({sys.prefix, sys.base_prefix, str(PACKAGE)})


class Warden:
    """A process that starts programs for this one.

    Raises:
        SandboxError: it could not be started.
    """

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._sending = threading.Lock()
        self.owner = os.getpid()
        arguments = [str(PACKAGE.parent), str(theirs.fileno()), str(scratch.canary()), *installed()]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(MAIN), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": SAFE_PATH, "LC_ALL": "C.UTF-8"},
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as fault:
            raise SandboxError(f"the sandbox could not be started: {fault.strerror}") from None
        finally:
            theirs.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def send(self, request: dict[str, Any], streams: tuple[int, int, int]) -> socket.socket:
        """Have a program started; what becomes of it is said on the socket that is returned.

        Raises:
            SandboxError: the warden is gone.
        """
        ours, theirs = socket.socketpair()
        body = marshal.dumps(request)
        try:
            with theirs, self._sending:
                socket.send_fds(self._control, [b"j"], [theirs.fileno(), *streams])
                # The warden reads it at once: it never waits for anything but a fork.
                ours.sendall(len(body).to_bytes(4, "big") + body)
        except OSError:
            ours.close()
            raise SandboxError("the sandbox's warden is gone") from None
        ours.setblocking(False)
        return ours

    def close(self) -> None:
        """End it, and every program that it started."""
        if self.owner != os.getpid():
            return  # a fork of ours: the warden is its parent's
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self._process.kill()
        self._process.wait()


_lock = threading.Lock()
_current: Warden | None = None


def start() -> Warden:
    """The warden of this process, started when there is none.

    Raises:
        SandboxError: it could not be started.
    """
    global _current  # noqa: PLW0603 - one per process, as the processes it starts are
    with _lock:
        if _current is None or _current.owner != os.getpid() or not _current.alive:
            if _current is not None:
                _current.close()
            _current = Warden()
        return _current


def stop() -> None:
    """End the warden of this process, where there is one."""
    global _current  # noqa: PLW0603
    with _lock:
        if _current is not None:
            _current.close()
            _current = None


atexit.register(stop)
