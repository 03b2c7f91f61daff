"""What a review keeps of what models report, and what it costs: scripted replies over the strict server.

    python bench/model_review.py [--reviews 5]

Prints each figure with its goal: true findings with the usual slips that reach the verdict, invented ones
that do, duplicates, invented critical findings that block though a colleague refutes them, requests before a
specialist's report, a team's tokens and money over those of one agent, and required checks that do not run.
Exits 1 when a goal is missed. A team's cost counts lead, four specialists, judge and summary, that of
one agent the agent and the judge; a team of one model has all specialists on the lead's.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.providers import model_review_kit as kit

ONE_MODEL = "agents: {qa: {model: strong}, docs: {model: strong}, architecture: {model: strong}}\n"
"""All specialists on the lead's model, so that all read one cached opening."""


class Table:
    """Figures, goals and what was measured."""

    def __init__(self) -> None:
        self.missed = 0

    def row(self, figure: str, goal: str, measured: str, held: bool) -> None:
        self.missed += not held
        print(f"{figure:<66} {goal:>10} {measured:>12} {'' if held else 'missed'}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reviews", type=int, default=5, help="of 40 true reports each")
    args = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, kinds in (("usual", kit.KINDS), ("rare", tuple(kit.RARE_SLIPS))):
            found = list(kit.slips(folder / what, args.reviews, kinds))
            true = [(one.slip, held) for one, held in found if one.slip != "invented"]
            false = [held for one, held in found if one.slip == "invented"]
            share = sum(held for _, held in true) / len(true)
            table.row(
                f"true findings with {what} slips in the verdict, of {len(true)}",
                ">= 98%",
                f"{share:.1%}",
                share >= 0.98,
            )
            for slip, lost in sorted(Counter(slip for slip, held in true if not held).items()):
                print(f"    lost: {slip}: {lost} of {sum(one == slip for one, _ in true)}")
            table.row(
                f"invented quotes in the verdict, of {len(false)}",
                "0",
                str(sum(false)),
                not sum(false),
            )
        pairs = kit.duplicates(folder / "duplicates")
        table.row(
            "duplicate pairs of ten defects that four agents report", "0", str(pairs), not pairs
        )
        blocking = kit.refuted(folder / "refuted", 4 * args.reviews)
        table.row(
            f"refuted invented critical findings that block, of {40 * args.reviews}",
            "0",
            str(blocking),
            not blocking,
        )
        agreed = kit.refuted(folder / "agreed", 1, agreed=True)
        table.row(
            "critical findings of two agents that block, of 10", "10", str(agreed), agreed == 10
        )
        team, single = (kit.cost(folder / each, each) for each in ("team", "single"))
        alike = kit.cost(folder / "alike", "team", ONE_MODEL)
        table.row(
            "requests of a specialist until it reports", "2", str(team.requests), team.requests <= 2
        )
        for whose, own in (("a team", team), ("a team of one model", alike)):
            for what, ratio in (
                ("uncached input tokens", own.uncached / single.uncached),
                ("US dollars", own.usd / single.usd),
            ):
                figure = f"{what} of {whose} over one agent"
                table.row(figure, "<= 1.5", f"{ratio:.2f}", ratio <= 1.5)
        missing = kit.checks_not_run(folder / "checks")
        total = sum(missing.values())
        table.row(f"required checks not run, {len(missing)} reviews", "0", str(total), not total)
        for script, count in missing.items():
            if count:
                print(f"    {script}: {count}")
    return int(table.missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
