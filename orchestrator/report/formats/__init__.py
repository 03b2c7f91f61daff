"""The verdict in the formats that other programs read.

A format is a row of ``FORMATS``; its module is imported when it is asked for. Every module renders
what the verdict says and computes nothing of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from msgspec import Struct

if TYPE_CHECKING:  # a start of the command need not import them
    from diffchecks.rules import Rule
    from orchestrator.app.finding_excerpts import ExcerptLine
    from orchestrator.code_review.verdict.model import Verdict

FORMATS = {
    "json": "listing_formats:render_json",
    "sarif": "sarif:render_sarif",
    "github": "listing_formats:render_annotations",
    "gitlab": "listing_formats:render_code_quality",
    "rdjson": "listing_formats:render_rdjson",
    "junit": "listing_formats:render_junit",
    "checkstyle": "listing_formats:render_checkstyle",
    "html": "html_page:render_html",
    "markdown": "markdown:render_markdown",
}
"""Format -> its module below this package, and the function in it."""
HOLDS_COMMANDS = ("github",)
"""Formats whose text gives commands to a CI runner, so that it is printed unchanged."""


class FormatInputs(Struct, frozen=True):
    """What a format may show beside the verdict.

    Attributes:
        rules: id → rule, of the findings' rules that the shipped table has.
        excerpts: id of a finding → lines of the change around it.
    """

    rules: Mapping[str, Rule] = {}
    excerpts: Mapping[str, Sequence[ExcerptLine]] = {}


def render_format(name: str, verdict: Verdict, sources: FormatInputs) -> str:
    """The verdict in a format of ``FORMATS``, ending in a newline where it is not empty."""
    module, _, function = FORMATS[name].partition(":")
    renderer = getattr(import_module(f"{__name__}.{module}"), function)
    return cast("Callable[[Verdict, FormatInputs], str]", renderer)(verdict, sources)
