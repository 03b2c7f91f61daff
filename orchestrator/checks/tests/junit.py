"""Reading the JUnit report of a test run: which tests failed.

The report is written by code of the change, so it is as little trusted: no DTD is read, and what it
says is a detail of a failure that the exit status proved.
"""

from __future__ import annotations

from xml.parsers import expat

from msgspec import Struct

LONGEST_NAME = 200


class NotJUnitError(Exception):
    """A file that is no JUnit report; ``str()`` says why."""


class Test(Struct, frozen=True):
    """One test that failed.

    Attributes:
        group: what the report calls its class, in Python the dotted module.
        file: as the report names it, often empty.
    """

    group: str
    name: str
    file: str

    @property
    def shown(self) -> str:
        """A name for people, on one line and not too long."""
        text = f"{self.group}.{self.name}".strip(".")
        return "".join(c if c.isprintable() else "?" for c in text[:LONGEST_NAME])


def failed(data: bytes) -> list[Test]:
    """The tests that failed or could not be run, each once, in the order of the report.

    Raises:
        NotJUnitError: it is none.
    """
    found: dict[Test, None] = {}
    inside: list[Test] = []
    cases = 0

    def begin(tag: str, given: dict[str, str]) -> None:
        nonlocal cases
        if tag == "testcase":
            cases += 1
            test = Test(given.get("classname", ""), given.get("name", ""), given.get("file", ""))
            inside[:] = [test]
        elif tag in {"failure", "error"} and inside:
            found[inside[0]] = None

    def doctype(*_: object) -> None:
        raise NotJUnitError("holds a DTD, which no report needs")

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as fault:
        raise NotJUnitError(f"is no well-formed XML: {fault}") from None
    if not cases:
        raise NotJUnitError("names no test")
    return list(found)
