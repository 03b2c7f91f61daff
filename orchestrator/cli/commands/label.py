"""``diffcourt label``: people say what they think of runs or items, one at a time."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct, field, to_builtins

from orchestrator.cli.arguments import add_repo, count, name_of
from orchestrator.cli.commands.rubric.arguments import add_items, rubric_path
from orchestrator.cli.output import emit, width_of
from orchestrator.errors import EXIT_OK, InputError

if TYPE_CHECKING:
    from orchestrator.engine.types import Rubric
    from orchestrator.tuning.labels import Label, Value
    from orchestrator.tuning.scored_items import Item

ANSWERS: dict[str, dict[str, Value]] = {
    "accept": {"a": "accept", "r": "reject"},
    "verdict": {"m": "merge", "n": "needs_changes", "b": "block"},
    "1-5": {str(n): float(n) for n in range(1, 6)},
}
MOST_TEXT = 4_000
_WORDS = "s skip, < back, # note, q quit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = (
        "Go through past runs or items and say what you think. Every answer is written at\n"
        "once, so you can stop at any time and go on later. The judge's score is not\n"
        "shown unless you ask for it."
    )
    add_items(parser, rubric=False, many="*")
    parser.add_argument("--runs", action="store_true", help="label this repository's past runs")
    add_repo(parser)
    parser.add_argument(
        "--labels", type=Path, default=Path("labels.jsonl"), metavar="FILE",
        help="where labels are kept; default labels.jsonl",
    )  # fmt: skip
    parser.add_argument("--rater", type=name_of("yourself"), required=True, metavar="NAME")
    parser.add_argument("--answers", choices=tuple(ANSWERS), default="accept")
    parser.add_argument("--rubric", metavar="RUBRIC", help="the rubric, for the options below")
    parser.add_argument("--criteria", action="store_true", help="ask for each criterion as well")
    parser.add_argument("--show-score", action="store_true", help="show the judge's scores")
    parser.add_argument(
        "--next", type=count, metavar="N", help="only the N items that would teach most"
    )
    parser.add_argument("--list", action="store_true", help="print the items, ask nothing")


def run(args: argparse.Namespace) -> int:
    """Ask, and write each answer at once."""
    from orchestrator.tuning.labels import read_labels
    from orchestrator.tuning.scored_items import read_items

    if (args.next or args.criteria or args.show_score) and not args.rubric:
        raise InputError("--next, --criteria and --show-score need --rubric RUBRIC")
    items: list[Item] = _runs(args.repo) if args.runs else []
    if args.items:
        items += read_items(args.items, args.scale)
    if not items:
        raise InputError("nothing to label; name ITEMS, or say --runs for past runs")
    labels = read_labels([args.labels]) if args.labels.exists() else []
    done = {x.item for x in labels if x.rater == args.rater}
    first = {i.id: i for i in reversed(items) if not i.repeat}
    todo = [first[name] for name in _order(args, items, labels) if name not in done]
    if args.list:
        from orchestrator.report.terminal_escaping import escape_unprintable

        emit("".join(f"{escape_unprintable(i.id)}\n" for i in todo), sys.stdout)
        return EXIT_OK
    session = Session(args, todo, labels, sys.stdin, sys.stdout)
    session.go()
    return EXIT_OK


def _runs(repo: Path | None) -> list[Item]:
    """Finished runs of the repository as items."""
    from orchestrator.app.run_listing import list_runs, show_run
    from orchestrator.tuning.scored_items import item_from_verdict

    shown = (show_run(repo, info.run_id) for info in list_runs(repo) if info.verdict)
    return [item_from_verdict(to_builtins(s.verdict)) for s in shown if s.verdict]


def _order(args: argparse.Namespace, items: list[Item], labels: list[Label]) -> list[str]:
    """Item ids in the order to ask them."""
    names = list(dict.fromkeys(i.id for i in items if not i.repeat))
    if not args.next:
        return names
    from orchestrator.cli.commands.rubric.arguments import need_numpy

    need_numpy()
    from orchestrator.tuning.active_learning import select_items_to_label
    from orchestrator.tuning.labels import infer_scale
    from orchestrator.tuning.rubric_file import read_rubric
    from orchestrator.tuning.training_data import build_training_data
    from orchestrator.tuning.tune import SEED

    rubric = read_rubric(rubric_path(args.rubric))
    known = [x for x in labels if x.item in set(names)]
    data = build_training_data(rubric, items, known, infer_scale(known, None)) if known else None
    return select_items_to_label(rubric, items, data, SEED, args.next)


class Session(Struct):
    """One session at the terminal.

    Attributes:
        labels: all labels of the file; this session's are added as they are given.
        given: positions in ``todo`` that were answered in this session, in order.
    """

    args: argparse.Namespace
    todo: list[Item]
    labels: list[Label]
    source: TextIO
    out: TextIO
    given: list[int] = field(default_factory=list)

    def go(self) -> None:
        """Ask until all is answered or the person stops."""
        at = 0
        while at < len(self.todo):
            step = self._ask(at)
            if step is None:
                break
            at = step
        emit(f"{len(self.given)} labeled in this session; {self.args.labels}\n", self.out)

    def _ask(self, at: int) -> int | None:
        """Ask for one item; the next position, or None to stop."""
        item, answers = self.todo[at], ANSWERS[self.args.answers]
        self._show(item, at)
        note = ""
        while True:
            said = self._line(f"{', '.join(f'{k} {v}' for k, v in answers.items())}; {_WORDS}: ")
            if said is None or said == "q":
                return None
            if said == "s":
                return at + 1
            if said == "<":
                return self._back(at)
            if said.startswith("#"):
                note = said[1:].strip()
            elif said in answers:
                criteria = self._criteria() if self.args.criteria else {}
                self._keep(at, item, answers[said], criteria, note)
                return at + 1
            else:
                emit(f"{said!r} is none of these\n", self.out)

    def _back(self, at: int) -> int:
        """Take the last answer of this session back."""
        if not self.given:
            emit("nothing to go back to in this session\n", self.out)
            return at
        last = self.given.pop()
        gone = self.todo[last].id
        self.labels = [x for x in self.labels if (x.item, x.rater) != (gone, self.args.rater)]
        self._write()
        return last

    def _keep(
        self, at: int, item: Item, value: Value, criteria: dict[str, Value], note: str
    ) -> None:
        from orchestrator.tuning.labels import Label

        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.labels.append(Label(item.id, self.args.rater, value, criteria, note, now))
        self.given.append(at)
        self._write()

    def _write(self) -> None:
        from orchestrator.tuning.labels import write_labels

        write_labels(self.args.labels, self.labels)

    def _criteria(self) -> dict[str, Value]:
        """Answers per criterion; an empty line leaves one out."""
        answers = ANSWERS[self.args.answers]
        out: dict[str, Value] = {}
        for criterion in self._rubric().criteria:
            said = self._line(f"  {criterion.id} ({criterion.description}): ")
            while said not in {None, "", *answers}:
                said = self._line(f"  one of {', '.join(answers)}, or empty: ")
            if said:
                out[criterion.id] = answers[said]
        return out

    def _rubric(self) -> Rubric:
        from orchestrator.tuning.rubric_file import read_rubric

        return read_rubric(rubric_path(self.args.rubric))

    def _show(self, item: Item, at: int) -> None:
        from orchestrator.report.terminal_escaping import escape_unprintable
        from orchestrator.report.text_layout import Page

        page = Page(width_of(self.out))
        lines = ["", page.heading(f"{at + 1} of {len(self.todo)}: {escape_unprintable(item.id)}")]
        if item.url:
            lines.append(f"  {escape_unprintable(item.url)}")
        if item.verdict:
            lines.append(f"  verdict: {escape_unprintable(item.verdict)}")
        for part in item.text[:MOST_TEXT].splitlines():
            lines += page.wrap(escape_unprintable(part), first="  ", most=60)
        if self.args.show_score:
            lines += [f"  {escape_unprintable(k)}: {v}" for k, v in item.scores.items()]
        emit("\n".join(lines) + "\n", self.out)

    def _line(self, prompt: str) -> str | None:
        """What the person types; None at the end of input."""
        emit(prompt, self.out)
        line = self.source.readline()
        return line.strip() if line else None
