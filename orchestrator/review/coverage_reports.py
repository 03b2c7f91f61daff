"""The coverage reports that a review was given, as its tools know them."""

from __future__ import annotations

from msgspec import Struct


class CoverageReport(Struct, frozen=True):
    """One report, kept for the run: it is read again when the run is resumed.

    Attributes:
        name: what messages call it.
        path: where the copy lies.
        made: when the file was written, in seconds since 1970.
    """

    name: str
    path: str
    made: float
