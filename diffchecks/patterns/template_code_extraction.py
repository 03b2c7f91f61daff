"""Extracts the code of Vue, Svelte, Astro, EJS, ERB, EEx, JSP, PHP and HTML files for the patterns.

Only the code is read, not the template around it or its attributes. What cannot be separated
reliably is a gap.
"""

import html
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import PurePosixPath

from msgspec import Struct

from diffchecks.check_io import Gap
from diffchecks.data_files import read_map, read_patterns

_SUFFIXES = frozenset({".vue", ".svelte", ".astro"})
_PATTERNS = read_patterns("template_code_extraction")
_MAX_TAG = 2000
_MAX_SCRIPTS = 50  # each is parsed with the preceding lines
_CODE = frozenset({"", "module", "text/javascript", "application/javascript"})
_LANGUAGES = read_map("maps.yaml", "languages_of_components")


class ComponentScript(Struct, frozen=True):
    """One script of a component.

    Attributes:
        language: ``js``, ``jsx``, ``ts`` or ``tsx``.
        before: number of lines of the file before it begins.
        front: whether it is the server part of an Astro file.
    """

    language: str
    before: int
    body: str
    front: bool = False

    @property
    def text(self) -> str:
        """Only the script, on its original lines."""
        return "\n" * self.before + self.body


def is_component(path: str) -> bool:
    """Whether a file contains scripts inside other content, by its name."""
    return PurePosixPath(path).suffix in _SUFFIXES


def extract_scripts(path: str, text: str) -> list[ComponentScript]:
    """The scripts of a component.

    Raises:
        Gap: a script is in an unsupported language or not closed, or there are too many.
    """
    astro = path.endswith(".astro")
    found, at = [], 0
    front = _PATTERNS["front"].match(text) if astro else None
    if front:
        at = text.find("\n---", front.end())
        if at < 0:
            raise Gap("the script at its top is not closed")
        body = text[front.end() : at]
        found.append(ComponentScript("ts", text.count("\n", 0, front.end()), body, front=True))
    found += islice(_tagged(text, at, "ts" if astro else None), _MAX_SCRIPTS + 1)
    if len(found) > _MAX_SCRIPTS:
        raise Gap(f"it has more than {_MAX_SCRIPTS} scripts")
    return found


def _tagged(text: str, at: int, always: str | None) -> Iterator[ComponentScript]:
    """The content of ``<script>`` elements; comments are skipped."""
    before, counted = 0, 0
    while mark := _PATTERNS["mark"].search(text, at):
        if mark[0] == "<!--":
            at = text.find("-->", mark.end())
            if at < 0:
                return
            continue
        tag = _PATTERNS["rest_of_tag"].match(text, mark.end(), mark.end() + _MAX_TAG)
        if tag and tag[0].endswith("/>"):  # it runs another file
            at = tag.end()
            continue
        end = _PATTERNS["end"].search(text, tag.end()) if tag else None
        if not tag or not end:
            raise Gap("one of its scripts is not closed")
        language = _language(tag[0])
        before, counted = before + text.count("\n", counted, tag.end()), tag.end()
        if language:
            yield ComponentScript(always or language, before, text[tag.end() : end.start()])
        at = end.end()


def _language(tag: str) -> str | None:
    """The language by a tag's attributes; None for data."""
    attributes = {
        name.lower(): "".join(value).lower() for name, *value in _PATTERNS["attribute"].findall(tag)
    }
    kind, language = attributes.get("type", ""), attributes.get("lang") or "js"
    if kind not in _CODE and _PATTERNS["data"].search(kind):
        return None
    if kind not in _CODE or language not in _LANGUAGES:
        raise Gap(f"its script is in another language: {attributes.get('lang') or kind}")
    return _LANGUAGES[language]


_MAX_HANDLERS = 5000


def extract_page_scripts(text: str) -> list[str]:
    """The JavaScript of a page, each script on its original lines.

    What a template fills in becomes a constant, as the check of templates judges it. A script in
    another language is left out.
    """
    found = []
    ends = [end.end() for end in _PATTERNS["end"].finditer(text)]
    last = ends[-1] if ends else 0  # a script without an end would be searched for to the end
    for script in islice(_PATTERNS["page_script"].finditer(text, 0, last), _MAX_SCRIPTS):
        with suppress(Gap):
            if _language(script[1]) == "js" and script[2].strip():
                body = _PATTERNS["filled_in"].sub(
                    lambda mark: "0" + "\n" * mark[0].count("\n"), script[2]
                )
                found.append("\n" * text.count("\n", 0, script.start(2)) + body)
    handlers = _extract_handlers(text)
    return [*found, handlers] if handlers else found


def _extract_handlers(text: str) -> str:
    """The code of event handlers and of ``javascript:`` addresses, each on its line."""
    parts: list[str] = []
    at = 0
    for handler in islice(_PATTERNS["handler"].finditer(text), _MAX_HANDLERS):
        parts.append("\n" * text.count("\n", at, handler.start()))
        at = handler.start()
        code = html.unescape((handler["code"] or handler["address"])[1:-1])
        code = _PATTERNS["filled_in"].sub("0", code).replace("\n", " ").strip()
        parts.append(f"{code.removeprefix('javascript:')} ; ")
    return "".join(parts)


_SIGNS = "=-"  # how a tag's value is escaped, and whether white space around it is removed


def extract_tags(text: str, language: str) -> str:
    """A template as a program of Ruby, or ``ex``: the code of its tags, without other text."""
    if language != "ex":
        return _translate(text, _line_ends, _ruby_code)
    code = _translate(_PATTERNS["comment"].sub(_lines_of, text), _line_ends, _ruby_code)
    return "\n".join(line.rstrip(" ;") for line in code.split("\n"))  # which no grammar takes


def _translate(text: str, between: Callable[[str], str], code: Callable[[str], str]) -> str:
    """The program of a template, given what becomes of the text between its tags, and of a tag."""
    return "".join(between(part) if is_text else code(part) for part, is_text in _tag_parts(text))


def _tag_parts(text: str) -> Iterator[tuple[str, bool]]:
    """The tags of a template, without delimiters, and the text before, between and after them."""
    at = 0
    while (start := text.find("<%", at)) >= 0:
        if text.startswith("<%%", start):  # a written-out "<%"
            yield text[at : start + 3], True
            at = start + 3
            continue
        end = text.find("%>", start)
        if end < 0:
            raise Gap("one of its tags is not closed")
        yield text[at:start], True
        yield text[start + 2 : end], False
        at = end + 2
    yield text[at:], True


def _ruby_code(tag: str) -> str:
    if tag.startswith("#"):
        return _line_ends(tag)
    return f"{tag.lstrip(_SIGNS).removesuffix('-')};"


def _line_ends(text: str) -> str:
    return "\n" * text.count("\n")


def _lines_of(found: re.Match[str]) -> str:
    return _line_ends(found[0])


_JSP_METHOD = "void f(HttpServletRequest request, HttpServletResponse response, PrintWriter out) {"


def extract_jsp(text: str) -> str:
    """A page as a Java class: the code of its tags is a method, which ends at a declaration."""
    text = _PATTERNS["comment"].sub(_lines_of, text)
    return f"class Page {{ {_JSP_METHOD}{_translate(text, _line_ends, _java_code)}}}}}"


def _java_code(tag: str) -> str:
    if tag.startswith("@"):
        return _line_ends(tag)
    if tag.startswith("!"):
        return f"}} {tag[1:]} {_JSP_METHOD}"
    return f"out.print({tag[1:]});" if tag.startswith("=") else tag


def extract_ejs(text: str) -> str:
    """A template as a JavaScript program: the code of its tags in place, blanks between them."""
    return _translate(text, _blanks, _ejs_code)


def _ejs_code(tag: str) -> str:
    """The code of a tag, given the tag without its delimiters."""
    sign = tag[:1] if tag[:1] in set("#=_-") else ""
    code = tag[len(sign) :]
    if code.endswith(("-", "_")):
        code = f"{code[:-1]} "
    code = _PATTERNS["last_comment"].sub(lambda comment: _blanks(comment[0]), code)
    if not code.strip() or sign == "#" or _PATTERNS["include"].fullmatch(code):
        return _blanks(f"<%{tag}%>")
    if sign in {"=", "-"}:  # a value, after which a semicolon may stand
        return f" ;({code.rstrip().removesuffix(';').ljust(len(code))});"
    return f"  {sign and ' '}{code}; "


def _blanks(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


_BLADE_ENDS = {"{{--": "--}}", "{{": "}}", "{!!": "!!}", "@php": "@endphp"}


def extract_blade(text: str) -> str:
    """The PHP of a Blade template: its values, as statements, and its code blocks."""
    page, at, never = [], 0, set[str]()
    for tag in _PATTERNS["blade"].finditer(text):
        opens = tag[0] if tag[0] == "@php" else tag[0].removeprefix("@")
        closes = _BLADE_ENDS[opens]
        if tag.start() < at or closes in never:
            continue
        end = text.find(closes, tag.end())
        if end < 0:
            never.add(closes)
            continue
        code, before, at = text[tag.end() : end], text[at : tag.start()], end + len(closes)
        quiet = opens == "{{--" or opens != tag[0] or not code.strip() or "?>" in code
        program = f"<?php {code if opens == '@php' else f'({code})'} ?>"
        page += [before, _blanks(text[tag.start() : at]) if quiet else program]
    return extract_php("".join([*page, text[at:]]))


def extract_php(text: str) -> str:
    """The PHP code between the tags of a page, on its original lines."""
    parts, at = [], 0
    while tag := _PATTERNS["php"].search(text, at):
        parts.append("\n" * text.count("\n", at, tag.start()))
        parts.append(" echo " if tag[0] == "<?=" else " ")
        ends = (found for found in _PATTERNS["in_php"].finditer(text, tag.end()) if found["end"])
        end = next(ends, None)
        if end is None:
            return "".join([*parts, text[tag.end() :]])
        parts += [text[tag.end() : end.start()], ";"]
        at = end.end()
    return "".join([*parts, "\n" * text.count("\n", at)])
