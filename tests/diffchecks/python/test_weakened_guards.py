"""Guards that a change keeps but makes ineffective, and rewrites that keep what they reject."""

from collections.abc import Callable

import pytest

from diffchecks import removed_controls as check

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
    # an early return of a check accepts
    (function("if user.is_admin:", "    return", "raise Denied"),
     function("if user.is_admin and user.is_active:", "    return", "raise Denied")),
    # no protection
    (function("if not doc.title:", "    raise ValueError", "doc.save()"),
     function("if not doc.title and doc.url:", "    raise ValueError", "doc.save()")),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now"), KEPT)
def test_a_guard_that_rejects_as_much_as_before(codes: Codes, was: str, now: str) -> None:
    assert codes(check, {"app.py": was}, {"app.py": now}) == []


# File → its beginning, the condition and the opposite, the denial, a log entry, the action, the end.
OTHER = {
    "a.ts": ("function f(user, doc) {", "if (%s) {", "user.isAdmin", "!", "&&", "throw new Denied();",
             "console.warn('no');", "}", "doc.remove();", "return doc;\n}"),
    "b.js": ("app.post('/x', (user, doc) => {", "if (%s) {", "user.isAdmin", "!", "&&",
             "return doc.status(403).end();", "logger.info('no');", "}", "doc.save(user);", "});"),
    "a.go": ("package a\n\nfunc f(user User, doc Doc) error {", "if %s {", "user.IsAdmin", "!", "&&",
             "return ErrForbidden", 'log.Printf("no")', "}", "doc.Remove()", "return nil\n}"),
    "A.java": ("class A {\nvoid f(User user, Doc doc) {", "if (%s) {", "user.isAdmin()", "!", "&&",
               "throw new AccessDenied();", 'log.warn("no");', "}", "doc.remove();", "}\n}"),
    "a.rb": ("def f(user, doc)", "if %s", "user.admin?", "!", "&&", "raise Forbidden",
             "logger.warn('no')", "end", "doc.remove(1)", "end"),
    "a.php": ("<?php\nfunction f($user, $doc) {", "if (%s) {", "$user->isAdmin()", "!", "&&",
              "throw new Denied();", "error_log('no');", "}", "$doc->remove();", "}"),
}  # fmt: skip


@pytest.mark.parametrize("path", OTHER)
def test_a_guard_in_another_language(codes: Codes, path: str) -> None:
    start, branch, right, no, conjunction, deny, log, close, act, end = OTHER[path]

    def write(test: str, done: str = deny, before: str = "", after: str = act) -> dict[str, str]:
        lines = (start, before, branch % test, done, close, after, end)
        return {path: "\n".join(filter(None, lines)) + "\n"}

    was = write(no + right)
    assert codes(check, was, write(f"{no}{right} {conjunction} strict")) == ["guard-weakened"]
    assert codes(check, was, write(right)) == ["guard-weakened"]
    assert codes(check, was, write(no + right, log)) == ["guard-without-effect"]
    assert codes(check, was, write(no + right, before=act, after="")) == ["guard-too-late"]
    assert codes(check, was, write(f"{no}{right} || strict")) == []
    assert codes(check, write(f"{no}{right} {conjunction} strict"), was) == []
    assert codes(check, was, write(f"{no}({right})")) == []


CATCHING = {
    "a.js": ("function f(doc) {\n%s  doc.save();\n}\n", "check_token(doc);",
             "try {\n%s\n} catch (e) {\n%s}\n", "throw e;\n"),
    "A.java": ("class A {\nvoid f(Doc doc) {\n%s  doc.save();\n}\n}\n", "checkToken(doc);",
               "try {\n%s\n} catch (Exception e) {\n%s}\n", "throw e;\n"),
    "a.rb": ("def f(doc)\n%s  doc.save(1)\nend\n", "check_token(doc)",
             "begin\n%s\nrescue => e\n%send\n", "raise e\n"),
    "a.php": ("<?php\nfunction f($doc) {\n%s  $doc->save();\n}\n", "check_token($doc);",
              "try {\n%s\n} catch (\\Exception $e) {\n%s}\n", "throw $e;\n"),
}  # fmt: skip


@pytest.mark.parametrize("path", CATCHING)
def test_a_check_in_another_language_whose_exception_is_ignored(codes: Codes, path: str) -> None:
    around, call, catch, again = CATCHING[path]
    was = {path: around % (call + "\n")}
    now, kept = ({path: around % (catch % (call, done))} for done in ("", again))
    assert codes(check, was, now) == ["guard-exception-ignored"]
    assert codes(check, was, kept) == []
