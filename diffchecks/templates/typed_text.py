"""Decides by its name whether a value is text that people type.

Other values in places where escaping for HTML does not help (a key, a code, an object's
representation) mostly come from the program itself, and the page does not show which do not.
"""

import re

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# A string, unless it is an item's key.
_QUOTED = re.compile(r"(?!(?<=\[)[\"']\w+[\"']\])(?:\"[^\"]*\"|'[^']*')")

# A call or filter that returns the same text in another form.
_FORMS = frozenset(
    ["capitalize", "downcase", "escape", "html", "lower", "s", "string", "strip", "trim", "upcase"]
)
_TEXTS = frozenset(
    [
        *("about", "answer", "bio", "body", "caption", "city", "comment", "comments", "company"),
        *("description", "email", "feedback", "headline", "keyword", "keywords", "mail", "message"),
        *("nickname", "note", "notes", "phone", "postcode", "q", "query", "question", "quote"),
        *("reason", "signature", "street", "subject", "summary", "surname", "term", "text"),
        *("title", "word"),
    ]
)
# People choose `first_name` and `team.name`, but not `form_name` and `tab.name`.
_NAMED_BY_PEOPLE = frozenset(
    [
        *("album", "article", "author", "book", "category", "client", "company", "contact"),
        *("course", "customer", "display", "event", "family", "file", "first", "folder", "full"),
        *("given", "group", "item", "last", "member", "nick", "organization", "original"),
        *("owner", "person", "playlist", "product", "project", "real", "room", "sender", "shop"),
        *("store", "student", "supplier", "team", "topic", "user", "vendor"),
    ]
)
# `user.name`; in contrast, `user_name` is mostly a login name of letters and digits.
_LOGINS = frozenset(["author", "member", "owner", "sender", "user"])
# Parts of the program, and its translated texts.
_OF_PROGRAM = (
    *("action", "attribute", "block", "button", "column", "config", "const", "constant", "dialog"),
    *("dictionary", "error", "extension", "field", "form", "i18n", "icon", "input", "intl", "l10n"),
    *("label", "lang", "language", "loc", "locale", "localizer", "menu", "messages", "method"),
    *("modal", "module", "option", "parameter", "param", "plugin", "property", "resource"),
    *("route", "setting", "step", "string", "tab", "table", "theme", "translation", "type"),
    *("validation", "widget"),
)
_PROGRAMS = re.compile(rf".*(?:{'|'.join(_OF_PROGRAM)})s?")


def is_typed(value: str) -> bool:
    """Whether the last name in a value says that people type the text."""
    names = [_WORD.findall(name) for name in _IDENTIFIER.findall(_QUOTED.sub("", value))]
    path = [[word.lower() for word in words] for words in names if words]
    while len(path) > 1 and path[-1][-1] in _FORMS:
        path.pop()
    if not path:
        return False
    *before, last = [owner[-1] for owner in path[:-1]] + path[-1]
    is_login = len(path[-1]) > 1 and path[-1][-2] in _LOGINS
    if any(map(_PROGRAMS.fullmatch, before)):
        return False
    if last == "name":
        return not _NAMED_BY_PEOPLE.isdisjoint(before[-1:]) and not is_login
    return last in _TEXTS
