"""The schema of a language and its defect patterns: ``data/patterns/<name>.yaml``.

A file holds:

    grammars   file suffix -> names of ast-grep's grammars; the first that parses the file is used
    prefilter  true: a file with no pattern's words is not examined; other tools read the language
    tolerant   true: lines that the grammar cannot parse are no gap, unless they are more than a
               quarter of a file without prefilter
    macros     true: what the parser skips or inserts is read, unless it holds a call, text or an
               assignment
    branches   true: where the grammar fails, each branch of `#if` is read apart, as with macros
    holes      expression: valid text that the grammar cannot parse, its group or all of it -> a
               character to put for each of its own, where fewer lines are unread with it
    comments   rule for what is blank to all patterns but those whose rule names a kind of comment
    scopes     kinds of node that open a scope for names
    names      kinds of node that are a name
    unpacks    kinds of node that hold several names to the left of an assignment
    bindings   kind of node that gives a name a value -> its part with the name; null: all in it
    binds_with operators by which such a node gives a name a value; []: any
    imports    kind of node that names constants of other files -> its part with the names
    declares   expression: where NAME is bound in a file otherwise; else it is one of the package
    literals   kinds of node that are written-out values
    inserts    expression: a literal in whose source it is found holds values
    values     kind of node -> the parts that its value is made of; [] for all of its children
    lookups    kind of node -> the part with what it takes its value from
    calls      kind of node -> the part with its arguments
    joined_by  kinds of child that make a node text put together from parts
    known      expression: a value whose source matches it whole does no harm
    pure       expression: calls whose result is made of their arguments alone
    methods    expression: called methods whose result is made of their object and arguments
    safe       expression: calls whose result does no harm
    request    expression: a value whose source matches it whole comes with a request
    patterns   the defects, see ``Pattern``

A part of a node is one of its fields, a kind of child, or a child's number: 0 for the first, -1
for the last. Only ``grammars`` and ``patterns`` are required; the rest has defaults in
``tables/pattern_defaults.yaml``.

A file with only ``extends: <name>`` and ``patterns`` adds to the language of another file; the name
is that of the file or of one of its grammars.

Expressions for calls are matched against the text before the parenthesis.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert
from msgspec.structs import replace

from diffchecks.data_files import parse_yaml, read_yaml

Part = str | int
Asked = Literal["varies", "built", "request"]
NOTHING = "(?!)"
EXTENDS = "extends"
DEFAULTS = "pattern_defaults.yaml"
_WORD = re.compile(r"(?<![$\w])[A-Za-z]\w{2,}")  # no pattern variable, and not too common

# What may hold a ``\w`` in an expression of ast-grep: an escape, or a class, but none inside one.
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\[\]\\])*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_CHANGES_UNICODE = re.compile(r"\(\?[a-zA-Z-]*u")
_WORD_CHARACTERS = r"0-9A-Za-z_\x{80}-\x{10FFFF}"


class Condition(Struct, frozen=True):
    """A condition on the value that a pattern variable matched.

    Attributes:
        kinds: one of them must hold. ``varies``: it is not constant; ``built``: it is text put
            together from parts that vary; ``request``: it comes with a request.
        says: must match in the source of the value or of its parts.
        unless: a varying part whose source matches is harmless.
        safe_in: a varying part inside of such a call is harmless.
    """

    kinds: tuple[Asked, ...]
    says: re.Pattern[str]
    unless: re.Pattern[str]
    safe_in: re.Pattern[str]


class Pattern(Struct, frozen=True):
    """The pattern of one defect.

    Attributes:
        code: its name in the rule table, ``patterns:<code>``.
        config: what ast-grep searches for: ``rule`` and ``constraints`` of the file, see
            ``search_config``.
        words: every matching file contains one of them; empty: unknown.
        message: one sentence about the match.
        where: variable of the rule -> condition.
        not_in: matches in the paths of files to which it does not apply.
        grammars: those to which it applies; None: all.
        near: must match within three lines of the match, if given.
        unless_near: must not match in them, nor does what comments say count. This, and each
            expression of a rule, may be a name of ``shared`` in the defaults.
        file: must match in the text of the file.
        file_without: must not match in it; unlike ``file``, what comments say does not count.
        only_names, except_names: variable of the rule -> rule for the nodes of the file whose
            text it must, or must not, have, if it has matched. Each rule is searched for once in a
            file: a search of the whole file inside ``rule`` would take quadratic time.
        reads_comments: whether ``config`` asks for comments.
        bad, good: programs with and without the defect that differ in one thing.
    """

    code: str
    config: Mapping[str, Any]
    words: frozenset[str]
    message: str
    where: Mapping[str, Condition]
    not_in: re.Pattern[str]
    grammars: frozenset[str] | None
    near: re.Pattern[str] | None
    unless_near: re.Pattern[str]
    file: re.Pattern[str]
    file_without: re.Pattern[str] | None
    only_names: Mapping[str, Mapping[str, Any]]
    except_names: Mapping[str, Mapping[str, Any]]
    reads_comments: bool
    bad: str
    good: str

    @property
    def asks_for_request(self) -> bool:
        """Whether there is no match in a file that mentions no request."""
        return any(condition.kinds == ("request",) for condition in self.where.values())


class PatternFile(Struct, frozen=True):
    """One file; the module's docstring describes the fields."""

    grammars: Mapping[str, tuple[str, ...]]
    prefilter: bool
    tolerant: bool
    macros: bool
    branches: bool
    holes: Mapping[str, str]
    comments: Mapping[str, Any]
    scopes: frozenset[str]
    names: frozenset[str]
    unpacks: frozenset[str]
    bindings: Mapping[str, Part | None]
    binds_with: frozenset[str]
    imports: Mapping[str, Part]
    declares: str
    literals: frozenset[str]
    inserts: re.Pattern[str]
    values: Mapping[str, tuple[Part, ...]]
    lookups: Mapping[str, Part]
    calls: Mapping[str, Part]
    joined_by: frozenset[str]
    known: re.Pattern[str]
    pure: re.Pattern[str]
    methods: re.Pattern[str]
    safe: re.Pattern[str]
    request: re.Pattern[str]
    patterns: tuple[Pattern, ...]


@cache
def read_text(file: str) -> str:
    """Read the text of a file of definitions."""
    return Path(file).read_text("utf-8")


@cache
def read_definitions(file: str) -> dict[str, Any]:
    """Read and decode a file of pattern definitions."""
    return dict(parse_yaml(read_text(file)))


@cache
def load(files: tuple[str, ...]) -> tuple[PatternFile, ...]:
    """Load the languages of files, with the patterns that other files add."""
    documents = {Path(file).stem: read_definitions(file) for file in files}
    known = {name: build_language(data) for name, data in documents.items() if EXTENDS not in data}
    for data in documents.values():
        name = find_language(data.get(EXTENDS), documents)
        if name is not None:
            more = (*known[name].patterns, *build_patterns(data))
            known[name] = replace(known[name], patterns=more)
    return tuple(known.values())


@cache
def load_language(files: tuple[str, ...], suffix: str) -> PatternFile | None:
    """The language for a file extension; pattern files for other languages are not parsed."""
    key = re.compile(rf"(?:{re.escape(suffix)}|\b{EXTENDS})[\"']?\s*:")
    may_concern = tuple(file for file in files if key.search(read_text(file)))
    found = [language for language in load(may_concern) if suffix in language.grammars]
    return found[-1] if found else None


def find_language(name: Any, documents: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Find a language's file by its name or by one of its grammars."""
    languages = {file: data for file, data in documents.items() if EXTENDS not in data}
    if name in languages:
        return str(name)
    for file, data in languages.items():
        if any(name in grammars for grammars in data.get("grammars", {}).values()):
            return file
    return None


def build_language(data: Mapping[str, Any]) -> PatternFile:
    """Build a language from a file's content."""
    language = convert(
        {**read_yaml(DEFAULTS), **data, "patterns": ()},
        PatternFile,
        dec_hook=lambda _, text: re.compile(text, re.DOTALL | re.VERBOSE),
    )
    return replace(language, patterns=build_patterns(data))


def build_patterns(data: Mapping[str, Any]) -> tuple[Pattern, ...]:
    """Build patterns from a file's content; raises as ``build_language``."""
    return tuple(map(_pattern, data["patterns"]))


def _pattern(data: Mapping[str, Any]) -> Pattern:
    return Pattern(
        code=data["code"],
        config=search_config(data),
        words=frozenset(data["words"]) if "words" in data else _words(data["rule"]),
        message=data["message"],
        where={name: _condition(given) for name, given in data.get("where", {}).items()},
        not_in=re.compile(data.get("not_in", NOTHING)),
        grammars=frozenset(data["grammars"]) if "grammars" in data else None,
        near=re.compile(data["near"], re.IGNORECASE) if "near" in data else None,
        unless_near=re.compile(_shared(data.get("unless_near", NOTHING)), re.IGNORECASE),
        file=re.compile(data.get("file", "")),
        file_without=re.compile(data["file_without"]) if "file_without" in data else None,
        only_names=_simplify(data.get("only_names", {})),
        except_names=_simplify(data.get("except_names", {})),
        reads_comments=bool(re.search(r"'kind': '\w*comment'", str(data["rule"]))),
        bad=data["example"]["bad"],
        good=data["example"]["good"],
    )


def search_config(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ast-grep searches for, with expressions that it compiles in less time.

    ast-grep compiles them for each file anew, and for ``\\w`` a table of all letters of the world.
    Here it is an ASCII letter, digit or underscore, or anything that is not ASCII.
    """
    return {key: _simplify(data[key]) for key in ("rule", "constraints") if key in data}


def _simplify(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {
            key: _with_simple_words(_shared(value))
            if key == "regex" and isinstance(value, str)
            else _simplify(value)
            for key, value in given.items()
        }
    return [_simplify(each) for each in given] if isinstance(given, list) else given


def _shared(expression: str) -> str:
    """The expression that ``shared`` of the defaults has under this name, or else itself."""
    return str(read_yaml(DEFAULTS)["shared"].get(expression, expression))


def _with_simple_words(expression: str) -> str:
    has_nested_class = "[" in _ESCAPE_OR_CLASS.sub("", expression)
    if has_nested_class or _CHANGES_UNICODE.search(expression):
        return expression
    return _ESCAPE_OR_CLASS.sub(_simplified, expression)


def _simplified(found: re.Match[str]) -> str:
    """A ``\\w``, ``\\W`` or a class with ``\\w``. Ignoring case would make a large table again."""
    text = found[0] if found[0].startswith("[") else f"[{found[0]}]"
    text = r"[^\w]" if text == r"[\W]" else text
    class_ = _ESCAPE.sub(lambda each: _WORD_CHARACTERS if each[0] == r"\w" else each[0], text)
    return found[0] if class_ == text else f"(?-i:{class_})"


def _words(rule: Mapping[str, Any]) -> frozenset[str]:
    """One word for each alternative of a rule; empty if an alternative has no word.

    In a pattern with a context, only the innermost block is certain to be part of the match.
    """
    ways = rule.get("any", [rule])
    patterns = [way.get("pattern", "") for way in ways]
    texts = [
        each if isinstance(each, str) else each["context"].removeprefix("<?php").rpartition("{")[2]
        for each in patterns
    ]
    words = [max(_WORD.findall(text), key=len, default="") for text in texts]
    return frozenset(words if all(words) else ())


def _condition(data: Mapping[str, Any]) -> Condition:
    return Condition(
        kinds=tuple(data["is"]),
        says=re.compile(data.get("says", ""), re.IGNORECASE | re.DOTALL),
        unless=re.compile(data.get("unless", NOTHING), re.IGNORECASE),
        safe_in=re.compile(data.get("safe_in", NOTHING)),
    )
