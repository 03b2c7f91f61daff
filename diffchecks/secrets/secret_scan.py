"""Finds secrets: tokens by their format, private keys, and passwords by their context.

No message contains a secret; each finding lists the exact texts to ``redact`` wherever it is shown.
In tests and examples only tokens of services are searched for, since passwords there are made up.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from diffchecks.check_io import CheckReply, RawFinding, Source, check_files
from diffchecks.jobs import SideJob
from diffchecks.path_kinds import path_kinds
from diffchecks.secrets.assignments import find_assignments
from diffchecks.secrets.credential_file_formats import find_in_credential_file
from diffchecks.secrets.keyword_prefilter import SearchableText
from diffchecks.secrets.private_keys import find_private_keys
from diffchecks.secrets.secret_plausibility import Hit
from diffchecks.secrets.token_formats import find_tokens
from diffchecks.secrets.urls_and_calls import find_in_calls, find_in_urls

# Files with random texts that are not secrets: lock files, checksums, generated code.
_DIGESTS = re.compile(r"\.(?:lock|sum|map|svg|sha\d+)")
_DIGEST_KINDS = frozenset({"lock_files", "generated"})
# Keys of certificates that no other machine trusts.
_OF_NOBODY = re.compile(r"localhost|snake[-_]?oil|self[-_]?signed|dummy", re.IGNORECASE)
_MAX_REDACTED = 200
MAX_OF_A_KIND = 100  # in one file; a dump of users is one problem, not thousands


def _hits(source: Source, text: str) -> Iterator[Hit]:
    """All hits, the most certain first; the same text may be found more than once."""
    illustrative = source.is_illustrative
    example_key = illustrative or bool(_OF_NOBODY.search(source.name))
    yield from find_private_keys(text, example=example_key)
    random = _DIGESTS.fullmatch(source.suffix) or _DIGEST_KINDS & path_kinds(source.path)
    by_place = not (illustrative or random)
    if by_place:
        yield from find_in_credential_file(source.path, text)
    for hit in find_tokens(text):
        if by_place:
            yield hit
        elif hit.code != "json-web-token":
            yield hit._replace(confidence=0.7)
    if by_place:
        searched = SearchableText(text)
        yield from find_in_urls(searched)
        yield from find_in_calls(searched)
        yield from find_assignments(source.path, searched)


def _apart(hits: Iterable[Hit]) -> Iterator[Hit]:
    """The hits without those that overlap an earlier one."""
    taken: list[tuple[int, int]] = []
    for hit in hits:
        place = bisect.bisect_left(taken, (hit.start, hit.end))
        near = taken[max(0, place - 1) : place + 1]
        if any(start < hit.end and hit.start < end for start, end in near):
            continue
        taken.insert(place, (hit.start, hit.end))
        yield hit


def find_secrets(source: Source) -> Iterator[RawFinding]:
    """One finding per secret; of overlapping hits the first counts."""
    text = source.text.replace("\r\n", "\n")
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
    hits = list(_apart(_hits(source, text)))
    total, number = Counter(hit.code for hit in hits), Counter[str]()
    for hit in hits:
        number[hit.code] += 1
        left = total[hit.code] - MAX_OF_A_KIND if number[hit.code] == MAX_OF_A_KIND else 0
        if number[hit.code] > MAX_OF_A_KIND:
            continue
        parts = tuple(
            filter(None, (part.strip() for part in text[hit.start : hit.end].split("\n")))
        )
        line = bisect.bisect_right(line_starts, hit.start)
        yield RawFinding(
            hit.code,
            source.path,
            line,
            hit.what,
            end_line=bisect.bisect_right(line_starts, max(hit.start, hit.end - 1)),
            column=hit.start - line_starts[line - 1] + 1,
            key=hit.key,
            detail=f"{left} more of this kind in this file are not listed" if left else "",
            redact=parts[:_MAX_REDACTED],
            confidence=hit.confidence,
        )


def find_secrets_by_line(source: Source) -> Iterator[tuple[int, str]]:
    """Line number → secrets in it, for code that quotes a file for other findings."""
    text = source.text.replace("\r\n", "\n")
    for hit in _apart(_hits(source, text)):
        first = text.count("\n", 0, hit.start) + 1
        for number, part in enumerate(text[hit.start : hit.end].split("\n"), first):
            yield number, part.strip()


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, find_secrets)
