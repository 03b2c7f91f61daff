"""``diffcourt label``: a person labels runs or items, one at a time."""

from __future__ import annotations

import argparse
import hashlib
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct, field, to_builtins

from orchestrator.cli.arguments import add_repo, count, name_of
from orchestrator.cli.commands.rubric.shared_inputs import add_items, find_rubric
from orchestrator.cli.output import emit, width_of
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import escape_unprintable

if TYPE_CHECKING:
    from orchestrator.tuning.item_files import Item
    from orchestrator.tuning.labels import Label, Value

ANSWERS: dict[str, dict[str, Value]] = {
    "accept": {"a": "accept", "r": "reject"},
    "verdict": {"m": "merge", "n": "needs_changes", "b": "block"},
    "1-5": {str(n): float(n) for n in range(1, 6)},
}
MAX_TEXT = 4_000
_COMMANDS = "s skip, < undo, # note, q quit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Label past runs or items, one at a time. Every label is saved immediately, so\n"
        "you can stop at any time and continue later. The judge's score is hidden unless\n"
        "you use --show-score."
    )
    add_items(parser, rubric=False, many="*")
    parser.add_argument("--runs", action="store_true", help="label this repository's past runs")
    add_repo(parser)
    parser.add_argument(
        "--labels", type=Path, default=Path("labels.jsonl"), metavar="FILE",
        help="label file; default labels.jsonl",
    )  # fmt: skip
    parser.add_argument("--rater", type=name_of("yourself"), required=True, metavar="NAME")
    parser.add_argument("--answers", choices=tuple(ANSWERS), default="accept")
    parser.add_argument(
        "--rubric", metavar="RUBRIC", help="the rubric whose criteria --criteria asks for"
    )
    parser.add_argument("--criteria", action="store_true", help="also label each criterion")
    parser.add_argument("--show-score", action="store_true", help="show the judge's scores")
    parser.add_argument(
        "--next",
        type=count,
        metavar="N",
        help="only the next N of a random order of the items, the same for every rater",
    )
    parser.add_argument("--list", action="store_true", help="print the ids of the items and exit")


def run(args: argparse.Namespace) -> int:
    """Ask for labels, saving each one immediately."""
    from orchestrator.tuning.item_files import read_items, unique_items
    from orchestrator.tuning.labels import read_labels

    if args.criteria and not args.rubric:
        raise InputError("--criteria requires --rubric RUBRIC")
    items: list[Item] = _read_runs(args.repo) if args.runs else []
    if args.items:
        items += read_items(args.items, args.scale)
    if not items:
        raise InputError("nothing to label; give ITEMS, or --runs for past runs")
    labels = read_labels([args.labels]) if args.labels.exists() else []
    done = {x.item for x in labels if x.rater == args.rater}
    todo = [item for item in unique_items(items) if item.id not in done]
    if args.next:
        todo = sorted(todo, key=lambda item: _random_rank(item.id))[: args.next]
    if args.list:
        emit("".join(f"{escape_unprintable(i.id)}\n" for i in todo), sys.stdout)
        return EXIT_OK
    session = LabelingSession(args, todo, labels, sys.stdin, sys.stdout)
    session.run()
    return EXIT_OK


def _read_runs(repo: Path | None) -> list[Item]:
    """Finished runs of the repository as items."""
    from orchestrator.app.stored_runs import list_runs, show_run
    from orchestrator.tuning.item_files import item_from_verdict

    shown = (show_run(repo, info.run_id) for info in list_runs(repo) if info.verdict)
    return [item_from_verdict(to_builtins(s.verdict)) for s in shown if s.verdict]


def _random_rank(item: str) -> bytes:
    """The item's place in a random order that neither scores nor labels influence.

    It depends on the id alone, so several raters label the same items, and later sessions go on
    where earlier ones ended.
    """
    return hashlib.sha256(item.encode()).digest()


class LabelingSession(Struct):
    """An interactive labeling session at the terminal.

    Attributes:
        labels: all labels of the file, including those of this session.
        given: indices into ``todo`` of the items labeled in this session, in order.
    """

    args: argparse.Namespace
    todo: list[Item]
    labels: list[Label]
    source: TextIO
    out: TextIO
    given: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Ask until every item is labeled or the person quits."""
        at = 0
        while at < len(self.todo):
            step = self._ask(at)
            if step is None:
                break
            at = step
        emit(f"{len(self.given)} labeled in this session; saved to {self.args.labels}\n", self.out)

    def _ask(self, at: int) -> int | None:
        """Ask for one item's label; returns the next index, or None to quit."""
        item, answers = self.todo[at], ANSWERS[self.args.answers]
        self._show(item, at)
        note = ""
        while True:
            answer = self._prompt(
                f"{', '.join(f'{k} {v}' for k, v in answers.items())}; {_COMMANDS}: "
            )
            if answer is None or answer == "q":
                return None
            if answer == "s":
                return at + 1
            if answer == "<":
                return self._undo(at)
            if answer.startswith("#"):
                note = answer[1:].strip()
            elif answer in answers:
                criteria = self._ask_criteria() if self.args.criteria else {}
                self._add_label(at, item, answers[answer], criteria, note)
                return at + 1
            else:
                emit(f"{answer!r} is not a valid answer\n", self.out)

    def _undo(self, at: int) -> int:
        """Undo the last label of this session."""
        if not self.given:
            emit("no label of this session to undo\n", self.out)
            return at
        last = self.given.pop()
        undone = self.todo[last].id
        self.labels = [x for x in self.labels if (x.item, x.rater) != (undone, self.args.rater)]
        self._save()
        return last

    def _add_label(
        self, at: int, item: Item, value: Value, criteria: dict[str, Value], note: str
    ) -> None:
        from orchestrator.tuning.labels import Label

        now = datetime.now(UTC).isoformat(timespec="seconds")
        drawn = "random" if self.args.next else ""
        self.labels.append(Label(item.id, self.args.rater, value, criteria, note, now, drawn))
        self.given.append(at)
        self._save()

    def _save(self) -> None:
        from orchestrator.tuning.labels import write_labels

        write_labels(self.args.labels, self.labels)

    def _ask_criteria(self) -> dict[str, Value]:
        """Labels per criterion; an empty line skips one."""
        from orchestrator.tuning.rubric_file import read_rubric

        answers = ANSWERS[self.args.answers]
        out: dict[str, Value] = {}
        for criterion in read_rubric(find_rubric(self.args.rubric)).criteria:
            answer = self._prompt(f"  {criterion.id} ({criterion.description}): ")
            while answer not in {None, "", *answers}:
                answer = self._prompt(f"  one of {', '.join(answers)}, or empty: ")
            if answer:
                out[criterion.id] = answers[answer]
        return out

    def _show(self, item: Item, at: int) -> None:
        from orchestrator.report.text_layout import Page

        page = Page(width_of(self.out))
        lines = ["", page.heading(f"{at + 1} of {len(self.todo)}: {escape_unprintable(item.id)}")]
        if item.url:
            lines.append(f"  {escape_unprintable(item.url)}")
        if item.verdict:
            lines.append(f"  verdict: {escape_unprintable(item.verdict)}")
        for part in item.text[:MAX_TEXT].splitlines():
            lines += page.wrap(escape_unprintable(part), first="  ", limit=60)
        if self.args.show_score:
            lines += [f"  {escape_unprintable(k)}: {v}" for k, v in item.scores.items()]
        emit("\n".join(lines) + "\n", self.out)

    def _prompt(self, prompt: str) -> str | None:
        """The line that the person types; None at the end of input."""
        emit(prompt, self.out)
        line = self.source.readline()
        return line.strip() if line else None
