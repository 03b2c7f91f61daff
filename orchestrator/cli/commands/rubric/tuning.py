"""The ``rubric`` subcommands that use labels: eval, tune, gate, disagree and others."""

import json
import os
import sys
from argparse import Namespace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.cli.commands.rubric.shared_inputs import (
    TRUST_CODES,
    TuningInputs,
    find_rubric,
    layout_of,
    load_inputs,
    load_rubric,
    print_lines,
    read_label_scale,
    require_freezable,
    select_labels,
    show,
    write_text,
)
from orchestrator.engine.types import Rubric
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line
from orchestrator.report.tuning.html_report import (
    disagreement_sections,
    drift_sections,
    render_evaluation_page,
    render_jury_page,
    render_result_page,
    render_tuning_page,
)
from orchestrator.report.tuning.text_report import describe_detectable_drop, render_report
from orchestrator.tuning import rubric_comparison as gating
from orchestrator.tuning.evaluation import evaluate_rubric
from orchestrator.tuning.file_formats.item_files import Item, read_items, select_judge
from orchestrator.tuning.file_formats.rubric_file import write_rubric
from orchestrator.tuning.jury import measure_jury
from orchestrator.tuning.labels import anchors
from orchestrator.tuning.labels.corrected_rate import CorrectedRate, estimate_rate
from orchestrator.tuning.labels.disagreements import DisagreementReport, find_disagreements
from orchestrator.tuning.labels.drift import Drift, measure_drift
from orchestrator.tuning.labels.feedback_rate import Signal, measure_feedback
from orchestrator.tuning.labels.label_files import Label, extract_labels, read_labels, settle_labels
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.rubric_lint import lint_rubric
from orchestrator.tuning.training_data import TrainingData
from orchestrator.tuning.tune import SEED, add_provenance, tune_rubric


def evaluate(args: Namespace, out: TextIO) -> int:
    """Print the agreement of a rubric with people."""
    read = load_inputs(args)
    found = evaluate_rubric(read.rubric, read.data, read.items, args.trees)
    is_printed = show(args, "evaluation", found, out)
    if not args.report:
        return EXIT_OK
    disagreements, drift = _compare_with_labels(read, args)
    write_text(args.report, render_evaluation_page(found, disagreements, drift))
    if is_printed:
        emit_line("", out)
        emit_line(f"{disagreements.plain_sentence()} ({args.report})", out)
    return TRUST_CODES[disagreements.is_trusted]


def _compare_with_labels(
    read: TuningInputs, args: Namespace
) -> tuple[DisagreementReport, Drift | None]:
    """Disagreements with people, and drift by month where the labels are of several."""
    found = find_disagreements(read.rubric, read.data, read.labels, args.accept_at)
    months = {label.at[:7] for label in read.labels} | {item.at[:7] for item in read.items}
    if len(months - {""}) < 2:
        return found, None
    return found, measure_drift(read.rubric, read.items, read.labels, read.data.scale)


def _read_objective(args: Namespace) -> Objective:
    merge, block = args.cost_false_merge, args.cost_false_block
    if merge is None and block is None:
        return Objective()
    if merge is None or block is None:
        raise InputError("give both --cost-false-merge and --cost-false-block, or neither")
    return Objective(merge, block)


def tune(args: Namespace, out: TextIO) -> int:
    """Tune a rubric; write it only when the gain is proven."""
    read = load_inputs(args)
    path = new_rubric_path(args, read.rubric.version + 1)
    seed = SEED if args.seed is None else args.seed
    if seed < 0:
        raise InputError(f"--seed must not be negative: {seed}")
    found = tune_rubric(
        read.rubric,
        read.data,
        read.items,
        _read_objective(args),
        seed=seed,
        refits=args.refits,
        free_signs=args.penalties,
        observe=partial(emit_line, stream=sys.stderr),
    )
    if found.proven:  # before all that may fail, since a fit may take minutes
        write_rubric(path, add_provenance(path.stem, read.rubric, read.data, read.labels, found))
    show(args, "tuning", found, out, wrote=path if found.proven else None)
    if args.report:
        disagreements, drift = _compare_with_labels(read, args)
        more = [*disagreement_sections(disagreements), *drift_sections(drift)]
        texts = {item.id: item.text for item in read.items}
        page = render_tuning_page(found, f"Tuning of {read.rubric.name}", texts, more)
        write_text(args.report, page)
    return EXIT_OK if found.proven else EXIT_GATED


def new_rubric_path(args: Namespace, version: int) -> Path:
    """``--out``, or ``NAME-vN.yaml`` next to the old rubric, instead of its version's number.

    Raises:
        InputError: the latter exists.
    """
    if args.out:
        return Path(args.out)
    old = find_rubric(args.rubric)
    stem, _, tail = old.stem.rpartition("-v")
    base = stem if stem and tail.isdigit() else old.stem
    path = old.with_name(f"{base}-v{version}{old.suffix}")
    if path.exists():
        raise InputError(f"{path}: already exists; choose another file with --out")
    return path


def gate(args: Namespace, out: TextIO) -> int:
    """Write a baseline, or check against one.

    Returns:
        1 when agreement dropped, 3 when the labels are too few to tell.
    """
    read = load_inputs(args)
    if args.freeze and (args.force or not args.baseline.exists()):
        frozen = gating.freeze_decisions(read.rubric, read.data, read.labels)
        write_text(args.baseline, as_json(to_builtins(frozen)))
        sample = read.data.sample
        accepted = read.data.totals >= read.rubric.threshold
        drop = describe_detectable_drop(gating.find_detectable_drop(sample, accepted))
        emit(f"wrote {args.baseline}: {len(read.data.items):,} decisions\n{drop}\n", out)
        return EXIT_OK
    baseline = gating.read_baseline(args.baseline)
    found = gating.check_against_baseline(
        read.rubric, read.items, read.labels, read.data, baseline, args.margin
    )
    show(args, "gate", found, out)
    if args.freeze:
        require_freezable(args.baseline, args.force)
    return {"passed": EXIT_OK, "failed": EXIT_GATED, "unknown": EXIT_INCOMPLETE}[found.outcome]


def disagree(args: Namespace, out: TextIO) -> int:
    """Print the disagreements of a rubric with people."""
    read = load_inputs(args)
    found = find_disagreements(read.rubric, read.data, read.labels, args.accept_at)
    return _finish(args, "disagreements", found, out, args.all)


def lint(args: Namespace, out: TextIO) -> int:
    """Print what to fix in a rubric; exit code 1 when there is something."""
    found = lint_rubric(*_load_some(args), args.accept_at)
    show(args, "lint", found, out, None if args.all else 3)
    return EXIT_GATED if found.findings else EXIT_OK


def _load_some(args: Namespace) -> tuple[Rubric, list[Item], list[Label], TrainingData | None]:
    """The rubric, and items, labels and training data where they were given."""
    rubric = load_rubric(args.rubric)
    if not args.items:
        if args.labels:
            raise InputError("--labels requires the labeled ITEMS")
        return rubric, [], [], None
    items = select_judge(read_items(args.items, args.scale), args.judge, rubric.criteria)
    if not args.labels and not extract_labels(items, args.label):
        return rubric, items, [], None
    read = load_inputs(args)
    return rubric, read.items, read.labels, read.data


def jury(args: Namespace, out: TextIO) -> int:
    """Print what several judges amount to; exit code 0: a cascade is proven to pay, 1: none is."""
    rubric = load_rubric(args.rubric)
    items = [
        replace(item, judge=item.judge or path.stem)
        for path in args.items
        for item in read_items([path], args.scale)
    ]
    labeled = {(x.id, x.rater): x for x in sorted(items, key=lambda x: bool(x.human))}
    labels = select_labels(args, [replace(x, repeat=0) for x in labeled.values()])
    scale = read_label_scale(args, labels)
    found = measure_jury(rubric, items, labels, scale, dict(args.cost))
    show(args, "jury", found, out)
    if args.report:
        write_text(args.report, render_jury_page(found, f"Judges of {rubric.name}"))
    return EXIT_OK if any(one.proven for one in found.cascades) else EXIT_GATED


def rate(args: Namespace, out: TextIO) -> int:
    """Print the accept rate of all items, corrected for the judge's errors."""
    read = load_inputs(args)
    found = estimate_rate(read.rubric, read.items, read.labels, read.data.scale, args.assume_random)
    return _finish(args, "rate", found, out)


def drift(args: Namespace, out: TextIO) -> int:
    """Print what has changed over time, or freeze anchors."""
    if args.freeze and args.anchors is None:
        raise InputError("--freeze requires --anchors FILE, the file to write")
    read = load_inputs(args)
    if args.freeze and (args.force or not args.anchors.exists()):
        return _freeze(args, read, out)
    frozen = anchors.read_anchors(args.anchors, read.rubric) if args.anchors else None
    found = measure_drift(read.rubric, read.items, read.labels, read.data.scale, frozen, args.since)
    if args.freeze:
        print_lines(render_report(layout_of(out), "drift", found), out)
        require_freezable(args.anchors, args.force)
    return _finish(args, "drift", found, out)


def _freeze(args: Namespace, read: TuningInputs, out: TextIO) -> int:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    frozen = anchors.freeze_anchors(read.rubric, read.data, now)
    write_text(args.anchors, as_json(to_builtins(frozen)))
    counts = [frozen.count(accepted) for accepted in (True, False)]
    emit(
        f"wrote {args.anchors}: {counts[0]} anchors that people accept, {counts[1]} that they "
        f"reject\nA fall of 10 points would be found with a chance of "
        f"{anchors.find_power(min(counts)):.0%}; {anchors.advise_anchors()} of each give 90%.\n",
        out,
    )
    return EXIT_OK


def _finish(
    args: Namespace,
    macro: str,
    found: CorrectedRate | DisagreementReport | Drift,
    out: TextIO,
    *more: Any,
) -> int:
    """Print a result, and give the exit code: trusted, not trusted, or cannot tell."""
    show(args, macro, found, out, *more)
    if args.report:
        write_text(args.report, render_result_page(f"Rubric {Path(args.rubric).stem}", found))
    return TRUST_CODES[found.is_trusted]


def feedback(args: Namespace, out: TextIO) -> int:
    """Print what people did with findings, and the rate corrected by experts."""
    from orchestrator.app.memory.comment_feedback import collect_feedback
    from orchestrator.app.memory.past_reviews import load_reviews

    reviews = load_reviews(args.repo, args.runs)
    findings, why = collect_feedback(args.repo, reviews, _read_answers(args))
    if why:
        note = f"what became of findings in the base branch is not known: {why}"
        emit_line(note, sys.stderr)
    if args.out:
        rows = (json.dumps(one.to_row(), ensure_ascii=False) + "\n" for one in findings)
        write_text(args.out, "".join(rows))
    labels = settle_labels(read_labels(args.labels))
    found = measure_feedback(findings, labels, args.accept_at, args.assume_random)
    if show(args, "feedback", found, out) and args.out:
        emit_line(f"wrote {args.out}: {len(findings)} findings", out)
    return EXIT_OK if args.out and not args.labels else TRUST_CODES[found.is_trusted]


def _read_answers(args: Namespace) -> list[tuple[str, Signal]]:
    """What people answered to our comments in a pull request, by the finding's identity."""
    from orchestrator.posting.forge import PostingTarget

    if args.forge is None:
        if args.project or args.request or args.url:
            raise InputError("--project, --request and --url require --from FORGE")
        return []
    target = PostingTarget(args.project or "", args.request or 0, args.url or "", os.environ)
    posted = import_module(f"orchestrator.posting.{args.forge}").open_forge(target).read_posted()
    answers: list[tuple[str, Signal]] = [(x.identity, "dismissed") for x in posted.dismissals]
    for thread in posted.threads:
        if thread.likes != thread.dislikes:
            liked = thread.likes > thread.dislikes
            answers.append((thread.identity, "liked" if liked else "disliked"))
        if thread.is_resolved:
            answers.append((thread.identity, "resolved"))
    return answers
