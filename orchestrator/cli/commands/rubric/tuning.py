"""The ``rubric`` subcommands that use labels: eval, tune and gate."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from orchestrator.cli.commands.rubric.shared_inputs import (
    TuningInputs,
    find_rubric,
    load_inputs,
    require_freezable,
    show,
    write_text,
)
from orchestrator.cli.output import optional_target, width_of
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line, use_color

if TYPE_CHECKING:
    from orchestrator.tuning.labels.disagreements import DisagreementReport
    from orchestrator.tuning.labels.drift import Drift
    from orchestrator.tuning.rubric_decisions import Objective
    from orchestrator.tuning.tuning_result import TuningResult


def evaluate(args: argparse.Namespace, out: TextIO) -> int:
    """Print the agreement of a rubric with people."""
    target = optional_target(args.json)
    read = load_inputs(args)
    from orchestrator.report.tuning.text_report import render_evaluation
    from orchestrator.tuning.evaluation import evaluate_rubric as measure

    found = measure(read.rubric, read.data, read.items)
    show(target, render_evaluation(found, width_of(out), use_color(out)), found, out)
    if not args.report:
        return EXIT_OK
    from orchestrator.report.tuning.label_pages import render_evaluation_page

    disagreements, drift = _compare_with_labels(read, args)
    write_text(args.report, render_evaluation_page(found, disagreements, drift))
    if target is None or not target.to_stdout:
        emit_line("", out)
        emit_line(f"{disagreements.plain_sentence()} ({args.report})", out)
    codes = {True: EXIT_OK, False: EXIT_GATED, None: EXIT_INCOMPLETE}
    return codes[disagreements.is_trusted]


def _compare_with_labels(
    read: TuningInputs, args: argparse.Namespace
) -> tuple[DisagreementReport, Drift | None]:
    """Disagreements with people, and drift by month where the labels are of several."""
    from orchestrator.tuning.labels.disagreements import find_disagreements
    from orchestrator.tuning.labels.drift import measure_drift

    found = find_disagreements(read.rubric, read.items, read.labels, args.accept_at)
    months = {label.at[:7] for label in read.labels} | {item.at[:7] for item in read.items}
    if len(months - {""}) < 2:
        return found, None
    return found, measure_drift(read.rubric, read.items, read.labels, read.data.scale)


def _read_objective(args: argparse.Namespace) -> Objective:
    from orchestrator.tuning.rubric_decisions import Objective

    merge, block = args.cost_false_merge, args.cost_false_block
    if merge is None and block is None:
        return Objective()
    if merge is None or block is None:
        raise InputError("give both --cost-false-merge and --cost-false-block, or neither")
    return Objective(merge, block)


def tune(args: argparse.Namespace, out: TextIO) -> int:
    """Tune a rubric; write it only when the gain is proven."""
    target = optional_target(args.json)
    read = load_inputs(args)
    from orchestrator.report.tuning.text_report import render_tuning
    from orchestrator.tuning import tune as tuning
    from orchestrator.tuning.file_formats.rubric_file import write_rubric
    from orchestrator.tuning.provenance import add_provenance

    path = args.out or next_version_path(find_rubric(args.rubric), read.rubric.version + 1)
    if not args.out and path.exists():
        raise InputError(f"{path}: already exists; choose another file with --out")
    seed = tuning.SEED if args.seed is None else args.seed
    if seed < 0:
        raise InputError(f"--seed must not be negative: {seed}")
    found = tuning.tune_rubric(
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
    wrote = f"\nwrote {path}\n" if found.proven else ""
    show(target, render_tuning(found, width_of(out), use_color(out)) + wrote, found, out)
    if args.report:
        write_text(args.report, _render_tuning_page(read, found, args))
    return EXIT_OK if found.proven else EXIT_GATED


def _render_tuning_page(read: TuningInputs, found: TuningResult, args: argparse.Namespace) -> str:
    from orchestrator.report.tuning.html_report import render_tuning_page
    from orchestrator.report.tuning.label_pages import disagreement_sections, drift_sections

    disagreements, drift = _compare_with_labels(read, args)
    more = [*disagreement_sections(disagreements), *drift_sections(drift)]
    texts = {item.id: item.text for item in read.items}
    return render_tuning_page(found, f"Tuning of {read.rubric.name}", texts, more)


def next_version_path(path: Path, version: int) -> Path:
    """``NAME-vN.yaml`` next to the old rubric, replacing its version number if it has one."""
    stem, _, tail = path.stem.rpartition("-v")
    base = stem if stem and tail.isdigit() else path.stem
    return path.with_name(f"{base}-v{version}{path.suffix}")


def gate(args: argparse.Namespace, out: TextIO) -> int:
    """Write a baseline, or check against one.

    Returns:
        1 when agreement dropped, 3 when the labels are too few to tell.
    """
    target = optional_target(args.json)
    read = load_inputs(args)
    from orchestrator.report.tuning.text_report import describe_detectable_drop, render_gate
    from orchestrator.tuning import agreement_regression_gate as gating
    from orchestrator.tuning.tune import decide_rows

    if args.freeze and (args.force or not args.baseline.exists()):
        doc = gating.freeze_decisions(read.rubric, read.data, read.labels)
        write_text(args.baseline, as_json(doc))
        sample = read.data.sample
        now = decide_rows(sample, sample.w0, read.rubric.threshold)
        drop = describe_detectable_drop(gating.find_detectable_drop(sample, now))
        emit(f"wrote {args.baseline}: {len(read.data.items):,} decisions\n{drop}\n", out)
        return EXIT_OK
    baseline, scale = gating.read_baseline(args.baseline), read.data.scale
    found = gating.check_against_baseline(
        read.rubric, read.items, read.labels, scale, baseline, args.margin
    )
    show(target, render_gate(found, width_of(out), use_color(out)), found, out)
    if args.freeze:
        require_freezable(args.baseline, args.force)
    return {"passed": EXIT_OK, "failed": EXIT_GATED, "unknown": EXIT_INCOMPLETE}[found.outcome]
