"""Guard clauses that a change keeps, but that reject less than before or too late."""

import re
from collections.abc import Iterable, Iterator, Sequence

from diffchecks.check_io import RawFinding
from diffchecks.removed_controls import vocabulary as words
from diffchecks.removed_controls.control import ControlledFile
from diffchecks.removed_controls.guard_flow import (
    TRUE,
    Formula,
    GuardedStatement,
    GuardFlow,
    StatementPlace,
    atoms,
    both,
    equal,
    implies,
    is_log,
    negate,
    only_logs,
    parts,
)
from diffchecks.removed_controls.pure_removal import adds_check
from diffchecks.removed_controls.reporting import shorten
from diffchecks.removed_controls.vocabulary import split_words

_WORDS = re.compile(r"[A-Za-z_]\w*|'[^'\n]*'|\"[^\"\n]*\"")
_CREDENTIALS = frozenset({"sig", "otp", "totp", "mfa", "captcha", "apikey"})
_NO = re.compile(r"(?i)\bfalse\b")
_CATCHES = re.compile(
    r"(?i)^$|\b(?:BaseException|Exception|StandardError|Throwable|Error)\b|denied|forbidden|unauthor|invalid|permission"
    r"|auth|signature|verif|security|validation"
)
_ACTS = frozenset(
    {"add", "apply", "approve", "charge", "commit", "create", "delete", "deploy", "destroy"}
    | {"dispatch", "drop", "enqueue", "erase", "exec", "execute", "grant", "insert", "invoke"}
    | {"issue", "kill", "move", "patch", "pay", "popen", "post", "publish", "purge", "put"}
    | {"refund", "remove", "rename", "reset", "revoke", "rmtree", "run", "save", "send", "set"}
    | {"spawn", "store", "submit", "system", "transfer", "truncate", "unlink", "update"}
    | {"upload", "wipe", "write"}
)


def find_weakened_guards(files: Iterable[ControlledFile]) -> Iterator[RawFinding]:
    """Report guards of functions in both versions, one finding for each function."""
    for file in files:
        for scope, before in file.base.flows.items():
            after = file.head.flows.get(scope)
            if after is None or before.places == after.places or adds_check(file, scope):
                continue
            found = next(_compare(file, before, after), None)
            if found:
                yield found


def _compare(file: ControlledFile, before: GuardFlow, after: GuardFlow) -> Iterator[RawFinding]:
    strict = any(place.step.exit in {"raise", "reject"} for place in before.denials)
    for denial in before.denials:
        accepts = strict and denial.step.exit == "return" and not _NO.search(denial.step.text)
        if denial.swallows or not denial.plain or accepts:  # as a check does that raises otherwise
            continue
        for part in parts(_own_test(denial)):
            condition = both(denial.outer, part)
            if not _protects(part, denial):
                continue
            if not after.covers(condition, denial, full=False) and not after.covers(
                both(denial.full, part), denial, full=True
            ):
                yield from _weakened(file, condition, denial, before, after)
        yield from _displaced(file, denial, before, after)
    yield from _swallowed_calls(file, before, after)


def _own_test(denial: StatementPlace) -> Formula:
    """The condition of the branch that denies."""
    test = (denial.branch.test if denial.branch else None) or TRUE
    return test if denial.path[-2] == 0 else negate(test)


def _protects(condition: Formula, denial: StatementPlace) -> bool:
    """Whether a guard is about access or about the content of a value."""
    text = " ; ".join(sorted(atoms(condition)))
    found = frozenset(_WORDS.findall(text))
    if not found or not found.isdisjoint(words.LEGACY) or words.NO_DECISION.match(text):
        return False
    said = split_words(found)
    rejection = denial.step.text
    if denial.step.exit == "return":
        said -= words.VALUES
        rejection = ""
    return bool(
        not said.isdisjoint(words.SECURITY | _CREDENTIALS)
        or any(map(words.INJECTED.match, found))
        or words.OWNERS.search(text)
        or words.PREDICATE.search(text)
        or words.DENIAL.search(rejection)
        or not split_words(set(_WORDS.findall(rejection.partition("(")[0]))).isdisjoint(
            words.SECURITY
        )
    )


def _weakened(
    file: ControlledFile,
    condition: Formula,
    denial: StatementPlace,
    before: GuardFlow,
    after: GuardFlow,
) -> Iterator[RawFinding]:
    """A guard whose condition no longer covers what it did, or that no longer rejects."""
    own = atoms(condition)
    known = [place.local for place in before.denials if place.branch]
    for new in after.denials:
        if not new.plain or new.swallows or not own <= atoms(new.local) or new.local in known:
            continue
        if implies(("and", (new.local, condition)), ("or", ())):
            says = "The guard rejects the opposite of what it rejected"
        else:
            says = "The guard rejects less than before"
        yield _finding(file, "guard-weakened", says, denial, _shown(new))
        return
    whole = both(denial.outer, _own_test(denial))
    side = denial.path[-2]
    for place in after.places:
        step = place.step
        if step.test is None:
            continue
        test = step.test if side == 0 else negate(step.test)
        body, other = (step.body, step.orelse) if side == 0 else (step.orelse, step.body)
        old = _shown(denial)
        old_other = old.orelse if side == 0 else old.body
        if not only_logs(body) or not equal(both(place.around, test), whole):
            continue
        if body and (not other or old_other):
            says = "The condition is still checked, but nothing is rejected"
            yield _finding(file, "guard-without-effect", says, denial, step)
            return


def _displaced(
    file: ControlledFile, denial: StatementPlace, before: GuardFlow, after: GuardFlow
) -> Iterator[RawFinding]:
    """A guard that is still made, after what it guarded or where its rejection is lost."""
    if not _protects(_own_test(denial), denial):
        return
    same = [new for new in after.denials if equal(new.local, denial.local)]
    if not same:
        return
    if all(_is_ignored(new) for new in same):
        says = "The rejection is caught and ignored"
        yield _finding(
            file, "guard-exception-ignored", says, denial, same[0].branch or same[0].step
        )
        return
    late = [_overtaken(denial.path[:-2], new.path[:-2], before, after) for new in same]
    if all(late):
        says = f"The guard runs after what it guarded, {shorten(late[0])}"
        yield _finding(file, "guard-too-late", says, denial, _shown(same[0]))


def _is_ignored(place: StatementPlace) -> bool:
    """Whether a handler without consequence around it catches the exception."""
    raised = place.step.text.removeprefix("raise ").partition("(")[0]
    return any(
        _CATCHES.search(caught) or raised in re.split(r"[^\w.]+", caught)
        for caught in place.swallows
    )


def _overtaken(was: Sequence[int], now: Sequence[int], before: GuardFlow, after: GuardFlow) -> str:
    """An action that followed the guard in base and precedes it in head; empty if none."""
    followed = {
        place.step.text
        for place in before.places
        if _acts(place.step) and place.path > tuple(was) and _in_block(was, place.path)
    }
    preceded = {place.step.text for place in before.places if place.path < tuple(was)}
    for place in after.places:
        step = place.step
        moved = step.text in followed - preceded and place.path < tuple(now)
        if moved and _in_block(place.path, now):
            return step.text
    return ""


def _in_block(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the other statement is in the block of the one, at any depth."""
    return tuple(other[: len(one) - 1]) == tuple(one[:-1])


def _acts(step: GuardedStatement) -> bool:
    """Whether a statement changes something, or gives out data."""
    if step.exit == "value":
        return True
    called = (name.rpartition(".")[2] for name in step.calls if not is_log(name))
    return not step.exit and not _ACTS.isdisjoint(split_words(set(called)))


def _swallowed_calls(
    file: ControlledFile, before: GuardFlow, after: GuardFlow
) -> Iterator[RawFinding]:
    """Calls of checks whose exception is now ignored."""
    for place in before.places:
        step = place.step
        if not step.alone or place.swallows or step.exit or not _is_check(step):
            continue
        same = [new for new in after.places if new.step.text == step.text]
        if same and all(_is_ignored(new) for new in same):
            says = "The exception of the check is caught and ignored"
            yield _finding(file, "guard-exception-ignored", says, place, same[0].step)


def _is_check(step: GuardedStatement) -> bool:
    name = step.calls[0].rpartition(".")[2]
    return words.is_check(name) and not is_log(step.calls[0])


def _shown(place: StatementPlace) -> GuardedStatement:
    """The branch of a rejection."""
    return place.branch or place.step


def _finding(
    file: ControlledFile, code: str, says: str, old: StatementPlace, new: GuardedStatement
) -> RawFinding:
    lines = file.text.base
    was = _shown(old) if old.denies else old.step
    text = shorten(lines[was.line - 1])
    return RawFinding(
        code,
        file.path,
        new.line,
        f"{says}: {text}",
        confidence=0.7,
        removed_path=file.old_path,
        removed_line=was.line,
    )
