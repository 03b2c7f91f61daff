"""Extracts the code of Vue, Svelte, Astro, EJS, ERB and PHP files for the pattern checks.

Only it is read: neither the template around it nor what its attributes say. What cannot be
told apart reliably is a gap.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath

from msgspec import Struct

from orchestrator.checks.check_io import Gap

_SUFFIXES = frozenset({".vue", ".svelte", ".astro"})
_MARK = re.compile(r"<!--|<script(?=[\s/>])", re.IGNORECASE)
_REST_OF_TAG = re.compile(r"(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")
_LONGEST_TAG = 2000
_MOST = 50  # each is looked at with the lines before it
_ATTRIBUTE = re.compile(
    r"(?<![\w-])(lang|type)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE
)
_END = re.compile(r"</script", re.IGNORECASE)
_FRONT = re.compile(r"\s*---")
_DATA = re.compile(r"json|importmap|speculationrules|template|html|text/plain|x-shader")
_CODE = frozenset({"", "module", "text/javascript", "application/javascript"})
_LANGUAGES = {
    "": "js", "js": "js", "javascript": "js", "jsx": "jsx",
    "ts": "ts", "typescript": "ts", "tsx": "tsx",
}  # fmt: skip


class Script(Struct, frozen=True):
    """One script of a component.

    Attributes:
        language: ``js``, ``jsx``, ``ts`` or ``tsx``.
        before: how many lines of the file end before it begins.
        front: whether it is the part of an Astro file that runs on the server.
    """

    language: str
    before: int
    body: str
    front: bool = False

    @property
    def text(self) -> str:
        """It alone, on the lines where it is."""
        return "\n" * self.before + self.body


def is_component(path: str) -> bool:
    """Whether a file holds scripts between other things, by its name."""
    return PurePosixPath(path).suffix in _SUFFIXES


def extract_scripts(path: str, text: str) -> list[Script]:
    """The scripts of a component.

    Raises:
        Gap: one of them is in a language that is none of ours, or has no end; or they are many.
    """
    astro = path.endswith(".astro")
    found, at = [], 0
    front = _FRONT.match(text) if astro else None
    if front:
        at = text.find("\n---", front.end())
        if at < 0:
            raise Gap("the script at its top is not closed")
        body = text[front.end() : at]
        found.append(Script("ts", text.count("\n", 0, front.end()), body, front=True))
    found += islice(_tagged(text, at, "ts" if astro else None), _MOST + 1)
    if len(found) > _MOST:
        raise Gap(f"it has more than {_MOST} scripts")
    return found


def _tagged(text: str, at: int, always: str | None) -> Iterator[Script]:
    """The content of ``<script>`` elements; comments are skipped."""
    before, counted = 0, 0
    while mark := _MARK.search(text, at):
        if mark[0] == "<!--":
            at = text.find("-->", mark.end())
            if at < 0:
                return
            continue
        tag = _REST_OF_TAG.match(text, mark.end(), mark.end() + _LONGEST_TAG)
        if tag and tag[0].endswith("/>"):  # what it runs is another file
            at = tag.end()
            continue
        end = _END.search(text, tag.end()) if tag else None
        if not tag or not end:
            raise Gap("one of its scripts is not closed")
        language = _language(tag[0])
        before, counted = before + text.count("\n", counted, tag.end()), tag.end()
        if language:
            yield Script(always or language, before, text[tag.end() : end.start()])
        at = end.end()


def _language(tag: str) -> str | None:
    """The language that a tag's attributes tell; None for data."""
    attributes = {name.lower(): "".join(value).lower() for name, *value in _ATTRIBUTE.findall(tag)}
    kind, language = attributes.get("type", ""), attributes.get("lang", "")
    if kind not in _CODE and _DATA.search(kind):
        return None
    if kind not in _CODE or language not in _LANGUAGES:
        raise Gap(f"its script is in another language: {language or kind}")
    return _LANGUAGES[language]


_SIGNS = "=-"  # how a tag's value is shown, and what becomes of the white space around it


def extract_ruby(text: str) -> str:
    """A template as a program: its tags' code, one after the other, and nothing between them."""
    program, at = [], 0
    while (start := text.find("<%", at)) >= 0:
        program.append("\n" * text.count("\n", at, start))
        if text.startswith("<%%", start):  # a written-out "<%"
            at = start + 3
            continue
        at = text.find("%>", start)
        if at < 0:
            raise Gap("one of its tags is not closed")
        code = text[start + 2 : at]
        if code.startswith("#"):
            program.append("\n" * code.count("\n"))
        else:
            program.append(f"{code.lstrip(_SIGNS).removesuffix('-')};")
    return "".join(program)


_EJS = re.compile(r"<%%|<%(?P<sign>[#=_-]?)(?P<code>.*?)(?P<end>[-_]?%>)", re.DOTALL)
_INCLUDE = re.compile(r"\s*include\s+[\w./-]+\s*")  # of the first versions of EJS, and no code
_LAST_COMMENT = re.compile(r"(?<!\S)//[^\n'\"`]*\Z")


def extract_ejs(text: str) -> str:
    """A template as a program: its tags' code at its place, and blanks for what is between."""
    program, at = [], 0
    for tag in _EJS.finditer(text):
        program.append(_blanks(text[at : tag.start()]))
        at = tag.end()
        code = _LAST_COMMENT.sub(lambda comment: _blanks(comment[0]), tag["code"] or "")
        if not code.strip() or tag["sign"] == "#" or _INCLUDE.fullmatch(code):
            program.append(_blanks(tag[0]))
        elif tag["sign"] in {"=", "-"}:  # a value, after which a semicolon may stand
            value = code.rstrip().removesuffix(";").ljust(len(code))
            program += [" ;(", value, ")".rjust(len(tag["end"]) - 1), ";"]
        else:
            program += [" " * (2 + len(tag["sign"])), code, ";".ljust(len(tag["end"]))]
    if "<%" in text[at:]:
        raise Gap("one of its tags is not closed")
    return "".join([*program, _blanks(text[at:])])


def _blanks(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


_PHP = re.compile(
    r"<\?(?:php\b|=)|\?>|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|/\*.*?\*/|(?:\#|//)(?:(?!\?>)[^\n])*",
    re.DOTALL | re.IGNORECASE,
)


_BLADE = re.compile(
    r"\{\{--(?P<comment>.*?)--\}\}|@(?P<shown>\{\{.*?\}\}|\{!!.*?!!\})"
    r"|\{\{(?P<value>.*?)\}\}|\{!!(?P<raw>.*?)!!\}|@php\b(?!\s*\()(?P<code>.*?)@endphp\b",
    re.DOTALL,
)


def extract_blade(text: str) -> str:
    """The PHP of a template of Blade: its values, as statements, and its blocks of code."""

    def as_tag(found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        code = found[kind]
        if kind == "code":
            return f"<?php {code} ?>"
        quiet = kind in {"comment", "shown"} or not code.strip() or "?>" in code
        return _blanks(found[0]) if quiet else f"<?php ({code}) ?>"

    return extract_php(_BLADE.sub(as_tag, text))


def extract_php(text: str) -> str:
    """The PHP between the tags of a page, on the lines where it is."""
    parts, at, inside = [], 0, False
    for tag in _PHP.finditer(text):
        if tag.start() < at or (tag[0] == "?>") != inside or not tag[0].startswith(("<?", "?>")):
            continue
        between = text[at : tag.start()]
        parts.append(between if inside else "\n" * between.count("\n"))
        parts.append(";" if inside else " echo " if tag[0] == "<?=" else " ")
        at, inside = tag.end(), not inside
    rest = text[at:]
    return "".join([*parts, rest if inside else "\n" * rest.count("\n")])
