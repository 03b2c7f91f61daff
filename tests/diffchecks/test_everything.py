"""What the process that forks the workers has made before the first of them."""

import importlib
import shutil
from pathlib import Path

from diffchecks import DATA
from diffchecks.taint.library_models import _load, load
from orchestrator.app.check_worker_startup import PRELOADED
from orchestrator.catalog.data_file_layers import make_overlay, read_shipped_layer
from orchestrator.code_review.analyzers import check_data_files


def test_preloaded_modules_exist() -> None:
    for name in PRELOADED:
        importlib.import_module(name)


def test_the_shipped_library_models_are_read_once_from_any_directory(tmp_path: Path) -> None:
    importlib.import_module("diffchecks.worker_preload")
    before = _load.cache_info()
    copies = shutil.copytree(DATA / "taint", tmp_path / "taint")
    files = sorted(map(str, copies.glob("*.yaml")))
    load(files)
    after = _load.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
    changed = Path(files[0])
    changed.write_bytes(changed.read_bytes() + b"\n")
    load(files)
    assert _load.cache_info().misses == before.misses + 1


def test_a_repositorys_own_data_files_are_written_and_the_installations_stay(
    tmp_path: Path,
) -> None:
    own = {"config/taint/flask.yaml": b"a: {}\n", "config/taint/ours.yaml": b"b: {}\n"}
    shipped, folder = read_shipped_layer(), tmp_path / "taint"
    installed = {
        Path(path).name: Path(shipped.locations[path])
        for path in shipped.files
        if path.startswith("config/taint/")
    }
    alone = check_data_files.write("taint", [shipped], tmp_path)
    assert [Path(path) for path in alone] == sorted(installed.values())
    assert not folder.exists()
    layers = [shipped, make_overlay(".diffcourt", own)]
    both = [Path(path) for path in check_data_files.write("taint", layers, tmp_path)]
    written = {path.name: path.read_bytes() for path in both if path.parent == folder}
    assert written == {"flask.yaml": b"a: {}\n", "ours.yaml": b"b: {}\n"}
    assert {path.name for path in both} == {*installed, "ours.yaml"}
