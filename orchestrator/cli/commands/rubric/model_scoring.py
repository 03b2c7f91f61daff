"""Options of the commands that ask a model about items, and ``rubric score ITEMS --provider``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.arguments import amount, count, name_of
from orchestrator.cli.commands.rubric.shared_inputs import find_rubric
from orchestrator.cli.output import width_of
from orchestrator.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit, emit_line

if TYPE_CHECKING:
    from orchestrator.app.rubric_scoring.item_judge_session import JudgingOptions
    from orchestrator.app.rubric_scoring.score_items import Quote, ScoredItems
    from orchestrator.engine.types import Rubric
    from orchestrator.tuning.file_formats.item_files import Item

T = TypeVar("T")

MODEL_OPTIONS = ("estimate", "model", "prompt", "concurrency", "round", "max_usd", "max_tokens")
"""Of ``add_judging_options``."""
INTERRUPTED = "interrupted; run the same command again: what is scored is kept\n"


def add_judging_options(p: argparse.ArgumentParser) -> None:
    """Add the options that say which model judges items, and what it may cost."""
    p.add_argument("--model", action="append", default=[])
    p.add_argument("--prompt", action="append", default=[], type=Path)
    p.add_argument("--concurrency", type=count)
    p.add_argument("--round", type=name_of("a round"))
    p.add_argument("--allow-spending", action="store_true", default=None)
    p.add_argument("--max-usd", type=amount)
    p.add_argument("--max-tokens", type=count)
    p.add_argument("--estimate", action="store_true")


def refuse_without_provider(args: argparse.Namespace) -> None:
    """Refuse options that say how a model judges where none is asked.

    Raises:
        InputError: names the first.
    """
    for name in MODEL_OPTIONS:
        if getattr(args, name):
            raise InputError(f"--{name.replace('_', '-')} needs a model; set --provider NAME")


def pick(given: list[T], index: int, option: str) -> T | None:
    """The value of an option that is given once for both sides, or once for each."""
    if len(given) > 2:
        raise InputError(f"{option} is given {len(given)} times; once, or once for each of A and B")
    return given[min(index, len(given) - 1)] if given else None


def read_judging_options(args: argparse.Namespace, side: int = 0) -> JudgingOptions:
    """The options of ``add_judging_options``.

    Args:
        side: 0 or 1, where two sides are judged.

    Raises:
        InputError: the prompt cannot be read.
    """
    from orchestrator.app.rubric_scoring.item_judge_prompt import PROMPT
    from orchestrator.app.rubric_scoring.item_judge_session import JudgingOptions
    from orchestrator.tuning.file_formats.text_files import read_text

    prompt = pick(args.prompt, side, "--prompt")
    return JudgingOptions(
        repo=args.repo,
        provider=args.provider,
        model=pick(args.model, side, "--model") or "strong",
        prompt=PROMPT if prompt is None else read_text(prompt),
        concurrency=args.concurrency,
        max_usd=args.max_usd,
        max_tokens=args.max_tokens,
        round=args.round or "",
        allow_spending=args.allow_spending,
    )


def add_provider(p: argparse.ArgumentParser) -> None:
    """Add --provider."""
    p.add_argument("--provider", type=name_of("a provider"), default=OFFLINE)


def score_by_model(args: argparse.Namespace, out: TextIO) -> int:
    """Have a model score items; exit code 3 where some are not scored."""
    from orchestrator.report.tuning.scoring_text import render_scored
    from orchestrator.tuning.file_formats.item_files import read_items, write_items
    from orchestrator.tuning.file_formats.rubric_file import read_rubric
    from orchestrator.tuning.rubric_decisions import decide_item

    if args.probes:
        raise InputError("--probes perturbs the evidence of runs; it requires --runs")
    rubric = read_rubric(find_rubric(args.rubric))
    items = read_items(args.items, args.scale)
    options = read_judging_options(args)
    try:
        found = ask_model(rubric, items, options, max(args.repeat, 1), args.estimate, out)
    except KeyboardInterrupt:
        emit(f"\n{INTERRUPTED}", sys.stderr)
        return EXIT_INTERRUPTED
    if found is None:
        return EXIT_OK
    if args.out:
        write_items(args.out, found.rows)
    elif not args.json:
        _print_rows(rubric, found.rows, out)
    if args.json:
        emit("".join(_json_row(rubric, item) for item in found.rows), out)
    accepted = {i.id for i in found.rows if not i.repeat and decide_item(rubric, i.scores)[0]}
    text = render_scored(found, len(accepted), width_of(out))
    text += _describe_noise(rubric, found.rows, width_of(out))
    emit(text + (f"wrote {args.out}\n" if args.out else ""), sys.stderr if args.json else out)
    return EXIT_INCOMPLETE if found.unscored else EXIT_OK


def ask_model(  # noqa: PLR0917 - what is scored, by whom, and where that is shown
    rubric: Rubric,
    items: list[Item],
    options: JudgingOptions,
    repeat: int,
    estimate_only: bool,
    out: TextIO,
    name: str = "",
) -> ScoredItems | None:
    """Show what a scoring will take, then score; None where only the estimate is wanted.

    Args:
        name: what each line of the progress begins with.
    """
    from orchestrator.app.rubric_scoring.score_items import score_items
    from orchestrator.report.tuning.scoring_text import ScoringProgress, render_quote

    def agree(quote: Quote) -> bool:
        emit(name + render_quote(quote, width_of(sys.stderr)), out if estimate_only else sys.stderr)
        return not estimate_only

    return score_items(rubric, items, options, repeat, agree, ScoringProgress(sys.stderr, name))


def _json_row(rubric: Rubric, item: Item) -> str:
    from orchestrator.tuning.file_formats.item_files import to_row
    from orchestrator.tuning.rubric_decisions import decide_item

    ok, total = decide_item(rubric, item.scores)
    return json.dumps({**to_row(item), "accept": ok, "total": total}) + "\n"


def _print_rows(rubric: Rubric, rows: tuple[Item, ...], out: TextIO) -> None:
    from orchestrator.tuning.rubric_decisions import decide_item

    for item in rows:
        ok, total = decide_item(rubric, item.scores)
        shown = "  n/a " if total is None else f"{total:.4f}"
        number = f" (scoring {item.repeat + 1})" if item.repeat else ""
        name = item.id + number
        emit_line(f"{'accept' if ok else 'reject'}  {shown}  {name}", out)


def _describe_noise(rubric: Rubric, rows: tuple[Item, ...], width: int) -> str:
    """How much repeated scorings differ; empty without."""
    if not any(item.repeat for item in rows):
        return ""
    from orchestrator.cli.commands.rubric.shared_inputs import require_numpy

    require_numpy()
    from orchestrator.report.tuning.text_report import render_repeated_scoring
    from orchestrator.tuning.judge_reliability import measure_repeated_scoring

    return render_repeated_scoring(measure_repeated_scoring(rubric, list(rows)), width)
