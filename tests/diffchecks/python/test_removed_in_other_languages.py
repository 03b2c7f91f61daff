"""Controls that a change takes out of JavaScript, Go, Java, PHP and Ruby, and what only looks so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from diffchecks import removed_controls as check

Codes = Callable[..., list[str]]


def js(*lines: str) -> str:
    return "\n".join(("function act(user, item) {", *(f"  {line}" for line in lines), "}", ""))


LOST = [
    # a part of the condition of a block, or of an answer
    (
        "condition-weakened",
        "a.js",
        js("if (item.open && user.isAdmin) {", "  remove(item);", "}", "return user;"),
        js("if (item.open) {", "  remove(item);", "}", "return user;"),
    ),
    (
        "condition-weakened",
        "a.ts",
        js("return item.open && isAllowed(user);"),
        js("return item.open;"),
    ),
    # whose it is, and where it leads
    (
        "guard-removed",
        "a.go",
        "package a\n\nfunc act(c *Context) {\n\tif item.RepoID != c.Repo.ID {\n\t\tc.NotFound()\n"
        "\t\treturn\n\t}\n\tremove(item, c)\n\tsave(c)\n}\n",
        "package a\n\nfunc act(c *Context) {\n\tremove(item, c)\n\tsave(c)\n}\n",
    ),
    (
        "guard-removed",
        "a.js",
        js("if (item === '__proto__') return true;", "user[item] = 1;", "return save(user);"),
        js("user[item] = 1;", "return save(user);"),
    ),
    (
        "guard-removed",
        "a.js",
        "exports.act = function (user, item) {\n  if (!isOwner(user, item)) throw new Forbidden();\n"
        "  remove(item, user);\n  return save(user);\n};\n",
        "exports.act = function (user, item) {\n  remove(item, user);\n  return save(user);\n};\n",
    ),
    # how much
    (
        "bound-removed",
        "a.js",
        js("if (item.length > 2048) throw Error('too long');", "return parse(item, user);"),
        js("return parse(item, user);"),
    ),
    (
        "bound-removed",
        "a.ts",
        js("const size = Math.min(item.size, maxSize);", "return read(item, size);"),
        js("const size = item.size;", "return read(item, size);"),
    ),
    # who may call
    (
        "access-control-removed",
        "A.java",
        "class A {\n  @PreAuthorize(\"hasRole('ADMIN')\")\n  void act(Item item) {\n    remove(item);\n"
        "    save(item);\n  }\n}\n",
        "class A {\n  void act(Item item) {\n    remove(item);\n    save(item);\n  }\n}\n",
    ),
    (
        "access-control-removed",
        "a.rb",
        "class A < B\n  before_action :authenticate_user!\n\n  def act\n    1\n  end\nend\n",
        "class A < B\n\n  def act\n    1\n  end\nend\n",
    ),
    (
        "access-control-removed",
        "a.js",
        "router.post('/act', requireAuth, act);\nrouter.get('/', show);\n",
        "router.post('/act', act);\nrouter.get('/', show);\n",
    ),
    # a lock, a header, a deny list
    (
        "possible-loss",
        "a.go",
        "package a\n\nfunc (s *S) act() {\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n\ts.n++\n"
        "\ts.save()\n\ts.show()\n}\n",
        "package a\n\nfunc (s *S) act() {\n\ts.n++\n\ts.save()\n\ts.show()\n}\n",
    ),
    (
        "security-header-removed",
        "a.js",
        js("item.setHeader('X-Frame-Options', 'DENY');", "return item.end(user);"),
        js("return item.end(user);"),
    ),
    (
        "denylist-shortened",
        "A.java",
        'class A {\n  void a(X x) {\n    x.denyTypes(new String[]{"a.B", "c.D"});\n    go(x);\n  }\n}\n',
        'class A {\n  void a(X x) {\n    x.denyTypes(new String[]{"a.B"});\n    go(x);\n  }\n}\n',
    ),
    ("escape-removed", "a.php", "<?php\nshow(intval($id));\n", "<?php\nshow($id);\n"),
    (
        "condition-weakened",
        "a.ts",
        js("const root = base + path.sep;", "return item.startsWith(root);"),
        js("const root = base;", "return item.startsWith(root);"),
    ),
]
KEPT = [
    # a function of another package now, which Go exports by its first letter
    (
        "a.go",
        "package a\n\nfunc act(c *Context, code string) {\n\tif user := verifyCode(code); user != nil {\n"
        "\t\tremove(user, c)\n\t}\n}\n\nfunc verifyCode(code string) *User {\n\treturn find(code)\n}\n",
        "package a\n\nfunc act(c *Context, code string) {\n\tif user := VerifyCode(code); user != nil {\n"
        "\t\tremove(user, c)\n\t}\n}\n\nfunc VerifyCode(code string) *User {\n\treturn find(code)\n}\n",
    ),
    # no right and no limit
    (
        "a.js",
        js("if (item.open && user.ready) {", "  show(item);", "}"),
        js("if (item.open) {", "  show(item);", "}"),
    ),
    ("a.js", js("if (item.length > 0) return 1;", "return show(item);"), js("return show(item);")),
    (
        "a.js",
        js("const x = Math.min(item.a, item.b);", "return show(x);"),
        js("const x = item.a;", "return show(x);"),
    ),
    (
        "a.go",
        "package a\n\nfunc act(c *Context) {\n\tif c.Name == nil {\n\t\treturn\n\t}\n\tsave(c)\n\tshow(c)\n}\n",
        "package a\n\nfunc act(c *Context) {\n\tsave(c)\n\tshow(c)\n}\n",
    ),
    # elsewhere or in another way
    (
        "a.js",
        "router.post('/act', requireAuth, act);\n",
        "router.use(requireAuth);\nrouter.post('/act', act);\n",
    ),
    (
        "a.js",
        js("if (item.open && user.isAdmin) {", "  remove(item);", "}"),
        js("if (user.isAdmin) {", "  if (item.open) {", "    remove(item);", "  }", "}"),
    ),
    (  # a check for null, under another name
        "A.java",
        "class A {\n  X a(X x) {\n    return (X) Validate.ensureNotNull(\n      x);\n  }\n}\n",
        "class A {\n  X a(X x) {\n    return Validate.expectNotNull(\n      x);\n  }\n}\n",
    ),
    (  # the same error, with another message and its conditions under names
        "A.java",
        'class A {\n  void a(R r) {\n    String t = r.type();\n    if (t != null && !t.startsWith("text/"))\n'
        '      throw new BadTypeException("Unhandled type. Must be */xml", t);\n    go(r);\n    show(r);\n    log(r);\n    count(r);\n    save(r);\n    end(r);\n  }\n}\n',
        "class A {\n  void a(R r) {\n    String t = r.type();\n"
        "    if (t != null && !isXml)\n"
        '      throw new BadTypeException("Unhandled type. Must be XML", t);\n    go(r);\n    show(r);\n    log(r);\n    count(r);\n    save(r);\n    end(r);\n  }\n}\n',
    ),
    ("a.js", "const a = require('a');\nshow(a);\n", "show(a);\n"),
    (
        "a.ts",
        js("const root = base + path.sep;", "return item.startsWith(root);"),
        js("let root = base;", "root += path.sep;", "return item.startsWith(root);"),
    ),
]


@pytest.mark.parametrize(("code", "path", "was", "now"), LOST)
def test_a_removed_control(codes: Codes, code: str, path: str, was: str, now: str) -> None:
    assert codes(check, {path: was}, {path: now}) == [code]
    assert codes(check, {path: now}, {path: was}) == []


@pytest.mark.parametrize(("path", "was", "now"), KEPT)
def test_a_change_that_removes_no_control(codes: Codes, path: str, was: str, now: str) -> None:
    assert codes(check, {path: was}, {path: now}) == []


@pytest.mark.parametrize(
    ("was", "gaps"),
    [
        ("f(1);\n", {"all.js": "a changed line is longer than 20000 characters"}),
        ("f(1);" * 5000, {}),  # built from sources, in base already
    ],
)
def test_a_changed_line_that_a_program_packed_is_a_gap_where_it_is_new(
    tmp_path: Path, was: str, gaps: dict[str, str]
) -> None:
    for side, text in (("base", was), ("head", "f(2);" * 5000)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "all.js").write_text(text)
    file = {"path": "all.js", "old_path": "all.js", "status": "modified"}
    roots = {f"{side}_root": str(tmp_path / side) for side in ("base", "head")}
    reply = check.run({**roots, "files": [{**file, "removed": [1], "added": [1]}]})
    assert reply.gaps == gaps
