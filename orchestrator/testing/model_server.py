"""``python -m orchestrator.testing.model_server``: run ``tests/model_server``, of a clone only."""

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    if not (ROOT / "tests" / "model_server").is_dir():
        raise SystemExit("Start the model server in a clone of Diffcourt: it belongs to the tests.")
    sys.path.insert(0, str(ROOT))
    runpy.run_module("tests.model_server", run_name="__main__", alter_sys=True)
