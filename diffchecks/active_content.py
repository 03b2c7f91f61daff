"""What runs although nobody takes it for a program.

Scripts in images and prose, commands in settings of any format and in other programs, and settings
that name a program to be run. Of shell commands in files that no analyzer reads as shell, only
those count that hardly ever are anything else: a download or decoded text that a shell runs, and a
shell at the end of a connection.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache

from msgspec import Struct, convert

from diffchecks.check_io import CheckReply, RawFinding, Source, check_files
from diffchecks.data_files import read_names, read_patterns, read_yaml, vocabulary
from diffchecks.jobs import SideJob
from diffchecks.path_kinds import path_kinds
from diffchecks.patterns import commands_in
from diffchecks.patterns.downloaded_scripts import origin_of_download
from diffchecks.script_languages import script_language

_PATTERNS = read_patterns("active_content")
_CONTEXT = 3


def find_commands(source: Source) -> Iterator[RawFinding]:
    """The commands of a file, each at its line."""
    if _is_read_elsewhere(source) or not _PATTERNS["may_match"].search(source.text):
        return
    is_program = "code" in path_kinds(source.path)
    for number, line in enumerate(source.lines):
        if _PATTERNS["may_match"].search(line) is None or _PATTERNS["comment"].match(line):
            continue
        code = _code_of(line)
        around = "\n".join(source.lines[max(0, number - _CONTEXT) : number + 1])
        if code and (not is_program or vocabulary("starts_program").search(around)):
            message = "A shell runs it, in a file that is no script"
            yield RawFinding(code, source.path, number + 1, message)


def _code_of(line: str) -> str:
    if remote := _PATTERNS["remote"].search(line):
        return f"{origin_of_download(remote[0])}-script"
    if _PATTERNS["reverse"].search(line):
        return "reverse-shell"
    return "decoded-script" if _PATTERNS["decoded"].search(line) else ""


def _is_read_elsewhere(source: Source) -> bool:
    path = source.path
    return (
        source.suffix in read_names("read_suffixes")
        or "documents" in path_kinds(path)
        or commands_in(source) is not None
        or (not source.suffix and script_language(path, source.data) == "sh")
    )


_SVG, _PROSE, _NO_SCRIPT = (_PATTERNS[name] for name in ("svg", "prose", "no_script"))
_WHAT = read_yaml("texts.yaml")["active_content"]


def find_scripts(source: Source) -> Iterator[RawFinding]:
    """The scripts of an image or of a page of prose."""
    if source.suffix == ".svg":
        yield from _found(source, source.text, _SVG, "image-script")
    elif source.suffix in {".md", ".markdown"}:
        text = _without_code(source.text)
        yield from _found(source, text, _PROSE, "prose-script")


def _found(source: Source, text: str, pattern: re.Pattern[str], code: str) -> Iterator[RawFinding]:
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    seen: set[int] = set()
    for found in pattern.finditer(text):
        kind = found.lastgroup or ""
        line = bisect_right(starts, found.start(kind))
        address = html.unescape(found[kind]) if kind == "address" else ""
        read = _PATTERNS["ignored"].sub("", address)  # as browsers do
        harmless = kind == "address" and not _PATTERNS["runs"].match(read)
        is_data = _NO_SCRIPT.search(found.groupdict().get("attributes") or "") is not None
        if not (harmless or is_data) and line not in seen:
            seen.add(line)
            where = "an image" if code == "image-script" else "a page of prose"
            yield RawFinding(code, source.path, line, f"{_WHAT[kind]} in {where}")


def _without_code(text: str) -> str:
    """Markdown with its code blocks and code spans blanked, which are shown and not run."""
    fence, lines = "", []
    for line in text.split("\n"):
        mark = _PATTERNS["fence"].match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
            lines.append("")
        elif mark:
            fence = mark[1]
            lines.append("")
        else:
            lines.append("" if line.startswith(("    ", "\t")) else line)
    shown = _without_comments("\n".join(lines))
    return _PATTERNS["inline"].sub(lambda code: re.sub(r"[^\n]", " ", code[0]), shown)


def _without_comments(text: str) -> str:
    parts, end = [], 0
    while (start := text.find("<!--", end)) >= 0 and (close := text.find("-->", start)) >= 0:
        parts += [text[end:start], "\n" * text.count("\n", start, close)]
        end = close + 3
    return "".join([*parts, text[end:]])


class ProgramSetting(Struct, frozen=True):
    """A line of a settings file that has a program run: ``tables/program_settings.yaml``.

    Attributes:
        files: matches the paths of such files, from any directory on.
        line: matches the beginning of the line, in any case.
        text: must match in the file.
        code: the finding's.
    """

    files: str
    line: str
    message: str
    text: str = ""
    code: str = "run-setting"


@cache
def load_settings() -> list[tuple[re.Pattern[str], re.Pattern[str], ProgramSetting]]:
    """Load the settings, with their compiled expressions for paths and lines."""
    return [
        (
            re.compile(rf"(?:.*/)?(?:{setting.files})", re.DOTALL),
            re.compile(setting.line, re.IGNORECASE),
            setting,
        )
        for setting in convert(read_yaml("program_settings.yaml"), list[ProgramSetting])
    ]


def find_settings(source: Source) -> Iterator[RawFinding]:
    """The settings of a file that have a program run, the first of each kind."""
    for files, begins, setting in load_settings():
        if not files.fullmatch(source.path) or not re.search(setting.text, source.text):
            continue
        for number, line in enumerate(source.lines, 1):
            if len(line) < 2000 and begins.match(line):
                yield RawFinding(setting.code, source.path, number, setting.message)
                break


def find_active_content(source: Source) -> Iterator[RawFinding]:
    """All findings in one file."""
    yield from find_scripts(source)
    yield from find_settings(source)
    yield from find_commands(source)


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, find_active_content)
