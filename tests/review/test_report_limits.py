"""What an agent's finding can weigh at most, whatever the agent says."""

import pytest
from msgspec import convert

from orchestrator.code_review.agent_report_contracts import ReportedFinding
from orchestrator.code_review.findings.agent_reports import read_claim

CLAIM = {
    "path": "a.md",
    "start_line": 1,
    "end_line": 1,
    "quote": "any text",
    "severity": "critical",
}


@pytest.mark.parametrize(
    ("agent", "category", "title", "severity"),
    [
        ("docs", "", "The example does not run", "medium"),
        ("docs", "", "Typo in the heading", "info"),
        ("docs-2", "", "The example does not run", "medium"),
        ("generalist", "docs", "A misspelled word", "info"),
        ("generalist", "Documentation", "The example does not run", "medium"),
        ("docs", " docs / guide", "The example does not run", "medium"),
        ("qa", "docker", "The image runs as root", "critical"),
        ("qa", "", "Typo in a name breaks every call", "critical"),
        ("docs", "security", "The guide prints a password", "critical"),
    ],
)
def test_documentation_weighs_medium_at_most_and_a_typo_nothing(
    agent: str, category: str, title: str, severity: str
) -> None:
    claim = convert({**CLAIM, "category": category, "title": title}, ReportedFinding)
    assert read_claim(claim, agent).severity == severity


def test_a_category_is_told_however_it_is_written() -> None:
    claim = convert(
        {**CLAIM, "category": "Security ", "title": "Anybody reads it"}, ReportedFinding
    )
    assert read_claim(claim, "qa").category == "security"  # as gates by category name it
