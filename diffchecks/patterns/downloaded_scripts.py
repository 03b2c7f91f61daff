"""Downloads of programs: from which servers, and into a file that is run without a check."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, Literal

from diffchecks.check_io import RawFinding, Source
from diffchecks.data_files import read_names, read_patterns

Origin = Literal["remote", "foreign", "plain-http"]

_SERVER = re.compile(r"https://(?:[^\s/@]*@)?(?P<name>[\w.-]+)", re.IGNORECASE)
_LOCAL = re.compile(r"localhost|[\w.-]+\.(?:local|internal|localhost|lan|corp)|127(?:\.\d+){3}")
_COMMENT = re.compile(r"(?m)(?:^|(?<=[ \t]))#[^\n]*")
_COMMAND = r"(?m)(?:^|[;&|({]|\b(?:then|do|else)[ \t])[ \t]*(?:sudo[ \t]+)?"
_DOWNLOAD = re.compile(rf"{_COMMAND}(?P<command>(?P<program>curl|wget)[ \t][^\n;|&]*)")
_NAME = r"[\"']?(?P<file>[\w./${}~+-]*[\w}])[\"']?(?=\s|\Z)"
_OUTPUT: Final = {
    "curl": re.compile(
        rf"\s(?:-[a-zA-Z]{{0,8}}o|--output)[ =]?{_NAME}|>[ \t]*{_NAME.replace('file', 'to')}"
    ),
    "wget": re.compile(rf"\s(?:-[a-zA-Z]{{0,8}}O|--output-document)[ =]?{_NAME}"),
}
_REMOTE_NAME = re.compile(r"\s(?:-[a-zA-Z]{0,8}O[a-zA-Z]{0,8}|--remote-name(?:-all)?)(?=\s|\Z)")
_OF_URL = re.compile(r"\b(?:https?|ftp)://[^\s\"'?#]*/(?P<file>[\w.${}~+-]+)")
_CHECKED = read_patterns("downloaded_scripts")["checked"]
_INTERPRETER = (
    r"(?:source|\.|(?:[/\w]*/)?(?:sh|bash|dash|zsh|ksh|python[\d.]*|perl|ruby|node|php))[ \t]+"
    r"(?:-\w+[ \t]+)*"
)
_RUN = re.compile(
    rf"{_COMMAND}(?:env[ \t]+|exec[ \t]+)?(?P<interpreter>{_INTERPRETER})?"
    r"[\"']?(?P<file>[\w./${}~+-]+)[\"']?(?=\s|[;&|)}]|\Z)"
)


def find_downloaded_scripts(source: Source) -> Iterator[RawFinding]:
    """Each download into a file that is run after it, without a check between."""
    text = source.text.replace("\\\n", "  ")  # a continued line is one command
    text = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    downloads = [(each, name) for each in _DOWNLOAD.finditer(text) if (name := _saved_as(each))]
    if not downloads:
        return
    runs, checks = _runs(text), [each.start() for each in _CHECKED.finditer(text)]
    ends = [each.start() for each in re.finditer("\n", source.text)]
    for download, name in downloads:
        places = runs.get(name, ())
        at = bisect_left(places, download.end())
        if at == len(places):
            continue
        check = bisect_left(checks, download.start())
        if check < len(checks) and checks[check] < places[at]:
            continue
        yield RawFinding(
            f"shell-{origin_of_download(download['command'])}-script",
            source.path,
            bisect_left(ends, places[at]) + 1,
            "What a server sends is saved and run without a check",
        )


def _saved_as(download: re.Match[str]) -> str:
    """The name of the file into which a command downloads; empty if it is unknown."""
    command, program = download["command"], download["program"]
    if output := _OUTPUT[program].search(command):
        return _plain(output["file"] or output["to"])
    named = _OF_URL.search(command) if program == "wget" or _REMOTE_NAME.search(command) else None
    return _plain(named["file"]) if named else ""


def _runs(text: str) -> dict[str, list[int]]:
    """Where files are run: by an interpreter, by their path, or by name from the search path."""
    found = defaultdict[str, list[int]](list)
    for run in _RUN.finditer(text):
        name = run["file"]
        if run["interpreter"] or "/" in name:
            found[_plain(name)].append(run.end())
    return found


def _plain(name: str) -> str:
    return name.removeprefix("./").replace("${", "$").replace("}", "")


def origin_of_download(command: str) -> Origin:
    """Where a command downloads from.

    Returns:
        ``plain-http``: without encryption. ``foreign``: from a named server that neither is known
        for installers nor is a local one. ``remote``: from any other, or from an unknown address.
    """
    if "http://" in command:
        return "plain-http"
    servers = [found["name"].lower().rstrip(".") for found in _SERVER.finditer(command)]
    return "foreign" if servers and not all(map(_is_known, servers)) else "remote"


def _is_known(server: str) -> bool:
    labels = server.split(".")
    domains = {".".join(labels[at:]) for at in range(len(labels))}
    return (
        not read_names("installer_domains").isdisjoint(domains)
        or _LOCAL.fullmatch(server) is not None
    )
