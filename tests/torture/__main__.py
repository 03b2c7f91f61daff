"""Everything that is too long for the suite: ``python -m tests.torture [MODULE ...] [--count N]``.

A module of this folder takes part by having ``run(count) -> (passed, failed)``, perhaps with what
was not tried (``Figures``), ``FULL``, the count of a full run, and ``SAMPLE``, that of the suite;
the first line of its docstring says what it is. The exit code is 1 if anything failed, was not
tried, or nothing was compared.
"""

import argparse
import os
import pkgutil
import sys
import time
import traceback
from importlib import import_module
from types import ModuleType

from tests.torture.processes import Figures

PACKAGE = "tests.torture"


def remove_settings() -> None:
    """No keys, no settings of the person who runs this: as in the suite."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN")) or name.startswith(("GIT_", "DIFFCOURT_")):
            del os.environ[name]
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def modules() -> dict[str, ModuleType | None]:
    """The modules that take part, by name; None for one that cannot be imported."""
    folder = import_module(PACKAGE).__path__
    names = [m.name for m in pkgutil.iter_modules(folder) if not m.name.startswith(("_", "test_"))]
    found = {name: _imported(name) for name in names}
    return {name: module for name, module in found.items() if not module or hasattr(module, "run")}


def _imported(name: str) -> ModuleType | None:
    try:
        return import_module(f"{PACKAGE}.{name}")
    except Exception:
        traceback.print_exc()
        return None


def measure(
    module: ModuleType | None, count: int | None, samples: int | None
) -> tuple[Figures, float]:
    """Run one; a crash counts as one failure, and so does it that nothing was compared."""
    if module is None:
        return Figures(0, 1), 0.0
    start = time.monotonic()
    try:
        if count is None:
            count = module.SAMPLE * samples if samples else module.FULL
        figures = Figures(*module.run(count))
    except Exception:
        traceback.print_exc()
        figures = Figures(0, 1)
    if not figures.passed + figures.failed and not figures.untried:
        print("  FAILED: nothing was compared", flush=True)
        figures = Figures(0, 1)
    return figures, time.monotonic() - start


def main(argv: list[str]) -> int:
    """Run what was asked for, and print the figures."""
    known = modules()
    parser = argparse.ArgumentParser(prog=f"python -m {PACKAGE}", allow_abbrev=False)
    parser.add_argument("module", nargs="*", metavar="MODULE", help=f"of {', '.join(known)}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--count", type=int, help="how many cases of each; default: all")
    size.add_argument("--samples", type=int, help="as many times the cases that the suite runs")
    args = parser.parse_args(argv)
    if unknown := set(args.module) - known.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    remove_settings()
    measured = []
    for name in args.module or known:
        print(f"{name} ...", flush=True)
        title = (getattr(known[name], "__doc__", None) or name).strip().splitlines()[0]
        measured.append((title, *measure(known[name], args.count, args.samples)))
    print(f"\n{'passed':>7} {'failed':>7} {'seconds':>8}  what")
    for title, figures, seconds in measured:
        print(f"{figures.passed:7} {figures.failed:7} {seconds:8.1f}  {title}")
    untried = [f"not tried: {title}: {why}" for title, f, _ in measured for why in f.untried]
    print(*untried, sep="\n", end="\n" if untried else "")
    passed, failed = sum(f.passed for _, f, _ in measured), sum(f.failed for _, f, _ in measured)
    print(f"{passed} passed, {failed} failed, {len(untried)} not tried")
    return 1 if failed or untried else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
