"""What is known of a dialect of templates: ``config/templates/<name>.yaml``.

White space in an expression says nothing. A file with ``extends: <name>`` is that of another
dialect but for the keys that it has itself.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from msgspec import Struct, convert

from orchestrator.data_directories import TEMPLATE_DIALECTS, data_root

PAGES = ("*.html", "*.htm", "*.xhtml")
EXTENDS = "extends"
NOTHING = "(?!)"

TagKind = Literal["value", "code", "comment"]


class Delimiters(Struct, frozen=True, forbid_unknown_fields=True):
    """What a kind of tag begins and ends with, and what the tag is.

    Attributes:
        closes: empty: the tag ends where ``rest`` does.
        rest: what must follow ``opens``.
    """

    opens: str
    kind: TagKind
    closes: str = ""
    rest: re.Pattern[str] = re.compile("")


class Block(Struct, frozen=True, forbid_unknown_fields=True):
    """What matches, as a whole, the tag with which a block begins, and that with which it ends."""

    begins: re.Pattern[str]
    ends: re.Pattern[str]


class Dialect(Struct, frozen=True, forbid_unknown_fields=True):
    """One dialect.

    Attributes:
        files: globs of names that are of this dialect, unless one that shares them claims the page.
        shared: globs of names that other dialects have too, so what the page holds decides.
        holds: found in a page with such a name that is of this dialect; each must match.
        lacks: found in one that is not.
        tags: the tags that are replaced or executed.
        verbatim: blocks in which no tag is read.
        scripts_apart: no tag is read within ``<script>`` and ``<style>``.
        substitutes: values are put into the page's text, so where they stand decides what they do;
            False: the dialect puts them into elements and attributes itself.
        unescaped: a tag that prints its ``value`` (a group) as markup, matched as a whole.
        attributes: the name of an attribute that prints its value, an expression, as markup.
        bound: the name of an attribute whose value is an expression; its group is the real name.
        escaping_off: blocks in which values are not escaped.
        harmless: found in a tag that prints no markup which somebody else can choose.
        encoded: found in a tag whose value does no harm in a script or an address either.
        constant: a value that does not vary, matched as a whole, without its filters.
        assigned: a statement that gives ``name`` (a group) a value, at which it ends.
        assigned_safe: what follows such a statement when the value does no harm.
        number, word, address: found in a value that by its name is a number or a flag, is one of a
            few words, or is an address of this site.
        request: a value that comes with a request, matched as a whole.
        form_token: found in a form, or in a page, that protects its forms against forgery; None:
            forms are not looked at.
        form_unknown: a tag in a form that may print such a token.
    """

    files: tuple[str, ...] = ()
    shared: tuple[str, ...] = PAGES
    holds: tuple[re.Pattern[str], ...] = ()
    lacks: re.Pattern[str] = re.compile(NOTHING)
    tags: tuple[Delimiters, ...] = ()
    verbatim: tuple[Block, ...] = ()
    scripts_apart: bool = False
    substitutes: bool = True
    unescaped: tuple[re.Pattern[str], ...] = ()
    attributes: re.Pattern[str] = re.compile(NOTHING)
    bound: re.Pattern[str] = re.compile(NOTHING)
    escaping_off: tuple[Block, ...] = ()
    harmless: re.Pattern[str] = re.compile(NOTHING)
    encoded: re.Pattern[str] = re.compile(NOTHING)
    constant: re.Pattern[str] = re.compile(NOTHING)
    assigned: re.Pattern[str] = re.compile(NOTHING)
    assigned_safe: re.Pattern[str] = re.compile(NOTHING)
    number: re.Pattern[str] = re.compile(NOTHING)
    word: re.Pattern[str] = re.compile(NOTHING)
    address: re.Pattern[str] = re.compile(NOTHING)
    request: re.Pattern[str] = re.compile(NOTHING)
    form_token: re.Pattern[str] | None = None
    form_unknown: re.Pattern[str] = re.compile(NOTHING)


Dialects = Mapping[str, Dialect]


@cache
def load_dialects() -> Dialects:
    """The shipped dialects by their names; read once, by the process that forks the workers."""
    import yaml  # noqa: PLC0415 - only a job with templates needs it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents: dict[str, dict[str, Any]] = {
        file.stem: yaml.load(file.read_text("utf-8"), loader)  # noqa: S506 - both are safe ones
        for file in sorted((data_root() / TEMPLATE_DIALECTS).glob("*.yaml"))
    }
    found = {}
    for name, content in documents.items():
        base = documents[content[EXTENDS]] if EXTENDS in content else {}
        own = {key: value for key, value in content.items() if key != EXTENDS}
        found[name] = convert({**base, **own}, Dialect, dec_hook=_compile)
    return found


def find_dialect(dialects: Dialects, name: str, text: str) -> str | None:
    """The dialect of a page; one that shares its name and claims it comes first."""
    for dialect, known in dialects.items():
        if known.holds and _matches(name, known.shared) and _claims(known, text):
            return dialect
    return next((each for each, known in dialects.items() if _matches(name, known.files)), None)


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _claims(dialect: Dialect, text: str) -> bool:
    return all(mark.search(text) for mark in dialect.holds) and not dialect.lacks.search(text)


def _compile(_: type, expression: Any) -> re.Pattern[str]:
    return re.compile(expression, re.VERBOSE | re.DOTALL)
