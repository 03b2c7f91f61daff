"""What a review keeps of what models report, and what it costs: scripted replies over the strict server.

    python bench/model_review.py [--reviews 5]

Prints each figure with its goal: true findings with the usual slips that reach the verdict, invented ones
that do, duplicates, invented critical findings that block though a colleague refutes them, requests before a
specialist's report, a team's tokens and money over those of one agent, input tokens of a trivial change, and required checks that do not run.
Exits 1 when a goal is missed. All tokens and money count the judge. A team is the generalist with security
beside it, as code forms it; for comparison, ``--pattern team``: a lead, the specialists concerned and a summary, also with
three on a cheap model, which pay for an opening of their own (docs/decisions/0015-use-one-model-for-a-team.md).
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.providers import model_review_kit as kit

CHEAP_THREE = "agents: {qa: {model: fast}, docs: {model: fast}, architecture: {model: fast}}\n"
"""Two models in a team."""

GOALS = (21_918, 42_196), (28_324, 60_000)
"""Input tokens of one agent and of a team, uncached and all."""
THOROUGH = "effort: {level: thorough}\n"


class Table:
    """Figures, goals and what was measured."""

    def __init__(self) -> None:
        self.missed = 0

    def row(self, figure: str, goal: str, measured: str, held: bool) -> None:
        self.missed += not held
        print(f"{figure:<66} {goal:>10} {measured:>12} {'' if held else 'missed'}", flush=True)

    def ratios(self, whose: str, own: kit.Cost, single: kit.Cost, *, goals: bool = False) -> None:
        """Its cost over that of one agent; without goals for comparison."""
        for what, ratio, goal in (
            ("uncached input tokens", own.uncached / single.uncached, 1.5),
            ("US dollars", own.usd / single.usd, 1.2),
        ):
            figure = f"{what} of {whose} over one agent"
            told = f"<= {goal}" if goals else ""
            self.row(figure, told, f"{ratio:.2f}", not goals or ratio <= goal)


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
            "invented findings of two of one family that block, of 10", "0", str(agreed), not agreed
        )
        led, single = (kit.cost(folder / each, each) for each in ("team", "single"))
        team = kit.cost(folder / "formed", None, THOROUGH)
        mixed = kit.cost(folder / "mixed", "team", CHEAP_THREE)
        table.row(
            "requests of a specialist until it reports", "2", str(team.requests), team.requests <= 2
        )
        for whose, cost, before in (("one agent", single, GOALS[0]), ("a team", team, GOALS[1])):
            for what, goal, tokens in zip(
                ("uncached", "all"), before, (cost.uncached, cost.tokens), strict=True
            ):
                figure = f"{what} input tokens of {whose}"
                table.row(figure, f"<= {goal:,}", f"{tokens:,}", tokens <= goal)
        table.ratios("a team", team, single, goals=True)
        table.ratios("a lead and the specialists concerned", led, single)
        table.ratios("these, three on fast,", mixed, single)
        for looks, what in ((0, "a report at once"), (1, "one look-up")):
            tokens = kit.trivial_tokens(folder / f"trivial{looks}", looks=looks)
            figure = f"input tokens of a change of 4 lines, {what}"
            table.row(figure, "<= 15,000", f"{tokens:,}", tokens <= 15_000)
        missing = kit.checks_not_run(folder / "checks")
        total = sum(missing.values())
        table.row(f"required checks not run, {len(missing)} reviews", "0", str(total), not total)
        for script, count in missing.items():
            if count:
                print(f"    {script}: {count}")
    return int(table.missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
