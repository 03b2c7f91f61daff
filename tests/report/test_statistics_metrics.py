"""Metrics, the dashboard over them, and alerts about the runs of the last days."""

import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.app.statistics.all_runs import Collected
from orchestrator.app.statistics.run_facts import (
    FindingFact,
    ModelCallFact,
    RunFacts,
    TaskFact,
    ToolCallFact,
)
from orchestrator.app.statistics.run_totals import RunTotals
from orchestrator.app.statistics.threshold_alerts import check_alerts, load_thresholds
from orchestrator.catalog.data_file_layers import read_merged, read_shipped_layer
from orchestrator.catalog.settings import ALERTS_FILE, AlertThresholds
from orchestrator.cli.main import main
from orchestrator.data_directories import data_root
from orchestrator.report.statistics.prometheus_metrics import MAX_VALUES, render_metrics
from tests.review.review_kit import Repo

DAY = 24 * 3600.0
NOW = 1_800_000_000.0
SHIPPED = read_merged([read_shipped_layer()], ALERTS_FILE, AlertThresholds)


def fact(number: int, days_ago: float = 0.5, **given: Any) -> RunFacts:
    """A review that went well."""
    plain: dict[str, Any] = {
        "run_id": f"run-{number}", "started": NOW - days_ago * DAY, "is_review": True,
        "state": "finished", "status": "complete", "outcome": "merge", "stop": "done",
        "pattern": "team", "seconds": 60.0, "usd": 0.1,
        "tool_calls": [ToolCallFact("qa", "typos", "ok", True, 0.2)] * 10,
        "model_calls": [ModelCallFact("qa", "m1", True, 2.0, 1000, 100, 800, 0.1)],
        "tasks": [TaskFact("qa", "ok")],
    }  # fmt: skip
    return RunFacts(**{**plain, **given})


def collected(*runs: RunFacts) -> Collected:
    return Collected(sorted(runs, key=lambda run: run.started), [], 0.0, NOW)


def totals(*runs: RunFacts) -> RunTotals:
    return RunTotals.of(collected(*runs))


def days(window: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]] = ()) -> RunTotals:
    """Twenty reviews of the last day and twenty of the days before, some of them unlike others."""
    new = [fact(n, 0.5, **given) for n, given in enumerate([*window, *[{}] * (20 - len(window))])]
    padded = [*before, *[{}] * (20 - len(before))]
    return totals(*new, *(fact(100 + n, 3.0, **given) for n, given in enumerate(padded)))


FAILED = {"tool_calls": [ToolCallFact("qa", "typos", "timeout", True, 9.0)] * 10}
GOOD_AND_BAD: list[tuple[str, dict[str, Any], int, int]] = [
    ("completion", {"status": "incomplete"}, 2, 3),
    ("completion", {"state": "interrupted"}, 2, 3),
    ("tool_errors", FAILED, 1, 2),
    ("loops", {"loops_cut": ["qa"]}, 0, 1),
    ("person_asked", {"person_asked": True}, 2, 3),
    ("review_p95", {"seconds": 901.0}, 1, 2),
    ("steps_per_task", {"tool_calls": [ToolCallFact("qa", "typos", "ok", True, 0.2)] * 64}, 2, 3),
    (
        "tokens_per_task",
        {"model_calls": [ModelCallFact("qa", "m1", True, 2.0, 6500, 100, 0, 0.1)]},
        2,
        3,
    ),
    ("cost_per_task", {"usd": 0.6}, 4, 5),
    ("guard_blocks", {"guard_blocks": ["personal"]}, 2, 3),
]


@pytest.mark.parametrize(("name", "bad", "good", "too_many"), GOOD_AND_BAD)
def test_an_alert_fires_above_its_threshold_and_not_at_it(
    name: str, bad: dict[str, Any], good: int, too_many: int
) -> None:
    for number, firing in ((good, []), (too_many, [name])):
        alerts = check_alerts(days([bad] * number), SHIPPED)
        assert [alert.name for alert in alerts if alert.state == "firing"] == firing
        assert len(alerts) == 9
        assert not [alert for alert in alerts if alert.state == "unknown"]
    off = f"{name}_{'below' if name == 'completion' else 'above'}"
    alerts = check_alerts(days([bad] * 20), replace(SHIPPED, **{off: None}))
    assert name not in {alert.name for alert in alerts}


def test_guard_blocks_are_compared_with_the_days_before() -> None:
    blocked = {"guard_blocks": ["personal"]}
    names = []
    for window, before in ((6, 2), (5, 2), (4, 0)):
        alerts = check_alerts(days([blocked] * window, [blocked] * before), SHIPPED)
        names.append([alert.name for alert in alerts if alert.state == "firing"])
    assert names == [["guard_blocks"], [], ["guard_blocks"]]


def test_too_few_reviews_are_unknown_and_not_fine() -> None:
    new = [fact(n) for n in range(9)]
    assert {alert.state for alert in check_alerts(totals(*new), SHIPPED)} == {"unknown"}
    unknown = [a for a in check_alerts(totals(*new, fact(9)), SHIPPED) if a.state == "unknown"]
    assert [alert.name for alert in unknown] == [
        "steps_per_task", "tokens_per_task", "cost_per_task", "guard_blocks",
    ]  # fmt: skip
    assert unknown[2].message == (
        "cost_per_task: 0 reviews in the 7 days before, and 10 are needed to know"
    )


def test_the_command_says_too_few_by_its_exit_code_and_takes_thresholds_of_base(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = Repo(tmp_path)
    repo.commit({"a.md": "# A\n", ".diffcourt/config/alerts.yaml": "loops_above: null\n"})
    repo.write({".diffcourt/config/alerts.yaml": "loops_above: 1.5\n"})  # not in base
    assert main(["stats", "--check", "--repo", str(tmp_path)]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        "completion, tool_errors, person_asked, review_p95, steps_per_task, tokens_per_task, "
        "cost_per_task, guard_blocks: 0 reviews in the last day, and 10 are needed to know"
    )
    assert load_thresholds(tmp_path) == replace(SHIPPED, loops_above=None)
    repo.commit({})
    assert main(["stats", "--check", "--repo", str(tmp_path)]) == 2
    assert ".diffcourt/config/alerts.yaml:1: " in capsys.readouterr().err
    assert main(["catalog", "--repo", str(tmp_path)]) == 2
    assert "loops_above" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--check", "--since", "7d"], "--since cannot be combined with --check"),
        (["--prometheus", "-", "--json"], "only one result can go to standard output"),
        (["--check", "--by", "tool"], "--check prints alerts only"),
        (["--all"], "--all lists every line of --by"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", *options]) == 2
    assert why in capsys.readouterr().err


def everything() -> str:
    """Metrics of which every series has a value."""
    found = FindingFact("f1", "qa.x", "qa", "low", "open")
    blocked = ToolCallFact("qa", "typos", "guard_refused", False)
    broken = replace(
        fact(1), loops_cut=["qa"], escalations=[("qa", "strong")], guard_blocks=["rate"],
        findings=[found], stop="budget", resumes=2, resumes_ended=1, person_asked=True,
        tool_calls=[*FAILED["tool_calls"], blocked],
    )  # fmt: skip
    gathered = totals(fact(0), broken, fact(2, state="interrupted"))
    return render_metrics(gathered, check_alerts(gathered, replace(SHIPPED, min_reviews=1)))


def test_metrics_have_base_units_and_say_what_happened() -> None:
    text = everything()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families.values() for sample in family.samples
    }  # fmt: skip
    assert values["diffcourt_reviews_total", "complete", "merge"] == 2
    assert values["diffcourt_reviews_unfinished", "interrupted"] == 1
    assert values["diffcourt_tool_calls_total", "timeout", "typos"] == 10
    assert values["diffcourt_tool_calls_total", "refused", "typos"] == 1
    assert values["diffcourt_cost_usd_total",] == pytest.approx(0.3)
    assert values["diffcourt_input_tokens_total", "m1"] == 3000
    assert values["diffcourt_review_duration_seconds_bucket", "60.0"] == 2
    assert values["diffcourt_review_duration_seconds_bucket", "30.0"] == 0
    assert values["diffcourt_review_duration_seconds_sum",] == 120
    assert values["diffcourt_alert_firing", "loops"] == 1
    for name, family in families.items():
        assert family.type in {"counter", "gauge", "histogram"}
        assert family.type != "histogram" or name.endswith("_seconds")
    if promtool := shutil.which("promtool"):
        linted = subprocess.run([promtool, "check", "metrics"], input=text, text=True, check=False)
        assert linted.returncode == 0


def test_no_label_has_more_values_than_the_bound() -> None:
    calls = [ToolCallFact("qa", f"tool{n}", "ok", True, 0.1) for n in range(900)]
    text = render_metrics(totals(fact(0, tool_calls=[*calls, calls[0]])))
    (tools,) = [f for f in text_string_to_metric_families(text) if f.name == "diffcourt_tool_calls"]
    values = {sample.labels["tool"]: sample.value for sample in tools.samples}
    assert len(values) == MAX_VALUES
    assert (values["tool0"], values["other"]) == (2, 900 - (MAX_VALUES - 1))


def queries() -> list[str]:
    dashboard = data_root() / "config" / "grafana-dashboard.json"
    panels = json.loads(dashboard.read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_the_dashboard_asks_only_for_what_is_exported() -> None:
    exported = {
        (sample.name, label)
        for family in text_string_to_metric_families(everything())
        for sample in family.samples for label in ("", *sample.labels)
    }  # fmt: skip
    names = {name for name, _ in exported}
    for query in queries():
        asked = re.findall(r"diffcourt_\w+", query)
        assert asked
        # Of several instances, a panel shows one value.
        assert all(
            part.startswith(("sum", "histogram_quantile", "(sum"))
            for part in re.split(" [/] | or ", query)
            if "diffcourt" in part
        ), query
        assert set(asked) <= names, query
        labels = re.findall(r"(\w+)(?:!?=~?)\"", query) + re.findall(r"by \((.*?)\)", query)
        for label in {name.strip() for group in labels for name in group.split(",")}:
            assert any((name, label) in exported for name in asked), (query, label)


@contextmanager
def serving(text: str) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[str]:
    """A real Prometheus that scrapes a port; the address of its API."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian's package prometheus)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
        f"scrape_configs: [{{job_name: d, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]\n"
    )
    options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    command = [program, *options, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with subprocess.Popen(command) as process:
        try:
            yield f"http://127.0.0.1:{port}/api/v1/query?query="
        finally:
            process.terminate()


def ask(address: str, query: str) -> list[Any]:
    with urllib.request.urlopen(address + urllib.parse.quote(query), timeout=5) as reply:
        answer = json.load(reply)
    assert answer["status"] == "success"
    return list(answer["data"]["result"])


def test_a_real_prometheus_answers_every_query_of_the_dashboard(tmp_path: Path) -> None:
    with serving(everything()) as target, prometheus(tmp_path, target) as address:
        until = time.monotonic() + 60
        scraped = 0.0
        while scraped < 2:
            assert time.monotonic() < until, "it has not scraped"
            time.sleep(0.1)
            try:
                found = ask(address, "count_over_time(diffcourt_broken_journals[1m])")
            except OSError:
                continue
            scraped = float(found[0]["value"][1]) if found else 0.0
        for query in queries():
            assert ask(address, re.sub(r"\$__\w+", "1m", query)), query
