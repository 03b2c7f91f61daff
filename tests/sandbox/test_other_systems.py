"""What the sandbox leaves out on a system whose C library has no ``prctl``."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from orchestrator.sandbox import kernel_calls


def test_kernel_calls_load_and_do_nothing_without_prctl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: SimpleNamespace())
    spec = importlib.util.spec_from_file_location("kernel_calls_elsewhere", kernel_calls.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    module.hide_from_other_processes()
    module.become_subreaper()
    module.die_with_parent()
