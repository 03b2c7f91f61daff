"""Versions that YAML reads as numbers and so loses the last zero of: 3.10 is 3.1."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.checks.check_protocol import RawFinding, Source

# What runs jobs by these files fetches the version that the number says.
_JOBS = re.compile(
    r"(?:^|/)(?:\.github/.*|\.circleci/.*|action|\.travis|\.gitlab-ci|azure-pipelines)\.ya?ml$"
)
_KEY = re.compile(r"\s*(?:-\s+)?[\"']?(?P<key>[\w-]+)[\"']?\s*:(?:\s+(?P<value>.*))?$")
_NAMED = re.compile(
    r"(?i)(?:python|go|ruby|node|php|java|dotnet|perl|elixir|otp|terraform)(?:[-_]?versions?)?"
)
_LOSES = re.compile(r"(?<![^\s\[,])\d+\.\d*[1-9]0+(?![^\s\],])")
_COMMENT = re.compile(r"(?:^|\s)#.*")


def versions_as_numbers(source: Source) -> Iterator[RawFinding]:
    """Unquoted versions that end in a zero, in files that say what a job runs with."""
    if not _JOBS.search(source.path):
        return
    named = False
    for number, line in enumerate(source.lines, 1):
        bare = _COMMENT.sub("", line)
        if key := _KEY.fullmatch(bare):
            named, bare = bool(_NAMED.fullmatch(key["key"])), key["value"] or ""
        if named and (found := _LOSES.search(bare)):
            says = f"YAML reads {found[0]} as the number {found[0].rstrip('0')}"
            yield RawFinding("version-number", source.path, number, says)
