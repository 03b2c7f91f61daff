"""Decides which of the controls that a change removes are a loss of protection."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from diffchecks.check_io import RawFinding
from diffchecks.removed_controls import vocabulary as words
from diffchecks.removed_controls.control import (
    Control,
    ControlledFile,
    is_weaker,
    public,
    rejects_alike,
)
from diffchecks.removed_controls.decoys import is_constant, is_decoy
from diffchecks.removed_controls.pure_removal import (
    CONDITIONS,
    adds_check,
    decides_still,
    finds_decision_lost,
    finds_denial_lost,
    finds_rejection_lost,
)
from diffchecks.removed_controls.reporting import POSSIBLE_LOSS, SHOWN, as_finding
from diffchecks.removed_controls.vocabulary import split_words

KEPT = 0.5  # share of a function's lines that must remain for it to do the same work
MIN_LINES, LEFT = 3, 0.8  # number of lines, and their share of head's lines, that existed before
MOSTLY_GONE = 2  # removed lines per added line from which a change is mostly a removal
NEW_LINES = 2  # added to the function, with which it does not do the same in another way
SIMILAR = 0.6  # share of the words of a condition in a new one, which is the same rewritten
ENTRY = 3  # words in an entry of a deny list
LOOKED_AT = 1000  # characters of a condition; a longer one is mostly data

_TAKE_OUT = frozenset({"pop", "discard", "remove"})
_REJECTS_LESS = (POSSIBLE_LOSS, "The request or value is no longer rejected", 0.5)
_DISCLOSED = ("disclosure", "This is no longer taken out before it is passed on", 0.7)
_READ = frozenset({"get", "has", "lower", "split", "startswith", "strip"})  # not a header sent
_AFFIXES = frozenset({"startswith", "endswith"})
_PARTIAL = frozenset({"startswith", "endswith", "find", "index"})
_PARTLY = re.compile(r" in (?![\[({])|\.(?:startswith|endswith|find|index)\(")
_CONSTANT = re.compile(r"= *(?:[\d_ *.]+|True|False|[A-Z][A-Z\d_.]*)$")


class Losses:
    """The controls of every changed file, compared across the change."""

    def __init__(self, files: Iterable[ControlledFile]) -> None:
        self._files = list(files)
        self._base = Counter(c.identity for file in self._files for c in file.base.controls)
        self._head = Counter(c.identity for file in self._files for c in file.head.controls)

    @cached_property
    def _new(self) -> list[Control]:
        """The controls that the change adds."""
        return [
            control
            for file in self._files
            for control in file.head.controls
            if control.words and file.is_added(control)
            if not any(is_constant(file, word) for word in control.words)
        ]

    @cached_property
    def _new_text(self) -> str:
        return "\n".join(file.text.added_text for file in self._files)

    @cached_property
    def _adds_denial(self) -> bool:
        """Whether the change adds a denial of access anywhere."""
        return words.DENIAL.search(self._new_text) is not None

    @cached_property
    def _calls(self) -> Counter[str]:
        """Public name → number of calls in head minus number in base."""
        change: Counter[str] = Counter()
        for file in self._files:
            change.update(c.public_name for c in file.head.controls if c.kind == "call")
            change.subtract(c.public_name for c in file.base.controls if c.kind == "call")
        return change

    def findings(self) -> Iterator[RawFinding]:
        """One finding for each lost control of a file, however often it occurred."""
        for file in self._files:
            lost: dict[tuple[str, str], list[tuple[Control, str, float]]] = {}
            reported: set[int] = set()
            for control in file.base.controls:
                lines = range(control.line, control.end + 1)
                if not reported.isdisjoint(lines) or not file.is_removed(control):
                    continue
                judge = _JUDGES.get(control.kind)
                loss = judge(self, file, control) if judge and self._is_gone(control) else None
                if loss:
                    reported.update(lines)
                    code, says, confidence = loss
                    same = code, control.name or control.key
                    lost.setdefault(same, []).append((control, says, confidence))
            for (code, _), places in lost.items():
                yield as_finding(file, code, places)

    def _is_gone(self, control: Control) -> bool:
        return self._head[control.identity] < self._base[control.identity]

    def is_rewritten(self, control: Control, *, share: float = SIMILAR) -> bool:
        """Whether the change adds a control with the same words anywhere."""
        own = control.words
        texts = frozenset(word for word in own if word[0] in "'\"")
        return any(
            len(own & new.words) >= share * len(own) and texts <= new.words
            for new in self._new
            if own and not is_decoy(control, new)
        )

    def is_same_work(self, file: ControlledFile, control: Control, *, new: int = NEW_LINES) -> bool:
        """Whether the function that had a control still does the same work, and only that."""
        if control.scope not in file.head.scopes:
            return False
        before, after = file.scope_lines(control.scope)
        kept, came = (before & after).total(), (after - before).total()
        if came > max(new, (before - after).total() // MOSTLY_GONE):
            return False
        if kept >= KEPT * before.total() or kept >= max(MIN_LINES, LEFT * after.total()):
            return True
        return bool(kept) and not file.new_words(control.scope)  # nothing could replace it

    def uses_value(self, file: ControlledFile, control: Control) -> bool:
        """Whether the function still uses a value that the control checked, or its object."""
        values = control.values | {
            word
            for other in file.base.controls
            if other.kind in {"setting", "variable"} and other.scope == control.scope
            if other.name in control.values
            for word in other.words - {other.name}
        }
        return not values or not values.isdisjoint(file.head_words(control.scope))

    def _loosened(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """An equality that was replaced with a comparison of part of the text."""
        if " == " not in control.key or control.scope not in file.head.scopes:
            return None
        for new in file.head.controls:
            if new.kind in CONDITIONS and new.scope == control.scope and file.is_added(new):
                same = new.words - _PARTIAL == control.words
                if same and " == " not in new.key and _PARTLY.search(new.key):
                    return "condition-weakened", "A partial match replaces", 0.8
        return None

    def guard(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A guard clause, or a part of its condition."""
        if loosened := self._loosened(file, control):
            return loosened
        same, less = self.is_same_work(file, control), finds_rejection_lost(file, control)
        denial = not self._adds_denial and finds_denial_lost(file, control)
        if (
            not (same or less or denial)
            or not control.words.isdisjoint(words.LEGACY)
            or not self.uses_value(file, control)
            or self.is_rewritten(control)
            or self._message_kept(control)
            or self._has_another(file, control)
        ):
            return None
        known = self._known_guard(control) if same or denial else None
        return known or (_REJECTS_LESS if less else None)

    def _has_another(self, file: ControlledFile, control: Control) -> bool:
        """Whether the change replaces it with a check or another condition of the same kind."""
        rights = split_words(control.words) & words.SECURITY
        if adds_check(file, control.scope, control.values):
            return True
        return bool(control.rejection) and any(
            (new.kind, new.scope, new.effect) == ("guard", control.scope, control.effect)
            and rejects_alike(control, new)
            and (not rights or not rights.isdisjoint(split_words(new.words) & words.SECURITY))
            and file.is_added(new)
            and self._head[new.identity] > self._base[new.identity]
            and not is_decoy(control, new)
            and not any(is_constant(file, word) for word in new.words)
            for new in file.head.controls
        )

    def _known_guard(self, control: Control) -> tuple[str, str, float] | None:
        """What a guard clause kept out, by its words."""
        parts = split_words(control.words)
        strict = control.effect in {"raise", "reject"}
        bounds = parts & words.BOUND or (strict and words.TOO_MUCH.search(control.rejection))
        if bounds and words.LIMITS.search(control.text):
            return "bound-removed", "The limit is no longer enforced", 0.8
        concerns = self._concerns(control, parts if strict else parts - words.VALUES)
        if words.EMPTINESS.search(control.text):
            strict, concerns = strict and concerns, strict and concerns
        refuses = words.REFUSAL.search(control.rejection)
        if (
            (strict and (refuses or words.MATCHES.search(control.text)))
            or concerns
            or (control.effect == "value" and words.DENIAL.search(control.rejection))
        ):
            return (
                "guard-removed",
                "The request or value is no longer rejected",
                0.8 if strict else 0.6,
            )
        return None

    @staticmethod
    def _concerns(control: Control, parts: frozenset[str]) -> bool:
        """Whether a condition is about a permission, an owner, or the content of a value."""
        return bool(
            not parts.isdisjoint(words.SECURITY)
            or any(map(words.INJECTED.match, control.words))
            or words.OWNERS.search(control.text[:LOOKED_AT])
            or words.PREDICATE.search(control.text)
        )

    def _message_kept(self, control: Control) -> bool:
        """Whether the change adds the same rejection elsewhere, with another condition."""
        texts = re.findall(r"['\"]([^'\"]{12,})['\"]", control.rejection)
        return any(text in self._new_text for text in texts)

    def condition(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A condition of a block that now runs unconditionally."""
        if loosened := self._loosened(file, control):
            return loosened
        if not control.follows or not self.is_same_work(file, control):
            return None
        if control.follows in file.scope_lines(control.scope)[1]:
            return self._weakened(file, control)
        # The code under it was removed as well, often a permission that no longer exists.
        if finds_decision_lost(file, control) and self._weakened(file, control):
            return POSSIBLE_LOSS, "The condition is gone, and what it decided", 0.6
        return None

    def filter(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A condition that a value had to satisfy to pass."""
        if loosened := self._loosened(file, control):
            return loosened
        return self._weakened(file, control) if self.is_same_work(file, control) else None

    def _weakened(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        if not control.words.isdisjoint(words.LEGACY) or words.NO_DECISION.match(control.text):
            return None
        parts = split_words(control.words) - words.VALUES
        if not file.path.endswith(".py"):
            parts &= words.AUTHORITY
        concerns = (
            not parts.isdisjoint(words.SECURITY)
            or "'..'" in control.words
            or words.OWNERS.search(control.text[:LOOKED_AT])
            or words.PREDICATE.search(control.text)
        )
        if words.EMPTINESS.search(control.text) and parts.isdisjoint(words.SECURITY):
            return None
        if decides_still(file, control):
            return None
        if concerns and self.uses_value(file, control) and not self.is_rewritten(control):
            return "condition-weakened", "The condition no longer asks for this", 0.6
        return None

    def call(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A call that checks, sanitizes, or ends a session."""
        name = control.name
        if self._calls[control.public_name] >= 0 or name in words.WEAKER_CALLS:
            return self._loosened_call(file, control)
        if special := self._special_call(file, control):
            return special
        callee = control.text.partition("(")[0]
        renews = words.RENEWAL.match(name) and not words.NO_RENEWAL.search(callee)
        strong = words.SAFE_CALL.search(name) or renews
        new = 1 if name in _TAKE_OUT else 2 * NEW_LINES if strong else NEW_LINES
        same = self.is_same_work(file, control, new=new)
        if same and renews:
            return "session-kept", "The session or token is no longer renewed or revoked", 0.8
        if same and name in _TAKE_OUT and words.CREDENTIAL_HEADERS.search(control.text):
            return None if self.is_rewritten(control) else _DISCLOSED
        if same and name in self._lost_helpers:
            return "check-removed", "The check is no longer made", 0.7
        strips = name in words.STRIPS and any(map(words.INJECTED.match, control.words))
        if not same or not (strips or words.is_check(name)) or self._has_successor(control):
            return None
        return self._unchecked(file, control)

    @cached_property
    def _lost_helpers(self) -> frozenset[str]:
        """Names of removed functions that reject or sanitize; a call of one is a lost check."""
        kept = {public(scope.rpartition(".")[2]) for f in self._files for scope in f.head.scopes}
        return frozenset(
            name
            for file in self._files
            for control in file.base.controls
            if control.scope and public(name := control.scope.rpartition(".")[2]) not in kept
            if self._is_gone(control) and self._protects(control)
        )

    def _protects(self, control: Control) -> bool:
        if control.kind == "call":
            return words.is_check(control.name) and self._calls[control.public_name] < 0
        if control.kind != "guard" or control.effect not in {"raise", "reject"}:
            return False
        denies = words.DENIAL.search(control.rejection) or "traversal" in control.rejection
        concerns = self._concerns(control, split_words(control.words))
        return bool(denies or (concerns and words.REFUSAL.search(control.rejection)))

    def _special_call(
        self, file: ControlledFile, control: Control
    ) -> tuple[str, str, float] | None:
        """A call that locks, bounds a number, or sets a security header."""
        if words.LOCKING.fullmatch(control.name) and self.is_same_work(file, control, new=2):
            return POSSIBLE_LOSS, "These statements run without", 0.7
        parts = split_words(control.words)
        if words.CLAMPS.fullmatch(control.name) and parts & (words.BOUND - {"len", "length"}):
            if parts & {"max", "limit", "maximum"} and self.is_same_work(file, control):
                return "bound-removed", "The limit is no longer enforced", 0.7
            return None
        header = control.name not in _READ and words.SENT_HEADERS.search(control.text)
        if header and self.is_same_work(file, control) and header.group() not in self._new_text:
            return "security-header-removed", "The header is no longer sent", 0.8
        return None

    def _unchecked(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        name = control.name
        alone = control.key.endswith("()") and split_words({name}) & words.SECURITY
        if (control.values or alone) and self.uses_value(file, control):
            return "check-removed", "The check is no longer made", 0.8
        return None

    def _loosened_call(
        self, file: ControlledFile, control: Control
    ) -> tuple[str, str, float] | None:
        """A comparison of the whole text that was replaced with one of its beginning or a part."""
        weaker = words.WEAKER_CALLS.get(control.name, ())
        for new in file.head.controls:
            if new.kind != "call" or new.scope != control.scope or not file.is_added(new):
                continue
            if new.name in weaker and new.words - {new.name} == control.words - {control.name}:
                return "condition-weakened", f"{new.name}() accepts more than", 0.8
            if new.name == control.name in _AFFIXES and new.words < control.words:
                return "condition-weakened", f"{new.name}() accepts more than", 0.7
        return None

    def _has_successor(self, control: Control) -> bool:
        """Whether the change adds another call that checks the same or has a similar name."""
        own = {part for part in split_words({control.name}) if not part.isdigit()}
        return any(
            new.name == control.name
            or own <= split_words({new.name})
            or (
                not new.values.isdisjoint(control.values)
                and new.name not in words.NORMALIZERS
                and control.name not in words.STRIPS
            )
            for new in self._new_checks
        )

    @cached_property
    def _new_checks(self) -> list[Control]:
        """The calls of checks that the change adds."""
        return [
            control
            for file in self._files
            for control in file.head.controls
            if control.kind == "call" and words.is_check(control.name) and file.is_added(control)
        ]

    def argument(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A limiting or protecting argument of a call that is still made."""
        hardens = words.is_hardening(control.name, control.text)
        if not hardens or not self.is_same_work(file, control, new=4):
            return None
        others = [
            other
            for other in file.head.controls
            if other.scope == control.scope and other.kind in {"argument", "call"}
        ]
        calls = [o for o in others if o.kind == "call" and o.name == control.follows]
        called = bool(calls) and not any("**" in call.text for call in calls)
        strong = words.STRONG_HARDENING.fullmatch(control.name)
        if self._passed_elsewhere(control) or not (called or strong):
            return None
        same = [
            o
            for o in others
            if o.kind == "argument" and (o.name, o.follows) == (control.name, control.follows)
        ]
        if same and not any({control.text, o.text} == {"True", "False"} for o in same):
            return None
        sure = strong or words.CONSTANT.fullmatch(control.text)
        code = POSSIBLE_LOSS if not sure or control.follows == "filter" else "hardening-removed"
        return code, f"{control.follows}() is called without {control.name}", 0.7

    def _passed_elsewhere(self, control: Control) -> bool:
        """Whether the change passes the same to another function."""
        passed = f"{control.name}={control.text}"
        return any(
            new.kind == "argument" and f"{new.name}={new.text}" == passed
            for file in self._files
            for new in file.head.controls
            if new.follows != control.follows
            and file.is_added(new)
            and self._head[new.identity] > self._base[new.identity]
        )

    def middleware(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A middleware of a route that still exists."""
        written = control.text
        passed = written.startswith("{") or "=>" in written or "function" in written
        if passed or not words.ACCESS.search(written) or words.NO_ACCESS.search(written):
            return None
        same = [c for c in file.head.controls if c.kind == "call" and control.follows in c.text]
        if not same or any(words.ACCESS.search(c.text) for c in same):
            return None
        if self.is_rewritten(control):
            return None
        return "access-control-removed", f"{control.follows} can be reached without", 0.8

    def decorator(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A decorator, dependency or base class that decides who may call."""
        written = control.text if file.path.endswith(".py") else control.text.partition(",")[0]
        if (
            control.scope not in file.head.scopes
            or not words.ACCESS.search(written)
            or words.NO_ACCESS.search(written)
        ):
            return None
        siblings = [
            c for c in file.head.controls if c.scope == control.scope and c.kind == control.kind
        ]
        added = [c for c in siblings if file.is_added(c)]
        if any(words.ACCESS.search(c.text) for c in added) or self.is_rewritten(control):
            return None
        return "access-control-removed", f"{control.scope} can be reached without", 0.9

    def entry(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """An entry of a deny list."""
        if split_words({control.name}).isdisjoint(words.EXCLUDING):
            return None
        kept = any(c.kind == "entry" and c.name == control.name for c in file.head.controls)
        if (
            not kept
            or len(control.text.split()) > ENTRY
            or any(
                c.words == control.words and c.kind == "entry" and file.is_added(c)
                for c in file.head.controls
            )
        ):
            return None
        return "denylist-shortened", f"{control.name} no longer holds", 0.8

    def setting(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A protective setting that was removed."""
        if words.HEADERS.search(control.name) and self.is_same_work(file, control, new=1):
            return "security-header-removed", "The header is no longer sent", 0.8
        parts = split_words({control.name})
        limits = parts & {"max", "limit", "perm", "perms", "permission", "permissions"}
        protects = words.SETTINGS.search(control.name[-SHOWN:])
        if not (limits or protects) or control.scope not in file.head.scopes:
            return None
        others = [c for c in file.head.controls if (c.kind, c.name) == ("setting", control.name)]
        if any(is_weaker(control, other) for other in others):
            return "hardening-removed", "A weaker value replaces", 0.7
        if file.goes_with_its_use(control):
            return None
        if others or not protects or (limits and not _CONSTANT.search(control.text)):
            return None
        if self.is_same_work(file, control) and not self.is_rewritten(control, share=0.5):
            return "hardening-removed", "This is no longer set", 0.6
        return None

    def delete(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """The removal of something sensitive from a table."""
        if words.CREDENTIAL_HEADERS.search(control.text) and self.is_same_work(
            file, control, new=1
        ):
            return _DISCLOSED
        return None

    def context(self, file: ControlledFile, control: Control) -> tuple[str, str, float] | None:
        """A lock or transaction around statements that still exist."""
        if not words.LOCKS.search(control.name) or not self.is_same_work(file, control, new=4):
            return None
        if control.follows in file.scope_lines(control.scope)[1] and not self.is_rewritten(control):
            return "lock-removed", "These statements run without", 0.8
        return None


_Judge = Callable[[Losses, ControlledFile, Control], tuple[str, str, float] | None]
_JUDGES: Mapping[str, _Judge] = {
    "guard": Losses.guard,
    "condition": Losses.condition,
    "filter": Losses.filter,
    "call": Losses.call,
    "argument": Losses.argument,
    "decorator": Losses.decorator,
    "middleware": Losses.middleware,
    "base": Losses.decorator,
    "entry": Losses.entry,
    "setting": Losses.setting,
    "delete": Losses.delete,
    "context": Losses.context,
}
