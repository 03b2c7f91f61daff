"""From which servers a program is downloaded that is then run: those of well-known installers."""

import re
from typing import Literal

from diffchecks.data_files import read_names

Origin = Literal["remote", "foreign", "plain-http"]

_SERVER = re.compile(r"https://(?:[^\s/@]*@)?(?P<name>[\w.-]+)", re.IGNORECASE)
_LOCAL = re.compile(r"localhost|[\w.-]+\.(?:local|internal|localhost|lan|corp)|127(?:\.\d+){3}")


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
