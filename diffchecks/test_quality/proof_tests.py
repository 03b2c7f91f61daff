"""Checks a test that a model wrote to prove a finding: by its text, it can show only an effect.

A test that passes on base and fails on head proves a claim only if it fails for the reason that was
claimed. So a test may not look at how the code is written, replace what the change defines, count
calls, depend on chance, time or the machine, hide what it does, or say itself what was predicted.
JavaScript, TypeScript and Go are read as text, by the patterns of their tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diffchecks.check_io import parse_program
from diffchecks.data_files import read_patterns, read_yaml
from diffchecks.removed_controls.lost_wrapping import split_arguments
from diffchecks.test_quality.proof_python import GENERIC, ProofTestJob, PythonTest

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_PATTERNS = read_patterns("tests")
_LOADS = frozenset({"require", "import", "vi.importActual", "jest.requireActual"})
_NAMES = frozenset({"identifier", "shorthand_property_identifier", "package_identifier"})
_LIST = frozenset({"expression_list", "array_pattern", "array"})
OWN = "%own"
"""Stands for a directory of the test, and what is below it; no expression is written so."""
_BELOW_OWN = re.compile(rf'\({OWN}(?:, *"(?![^"]*\.\.)[^"]*")*\)')


def _unescape(found: re.Match[str]) -> str:
    letter = chr(int(found[1] or found[2] or found[3], 16))
    return letter if re.match(r"\w", letter) else found[0]


class ScriptNames:
    """One test file.

    Attributes:
        nodes: of its syntax tree, in their order.
        plain: its code without comments; its own directories are ``OWN``, as in ``written``.
        written: the same with names written out. ``imported`` stands for modules of the project,
            ``instance`` for objects of their classes.
    """

    def __init__(self, text: str, language: str) -> None:
        text = _PATTERNS["escape"].sub(_unescape, text)
        root = parse_program(text, "go" if language == "go" else "tsx")
        self.nodes = list(_walk(root))
        self._names: dict[str, str] = {}
        self._makers = set[str]()
        given = [n.text() for n in self.nodes if n.kind() == "parameter_declaration"]
        self._parameters = {word for text in given for word in re.findall(r"\w+", text)}
        self.plain = self.write(root)
        for node in self.nodes * 2:  # what a function returns is known once its names are
            for name, value in self._renamed(node, node.kind()):
                self._names.setdefault(name, value)
            body, up = node.field("body"), node if node.field("name") else node.parent()
            named = up and (up.field("name") or up.field("key"))
            if named and body and _PATTERNS["makes"].search(self.write(body)):
                self._makers.add(named.text())
        self.written, known = self.write(root), self._names
        self._names = {name: value for name, value in known.items() if value == OWN}
        self.plain, self._names = self.write(root), known

    def _renamed(self, node: SgNode, kind: str) -> Iterator[tuple[str, str]]:
        """The names that a node gives to what has another name, and that."""
        left = node.field("left") or node.field("name")
        value = node.field("right") or node.field("value") or node.field("path")
        if kind == "import_statement":
            yield from _of_import(node)
        elif kind == "parameter_declaration" and left and node.text().endswith("*testing.T"):
            yield left.text(), "t"
        elif left is None or value is None:
            return
        elif kind == "import_spec":
            yield left.text(), re.sub(r"/v\d+$", "", value.text()[1:-1]).rpartition("/")[2]
        elif _PATTERNS["declares"].match(kind) or _PATTERNS["assigns"].match(kind):
            whole = self.write(value)
            for one in left.named_children() if _PATTERNS["dotted"].fullmatch(whole) else ():
                key, *local = re.findall(r"[\w$]+", one.text().partition("=")[0])
                if left.kind() == "object_pattern":
                    yield (local or [key])[0], f"{whole}.{key}"
            both = (one.named_children() if one.kind() in _LIST else [one] for one in (left, value))
            for one, other in zip(*both, strict=False):
                name, written = one.text(), self.write(other)
                changes = rf"\b{name}\s*(?:[:*/%+-]?=(?!=)|\+\+|--)|(?:\+\+|--){name}\b"
                is_fixed = name.isidentifier() and len(re.findall(changes, self.plain)) == 1
                is_own = written == OWN and name not in self._parameters
                is_own &= f"&{name}" not in self.plain
                is_fixed &= is_own or bool(_PATTERNS["literal"].fullmatch(written))
                if is_fixed or _PATTERNS["dotted"].fullmatch(written):
                    yield name, written

    def write(self, node: SgNode) -> str:
        """The code of a node with names written out, as far as they are known."""
        kind, text, parts = node.kind(), node.text(), node.children()
        if kind == "comment":
            return text if text.startswith(("//go:", "// +")) else " "
        if kind in _NAMES:
            return self._names.get(text, text)
        if not parts or kind == "import_statement" or kind.endswith("pattern"):
            return text
        declared = None
        if _PATTERNS["declares"].match(kind):
            declared = node.field("left") or node.field("name")
        written = [part.text() if part == declared else self.write(part) for part in parts]
        if kind == "call_expression" and written[0].rpartition(".")[2] in self._makers:
            return "instance"
        if plain := _simplified(kind, written):
            return plain
        start = ends = node.range().start.index
        for at, part in enumerate(parts):
            span = part.range()
            written[at] = text[ends - start : span.start.index - start] + written[at]
            ends = span.end.index
        return "".join(written) + text[ends - start :]


def _simplified(kind: str, parts: list[str]) -> str:
    """An expression in its plainest form; empty: as it is."""
    match kind, parts:
        case "as_expression" | "satisfies_expression" | "non_null_expression", [inner, *_]:
            return inner
        case "parenthesized_expression", [_, inner, _] if _PATTERNS["dotted"].fullmatch(inner):
            return inner
        case "await_expression", [_, "imported" | "instance" as inner]:
            return inner
        case "call_expression", [name, given] if plain := _made(name, given):
            return plain
        case "new_expression", [_, name, *_] if name.startswith("imported"):
            return "instance"
        case "subscript_expression", [name, _, key, _] if re.fullmatch(r"(['\"`])[\w$]+\1", key):
            return f"{name}.{key[1:-1]}"
        case "binary_expression", [left, "+", right] if {left[-1:], right[:1]} < set("'\"`"):
            return left[:-1] + right[1:]
    return ""


def _made(name: str, given: str) -> str:
    """What stands for what a call loads or makes, if it is known; else empty."""
    is_own = f"{name}{given}" == "t.TempDir()"
    if is_own or (name == "filepath.Join" and _BELOW_OWN.fullmatch(given)):
        return OWN
    return _module(given[1:]) if name in _LOADS else ""


def _module(named: str) -> str:
    """What stands for a module of the project, or for one of assertions; else empty."""
    found = _PATTERNS["modules"].match(named)
    return str(found.lastgroup) if found else ""


def _walk(node: SgNode) -> Iterator[SgNode]:
    yield node
    for part in node.children():
        yield from _walk(part)


def _of_import(statement: SgNode) -> Iterator[tuple[str, str]]:
    """Local name → what it stands for in a module."""
    source = statement.field("source")
    top = _module(source.text()) if source else ""
    for one in _walk(statement):
        names = [part.text() for part in one.children() if part.kind() == "identifier"]
        if one.kind() == "import_specifier":
            yield names[-1], f"{top}.{names[0]}".lstrip(".")
        elif top and names and one.kind() in {"namespace_import", "import_clause"}:
            is_default = top == "imported" and one.kind() == "import_clause"
            yield names[0], "imported.default" if is_default else top


_LITERAL = re.compile(read_yaml("proof_tests.yaml")["predictions"]["literal"])


class ScriptTest:
    """One test file of JavaScript, TypeScript or Go."""

    def __init__(self, given: ProofTestJob) -> None:
        self._given, self._value = given, " ".join(given.value.split())
        self._negated, self._end = False, 0
        self._pairs: list[tuple[str, str]] = []
        self._table = read_yaml("proof_tests.yaml")[given.language]
        names = ScriptNames(given.text, given.language)
        self._nodes, self._code, self._write = names.nodes, names.written, names.write
        self._both = f"{names.plain}\n{names.written}"

    def problems(self) -> Iterator[str]:
        """Names of ``Why``, or whole reasons."""
        tests = len(re.findall(self._table["tests"], self._code))
        if tests != 1:
            yield f"holds {tests} tests; write one for one claim"
        yield from self._given.search(self._table, self._both)
        if re.search(self._table["own_failure"], self._both):
            yield "raises"
        if not re.search(self._table["asserts"], self._code):
            yield "asserts nothing"
        if any(map(self._is_several, self._nodes)):
            yield "cases"
        yield from self._of_go() if self._given.language == "go" else self._of_javascript()
        if self._given.same and not self._compares_two():
            yield "compares no two values that are both computed"

    def _is_several(self, node: SgNode) -> bool:
        """Whether it tries an assertion on several cases: any of them could be the failing one."""
        text, name = self._write(node), node.field("name") or node.field("left")
        value = node.field("value") or node.field("right") or node
        asserts = re.search(self._table["asserts"], text)
        if asserts and name and re.match(r"(?:async\s*)?(?:func|\(|\w+\s*=>)", value.text()):
            return len(re.findall(rf"\b{re.escape(name.text())}\b", self._code)) > 2
        called = node.field("function")
        asks = re.search(r"\.(?:every|some)\Z", called.text()) if called else None
        is_loop = called and re.search(r"\.(?:forEach|map)\Z", called.text())
        is_loop = is_loop or re.match(r"(?:for|while|do)\w*_statement\Z", node.kind())
        asks = asks or (asserts and is_loop)
        return bool(asks and re.search(self._table["exercises"], text))

    def _of_javascript(self) -> Iterator[str]:
        calls = r"\bassert(?:\.\w+)*\(|\bexpect(?:\.soft)?\("
        for name, arguments in self._calls(calls):
            expects = name.startswith("expect")
            after = self._matched() if expects else []
            compared = [*arguments[:1], *after] if expects else arguments[:2]
            self._pairs += [(compared[0], compared[1])] if compared[1:] else []
            fixed = compared[:1] if expects else compared
            if fixed and all(map(_LITERAL.fullmatch, fixed)):
                yield "constant"
            is_plain = expects or re.fullmatch(r"assert(?:\.ok)?\(", name)
            message = arguments[1:2] if is_plain else arguments[2:]
            negated = bool(re.search(r"not\w*\(|\.not\.", name, re.IGNORECASE)) or self._negated
            wanted = [one for one in compared[1:2] if _LITERAL.fullmatch(one) and not negated]
            yield from self._of_prediction(message, wanted)
        throws = [one for one in self._nodes if one.kind() == "throw_statement"]
        if not all("class_body" in {up.kind() for up in one.ancestors()} for one in throws):
            yield "raises"
        sides = [self._defined(root) for root in self._given.roots]
        overridden = self._found("overriding", self._code) & self._inherited()
        if overridden or any(self._found("replaced", self._code) & names for names in sides):
            yield "replaces"
        if len(sides) > 1 and not self._given.same:
            members = self._found("members", self._code)
            yield from (f"gone: {name}" for name in sorted(members & (sides[0] ^ sides[1])))

    def _defined(self, root: str) -> set[str]:
        """What the changed files of a side define."""
        given = self._given.changed([root])
        return self._found("defined", "\n".join(t for p, t in given if re.search("[jt]sx?$", p)))

    def _inherited(self) -> set[str]:
        """The methods of the changed classes that the test extends; of all, if one is unknown."""
        text = "\n".join(text for _, text in self._given.changed())
        parts = re.split(r"(?m)^[^'\"`*/\n]*\bclass (\w+)", text)
        classes = dict(zip(parts[1::2], parts[2::2], strict=True))
        bases = re.findall(r"\bextends imported\.?(\w*)", self._code)
        bases = bases if {*bases} <= {*classes} else [*classes]
        for base in bases:
            bases += {*re.findall(r"\A[^{]* extends (\w+)", classes[base])} & {*classes} - {*bases}
        return self._found("implemented", "\n".join(classes[base] for base in bases))

    def _found(self, what: str, code: str) -> set[str]:
        """The names that a pattern of the table finds."""
        found = re.finditer(self._table[what], code, re.MULTILINE)
        return {
            n for one in found for n in re.findall(r"\w+", next(filter(None, one.groups()), ""))
        }

    def _matched(self) -> list[str]:
        """The arguments of the matcher that follows the last ``expect(…)``."""
        matcher = re.compile(r"\s*((?:\.\w+)*)\(").match(self._code, self._end)
        self._negated = bool(matcher and ".not" in matcher[1])
        return self._split(matcher.end())[0] if matcher else []

    def _of_go(self) -> Iterator[str]:
        calls = r"\b(?:t\.(?:Error|Fatal)f?|fmt\.(?:Sprintf|Errorf)|errors\.New)\("
        for _, told in self._calls(calls):
            if told and all(_LITERAL.fullmatch(one) for one in told):
                message = told[0][1:-1]
                for one in told[1:]:
                    message = re.sub(r"%[\w+#.]+", one.strip("\"'`"), message, count=1)
                yield from self._of_prediction([f'"{message}"'], [])
            yield from self._of_prediction(told, [])
        variables = {
            name
            for _, text in self._given.changed()
            for name in re.findall(r"(?m)^(?:var\s+|\t)([A-Za-z_]\w*)\b[^\n(:=]*=", text)
        }
        changes = r"\s*(?:\[[^\]]*\]\s*)?(?:[-+*/%|&^]?=(?!=)|\+\+|--)"
        if any(re.search(rf"\b{name}{changes}|&{name}\b", self._both) for name in variables):
            yield "replaces"

    def _of_prediction(self, messages: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
        """A predicted text that the test says itself, or that is what it wants."""
        rest = self._value
        for one in wanted:
            rest = rest.replace(one.strip(), "", 1).replace(one.strip().strip("\"'`"), "", 1)
        texts = (
            re.findall(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`", self._code) if " " in self._value else []
        )
        is_quoted = any(self._value in " ".join(one.split()) for one in (*messages, *texts))
        if self._value and (
            is_quoted or not re.search(r"\w", re.sub(r"(?i)expected|received", "", rest))
        ):
            yield "predicts"

    def _compares_two(self) -> bool:
        """Whether it compares two values that are both computed, once all is looked at."""
        if self._given.language == "go":
            pairs = re.findall(
                r"if\s+(?:[^;{\n]*;)?\s*([^!={\n]+?)\s*!=\s*([^{\n]+?)\s*\{", self._code
            )
            pairs += [(one[0], one[1]) for _, one in self._calls(r"\bDeepEqual\(") if len(one) > 1]
        else:
            pairs = self._pairs
        return any(not (_LITERAL.fullmatch(a) or _LITERAL.fullmatch(b)) for a, b in pairs)

    def _calls(self, pattern: str) -> Iterator[tuple[str, list[str]]]:
        """Each call that a pattern finds, up to its bracket, with its arguments as text."""
        for found in re.finditer(pattern, self._code):
            arguments, self._end = self._split(found.end())
            yield found[0], arguments

    def _split(self, start: int) -> tuple[list[str], int]:
        parts, end = split_arguments(self._code, start) or ([], start)
        return [part for one in parts if (part := one.strip())], end


MAX_BYTES = 8 << 10
_REASONS = read_yaml("proof_tests.yaml")["reasons"]


def run(job: Mapping[str, Any]) -> list[str]:
    """Why the test proves nothing, a reason each; empty: it may be run."""
    given = ProofTestJob(**job)
    if len(given.text.encode("utf-8", "replace")) > MAX_BYTES:
        return [f"has more than {MAX_BYTES >> 10} KiB"]
    if given.value and not re.search(r"\w", GENERIC.sub("", given.value)):
        return [_REASONS["predicts"]]
    try:
        test = PythonTest(given) if given.language == "python" else ScriptTest(given)
        found = list(test.problems())
    except (SyntaxError, ValueError, RecursionError) as error:
        return [f"does not parse: {error}"]
    reasons: dict[str, str] = {}
    for problem in found:
        why, _, quote = problem.partition(": ")
        reason = _REASONS.get(why, problem)
        place = f" ({quote}, line {_line_of(quote, given.text)})"
        reasons.setdefault(reason, reason + place if quote and why in _REASONS else reason)
    return list(reasons.values())


def _line_of(quote: str, text: str) -> int:
    """The line that holds most of its words; the quote may have names written out."""
    words, lines = re.findall(r"\w+", quote), text.splitlines()
    return 1 + max(range(len(lines)), key=lambda at: sum(word in lines[at] for word in words))
