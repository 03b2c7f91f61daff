"""Calls and values that a change replaces with less safe ones, from the differing lines."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from diffchecks.check_io import RawFinding
from diffchecks.removed_controls.lost_wrapping import (
    MAX_HUNK_CHARACTERS,
    SHOWN,
    ChangedText,
    LineRange,
    strip_whitespace,
    tell_other_lines,
)

CODE = "unsafe-replacement"
NEAR = 8  # lines around a directory name in which it is compared

_PYTHON = frozenset({".py"})
_SCRIPT = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue", ".svelte", ".html"})
_PHP, _RUBY, _GO = frozenset({".php"}), frozenset({".rb", ".erb"}), frozenset({".go"})
_JVM = frozenset({".java", ".kt", ".scala", ".groovy"})
_ANY = _PYTHON | _SCRIPT | _PHP | _RUBY | _GO | _JVM


class UnsafeReplacement(Struct, frozen=True):
    """A safe call and its unsafe counterpart, in some languages.

    Attributes:
        says: what is wrong with the unsafe one.
    """

    suffixes: frozenset[str]
    safe: re.Pattern[str]
    unsafe: re.Pattern[str]
    says: str


def _pair(suffixes: frozenset[str], safe: str, unsafe: str, says: str) -> UnsafeReplacement:
    return UnsafeReplacement(suffixes, re.compile(safe), re.compile(unsafe), says)


_SHELL = "a shell interprets the command line"
_MARKUP = "the text is interpreted as markup"
_CODE = "the data can run code"
_QUERY = "the value becomes a part of the query's text"
_DIGEST = "collisions of the hash are easy to find"
_ANCHOR = "it matches the beginning or end of any line, not of the whole text"
_KEYWORDS = r"(?:SELECT|UPDATE|DELETE|INSERT|WHERE|FROM|VALUES|ORDER BY|LIKE|SET)"

REPLACEMENTS = (
    _pair(_PYTHON, r"\bformat_html\(", r"\b(?:mark_safe|SafeString|Markup)\(", _MARKUP),
    _pair(
        _PYTHON,
        r"\b(?:mkstemp|mkdtemp|NamedTemporaryFile|TemporaryFile|TemporaryDirectory)\(",
        r"\bmktemp\(",
        "another program can create the file first",
    ),
    _pair(
        _PYTHON,
        r"\b(?:run|call|check_call|check_output|Popen|execute)\(|\bshlex\.(?:split|quote)\(",
        r"\bos\.(?:system|popen)\(|\bshell=True|\bcommands\.get\w*output\(",
        _SHELL,
    ),
    _pair(
        _PYTHON,
        r"\bliteral_eval\(|\bjson\.loads?\(|(?<![\w.])(?:int|float)\(|\bsafe_load\w*\(|SafeLoader",
        r"(?<![\w.])eval\(|\b(?:c?[pP]ickle|marshal|dill|jsonpickle)\.(?:loads?|decode)\("
        r"|\byaml\.(?:unsafe_)?load(?:_all)?\((?![^)\n]{0,200}Safe)|Loader=(?:yaml\.)?(?:Unsafe)?Loader",
        _CODE,
    ),
    _pair(
        _PYTHON,
        r"\bdefusedxml\b",
        r"\b(?:import|from) (?:xml|lxml)\b"
        r"|(?<!defusedxml\.)\b(?:ElementTree|ET|etree|minidom|sax)\.(?:iter)?(?:parse|fromstring|XML)",
        "the parser resolves entities",
    ),
    _pair(_PYTHON, r"\.fullmatch\(", r"\.(?:match|search)\(", "it accepts a part of the text"),
    _pair(
        _PYTHON,
        r"methods ?= ?[\[({]\s*['\"](?:POST|PUT|PATCH|DELETE)['\"]",
        r"methods ?= ?[\[({][^\])}]*['\"]GET['\"]",
        "a link on another site can make the request",
    ),
    _pair(
        _SCRIPT,
        r"\.(?:textContent|innerText)\s*=|\.text\(|\bcreateTextNode\(|\bv-text\b",
        r"\.(?:inner|outer)HTML\s*\+?=|\.html\((?!\))|insertAdjacentHTML\(|dangerouslySetInnerHTML"
        r"|\bdocument\.write\(|\bv-html\b|\{@html\b",
        _MARKUP,
    ),
    _pair(_SCRIPT, r"\b(?:execFile|spawn)(?:Sync)?\(",
          r"(?<![\w.])(?:\w*process\.)?exec(?:Sync)?\(", _SHELL),
    _pair(_SCRIPT, r"\bJSON\.parse\(", r"(?<![\w.])eval\(|\bnew Function\(", _CODE),
    _pair(_SCRIPT, r"\bObject\.create\(null\)", r"[=:(]\s*\{\s*\}",
          "the object has inherited names"),
    _pair(_PHP, r"\bjson_decode\(", r"\bunserialize\(", _CODE),
    _pair(_PHP, r"allowed_classes", r"\bunserialize\([^,()\n]*(?:\([^()\n]*\))?\)", _CODE),
    _pair(_PHP, r"(?:->|::)prepare\(|\bbind(?:Param|Value)\(|->execute\(",
          r"->(?:query|exec)\(|\bmysqli?_query\(", _QUERY),
    _pair(_RUBY, r"\bsafe_load\w*\b|\bJSON\.parse\b",
          r"\bYAML\.(?:unsafe_)?load(?:_file)?\b|\bMarshal\.load\b|\bJSON\.load\b", _CODE),
    _pair(_RUBY, r"\b(?:sanitize|html_escape|escapeHTML|content_tag|safe_join|ERB::Util)\b|\bh\(",
          r"\.html_safe\b|\braw[ (]|<%==", _MARKUP),
    _pair(_RUBY, r"/\\A", r"/\^", _ANCHOR),
    _pair(_RUBY, r"\\[zZ]/", r"\$/", _ANCHOR),
    _pair(_RUBY, r"\bpublic_send\b|\bcase\b", r"(?<![\w_])(?:instance_eval|eval|constantize)\b",
          _CODE),
    _pair(_RUBY, r"\b(?:File|URI)\.(?:open|read)\b|\bNet::HTTP\b", r"(?<![\w.:])open[ (]",
          "a name that begins with | runs a program"),
    _pair(_RUBY, r"\bpermit[( ](?!!)", r"\bpermit!", "any attribute can be assigned"),
    _pair(_JVM, r"\bprepareStatement\(|\bPreparedStatement\b", r"\bcreateStatement\(", _QUERY),
    _pair(_GO, r"\bhtml/template\b", r"\btext/template\b", _MARKUP),
    _pair(_GO, r"\bexec\.Command(?:Context)?\((?![^\n]*sh\", *\"-c)",
          r"\"(?:/bin/)?(?:ba)?sh\",\s*\"-c\"", _SHELL),
    _pair(_ANY, r"(?i)\bhmac\b", r"(?i)(?<![\w-])(?:md5|sha_?\d+)\(",
          "the hash can be made without the key"),
    _pair(_ANY, r"(?i)sha-?(?:224|256|384|512)|sha3|scrypt|pbkdf2|bcrypt|argon2|password_hash",
          r"(?i)(?<![\w-])(?:md5|sha-?1)\b", _DIGEST),
    _pair(_ANY, r"%s|%\(\w+\)s|\?|:\w+|\$\d|@\w+|\{\}|\bquote_\w+\(|->(?:quote|escape)\w*\(",
          rf"\b{_KEYWORDS}\b[^\n]{{0,200}}?(?:[\"']\s*(?:\+|%|\.\s?\$|\.format\()|#\{{|\$\{{|\{{\$"
          r"|=\s?'?\$\w)"
          rf"|(?<!\w)[fF][rR]?\"{{1,3}}[^\n\"]{{0,200}}\b{_KEYWORDS}\b[^\n\"]{{0,200}}\{{\w",
          _QUERY),
)  # fmt: skip
"""The known pairs of safe and unsafe calls."""


def find_unsafe_replacements(file: ChangedText) -> Iterator[RawFinding]:
    """Report what each hunk of a file replaces with something less safe."""
    suffix = PurePosixPath(file.path).suffix.lower()
    if suffix not in _ANY:
        return
    found: dict[UnsafeReplacement, list[tuple[int, str]]] = {}
    for hunk in file.hunks() if file.base else ():
        was, now = file.was(hunk), file.now(hunk)
        if was and now and max(len(was), len(now)) <= MAX_HUNK_CHARACTERS:
            yield from _unbounded(file, hunk)
            yield from _without_separator(file, hunk)
            yield from _weaker_values(file, hunk)
            yield from _lost_options(file, hunk)
            if replaced := _replaced(was, now, suffix):
                pair, at, says = replaced
                line = hunk.head.start + now.count("\n", 0, at)
                found.setdefault(pair, []).append((line, says))
    for places in found.values():
        line, says = places[0]
        also = tell_other_lines(other for other, _ in places[1:])
        yield RawFinding(CODE, file.path, line, says + also, confidence=0.7)


def _replaced(was: str, now: str, suffix: str) -> tuple[UnsafeReplacement, int, str] | None:
    """The first replaced pair, its place in the text, and a message."""
    for pair in REPLACEMENTS:
        if suffix not in pair.suffixes or pair.unsafe.search(was):
            continue
        safe, unsafe = pair.safe.search(was), pair.unsafe.search(now)
        if safe and unsafe and len(pair.safe.findall(now)) < len(pair.safe.findall(was)):
            old, new = (_quote(match.group()) for match in (safe, unsafe))
            return pair, unsafe.start(), f"{new} in place of {old}: {pair.says}"
    return None


def _quote(code: str) -> str:
    code = " ".join(code.split())
    return f"`{code}`" if len(code) <= SHOWN else f"`{code[:SHOWN]}...`"


_BOUNDED = re.compile(r"\{\d*,\d{2,}\}")
_ENDLESS = re.compile(r"[*+](?![*+=])")


def _unbounded(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A bounded repetition in a pattern that became unbounded, in an otherwise equal line."""
    lines = {
        _BOUNDED.sub("*", strip_whitespace(file.base[n - 1])): n
        for n in hunk.base
        if _BOUNDED.search(file.base[n - 1])
    }
    for number in hunk.head if lines else ():
        text = file.squeezed_head[number - 1]
        if not _BOUNDED.search(text) and _ENDLESS.sub("*", text) in {
            _ENDLESS.sub("*", was) for was in lines
        }:
            yield RawFinding(
                "bound-removed",
                file.path,
                number,
                "A repetition of the pattern is no longer bounded",
                confidence=0.7,
            )


_SEPARATOR = re.compile(
    r"\+(?:os\.(?:path\.)?sep|path\.sep|File\.separator|(?:string\()?filepath\.Separator\)?"
    r"|[\"']/[\"'])|\.(?:DIRECTORY_SEPARATOR|[\"']/[\"'])"
)
_APPENDS = re.compile(r"\+=(?:os\.(?:path\.)?sep|path\.sep|File\.separator|[\"']/[\"'])")
_BEGINS = re.compile(r"(?i)starts_?with|HasPrefix|indexOf|strpos|strncmp|start_with\?")


def _without_separator(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A path prefix check whose directory is no longer followed by a separator."""
    lines = {
        _SEPARATOR.sub("", text)
        for number in hunk.base
        if _SEPARATOR.search(text := strip_whitespace(file.base[number - 1]))
    }
    elsewhere = _APPENDS.search(strip_whitespace(file.now(hunk)))
    for number in hunk.head if lines and not elsewhere else ():
        text = file.squeezed_head[number - 1]
        near = file.head[max(0, number - 1 - NEAR) : number + NEAR]
        if text in lines and _BEGINS.search("\n".join(near)):
            says = "A folder whose name only begins like this one passes: the separator is gone"
            yield RawFinding("condition-weakened", file.path, number, says, confidence=0.8)


_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_VALUE = re.compile(r"(\b(?:[tT]rue|[fF]alse)\b|(?<![\w.])-?\d[\d_]*(?=[lL]?\b))")
_PROTECTS = frozenset(
    {"auth", "authenticate", "autoescape", "csrf", "disallow", "enforce", "escape", "httponly"}
    | {"protect", "protection", "sandbox", "sanitize", "secure", "validate", "verify", "xsrf"}
)
_EXPOSES = frozenset(
    {"anonymous", "bypass", "dangerously", "dtd", "entities", "exempt", "insecure", "skip"}
    | {"trust", "unsafe"}
)
_NEGATES = frozenset({"disable", "disabled", "ignore", "no", "without"})
_UPPER_BOUNDS = frozenset({"depth", "limit", "max", "maximum", "quota"})
_LOWER_BOUNDS = frozenset({"cost", "iterations", "rounds"})
LARGE = 1000  # growth from which a larger number is too large
LONG_LINE = 1_000  # characters; a longer one is generated
SPAN = 60  # characters before a value that contain its name


def _weaker_values(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A less safe flag or number, in an otherwise equal line."""
    lines = {
        tuple(parts[::2]): parts
        for number in hunk.base
        if len(parts := _VALUE.split(strip_whitespace(file.base[number - 1]))) > 1
    }
    for number in hunk.head if lines else ():
        now = _VALUE.split(file.squeezed_head[number - 1])
        was = lines.get(tuple(now[::2]), now)
        for at in range(1, len(now), 2):
            before = now[at - 1][-SPAN:]
            named = frozenset(part.lower() for part in _PARTS.findall(before))
            if was[at] != now[at] and _is_weaker(named, was[at], now[at]):
                says = f"A weaker value replaces {was[at]}: {file.head[number - 1].strip()[:SHOWN]}"
                yield RawFinding("hardening-removed", file.path, number, says, confidence=0.7)
                break


_OPTION = re.compile(
    r",?['\"]?(?P<name>resolve_entities|no_network|forbid_\w+|autoescape|check_hostname|cert_reqs"
    r"|verify_\w+|http_?only|same_?site|secure|weights_only)['\"]?(?:=>?|:)(?P<value>['\"]?[\w.]+['\"]?),?",
    re.IGNORECASE,
)
_OFF = re.compile(r"(?i)false|none|null|nil|['\"]?(?:[\w.]+\.)?(?:cert_)?none['\"]?")


def _lost_options(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A protecting option that is no longer passed, in an otherwise equal line."""
    lines: dict[str, str] = {}
    for number in hunk.base:
        text = strip_whitespace(file.base[number - 1])
        for option in _OPTION.finditer(text) if len(text) <= LONG_LINE else ():
            off, exposes = _OFF.fullmatch(option["value"]), option["name"] == "resolve_entities"
            if bool(off) == exposes and option["name"] not in file.added_text:
                rest = text[: option.start()], text[option.end() :]
                lines |= {joint.join(rest): option["name"] for joint in ("", ",")}
    for number in hunk.head if lines else ():
        if name := lines.get(file.squeezed_head[number - 1]):
            says = f"The option {name} is no longer set"
            yield RawFinding("hardening-removed", file.path, number, says, confidence=0.7)


def _is_weaker(named: frozenset[str], old: str, new: str) -> bool:
    old, new = old.lower(), new.lower()
    if {old, new} == {"true", "false"}:
        protects = not named.isdisjoint(_PROTECTS)
        if named & _EXPOSES or (protects and named & _NEGATES):
            return new == "true"
        return protects and new == "false"
    if not {old, new}.isdisjoint({"true", "false"}):
        return False
    before, after = int(old), int(new)
    if named & _LOWER_BOUNDS:
        return 0 < 2 * after <= before
    return (
        bool(named & _UPPER_BOUNDS)
        and before > 0
        and (after <= 0 or after >= max(LARGE, 4 * before))
    )
