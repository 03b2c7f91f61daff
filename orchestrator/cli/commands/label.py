"""``diffcourt label``: a person labels runs or items, one at a time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct, field, to_builtins

from orchestrator.app.finding_excerpts import read_change
from orchestrator.app.runs.stored_runs import list_runs, show_run
from orchestrator.cli.commands.rubric.shared_inputs import load_rubric
from orchestrator.cli.output import width_of
from orchestrator.cli.page_serving import serve_parts
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.types import Criterion
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit, emit_line, escape_unprintable, use_color
from orchestrator.report.text_layout import TextLayout
from orchestrator.report.tuning.label_reports import render_item, render_review
from orchestrator.tuning.file_formats.item_files import (
    Item,
    item_from_verdict,
    read_items,
    unique_items,
)
from orchestrator.tuning.labels import label_files
from orchestrator.tuning.labels.label_files import Label, LabelQuestion, Value

if TYPE_CHECKING:
    from orchestrator.web.access import Access
    from orchestrator.web.site import SitePart

_COMMANDS = "s skip, < undo, # note, q quit"


def run(args: argparse.Namespace) -> int:
    """Ask for labels, saving each one immediately."""
    if args.criteria and not args.rubric:
        raise InputError("--criteria requires --rubric RUBRIC")
    args.rater = args.rater or ""
    if not args.rater and not (args.web and args.proxy_origin):
        raise InputError("name who labels with --rater NAME")
    reviews = _read_runs(args.repo) if args.runs else {}
    items = [item_from_verdict(to_builtins(verdict)) for verdict in reviews.values()]
    if args.items:
        items += read_items(args.items, args.scale)
    if not items:
        if args.runs:
            raise InputError("there are no finished runs to label; start one with diffcourt review")
        raise InputError("nothing to label; give ITEMS, or --runs for past runs")
    items = unique_items(items)
    labels = label_files.read_labels([args.labels]) if args.labels.exists() else []
    todo = _list_questions(args, items, labels, args.rater)
    if args.list:
        for q in todo:
            emit_line(q.item.id, sys.stdout)
        return EXIT_OK
    if args.web:
        return _serve(args, items, reviews)
    if args.port or args.open or args.read_only or args.proxy_origin:
        raise InputError("--port, --open, --read-only and --proxy-origin require --web")
    LabelingSession(args, todo, reviews, sys.stdin, sys.stdout).run()
    return EXIT_OK


def _list_questions(
    args: argparse.Namespace, items: Sequence[Item], labels: Sequence[Label], rater: str
) -> list[LabelQuestion]:
    """What a rater is asked for, in order."""
    if args.relabel:
        return label_files.list_revisions(items, labels, rater, args.relabel)
    listing = label_files.list_disputes if args.adjudicate else label_files.list_questions
    return listing(items, labels, rater)[: args.next]


def _serve(args: argparse.Namespace, items: Sequence[Item], reviews: Mapping[str, Verdict]) -> int:
    """Serve the page on which people label, until Ctrl-C."""
    if args.show_score:
        raise InputError("--show-score is for the terminal; the page never shows a score")
    if args.read_only:
        raise InputError("--read-only and --web: nobody could label; leave --read-only out")
    criteria = _read_criteria(args.rubric) if args.criteria else ()

    def make_parts(_: Access) -> Sequence[SitePart]:
        from orchestrator.web.labeling import LabelingPage, LabelingTask

        task = LabelingTask(
            items,
            reviews,
            args.repo,
            args.labels,
            lambda labels, rater: _list_questions(args, items, labels, rater),
            label_files.ANSWERS[args.answers],
            criteria,
        )
        return [LabelingPage(task).part()]

    return serve_parts(args, make_parts, user=args.rater)


def _read_criteria(rubric: str) -> Sequence[Criterion]:
    criteria = load_rubric(rubric).criteria
    # A measured one is counted by code; people are asked for it only where there is no other.
    return [one for one in criteria if one.kind == "judged"] or criteria


def _read_runs(repo: Path | None) -> dict[str, Verdict]:
    """Finished runs of the repository, by id."""
    shown = (show_run(repo, info.run_id) for info in list_runs(repo) if info.state == "finished")
    return {s.info.run_id: s.verdict for s in shown if s.verdict}


class LabelingSession(Struct):
    """An interactive labeling session at the terminal.

    Attributes:
        reviews: the runs among the items, by id.
        given: indices into ``todo`` of the items labeled in this session, in order.
    """

    args: argparse.Namespace
    todo: list[LabelQuestion]
    reviews: Mapping[str, Verdict]
    source: TextIO
    out: TextIO
    given: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Ask until every item is labeled or the person quits."""
        at = 0
        try:
            while at < len(self.todo):
                step = self._ask(at)
                if step is None:
                    break
                at = step
        except KeyboardInterrupt:
            emit("\n", self.out)
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        done = f"{len(self.given)} labeled in this session; saved to {self.args.labels}"
        emit_line(done, self.out)

    def _ask(self, at: int) -> int | None:
        """Ask for one item's label; returns the next index, or None to quit."""
        answers = label_files.ANSWERS[self.args.answers]
        self._show(self.todo[at].item, at)
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
                self._add_label(at, answers[answer], criteria, note)
                return at + 1
            else:
                emit_line(f"{answer!r} is not a valid answer", self.out)

    def _undo(self, at: int) -> int:
        """Undo the last label of this session."""
        if not self.given:
            emit("no label from this session to undo\n", self.out)
            return at
        last = self.given.pop()
        label_files.remove_label(self.args.labels, self.todo[last].item.id, self.args.rater)
        return last

    def _add_label(self, at: int, value: Value, criteria: dict[str, Value], note: str) -> None:
        q = self.todo[at]
        label = Label(
            q.item.id, self.args.rater, value, criteria, note, label_files.now(), q.drawn,
            adjudicates=q.adjudicates,
        )  # fmt: skip
        label_files.add_label(self.args.labels, label)
        self.given.append(at)

    def _ask_criteria(self) -> dict[str, Value]:
        """Labels per criterion; an empty line skips one."""
        answers = label_files.ANSWERS[self.args.answers]
        out: dict[str, Value] = {}
        for criterion in _read_criteria(self.args.rubric):
            levels = "".join(f"; {one.score:g}: {one.description}" for one in criterion.levels)
            answer = self._prompt(f"  {criterion.id} ({criterion.description}{levels}): ")
            while answer not in {None, "", *answers}:
                answer = self._prompt(f"  one of {', '.join(answers)}, or empty: ")
            if answer:
                out[criterion.id] = answers[answer]
        return out

    def _show(self, item: Item, at: int) -> None:
        page = TextLayout(width_of(self.out), use_color(self.out))
        lines = ["", page.heading(f"{at + 1} of {len(self.todo)}: {escape_unprintable(item.id)}")]
        if item.url:
            lines.append(f"  {escape_unprintable(item.url)}")
        if (earlier := self.todo[at].earlier) is not None:
            lines.append(f"  your label: {earlier.label}  {escape_unprintable(earlier.note)}")
        if (review := self.reviews.get(item.id)) is not None:
            lines += render_review(page, review, read_change(self.args.repo, review))
        else:
            lines += render_item(page, item)
        if self.args.show_score:
            lines += [f"  {escape_unprintable(k)}: {v}" for k, v in item.scores.items()]
        emit("\n".join(lines) + "\n", self.out)

    def _prompt(self, prompt: str) -> str | None:
        """The line that the person types; None at the end of input."""
        emit(prompt, self.out)
        line = self.source.readline()
        if not line:  # Ctrl-D leaves the cursor behind the prompt
            emit("\n", self.out)
            return None
        return line.strip()
