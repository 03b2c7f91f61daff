"""Shell commands that download a file, and a later one that runs it, without a check between."""

import re
from collections.abc import Iterator

from orchestrator.checks.check_io import RawFinding, Source

_DOWNLOAD = re.compile(
    r"(?m)^(?:[^#\n]*?[;&(|{]|[ \t]*)[ \t]*(?:sudo[ \t]+)?(?P<command>(?:curl|wget)[ \t][^\n;|&]*)"
)
_OUTPUT = re.compile(
    r"\s(?:-\w{0,8}[oO]|--output(?:-document)?)[ =]?"
    r"[\"']?(?P<file>[\w./${}~-]*[\w}])[\"']?(?=\s|\Z)"
)
_CHECKED = re.compile(r"(?:sha\d*|md5|b2)sum\b|\b(?:gpgv?|cosign|minisign|signify)\b|\bdgst\b")
_RUNNER = (
    r"(?m)(?:^|[;&|({]|\b(?:then|do|else)[ \t])[ \t]*(?:sudo[ \t]+)?(?:env[ \t]+)?"
    r"(?:source|\.|(?:[/\w]*/)?(?:sh|bash|dash|zsh|ksh|python[\d.]*|perl|ruby|node|php))[ \t]+"
    r"(?:-\w+[ \t]+)*[\"']?(?:\./)?"
)


def find_downloaded_scripts(source: Source) -> Iterator[RawFinding]:
    """Each download into a file that an interpreter runs after it.

    Nothing where the program compares a checksum or a signature, of whichever file.
    """
    text = source.text.replace("\\\n", "  ")  # a continued line is one command
    if _CHECKED.search(text):
        return
    for download in _DOWNLOAD.finditer(text):
        output = _OUTPUT.search(download["command"])
        if output is None:
            continue
        file = re.escape(output["file"].removeprefix("./"))
        runs = re.compile(rf"{_RUNNER}{file}[\"']?(?=\s|[;&|)}}]|\Z)")
        if run := runs.search(text, download.end()):
            plain = "http://" in download["command"]
            yield RawFinding(
                "shell-plain-http-script" if plain else "shell-remote-script",
                source.path,
                source.text.count("\n", 0, run.end()) + 1,
                "What a server sends is saved and run without a check",
            )
