"""The verdict as one self-contained page: no network, a strict policy, readable without script."""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from orchestrator.app.runs.run_details import CallDetails
from orchestrator.app.runs.run_record import RunRecord
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal_verification import VerificationResult
from orchestrator.report.formats import FormatInputs
from orchestrator.report.formats.html_page.findings import render_findings
from orchestrator.report.formats.html_page.overview import (
    render_checks,
    render_coverage,
    render_header,
    render_review,
    title_of,
)
from orchestrator.report.formats.html_page.run_sections import render_run
from orchestrator.report.html_elements import text


def render_html(verdict: Verdict, sources: FormatInputs, more: str = "") -> str:
    """The page; nothing in it is fetched, and only our own script and style may run.

    Args:
        more: HTML of further sections.
    """
    style, script = shared_style() + _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    ran = f"Run {verdict.run_id}, Diffcourt {verdict.provenance.version}"
    if verdict.digest:
        ran += f", digest {verdict.digest}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{text(title_of(verdict))}</title><style>{style}</style></head>\n"
        '<body><a class="skip" href="#findings">Skip to the findings</a>\n'
        f"{render_header(verdict)}\n<main>\n{render_findings(verdict, sources.excerpts)}\n"
        f"{render_coverage(verdict)}\n{render_checks(verdict)}\n{render_review(verdict)}\n{more}</main>\n"
        f'<footer><div class="small soft">{text(ran)}</div></footer>\n'
        f"<script>{script}</script></body></html>\n"
    )


def render_bundle(
    verdict: Verdict,
    sources: FormatInputs,
    record: RunRecord,
    calls: Iterable[CallDetails],
    checked: VerificationResult,
) -> str:
    """The page with how the run went: one file to share."""
    return render_html(verdict, sources, render_run(verdict, record, calls, checked))


def shared_style() -> str:
    """Colors, code, tables and marks of all pages that we make."""
    return _asset("shared.css")


def findings_script() -> str:
    """Filters findings and moves between them."""
    return _asset("page.js")


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
