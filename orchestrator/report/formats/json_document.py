"""The verdict as JSON."""

from msgspec import to_builtins

from orchestrator.code_review.verdict.model import Verdict
from orchestrator.report.formats import FormatInputs
from orchestrator.report.terminal_escaping import as_json


def render_json(verdict: Verdict, _: FormatInputs) -> str:
    """The verdict document (``diffcourt schema verdict``)."""
    return as_json(to_builtins(verdict))
