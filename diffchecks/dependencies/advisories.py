"""Known vulnerabilities of packages that a change adds or updates, from advisories in OSV format.

The format and the matching of versions follow https://ossf.github.io/osv-schema/; only the fields
that are used are read.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import decode

from diffchecks import name_some
from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_map, read_yaml
from diffchecks.dependencies.changed_packages import Package, list_changed, normalize
from diffchecks.dependencies.version_order import version_key
from diffchecks.jobs import DependenciesJob


class AffectedPackage(Struct, frozen=True):
    """A package; an ecosystem may have a suffix after a colon."""

    ecosystem: str
    name: str


class Range(Struct, frozen=True):
    """Versions between events: ``introduced``, ``fixed``, ``last_affected`` or ``limit``."""

    type: str
    events: tuple[dict[str, str], ...] = ()


class CvssVector(Struct, frozen=True):
    """A CVSS vector."""

    score: str = ""


class Affected(Struct, frozen=True):
    """Which versions of one package are affected: those listed, and those in a range."""

    package: AffectedPackage | None = None
    ranges: tuple[Range, ...] | None = None
    versions: tuple[str, ...] | None = None
    severity: tuple[CvssVector, ...] | None = None
    database_specific: dict[str, Any] | None = None
    ecosystem_specific: dict[str, Any] | None = None


class Advisory(Struct, frozen=True):
    """One advisory; a withdrawn one is ignored."""

    id: str
    aliases: tuple[str, ...] | None = None
    summary: str | None = None
    details: str | None = None
    withdrawn: str | None = None
    severity: tuple[CvssVector, ...] | None = None
    affected: tuple[Affected, ...] | None = None
    database_specific: dict[str, Any] | None = None


class AffectedName(Struct, frozen=True):
    """The part of every advisory that shows whether it is relevant."""

    package: AffectedPackage | None = None


class Names(Struct, frozen=True):
    """Only the packages of an advisory."""

    id: str
    withdrawn: str | None = None
    affected: tuple[AffectedName, ...] | None = None


MAX_FINDINGS = 50
SUMMARY_CHARACTERS = 160
IDS_SHOWN = 5
SEVERITIES = ("low", "medium", "high", "critical")
LEVELS = read_map("maps.yaml", "advisory_levels")
"""Severity in an advisory database → severity of the finding."""
UNKNOWN = "medium"
MALICIOUS = "MAL-"
"""The prefix of ids in the OpenSSF's list of malicious packages."""


class Match(Struct, frozen=True):
    """An advisory that affects a package's version.

    Attributes:
        ids: its id and aliases.
        severity: empty if the advisory has none that is recognized.
        fixed: the first later version that is not affected; empty: none is known.
        known: base's version is affected too.
    """

    ids: tuple[str, ...]
    summary: str
    severity: str
    fixed: str
    known: bool = False


def find_vulnerable(job: DependenciesJob, gaps: dict[str, str]) -> Iterator[RawFinding]:
    """Find vulnerable packages; the job has the path of a file of ``advisories``.

    Args:
        gaps: path → reason; a package whose version has no known order is added.
    """
    by_package = _by_package(decode(Path(job.advisories).read_bytes(), type=tuple[Advisory, ...]))
    found: list[tuple[Package, list[Match]]] = []
    for package in list_changed(job):
        matches = []
        for advisory, affected in by_package.get((package.ecosystem, package.name), ()):
            try:
                match = _match(package, advisory, affected)
            except ValueError:
                what = f"{package.name} {package.version} could not be compared with {advisory.id}"
                gaps[package.path] = f"{what}: one of its versions has no order"
            else:
                matches += [match] if match else []
        groups: Mapping[str, list[Match]] = defaultdict(list)
        for match in _without_aliases(matches):
            # It is worse than in base, or a fix exists.
            if match.fixed or not match.known or match.ids[0].startswith(MALICIOUS):
                groups[_code(match)].append(match)
        found += [(package, group) for group in groups.values()]
    found.sort(key=lambda pair: -SEVERITIES.index(_code(pair[1][0]).rpartition("-")[2]))
    for package, group in found[:MAX_FINDINGS]:
        yield _finding(package, group)
    for package, _ in found[MAX_FINDINGS:]:
        more = len(found) - MAX_FINDINGS
        gaps[package.path] = f"there are {more} more vulnerable packages than are listed"


def _by_package(
    advisories: Sequence[Advisory],
) -> Mapping[tuple[str, str], Sequence[tuple[Advisory, Affected]]]:
    found: Mapping[tuple[str, str], list[tuple[Advisory, Affected]]] = defaultdict(list)
    for advisory in advisories:
        for affected in advisory.affected or ():
            if affected.package:
                found[package_key(affected.package)].append((advisory, affected))
    return found


def package_key(package: AffectedPackage) -> tuple[str, str]:
    """The ecosystem without its suffix, and the name normalized for that ecosystem."""
    ecosystem = package.ecosystem.partition(":")[0]
    return ecosystem, normalize(ecosystem, package.name)


def _match(package: Package, advisory: Advisory, affected: Affected) -> Match | None:
    """The match of an advisory, if it has one.

    Raises:
        ValueError: a version of the package or of a range has no order.
    """
    ecosystem = package.ecosystem
    if not _is_affected(ecosystem, package.version, affected):
        return None
    version = version_key(ecosystem, package.version)
    fixed = [pair for ranged in _ranges(affected) for pair in _fixes(ecosystem, version, ranged)]
    known = any(_is_affected(ecosystem, old, affected) for old in package.before)
    first = min(fixed, default=(None, ""))[1]
    ids = (advisory.id, *(advisory.aliases or ()))
    return Match(ids, _one_line(advisory), _severity(advisory, affected), first, known)


def _ranges(affected: Affected) -> list[Range]:
    """The ranges of versions; ranges of commits are ignored."""
    return [ranged for ranged in affected.ranges or () if ranged.type in {"SEMVER", "ECOSYSTEM"}]


def _is_affected(ecosystem: str, version: str, affected: Affected) -> bool:
    key, listed = version_key(ecosystem, version), affected.versions or ()
    return (
        version in listed
        or _is_spelled(ecosystem, key, listed)
        or any(_is_inside(ecosystem, key, ranged) for ranged in _ranges(affected))
    )


def _is_spelled(ecosystem: str, version: Any, versions: Sequence[str]) -> bool:
    """Whether a version is listed with another spelling, such as 1.0 for 1.0.0."""
    for other in versions:
        with suppress(ValueError):
            if version_key(ecosystem, other) == version:
                return True
    return False


def _is_inside(ecosystem: str, version: Any, ranged: Range) -> bool:
    events = [(kind, value) for event in ranged.events for kind, value in event.items()]
    # In every ecosystem 0 is before all versions.
    inside = ("introduced", "0") in events
    later = [(version_key(ecosystem, value), kind) for kind, value in events if value != "0"]
    for key, kind in sorted(later, key=lambda pair: pair[0]):
        if kind == "introduced" and version >= key:
            inside = True
        elif version > key or (kind != "last_affected" and version >= key):
            inside = inside and kind not in {"fixed", "limit", "last_affected"}
    return inside


def _fixes(ecosystem: str, version: Any, ranged: Range) -> list[tuple[Any, str]]:
    """The fixed versions of a range that come after a version, with their keys."""
    values = [event["fixed"] for event in ranged.events if event.get("fixed", "0") != "0"]
    keys = [(version_key(ecosystem, value), value) for value in values]
    return [(key, value) for key, value in keys if key > version]


def _severity(advisory: Advisory, affected: Affected) -> str:
    """The severity by the database, else by the CVSS vector; empty without either."""
    own = affected.database_specific or {}
    for part in (advisory.database_specific, own, affected.ecosystem_specific):
        level = (part or {}).get("severity")
        if isinstance(level, str) and level.lower() in LEVELS:
            return LEVELS[level.lower()]
    vectors = [one.score for one in (*(advisory.severity or ()), *(affected.severity or ()))]
    scores = [severity_of_vector(vector) for vector in (*vectors, str(own.get("cvss")))]
    return max(filter(None, scores), default="", key=SEVERITIES.index)


def _one_line(advisory: Advisory) -> str:
    text = (advisory.summary or advisory.details or "").strip()
    text = re.sub(r"\s+", " ", re.sub(r"[^\w\s!-~]", " ", text.split("\n")[0]))
    short = text[:SUMMARY_CHARACTERS].rstrip(". ")
    return f"{short} ..." if len(text) > SUMMARY_CHARACTERS else short


def _without_aliases(matches: Sequence[Match]) -> list[Match]:
    """The matches without those that are aliases of another one."""
    groups: list[list[Match]] = []
    for match in matches:
        same = [group for group in groups if any({*m.ids} & {*match.ids} for m in group)]
        groups = [group for group in groups if group not in same]
        groups.append([match, *(one for group in same for one in group)])
    return [_merged(group) for group in groups]


def _merged(group: Sequence[Match]) -> Match:
    ids = sorted({one for match in group for one in match.ids}, key=_rank)
    severities = [match.severity for match in group if match.severity]
    return Match(
        tuple(ids),
        next((match.summary for match in group if match.summary), ""),
        max(severities, default="", key=SEVERITIES.index),
        next((match.fixed for match in group if match.fixed), ""),
        any(match.known for match in group),
    )


def _rank(name: str) -> tuple[int, str]:
    order = (MALICIOUS, "GHSA-", "PYSEC-", "RUSTSEC-", "GO-", "CVE-")
    return next((at for at, start in enumerate(order) if name.startswith(start)), 9), name


def _code(match: Match) -> str:
    if match.ids[0].startswith(MALICIOUS):
        return "malicious-critical"
    # An update to a version that is still affected makes nothing worse.
    return "advisory-low" if match.known else f"advisory-{match.severity or UNKNOWN}"


def _finding(package: Package, group: Sequence[Match]) -> RawFinding:
    """One finding for all matches of a package with the same code."""
    match, *others = group
    first, *aliases = match.ids
    named = f"{first} ({aliases[0]})" if aliases else first
    about = f"{named}: {match.summary}" if match.summary else named
    if others:
        about += f"; also {name_some([one.ids[0] for one in others], IDS_SHOWN)}"
    what, code = f"{package.name} {package.version}", _code(match)
    if first.startswith(MALICIOUS):
        message = f"{what} is listed as malicious, {about}"
        message += "; remove it, and replace the secrets of machines that installed it"
    else:
        count = f"{len(group)} known vulnerabilities" if others else "a known vulnerability"
        still = "still has" if match.known else "has"
        message = f"{what} {still} {count}, {about}; {_step(package, group)}"
    line = package.line()
    return RawFinding(code, package.path, line, message, key=f"{package.name} {first}")


def _step(package: Package, group: Sequence[Match]) -> str:
    """The update that fixes the most: the highest of the versions that fix each match."""
    fixes = [match.fixed for match in group if match.fixed]
    if not fixes:
        return "no fixed version is known"
    last = max(fixes, key=lambda version: version_key(package.ecosystem, version))
    some = f", which fixes {len(fixes)} of them" if len(fixes) < len(group) else ""
    return f"update to {last} or later{some}"


_PREFIX = ("CVSS:3.0/", "CVSS:3.1/")
_BOUNDS = ((9.0, "critical"), (7.0, "high"), (4.0, "medium"), (0.1, "low"))


def base_score(vector: str) -> float:
    """The base score, 0 to 10.

    Raises:
        ValueError: it is not a complete vector of version 3.
    """
    if not vector.startswith(_PREFIX):
        raise ValueError
    table = read_yaml("cvss.yaml")
    given = dict(part.split(":", 1) for part in vector.split("/")[1:] if ":" in part)
    try:
        weight = {name: values[given[name]] for name, values in table["weights"].items()}
        changed = {"U": False, "C": True}[given["S"]]
    except KeyError:
        raise ValueError from None
    if changed:
        weight["PR"] = table["changed_scope"]["PR"][given["PR"]]
    base = 1 - (1 - weight["C"]) * (1 - weight["I"]) * (1 - weight["A"])
    impact = 7.52 * (base - 0.029) - 3.25 * (base - 0.02) ** 15 if changed else 6.42 * base
    ease = 8.22 * weight["AV"] * weight["AC"] * weight["PR"] * weight["UI"]
    if impact <= 0:
        return 0.0
    total: float = min(1.08 * (impact + ease) if changed else impact + ease, 10)
    # The standard rounds up to one decimal, after six digits.
    return math.ceil(round(total * 100_000) / 10_000) / 10


def severity_of_vector(vector: str) -> str:
    """``critical``, ``high``, ``medium`` or ``low``; empty without a score."""
    try:
        score = base_score(vector)
    except ValueError:
        return ""
    return next((name for least, name in _BOUNDS if score >= least), "")
