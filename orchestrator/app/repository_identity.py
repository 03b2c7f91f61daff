"""The identity of a repository in a shared store, equal on every machine and CI runner.

It is the address of ``origin``. A path differs between runners and can be equal for different
repositories in containers; root commits are missing in shallow clones and equal in all forks.
"""

import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from diffchecks.safe_paths import read_safely
from orchestrator.code_review.change.git.repository_layout import (
    is_git_dir,
    repository_directories,
    resolve_path,
)

MAX_CONFIG_BYTES = 1 << 20

_SECTION = re.compile(r"\s*\[([^\]]*)\]")
_ORIGIN = re.compile(r'remote\s+"origin"', re.IGNORECASE)
_URL = re.compile(r'\s*url\s*=\s*"?([^"#;\s][^"#;]*)', re.IGNORECASE)
_SSH = re.compile(r"(?:[^/@:]+@)?([^/@:]{2,}):(?!//)(.+)")
"""``user@host:path``; a single letter before the colon is a drive."""


def repository_identity(place: Path) -> str:
    """The address of the repository's ``origin`` without its scheme, user, password and ``.git``.

    Without a remote ``origin`` it is the host and the path of the git directory.

    Args:
        place: a directory of the repository.
    """
    place = resolve_path(place)
    git_dir = next(filter(is_git_dir, repository_directories(place)), place)
    address = _origin_url(git_dir)
    if ssh := _SSH.fullmatch(address):
        host, path = ssh[1], ssh[2]
    else:
        host, path = _split(address)
    path = path.strip("/").removesuffix(".git")
    return f"{host.lower()}/{path}" if host and path else f"{socket.gethostname()}:{git_dir}"


def _split(address: str) -> tuple[str, str]:
    """Host and path of a URL, with the port except for SSH, whose port is not the web's."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return "", ""
    shown = f":{port}" if port and "ssh" not in parts.scheme else ""
    return f"{parts.hostname}{shown}" if parts.hostname else "", parts.path


def _origin_url(git_dir: Path) -> str:
    """The ``url`` of ``origin`` in the git directory's own ``config``; empty without one."""
    try:
        text = os.fsdecode(read_safely(git_dir, "config", MAX_CONFIG_BYTES))
    except OSError:
        return ""
    inside = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            inside = _ORIGIN.fullmatch(section[1].strip()) is not None
        elif inside and (url := _URL.match(line)):
            return url[1].strip()
    return ""
