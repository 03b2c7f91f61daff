"""The verdict in the formats that other programs read.

A format is a row of ``FORMATS``; its module is imported when it is asked for. Every module renders
what the verdict says and computes nothing of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import cast

from msgspec import Struct

from diffchecks.rules import Rule
from orchestrator.app.finding_excerpts import ExcerptLine
from orchestrator.code_review.verdict.model import Verdict


class Format(Struct, frozen=True):
    """One format.

    Attributes:
        module: below this package; it has ``function``.
        summary: what reads it, for the help.
        holds_commands: its text gives commands to a CI runner, so it is printed unchanged.
    """

    module: str
    function: str
    summary: str
    holds_commands: bool = False


FORMATS: Mapping[str, Format] = {
    "json": Format("json_document", "render_json", "the verdict itself"),
    "sarif": Format("sarif", "render_sarif", "SARIF 2.1.0, for code scanning"),
    "github": Format(
        "linter_formats", "render_annotations", "annotations of a GitHub Actions step", True
    ),
    "gitlab": Format("linter_formats", "render_code_quality", "GitLab's Code Quality report"),
    "rdjson": Format("linter_formats", "render_rdjson", "Reviewdog Diagnostic Format"),
    "junit": Format(
        "linter_formats", "render_junit", "JUnit XML, for the test view of a CI system"
    ),
    "checkstyle": Format("linter_formats", "render_checkstyle", "Checkstyle XML"),
    "html": Format("html_page", "render_html", "one page to read in a browser"),
    "markdown": Format("markdown", "render_markdown", "a summary for a comment or a job's page"),
}


class FormatInputs(Struct, frozen=True):
    """What a format may show beside the verdict.

    Attributes:
        rules: id → rule, of the findings' rules that the shipped table has.
        excerpts: id of a finding → lines of the change around it.
    """

    rules: Mapping[str, Rule] = {}
    excerpts: Mapping[str, Sequence[ExcerptLine]] = {}


Renderer = Callable[[Verdict, FormatInputs], str]


def render_format(name: str, verdict: Verdict, sources: FormatInputs) -> str:
    """The verdict in a format of ``FORMATS``, ending in a newline where it is not empty."""
    row = FORMATS[name]
    renderer = getattr(import_module(f"{__name__}.{row.module}"), row.function)
    return cast("Renderer", renderer)(verdict, sources)
