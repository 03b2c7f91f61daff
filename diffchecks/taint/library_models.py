"""The schema of library models: files under ``data/taint``.

Names are dotted paths as imported, ``flask.request.args``; a call appends ``()``, an item ``[]``,
and an assignment to an item or attribute ``=``; ``?.name`` is an attribute of any unknown object.

A *selector* names an argument: ``0|url`` is the first positional or the keyword ``url``, ``self``
what the method was called on, ``*`` all of them, ``**`` a whole mapping from
outside that is spread into them.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, field
from msgspec.structs import FieldInfo, fields

from diffchecks import DataFileError
from diffchecks.data_files import parse_yaml

Names = tuple[str, ...]
Confidence = Annotated[float, Meta(ge=0, le=1)]


class TaintSource(Struct, frozen=True, kw_only=True):
    """Values from outside. ``mapping``: each key is a separate origin."""

    match: Names
    kind: str
    mapping: bool = False


class Sink(Struct, frozen=True, kw_only=True):
    """Arguments that must not be tainted.

    Attributes:
        klass: the class of defect (``class`` in the file).
        args: selectors of the dangerous arguments.
        when, unless: selector → what the argument must be (or must not be) for this to be a sink: a
            constant, a list of constants or dotted names, or a mapping of the object's cells.
        select: ``program``: of an argument vector, only the program and the argument of ``-c``.
        prefix: how the known beginning of the text decides. ``host``: safe if it fixes the host,
            or is a path of the same one; ``markup``, ``statement``: safe unless it begins HTML or
            SQL; ``any``: safe if it begins with anything fixed.
        itself: only the value itself counts, not the content of a container or object.
        key: only the value under this key of a mapping in the argument counts.
        roots: required prefixes of the call's name, for names that other libraries have as well.
        origin: regular expression; only sources that it matches count.
        kinds: only sources of these kinds count; a user's input to a local program is rarely a
            threat.
        given: what anybody may give a function counts as well, as a lesser defect.
        confidence: 0 to 1, multiplied with that of the source.
    """

    match: Names
    klass: str = field(name="class")
    args: Names
    when: dict[str, Any] = field(default_factory=dict)
    unless: dict[str, Any] = field(default_factory=dict)
    select: Literal["", "program"] = ""
    prefix: Literal["", "host", "markup", "statement", "any"] = ""
    itself: bool = False
    key: str = ""
    roots: Names = ()
    origin: str = ""
    kinds: Names = ("request", "socket")
    given: bool = False
    confidence: Confidence = 1.0


class Sanitizer(Struct, frozen=True, kw_only=True):
    """Functions whose result is safe for some classes.

    Attributes:
        clears: classes, or ``all``.
        of: selector of the sanitized argument.
        pattern: selector of a regular expression that must remove all dangerous characters.
        validates: it raises for other values, so the argument itself is safe afterwards.
    """

    match: Names
    clears: Names
    of: str = "*"
    pattern: str = ""
    validates: bool = False


class Propagator(Struct, frozen=True, kw_only=True):
    """Functions that pass taint on.

    Attributes:
        of: selectors of the arguments that flow into the result.
        mark: a property of the result, ``normalized``.
        part: the result is a part of the argument.
        decodes: facts about the argument do not apply to the result.
        fact: a fact about the result.
    """

    match: Names
    of: Names = ("self", "*")
    mark: str = ""
    part: bool = False
    decodes: bool = False
    fact: str = ""


class Test(Struct, frozen=True, kw_only=True):
    """Functions whose truth implies a fact about an argument.

    Attributes:
        of: selector of the argument.
        when: the truth value that implies it.
        pattern: selector of a regular expression that must allow only harmless characters.
        asks: what must match in the regular expression instead.
        mark: a property that the argument must have, ``normalized``.
        given: selector → dotted names, one of which the argument must be.
    """

    match: Names
    fact: str
    of: str = "self"
    when: bool = True
    pattern: str = ""
    asks: str = ""
    mark: str = ""
    given: dict[str, Names] = field(default_factory=dict)


class SafetyTest(Struct, frozen=True, kw_only=True):
    """Facts that together make a value safe for some classes."""

    facts: Names
    clears: Names


class AttributePart(Struct, frozen=True, kw_only=True):
    """Attributes that are parts of a whole; comparing a part implies ``fact`` for the whole."""

    match: Names
    fact: str


class Store(Struct, frozen=True, kw_only=True):
    """Methods that store (with ``value``) or return a value under constant keys."""

    match: Names
    key: Names
    value: str = ""


class Parameter(Struct, frozen=True, kw_only=True):
    """Parameters recognized by name and position in modules that import a library; -1: any."""

    name: str
    imports: str
    type: str
    position: int = 0


class RouteDecorator(Struct, frozen=True, kw_only=True):
    """Decorators that make a function a request handler.

    Attributes:
        imports: the library that the module must import, for decorators of unknown objects.
        parameters: ``url``: those in the URL rule; ``text``: all parameters without conversion.
        besides: names of parameters that the framework itself fills.
        returns: class of the sink that the return value reaches, or empty.
        asks: keyword of the decorator → last part of the name that its value must have for
            ``returns``.
    """

    match: Names
    imports: str
    parameters: Literal["url", "text", "none"] = "none"
    besides: Names = ()
    returns: str = ""
    asks: dict[str, str] = field(default_factory=dict)
    kind: str = "request"


class HandlerClass(Struct, frozen=True, kw_only=True):
    """Classes whose methods are request handlers; their text parameters come from outside.

    Attributes:
        base: names of base classes; ``?`` is any class in a module that imports ``imports``.
        methods: their names; ``resolve_*`` matches a prefix.
        besides: names of parameters that the framework itself fills.
    """

    base: Names
    methods: Names
    imports: str = ""
    besides: Names = ()
    returns: str = ""
    kind: str = "request"


class DefectCall(Struct, frozen=True, kw_only=True):
    """Calls that are a defect for any arguments.

    Attributes:
        when, unless: as for sinks.
        words: regular expression that one of the statement's names or texts must match.
        handlers: in a request handler, ``any`` requires no words, ``function`` words anywhere in
            the function.
    """

    match: Names
    code: str
    message: str
    when: dict[str, Any] = field(default_factory=dict)
    unless: dict[str, Any] = field(default_factory=dict)
    words: str = ""
    handlers: Literal["", "any", "function"] = ""
    confidence: Confidence = 0.8


class Renderer(Struct, frozen=True, kw_only=True):
    """Calls that render a template.

    Attributes:
        template: selector of its name; ``self``: the first argument that constructed the object.
        values: selector of a mapping with its values; empty: the keywords of the call.
        returned: a decorator; the values are the mapping that its function returns.
    """

    match: Names
    template: str
    values: str = ""
    returned: bool = False


class ClassModel(Struct, frozen=True, kw_only=True):
    """The texts for the message of one class of defect."""

    name: str
    sink: str


_T = TypeVar("_T")
_SECTIONS: Final[dict[str, type[Any]]] = {
    "sources": TaintSource, "sinks": Sink, "sanitizers": Sanitizer, "propagators": Propagator,
    "tests": Test, "guards": SafetyTest, "parts": AttributePart, "stores": Store,
    "parameters": Parameter, "routes": RouteDecorator, "handlers": HandlerClass,
    "checks": DefectCall, "renderers": Renderer, "classes": ClassModel,
}  # fmt: skip
_BY_NAME: Final = (
    "sources", "sinks", "sanitizers", "propagators", "tests", "parts", "stores", "checks", "routes",
    "renderers",
)  # fmt: skip
_LISTS: Final = ("stops", "noreturn", "objects", "containers", "runs", "lookups", "contexts")


class Index(Generic[_T]):
    """Rules by name; ``?.name`` matches names without an exact rule."""

    def __init__(self, rules_: Iterable[_T], names: str = "match") -> None:
        self._by_name: dict[str, list[_T]] = {}
        for rule in rules_:
            for name in getattr(rule, names):
                self._by_name.setdefault(name, []).append(rule)

    def exact(self, ref: str) -> list[_T]:
        """The rules for exactly this name."""
        return self._by_name.get(ref, [])

    def find(self, ref: str) -> list[_T]:
        """The rules for this name, else those for its last part on any object."""
        found = self._by_name.get(ref)
        if found is None and ref:
            found = self._by_name.get("?." + leaf(ref))
        return found or []

    def rules(self) -> Iterable[_T]:
        """All rules; rules with several names repeat."""
        return (rule for rules_ in self._by_name.values() for rule in rules_)


@functools.lru_cache(maxsize=8192)
def leaf(ref: str) -> str:
    """The last part of a dotted path, including the brackets of an assignment."""
    return ref.rpartition(".")[2]


class LibraryModels(Struct, eq=False):
    """All library models, indexed."""

    types: dict[str, str]
    sources: Index[TaintSource]
    sinks: Index[Sink]
    sanitizers: Index[Sanitizer]
    propagators: Index[Propagator]
    tests: Index[Test]
    parts: Index[AttributePart]
    stores: Index[Store]
    checks: Index[DefectCall]
    renderers: Index[Renderer]
    guards: tuple[SafetyTest, ...]
    parameters: tuple[Parameter, ...]
    routes: Index[RouteDecorator]
    handlers: Index[HandlerClass]
    classes: dict[str, ClassModel]
    names: dict[str, frozenset[str]]
    _cleared: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def canonical(self, ref: str) -> str:
        """The name that the models use for a dotted path."""
        return self.types.get(ref, ref)

    def listed(self, section: str, ref: str) -> bool:
        """Whether a list of names contains this one, or its last part on any object."""
        names = self.names[section]
        return bool(names) and (ref in names or "?." + leaf(ref) in names)

    def named_classes(self) -> Iterator[str]:
        """The classes of defect in sinks, sanitizers, guards and routes."""
        yield from (sink.klass for sink in self.sinks.rules())
        cleared = [rule.clears for rule in self.sanitizers.rules()]
        cleared += [guard.clears for guard in self.guards]
        yield from (name for names in cleared for name in names if name != "all")
        yield from (route.returns for route in self.routes.rules() if route.returns)

    def cleared_classes(self, facts: frozenset[str]) -> frozenset[str]:
        """The classes for which these facts make a value safe; ``all``: every class."""
        known = self._cleared.get(facts)
        if known is None:
            safe = {fact[5:] for fact in facts if fact.startswith("safe ")}
            for guard in self.guards:
                if all(fact in facts for fact in guard.facts):
                    safe.update(guard.clears)
            known = self._cleared[facts] = frozenset(safe)
        return known


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _spelled_out(kind: Any, value: Any) -> Any:
    """A value converted to its field's type: one name becomes a list, a position becomes text."""
    if kind == Names:
        return _names(value)
    return str(value) if kind is str and type(value) is int else value


@functools.cache
def _fields(section: str) -> Mapping[str, FieldInfo]:
    return {item.encode_name: item for item in fields(_SECTIONS[section])}


def _rule(raw: Any, file: str, where: str) -> Any:
    if not isinstance(raw, dict):
        raise DataFileError(f"{where}: an entry must be a mapping", file)
    known = _fields(where)
    for key in raw:
        if key not in known:
            raise DataFileError(
                f"{where}: unknown key {key!r}; allowed are {', '.join(sorted(known))}", file
            )
    values = {key: _spelled_out(known[key].type, value) for key, value in raw.items()}
    try:
        return convert(values, _SECTIONS[where])
    except ValidationError as error:
        raise DataFileError(f"{where}: an entry is wrong: {error}", file) from None


def build(documents: Sequence[tuple[str, Mapping[str, Any]]]) -> LibraryModels:
    """Build library models from parsed files.

    Args:
        documents: file name and content of each; later files add to earlier ones.
    """
    found: dict[str, list[Any]] = {section: [] for section in _SECTIONS}
    lists: dict[str, set[str]] = {section: set() for section in _LISTS}
    paths: dict[str, str] = {}
    for file, document in documents:
        for section, content in document.items():
            if section == "types":
                paths.update({str(key): str(value) for key, value in (content or {}).items()})
            elif section in lists:
                lists[section].update(_names(content or []))
            elif section in _SECTIONS:
                found[section].extend(_rule(raw, file, section) for raw in content or [])
            else:
                allowed = ", ".join(sorted([*_SECTIONS, *_LISTS, "types"]))
                raise DataFileError(f"unknown section {section!r}; allowed are {allowed}", file)
    indexed: dict[str, Any] = {section: Index(found[section]) for section in _BY_NAME}
    return LibraryModels(
        types=paths,
        **indexed,
        guards=tuple(found["guards"]),
        parameters=tuple(found["parameters"]),
        handlers=Index(found["handlers"], "base"),
        classes={item.name: item for item in found["classes"]},
        names={section: frozenset(names) for section, names in lists.items()},
    )


@functools.lru_cache(maxsize=4)
def _load(files: tuple[tuple[str, bytes], ...]) -> LibraryModels:
    import yaml  # noqa: PLC0415 - only a worker that traces pays for it

    documents = []
    for file, data in files:
        try:
            content = parse_yaml(data)
        except yaml.YAMLError as error:
            raise DataFileError(f"not valid YAML: {error}".replace("\n", " "), file) from None
        if not isinstance(content, dict):
            raise DataFileError("a library model must be a mapping of sections", file)
        documents.append((file, content))
    return build(documents)


def load(files: Iterable[str]) -> LibraryModels:
    """Load library models; the same files are only loaded once per process."""
    try:
        found = tuple((Path(file).name, Path(file).read_bytes()) for file in files)
    except OSError as error:
        raise DataFileError("the library model cannot be read", error.filename or "") from None
    return _load(found)
