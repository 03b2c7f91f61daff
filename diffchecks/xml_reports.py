"""Reads reports in XML without their DTD, so that no entity is expanded and nothing is loaded."""

from collections.abc import Callable
from xml.parsers import expat


class ReportError(Exception):
    """The file is not a report that can be read; ``str()`` is the reason, to follow its name."""


def parse_xml(
    data: bytes,
    begin: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
    *,
    whole: bool = True,
    reference: bool = False,
) -> None:
    """Call functions for the elements of a document, and for the text between.

    Args:
        begin: gets an element's name and attributes.
        whole: it ends with the data; else only its beginning is read.
        reference: it may refer to a DTD elsewhere, which is not loaded.

    Raises:
        ReportError: it is not well-formed, or has a DTD.
    """

    def doctype(name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        if has_subset or not reference:
            raise ReportError("contains a DTD, which is not allowed in a report")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, doctype
    try:
        parser.Parse(data, whole)
    except expat.ExpatError as error:
        raise ReportError(f"is not well-formed XML: {error}") from None
