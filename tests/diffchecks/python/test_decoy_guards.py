"""A new check in the place of a guard: one that lets more pass, and one that asks the same."""

from collections.abc import Callable

import pytest

from diffchecks import removed_controls as check

Codes = Callable[..., list[str]]

PYTHON = """\
def get(request, key):
    doc = load(key)
    if doc.owner != request.user:
        raise PermissionError
    return doc
"""
SCRIPT = """\
export function get(req, key) {
  const doc = load(key);
  if (doc.owner !== req.user.id) {
    throw new Error('forbidden');
  }
  return doc;
}
"""
UPLOAD = """\
def upload(data, name):
    if data.size > MAX:
        raise ValueError('too large')
    if '..' in name:
        raise ValueError('bad name')
    save(data, name)
"""
OWNS, OWNS_SCRIPT = "doc.owner != request.user", "doc.owner !== req.user.id"
HELPER = "def allowed(doc, user):\n    return {}\n\n\n"
CASES = [
    ("a.py", PYTHON, OWNS, "doc.owner is None", "doc.owner_id != request.user.id"),
    ("a.py", PYTHON, OWNS, "doc.owner != request.args['owner']", "request.user != doc.owner"),
    ("a.py", PYTHON, OWNS, "not request.user.name", "not request.user.is_owner(doc)"),
    ("a.js", SCRIPT, OWNS_SCRIPT, "!req.user.id", "!owns(req.user, doc)"),
    ("a.js", SCRIPT, OWNS_SCRIPT, "doc.owner !== req.query.owner", "req.user.id !== doc.owner"),
    ("a.py", UPLOAD, "data.size > MAX", "data.size < 0", "data.size >= MAX"),
    ("a.py", UPLOAD, "'..' in name", "not name", "'..' in name.split('/')"),
    ("a.py", UPLOAD, "'..' in name", "name == '..'", "'/' in name or '..' in name"),
]


@pytest.mark.parametrize(("path", "was", "guard", "weak", "strong"), CASES)
def test_a_weaker_check_does_not_replace_a_guard(
    codes: Codes, path: str, was: str, guard: str, weak: str, strong: str
) -> None:
    assert codes(check, {path: was}, {path: was.replace(guard, weak)}) != []
    assert codes(check, {path: was}, {path: was.replace(guard, strong)}) == []


def test_a_helper_that_always_agrees_does_not_replace_a_guard(codes: Codes) -> None:
    now = PYTHON.replace(OWNS, "not allowed(doc, request.user)")
    agrees = codes(check, {"a.py": PYTHON}, {"a.py": HELPER.format("True") + now})
    asks = codes(check, {"a.py": PYTHON}, {"a.py": HELPER.format("doc.owner == user") + now})
    assert (agrees, asks) == (["guard-removed"], [])
