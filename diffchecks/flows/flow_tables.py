"""The schema of a language's flows: ``data/flows/<language>.yaml``.

The grammar, beside the tables of ``data/patterns`` (``patterns/pattern_loading.py``):

    functions  kinds of node that are a function; their parts have the usual names of fields
    blocks     kinds that hold statements; names of ``declares`` end with them
    declares   kinds that give a new name a value
    returns    kinds that end a function with a value
    exits      kinds that leave a branch
    switches   kind of a switch -> the kinds of its cases; one that says ``default`` is any
    binaries   kinds with two operands; ``joins``: operators whose result is made of both
    texts      kinds that put text together; ``containers``: lists and objects
    pairs      kinds of entries with a name, in containers and arguments
    calls      kind of further calls -> what the call is named, before a class's name if any
    values     as in ``data/patterns``, for further kinds
    implicit   whether a function's last value is its result
    imports    expression: an import, with the groups ``module``, and ``names`` or ``space``

What is said about names, each an expression. A name is the source with aliases, imports and typed
parameters replaced, as in ``http.Request.URL.Query().Get``:

    hint       a file without it has no source
    sources    names that come with a request
    address    sources that are the ``host`` or the ``path`` of the request's own address
    validated  calls as written whose result is none after all
    types      parameter as written -> its name
    declared   expression: a declaration, with the groups ``name`` and ``type``
    parameters parameters as written that come with a request -> the class's and function's header,
               or the call that the function is passed to
    callbacks  calls whose functions get a request, and its parameters' names
    fills      calls that put a request into their argument
    clean      calls whose result, and members whose value, does no harm
    passes     calls whose result is made of their arguments; ``same``: that return a function
    lists      calls that return their arguments as a list
    mutates    methods that add their arguments to their object
    stops      calls that do not return
    clears     calls whose result does no harm to some classes
    guards     calls that are true for a value that does no harm to some classes
    prepared   calls of a prepared statement, whose arguments are its values
    sinks      see ``FlowSink``
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Literal

from msgspec import Struct, convert

from diffchecks.data_files import read_yaml

NOTHING = re.compile("(?!)")
SAME_DEFECT: Mapping[str, str] = read_yaml("same_defects.yaml")
"""Class -> how the codes of patterns for the same defect begin, after the language."""


class FlowSink(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dangerous call, or with ``sets`` an assignment, by its name.

    Attributes:
        code: the class.
        args: positions and names of dangerous arguments, ``self``: the object; empty: all.
        vector: the arguments, from that of ``args`` on, are a program and its arguments, unless
            there is only one.
        says: must match in the text of the value, where a tainted part is ``\\x01``.
        fixed: a beginning of the text, before any tainted part, that makes it safe.
        unless, around: an expression in the text of the call, or of the function around it, that
            does.
        of: must match in the name of the first argument.
    """

    code: str
    call: re.Pattern[str]
    args: tuple[int | str, ...] = ()
    vector: bool = False
    says: re.Pattern[str] = re.compile("")
    fixed: re.Pattern[str] = NOTHING
    unless: re.Pattern[str] = NOTHING
    around: re.Pattern[str] = NOTHING
    of: re.Pattern[str] = re.compile("")
    sets: bool = False


class Clearing(Struct, frozen=True, forbid_unknown_fields=True):
    """Calls that make values safe for classes; ``all``: for each.

    Attributes:
        says: must match in the text of the call.
        values: of a guard, which values it checks: any, its arguments, the first of them, or none
            of its own, but the index of a list that is one.
    """

    call: re.Pattern[str]
    classes: frozenset[str]
    says: re.Pattern[str] = re.compile("")
    values: Literal["any", "arguments", "first", "none"] = "any"


class Callback(Struct, frozen=True, forbid_unknown_fields=True):
    """Calls whose functions get values with these names, if they take so many.

    Attributes:
        unless: an expression in the text of the call that checks them.
    """

    call: re.Pattern[str]
    names: tuple[str, ...]
    unless: re.Pattern[str] = NOTHING


class FlowTables(Struct, frozen=True, eq=False, forbid_unknown_fields=True, kw_only=True):
    """One file; the module's docstring describes the fields."""

    name: str
    functions: frozenset[str]
    blocks: frozenset[str]
    declares: frozenset[str] = frozenset()
    returns: frozenset[str]
    exits: frozenset[str]
    switches: Mapping[str, tuple[str, ...]]
    binaries: frozenset[str]
    joins: frozenset[str]
    texts: frozenset[str]
    containers: frozenset[str]
    pairs: frozenset[str]
    calls: Mapping[str, str] = {}
    values: Mapping[str, tuple[str | int, ...]] = {}
    implicit: bool = False
    imports: re.Pattern[str] = NOTHING
    hint: re.Pattern[str]
    sources: re.Pattern[str]
    address: re.Pattern[str] = NOTHING
    validated: re.Pattern[str] = NOTHING
    types: tuple[tuple[re.Pattern[str], str], ...] = ()
    declared: re.Pattern[str] = NOTHING
    parameters: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = ()
    callbacks: tuple[Callback, ...] = ()
    fills: re.Pattern[str] = NOTHING
    clean: re.Pattern[str]
    passes: re.Pattern[str]
    same: re.Pattern[str] = NOTHING
    mutates: re.Pattern[str]
    stops: re.Pattern[str]
    clears: tuple[Clearing, ...]
    guards: tuple[Clearing, ...]
    prepared: re.Pattern[str] = NOTHING
    sinks: tuple[FlowSink, ...]
    returned: tuple[FlowSink, ...] = ()
    commands: re.Pattern[str] = NOTHING
    own_programs: re.Pattern[str]
    lists: re.Pattern[str] = NOTHING


@lru_cache(maxsize=20_000)  # a program calls the same names again and again
def rows_about(tables: FlowTables, part: str, name: str) -> tuple[Any, ...]:
    """The rows of a part whose expression matches in the name of a call, or of what is set."""
    return tuple(row for row in getattr(tables, part) if row.call.search(name))


@cache
def load_flows(suffix: str) -> FlowTables | None:
    """The flows of the language with a file suffix; None: it has none."""
    shared = read_yaml("../data/flows/shared.yaml")
    for name, suffixes in shared["languages"].items():
        if suffix in suffixes:
            data = {"name": name, **read_yaml(f"../data/flows/{name}.yaml")}
            for key in ("clears", "guards"):
                data[key] = [*data.get(key, ()), *shared[key]]
            data["own_programs"] = shared["own_programs"]
            fixed = shared["fixed"]
            data["sinks"] = [
                {"fixed": fixed.get(sink["code"], "(?!)"), **sink} for sink in data["sinks"]
            ]
            return convert(data, FlowTables, dec_hook=lambda _, text: re.compile(text, re.VERBOSE))
    return None


@cache
def words_of(code: str) -> str:
    """What a class is called in a message."""
    data = read_yaml("../data/taint/classes.yaml")
    names = {row["name"]: row["sink"] for row in data["classes"]}
    return str(names[code.removesuffix("-parameter")])
