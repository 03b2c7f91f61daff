"""Finds secrets: tokens by their format, private keys, and passwords by their context.

No message contains a secret; each finding lists the exact texts to ``redact`` wherever it is shown.
In tests and examples only tokens of services are searched for, since passwords there are made up.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from diffchecks.check_io import CheckReply, RawFinding, Source, check_files
from diffchecks.data_files import read_patterns
from diffchecks.jobs import SideJob
from diffchecks.path_kinds import path_kinds
from diffchecks.secrets.contexts import (
    SearchableText,
    find_assignments,
    find_in_calls,
    find_in_urls,
)
from diffchecks.secrets.credential_files import find_in_credential_file, find_secret_values
from diffchecks.secrets.live_secrets import find_tokens
from diffchecks.secrets.private_keys import find_encoded, find_private_keys, private_key
from diffchecks.secrets.secret_plausibility import PASSWORDS, Hit, is_set

# Files with random texts that are not secrets: lock files, checksums, generated code.
_DIGESTS = re.compile(r"\.(?:lock|sum|map|svg|sha\d+)")
_DIGEST_KINDS = frozenset({"lock_files", "generated"})
_MAX_REDACTED = 200
_IN_BASE64 = ", in base64"
_MAX_USER = 40  # characters
_NEAR, _FAR = 120, 1500  # characters before and after it
_PATTERNS = read_patterns("secret_scan")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s:/@]*:(?P<password>[^\s/@]+)@\S+\Z")
_MANIFESTS = (".yaml", ".yml", ".json")
# What is in files of which only the content is known.
_SIGNS = read_patterns("secret_signs")
MAX_OF_A_KIND = 100  # in one file; a dump of users is one problem, not thousands


class _Kind(NamedTuple):
    """What counts in a file: whether its keys are examples, and whether passwords count at all."""

    example_key: bool
    by_place: bool

    @classmethod
    def of(cls, source: Source) -> "_Kind":
        random = _DIGESTS.fullmatch(source.suffix) or _DIGEST_KINDS & path_kinds(source.path)
        illustrative = source.is_illustrative
        example = illustrative or bool(_PATTERNS["of_nobody"].search(source.name))
        return cls(example, not (illustrative or random))


def _hits(path: str, text: str, kind: _Kind, layers: int = 2) -> Iterator[Hit]:
    """All hits, the most certain first; the same text may be found more than once.

    Args:
        layers: of base64 in base64.
    """
    yield from find_private_keys(text, example=kind.example_key)
    if layers:
        yield from _in_base64(text, kind, layers - 1)
    if kind.by_place:
        yield from find_in_credential_file(path, text)
        if path.endswith(_MANIFESTS) and "Secret" in text:
            yield from _in_kubernetes_secrets(text, kind)
    for hit in find_tokens(text):
        if kind.by_place:
            yield hit
        elif hit.code != "json-web-token":
            yield hit._replace(confidence=0.7)
    if kind.by_place:
        searched = SearchableText(text)
        yield from find_in_urls(searched)
        yield from find_in_calls(searched)
        yield from find_assignments(path, searched)


def _in_base64(text: str, kind: _Kind, layers: int) -> Iterator[Hit]:
    for value in find_encoded(text):
        found: Iterable[Hit]
        if value.key:
            marked = "TESTING KEY-----" in text[max(0, value.start - 30) : value.start]
            example = kind.example_key or marked
            found = [private_key(value.key, 0, 0, example=example)]
        else:
            names = (name for name, sign in _SIGNS.items() if sign.search(value.text))
            found = _hits(next(names, "decoded.ini"), value.text, kind, layers)
        for hit in islice(found, 1):
            what = f"{hit.what.removesuffix(_IN_BASE64)}{_IN_BASE64}"
            yield hit._replace(what=what, start=value.start, end=value.end)


def _in_kubernetes_secrets(text: str, kind: _Kind) -> Iterator[Hit]:
    """Passwords, binary values, and whole files with secrets."""
    for plain, start, end in find_secret_values(text):
        address = _ADDRESS.match(plain or "")  # of a service in the cluster, as ``nowhere`` is not
        value = address["password"] if address else plain
        if value is None or is_set(value) or ("\n" in value and any(_hits(".env", value, kind, 0))):
            yield Hit("kubernetes-secret", "Value of a Kubernetes Secret", start, end)


def _is_sample(text: str, hit: Hit) -> bool:
    """Whether a comment or where it is sent tells that it is an example, or it is a user's name."""
    before = text[max(0, text.rfind("\n", 0, hit.start) + 1, hit.start - 500) : hit.start]
    if hit.code in PASSWORDS and (
        _PATTERNS["example"].match(before) or _is_sent_here(text, hit.start)
    ):
        return True
    if hit.code not in PASSWORDS or hit.end - hit.start > _MAX_USER:
        return False
    name = re.escape(text[hit.start : hit.end])
    quoted = rf"[\"'`]{name}[\"'`]"
    user = re.compile(
        rf"{_PATTERNS['user'].pattern}{name}(?![\w-])|{quoted}(?:@|\s{{0,4}},\s{{0,4}}{quoted})",
        re.IGNORECASE,
    )
    return user.search(text, max(0, hit.start - _NEAR), hit.end + _NEAR) is not None


def _is_sent_here(text: str, start: int) -> bool:
    """Whether a request sends it to this machine or a service of the file, and nowhere else."""
    for request in _PATTERNS["request"].finditer(text, max(0, start - _FAR), start + _FAR):
        if request.start() < start < request.end():
            to = [*_PATTERNS["address"].finditer(request[0])]
            own = (each["here"] or re.search(rf"(?m)^ +{each['other']}:\s*$", text) for each in to)
            return any("://" in each[0] for each in to) and all(own)
    return False


def _apart(text: str, hits: Iterable[Hit]) -> Iterator[Hit]:
    """The hits without those that overlap an earlier one, and without names of users."""
    taken: list[tuple[int, int]] = []
    for hit in hits:
        if _is_sample(text, hit):
            continue
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
    hits = list(_apart(text, _hits(source.path, text, _Kind.of(source))))
    total, number = Counter(hit.code for hit in hits), Counter[str]()
    for hit in hits:
        number[hit.code] += 1
        left = total[hit.code] - MAX_OF_A_KIND if number[hit.code] == MAX_OF_A_KIND else 0
        if number[hit.code] > MAX_OF_A_KIND:
            continue
        parts = tuple(filter(None, (one.strip() for one in text[hit.start : hit.end].split("\n"))))
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
    for hit in _apart(text, _hits(source.path, text, _Kind.of(source))):
        first = text.count("\n", 0, hit.start) + 1
        for number, part in enumerate(text[hit.start : hit.end].split("\n"), first):
            yield number, part.strip()


def secrets_in(path: str, text: str) -> set[str]:
    """The secrets in a text that is read like a file of that name."""
    source = Source(path, text.encode("utf-8", "surrogateescape"))
    return {secret for _, secret in find_secrets_by_line(source)}


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, find_secrets)
