"""Checks a proof test in Python; see ``proof_tests``.

Names that stand for others are written out first, so that one table of patterns holds for all ways
to write a test. What a pattern cannot tell is told from the tree.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import Gap, Source, read
from diffchecks.data_files import read_yaml
from diffchecks.python.source_definitions import FunctionNode, dotted_name, find_stored_names


class ProofTestJob(Struct, frozen=True):
    """A test to check.

    Attributes:
        language: ``python``, ``javascript`` (TypeScript as well) or ``go``.
        paths: the changed files.
        roots: the directories that hold them, of both sides.
        same: the test compares two ways that have to agree.
        exception, value: with which head is predicted to fail.
    """

    text: str
    language: str
    paths: Sequence[str] = ()
    roots: Sequence[str] = ()
    same: bool = False
    exception: str = ""
    value: str = ""

    @property
    def predicted(self) -> str:
        """The bare name of the exception."""
        return self.exception.rpartition(".")[2]

    def changed(self, roots: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
        """Path and text of each changed file, of these sides or both."""
        for root in roots or self.roots:
            for path in self.paths:
                with suppress(Gap, ValueError):
                    yield path, Source(path, read(root, path)).text

    def search(self, table: Mapping[str, Any], code: str) -> Iterator[str]:
        """What is wrong with a code, apart from the inputs that it sets, and where."""
        predicted = re.escape(self.predicted) or "(?!)"
        folders = {part for path, _ in self.changed(self.roots[:1]) for part in path.split("/")}
        own = [given for name, given in table["frameworks"].items() if name in folders]
        code = _without_inputs(re.compile("|".join(table["inputs"] + own), re.MULTILINE), code)
        for why, pattern in (one for problem in table["problems"] for one in problem.items()):
            if matched := re.search(pattern.replace("PREDICTED", predicted), code, re.MULTILINE):
                quote = matched.groupdict().get("quote") or matched[0]
                yield f"{why}: {' '.join(quote.split())[:MAX_QUOTE]}"


def _without_inputs(inputs: re.Pattern[str], code: str) -> str:
    """A code without the inputs that it sets, and without imports that only these need."""
    left = inputs.sub(" ", code)
    for module in {one[one.lastindex] for one in inputs.finditer(code) if one.lastindex}:
        if not re.search(rf"(?m)^(?! *(?:import|from) ).*\b{module}\b", left):
            left = re.sub(rf"(?m)^ *(?:import|from) {module}\b.*", "", left)
    return left


MAX_QUOTE = 60
_PREDICTIONS = read_yaml("proof_tests.yaml")["predictions"]
GENERIC = re.compile(_PREDICTIONS["generic"])
"""What stands in any failure."""
_DISTINCT = re.compile(_PREDICTIONS["distinct"])
"""What a prediction says besides: a word, or a value that is empty."""
_TABLE = read_yaml("proof_tests.yaml")["python"]
_NAMES = {kind: frozenset(words) for kind, words in _TABLE["names"].items()}
_PRIVATE = re.compile(r"(?:^|/)\.(?:git|diffcourt)(?:/|\b)|^/proc\b|^sys\.modules$|conftest|^\.py$")
_RELATIVE = re.compile(r"(?!/)(?!.*\.\.)")
_PLAIN = re.compile(r"[\w-]{0,20}|[^{]*\{\w*(?:[.\[].*)?", re.DOTALL)
"""A text that is shown: a short one, or of a format that asks for a part of what it is given."""


def compares_two(node: ast.AST) -> bool:
    """Whether it asserts that two values are equal, both computed of the same input."""
    match node:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            values = (left, right)
        case ast.Call(func=ast.Attribute(attr="assertEqual"), args=[left, right, *_]):
            values = (left, right)
        case _:
            return False
    inputs = [{repr(n.value) for n in ast.walk(v) if isinstance(n, ast.Constant)} for v in values]
    return not any(map(_is_literal, values)) and (not all(inputs) or inputs[0] == inputs[1])


def _is_literal(node: ast.AST) -> bool:
    computed = (ast.Name, ast.Call, ast.Await, ast.Attribute)
    return not any(isinstance(one, computed) for one in ast.walk(node))


def _is_stored(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements define or assign, themselves."""
    assigned: list[ast.stmt] = [n for n in body if isinstance(n, ast.Assign | ast.AnnAssign)]
    return find_stored_names(ast.Module(assigned, [])) | {getattr(n, "name", "") for n in body}


def _computes(node: ast.stmt) -> bool:
    """Whether it is a method that does more than raise or return a literal: no test replaces it."""
    if not isinstance(node, FunctionNode) or node.decorator_list or node.name.startswith("__"):
        return False  # a property may be assigned to
    steps = node.body[ast.get_docstring(node, clean=False) is not None :]
    return len(steps) > 1 or not all(isinstance(n, ast.Raise) or _is_literal(n) for n in steps)


Kind = tuple[set[str], set[str]]
"""A class: the names of its bases and of its methods. The name of one of the change has a dot."""


def _overrides(name: str, kinds: Mapping[str, Kind]) -> bool:
    """Whether a class of a test replaces a method of a class of the change that it extends."""
    bases, own, theirs = [name], set[str](), set[str]()
    for base in bases:
        above, methods = kinds.get(base, (set(), set()))
        (theirs if base.startswith(".") else own).update(methods)
        bases += above - {*bases}
    return not own.isdisjoint(theirs)


def _names(node: ast.AST) -> set[str]:
    """The names of an expression, and the attributes of ``self``."""
    own = (dotted_name(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute))
    return {name for name in own if "." not in name or re.fullmatch(r"self\.\w+", name)}


_SEVERAL = ast.List | ast.Tuple | ast.Set | ast.Dict | ast.BoolOp | ast.IfExp | ast.Starred


def _may_differ(value: ast.expr) -> bool:
    """Whether it may be any of several values; of most calls, what is called tells."""
    told = value.func if isinstance(value, ast.Call) and dotted_name(value.func) != "zip" else value
    return any(isinstance(one, _SEVERAL) for one in ast.walk(told))


def _asserts(node: ast.AST) -> bool:
    names = (dotted_name(n.func) for n in ast.walk(node) if isinstance(n, ast.Call))
    has_call = any(re.search(r"(?:^|\.)(?:assert|raises|warns)\w*$", name) for name in names)
    return has_call or any(isinstance(n, ast.Assert) for n in ast.walk(node))


def _repeated(node: ast.AST) -> tuple[bool, ast.AST]:
    """The statements of a loop, or what ``all`` and ``any`` ask of each element."""
    match node:
        case ast.For(body=body) | ast.AsyncFor(body=body) | ast.While(body=body):
            return True, ast.Module(body, [])
        case ast.Call(
            func=ast.Name(id="all" | "any"), args=[ast.ListComp() | ast.GeneratorExp() as one]
        ):
            return False, one.elt
    return True, ast.Pass()


class _Plain(ast.NodeTransformer):
    """Writes names out, and leaves out texts that could look like code."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        is_code = isinstance(node.value, str) and not _PLAIN.fullmatch(node.value)
        return ast.Constant("") if is_code else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        parts = [one.value for one in node.values if isinstance(one, ast.FormattedValue)]
        return ast.Tuple([self.visit(one) for one in parts], ast.Load())


class PythonTest:
    """One test file."""

    def __init__(self, given: ProofTestJob) -> None:
        tree = ast.parse(given.text.encode())  # as Python would, whatever it declares
        self._given, self._nodes = given, list(ast.walk(tree))
        self._defined: dict[str, set[str]] = {}
        self._kinds: dict[str, Kind] = {}
        for path, text in given.changed():
            if path.endswith(".py"):
                self._learn(path, text)
        self._files = {PurePosixPath(path).name for path in given.paths}
        self._locates = ".__file__" in given.text
        self._folders = {part for path in given.paths for part in PurePosixPath(path).parts}
        self._imports = dict(self._imported())
        self._assigned = list(self._assignments())
        self._texts: dict[str, str] = {}
        for name, value in self._assigned:
            if text := self._text_of(value):
                self._texts[name] = text
            elif dotted := self._dotted(value).strip("."):
                self._imports.setdefault(name, dotted)
        modules = {part for name in self._defined for part in name.split(".")[:1]}
        self._code_under_test = self._made_of(frozenset(modules))
        self._classes = [one for one in self._nodes if isinstance(one, ast.ClassDef)]
        for kind in self._classes:
            bases, methods = self._kinds.setdefault(kind.name, (set(), set()))
            methods |= _bound(kind.body)
            for module, dot, name in (self._dotted(one).rpartition(".") for one in kind.bases):
                bases.add(f"{dot}{name}" if module.partition(".")[0] in modules or not dot else "")
        self._own = self._only_of(_NAMES["own"])
        self._own_paths = [part for one in self._nodes for part in self._below_own(one)]
        self._paths = self._made_of(_NAMES["modules"])
        calls = [node for node in self._nodes if isinstance(node, ast.Call) and self._is_own(node)]
        moves = [node.lineno for node in calls if self._ends(node) == "chdir"]
        self._moved = min(moves, default=1 << 30)
        self._code = ast.unparse(_Plain(self._imports).visit(ast.parse(given.text.encode())))

    def _learn(self, path: str, text: str) -> None:
        """Keep what a changed module defines itself, under all of its dotted names."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        names = _bound(tree.body)
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        for first in range(len(parts)):
            self._defined.setdefault(".".join(parts[first:]), set()).update(names)
        for kind in (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)):
            bases, methods = self._kinds.setdefault(f".{kind.name}", (set(), set()))
            bases |= {f".{dotted_name(one).rpartition('.')[2]}" for one in kind.bases}
            methods |= _bound([one for one in kind.body if _computes(one)])

    def _imported(self) -> Iterator[tuple[str, str]]:
        """Local name → what it stands for, dotted."""
        for node in self._nodes:
            if isinstance(node, ast.Import):
                for one in node.names:
                    top = one.name.partition(".")[0]
                    yield (one.asname, one.name) if one.asname else (top, top)
            elif isinstance(node, ast.ImportFrom):
                for one in node.names:
                    yield one.asname or one.name, f"{node.module or ''}.{one.name}".strip(".")

    def _assignments(self) -> Iterator[tuple[str, ast.expr]]:
        """Each local name with what it is assigned."""
        for node in self._nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    stored = [n for one in targets for n in ast.walk(one) if _is_stored(n)]
                    yield from ((dotted_name(one), value) for one in stored)
                case ast.NamedExpr(target=target, value=value):
                    yield target.id, value
                case ast.withitem(optional_vars=ast.AST() as target, context_expr=value):
                    yield from ((name, value) for name in _names(target))

    def _passed(self) -> Iterator[tuple[str, ast.expr]]:
        """Each parameter of the test's functions, with what it is called with as far as told."""
        functions = {n.name: n.args.args for n in self._nodes if isinstance(n, ast.FunctionDef)}
        calls = [n for n in self._nodes if isinstance(n, ast.Call) and not n.keywords]
        given = {call.func: call.args for call in calls}
        for node in self._nodes:
            if isinstance(node, ast.Name) and node.id in functions:
                known = given.get(node, [])
                for at, parameter in enumerate(functions[node.id]):
                    yield parameter.arg, known[at] if at < len(known) else ast.Constant(0)

    def _made_of(self, sources: frozenset[str]) -> set[str]:
        """The names that hold what is made of some sources."""
        names = self._imported_from(sources)
        for _ in range(3):
            names |= {name for name, value in self._assigned if not names.isdisjoint(_names(value))}
        return names

    def _only_of(self, sources: frozenset[str]) -> set[str]:
        """The names that never hold anything else than what is made of some sources."""
        loops = (n for n in self._nodes if isinstance(n, ast.For | ast.comprehension))
        looped = ((name, one.iter) for one in loops for name in _names(one.target))
        values = [
            (name, set[str]() if _may_differ(each) else _names(each))
            for name, value in (*self._assigned, *self._passed(), *looped)
            for each in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
        ]
        names = self._imported_from(sources).union(name for name, _ in values)
        while others := {name for name, made in values if names.isdisjoint(made)} & names:
            names -= others
        return names

    def _imported_from(self, sources: frozenset[str]) -> set[str]:
        tops = {name: dotted.partition(".")[0] for name, dotted in self._imports.items()}
        return {name for name, top in tops.items() if top in sources} | sources

    def _is_own(self, node: ast.AST) -> bool:
        return not (self._locates or self._own.isdisjoint(_names(node)))

    def _below_own(self, node: ast.AST) -> list[ast.expr]:
        """What an expression puts below a directory of the test."""
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=right) if self._is_own(left):
                return [right]
            case ast.Call(func=ast.Attribute(attr="join" | "joinpath"), args=args):
                return args if self._is_own(node) else []
        return []

    def problems(self) -> Iterator[str]:
        """Names of reasons, or whole reasons."""
        tests = len(re.findall(_TABLE["tests"], self._code))
        if tests != 1:
            yield f"holds {tests} tests; write one for one claim"
        if not re.search(_TABLE["asserts"], self._code):
            yield "doctest" if ">>> " in self._given.text else "asserts nothing"
        yield from self._given.search(_TABLE, self._code)
        for node in self._nodes:
            for why in self._of(node):
                yield f"{why}: {' '.join(ast.unparse(node).split())[:MAX_QUOTE]}"
        yield from self._several()
        if self._given.same and not any(map(compares_two, self._nodes)):
            yield "compares no two values that are both computed"

    def _several(self) -> Iterator[str]:
        """Assertions that are tried on several cases: any of them could be the one that fails."""
        checks = {f.name for f in self._nodes if isinstance(f, ast.FunctionDef) and _asserts(f)}
        steps = [n.value for n in self._nodes if isinstance(n, ast.Expr | ast.Assign)]
        once = [self._ends(step) for step in steps if isinstance(step, ast.Call)]
        uses = [name for n in self._nodes if (name := self._ends(n)) in checks]
        if any(uses.count(check) > 2 * (once.count(check) == 1) for check in checks):
            yield "cases"
        for is_loop, inner in map(_repeated, self._nodes):
            called = _names(ast.Tuple([n.func for n in ast.walk(inner) if isinstance(n, ast.Call)]))
            asks = self._code_under_test if not is_loop or _asserts(inner) else set()
            if called & (checks | asks):
                yield "cases"

    def _of(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Call():
                yield from self._of_call(node)
            case (ast.Attribute() as of) | ast.Subscript(value=of) if _is_stored(node):
                yield from self._of_replacement(self._dotted(of))
            case ast.Constant() | ast.BinOp() | ast.JoinedStr() if (
                text := self._text_of(node)
            ) and not (node in self._own_paths and _RELATIVE.match(text)):
                named = {PurePosixPath(part).name for part in text.split(":")}
                names_file = "." in text and not self._files.isdisjoint(named)
                # What lies beside a module is a fixture unless it may be what the change alters.
                apart = self._folders.isdisjoint(PurePosixPath(text).parts)
                beside = apart and re.search(r"\w", text)
                if names_file or _PRIVATE.search(text) or (self._locates and not beside):
                    yield "looks"
            case ast.Raise():
                yield from self._of_raise(node)
            case ast.Assert():
                yield from self._of_assertion([node.test], node.msg)
            case ast.ClassDef(name=name) if _overrides(name, self._kinds):
                yield "replaces"

    def _of_raise(self, node: ast.Raise) -> Iterator[str]:
        """Only a fake may raise, and not what is predicted."""
        fakes = [k for k in self._classes if not any(n[:4] == "test" for n in _bound(k.body))]
        in_fakes = {one for kind in fakes for one in ast.walk(kind)}
        name = self._ends(node.exc) if node.exc else ""
        never = {self._given.predicted} | _NAMES["never_raised"]
        if node not in in_fakes or name in never or name.islower():
            yield "raises"

    def _of_assertion(
        self, compared: Sequence[ast.expr], message: ast.expr | None
    ) -> Iterator[str]:
        """Values that are compared, with what the assertion says of its own."""
        tests = [n for one in compared for n in ast.walk(one)]
        parts = [v for n in tests if isinstance(n, ast.BoolOp) for v in n.values]
        if any(isinstance(v, ast.Constant) for v in parts) or all(map(_is_literal, compared)):
            yield "constant"
        value = " ".join(self._given.value.split())
        text = " ".join(self._text_of(message).split()) if message else ""
        rest = GENERIC.sub("", value)
        if not any(isinstance(n, ast.NotEq | ast.IsNot | ast.NotIn) for n in tests):
            if self._given.predicted == "AssertionError" and value in ast.unparse(compared[0]):
                rest = ""  # pytest shows the code in any failure
            for one in compared:
                top = [one.left, *one.comparators] if isinstance(one, ast.Compare) else [one]
                for part in filter(_is_literal, top):
                    rest = rest.replace(ast.unparse(part), "", 1)
        if value and ((text and value in text) or not _DISTINCT.search(rest)):
            yield "predicts"

    def _of_call(self, node: ast.Call) -> Iterator[str]:
        name, dotted = self._ends(node), self._dotted(node.func)
        is_path = not self._paths.isdisjoint(_names(node.func)) or dotted.startswith("io.open")
        touches = name in _NAMES["reads"] or (name in _NAMES["files"] and is_path)
        if touches and not self._is_own(node) and node.lineno <= self._moved:
            yield "looks"
        if name.startswith("assert") and isinstance(node.func, ast.Attribute) and node.args:
            wanted = 1 if re.search("True|False|None", name) else 2
            messages = [*node.args[wanted:], *(w.value for w in node.keywords if w.arg == "msg")]
            yield from self._of_assertion(node.args[:wanted], next(iter(messages), None))
        if name == "syspath_prepend":  # of modules that the test writes, and that are read as well
            is_built = any(isinstance(one, ast.JoinedStr) for one in self._nodes)
            if is_built or not self._is_own(node) or self._writes_dishonestly():
                yield "replaces"
        elif name == "update":
            yield from self._of_replacement(dotted.removesuffix(".update"))
        elif name in _NAMES["replacing"]:
            words = {word.arg: word.value for word in node.keywords}
            named = [words[w] for w in ("target", "name", "attribute") if w in words]
            if given := [*node.args[:2], *named]:
                yield from self._of_replaced(name, given)

    def _writes_dishonestly(self) -> bool:
        """Whether a module that the test writes is no honest test's, or hides what changed."""
        values, modules = (getattr(one, "value", None) for one in self._nodes), list[str]()
        texts = [text for text in values if isinstance(text, str)]
        for text in texts:
            with suppress(SyntaxError, ValueError, RecursionError):
                modules.append(ast.unparse(ast.parse(text)))
        tops = {re.split(r"\W", name)[0] for name in self._defined}
        hides = any(re.split(r"\W", text)[0] in tops for text in texts)
        given = replace(self._given, text="\n".join(modules))
        found = [*given.search(_TABLE, "\n".join(texts)), *PythonTest(given).problems()]
        return hides or any(": " in one for one in found)

    def _of_replaced(self, name: str, given: Sequence[ast.expr]) -> Iterator[str]:
        """What ``setattr`` and its like replace: an object and a name, or a dotted name."""
        text, second = self._text_of(given[0]), self._text_of(given[1]) if given[1:] else ""
        first = text or self._dotted(given[0]).strip(".")
        is_whole = text and name in {"patch", "setattr", "delattr"}
        if not first or (name in {"setattr", "delattr", "object"} and not (second or is_whole)):
            yield "replaces"
        yield from self._of_replacement(first if is_whole else f"{first}.{second}")

    def _of_replacement(self, target: str) -> Iterator[str]:
        """A name that the test replaces, such as ``shop.prices.tax``."""
        parts = target.split(".")
        is_own = len(parts) == 2 and parts[0] in {"self", "cls"}
        is_method = any(parts[-1] in own for at, (_, own) in self._kinds.items() if at[0] == ".")
        if (parts[1:] and is_method and not is_own) or any(
            parts[end] in self._defined.get(".".join(parts[:end]), ())
            for end in range(1, len(parts))
        ):
            yield "replaces"

    def _text_of(self, node: ast.AST | None) -> str:
        """The text of an expression that is known without running it, else empty."""
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name):
                return self._texts.get(name, "")
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text_of(left) + self._text_of(right)
            case ast.JoinedStr(values=values):
                return "".join(map(self._text_of, values))
            case ast.FormattedValue(value=value):
                known = isinstance(value, ast.Constant)
                return str(ast.literal_eval(value)) if known else self._text_of(value)
        return ""

    def _dotted(self, node: ast.AST) -> str:
        """The dotted name, of what was imported under its own."""
        first, dot, rest = dotted_name(node).partition(".")
        return f"{self._imports.get(first, first)}{dot}{rest}".lstrip(".")

    def _ends(self, node: ast.AST) -> str:
        """The last part of the dotted name, of a call that of what it calls."""
        return self._dotted(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]
