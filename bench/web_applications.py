"""What the checks of Python find in small web applications of our own: recall, precision, F1.

    python bench/web_applications.py [--misses]

Each application of ``tests/diffchecks/taint/applications`` is analyzed twice, vulnerable and fixed. A
labeled line of the vulnerable variant counts as found when a finding of its class stands on it; any
other finding, and each one in the fixed variant, is a false alarm.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.diffchecks.taint.web_applications import APPLICATIONS, Outcome, measure


def row(name: str, found: int, missed: int, false: int) -> str:
    """One line of the table."""
    recall = found / (found + missed) if found + missed else 1.0
    precision = found / (found + false) if found + false else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f"{name:18} {found:5} {missed:6} {false:5}   {recall:6.2f} {precision:9.2f} {f1:5.2f}"


def main() -> None:
    """Print a table by framework and one by class."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--misses", action="store_true", help="list what is missed or false")
    misses = parser.parse_args().misses
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, application in enumerate(APPLICATIONS):
            outcomes.append(measure(application, Path(folder) / str(number)))
    print(f"{'':18} found missed false   recall precision    F1")
    tallies: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        for kind, places in (
            ("found", outcome.found), ("missed", outcome.missed), ("false", outcome.false)
        ):  # fmt: skip
            for place in places:
                for name in (outcome.application.group, place.klass, "all"):
                    tallies.setdefault(name, Counter())[kind] += 1
                if misses and kind != "found":
                    print(f"  {kind}: {outcome.application.name} {place}")
    for name in sorted(tallies):
        tally = tallies[name]
        print(row(name, tally["found"], tally["missed"], tally["false"]))


if __name__ == "__main__":
    main()
