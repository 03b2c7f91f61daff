"""Guards that a change keeps but makes ineffective, and rewrites that keep what they reject."""

from collections.abc import Callable

import pytest

from orchestrator.checks import removed_controls as check

Codes = Callable[..., list[str]]


def function(*lines: str) -> str:
    return "\n".join(("def drop(user, doc, sig):", *(f"    {line}" for line in lines), ""))


ADMIN = function(
    "if not user.is_admin:", "    raise PermissionError('admins')", "doc.delete()", "return doc"
)
SIGNED = function("if not ok(sig):", "    raise ValueError('sig')", "doc.save()", "return doc")
OWNER = function("if doc.owner != user or doc.locked:", "    abort(403)", "doc.save()")
ANSWER = function("if not user.is_admin:", "    return 'no', 403", "doc.save()", "return 'ok'")
TOKEN = function("if sig != user.token:", "    raise Denied", "return read(doc)")
CALLED = function("check_signature(sig, doc)", "doc.save()", "return doc")


def ignored(caught: str, *lines: str) -> str:
    return function(
        "try:", *(f"    {line}" for line in lines), f"except{caught}:", "    pass", "doc.save()",
        "return doc",
    )  # fmt: skip


LOST = [
    ("guard-weakened", ADMIN, ADMIN.replace("is_admin:", "is_admin and not user.is_active:")),
    ("guard-weakened", ADMIN, ADMIN.replace("not user.is_admin", "not (user.is_admin or user.x)")),
    ("guard-weakened", ADMIN, ADMIN.replace("not user", "False and not user")),
    ("guard-weakened", SIGNED, SIGNED.replace("ok(sig):", "ok(sig) and strict:")),
    ("guard-weakened", SIGNED, SIGNED.replace("not ok(sig)", "ok(sig)")),
    ("guard-weakened", OWNER, OWNER.replace(" or ", " and ")),
    ("guard-weakened", ANSWER, ANSWER.replace("not ", "")),
    ("guard-weakened", TOKEN, TOKEN.replace("!=", "==")),
    (
        "guard-weakened",
        function("assert user.is_staff", "doc.delete()"),
        function("assert user.is_staff or user.is_active", "doc.delete()"),
    ),
    ("guard-without-effect", ADMIN, ADMIN.replace("raise PermissionError(", "log.warning(")),
    ("guard-without-effect", OWNER, OWNER.replace("abort(403)", "pass")),
    ("guard-without-effect", ANSWER, ANSWER.replace("return 'no', 403", "print('no')")),
    (
        "guard-too-late",
        ADMIN,
        function("doc.delete()", "if not user.is_admin:", "    raise PermissionError('admins')",
                 "return doc"),
    ),
    (
        "guard-too-late",
        TOKEN,
        function("return read(doc)", "if sig != user.token:", "    raise Denied"),
    ),
    (
        "guard-exception-ignored",
        SIGNED,
        ignored(" ValueError", "if not ok(sig):", "    raise ValueError('sig')"),
    ),
    ("guard-exception-ignored", CALLED, ignored(" Exception", "check_signature(sig, doc)")),
    ("guard-exception-ignored", CALLED, ignored("", "check_signature(sig, doc)")),
    (
        "guard-exception-ignored",
        CALLED,
        function("with contextlib.suppress(Exception):", "    check_signature(sig, doc)",
                 "doc.save()", "return doc"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("code", "was", "now"), LOST)
def test_a_guard_that_rejects_less_or_too_late(codes: Codes, code: str, was: str, now: str) -> None:
    assert codes(check, {"app.py": was}, {"app.py": now}) == [code]


KEPT = [
    # stricter
    (ADMIN, ADMIN.replace("is_admin:", "is_admin or not user.is_active:")),
    (OWNER.replace(" or ", " and "), OWNER),
    (SIGNED, SIGNED.replace("doc.save", "if doc.locked:\n        raise Locked\n    doc.save")),
    # the same in another form
    (OWNER, OWNER.replace("doc.owner != user or doc.locked", "not (doc.owner == user and not doc.locked)")),
    (OWNER, OWNER.replace("doc.owner != user", "user != doc.owner")),
    (OWNER, function("if doc.owner != user:", "    abort(403)", "if doc.locked:", "    abort(403)",
                     "doc.save()")),
    (function("if user:", "    if not user.is_admin:", "        raise Denied", "doc.save()"),
     function("if user and not user.is_admin:", "    raise Denied", "doc.save()")),
    (SIGNED, function("if ok(sig):", "    doc.save()", "    return doc", "else:",
                      "    raise ValueError('sig')")),
    (SIGNED, function("if ok(sig):", "    doc.save()", "    return doc", "raise ValueError('sig')")),
    (SIGNED, function("if ok(sig):", "    doc.save()", "    return doc", "log.warning('sig')")),
    # another denial
    (ADMIN, ADMIN.replace("PermissionError", "Forbidden")),
    (ADMIN, ADMIN.replace("raise PermissionError('admins')", "return redirect(login)")),
    (ADMIN, ADMIN.replace("raise PermissionError('admins')", "return None")),
    (ADMIN, ADMIN.replace("raise PermissionError('admins')", "doc = hide(doc)")),
    # elsewhere
    (ADMIN, function("require_admin(user)", "doc.delete()", "return doc")),
    (ADMIN, "@admin_required\n" + function("if not user.is_admin and strict:", "    raise Denied",
                                           "doc.delete()", "return doc")),
    # what does not act may come first, and what is caught may still be rejected
    (ADMIN, ADMIN.replace("    if not", "    name = doc.title()\n    log.info(name)\n    if not", 1)),
    (CALLED, ignored(" Exception", "check_signature(sig, doc)").replace("pass", "return None")),
    (CALLED, ignored(" Exception", "check_signature(sig, doc)").replace("pass", "raise Denied")),
    # no protection
    (function("if not doc.title:", "    raise ValueError", "doc.save()"),
     function("if not doc.title and doc.url:", "    raise ValueError", "doc.save()")),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now"), KEPT)
def test_a_guard_that_rejects_as_much_as_before(codes: Codes, was: str, now: str) -> None:
    assert codes(check, {"app.py": was}, {"app.py": now}) == []
