"""Which files were examined, how deeply, and where that is insufficient for a verdict."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from diffchecks.check_io import decode_text
from diffchecks.comment_lines import comments_of, only_literals, same_code
from diffchecks.data_files import vocabulary
from diffchecks.file_patterns import file_names, matches
from diffchecks.jobs import ChangedFile
from diffchecks.path_kinds import is_illustrative
from diffchecks.skipped_files import GENERATED, LOCK_FILE, MARKED, is_settled
from orchestrator.catalog.languages import LanguagesFile
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall, Work, gaps, latest
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.document_parts import Checked, DepthCounts, HunkReaders
from orchestrator.code_review.verdict.model import Skipped

WHOLE_CHANGE = "*"
"""The path of a gap that concerns the whole change and no file of it."""

UNEXAMINED = "no tool looked at it"
"""Why a file is skipped that nobody left out on purpose."""

EXECUTABLE = "100755"
DECLARATIONS = (".d.ts", ".d.mts", ".d.cts", ".rbi", ".pyi")
TEXT_ONLY = "only its text was searched"
NOTHING_READ = "nothing of the change was read as code"


def list_skipped(
    workspace: ReviewWorkspace,
    calls: Sequence[AnalyzerCall],
    team: Iterable[Work],
    withheld: Mapping[str, tuple[str, bool]],
    left_out: Mapping[str, str],
) -> tuple[Skipped, ...]:
    """The files, and the parts of the review, that were left out or could not be examined.

    Args:
        withheld: analyzer → why no agent was given it, and whether that is a gap.
        left_out: path → why the lead assigned it to no agent; required checks examine it anyway.
    """
    skipped: list[Skipped] = []
    examined = {path for call in calls for path in call.result.examined}
    for file in workspace.change.files:
        if file.skip == LOCK_FILE and file.path in examined:
            continue
        if why := workspace.left_out(file):
            skipped.append(Skipped(path=file.path, why=why, gap=workspace.unread(file)))
        elif file.path not in examined:
            skipped.append(Skipped(path=file.path, why=UNEXAMINED, gap=True))
    skipped += [*_list_gaps(calls), *_list_known_gaps(calls)]
    skipped += [
        Skipped(path=path, why=f"the lead left it out: {why}", gap=True)
        for path, why in left_out.items()
    ]
    last = {call.tool: call for call in calls}
    whole = [(call.tool, call.why, True) for call in last.values() if call.why]
    whole += [(tool, *why) for tool, why in withheld.items() if tool not in last]
    ended = [entry.result for entry in latest(team).values() if entry.result.status != "ok"]
    whole += [(one.agent, f"{one.status}: {one.detail}", True) for one in ended]
    skipped += [Skipped(path=WHOLE_CHANGE, why=why, tool=by, gap=gap) for by, why, gap in whole]
    return tuple(sorted(skipped, key=lambda skip: (skip.path, skip.tool)))


def _list_gaps(calls: Sequence[AnalyzerCall]) -> list[Skipped]:
    """Files that analyzers could not examine; tools of one analyzer count once."""
    analyzer = {call.tool: call.result.tool or call.tool for call in calls}
    unique: dict[tuple[str, str, str], Skipped] = {}
    for (tool, path), why in sorted(gaps(calls).items()):
        skip = Skipped(path=path, why=why, tool=tool, gap=True)
        unique.setdefault((analyzer[tool], path, why), skip)
    return list(unique.values())


def _list_known_gaps(calls: Sequence[AnalyzerCall]) -> list[Skipped]:
    """Files that analyzers could not read in base, at least: no gap of this review."""
    found = {
        (path, call.result.tool): Skipped(path=path, why=why, tool=call.tool, gap=False)
        for call in calls
        for path, why in call.result.known_gaps.items()
    }
    return [skip for _, skip in sorted(found.items())]


def list_checked(
    calls: Sequence[AnalyzerCall],
    agents: Mapping[str, Collection[str]],
    languages: LanguagesFile,
    hunks: Mapping[str, tuple[HunkReaders, ...]] | None = None,
) -> tuple[Checked, ...]:
    """The files that tools examined, in which calls, and how deeply.

    Args:
        agents: path → the agents that read it.
        hunks: path → the agents that read each hunk.
    """
    by: dict[str, set[str]] = {}
    refs: dict[str, set[str]] = {}
    as_code = {path for path, readers in agents.items() if readers}
    results = [call.result for call in calls]
    # A comparison lists files without findings even if it could not parse them.
    unparsed = {p for r in results if not r.compares for p in (*r.gaps, *r.known_gaps)}
    as_code |= {p for r in results for p in r.read if not (r.compares and p in unparsed)}
    for call in calls:
        for path in call.result.examined:
            by.setdefault(path, set()).add(call.tool)
            refs.setdefault(path, set()).add(call.ref)
    return tuple(
        Checked(
            path=path,
            by=tuple(sorted(by[path])),
            tool_calls=tuple(sorted(refs[path])),
            depth="code" if path in as_code else "text",
            template="" if path in as_code else languages.template_of(path),
            read_by=tuple(sorted(agents.get(path, ()))),
            hunks=(hunks or {}).get(path, ()),
        )
        for path in sorted(by)
    )


def count_depths(files: Sequence[ChangedFile], checked: Iterable[Checked]) -> DepthCounts:
    """The number of files by depth, and the share of changed lines that were read as code."""
    entries = list(checked)
    depths = {entry.path: entry.depth for entry in entries}
    hunks = [hunk for entry in entries for hunk in entry.hunks]
    lines = {file.path: max(1, len(file.added) + len(file.removed)) for file in files}
    found = [depths.get(path, "none") for path in lines]
    read = sum(count for path, count in lines.items() if depths.get(path) == "code")
    return DepthCounts(
        code=found.count("code"),
        text=found.count("text"),
        none=found.count("none"),
        share_as_code=round(read / sum(lines.values()), 3) if lines else 1.0,
        hunks=len(hunks),
        unread_hunks=sum(not hunk.read_by for hunk in hunks),
    )


async def find_inert(workspace: ReviewWorkspace) -> set[str]:
    """The changed programs that no tool reads as code, and whose comments alone differ.

    Generated ones, if texts and numbers alone differ.
    """
    found: set[str] = set()
    for file in workspace.change.files:
        same = file.status == "modified" and file.old_mode == file.new_mode and file.in_head
        generated = file.kind == "text" and (file.skip or "").startswith(GENERATED)
        known = comments_of(file.path) and not file.script and not workspace.left_out(file)
        if same and file.whole and (generated or known):
            blobs = (file.old_blob or "", file.new_blob or "")
            base, head = [decode_text(await workspace.contents.read(blob)) for blob in blobs]
            if generated:
                alike = only_literals(base, file.removed) and only_literals(head, file.added)
            else:
                alike = same_code(file.path, base, head)
            found |= {file.path} if alike else set()
    return found


def add_unread(
    skipped: Sequence[Skipped],
    checked: Iterable[Checked],
    workspace: ReviewWorkspace,
    languages: LanguagesFile,
    *,
    gap: bool,
    inert: Collection[str] = (),
) -> tuple[Skipped, ...]:
    """The skipped files plus programs read as text only, or all files if none was read as code.

    A skipped file that its name calls source, and its bytes a binary, is a gap in any case.

    Args:
        gap: whether these are gaps; False: notes.
        inert: those that are notes, as nothing that runs differs.
    """
    as_code = {entry.path for entry in checked if entry.depth == "code"}
    explained = {entry.path for entry in skipped}
    files = [file for file in workspace.change.files if file.path not in workspace.excluded]
    owed = {file.path for file in files if not as_code and _needs_reading(file, languages)}
    gone = {file.path for file in files if is_settled(file) and file.skip != LOCK_FILE}
    hidden = {file.path: _hidden_source(file, languages) for file in files}
    found: list[Skipped] = []
    for entry in skipped:
        is_gap, why = entry.gap, entry.why
        if not entry.gap and (source := hidden.get(entry.path)):
            is_gap, why = True, f"{why}, although its name says that it is {source}"
        if not is_gap and entry.path in owed - gone.union(inert):
            is_gap, why = gap, f"{why}; {NOTHING_READ}"
        found.append(replace(entry, gap=is_gap, why=why))
    for file in files:
        if file.path in explained or file.path in as_code:
            continue
        program = _program(file, languages)
        if program:
            why = f"not read as {program}: {TEXT_ONLY}"
        elif file.path in owed:
            why = f"{TEXT_ONLY}, and {NOTHING_READ}"
        else:
            continue
        is_gap = gap and file.path not in inert
        is_gap = is_gap and bool(program or _kind(file, languages) not in {"style", "settings"})
        found.append(Skipped(path=file.path, why=why, gap=is_gap))
    return tuple(sorted(found, key=lambda skip: (skip.path, skip.tool)))


def _program(file: ChangedFile, languages: LanguagesFile) -> str:
    """The kind of a file that executes; empty for others, deleted ones, and what base has."""
    if _is_empty(file) or file.only_moved or file.new_mode is None:
        return ""
    language = languages.language_of(file.path)
    executable = EXECUTABLE in {file.new_mode, file.old_mode}
    name = PurePosixPath(file.path).name
    # A shell runs it without a first line as well: `bin/status`, unlike a README from a share.
    runs = file.script or (executable and "." not in name and name.islower())
    if language and not (runs and _kind(file, languages) in {"prose", "settings"}):
        return language if _kind(file, languages) == "program" else ""
    return "a program" if runs or executable else ""


def _hidden_source(file: ChangedFile, languages: LanguagesFile) -> str:
    """The language of a file of head that no analyzer reads because it has the bytes of a binary.

    One NUL suffices, and what executes or renders the file reads past it.
    """
    if file.kind != "binary" or file.new_mode is None or file.only_moved:
        return ""
    acts = _kind(file, languages) in {"program", "data"}
    return languages.language_of(file.path) if acts else ""


def _needs_reading(file: ChangedFile, languages: LanguagesFile) -> bool:
    """Whether a file must be read as code if it is alone in a change.

    Prose, media, what is empty, and texts of no known kind among tests and documents need not. Nor
    what base marks as generated, or generated declarations and settings, which do not run.
    """
    declares = file.path.endswith(DECLARATIONS) and (file.skip or "").startswith(GENERATED)
    if file.kind == "media" or file.only_moved or file.skip == MARKED or declares:
        return False
    if file.kind not in {"text", "symlink"}:
        return True
    kind = _kind(file, languages) or ("prose" if is_illustrative(file.path) else "")
    # Data that does not parse is a finding, or did not parse in base either: it is no such data.
    parsed = kind in {"data", "settings"} and matches(file.path, file_names("data"))
    parsed = parsed and file.skip is None and file.old_blob is not None
    noted = kind in {"settings", "style"} and file.skip is not None and file.old_blob is not None
    return not (_is_empty(file) or kind == "prose" or parsed or noted)


def _kind(file: ChangedFile, languages: LanguagesFile) -> str:
    language = languages.language_of(file.path)
    kind = languages.languages[language].kind if language else ""
    return "settings" if kind == "program" and vocabulary("fixture").search(file.path) else kind


def _is_empty(file: ChangedFile) -> bool:
    """Whether a text file is empty on both sides; a lone line end is no program either."""
    return file.size <= 1 and not file.removed
