"""Debian's chromium without a window, driven over the pipe of its DevTools protocol."""

import base64
import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

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


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_AXE = importlib.util.find_spec("axe_core_python")
LOOKS = [(1280, "light"), (360, "dark")]
"""Widths in pixels and color schemes in which each page is looked at: the colors of a scheme are the
same at each width. The widest is first: it hides nothing."""
_RULES_OF_A_LOOK = ["color-contrast", "link-in-text-block", "scrollable-region-focusable"]
"""What axe finds by colors and sizes; the rest is the same in each look of a page."""

SECONDS = 30.0
"""That an element may take to appear."""

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium; apt-get install chromium"
)
needs_axe = pytest.mark.skipif(
    _AXE is None, reason="no axe-core-python; pip install axe-core-python"
)


class Browser:
    """A running browser.

    Args:
        profile: an empty directory.
    """

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        with contextlib.ExitStack() as ends:

            def end(descriptor: int) -> int:
                high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)  # not 3 or 4
                os.close(descriptor)
                ends.callback(os.close, high)
                return high

            commands, self._to = map(end, os.pipe())
            self._from, answers = map(end, os.pipe())
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(commands), str(answers), CHROMIUM, *_QUIET,
                 "--remote-debugging-pipe", f"--user-data-dir={profile}"],
                pass_fds=(commands, answers), stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._to, self._from = os.dup(self._to), os.dup(self._from)
        self._messages = self._read()
        self._seen: list[dict[str, Any]] = []
        self._pages: list[tuple[str, Page]] = []
        self._kept: list[tuple[str, Page]] = []
        self._empty = profile / "empty.html"
        self._empty.touch()
        self._count = 0

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

    def new_page(self) -> "Page":
        """A page with cookies of its own."""
        if self._kept:
            self._pages.append(self._kept.pop())
            return self._pages[-1][1]
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"])
        self._pages.append((context, page))
        return page

    def close_pages(self) -> None:
        """Close all pages, and forget what they said.

        One stays for the next test, without cookies and at an empty place: another takes as long as
        five loads of a page.
        """
        while len(self._pages) > 1:
            self.call("Target.disposeBrowserContext", browserContextId=self._pages.pop()[0])
        for _, page in self._pages:
            page.forget(self._empty)
        self._kept, self._pages = self._kept + self._pages, []
        self._seen.clear()

    def _read(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while got := os.read(self._from, 1 << 20):
            *whole, rest = (rest + got).split(b"\0")
            yield from map(json.loads, whole)
        raise AssertionError("the browser ended")

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """What a method of the protocol gives."""
        self._count += 1
        number = self._count
        command: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        answer = self.wait_for(lambda one: one.get("id") == number)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is wanted and was not taken yet; the others are kept."""
        for at, one in enumerate(self._seen):
            if wanted(one):
                return self._seen.pop(at)
        for one in self._messages:
            if wanted(one):
                return one
            self._seen.append(one)
        raise AssertionError

    def take(self, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """The messages so far that are wanted."""
        taken = [one for one in self._seen if wanted(one)]
        self._seen = [one for one in self._seen if not wanted(one)]
        return taken


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self._call("Page.enable")
        self._call("Runtime.enable")
        self._call("Log.enable")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def _is(self, message: dict[str, Any], *methods: str) -> bool:
        return message.get("sessionId") == self._session and message.get("method") in methods

    def looks(
        self, place: Path | str, looks: Sequence[tuple[int, str]] = LOOKS
    ) -> Iterator[tuple[int, str]]:
        """Load a file or URL, and show it at each width and in each scheme."""
        for number, look in enumerate(looks):
            self._resize(*look) if number else self.open(place, *look)
            yield look

    def _resize(self, width: int, scheme: str) -> None:
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                   deviceScaleFactor=1, mobile=False)  # fmt: skip
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=media)

    def open(self, place: Path | str, width: int = 1280, scheme: str = "light") -> None:
        """Load a file or URL at a width in pixels, for ``light`` or ``dark``."""
        self._resize(width, scheme)
        self._browser.take(lambda one: self._is(one, "Page.loadEventFired"))
        self._call("Page.navigate", url=place.as_uri() if isinstance(place, Path) else place)
        self.wait_until_loaded()

    def forget(self, empty: Path) -> None:
        """Leave for an empty file, without cookies."""
        self._call("Network.clearBrowserCookies")
        self.open(empty)
        self._call("Log.clear")

    def sign_in(self, link: str) -> None:
        """Open a one-time link; its page goes on by itself."""
        self.open(link)
        self.wait_until_loaded()

    def wait_until_loaded(self) -> None:
        """Wait for the load of the page that a step before has begun."""
        self._browser.wait_for(lambda one: self._is(one, "Page.loadEventFired"))

    def follow(self, step: Callable[[], object]) -> None:
        """Do what leads to another page, and wait for it."""
        self._browser.take(lambda one: self._is(one, "Page.loadEventFired"))
        step()
        self.wait_until_loaded()

    def click(self, selector: str) -> None:
        """Click an element that leads to another page."""
        found = json.dumps(selector)
        self.follow(lambda: self.run(f"document.querySelector({found}).click()"))

    def text(self, selector: str) -> str:
        """The text of an element, once there is one that has any."""
        look = f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"
        end = time.monotonic() + SECONDS
        while not (shown := self.run(look)):
            assert time.monotonic() < end, f"there is no {selector}"
            time.sleep(0.05)
        return str(shown)

    def complaints(self) -> list[str]:
        """Errors and refusals that the page has logged since the last call."""
        found = self._browser.take(
            lambda one: self._is(one, "Log.entryAdded", "Runtime.exceptionThrown")
        )
        return [json.dumps(one["params"]) for one in found]

    def axe(self) -> list[str]:
        """What axe finds wrong, with all details unfolded; by each of its rules once for a page."""
        assert _AXE is not None
        assert _AXE.origin is not None
        self.run("for (const one of document.querySelectorAll('details')) one.open = true")
        # The page's script sees new sizes with the next frame.
        self.run("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        if self.run("'axe' in window"):
            options["runOnly"] = _RULES_OF_A_LOOK
        else:
            self.run((Path(_AXE.origin).parent / "axe.min.js").read_text(encoding="utf-8"))
        found: list[str] = self.run(
            f"axe.run({json.dumps(options)}).then((found) => found.violations.map((one) => "
            "`${one.id}: ${one.nodes[0].html} ${one.nodes[0].failureSummary}`))"
        )
        return found

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        found: int = self.run(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Write what is seen as PNG."""
        got = self._call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(got["data"]))

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
