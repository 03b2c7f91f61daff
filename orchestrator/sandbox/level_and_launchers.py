"""The sandbox of this process: its level, decided before the first program, and its launchers."""

import atexit
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.cgroups import Cgroup, shared_limits
from orchestrator.sandbox.launcher_client import Launcher, Level, NotStartedError
from orchestrator.sandbox.process_confinement import SYSTEM_PROGRAMS, is_available, program_files
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits

Setting = Literal["auto", "bubblewrap", "landlock", "off"]
MAX_LAUNCHERS = 8
"""Idle launchers above this number are ended."""


class Sandbox:
    """Chooses how programs are confined, and a launcher for each.

    The level is the best available one, or the configured one. It is decided once, before any
    program runs: a program that cannot be confined later is refused, never run with less. The same
    holds for cgroup limits.

    Args:
        limits: what all programs may use together, where cgroups are available.

    Attributes:
        limits: as given, or derived from the machine's memory.
        level_reason: why the level is not the best one; empty when it is.
        missing_limits_reason: why some cgroup controllers are not in force; empty when all are.
    """

    def __init__(self, limits: ResourceLimits | None = None) -> None:
        self.limits = limits or shared_limits()
        self._controllers: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._setting: Setting = "auto"
        self._level: Level | None = None
        self.level_reason = ""
        self._launchers: list[Launcher] = []
        self.missing_limits_reason = ""

    @property
    def controllers(self) -> tuple[str, ...]:
        """The cgroup controllers in force."""
        _ = self.level
        return self._controllers

    def new_cgroup(self) -> Cgroup:
        """Create a cgroup for a program outside of the launchers; the caller closes it."""
        controllers, cgroup = self.controllers, Cgroup(self.limits)
        try:
            cgroup.require(controllers)
        except SandboxError:
            cgroup.close()
            raise
        return cgroup

    @property
    def level(self) -> Level:
        """The level in use."""
        with self._lock:
            if self._level is None:
                self._decide(())
            assert self._level is not None
            return self._level

    @property
    def expected(self) -> Level:
        """The level in use; before it is decided, the one that will be tried first."""
        return self._level or self._best_level()

    def use(self, setting: Setting) -> None:
        """Run programs at that level from now on."""
        with self._lock:
            if setting != self._setting:
                self.close()
                self._setting = setting
        if setting != "auto":
            _ = self.level

    def start(self, reads: Sequence[Path] = ()) -> None:
        """Start the first launcher ahead of its first program, which raises its error."""
        with self._lock:
            if not self._usable():
                self._launchers.append(
                    Launcher(self._best_level(), _resolve(reads), limits=self.limits)
                )

    def launcher_for(self, permissions: Permissions, program: str) -> Launcher:
        """The launcher that starts a program with these permissions."""
        reads = [*_resolve((*permissions.reads, *permissions.executes)), *_program_paths(program)]
        writes = _resolve(permissions.writes)
        with self._lock:
            for launcher in self._usable():
                if self._level is not None and launcher.can_see(reads, writes):
                    return launcher
            if self._level is None:
                self._decide(reads)
                return self.launcher_for(permissions, program)
            self._end_idle()
            launcher = Launcher(self._level, reads, writes, self.limits)
            try:
                launcher.wait()
                launcher.cgroup.require(self._controllers)
            except SandboxError:
                launcher.close()
                raise
            self._launchers.append(launcher)
            return launcher

    def close(self) -> None:
        """End all launchers; the level is decided again with the next program."""
        with self._lock:
            for launcher in self._launchers:
                launcher.close()
            self._launchers, self._level, self.level_reason = [], None, ""

    def _usable(self) -> list[Launcher]:
        """The launchers that serve this process; a fork of ours begins with none."""
        usable = [it for it in self._launchers if it.owner == os.getpid() and it.alive]
        for launcher in self._launchers:
            if launcher not in usable:
                launcher.close()
        self._launchers = usable
        return usable

    def _end_idle(self) -> None:
        """End the oldest idle launcher, when there are many."""
        idle = [launcher for launcher in self._launchers if not launcher.busy]
        if len(self._launchers) >= MAX_LAUNCHERS and idle:
            self._launchers.remove(idle[0])
            idle[0].close()

    def _best_level(self) -> Level:
        if self._setting == "off" or not is_available():
            return "none"
        if self._setting == "landlock" or bubblewrap.find_bwrap() is None:
            return "landlock"
        return "bubblewrap"

    def _decide(self, reads: Sequence[Path]) -> None:
        level = self._best_level()
        if self._setting in {"bubblewrap", "landlock"} and level != self._setting:
            raise SandboxError(
                f"config/defaults.yaml requires the sandbox {self._setting}, which is not "
                "available here; `diffcourt doctor` says what is missing"
            )
        if level == "landlock" and self._setting == "auto":
            self.level_reason = "bubblewrap is not installed"
        self.start(reads)
        try:
            self._launchers[0].wait()
        except NotStartedError as error:
            self.close()
            if level != "bubblewrap" or self._setting != "auto":
                raise
            self.level_reason, level = str(error), "landlock"
            self._launchers = [Launcher(level, limits=self.limits)]
            self._launchers[0].wait()
        self._controllers = self._launchers[0].cgroup.controllers
        self.missing_limits_reason = self._launchers[0].cgroup.missing_reason
        self._level = level


def _resolve(paths: Sequence[Path]) -> list[Path]:
    return [path.resolve() for path in paths]


def _program_paths(program: str) -> list[Path]:
    """Paths that a program needs which is neither the system's nor part of our installation."""
    if program.startswith(
        tuple(
            f"{directory}/"
            for directory in (*SYSTEM_PROGRAMS, *bubblewrap.installation_directories())
        )
    ):
        return []
    return [Path(program), *map(Path, program_files(program))]


SANDBOX = Sandbox()
"""One per process, as the processes that it starts are."""
atexit.register(SANDBOX.close)
