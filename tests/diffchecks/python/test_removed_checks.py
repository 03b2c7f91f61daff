"""Leads: lines that may protect and that a change removes or alters. No rule counts them."""

from collections.abc import Callable
from typing import Any

import pytest

from diffchecks import removed_controls as check

Compare = Callable[..., Any]

CONDITION, ALTERED, OTHER = "removed-condition", "altered-condition", "removed-protection"
DENIAL = "denial-removed"
GUARD = """\
def send(name, value):
    if "\\r" in value or "\\n" in value:
        raise ValueError("line break in a header")
    line = encode(name, value)
    return write(line)
"""
BREAK = (
    '    if "\\r" in value or "\\n" in value:\n        raise ValueError("line break in a header")\n'
)
ADMIN = "def drop(user, doc):\n    if not user.is_admin:\n        raise Denied\n    doc.delete()\n"
# A file, the code before, what of it goes, what comes, and its code.
LOST = [
    ("a.py", GUARD, BREAK, "", CONDITION),
    ("a.py", ADMIN, "    if not user.is_admin:\n        raise Denied\n", "", DENIAL),
    ("a.py", ADMIN, "not user.is_admin", "user.is_admin", ALTERED),
    ("a.py", ADMIN, "not user.is_admin", "not user.is_admin and not user.is_active", ALTERED),
    ("a.py", ADMIN, "user.is_admin", "user.is_active", ALTERED),
    ("a.py", "def f(a):\n    assert a.is_staff\n    return g(a)\n", "    assert a.is_staff\n", "", DENIAL),
    ("a.py", "def f(a):\n    if len(a) > MAX:\n        raise Error\n    g(a)\n", "    if len(a) > MAX:\n        raise Error\n", "", CONDITION),
    ("a.py", "def f(a):\n    check_owner(a)\n    g(a)\n", "    check_owner(a)\n", "", OTHER),
    ("a.py", "def f(a):\n    revoke_tokens(a)\n    g(a)\n", "    revoke_tokens(a)\n", "", OTHER),
    ("a.py", "get(url, allow_redirects=False)\n", ", allow_redirects=False", "", OTHER),
    ("a.py", "def f(a):\n    with self.lock:\n        a.n += 1\n", "    with self.lock:\n        a", "    a", OTHER),
    ("a.py", "del headers['Authorization']\nsend(headers)\n", "del headers['Authorization']\n", "", OTHER),
    ("a.py", "return user.active and doc.owner == user\n", " and doc.owner == user", "", OTHER),
    ("a.js", "function f(a) {\n  if (!isOwner(a)) throw new Error();\n  g(a);\n}\n", "  if (!isOwner(a)) throw new Error();\n", "", DENIAL),
    ("a.js", "res.setHeader('X-Frame-Options', 'DENY');\nend();\n", "res.setHeader('X-Frame-Options', 'DENY');\n", "", OTHER),
    ("a.go", "func f(r R) error {\n\tif r.Host != trusted {\n\t\treturn ErrHost\n\t}\n\treturn g(r)\n}\n", "\tif r.Host != trusted {\n\t\treturn ErrHost\n\t}\n", "", CONDITION),
    ("a.rb", "def f(u)\n  raise Forbidden unless u.admin?\n  g(u)\nend\n", "  raise Forbidden unless u.admin?\n", "", DENIAL),
    ("a.php", "<?php\nfunction f($u) {\n  if (!is_admin($u)) { throw new Forbidden(); }\n  return g($u);\n}\n", "if", "#if", DENIAL),
    ("a.rs", "fn f(u: U) -> R {\n    if !u.allowed() { return Err(Denied); }\n    g(u)\n}\n", "    if !u.allowed() { return Err(Denied); }\n", "", CONDITION),
]  # fmt: skip


@pytest.mark.parametrize(("path", "was", "gone", "comes", "code"), LOST)
def test_a_line_that_may_protect_and_goes_is_a_lead(
    compare: Compare, path: str, was: str, gone: str, comes: str, code: str
) -> None:
    assert gone in was
    now = was.replace(gone, comes)
    (lead,) = compare(check, {path: was}, {path: now}).findings
    assert (lead.code, lead.removed_path) == (code, path)
    assert lead.removed_line == was[: was.index(gone)].count("\n") + 1


@pytest.mark.parametrize(
    ("path", "was", "now"),
    [
        # it moved, in the file or to another one
        ("a.py", GUARD, GUARD.replace(BREAK, "") + "\n\ndef check(value):\n" + BREAK),
        # nothing is rejected, and no word speaks of protection
        ("a.py", "if a:\n    b()\nc()\n", "c()\n"),
        ("a.py", "total = add(a)\nc()\n", "c()\n"),
        # no code, and code that may do as it likes
        ("a.md", "Only an owner may do it.\n\nb\n", "b\n"),
        ("a.py", "# the owner decides\nc()\n", "c()\n"),
        ("tests/test_a.py", GUARD, GUARD.replace(BREAK, "")),
        # a definition that goes, and code that is replaced as a whole
        ("a.py", "def f():\n    return 1\n\n\nx = 1\n", "x = 1\n"),
        ("a.py", GUARD * 20, "x = 1\n"),
    ],
)
def test_a_line_that_stays_or_does_not_protect_is_no_lead(
    compare: Compare, path: str, was: str, now: str
) -> None:
    assert compare(check, {path: was}, {path: now}).findings == []


def test_there_is_one_lead_for_each_place_and_none_beside_a_finding(compare: Compare) -> None:
    was = "a = escape(b)\nx = 1\nlog(a)\nshow(a)\ncheck_role(b)\nverify(b)\n"
    now = "a = b\nx = 1\nlog(a)\nshow(a)\n"
    found = compare(check, {"a.py": was}, {"a.py": now}).findings
    assert [(one.code, one.removed_line) for one in found] == [("escape-removed", 0), (OTHER, 5)]


def test_long_lines_of_such_words_are_read_in_bounded_time(compare: Compare) -> None:
    was = "if (" + "return auth " * 50_000 + ") throw 1;\n" + "secure: true, " * 3_000 + "\na\n"
    assert compare(check, {"a.ts": was}, {"a.ts": "a\n"}).gaps == {
        "a.ts": "a changed line is longer than 20000 characters"
    }
    assert compare(check, {"a.rs": was}, {"a.rs": "a\n"}).findings == []
