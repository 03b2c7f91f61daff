"""The sandbox of this process: its level, decided before the first program, and its wardens."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.cgroups.cgroup import Group, together
from orchestrator.sandbox.confinement import PROGRAMS, available, parts
from orchestrator.sandbox.launcher import Level, NotStartedError, Warden, installed
from orchestrator.sandbox.program_policy import Box, Limits

Setting = Literal["auto", "bubblewrap", "landlock", "none-for-our-own-analyzers"]
MOST_ROOMS = 8
"""That many are kept for the next program."""


class Sandbox:
    """Wardens, and which of them a program is given to.

    The level is the best there is, or the one that is asked for. It is decided once, before any
    program runs: what fails later is refused, and never run with less. The same holds for limits
    by control groups.

    Args:
        limits: what all programs may use together, where control groups are there.

    Attributes:
        limits: as given, or what the machine has to give.
        why_unlimited: why not all of them hold.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or together()
        self._holds: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._setting: Setting = "auto"
        self._level: Level | None = None
        self._why = ""
        self._wardens: list[Warden] = []
        self.why_unlimited = ""

    @property
    def holds(self) -> tuple[str, ...]:
        """The controllers of the control groups in use.

        Raises:
            SandboxError: as for ``level``.
        """
        _ = self.level
        return self._holds

    def new_group(self) -> Group:
        """A control group for what runs in a room of its own, which its user closes.

        Raises:
            SandboxError: as for ``level``, or a limit holds no longer.
        """
        held, group = self.holds, Group(self.limits)
        try:
            group.require(held)
        except SandboxError:
            group.close()
            raise
        return group

    @property
    def level(self) -> Level:
        """The level in use.

        Raises:
            SandboxError: the one that was asked for cannot be had.
        """
        with self._lock:
            if self._level is None:
                self._decide(())
            assert self._level is not None
            return self._level

    @property
    def expected(self) -> Level:
        """The level in use; before it is decided, the one that will be tried first."""
        return self._level or self._best()

    @property
    def why(self) -> str:
        """Why it is not the best level; empty when it is."""
        return self._why

    def use(self, setting: Setting) -> None:
        """Have programs run at that level from now on.

        Raises:
            SandboxError: it cannot be had here.
        """
        with self._lock:
            if setting != self._setting:
                self.close()
                self._setting = setting
        if setting != "auto":
            _ = self.level

    def start(self, reads: Sequence[Path] = ()) -> None:
        """Start the first warden ahead of its first program; a failure shows with that."""
        with self._lock:
            if not self._usable():
                self._wardens.append(Warden(self._best(), _real(reads), limits=self.limits))

    def warden(self, box: Box, program: str) -> Warden:
        """The warden that a program in that box is given to.

        Raises:
            SandboxError: there is none, and none can be started.
        """
        reads = [*_real(box.reads), *_parts(program)]
        writes = _real(box.writes)
        with self._lock:
            for warden in self._usable():
                if self._level is not None and warden.has(reads, writes):
                    return warden
            if self._level is None:
                self._decide(reads)
                return self.warden(box, program)
            self._make_room()
            warden = Warden(self._level, reads, writes, self.limits)
            try:
                warden.wait()
                warden.group.require(self._holds)
            except SandboxError:
                warden.close()
                raise
            self._wardens.append(warden)
            return warden

    def close(self) -> None:
        """End everything; the next program decides anew."""
        with self._lock:
            for warden in self._wardens:
                warden.close()
            self._wardens, self._level, self._why = [], None, ""

    def _usable(self) -> list[Warden]:
        """The wardens that serve this process; a fork of ours begins with none."""
        usable = [it for it in self._wardens if it.owner == os.getpid() and it.alive]
        for warden in self._wardens:
            if warden not in usable:
                warden.close()
        self._wardens = usable
        return usable

    def _make_room(self) -> None:
        """End the oldest warden that has nothing to do, when there are many."""
        idle = [warden for warden in self._wardens if not warden.busy]
        if len(self._wardens) >= MOST_ROOMS and idle:
            self._wardens.remove(idle[0])
            idle[0].close()

    def _best(self) -> Level:
        if self._setting == "none-for-our-own-analyzers" or not available():
            return "none"
        if self._setting == "landlock" or bubblewrap.find() is None:
            return "landlock"
        return "bubblewrap"

    def _decide(self, reads: Sequence[Path]) -> None:
        level = self._best()
        if self._setting in {"bubblewrap", "landlock"} and level != self._setting:
            raise SandboxError(
                f"config/defaults.yaml asks for the sandbox {self._setting}, which is not possible "
                "here; `diffcourt doctor` says what is missing"
            )
        if level == "landlock" and self._setting == "auto":
            self._why = "bubblewrap is not installed"
        self.start(reads)
        try:
            self._wardens[0].wait()
        except NotStartedError as fault:
            self.close()
            if level != "bubblewrap" or self._setting != "auto":
                raise
            self._why, level = str(fault), "landlock"
            self._wardens = [Warden(level, limits=self.limits)]
            self._wardens[0].wait()
        self._holds = self._wardens[0].group.holds
        self.why_unlimited = self._wardens[0].group.why
        self._level = level


def _real(paths: Sequence[Path]) -> list[Path]:
    return [path.resolve() for path in paths]


def _parts(program: str) -> list[Path]:
    """What a program that is neither the system's nor installed with us needs of its own."""
    if program.startswith(tuple(f"{folder}/" for folder in (*PROGRAMS, *installed()))):
        return []
    return [Path(program), *map(Path, parts(program))]


SANDBOX = Sandbox()
"""One per process, as the processes that it starts are."""
atexit.register(SANDBOX.close)
