"""``diffcourt stats``: figures over all runs, from their journals."""

from __future__ import annotations

import argparse
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from orchestrator.cli.output import OutputTarget, width_of
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line

if TYPE_CHECKING:
    from orchestrator.app.statistics.all_runs import Collected
    from orchestrator.app.statistics.run_totals import RunTotals
    from orchestrator.app.statistics.statistics_document import Statistics
    from orchestrator.app.statistics.threshold_alerts import Alert

_UNITS = {"h": 3600.0, "d": 24 * 3600.0, "w": 7 * 24 * 3600.0}
_SPAN = re.compile(r"(\d{1,5})([hdw])")


def since(text: str) -> float:
    """Argument type: a day, or a span that ends now; in seconds since the epoch."""
    if span := _SPAN.fullmatch(text):
        return time.time() - int(span[1]) * _UNITS[span[2]]
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a day, such as 2027-01-31, nor a span, such as 24h, 7d or 4w"
        ) from None


def run(args: argparse.Namespace) -> int:
    """Print the statistics, or check them."""
    _refuse_mixtures(args)
    targets = {
        name: OutputTarget(file, f"--{name}")
        for name in ("csv", "html", "prometheus", "dashboard")
        if (file := getattr(args, name)) is not None
    }

    from orchestrator.app.statistics.all_runs import collect, summarize

    if "dashboard" in targets:
        from orchestrator.data_directories import data_root

        dashboard = data_root() / "config" / "grafana-dashboard.json"
        targets["dashboard"].write(dashboard.read_text("utf-8"))
        if len(targets) == 1 and not (args.json or args.by or args.check):
            return EXIT_OK
    collected = collect(
        args.repo or [None], since=args.since or 0.0, all_repositories=args.all_repositories
    )
    alerts: list[Alert] = []
    if args.check or args.prometheus:
        from orchestrator.app.statistics.run_totals import RunTotals
        from orchestrator.app.statistics.threshold_alerts import check_alerts, load_thresholds

        totals = RunTotals.of(collected)
        alerts = check_alerts(totals, load_thresholds(args.repo[0] if args.repo else None))
        if args.prometheus:
            targets["prometheus"].write(_metrics(totals, alerts))
    broken = _report_broken(collected)
    if args.check:
        _notify(args, alerts)
        return _print_alerts(args, alerts) or broken
    if targets.keys() <= {"prometheus", "dashboard"} and targets and not (args.json or args.by):
        return broken  # from cron: only the file was requested
    statistics = summarize(collected)
    if "csv" in targets:
        from orchestrator.report.statistics.text_and_csv import render_csv

        targets["csv"].write(render_csv(statistics, args.by))
    if "html" in targets:
        from orchestrator.report.statistics.html_page import render_page

        targets["html"].write(render_page(statistics))
    if not any(target.to_stdout for target in targets.values()):
        _print(args, statistics)
    return broken


def _metrics(totals: RunTotals, alerts: list[Alert]) -> str:
    try:
        from orchestrator.report.statistics.prometheus_metrics import render_metrics
    except ImportError:
        from orchestrator.optional_dependencies import install_command

        raise InputError(
            f"--prometheus needs prometheus-client; run: {install_command('metrics')}"
        ) from None
    return render_metrics(totals, alerts)


def _print_alerts(args: argparse.Namespace, alerts: list[Alert]) -> int:
    """Print each alert that fires or cannot be decided; returns the exit code."""
    from msgspec import to_builtins

    if args.json:
        emit(as_json([to_builtins(alert) for alert in alerts]), sys.stdout)
    shown: dict[str, str] = {}
    for alert in alerts:
        if alert.state != "ok":  # one line for all alerts with the same reason
            name, why = alert.name, alert.message.removeprefix(f"{alert.name}: ")
            same = alert.state == "unknown" and why in shown
            shown[why] = f"{shown[why]}, {name}" if same else name
    if not args.json:
        for why, names in shown.items():
            emit_line(f"{names}: {why}", sys.stdout)
    states = {alert.state for alert in alerts}
    if "firing" in states:
        return EXIT_GATED
    return EXIT_INCOMPLETE if "unknown" in states else EXIT_OK


def _notify(args: argparse.Namespace, alerts: list[Alert]) -> None:
    """Tell the channels that want to know of alerts."""
    from orchestrator.app.notify.run_alerts import notify_of_alerts

    for line in notify_of_alerts(args.repo[0] if args.repo else None, alerts):
        emit_line(f"diffcourt: {line}", sys.stderr)


def _refuse_mixtures(args: argparse.Namespace) -> None:
    written = [args.csv, args.html, args.prometheus, args.dashboard, "-" if args.json else None]
    if sum(file in {"-", "/dev/stdout"} for file in written) > 1:
        raise InputError("only one result can go to standard output; name files for the others")
    if args.since and (args.check or args.prometheus):
        raise InputError(
            "--since cannot be combined with --check, whose window is in "
            "config/alerts.yaml, or with --prometheus, whose counters cover all runs"
        )
    if args.check and (args.by or args.csv or args.html):
        raise InputError("--check prints alerts only; leave out --by, --csv and --html")
    if args.all and args.by is None:
        raise InputError("--all lists every line of --by; name what with --by")


def _print(args: argparse.Namespace, statistics: Statistics) -> None:
    from msgspec import to_builtins

    from orchestrator.report.statistics.text_and_csv import render_groups, render_statistics

    width = width_of(sys.stdout)
    if args.json:
        text = as_json(to_builtins(statistics))
    elif not statistics.total.runs and not args.since:
        text = "No runs yet. Start one with: diffcourt review\n"
    elif args.by is not None:
        text = render_groups(statistics, args.by, width, None if args.all else 10)
    else:
        text = render_statistics(statistics, width)
    emit(text, sys.stdout)


def _report_broken(collected: Collected) -> int:
    """Print each damaged run; returns the exit code."""
    for broken in collected.broken:
        emit_line(f"diffcourt: not counted: run {broken.run_id}: {broken.why}", sys.stderr)
    return EXIT_INCOMPLETE if collected.broken else EXIT_OK
