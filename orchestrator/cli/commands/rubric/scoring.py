"""``rubric score``, ``compare`` and ``rewrite``: what judges items, runs or wordings."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app.rubric_scoring.item_judge_prompt import PROMPT
from orchestrator.app.rubric_scoring.item_judge_session import JudgingOptions, Progress
from orchestrator.app.rubric_scoring.rescore import JudgeOptions, Rescored, Scores, rescore
from orchestrator.app.rubric_scoring.rewrite_criterion import (
    Rewrite,
    RewriteOptions,
    RewritePlan,
    rewrite_criterion,
)
from orchestrator.app.rubric_scoring.score_items import Quote, ScoredItems, score_items
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.arguments import read_arguments
from orchestrator.cli.commands.rubric.shared_inputs import (
    layout_of,
    load_rubric,
    print_lines,
    read_label_scale,
    select_labels,
    show,
    write_text,
)
from orchestrator.cli.commands.rubric.tuning import new_rubric_path
from orchestrator.engine.types import Bounds, Rubric
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, BudgetExhausted, InputError
from orchestrator.report.terminal_escaping import emit, emit_line
from orchestrator.report.text_layout import TextLayout
from orchestrator.report.tuning.html_report import render_comparison_page
from orchestrator.report.tuning.scoring_text import ScoringProgress, describe_usd, diff_rubrics
from orchestrator.report.tuning.text_report import render_report
from orchestrator.tuning.file_formats import item_files
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.rubric_file import write_rubric
from orchestrator.tuning.file_formats.text_files import read_text
from orchestrator.tuning.judge_reliability import measure_perturbation, measure_repeated_scoring
from orchestrator.tuning.jury import is_unsure
from orchestrator.tuning.labels.label_files import extract_labels, read_labels, settle_labels
from orchestrator.tuning.rubric_comparison import ComparedRubric, compare_sides
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.text_measures import add_measures
from orchestrator.tuning.training_data import require_scores
from orchestrator.wording import count_noun

MIN_REPEATS_FOR_PROBES = 2
T = TypeVar("T")
_JUDGING = read_arguments("kinds", "shared")["shared"]["judging"]
_MODEL_OPTIONS = ["--within", *(name for name in _JUDGING if name != "--allow-spending")]


def score(args: argparse.Namespace, out: TextIO) -> int:
    """Print each item's, or each run's, decision and total."""
    if args.runs is not None:
        if args.items:
            raise InputError("ITEMS and --runs are mutually exclusive")
        if option := _find_model_option(args) or (args.out and "--out"):
            raise InputError(f"{option} is for ITEMS; runs are judged with their own settings")
        return _score_runs(args, out)
    if not args.items and (args.repeat or args.probes or args.provider != OFFLINE):
        raise InputError("--provider, --repeat and --probes require --runs or ITEMS")
    if not args.items:
        raise InputError("nothing to score; give ITEMS, or --runs for recorded runs")
    if args.provider != OFFLINE:
        return score_by_model(args, out)
    refuse_without_provider(args)
    if args.repeat or args.probes:
        raise InputError("--repeat and --probes require a judge model; set --provider NAME")
    return _score_items(args, out)


def _score_items(args: argparse.Namespace, out: TextIO) -> int:
    rubric = load_rubric(args.rubric)
    items = add_measures(rubric, item_files.read_items(args.items, args.scale))
    judged = {c.id for c in rubric.criteria if c.kind == "judged" and c.weight}
    for item in items:
        if item.text and judged - item.scores.keys():
            name = min(judged - item.scores.keys())
            raise InputError(
                f"{item.location}: {item.id!r} has no score for {name!r}; have a model judge the "
                "texts with --provider NAME"
            )
    require_scores(rubric, items)
    if args.out:
        item_files.write_items(args.out, items)
        emit_line(f"wrote {args.out}", out)
        return EXIT_OK
    for item in items:
        _print_score(rubric, item, "", args, out)
    return EXIT_OK


def _print_score(
    rubric: Rubric, item: Item, remark: str, args: argparse.Namespace, out: TextIO, **more: Any
) -> None:
    ok, total = (card := decide_item(rubric, item)).accepted, card.total
    row = {"repeat": 0, **item_files.to_row(item), "accept": ok, "total": total, **more}
    shown = "  n/a " if total is None else f"{total:.4f}"
    decision = "accept" if ok else "reject"
    line = f"{decision}  {shown}  {item.id}{remark}"
    emit_line(json.dumps(row) if args.json else line, out)


def _score_runs(args: argparse.Namespace, out: TextIO) -> int:
    if (args.repeat or args.probes) and args.provider == OFFLINE:
        raise InputError("--repeat and --probes require a judge model; set --provider NAME")

    rubric = load_rubric(args.rubric)
    repeat = max(args.repeat, MIN_REPEATS_FOR_PROBES if args.probes else 0)
    names = [] if args.runs == ["all"] else args.runs
    found = rescore(args.repo, names, rubric, JudgeOptions(args.provider, repeat, args.probes))
    done = [run for run in found if isinstance(run, Rescored)]
    for run in found:
        if isinstance(run, Rescored):
            _print_run(rubric, run, args, out)
        else:
            emit_line(f"not scored: {run.run_id}: {run.why}", sys.stderr)
    if not found:
        emit("There are no finished runs. Start one with: diffcourt review\n", sys.stderr)
    if repeat and done:
        # With --json, stdout holds items for other commands, so this text goes to stderr.
        lines = _report_judge_reliability(layout_of(out), rubric, done)
        print_lines(lines, sys.stderr if args.json else out)
    return EXIT_OK if len(done) == len(found) else EXIT_INCOMPLETE


def _print_run(rubric: Rubric, run: Rescored, args: argparse.Namespace, out: TextIO) -> None:
    item = _build_item(run, run.card.marks, 0)
    missing = [name for name, given in item.scores.items() if given is None]
    previous = run.verdict.score.total
    remark = f"  (was {'n/a' if previous is None else f'{previous:.4f}'})"
    if missing:
        remark += f"  not scored: {', '.join(missing)}"
    _print_score(rubric, item, remark, args, out, not_scored=missing, previous_total=previous)
    if args.json:
        for item in _list_repeats([run]):
            _print_score(rubric, item, "", args, out)


def _build_item(run: Rescored, marks: Scores, repeat: int) -> Item:
    verdict, scores = run.verdict, {name: mark.given for name, mark in marks.items()}
    return Item(
        verdict.run_id,
        item_files.name_run_group(run.change_name, verdict.change.base, verdict.change.head),
        scores,
        verdict.summary,
        verdict=verdict.verdict,
        repeat=repeat,
        judge=run.judge if repeat else _name_judges(run),
        at=run.at,
        reasons={name: mark.why for name, mark in marks.items()},
    )


def _name_judges(run: Rescored) -> str:
    """The judges of the scores: that of the run, a new one, or both."""
    asked = {c.id for c in run.card.rubric.criteria if c.kind == "judged"}
    names = [run.recorded_judge] if asked & set(run.reused) else []
    names += [run.judge] if asked - set(run.reused) else []
    return " and ".join(dict.fromkeys(filter(None, names)))


def _list_repeats(runs: Iterable[Rescored]) -> list[Item]:
    """Every repetition of the judge as an item; measured criteria keep their scores."""
    return [
        _build_item(run, {**run.card.marks, **marks}, number)
        for run in runs
        for number, marks in enumerate(run.repeats, 1)
    ]


def _report_judge_reliability(page: TextLayout, rubric: Rubric, runs: list[Rescored]) -> list[str]:
    """How the judge responds to repetition, evidence order and length, as lines."""
    judged = [run for run in runs if run.repeats]
    if not judged:
        return ["the rubric has no judged criteria, so no judge was called"]
    first = [_build_item(run, {**run.card.marks, **run.repeats[0]}, 1) for run in judged]
    effects = {
        name: measure_perturbation(
            rubric,
            name,
            first,
            [_build_item(run, {**run.card.marks, **run.probes[name]}, 1) for run in judged],
        )
        for name in judged[0].probes
    }
    repeats = measure_repeated_scoring(rubric, _list_repeats(judged))
    return render_report(page, "reliability", repeats, effects)


def refuse_without_provider(args: argparse.Namespace) -> None:
    """Refuse options that say how a model judges where none is asked."""
    if option := _find_model_option(args):
        raise InputError(f"{option} needs a model; set --provider NAME")


def _find_model_option(args: argparse.Namespace) -> str:
    """The first option that is given of how a model judges; empty without one."""
    given = (name for name in _MODEL_OPTIONS if getattr(args, name[2:].replace("-", "_"), None))
    return next(given, "")


def pick(given: list[T], index: int, option: str) -> T | None:
    """The value of an option that is given once for both sides, or once for each."""
    if len(given) > 2:
        raise InputError(f"{option} is given {len(given)} times; once, or once for each of A and B")
    return given[min(index, len(given) - 1)] if given else None


def read_judging_options(args: argparse.Namespace, side: int = 0) -> JudgingOptions:
    """The options of ``judging`` in arguments.toml.

    Args:
        side: 0 or 1, where two sides are judged.

    Raises:
        InputError: the prompt cannot be read.
    """
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
        batch=args.batch,
    )


def score_by_model(args: argparse.Namespace, out: TextIO) -> int:
    """Have a model score items; exit code 3 where some are not scored."""
    if args.probes:
        raise InputError("--probes perturbs the evidence of runs; it requires --runs")
    rubric = load_rubric(args.rubric)
    items = item_files.read_items(args.items, args.scale)
    found = _ask_models(args, rubric, items, out)
    if found is None:
        return EXIT_OK
    if args.out:
        item_files.write_items(args.out, found.rows)
    if args.json or not args.out:
        for item in found.rows:
            number = f" (scoring {item.repeat + 1})" if item.repeat else ""
            _print_score(rubric, item, number, args, out)
    accepted = {i.id for i in found.rows if not i.repeat and decide_item(rubric, i).accepted}
    page, repeats = layout_of(out), measure_repeated_scoring(rubric, list(found.rows))
    unique = len({item.id for item in found.rows})
    lines = render_report(page, "scored", found, unique, len(accepted))
    lines += render_report(page, "repeats", repeats)
    lines += [f"wrote {args.out}"] if args.out else []
    print_lines(lines, sys.stderr if args.json else out)
    return EXIT_INCOMPLETE if found.unscored else EXIT_OK


def _ask_models(
    args: argparse.Namespace, rubric: Rubric, items: list[Item], out: TextIO
) -> ScoredItems | None:
    """Ask the model, and a second one where the total of the first is ``--within`` the threshold.

    An item of which the second judge fails has no score: that of the first is not its.
    """
    options, repeat, within = read_judging_options(args), max(args.repeat, 1), args.within
    second = read_judging_options(args, 1)
    wrong = within is not None and (repeat > 1 or options == second)
    if (within is None) != (len(args.model) < 2) or wrong:
        raise InputError("--within takes two --model that differ, the cheaper first, no --repeat")
    if within is not None:  # also finds out whether that judge can be asked at all
        shown = out if args.estimate else sys.stderr
        ask_model(rubric, items, second, 1, True, shown, "second judge, at most: ")
    first = ask_model(rubric, items, options, repeat, args.estimate, out)
    if within is None or first is None:
        return first
    unsure = {i.id: i for i in first.rows if is_unsure(rubric, i, within)}
    second = replace(second, used=Bounds(tokens=first.tokens, usd=first.usd or 0.0))
    asked = [item for item in items if item.id in unsure]
    again = ask_model(rubric, asked, second, 1, False, out, "second judge: ") if asked else None
    again = again or ScoredItems((), {}, "", 0, 0.0, 0)
    new = {i.id: replace(i, usd=i.usd + unsure[i.id].usd) for i in again.rows}
    rows = [new.get(i.id, i) for i in first.rows if i.id in new or i.id not in unsure]
    paid = None if None in {first.usd, again.usd} else sum(i.usd for i in rows) / max(len(rows), 1)
    asked_for = f"asked for {len(unsure)} of {count_noun(len(first.rows), 'item')}"
    emit_line(f"second judge: {asked_for}; {describe_usd(paid)} per item", sys.stderr)
    usd = None if paid is None else (first.usd or 0.0) + (again.usd or 0.0)
    return ScoredItems(
        tuple(rows), first.unscored | again.unscored, first.stopped or again.stopped,
        first.calls + again.calls, usd, first.tokens + again.tokens,
    )  # fmt: skip


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

    def agree(quote: Quote) -> bool:
        lines = render_report(layout_of(sys.stderr), "quote", quote)
        print_lines([f"{name}{lines[0]}", *lines[1:]], out if estimate_only else sys.stderr)
        return not estimate_only

    return score_items(rubric, items, options, repeat, agree, ScoringProgress(sys.stderr, name))


def rewrite(args: argparse.Namespace, out: TextIO) -> int:
    """Reword a criterion; exit code 0: proven and written, 1: not proven, 3: cannot tell."""
    if args.provider == OFFLINE:
        raise InputError("rewording needs a model; name its provider with --provider NAME")
    rubric = load_rubric(args.rubric)
    path = new_rubric_path(args, rubric.version + 1)
    done = _rewrite(args, rubric, out)
    if done is None:
        return EXIT_OK
    if done.rubric is not None:
        new = replace(done.rubric, name=path.stem)
        done = replace(done, rubric=new)
        write_rubric(path, new)
    wrote = None if done.rubric is None else path
    difference = [] if done.rubric is None else diff_rubrics(rubric, done.rubric)
    show(args, "rewrite", done, out, difference, wrote=wrote)
    if done.rubric is not None:
        return EXIT_OK
    unknown = done.found.failed or (done.found.stopped and done.found.proof is None)
    return EXIT_INCOMPLETE if unknown else EXIT_GATED


def _rewrite(args: argparse.Namespace, rubric: Rubric, out: TextIO) -> Rewrite | None:
    items = item_files.read_items(args.items, args.scale)
    labels = select_labels(args, items)
    read_label_scale(args, labels)
    views: dict[str, ScoringProgress] = {}

    def agree(plan: RewritePlan) -> bool:
        stream = out if args.estimate else sys.stderr
        print_lines(render_report(layout_of(stream), "plan", plan), stream)
        return not args.estimate

    def observe(what: str, progress: Progress) -> None:
        views.setdefault(what, ScoringProgress(sys.stderr, f"{what}: ", 2))(progress)

    options = RewriteOptions(args.criterion, args.rounds, args.proposals, args.accept_at)
    judging = read_judging_options(args)
    return rewrite_criterion(rubric, items, labels, options, judging, agree, observe)


ITEM_SUFFIXES = (".jsonl", ".csv")


class ScoringStopped(BudgetExhausted, exit_code=EXIT_INCOMPLETE):
    """A side could not be scored within the limits; what was scored is kept."""


class _Given(Struct, frozen=True):
    """One side as it was given: its name, its rubric and its items."""

    name: str
    rubric: Rubric
    items: list[Item]


def compare(args: argparse.Namespace, out: TextIO) -> int:
    """Compare A and B; exit code 0: B is proven better or no worse, 1: worse, 3: cannot tell."""
    if args.provider == OFFLINE:
        refuse_without_provider(args)
    a, b = (_read_side(args, name, n, out) for n, name in enumerate((args.a, args.b)))
    if a is None or b is None:
        return EXIT_OK
    labels = settle_labels(read_labels(args.labels)) or extract_labels(a.items, args.label)
    labels = labels or select_labels(args, b.items)
    scale = read_label_scale(args, labels)
    found = compare_sides(_side(a), _side(b), a.items, labels, scale, args.margin)
    show(args, "comparison", found, out)
    if args.report:
        write_text(args.report, render_comparison_page(found, f"{found.a} and {found.b}"))
    codes = {"better": EXIT_OK, "no worse": EXIT_OK, "worse": EXIT_GATED}
    return codes.get(found.outcome, EXIT_INCOMPLETE)


def _read_side(args: argparse.Namespace, name: str, index: int, out: TextIO) -> _Given | None:
    judge = pick(args.judge, index, "--judge")
    if name.endswith(ITEM_SUFFIXES):
        rubric = pick(args.rubric, index, "--rubric")
        if rubric is None:
            raise InputError(f"{name} holds items; give the rubric that decides them: --rubric")
        decides = load_rubric(rubric)
        items = item_files.read_items([Path(name)], args.scale)
        return _Given(name, decides, item_files.select_judge(items, judge, decides.criteria))
    if not args.items:
        raise InputError(f"{name} is a rubric; give the items with --items FILE")
    rubric = load_rubric(name)
    items = item_files.read_items(args.items, args.scale)
    if args.provider != OFFLINE:
        options, side = read_judging_options(args, index), "AB"[index]
        found = ask_model(rubric, items, options, 1, args.estimate, out, f"{side}: ")
        if found is None:
            return None
        if found.stopped:
            raise ScoringStopped(
                f"the scoring of {side} ended early: {found.stopped}; raise the limit and run the "
                "command again: what is scored is kept"
            )
        return _Given(f"{side} {rubric.name}", rubric, list(found.rows))
    return _Given(name, rubric, item_files.select_judge(items, judge, rubric.criteria))


def _side(given: _Given) -> ComparedRubric:
    items = item_files.unique_items(given.items)
    paid = sum(item.usd for item in given.items)
    return ComparedRubric(
        given.name,
        given.rubric,
        {item.id: item.scores for item in items},
        "; ".join(item_files.list_judges(items)),
        paid or None,
    )
