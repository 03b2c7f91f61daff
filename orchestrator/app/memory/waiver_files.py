"""Adds waivers and dismissals to a repository's files without changing their other text."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from diffchecks.rules import IMPORTED
from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.catalog_listing import list_rules
from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.runs.state_directory import repo_root
from orchestrator.catalog.repository_memory import Dismissal, DismissalFile, DismissedFinding
from orchestrator.catalog.verdict_policy import Waiver, WaiverFile
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.data_directories import DISMISSED, OVERLAY, WAIVERS
from orchestrator.errors import ConfigError, InputError

NAME = f"{OVERLAY}/{WAIVERS}"
NOT_UTF8 = re.compile("[\ud800-\udfff]")
"""Bytes of a name or a line that are no UTF-8; YAML cannot hold them."""
_SPECIAL = re.compile(r"[*?\[\]\\{}]|^[!#]|\s$")


class ListFile(Struct, frozen=True):
    """A file that ends with a list of entries.

    Attributes:
        name: its path in the repository.
        key: of the list; also the name of the model's field.
        entry: the name of an entry in errors.
        comment: the first line of a new file.
    """

    name: str
    key: str
    entry: str
    comment: str
    model: type[Struct]

    def read(self, text: bytes) -> tuple[Any, ...]:
        """The entries of the file's text.

        Raises:
            ConfigError: it is not one of these files.
        """
        return tuple(getattr(read_yaml(self.model, text, self.name), self.key)) if text else ()

    def extend(self, before: str, entries: str) -> str:
        """The text with entries at its end."""
        text = before if before.strip() else f"# {self.comment}\n{self.key}:\n"
        return (text if text.endswith("\n") else f"{text}\n") + entries


WAIVER_FILE = ListFile(
    NAME,
    "waivers",
    "waiver",
    "Findings that people have accepted; what counts is this file in the base branch.",
    WaiverFile,
)


def find_finding(verdict: Verdict, finding_id: str) -> Finding:
    """A finding of a verdict by its id or fingerprint."""
    known = {finding.id: finding for finding in verdict.findings}
    known |= {finding.fingerprint: finding for finding in verdict.findings}
    finding = known.get(finding_id)
    if finding is None:
        names = ", ".join([one.id for one in verdict.findings][:10]) or "none"
        raise InputError(f"the run {verdict.run_id} has no finding {finding_id}; it has {names}")
    return finding


def open_finding(verdict: Verdict, finding_id: str, by: str) -> Finding:
    """A finding of a run that can be accepted.

    Raises:
        InputError: the verdict has no such open finding, or it is critical and no person is named.
    """
    finding = find_finding(verdict, finding_id)
    if finding.state == "waived":
        raise InputError(f"{finding_id} is waived already: {finding.waiver}")
    if finding.severity == "critical" and not by:
        raise InputError(f"{finding_id} is critical, so a person must accept it: give --by NAME")
    return finding


def waiver_of_finding(
    verdict: Verdict, finding_id: str, why: str, by: str, until: str
) -> tuple[Waiver, str]:
    """A waiver of one finding of a run, by its fingerprint and path, and the finding in words.

    Raises:
        InputError: the verdict has no such open finding.
    """
    finding = open_finding(verdict, finding_id, by)
    paths = (literal_glob(finding.path),)
    waiver = make_waiver(why, by, until, fingerprint=finding.fingerprint, paths=paths)
    return waiver, describe_finding(finding)


def literal_glob(path: str) -> str:
    """A glob that matches this path; ``?`` stands for a byte that YAML cannot hold."""
    return NOT_UTF8.sub("?", _SPECIAL.sub(r"\\\g<0>", path))


def describe_finding(finding: Finding) -> str:
    """A finding in one line, for the comment above its entry."""
    return f"{finding.severity}: {finding.title} [{finding.rule}]"


def read_last_day(until: str) -> date | None:
    """The last day of a waiver, which must not be past; None if none is given.

    Raises:
        InputError: it is no date, or past.
    """
    try:
        last = date.fromisoformat(until) if until else None
    except ValueError:
        raise InputError(f"--until: {until} is not a date; write it as 2027-06-30") from None
    if last is not None and last < datetime.now(UTC).date():
        raise InputError(f"--until: {until} has passed")
    return last


def make_waiver(
    why: str,
    by: str,
    until: str,
    *,
    rule: str | None = None,
    fingerprint: str | None = None,
    paths: Sequence[str] = (),
) -> Waiver:
    """A waiver that has not expired."""
    return Waiver(
        rule=rule,
        fingerprint=fingerprint,
        paths=tuple(paths) or ("**",),
        until=read_last_day(until),
        why=why,
        by=by,
    )


def add_waiver(repo: Path | None, new: Waiver, comment: str = "") -> str:
    """Append a waiver to the file in the work tree; returns the text that was added.

    Args:
        comment: the finding in words, for readers of the file.

    Raises:
        InputError: it is waived already, or the file cannot be extended.
    """
    entry = render_entry(new, comment)
    _append_entry(repo, WAIVER_FILE, new, entry)
    return entry


def add_dismissal(repo: Path | None, verdict: Verdict, finding_id: str, reason: "Reason") -> str:
    """Append the dismissal of an open finding of a run; returns the text that was added.

    An existing dismissal of the finding with another context or severity does not prevent it.

    Raises:
        InputError: as ``dismissal_of``; it is dismissed already, or the file cannot be extended.
    """
    dismissal, entry = dismissal_of(verdict, finding_id, reason, repo)
    _append_entry(repo, DISMISSAL_FILE, dismissal, entry)
    return entry


def _append_entry(repo: Path | None, file: ListFile, new: Waiver, entry: str) -> None:
    try:
        with SafeDirectory(repo_root(repo or Path()).resolve()) as tree, tree.locked():
            before = tree.read(file.name) if tree.is_file(file.name) else b""
            known = file.read(before.strip() and before)
            if other := next((one for one in known if is_same(one, new)), None):
                raise InputError(f"{file.name} has that {file.entry} already: {other.why}")
            tree.write(file.name, extend_file(file, before, new, entry).encode())
    except OSError as error:  # a link out of the repository, or a directory of that name
        raise InputError(f"cannot write {file.name}: {error.strerror}") from None


def is_same(known: Waiver, new: Waiver) -> bool:
    """Whether an existing entry makes a new one unnecessary."""

    def subject(one: Waiver) -> tuple[object, ...]:
        about = getattr(one, "about", None)
        state = (about.context, about.flow, about.severity) if about else ()
        return one.rule, one.fingerprint, one.paths, state

    return subject(known) == subject(new) and known.until in {None, new.until}


def extend_file(file: ListFile, before: bytes, new: Waiver, entry: str) -> str:
    """The text of a file with one more entry.

    Raises:
        InputError: the file does not end with its list.
    """
    known = file.read(before.strip() and before)
    after = file.extend(before.decode(), entry)
    try:
        written = file.read(after.encode())
    except ConfigError:
        written = ()
    if written != (*known, new):
        raise InputError(
            f"{file.name} does not end with its list of {file.entry}s; add this by hand:\n{entry}"
        )
    return after


def on_one_line(text: str) -> str:
    """The words of a text; what cannot be printed separates them, since no YAML can hold it."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def render_entry(entry: Waiver, comment: str) -> str:
    """An entry of a file, without fields that have their defaults."""
    lines = list[str]()  # a JSON string is a YAML string
    for name in ("fingerprint", "rule", "paths", "why", "by", "recorded_by", "on", "until"):
        value = getattr(entry, name, None)
        if value and value != ("**",):
            lines.append(f"{name}: {value if isinstance(value, date) else json.dumps(value)}")
    if (about := getattr(entry, "about", None)) is not None:
        shown = {name: getattr(about, name) for name in about.__struct_fields__}
        lines += ["about:"] + [f"  {name}: {json.dumps(value)}" for name, value in shown.items()
                               if value and (name, value) != ("side", "head")]  # fmt: skip
    head = f"  # {on_one_line(comment)}\n" if comment else ""
    return head + "".join(
        f"  {'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(lines)
    )


def render_dismissal(dismissal: Dismissal, finding: Finding) -> str:
    """The text of an entry in the file."""
    return render_entry(dismissal, describe_finding(finding))


DISMISSAL_FILE = ListFile(
    f"{OVERLAY}/{DISMISSED}",
    "dismissed",
    "dismissal",
    "Findings that people have dismissed; what counts is this file in the base branch.",
    DismissalFile,
)

MAX_QUOTE = 1_000
"""Characters of a quotation that are kept; of a longer one, its first lines."""

Scope = Literal["finding", "rule", "path"]


class Reason(Struct, frozen=True, kw_only=True):
    """Why a finding is dismissed, by whom, and for how long.

    Attributes:
        by: the person who answers for it; empty: only the user of the command is recorded.
        until: the last day, as 2027-06-30; empty: it does not expire.
        scope: this finding; all of its rule; or those of its rule in its file.
    """

    why: str
    by: str = ""
    until: str = ""
    scope: Scope = "finding"
    recorded_by: str = ""


def dismissal_of(
    verdict: Verdict, finding_id: str, reason: Reason, repo: Path | None = None
) -> tuple[Dismissal, str]:
    """The dismissal of an open finding of a run, and the text of its entry.

    Args:
        repo: whose rules can be dismissed.

    Raises:
        InputError: there is no such open finding, it is critical and no person is named, it has no
            rule that could be dismissed, or the last day is invalid or past.
    """
    finding = open_finding(verdict, finding_id, reason.by)
    if reason.scope != "finding":
        _require_rule(finding, reason.scope, repo)
    dismissal = make_dismissal(finding, reason)
    return dismissal, render_dismissal(dismissal, finding)


def make_dismissal(finding: Finding, reason: Reason, on: date | None = None) -> Dismissal:
    """The dismissal of a finding.

    Args:
        on: the day it is dismissed; None: today.
    """
    one = reason.scope == "finding"
    return Dismissal(
        fingerprint=finding.fingerprint if one else None,
        rule=None if one else finding.rule,
        paths=(f"/{literal_glob(finding.path)}",) if reason.scope == "path" else ("**",),
        why=on_one_line(reason.why),
        by=reason.by,
        on=on or datetime.now(UTC).date(),
        until=read_last_day(reason.until),
        # Without the machine: everybody who has the repository reads it.
        recorded_by=(reason.recorded_by or current_user()).partition(" on ")[0],
        about=_about(finding) if one else None,
    )


def _require_rule(finding: Finding, scope: Scope, repo: Path | None) -> None:
    """Check that a finding's rule is in the table: an agent can name any."""
    known = {rule.id for rule in list_rules(repo)}
    if finding.rule not in known and not finding.rule.startswith(IMPORTED):
        raise InputError(
            f"--scope {scope}: {finding.id} has no known rule ({finding.rule}), which "
            "diffcourt catalog --rules lists; dismiss the finding alone"
        )


def _about(finding: Finding) -> DismissedFinding:
    context = finding.context
    quote = finding.evidence.quote
    if len(quote) > MAX_QUOTE:
        quote = quote[:MAX_QUOTE].rpartition("\n")[0] or quote[:MAX_QUOTE]
    readable = not NOT_UTF8.search(quote)  # else only its fingerprint finds it again
    return DismissedFinding(
        title=NOT_UTF8.sub("?", finding.title),
        path=NOT_UTF8.sub("?", finding.path),
        rule=finding.rule,
        severity=finding.severity,
        category=finding.category,
        cwe=finding.cwe,
        side=finding.evidence.side,
        line=finding.start_line,
        quote=quote if readable else "",
        scope=NOT_UTF8.sub("?", context.scope) if context and readable else "",
        context=context.lines if context else "",
        flow=context.flow if context else "",
    )
