"""What the process that forks the workers has made before the first of them."""

import importlib
from pathlib import Path

from orchestrator.app.check_worker_startup import PRELOADED
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.checks.taint.library_models import _load, load
from orchestrator.code_review.analyzers import check_data_files


def test_preloaded_modules_exist() -> None:
    for name in PRELOADED:
        importlib.import_module(name)


def test_the_shipped_library_models_are_read_once_from_any_directory(tmp_path: Path) -> None:
    importlib.import_module("orchestrator.checks.worker_preload")
    before = _load.cache_info()
    files = check_data_files.write(
        check_data_files.TAINT, [read_shipped_layer()], tmp_path / "taint"
    )
    load(files)
    after = _load.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
    changed = Path(files[0])
    changed.write_bytes(changed.read_bytes() + b"\n")
    load(files)
    assert _load.cache_info().misses == before.misses + 1
