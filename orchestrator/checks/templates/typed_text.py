"""Whether a value is, by its name, text that people type.

What else a page prints where escaping for HTML does not help (a key, a code, what an object says
of itself) is most often the program's own, and the page does not show which it is.
"""

import re

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_QUOTED = re.compile(r"(?<!\[)(?:\"[^\"]*\"|'[^']*')")  # but for the name of an item

# A call or filter that gives the same text in another form.
_FORMS = frozenset(
    ["capitalize", "downcase", "escape", "html", "lower", "s", "string", "strip", "trim", "upcase"]
)
_TEXTS = frozenset(
    [
        *("about", "answer", "bio", "body", "caption", "city", "comment", "comments"),
        *("company", "description", "email", "feedback", "headline", "keyword", "keywords", "mail"),
        *("message", "nickname", "note", "notes", "phone", "postcode", "q", "query", "question"),
        *("quote", "reason", "signature", "street", "subject", "summary", "term"),
        *("text", "title", "word"),
    ]
)
# `first_name` and `productName`, but no `form_name`.
_NAMED_BY_PEOPLE = frozenset(
    [
        *("album", "author", "category", "client", "company", "contact", "customer", "display"),
        *("family", "file", "first", "folder", "full", "given", "group", "item", "last", "nick"),
        *("original", "product", "project", "real", "sender", "team"),
    ]
)
# `field.name`, where `team.name` is what people call it.
_NAMED_BY_PROGRAM = frozenset(
    [
        *("action", "attribute", "block", "button", "column", "field", "form", "icon", "input"),
        *("loop", "menu", "method", "model", "module", "option", "param", "parameter", "plugin"),
        *("property", "route", "setting", "step", "tab", "table", "theme", "type", "widget"),
    ]
)

# Holds what the program says, in the language of whoever reads it.
_PROGRAMS_TEXTS = frozenset(
    [
        *(
            "const",
            "constant",
            "constants",
            "dictionary",
            "i18n",
            "intl",
            "l10n",
            "label",
            "labels",
        ),
        *("lang", "language", "locale", "messages", "strings", "translation", "translations"),
    ]
)


def is_typed(value: str) -> bool:
    """Whether the last name in a value says that people type it."""
    names = [_WORD.findall(name) for name in _IDENTIFIER.findall(_QUOTED.sub("", value))]
    path = [[word.lower() for word in words] for words in names if words]
    while len(path) > 1 and path[-1][-1] in _FORMS:
        path.pop()
    if not path:
        return False
    if any(_PROGRAMS_TEXTS.intersection(owner[-1:]) for owner in path[:-1]):
        return False
    *words, last = path[-1]
    if last != "name":
        return last in _TEXTS
    if words:
        return words[-1] in _NAMED_BY_PEOPLE
    return len(path) == 1 or path[-2][-1] not in _NAMED_BY_PROGRAM
