"""``diffcourt rubric score``: items, or recorded runs that are scored again by replay."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from orchestrator.catalog.fields import OFFLINE
from orchestrator.cli.commands.rubric.arguments import need_numpy, plain, rubric_path
from orchestrator.cli.output import emit, width_of
from orchestrator.errors import EXIT_INCOMPLETE, EXIT_OK, InputError

if TYPE_CHECKING:
    from orchestrator.app.judge_probes import Scores
    from orchestrator.app.rescore import Rescored
    from orchestrator.engine.types import Rubric
    from orchestrator.tuning.scored_items import Item

PROBED_TWICE = 2


def score(args: argparse.Namespace, out: TextIO) -> int:
    """Print each item's, or each run's, decision and total."""
    if args.runs is not None:
        if args.items:
            raise InputError("score ITEMS or --runs, one at a time")
        return _score_runs(args, out)
    if args.repeat or args.probes or args.provider != OFFLINE:
        raise InputError("--provider, --repeat and --probes judge recorded runs; add --runs")
    if not args.items:
        raise InputError("nothing to score; name ITEMS, or say --runs for recorded runs")
    return _score_items(args, out)


def _score_items(args: argparse.Namespace, out: TextIO) -> int:
    need_numpy()
    from orchestrator.tuning.rubric_file import read_rubric
    from orchestrator.tuning.scored_items import read_items
    from orchestrator.tuning.training_data import require_scores

    rubric = read_rubric(rubric_path(args.rubric))
    items = read_items(args.items, args.scale)
    require_scores(rubric, items)
    for item in items:
        _print(rubric, item, {}, "", args, out)
    return EXIT_OK


def _print(
    rubric: Rubric,
    item: Item,
    more: Mapping[str, Any],
    remark: str,
    args: argparse.Namespace,
    out: TextIO,
) -> None:
    from orchestrator.report.terminal_escaping import escape_unprintable
    from orchestrator.tuning.decision_rule import decide_item

    ok, total = decide_item(rubric, item.scores)
    row = {"id": item.id, "repeat": item.repeat, "accept": ok, "total": total, **more}
    shown = "  n/a " if total is None else f"{total:.4f}"
    word = "accept" if ok else "reject"
    line = f"{word}  {shown}  {escape_unprintable(item.id)}{remark}"
    emit((json.dumps(row) if args.json else line) + "\n", out)


def _score_runs(args: argparse.Namespace, out: TextIO) -> int:
    if (args.repeat or args.probes) and args.provider == OFFLINE:
        raise InputError("--repeat and --probes ask the judge; name who serves it: --provider NAME")
    need_numpy()
    from orchestrator.app.judge_probes import JudgeOptions
    from orchestrator.app.rescore import Rescored, rescore
    from orchestrator.report.terminal_escaping import escape_line
    from orchestrator.tuning.rubric_file import read_rubric

    rubric = read_rubric(rubric_path(args.rubric))
    repeat = max(args.repeat, PROBED_TWICE if args.probes else 0)
    names = [] if args.runs == ["all"] else args.runs
    found = rescore(args.repo, names, rubric, JudgeOptions(args.provider, repeat, args.probes))
    done = [run for run in found if isinstance(run, Rescored)]
    for run in found:
        if isinstance(run, Rescored):
            _print_run(rubric, run, args, out)
        else:
            emit(f"not scored: {run.run_id}: {escape_line(run.why)}\n", sys.stderr)
    if not found:
        emit("there is no finished run here\n", sys.stderr)
    if repeat and done:
        # The JSON lines are items for other commands; what is said of the judge goes beside them.
        emit(
            _report_judge_reliability(rubric, done, width_of(out)), sys.stderr if args.json else out
        )
    return EXIT_OK if len(done) == len(found) else EXIT_INCOMPLETE


def _print_run(rubric: Rubric, run: Rescored, args: argparse.Namespace, out: TextIO) -> None:
    item = _item(run, run.card.marks, 0)
    lacking = [name for name, given in item.scores.items() if given is None]
    was = run.verdict.score.total
    remark = f"  (was {'n/a' if was is None else f'{was:.4f}'})"
    if lacking:
        remark += f"  not scored: {', '.join(lacking)}"
    _print(rubric, item, {**_row(item), "not_scored": lacking, "was": was}, remark, args, out)
    if args.json:
        for item in _repeats([run]):
            _print(rubric, item, _row(item), "", args, out)


def _row(item: Item) -> dict[str, Any]:
    return {
        "group": item.group,
        "scores": plain(item.scores),
        "text": item.text,
        "verdict": item.verdict,
    }


def _item(run: Rescored, marks: Scores, repeat: int) -> Item:
    from orchestrator.tuning.scored_items import Item

    verdict, scores = run.verdict, {name: mark.given for name, mark in marks.items()}
    return Item(
        verdict.run_id,
        verdict.change.head,
        scores,
        verdict.summary,
        verdict=verdict.verdict,
        repeat=repeat,
    )


def _repeats(runs: Iterable[Rescored]) -> list[Item]:
    """Every asking of the judge as an item; the measured criteria do not change."""
    return [
        _item(run, {**run.card.marks, **marks}, number)
        for run in runs
        for number, marks in enumerate(run.repeats, 1)
    ]


def _report_judge_reliability(rubric: Rubric, runs: list[Rescored], width: int) -> str:
    """How the judge agrees with itself, and whether order or length moves it."""
    from orchestrator.report.tuning.text_report import render_judge_reliability
    from orchestrator.tuning.judge_reliability import measure_perturbation, measure_repeated_scoring

    judged = [run for run in runs if run.repeats]
    if not judged:
        return "the rubric has no judged criterion, so nobody was asked\n"
    first = [_item(run, {**run.card.marks, **run.repeats[0]}, 1) for run in judged]
    probed = {
        name: measure_perturbation(
            rubric,
            name,
            first,
            [_item(run, {**run.card.marks, **run.probes[name]}, 1) for run in judged],
        )
        for name in judged[0].probes
    }
    return render_judge_reliability(
        measure_repeated_scoring(rubric, _repeats(judged)), probed, width
    )
