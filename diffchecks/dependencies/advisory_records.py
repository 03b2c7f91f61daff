"""Advisories in OSV format (https://ossf.github.io/osv-schema/), with the fields used here."""

from typing import Any

from msgspec import Struct


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
