"""Add a waiver to a repository's ``.diffcourt/waivers.yaml``, whose other text stays as it is."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from msgspec import Struct

from orchestrator.app.state_directory import repo_root
from orchestrator.catalog.verdict_policy import Waiver, WaiverFile
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.data_directories import OVERLAY, WAIVERS
from orchestrator.errors import ConfigError, InputError
from orchestrator.sandbox.safe_paths import SafeDirectory

NAME = f"{OVERLAY}/{WAIVERS}"
_HEAD = (
    "# Findings that people have accepted; what counts is this file in the base branch.\nwaivers:\n"
)


class NewWaiver(Struct, frozen=True):
    """A waiver to be written.

    Attributes:
        comment: what it is of, for whoever reads the file.
    """

    waiver: Waiver
    comment: str = ""


def waiver_of_finding(
    verdict: Verdict, finding_id: str, why: str, by: str, until: str
) -> NewWaiver:
    """A waiver of one finding of a run, by its fingerprint and path.

    Raises:
        InputError: the verdict has no such open finding.
    """
    known = {finding.id: finding for finding in verdict.findings}
    finding = known.get(finding_id)
    if finding is None:
        names = ", ".join(list(known)[:10]) or "none"
        raise InputError(f"the run {verdict.run_id} has no finding {finding_id}; it has {names}")
    if finding.state == "waived":
        raise InputError(f"{finding_id} is waived already: {finding.waiver}")
    if finding.severity == "critical" and not by:
        raise InputError(f"{finding_id} is critical, so a person must accept it: give --by NAME")
    return make_finding_waiver(finding, why, by, until)


def make_finding_waiver(finding: Finding, why: str, by: str, until: str = "") -> NewWaiver:
    """A waiver of a finding by its fingerprint and path.

    Raises:
        InputError: the last day is no date, or over.
    """
    waiver = make_waiver(why, by, until, fingerprint=finding.fingerprint, paths=(finding.path,))
    return NewWaiver(waiver, f"{finding.severity}: {finding.title} [{finding.rule}]")


def make_waiver(
    why: str,
    by: str,
    until: str,
    *,
    rule: str | None = None,
    fingerprint: str | None = None,
    paths: Sequence[str] = (),
) -> Waiver:
    """A waiver that does not end before today.

    Raises:
        InputError: the last day is no date, or over.
    """
    try:
        last = date.fromisoformat(until) if until else None
    except ValueError:
        raise InputError(f"--until: {until} is no date; write it as 2027-06-30") from None
    if last is not None and last < datetime.now(UTC).date():
        raise InputError(f"--until: {until} is over")
    return Waiver(
        rule=rule,
        fingerprint=fingerprint,
        paths=tuple(paths) or ("**",),
        until=last,
        why=why,
        by=by,
    )


def add_waiver(repo: Path | None, new: NewWaiver) -> str:
    """Append a waiver to the file in the work tree; returns the text that was added.

    Raises:
        InputError: the same is waived already, or the file cannot be extended.
    """
    with SafeDirectory(repo_root(repo or Path()).resolve()) as tree:
        before = tree.read(NAME) if tree.is_file(NAME) else b""
        waiver = new.waiver
        known = read_yaml(WaiverFile, before, NAME).waivers if before.strip() else ()
        for other in known:
            same = (other.rule, other.fingerprint, other.paths) == (
                waiver.rule,
                waiver.fingerprint,
                waiver.paths,
            )
            if same and (other.until is None or other.until == waiver.until):
                raise InputError(f"{NAME} has that waiver already: {other.why}")
        entry = render_waiver(new)
        text = before.decode() if before.strip() else _HEAD
        after = (text if text.endswith("\n") else f"{text}\n") + entry
        try:
            written = read_yaml(WaiverFile, after.encode(), NAME).waivers
        except ConfigError:
            written = ()
        if written != (*known, waiver):
            raise InputError(
                f"{NAME} does not end with its list of waivers; add this by hand:\n{entry}"
            )
        tree.write(NAME, after.encode())
    return entry


def render_waiver(new: NewWaiver) -> str:
    """An entry of the file; a JSON string is a YAML string."""
    waiver = new.waiver
    named = {"rule": waiver.rule, "fingerprint": waiver.fingerprint}
    lines = [f"{name}: {json.dumps(value)}" for name, value in named.items() if value]
    if waiver.paths != ("**",):
        lines.append(f"paths: {json.dumps(list(waiver.paths))}")
    lines.append(f"why: {json.dumps(waiver.why)}")
    if waiver.by:
        lines.append(f"by: {json.dumps(waiver.by)}")
    if waiver.until:
        lines.append(f"until: {waiver.until}")
    comment = "".join(char if char.isprintable() else " " for char in new.comment)
    head = f"  # {comment}\n" if comment else ""
    return head + "".join(
        f"  {'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(lines)
    )
