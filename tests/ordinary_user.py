"""Root without what sets it apart from an ordinary user: it may read and write every file."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.sandbox import kernel_calls
from orchestrator.sandbox.kernel_calls import _Header, _libc, _prctl, _Sets

# A program that root starts gets no rights for it; access(2) asks for the rights that we use.
_ROOT_IS_ORDINARY = 1 | kernel_calls._KEEP_ACROSS_SETUID


def _set_rights(rights: int) -> None:
    words = [rights & 0xFFFFFFFF, rights >> 32]
    permitted = _held("CapPrm")
    header = _Header(kernel_calls._CAPABILITIES_V3, 0)
    sets = _Sets(words[0], permitted & 0xFFFFFFFF, 0, words[1], permitted >> 32, 0)
    kernel_calls._checked(_libc.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")


def _held(kind: str) -> int:
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith(kind))


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """For this thread, the threads that it makes and the programs that it starts."""
    held = _held("CapEff")
    _prctl(kernel_calls._SECUREBITS, _ROOT_IS_ORDINARY)
    _set_rights(0)
    try:
        yield
    finally:
        _set_rights(held)
        _prctl(kernel_calls._SECUREBITS, 0)
