"""Conditions that a change removes from a function without a replacement."""

import re

from diffchecks.removed_controls import vocabulary as words
from diffchecks.removed_controls.control import Control, ControlledFile
from diffchecks.removed_controls.decoys import is_constant, is_decoy
from diffchecks.removed_controls.vocabulary import split_words

NEW_NAMES = 1  # in a function that no longer raises: a different spelling of existing code
MIN_UNCHANGED_LINES = 3  # minimum unchanged lines if a name is new
MOSTLY_GONE = 4  # removed lines per added line from which a change is a pure removal

CONDITIONS = frozenset({"guard", "condition", "filter"})

_FLOW = re.compile(r"StopIteration|StopAsyncIteration|NotImplemented|ImportError")
# Common conditions: whether something failed, exists, or has a type.
_ORDINARY = re.compile(
    r"^[!(]*\$?[\w.]+\)*$|\b(?:err|errors?|ok|stderr|er?|ex)\b|\b(?:typeof|instanceof|is_a\?|isinstance"
    r"|hasattr|callable|function_exists|class_exists|isset|empty)\b|\b(?:len|count|size)\(|\.length\b"
    r"|(?i:debug|verbose|quiet|test)"
)
_DECIDES = (words.ACCESS, words.OWNERS, words.PREDICATE)
_DECISIVE = (
    words.AUTHORITY
    | words.DENYING
    | frozenset({"cors", "escape", "escaped", "nonce", "origin", "safe", "sanitize", "scheme"})
    | frozenset({"secret", "traversal", "trust"})
)


def finds_rejection_lost(file: ControlledFile, control: Control) -> bool:
    """Whether a rejection was removed that nothing new in its function can replace.

    The condition's words do not matter: a function that only gets shorter accepts more.
    """
    if control.scope not in file.head.scopes or words.EMPTINESS.search(control.text.lstrip("!( ")):
        return False
    came, went, kept = _lines(file, control)
    if came > max(2, went // 2):
        return False
    new = len(file.new_words(control.scope))
    if control.effect == "raise":
        few = new == 0 or (
            new <= NEW_NAMES and MOSTLY_GONE * came <= 2 * went and kept >= MIN_UNCHANGED_LINES
        )
        return few and not _FLOW.search(control.rejection)
    shrinks = new == 0 and MOSTLY_GONE * came <= went
    return shrinks and not _ORDINARY.search(control.text)


def finds_denial_lost(file: ControlledFile, control: Control) -> bool:
    """Whether access is no longer denied in a function that still calls what this guarded.

    The function may be rewritten otherwise. Nothing that the change adds may take over: no decision
    about access in the same file, and no condition on the same values in the function.
    """
    denies = control.effect in {"raise", "reject"} and words.DENIAL.search(control.rejection)
    if not denies or not control.scope or control.scope not in file.head.scopes:
        return False
    if any(pattern.search(file.text.added_text) for pattern in _DECIDES):
        return False
    before, after = (
        [each for each in version.controls if each.scope == control.scope]
        for version in (file.base, file.head)
    )
    if any(
        each.kind in {"guard", "condition"}
        and file.is_added(each)
        and not is_decoy(control, each)
        and not each.words.isdisjoint(control.words)
        for each in after
    ):
        return False
    guarded = {each.name for each in before if each.kind == "call" and each.line > control.end}
    return any(each.kind == "call" and each.name in guarded for each in after)


def adds_check(file: ControlledFile, scope: str, values: frozenset[str] = frozenset()) -> bool:
    """Whether the change adds a check to a function that may take over, of those values if any."""
    old = {control.key for control in file.base.controls if control.scope == scope}
    return any(
        (
            control.kind == "call"
            and words.is_check(control.name)
            and not is_constant(file, control.name)
            and (not values or not values.isdisjoint(control.values))
        )
        or (control.kind == "decorator" and words.ACCESS.search(control.text))
        for control in file.head.controls
        if control.scope == scope and control.key not in old and file.is_added(control)
    )


def decides_still(file: ControlledFile, control: Control) -> bool:
    """Whether the change checks the same permission in the same function in another way."""
    rights = {word for word in control.words if split_words({word}) & words.SECURITY}
    return bool(rights) and any(
        new.kind in CONDITIONS and new.scope == control.scope
        for new in file.head.controls
        if rights <= new.words and file.is_added(new)
    )


def finds_decision_lost(file: ControlledFile, control: Control) -> bool:
    """Whether a deciding condition was removed together with the code under it."""
    if control.scope not in file.head.scopes:
        return False
    came, went, _ = _lines(file, control)
    if 2 * came > went or file.new_words(control.scope):
        return False
    parts = split_words({word for word in control.words if word[0] not in "'\""})
    return bool(
        not parts.isdisjoint(_DECISIVE)
        or words.PREDICATE.search(control.text)
        or any(map(words.INJECTED.match, control.words))
    )


def _lines(file: ControlledFile, control: Control) -> tuple[int, int, int]:
    """The numbers of added, removed and unchanged lines of the function."""
    before, after = file.scope_lines(control.scope)
    return (after - before).total(), (before - after).total(), (before & after).total()
