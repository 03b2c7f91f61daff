"""Reads the knowledge from data files and looks names up in it."""

import functools
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import FieldInfo, fields

from orchestrator.checks.taint import model_schema as rules
from orchestrator.errors import ConfigError

_T = TypeVar("_T")
_SECTIONS: Final[dict[str, type[Any]]] = {
    "sources": rules.Source,
    "sinks": rules.Sink,
    "sanitizers": rules.Sanitizer,
    "propagators": rules.Propagator,
    "tests": rules.Test,
    "guards": rules.Guard,
    "parts": rules.Part,
    "stores": rules.Store,
    "parameters": rules.Parameter,
    "routes": rules.Route,
    "handlers": rules.Handler,
    "checks": rules.Check,
    "classes": rules.Klass,
}
_LISTS: Final = ("stops", "noreturn", "objects", "containers", "runs", "lookups")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


class Index(Generic[_T]):
    """Rules by the names they match; ``?.name`` answers for every name not matched exactly."""

    def __init__(self, rules_: Iterable[_T], names: str = "match") -> None:
        self._by_name: dict[str, list[_T]] = {}
        for rule in rules_:
            for name in getattr(rule, names):
                self._by_name.setdefault(name, []).append(rule)

    def exact(self, ref: str) -> list[_T]:
        """The rules for exactly this name."""
        return self._by_name.get(ref, [])

    def find(self, ref: str) -> list[_T]:
        """The rules for this name, else those for its last part on anything."""
        found = self._by_name.get(ref)
        if found is None and ref:
            found = self._by_name.get("?." + leaf(ref))
        return found or []

    def rules(self) -> Iterable[_T]:
        """All rules, those of several names several times."""
        return (rule for rules_ in self._by_name.values() for rule in rules_)

    def names(self) -> Iterable[str]:
        """All names that rules match."""
        return self._by_name.keys()


@functools.lru_cache(maxsize=8192)
def leaf(ref: str) -> str:
    """The last part of a dotted path, brackets of a store included."""
    return ref.rpartition(".")[2]


class Knowledge(Struct):
    """Everything the data files say, indexed."""

    types: dict[str, str]
    sources: Index[rules.Source]
    sinks: Index[rules.Sink]
    sanitizers: Index[rules.Sanitizer]
    propagators: Index[rules.Propagator]
    tests: Index[rules.Test]
    parts: Index[rules.Part]
    stores: Index[rules.Store]
    checks: Index[rules.Check]
    guards: tuple[rules.Guard, ...]
    parameters: tuple[rules.Parameter, ...]
    routes: Index[rules.Route]
    handlers: Index[rules.Handler]
    classes: dict[str, rules.Klass]
    names: dict[str, frozenset[str]]
    _cleared: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def canonical(self, ref: str) -> str:
        """The name that the data files use for a dotted path."""
        return self.types.get(ref, ref)

    def listed(self, section: str, ref: str) -> bool:
        """Whether a plain list of names holds this one, or its last part on anything."""
        names = self.names[section]
        return bool(names) and (ref in names or "?." + leaf(ref) in names)

    def named_classes(self) -> Iterator[str]:
        """The classes of defect that sinks, sanitizers, guards and routes speak of."""
        yield from (sink.klass for sink in self.sinks.rules())
        cleared = [rule.clears for rule in self.sanitizers.rules()]
        cleared += [guard.clears for guard in self.guards]
        yield from (name for names in cleared for name in names if name != "all")
        yield from (route.returns for route in self.routes.rules() if route.returns)

    def cleared(self, facts: frozenset[str]) -> frozenset[str]:
        """The classes for which these facts make a value safe; ``all`` stands for every one."""
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


def _convert(kind: Any, value: Any) -> Any:
    """A value of a data file as the type that its field has; TypeError when it does not fit."""
    if kind == rules.Names:
        return _names(value)
    if kind is float and isinstance(value, int | float):
        return float(value)
    if isinstance(kind, types.GenericAlias):
        if not isinstance(value, dict):
            raise TypeError("a mapping")
        return {str(key): item for key, item in value.items()}
    if typing.get_origin(kind) is typing.Literal:
        if value not in typing.get_args(kind):
            raise TypeError(" or ".join(map(repr, typing.get_args(kind))))
        return value
    if kind is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__}")
    return value


@functools.cache
def _fields(section: str) -> Mapping[str, FieldInfo]:
    return {item.name: item for item in fields(_SECTIONS[section])}


def _rule(raw: Any, file: str, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: an entry must be a mapping", file)
    raw = {("klass" if key == "class" else key): value for key, value in raw.items()}
    known = _fields(where)
    for key in raw:
        if key not in known:
            allowed = ", ".join(sorted(known)).replace("klass", "class")
            raise ConfigError(f"{where}: unknown key {key!r}; allowed are {allowed}", file)
    for name, item in known.items():
        if item.required and name not in raw:
            raise ConfigError(f"{where}: an entry lacks {name.replace('klass', 'class')!r}", file)
    try:
        values = {key: _convert(known[key].type, value) for key, value in raw.items()}
        return _SECTIONS[where](**values)
    except TypeError as error:
        raise ConfigError(f"{where}: an entry has a wrong value; expected {error}", file) from None


def build(documents: Sequence[tuple[str, Mapping[str, Any]]]) -> Knowledge:
    """Knowledge from parsed data files.

    Args:
        documents: file name and content of each; later files add to earlier ones.

    Raises:
        ConfigError: an unknown section or key, or a missing one.
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
                raise ConfigError(f"unknown section {section!r}; allowed are {allowed}", file)
    return Knowledge(
        types=paths,
        sources=Index(found["sources"]),
        sinks=Index(found["sinks"]),
        sanitizers=Index(found["sanitizers"]),
        propagators=Index(found["propagators"]),
        tests=Index(found["tests"]),
        parts=Index(found["parts"]),
        stores=Index(found["stores"]),
        checks=Index(found["checks"]),
        guards=tuple(found["guards"]),
        parameters=tuple(found["parameters"]),
        routes=Index(found["routes"]),
        handlers=Index(found["handlers"], "base"),
        classes={item.name: item for item in found["classes"]},
        names={section: frozenset(names) for section, names in lists.items()},
    )


@functools.lru_cache(maxsize=4)
def _load(files: tuple[tuple[str, bytes], ...]) -> Knowledge:
    import yaml  # noqa: PLC0415 - only a worker that traces pays for it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = []
    for file, data in files:
        try:
            content = yaml.load(data, Loader=loader)  # noqa: S506 - both are safe ones
        except yaml.YAMLError as error:
            raise ConfigError(f"not valid YAML: {error}".replace("\n", " "), file) from None
        if not isinstance(content, dict):
            raise ConfigError("a knowledge file must be a mapping of sections", file)
        documents.append((file, content))
    return build(documents)


def load(files: Iterable[str]) -> Knowledge:
    """Knowledge from data files; of the same names and contents it is made once per process.

    Raises:
        ConfigError: a file is missing or wrong.
    """
    try:
        found = tuple((Path(file).name, Path(file).read_bytes()) for file in files)
    except OSError as error:
        raise ConfigError("the knowledge file cannot be read", error.filename or "") from None
    return _load(found)
