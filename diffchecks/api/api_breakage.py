"""Public Python API that the change breaks for its users, compared with griffe.

Only what is certainly public and certainly broken is reported: announced removals, names still
available under their old path, members that may be inherited, and functions that decorators may
alter are not.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping
from typing import Any

import griffe
from griffe import BreakageKind as Kind
from msgspec import Struct
from msgspec.structs import replace

from diffchecks import name_some
from diffchecks.api.public_members import PLAIN_BASES, ModuleApi, SourceTree
from diffchecks.check_io import CheckReply, Gap, RawFinding, nothing_to_compare
from diffchecks.data_files import read_names, read_yaml, vocabulary
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product, is_public_module
from diffchecks.python.source_definitions import (
    ChangedModule,
    ParsedModule,
    gap_on_error,
    read_pairs,
)

DECLARED = 0.9  # confidence if the module declares what is public, or a package re-exports it
UNDECLARED = 0.6  # if only the names show it
UNDECLARED_CODE = "undeclared"  # if nothing shows it, and the project is a program as well
ANNOUNCED_CODE = "announced"  # by the notes on releases, in the same change

_COMMANDS = "/management/commands/"  # of Django, which finds them by their names


def run(job: ComparisonJob) -> CheckReply:
    """Compare the public surface of each changed module."""
    gaps: dict[str, str] = {}
    findings: list[RawFinding] = []
    examined: list[str] = []
    base_tree = SourceTree(job.base_root, job.base_tree)
    head_tree = SourceTree(job.head_root, job.head_tree)
    for pair in read_pairs(job, gaps, suffixes=(".py", ".pyi")):
        with gap_on_error(gaps, pair.path):
            try:
                found = _compare(pair, base_tree, head_tree)
            except griffe.GriffeError as error:
                raise Gap(f"griffe cannot read it: {error}") from None
            if found is not None:
                findings += found
                examined.append(pair.path)
    if not examined and not gaps:
        return nothing_to_compare("no changed file is a public module of a library in base")
    return CheckReply(findings, examined, gaps)


def _compare(
    pair: ChangedModule, base_tree: SourceTree, head_tree: SourceTree
) -> list[RawFinding] | None:
    """The breaking changes of one module; None if it has no public surface in base."""
    old, base = pair.old_path, _base(pair, base_tree)
    if old is None or base is None:
        return None
    dotted = base_tree.index.dotted(old)
    twin = head_tree.twin(base_tree, old)
    if twin is None:
        if old.endswith(".pyi") and head_tree.twin(base_tree, old[:-1]):
            return []  # only the stub is gone
        if not is_public_module(old):
            return None
        return list(_module_removed(base, dotted, base_tree, head_tree))
    head = pair.head if pair.head and twin == pair.path else head_tree.source(twin)
    if head is None:
        return []
    offered = base_tree.exposed(old)
    exposed = None
    if not is_public_module(old):
        still = head_tree.exposed(twin)
        exposed = {name: known for name, known in offered.items() if still.get(name) == known}
        if not exposed:
            return None
    before, after = ModuleApi(base, dotted, exposed), ModuleApi(head, dotted, exposed)
    if old.endswith(".pyi") and (body := base_tree.source(old[:-1])):
        before.body = ModuleApi(body, dotted)
    broken = find_changes(before, after, head_tree) if after.first_line else []
    broken = [_as_promised(change, before, base_tree, offered) for change in broken]
    broken = [
        replace(change, code=_unless_announced(change.code, change.symbol, base_tree, head_tree))
        for change in broken
    ]
    found = [*_removed(broken, before, after), *_others(broken, before, after)]
    declared = before.module.exports is not None or offered
    confidence = DECLARED if declared else UNDECLARED
    return [replace(finding, confidence=confidence) for finding in found]


def _base(pair: ChangedModule, tree: SourceTree) -> ParsedModule | None:
    """A module of base that others may import; None if it is none."""
    old = pair.old_path
    if old is None or pair.status == "copied" or not is_product(old) or _COMMANDS in old:
        return None
    if not tree.is_library(old) or (base := pair.base()) is None:
        return None
    says = ast.get_docstring(base.tree, clean=False) or ""
    return None if vocabulary("run_alone").search(says) else base


def _unless_announced(code: str, name: str, base: SourceTree, head: SourceTree) -> str:
    is_grave = code in read_names("grave_breakage")
    return ANNOUNCED_CODE if is_grave and head.announces(name, base) else code


def _as_promised(
    change: "IncompatibleChange", old: ModuleApi, tree: SourceTree, offered: Mapping[str, str]
) -> "IncompatibleChange":
    """The change, under another code if nothing says that users may count on the name."""
    name = change.symbol.partition(".")[0]
    if old.module.exports is not None or name in offered or tree.promises(old.source.path, name):
        return change
    return replace(change, code=UNDECLARED_CODE)


def _removed(
    broken: "list[IncompatibleChange]", old: ModuleApi, new: ModuleApi
) -> Iterator[RawFinding]:
    """One finding for all names that one module or class lost."""
    owners: dict[str, list[str]] = {}
    for change in broken:
        if change.code == "object-removed":
            owner, _, name = change.symbol.rpartition(".")
            owners.setdefault(owner, []).append(name)
    for owner, names in owners.items():
        where = old.known_as(owner) if owner else old.dotted
        yield RawFinding(
            "object-removed",
            new.source.path,
            new.line(owner),
            f"{where} no longer has {name_some(names, NAMES_SHOWN)}",
            key=f"{where}: {' '.join(sorted(names))}",
            scope=owner,
        )


def _others(
    broken: "list[IncompatibleChange]", old: ModuleApi, new: ModuleApi
) -> Iterator[RawFinding]:
    """One finding for all symbols of a module that broke in the same way."""
    alike: dict[tuple[str, str], list[IncompatibleChange]] = {}
    for change in broken:
        if change.code != "object-removed":
            alike.setdefault((change.code, change.says), []).append(change)
    for (code, says), several in alike.items():
        known = [old.known_as(change.symbol) for change in several]
        first = several[0]
        yield RawFinding(
            code,
            new.source.path,
            new.line(first.symbol),
            f"{known[0]} {says}"
            + (f"; the same holds for {name_some(known[1:], NAMES_SHOWN)}" if known[1:] else ""),
            key=f"{' '.join(sorted(known))}: {' '.join(first.parameters)}",
            scope=first.symbol,
            detail="\n".join(known) if len(known) > NAMES_SHOWN + 1 else "",
        )


def _module_removed(
    base: ParsedModule, dotted: str, base_tree: SourceTree, head_tree: SourceTree
) -> Iterator[RawFinding]:
    """A finding for a removed public module or package."""
    package = f"{base.path.rpartition('/')[0]}/__init__.py"
    within = package != base.path and package in base_tree.index.files
    if within and head_tree.twin(base_tree, package) is None:
        return
    if not is_public_module(base.path) or head_tree.has_alias(dotted):
        return
    old = ModuleApi(base, dotted)
    if all(old.deprecated(name) for name in old.public_names):
        return
    message, line = f"The public module {dotted} was removed", max(base.first_line, 1)
    declared = base.path == package or base_tree.exposed(base.path) or base_tree.promises(base.path)
    code = "module-removed" if declared else UNDECLARED_CODE
    code = _unless_announced(code, dotted, base_tree, head_tree)
    yield RawFinding(code, base.path, line, message, key=dotted, confidence=DECLARED, in_base=True)


NAMES_SHOWN = 5

_SAYS: Mapping[str, tuple[str, str]] = read_yaml("texts.yaml")["parameters"]
_RECEIVERS = frozenset({"self", "cls", "mcs", "mcls", "klass"})
_CALLED = frozenset({"__init__", "__new__", "__call__"})
_RELIED_ON = {"__call__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__"}
_EITHER = griffe.ParameterKind.positional_or_keyword
_POSITIONAL = {griffe.ParameterKind.positional_only, _EITHER}
_VARIADIC = {griffe.ParameterKind.var_positional, griffe.ParameterKind.var_keyword}


class IncompatibleChange(Struct, frozen=True):
    """One incompatible change of a public symbol.

    Attributes:
        code: the kind of breakage in kebab case.
        symbol: what broke, below its module.
        says: the rest of a message that begins with the symbol's name.
        parameters: the affected parameters, if the code is about parameters.
    """

    code: str
    symbol: str
    says: str
    parameters: tuple[str, ...] = ()


def find_changes(old: ModuleApi, new: ModuleApi, tree: SourceTree) -> list[IncompatibleChange]:
    """All breaking changes, one for each symbol; ``tree`` of head resolves base classes."""
    found: dict[str, IncompatibleChange] = {}
    functions: dict[str, list[griffe.Breakage]] = {}
    for breakage in griffe.find_breaking_changes(old.module, new.module):
        symbol = old.inner(breakage.obj.path)
        if breakage.kind.name.startswith("PARAMETER"):
            functions.setdefault(symbol, []).append(breakage)
        elif change := _object_change(breakage, symbol, old, new, tree):
            found.setdefault(symbol, change)
    for symbol, several in functions.items():
        if change := _signature_change(symbol, several, old, new):
            found[symbol] = change
    return list(found.values())


def _object_change(
    breakage: griffe.Breakage, symbol: str, old: ModuleApi, new: ModuleApi, tree: SourceTree
) -> IncompatibleChange | None:
    if old.deprecated(symbol):
        return None
    if breakage.kind is Kind.OBJECT_REMOVED and _is_gone(breakage.obj, symbol, old, new, tree):
        return IncompatibleChange("object-removed", symbol, "is gone")
    if breakage.kind is Kind.OBJECT_CHANGED_KIND:
        return _property_change(symbol, old, new)
    if breakage.kind is Kind.CLASS_REMOVED_BASE and (lost := _lost_bases(breakage)):
        return IncompatibleChange("base-removed", symbol, f"is no longer a {' or a '.join(lost)}")
    return None


def _is_gone(
    obj: griffe.Object | griffe.Alias, symbol: str, old: ModuleApi, new: ModuleApi, tree: SourceTree
) -> bool:
    owner, _, name = symbol.rpartition(".")
    if new.overloads(symbol):
        return False
    if not owner:
        # A loss in a private module is reported where a public package re-exported the name.
        return (
            old.exposed is None
            and not new.may_serve(name)
            and not tree.has_submodule(new.source.path, name)
        )
    if name.startswith("__") and name not in _RELIED_ON:
        return False
    definer = getattr(obj, "final_target", obj).parent if obj.is_alias and obj.inherited else None
    if definer is not None and definer.is_public:
        return False  # reported for the class that defines it
    if obj.is_attribute and name in old.parameters(f"{owner}.__init__"):
        # Else reported for the constructor.
        kept = name in new.parameters(f"{owner}.__init__")
        return kept and not tree.may_have(new.source, owner, name)
    return not tree.may_have(new.source, owner, name)


def _property_change(symbol: str, before: ModuleApi, after: ModuleApi) -> IncompatibleChange | None:
    """A property that must now be called, or a method that can no longer be called."""
    old, new = before.member(symbol), after.member(symbol)
    if old is None or new is None:
        return None
    if old.has_labels("property") and new.is_function and after.is_plain_method(symbol):
        return IncompatibleChange("object-kind", symbol, "was a property and is a method now")
    if new.has_labels("property") and old.is_function and before.is_plain_method(symbol):
        return IncompatibleChange("object-kind", symbol, "was a method and is a property now")
    return None


def _lost_bases(breakage: griffe.Breakage) -> list[str]:
    """Base classes that are certainly gone: none of the remaining ones can provide them."""
    old = [str(base) for base in breakage.old_value]
    new = [str(base) for base in breakage.new_value]
    if not all(hasattr(builtins, base) or base.partition("[")[0] in PLAIN_BASES for base in new):
        return []
    plain = PLAIN_BASES | {"object"}
    return [base for base in old if base not in new and base.partition("[")[0] not in plain]


def _signature_change(
    symbol: str, several: list[griffe.Breakage], before: ModuleApi, after: ModuleApi
) -> IncompatibleChange | None:
    name = symbol.rpartition(".")[2]
    if name.startswith("__") and name not in _CALLED:
        return None
    old, new = before.member(symbol), after.member(symbol)
    plain = before.fixed_signature(symbol) and after.fixed_signature(symbol)
    if old is None or new is None or not plain or before.deprecated(symbol):
        return None
    if str(getattr(new, "returns", "")).rpartition(".")[2] in {"NoReturn", "Never"}:
        return None  # exists to reject every call
    renamed = _renamed(list(old.parameters), list(new.parameters))
    named: dict[str, list[str]] = {}
    for breakage in several:
        public = (name for name in _named(breakage) if name not in {*renamed, *renamed.values()})
        named.setdefault(_passed(breakage, new), []).extend(public)
    for kind, (code, says) in _SAYS.items():
        if names := named.get(kind):
            listed = name_some([repr(each) for each in names], NAMES_SHOWN)
            return IncompatibleChange(code, symbol, says.format(listed), tuple(names))
    return _rename(symbol, renamed, new)


def _passed(breakage: griffe.Breakage, new: Any) -> str:
    """The one way left to pass a parameter, as a kind of parameter; else the kind of breakage."""
    old, name = breakage.old_value, breakage.kind.name
    if breakage.kind is Kind.PARAMETER_REMOVED and old.kind is _EITHER:
        return next((one.kind.name for one in new.parameters if one.kind in _VARIADIC), name)
    is_other = breakage.kind is Kind.PARAMETER_CHANGED_KIND
    return str(breakage.new_value.kind.name if is_other else name)


def _rename(symbol: str, renamed: dict[str, str], new: Any) -> IncompatibleChange | None:
    """A new name matters only to callers that can pass the parameter by name."""
    if any(parameter.kind is griffe.ParameterKind.var_keyword for parameter in new.parameters):
        return None
    public = {previous: other for previous, other in renamed.items() if previous[0] != "_"}
    if not public:
        return None
    says = "takes " + ", ".join(
        f"{other!r} where it took {previous!r}" for previous, other in public.items()
    )
    return IncompatibleChange("parameter-renamed", symbol, says, tuple(public))


def _named(breakage: griffe.Breakage) -> Iterator[str]:
    """The parameter's name, unless it is the receiver, private, or absorbed by ``*args``."""
    parameter = breakage.old_value or breakage.new_value
    taken_up = breakage.new_value is not None and breakage.new_value.kind in _VARIADIC
    variadic = breakage.old_value is not None and breakage.old_value.kind in _VARIADIC
    if not (taken_up or variadic or parameter.name in _RECEIVERS or parameter.name[0] == "_"):
        yield parameter.name


def _renamed(old: list[griffe.Parameter], new: list[griffe.Parameter]) -> dict[str, str]:
    """Parameters at the same position whose name changed."""
    before = {parameter.name for parameter in old}
    after = {parameter.name for parameter in new}
    return {
        old_parameter.name: new_parameter.name
        for old_parameter, new_parameter in zip(old, new, strict=False)
        if old_parameter.name not in after
        and new_parameter.name not in before
        and old_parameter.kind in _POSITIONAL
        and new_parameter.kind in _POSITIONAL
        and (old_parameter.required or not new_parameter.required)
        and old_parameter.name not in _RECEIVERS
    }
