"""The model of a control: a condition, call, argument or list entry that keeps something out."""

import keyword
import re
from collections import Counter
from functools import cached_property

from msgspec import Struct

from diffchecks.removed_controls.guard_flow import GuardFlow
from diffchecks.removed_controls.lost_wrapping import ChangedText, strip_whitespace

_NAMES = re.compile(r"[^\W\d]\w*")
_TEXT = re.compile(r"""(["'])(?:\\.|(?!\1).)*\1""")
# An error that says by its name what is wrong, which a general one leaves to its message.
_OWN_ERROR = re.compile(
    r"\b(?!(?:Value|Type|Runtime|IllegalArgument|IllegalState|Validation|Standard|Argument)?(?:Error|Exception)\b)"
    r"[A-Z]\w+(?:Error|Exception|Denied|Forbidden)\b"
)
_KEYWORDS = frozenset(keyword.kwlist) | frozenset(
    ["const", "false", "function", "let", "new", "nil", "null", "true", "undefined", "var"]
)


class Control(Struct, frozen=True):
    """A control in one version of a file.

    Attributes:
        kind: its syntactic form, such as ``guard``, ``call`` or ``argument``.
        scope: dotted name of the enclosing function or class, empty at the top of the file.
        key: equal for two controls that do the same, regardless of layout.
        name: the called, passed or assigned name; empty for a condition.
        words: names and strings in it.
        values: names of the protected values.
        line, end: its first and last line, 1-based.
        text: as written, in one line.
        effect: for a condition, how it rejects: ``raise``, ``return``, ``skip``; else empty.
        rejection: the text of its rejection.
        follows: the first line of the code under the condition, without white space.
    """

    kind: str
    scope: str
    key: str
    name: str
    words: frozenset[str]
    values: frozenset[str]
    line: int
    end: int
    text: str
    effect: str = ""
    rejection: str = ""
    follows: str = ""

    @property
    def identity(self) -> tuple[str, str]:
        """Equal for the same control anywhere in the change."""
        return self.kind, self.key

    @property
    def public_name(self) -> str:
        """Its name, equal for a function that the change makes public or private."""
        return public(self.name)


def public(name: str) -> str:
    """Equal for the private and the public spelling of a name: _check, check and, in Go, Check."""
    plain = name.lstrip("_")
    return plain[:1].lower() + plain[1:]


def is_weaker(old: Control, new: Control) -> bool:
    """Whether a setting was turned off, a limit raised a lot, or a mode widened."""
    before, after = (control.text.rpartition("=")[2].strip() for control in (old, new))
    if {before, after} == {"True", "False"}:
        return after == "False"
    if not (before.isdigit() and after.isdigit()):
        return before.isdigit() and after == "None" and "count" not in old.name.lower()
    if "perm" in old.name.lower() or "mode" in old.name.lower():
        return bool(int(after) & ~int(before))
    return int(after) >= 4 * int(before) > 0


def rejects_alike(old: Control, new: Control) -> bool:
    """Whether two conditions reject in the same way; of one value with another message as well."""
    if old.rejection == new.rejection:
        return True
    without_texts = (_TEXT.sub("", control.rejection) for control in (old, new))
    same = len(set(without_texts)) == 1 and _OWN_ERROR.search(old.rejection) is not None
    return same and not old.words.isdisjoint(new.words)


class Version(Struct, frozen=True):
    """The controls of one version of a file, and its functions and classes.

    Attributes:
        scopes: dotted name → first and last line; the file itself under the empty name.
        flows: the statements of its touched functions.
    """

    controls: tuple[Control, ...]
    scopes: dict[str, tuple[int, int]]
    flows: dict[str, GuardFlow] = {}


class ControlledFile:
    """A file with its controls in base and head."""

    def __init__(self, old_path: str, text: ChangedText, base: Version, head: Version) -> None:
        self.old_path, self.text, self.base, self.head = old_path, text, base, head
        self._scope_lines: dict[str, tuple[Counter[str], Counter[str]]] = {}
        self._words: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    @property
    def path(self) -> str:
        """The path in head."""
        return self.text.path

    @cached_property
    def hunks(self) -> tuple[tuple[range, range], ...]:
        """The hunks: lines of base and head that replace each other."""
        return tuple((hunk.base, hunk.head) for hunk in self.text.hunks())

    @cached_property
    def removed(self) -> frozenset[int]:
        """Removed lines of base."""
        return frozenset(line for base, _ in self.hunks for line in base)

    @cached_property
    def added(self) -> frozenset[int]:
        """Added lines of head."""
        return frozenset(line for _, head in self.hunks for line in head)

    def is_removed(self, control: Control) -> bool:
        """Whether a line of a control of base was removed."""
        return any(line in self.removed for line in range(control.line, control.end + 1))

    def is_added(self, control: Control) -> bool:
        """Whether a line of a control of head was added."""
        return any(line in self.added for line in range(control.line, control.end + 1))

    def scope_lines(self, scope: str) -> tuple[Counter[str], Counter[str]]:
        """The lines of code of a scope in base and head, without white space."""
        if scope not in self._scope_lines:
            self._scope_lines[scope] = (
                _code(self.text.base, self.base.scopes[scope]),
                _code(self.text.head, self.head.scopes[scope]),
            )
        return self._scope_lines[scope]

    def head_words(self, scope: str) -> frozenset[str]:
        """All names in the scope in head."""
        return self._scope_words(scope)[1]

    def new_words(self, scope: str) -> frozenset[str]:
        """Names in the scope in head that it did not have in base."""
        was, now = self._scope_words(scope)
        return now - was

    def _scope_words(self, scope: str) -> tuple[frozenset[str], frozenset[str]]:
        if scope not in self._words:
            self._words[scope] = (
                _names(self.text.base, self.base.scopes[scope]),
                _names(self.text.head, self.head.scopes[scope]),
            )
        return self._words[scope]

    def goes_with_its_use(self, control: Control) -> bool:
        """Whether the assigned variable is not used in head."""
        if not control.name.isidentifier() or control.name in self.head_words(control.scope):
            return False
        first, last = self.base.scopes[control.scope]
        text = "\n".join(self.text.base[first - 1 : last])
        return len(re.findall(rf"\b{control.name}\b", text)) > 1

    def place(self, control: Control) -> int:
        """The line of head at the place of a removed control, or next to it."""
        first, last = self.head.scopes.get(control.scope, self.head.scopes[""])
        lines = self.text.head
        head = next(
            head
            for base, head in self.hunks
            if base and base.start <= control.end and control.line < base.stop
        )
        near = (*head, *range(head.stop, last + 1), *range(head.start - 1, first - 1, -1))
        found = (line for line in near if line <= len(lines) and _is_code(lines[line - 1]))
        return next(found, first)


def _is_code(line: str) -> bool:
    return not line.lstrip().startswith(("#", "//", "*", "/*")) and bool(line.strip(" \t{}();,"))


def _code(lines: list[str], place: tuple[int, int]) -> Counter[str]:
    first, last = place
    return Counter(strip_whitespace(line) for line in lines[first - 1 : last] if _is_code(line))


def _names(lines: list[str], place: tuple[int, int]) -> frozenset[str]:
    first, last = place
    code = (line for line in lines[first - 1 : last] if _is_code(line))
    return frozenset(_NAMES.findall("\n".join(code))) - _KEYWORDS
