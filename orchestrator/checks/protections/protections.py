"""Protection that the change takes away, in every language, from the lines that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrator.checks.check_protocol import CheckReply, Gap, RawFinding, Source, read
from orchestrator.checks.protections.hunks import ChangedText, squeezed
from orchestrator.checks.protections.lost_protection import lost_protection


def run(job: dict[str, Any]) -> CheckReply:
    """Report what the changed files lost."""
    files: list[ChangedText] = []
    gaps: dict[str, str] = {}
    for file in job["files"]:
        if file["status"] in {"deleted", "mode"}:
            continue
        try:
            files.append(_text(job, file))
        except Gap as gap:
            gaps[file["path"]] = str(gap)
    added = squeezed("\n".join(file.added_text for file in files))
    findings = [finding for file in files for finding in _lost(file, added)]
    return CheckReply(findings, [file.path for file in files], gaps)


def _text(job: dict[str, Any], file: dict[str, Any]) -> ChangedText:
    head = Source(file["path"], read(job["head_root"], file["path"])).lines
    old = file["old_path"]
    base = Source(old, read(job["base_root"], old)).lines if old and file["removed"] else []
    return ChangedText(file["path"], base, head, file["removed"], file["added"])


def _lost(file: ChangedText, added: str) -> Iterator[RawFinding]:
    if not file.base:
        return
    for hunk in file.hunks():
        if hunk.base:
            yield from lost_protection(file, hunk, added)
