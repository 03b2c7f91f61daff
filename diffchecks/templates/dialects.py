"""The schema of a template dialect: ``data/templates/<name>.yaml``.

White space in an expression is ignored. A file with ``extends: <name>`` inherits all keys that it
does not have from another dialect.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct, convert

from diffchecks import DATA
from diffchecks.data_files import parse_yaml
from diffchecks.file_patterns import matches

PAGES = ("*.html", "*.htm", "*.xhtml")
EXTENDS = "extends"
NOTHING = "(?!)"

TagKind = Literal["value", "code", "comment"]


class Delimiters(Struct, frozen=True, forbid_unknown_fields=True):
    """The delimiters of a kind of tag.

    Attributes:
        closes: empty: the tag ends at the end of ``rest``.
        rest: what must follow ``opens``.
    """

    opens: str
    kind: TagKind
    closes: str = ""
    rest: re.Pattern[str] = re.compile("")


class VerbatimBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns for the whole opening tag and the whole closing tag of a block."""

    begins: re.Pattern[str]
    ends: re.Pattern[str]


class Dialect(Struct, frozen=True, forbid_unknown_fields=True):
    """One dialect.

    Attributes:
        files: globs of file names of this dialect, unless a dialect with ``shared`` claims the
            page.
        shared: globs of file names that other dialects use too, so the content decides.
        holds: patterns that must all match in a page with a shared name.
        lacks: a pattern that must not match in it.
        tags: the tags that are replaced or executed.
        verbatim: blocks in which tags are not interpreted.
        scripts_apart: tags are not interpreted within ``<script>`` and ``<style>``.
        substitutes: values are inserted into the page's text, so their context matters; False: the
            dialect sets elements and attributes itself.
        unescaped: a tag that prints its ``value`` (a group) as markup, matched as a whole.
        attributes: the name of an attribute that prints its value, an expression, as markup.
        bound: the name of an attribute whose value is an expression; the group is the real name.
        escaping_off: blocks in which values are not escaped.
        harmless: matches in a tag that prints no markup from untrusted sources.
        encoded: matches in a tag whose value is also harmless in a script or a URL.
        constant: a constant value, matched as a whole, without filters.
        assigned: the start of a statement that assigns to ``name`` (a group), up to the value.
        assigned_safe: what follows if the assigned value is harmless.
        number, word, address: matches in a value whose name says that it is a number or flag, one
        of a few words, or a URL of this site.
        request: a value from the request, matched as a whole.
        typed: matches in a value that people type, beside those whose name says it everywhere.
        form_token: matches in a form or page that has a CSRF token; None: forms are not checked.
        form_unknown: a tag in a form that may print such a token.
    """

    files: tuple[str, ...] = ()
    shared: tuple[str, ...] = PAGES
    holds: tuple[re.Pattern[str], ...] = ()
    lacks: re.Pattern[str] = re.compile(NOTHING)
    tags: tuple[Delimiters, ...] = ()
    verbatim: tuple[VerbatimBlock, ...] = ()
    scripts_apart: bool = False
    substitutes: bool = True
    unescaped: tuple[re.Pattern[str], ...] = ()
    attributes: re.Pattern[str] = re.compile(NOTHING)
    bound: re.Pattern[str] = re.compile(NOTHING)
    escaping_off: tuple[VerbatimBlock, ...] = ()
    harmless: re.Pattern[str] = re.compile(NOTHING)
    encoded: re.Pattern[str] = re.compile(NOTHING)
    constant: re.Pattern[str] = re.compile(NOTHING)
    assigned: re.Pattern[str] = re.compile(NOTHING)
    assigned_safe: re.Pattern[str] = re.compile(NOTHING)
    number: re.Pattern[str] = re.compile(NOTHING)
    word: re.Pattern[str] = re.compile(NOTHING)
    address: re.Pattern[str] = re.compile(NOTHING)
    request: re.Pattern[str] = re.compile(NOTHING)
    typed: re.Pattern[str] = re.compile(NOTHING)
    form_token: re.Pattern[str] | None = None
    form_unknown: re.Pattern[str] = re.compile(NOTHING)


@cache
def _documents() -> Mapping[str, Mapping[str, Any]]:
    """The shipped dialects by name, with what they inherit."""
    documents: dict[str, dict[str, Any]] = {
        file.stem: parse_yaml(file.read_text("utf-8"))
        for file in sorted((DATA / "templates").glob("*.yaml"))
    }
    return {
        name: {**(documents[content.pop(EXTENDS)] if EXTENDS in content else {}), **content}
        for name, content in documents.items()
    }


@cache
def load_dialect(name: str) -> Dialect:
    """Load a shipped dialect; the expressions of those that no page needs are not compiled."""
    return convert(_documents()[name], Dialect, dec_hook=lambda _, text: _compile(text))


def find_dialect(name: str, text: str) -> str | None:
    """Find the dialect of a page; one that claims the content of a shared name comes first."""
    known = _documents()
    for dialect, keys in known.items():
        shared = keys.get("holds") and matches(name, keys.get("shared", PAGES))
        if shared and _claims(keys, text):
            return dialect
    return next((each for each in known if matches(name, known[each].get("files", ()))), None)


def _claims(keys: Mapping[str, Any], text: str) -> bool:
    holds = (_compile(mark) for mark in keys["holds"])
    lacks = _compile(keys.get("lacks", NOTHING))
    return all(mark.search(text) for mark in holds) and not lacks.search(text)


@cache
def _compile(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.VERBOSE | re.DOTALL)
