"""Debian's chromium without a window, driven over the pipe of its DevTools protocol."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-quic",
)  # fmt: skip
_START = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands from descriptor 3 and writes answers to 4."""
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}


class Page:
    """One page of a browser.

    Args:
        chromium: the program.
        profile: an empty directory.
    """

    def __init__(self, chromium: str, profile: Path) -> None:
        with contextlib.ExitStack() as ends:

            def end(descriptor: int) -> int:
                high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)  # not 3 or 4
                os.close(descriptor)
                ends.callback(os.close, high)
                return high

            commands, self._to = map(end, os.pipe())
            self._from, answers = map(end, os.pipe())
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(commands), str(answers), chromium, *_QUIET,
                 "--remote-debugging-pipe", f"--user-data-dir={profile}"],
                pass_fds=(commands, answers), stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._to, self._from = os.dup(self._to), os.dup(self._from)
        self._messages = self._read()
        self._count = 0
        self._session = ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)

    def _read(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while got := os.read(self._from, 1 << 20):
            *whole, rest = (rest + got).split(b"\0")
            yield from map(json.loads, whole)
        raise AssertionError("the browser ended")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        command: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        answer = next(one for one in self._messages if one.get("id") == self._count)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, file: Path, width: int, scheme: str) -> None:
        """Load a file at a width in pixels, for ``light`` or ``dark``."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                   deviceScaleFactor=1, mobile=False)  # fmt: skip
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=media)
        self._call("Page.navigate", url=file.as_uri())
        next(one for one in self._messages if one.get("method") == "Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression, or what its promise gives."""
        got = self._call("Runtime.evaluate", expression=script, awaitPromise=True,
                         returnByValue=True)  # fmt: skip
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key: a character, or the name of one of ``_KEYS``."""
        code = _KEYS.get(key, ord(key[0].upper()))
        text = {"Enter": "\r", "Tab": "", "Escape": ""}.get(key, key)
        down = {"key": key, "windowsVirtualKeyCode": code, "text": text}
        self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **down)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
