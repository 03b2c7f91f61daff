"""Shell commands in files that no analyzer reads as shell: settings of any format, other programs.

Only those that hardly ever are anything else: a download or decoded text that a shell runs, and a
shell at the end of a connection.
"""

import re
from collections.abc import Iterator

from diffchecks.check_io import RawFinding, Source
from diffchecks.data_files import read_names, vocabulary
from diffchecks.path_kinds import path_kinds
from diffchecks.patterns.configured_commands import has_configured_commands
from diffchecks.patterns.container_file_commands import is_container_file
from diffchecks.patterns.installer_servers import origin_of_download
from diffchecks.patterns.makefile_commands import is_makefile
from diffchecks.patterns.pipeline_commands import is_gitlab_file, is_workflow_file
from diffchecks.script_languages import script_language

_SHELL = r"\|\s*(?:sudo\s+)?(?:[/\w]*/)?(?:sh|bash|dash|ksh|zsh)\b(?![\w./-])"
_REMOTE = re.compile(
    rf"\b(?:curl|wget)\s[^|\n]{{1,500}}{_SHELL}"
    r"|\b(?:sh|bash|dash|ksh|zsh)\s+(?:-c\s+[\"'\\]*\$\(|<\()\s*(?:curl|wget)\s"
)
_DECODED = re.compile(rf"\bbase64\s+(?:-\w+\s+)*(?:-d|-D|--decode)\b[^|\n]{{0,200}}{_SHELL}")
_REVERSE = re.compile(r"\bsh\s+-i\b[^\n]{0,40}/dev/(?:tcp|udp)/|/dev/(?:tcp|udp)/[^\n]{0,80}0>&1")
_MAY_MATCH = re.compile(r"\b(?:curl|wget|base64)\s|/dev/(?:tcp|udp)/")
_COMMENT = re.compile(r"\s*(?:#(?!!)|//(?!go:generate)|/?\*|;|--\s|<!--|%)")
_CONTEXT = 3


def find_commands(source: Source) -> Iterator[RawFinding]:
    """The commands of a file, each at its line."""
    if _is_read_elsewhere(source) or not _MAY_MATCH.search(source.text):
        return
    is_program = "code" in path_kinds(source.path)
    for number, line in enumerate(source.lines):
        if _MAY_MATCH.search(line) is None or _COMMENT.match(line):
            continue
        code = _code_of(line)
        around = "\n".join(source.lines[max(0, number - _CONTEXT) : number + 1])
        if code and (not is_program or vocabulary("starts_program").search(around)):
            message = "A shell runs it, in a file that is no script"
            yield RawFinding(code, source.path, number + 1, message)


def _code_of(line: str) -> str:
    if remote := _REMOTE.search(line):
        return f"{origin_of_download(remote[0])}-script"
    if _REVERSE.search(line):
        return "reverse-shell"
    return "decoded-script" if _DECODED.search(line) else ""


def _is_read_elsewhere(source: Source) -> bool:
    path = source.path
    return (
        source.suffix in read_names("read_suffixes")
        or "documents" in path_kinds(path)
        or is_container_file(source.name)
        or is_makefile(source.name)
        or is_gitlab_file(path)
        or is_workflow_file(path)
        or has_configured_commands(path)
        or (not source.suffix and script_language(path, source.data) == "sh")
    )
