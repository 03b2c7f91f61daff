"""Memory entries that past reviews suggest, as patches for a person to read, change and commit.

Nothing is written to the work tree. Texts of findings come from models and changes, so each is one
short line in code font, and none counts until a person has committed it to base.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

import anyio
from msgspec import Struct

from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.memory.past_reviews import (
    DatedVerdict,
    PastReviews,
    ReviewedFinding,
    find_outcomes,
)
from orchestrator.app.memory.waiver_files import (
    DISMISSAL_FILE,
    Reason,
    extend_file,
    is_same,
    make_dismissal,
    on_one_line,
    render_dismissal,
)
from orchestrator.app.runs.state_directory import repo_root
from orchestrator.catalog.repository_memory import Dismissal
from orchestrator.code_review.verdict.model import Rejected, Verdict
from orchestrator.data_directories import CONVENTIONS, FAILURES, MEMORY_FILES, OVERLAY
from orchestrator.errors import InputError
from orchestrator.wording import count_noun

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

TITLES = {CONVENTIONS: "Conventions", FAILURES: "What past reviews missed or got wrong"}

MAX_TEXT = 160
"""Characters of a text of a finding that an entry repeats."""

MAX_LINES = 100
"""Lines that are proposed for one file."""

_WRONG = {"argued": "was argued down", "withdrawn": "was withdrawn", "constant": "was harmless"}


class Proposals(Struct):
    """The proposed entries.

    Attributes:
        conventions, failures: lines by their subject, so that none is proposed twice.
        dismissals: with the text of their entries.
    """

    conventions: dict[str, str]
    failures: dict[str, str]
    dismissals: list[tuple[Dismissal, str]]


def propose(reviews: Sequence[DatedVerdict], outcomes: Iterable[ReviewedFinding]) -> Proposals:
    """The entries that reviews suggest, the newest reviews first."""
    found = Proposals({}, {}, [])
    for review in reviews:
        known = {one.fingerprint for one, _ in found.dismissals}
        found.dismissals += [
            made
            for made in (*_overridden(review.verdict), *_waived(review))
            if made[0].fingerprint not in known
        ]
        for rejected in review.verdict.rejected:
            if line := _describe_rejected(rejected, review.day):
                found.failures.setdefault(*line)
        if review.verdict.stop.reason == "stagnation":
            head = _code(review.verdict.change.head[:12])
            what = f"The review of {head} stagnated"
            detail = _code(review.verdict.stop.detail)
            found.failures.setdefault(what, f"{what}: {detail}{_on(review.day)}.")
    for name, ones in _by_name(outcomes):
        fixed = [one for one in ones if one.outcome == "fixed"]
        verb, most = ("fix", fixed) if 2 * len(fixed) >= len(ones) else ("merge", ones)
        last = max(most, key=lambda one: one.day)
        count = len(fixed) if verb == "fix" else len(ones) - len(fixed)
        summary = f"{count} of {len(ones)}, the last in {_code(last.path)}{_on(last.day)}"
        if verb == "fix":
            what = f"People fix {_code(name)}"
            found.conventions[what] = f"{what}: {summary}."
        else:
            what = f"People merge {_code(name)} as it is"
            found.failures[what] = f"{what}: {summary}."
    return found


def _by_name(outcomes: Iterable[ReviewedFinding]) -> Iterator[tuple[str, list[ReviewedFinding]]]:
    groups: dict[str, list[ReviewedFinding]] = {}
    for one in outcomes:
        groups.setdefault(one.name, []).append(one)
    yield from sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def _waived(review: DatedVerdict) -> Iterator[tuple[Dismissal, str]]:
    """Findings that people waived by fingerprint, which does not match other wordings."""
    reasons = {use.name: use for use in review.verdict.waivers if use.state == "used"}
    for finding in review.verdict.findings:
        use = reasons.get(finding.fingerprint)
        if use is None or finding.state != "waived":
            continue
        with suppress(InputError):  # its last day is over by now
            reason = Reason(why=use.why, by=use.by, until=use.until)
            day = date.fromisoformat(review.day) if review.day else None
            made = make_dismissal(finding, reason, day)
            yield made, render_dismissal(made, finding)


def _overridden(verdict: Verdict) -> Iterator[tuple[Dismissal, str]]:
    """What a person accepted with a reason by overriding the verdict; critical is asked by name."""
    override = verdict.override
    if override is None or override.verdict != "merge":
        return
    for finding in verdict.findings:
        counts = finding.state == "open" and finding.outcome != "merge"
        if counts and finding.severity != "critical":
            reason = Reason(why=override.reason, recorded_by=override.by)
            made = make_dismissal(finding, reason, date.fromisoformat(override.at[:10]))
            yield made, render_dismissal(made, finding)


def _describe_rejected(rejected: Rejected, day: str) -> tuple[str, str] | None:
    """A description of a review's false or late finding."""
    finding = rejected.finding
    what = f"{_code(finding.path)}: {_code(finding.title)}"
    if rejected.cause in _WRONG:
        why = f"{_WRONG[rejected.cause]}, {_code(rejected.reason)}"
        return what, f"{what} {why}{_on(day)}."
    if rejected.cause == "settled" and finding.severity == "medium":
        return what, f"{what} was seen only after a complete review had passed it{_on(day)}."
    if rejected.cause == "unverified" and rejected.finding.reported_by:
        name = _code(finding.counted_as)
        by = ", ".join(map(_code, finding.reported_by))
        return what, f"{what} ({name}) was reported by {by} without its text in the file{_on(day)}."
    return None


def _on(day: str) -> str:
    return f" ({day})" if day else ""


def _code(text: str) -> str:
    """A text as one line in code font, from which no part of it can break out."""
    plain = on_one_line(text.replace("`", "'"))
    short = plain if len(plain) <= MAX_TEXT else f"{plain[: MAX_TEXT - 3]}..."
    return f"`{short}`" if short else "`?`"


class MemoryChange(Struct, frozen=True):
    """A proposed change of the memory, as a patch for ``git apply``, and notes for the user."""

    patch: str
    notes: Sequence[str]


def propose_entries(repo: Path | None, reviews: PastReviews) -> MemoryChange:
    """The entries that past reviews suggest to add; the patch is empty without any.

    Raises:
        InputError: a file of the memory cannot be read or extended.
        ConfigError: one has an error.
    """
    before = read_memory(repo)
    outcomes, why = anyio.run(find_outcomes, repo or Path(), reviews.verdicts)
    after, count = add_proposals(before, propose(reviews.verdicts, outcomes))
    entries = "1 entry" if count == 1 else f"{count:,} entries"
    found = count_noun(len(reviews.verdicts), "review")
    if reviews.passed_over:
        found += f" ({reviews.passed_over} of another version of Diffcourt passed over)"
    notes = [f"{entries} proposed from {found}."]
    if why:
        notes.append(f"What became of findings in the base branch is not known: {why}.")
    return MemoryChange(make_patch(before, after), notes)


def read_memory(repo: Path | None) -> dict[str, str]:
    """The texts of the memory in the work tree; empty for missing files."""
    found: dict[str, str] = {}
    with SafeDirectory(repo_root(repo or Path()).resolve()) as tree:
        for name in MEMORY_FILES:
            path = f"{OVERLAY}/{name}"
            try:
                found[path] = tree.read(path).decode() if tree.is_file(path) else ""
            except UnicodeDecodeError:
                raise InputError(f"{path} is not UTF-8; save it as UTF-8") from None
    return found


def add_proposals(before: Mapping[str, str], proposals: Proposals) -> tuple[dict[str, str], int]:
    """The files, extended by proposals that they do not contain yet, and how many those are.

    Args:
        before: name → text, of all files of the memory.
    """
    after, count = dict(before), 0
    for name, lines in ((CONVENTIONS, proposals.conventions), (FAILURES, proposals.failures)):
        path = f"{OVERLAY}/{name}"
        new = [line for what, line in lines.items() if f"- {what}" not in before[path]]
        new = new[:MAX_LINES]
        count += len(new)
        if new:
            text = before[path] or f"# {TITLES[name]}\n\n"
            text = text if text.endswith("\n") else f"{text}\n"
            after[path] = text + "".join(f"- {line}\n" for line in new)
    path = DISMISSAL_FILE.name
    known = list(DISMISSAL_FILE.read(before[path].strip().encode() and before[path].encode()))
    for dismissal, entry in proposals.dismissals:
        if not any(is_same(one, dismissal) for one in known):
            data = after[path].encode()
            after[path] = extend_file(DISMISSAL_FILE, data, dismissal, entry)
            known.append(dismissal)
            count += 1
    return after, count


def make_patch(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The differences as a patch for ``git apply``; empty without any."""
    return "".join(
        "".join(_file_patch(name, before[name], text))
        for name, text in sorted(after.items())
        if text != before[name]
    )


def _file_patch(name: str, before: str, after: str) -> Iterator[str]:
    yield f"diff --git a/{name} b/{name}\n"
    old, new = f"a/{name}", f"b/{name}"
    if not before:
        yield "new file mode 100644\n"
        old = "/dev/null"
    lines = difflib.unified_diff(_LINE.findall(before), _LINE.findall(after), old, new)
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
