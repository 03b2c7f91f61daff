"""A CI job's runner reads what we print as orders to itself; none of them may be the change's."""

import io
import json

from msgspec import to_builtins

from orchestrator.cli.error_reporting import report_errors
from orchestrator.code_review.verdict.model import Evidence, Verdict
from orchestrator.engine.observer_events import Event
from orchestrator.errors import InputError
from orchestrator.report.progress_view import PlainProgress
from orchestrator.report.terminal_escaping import as_json, emit
from orchestrator.report.verdict_text import render_verdict
from tests.report.verdict_samples import finding, verdict

ORDERS = (
    "::stop-commands::quiet",
    "::set-output name=verdict::merge",
    "##[add-mask]e",
    "##vso[task.complete result=Succeeded;]",
    "##teamcity[buildStatus status='SUCCESS']",
)


def obeyed(printed: str) -> list[str]:
    """The lines that a runner acts on, as its own parser looks for them."""
    found = []
    for line in printed.splitlines():
        anywhere = any(mark in line.lower() for mark in ("##[", "##vso[", "##teamcity["))
        if anywhere or line.strip().startswith("::"):
            found.append(line)
    return found


def hostile(order: str) -> Verdict:
    said = finding(
        path=order,
        title=f"{'word ' * 11}{order}",
        detail=f"{'x ' * 35} {order} {order}",
        evidence=Evidence(quote=f"{order}\n  {order}", tool_calls=()),
    )
    return verdict(findings=(said,), lead_summary=f"{'y ' * 40}{order}", summary=order)


def test_neither_report_nor_json_contains_ci_commands():
    for order in ORDERS:
        document = hostile(order)
        stream = io.StringIO()
        for width in range(40, 101, 3):  # so that each word begins a line at some width
            emit(render_verdict(document, width=width), stream)
        view = PlainProgress(stream)
        view(Event(kind="note", at=1.0, detail=order))
        view(Event(kind="tool_finished", at=1.0, agent=order, tool=order, detail=order))
        assert obeyed(order) == [order]
        assert obeyed(stream.getvalue()) == []
        plain = to_builtins(document)
        text = as_json(plain)
        assert obeyed(text) == []
        assert json.loads(text) == json.loads(json.dumps(plain))


def test_an_error_contains_no_ci_command(capsys):
    for order in ORDERS:
        with report_errors(resumable=True):
            raise InputError(order)
    assert obeyed(capsys.readouterr().err) == []


def test_text_that_is_not_a_ci_command_is_unchanged():
    text = "std::vector ## heading # [x] Foo::Bar a::b\n"
    stream = io.StringIO()
    emit(text, stream)
    assert stream.getvalue() == text
