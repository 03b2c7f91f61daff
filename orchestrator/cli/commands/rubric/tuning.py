"""The ``rubric`` subcommands that use labels: eval, tune and gate."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TextIO

from msgspec import to_builtins

from orchestrator.cli.commands.rubric.shared_inputs import (
    TRUST_CODES,
    TuningInputs,
    find_rubric,
    load_inputs,
    require_freezable,
    show,
    write_text,
)
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line
from orchestrator.report.tuning.html_report import (
    disagreement_sections,
    drift_sections,
    render_evaluation_page,
    render_tuning_page,
)
from orchestrator.report.tuning.text_report import describe_detectable_drop
from orchestrator.tuning import agreement_regression_gate as gating
from orchestrator.tuning.evaluation import evaluate_rubric
from orchestrator.tuning.file_formats.rubric_file import write_rubric
from orchestrator.tuning.labels.disagreements import DisagreementReport, find_disagreements
from orchestrator.tuning.labels.drift import Drift, measure_drift
from orchestrator.tuning.rubric_decisions import Objective
from orchestrator.tuning.tune import SEED, add_provenance, tune_rubric


def evaluate(args: argparse.Namespace, out: TextIO) -> int:
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
    read: TuningInputs, args: argparse.Namespace
) -> tuple[DisagreementReport, Drift | None]:
    """Disagreements with people, and drift by month where the labels are of several."""
    found = find_disagreements(read.rubric, read.items, read.labels, args.accept_at)
    months = {label.at[:7] for label in read.labels} | {item.at[:7] for item in read.items}
    if len(months - {""}) < 2:
        return found, None
    return found, measure_drift(read.rubric, read.items, read.labels, read.data.scale)


def _read_objective(args: argparse.Namespace) -> Objective:
    merge, block = args.cost_false_merge, args.cost_false_block
    if merge is None and block is None:
        return Objective()
    if merge is None or block is None:
        raise InputError("give both --cost-false-merge and --cost-false-block, or neither")
    return Objective(merge, block)


def tune(args: argparse.Namespace, out: TextIO) -> int:
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


def new_rubric_path(args: argparse.Namespace, version: int) -> Path:
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


def gate(args: argparse.Namespace, out: TextIO) -> int:
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
    baseline, scale = gating.read_baseline(args.baseline), read.data.scale
    found = gating.check_against_baseline(
        read.rubric, read.items, read.labels, scale, baseline, args.margin
    )
    show(args, "gate", found, out)
    if args.freeze:
        require_freezable(args.baseline, args.force)
    return {"passed": EXIT_OK, "failed": EXIT_GATED, "unknown": EXIT_INCOMPLETE}[found.outcome]
