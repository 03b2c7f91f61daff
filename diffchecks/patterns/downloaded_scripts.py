"""Downloads of programs: from which servers, and into a file that is run without a check."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from diffchecks.check_io import RawFinding, Source
from diffchecks.data_files import read_names, read_patterns

Origin = Literal["remote", "foreign", "plain-http"]

_PATTERNS = read_patterns("downloaded_scripts")


def find_downloaded_scripts(source: Source) -> Iterator[RawFinding]:
    """Each download into a file that is run after it, without a check between."""
    text = source.text.replace("\\\n", "  ")  # a continued line is one command
    text = _PATTERNS["comment"].sub(lambda found: " " * len(found[0]), text)
    found = _PATTERNS["download"].finditer(text)
    downloads = [(each, name) for each in found if (name := _saved_as(each))]
    if not downloads:
        return
    runs, checks = _runs(text), [each.start() for each in _PATTERNS["checked"].finditer(text)]
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
    if output := _PATTERNS[program].search(command):
        return _plain(output["file"] or output["to"])
    named = _PATTERNS["of_url"].search(command)
    is_saved = program == "wget" or _PATTERNS["remote_name"].search(command)
    return _plain(named["file"]) if named and is_saved else ""


def _runs(text: str) -> dict[str, list[int]]:
    """Where files are run: by an interpreter, by their path, or by name from the search path."""
    found = defaultdict[str, list[int]](list)
    for run in _PATTERNS["run"].finditer(text):
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
    servers = [found["name"].lower().rstrip(".") for found in _PATTERNS["server"].finditer(command)]
    return "foreign" if servers and not all(map(_is_known, servers)) else "remote"


def _is_known(server: str) -> bool:
    labels = server.split(".")
    domains = {".".join(labels[at:]) for at in range(len(labels))}
    return (
        not read_names("installer_domains").isdisjoint(domains)
        or _PATTERNS["local"].fullmatch(server) is not None
    )
