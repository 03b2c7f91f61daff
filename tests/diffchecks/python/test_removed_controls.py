"""Controls that a change takes out of Python code, and changes that only look like it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffchecks import removed_controls as check

Compare = Callable[..., Any]
Codes = Callable[..., list[str]]

GUARD = """\
def send(name, value):
    if "\\r" in value or "\\n" in value:
        raise ValueError("line break in a header")
    line = encode(name, value)
    return write(line)
"""
LOST = [
    ("guard-removed", GUARD, GUARD[:23] + GUARD[113:]),
    ("guard-removed", GUARD, GUARD.replace('"\\r" in value or ', "")),
    (
        "guard-removed",
        "def get(self, user, key):\n    if key.owner != user:\n        return None\n    return read(key)\n",
        "def get(self, user, key):\n    return read(key)\n",
    ),
    (
        "guard-removed",
        "def act(request):\n    assert request.user.is_staff\n    return run(request)\n",
        "def act(request):\n    return run(request)\n",
    ),
    *(  # the same rejection, of those who lack another right
        (
            "guard-removed",
            f"def drop(user, doc):\n    if not user.is_admin:\n        {deny}\n    doc.drop()\n    return 1\n",
            f"def drop(user, doc):\n    if not user.is_active:\n        {deny}\n    doc.drop()\n    return 1\n",
        )
        for deny in ("raise PermissionDenied('no')", "raise Denied('admins only')")
    ),
    (
        "bound-removed",
        "def load(data):\n    if len(data) > MAX:\n        raise Error\n    return parse(data)\n",
        "def load(data):\n    return parse(data)\n",
    ),
    (
        "condition-weakened",
        "def may(user, doc):\n    return user.active and doc.owner == user\n",
        "def may(user, doc):\n    return user.active\n",
    ),
    (
        "condition-weakened",
        "def may(origin):\n    if origin == BASE:\n        return True\n    return False\n",
        "def may(origin):\n    if origin.startswith(BASE):\n        return True\n    return False\n",
    ),
    (
        "condition-weakened",
        "def valid(name):\n    return PATTERN.fullmatch(name)\n",
        "def valid(name):\n    return PATTERN.match(name)\n",
    ),
    (
        "condition-weakened",
        "def inside(path):\n    return path.startswith(root + os.sep)\n",
        "def inside(path):\n    return path.startswith(root)\n",
    ),
    (
        "check-removed",
        "def pay(self, order):\n    self.check_owner(order)\n    return charge(order)\n",
        "def pay(self, order):\n    return charge(order)\n",
    ),
    (
        "session-kept",
        "def change(self, user):\n    self.revoke_tokens(user)\n    save(user)\n",
        "def change(self, user):\n    save(user)\n",
    ),
    (
        "access-control-removed",
        "@login_required\n@cached\ndef view(request):\n    return page(request)\n",
        "@cached\ndef view(request):\n    return page(request)\n",
    ),
    (
        "access-control-removed",
        "def view(user=Depends(current_user)):\n    return page()\n",
        "def view():\n    return page()\n",
    ),
    (
        "access-control-removed",
        "class View(LoginRequiredMixin, Base):\n    x = 1\n",
        "class View(Base):\n    x = 1\n",
    ),
    (
        "hardening-removed",
        "def get(url):\n    return fetch(url, allow_redirects=False)\n",
        "def get(url):\n    return fetch(url)\n",
    ),
    ("hardening-removed", "MAX_BODY = 1000\n", "MAX_BODY = 100000\n"),
    ("hardening-removed", "DEFAULT_PERM = 0o600\n", "DEFAULT_PERM = 0o666\n"),
    (
        "denylist-shortened",
        "UNSAFE_OPTIONS = ['--exec', '--output']\n",
        "UNSAFE_OPTIONS = ['--output']\n",
    ),
    (
        "disclosure",
        "def follow(headers):\n    del headers['Authorization']\n    return send(headers)\n",
        "def follow(headers):\n    return send(headers)\n",
    ),
    (
        "guard-removed",
        "def edit(key):\n    item = find(key)\n    if not item.user_id == int(current_user.id):\n"
        "        return 'Sorry', 403\n    return show(item)\n",
        "def edit(key):\n    item = find(key)\n    return show(item)\n",
    ),
    (
        "check-removed",  # with the helper that made it
        "def search(user):\n    return run(make(user))\n\n\ndef make(user):\n"
        "    return 'u=' + escape_filter(user)\n",
        "def search(user):\n    return run('u=' + user)\n",
    ),
    (
        "condition-weakened",
        "def load(url):\n    if url.scheme and is_global_host(url.host):\n        get(url)\n",
        "def load(url):\n    if url.scheme:\n        get(url)\n",
    ),
    (
        "hardening-removed",  # with the parser that had it
        "def load(text):\n    return parse(text, parser=XMLParser(resolve_entities=False))\n",
        "def load(text):\n    return parse(text)\n",
    ),
    (
        "hardening-removed",
        "def make(more):\n    options = {'autoescape': True, **more}\n    return Env(options)\n",
        "def make(more):\n    options = {**more}\n    return Env(options)\n",
    ),
    (
        "denylist-shortened",
        "UNSAFE_OPTIONS = MORE + ['--exec', '--output']\n",
        "UNSAFE_OPTIONS = MORE + ['--output']\n",
    ),
    (
        "check-removed",
        "def go(path):\n    target = '/' + path.lstrip('/')\n    return redirect(target)\n",
        "def go(path):\n    target = path\n    return redirect(target)\n",
    ),
    (
        "escape-removed",
        "def go(path):\n    return redirect(re.sub('^//+', '/', path))\n",
        "def go(path):\n    return redirect(path)\n",
    ),
    (
        "condition-weakened",
        "def inside(path, root):\n    root = abspath(root) + os.sep\n    return path.startswith(root)\n",
        "def inside(path, root):\n    root = abspath(root)\n    return path.startswith(root)\n",
    ),
    (
        "possible-loss",  # the words of the condition say nothing: the function only gets shorter
        "def load(self, key):\n    if key not in self.known:\n        raise KeyError('no such key')\n"
        "    return self.read(key)\n",
        "def load(self, key):\n    return self.read(key)\n",
    ),
    (
        "guard-removed",
        "def take(rows, name):\n    rows = list(rows)\n    if digest(name) != rows[0]:\n"
        "        return None\n    rows.append(name)\n    return rows\n",
        "def take(rows, name):\n    rows = list(rows)\n    rows.append(name)\n    return rows\n",
    ),
    (
        "possible-loss",  # with what was done under it
        "def render(self, title):\n    title = tidy(title)\n    if is_unsafe(title):\n"
        "        title = self.hide(title)\n    return page(self, title)\n",
        "def render(self, title):\n    title = tidy(title)\n    return page(self, title)\n",
    ),
    (
        "check-removed",  # in a function of which little else is left
        "def leave(request):\n    target = request.args.get('next')\n"
        "    if not validate_next_url(target):\n        target = home()\n    return go(target)\n",
        "def leave(request):\n    return go(request.args.get('next') or home())\n",
    ),
    (
        "access-control-removed",  # one of two
        "@login_required\n@require_POST\ndef view(request):\n    return page(request)\n",
        "@login_required\ndef view(request):\n    return page(request)\n",
    ),
    (
        "hardening-removed",
        "class View(Base):\n    authentication_classes = [Token]\n    kind = 'a'\n    page = 2\n",
        "class View(Base):\n    kind = 'a'\n    page = 2\n",
    ),
    (
        "unsafe-replacement",
        "@app.route('/delete', methods=['POST'])\ndef delete():\n    return run()\n",
        "@app.route('/delete', methods=['GET'])\ndef delete():\n    return run()\n",
    ),
    (
        "unsafe-replacement",
        "def load(text):\n    return defusedxml.ElementTree.fromstring(text)\n",
        "def load(text):\n    return ElementTree.fromstring(text)\n",
    ),
    (
        "lock-removed",
        "def add(self):\n    with self.lock:\n        self.total += 1\n",
        "def add(self):\n    self.total += 1\n",
    ),
]


@pytest.mark.parametrize(("code", "was", "now"), LOST)
def test_a_removed_control(codes: Codes, code: str, was: str, now: str) -> None:
    assert codes(check, {"app.py": was}, {"app.py": now}) == [code]
    assert codes(check, {"app.py": now}, {"app.py": was}) == []


KEPT = [
    # written in another way, with the opposite condition, or in a helper
    GUARD.replace(
        'if "\\r" in value or "\\n" in value:', 'if not {"\\r", "\\n"}.isdisjoint(value):'
    ),
    'def send(name, value):\n    if "\\r" not in value and "\\n" not in value:\n'
    "        line = encode(name, value)\n        return write(line)\n"
    '    raise ValueError("line break in a header")\n',
    "def send(name, value):\n    check_header(value)\n    line = encode(name, value)\n"
    "    return write(line)\n\n\ndef check_header(value):\n"
    '    if "\\r" in value or "\\n" in value:\n        raise ValueError("line break in a header")\n',
    # with the function, with the value, or with most of what the function did
    "def other():\n    return 1\n",
    "def send(name, value):\n    return write(encode(name, EMPTY))\n",
    "def send(name, value):\n    connection = connect(name)\n    for part in split(value):\n"
    "        connection.put(part)\n    connection.close()\n    return connection\n",
]


@pytest.mark.parametrize("now", KEPT)
def test_a_control_that_is_rewritten_moved_or_unused(codes: Codes, now: str) -> None:
    assert codes(check, {"app.py": GUARD}, {"app.py": now}) == []


REFUND = """\
def refund(store, number, user):
    order = store.order(number)
    if order.owner != user:
        raise PermissionError("not your order")
    store.pay(order.owner, total(order))
    store.mark(number, "refunded")
"""
REWRITTEN = """\
def refund(store, number, user, part=0):
    order = store.order(number)
    amount = part or total(order)
    store.mark(number, "refunded")
    log.info("refund of %s", amount)
    store.pay(user, cents(amount))
"""


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (REWRITTEN, ["guard-removed"]),
        (REWRITTEN.replace("amount = part", "check_owner(order, user)\n    amount = part"), []),
        (REWRITTEN.replace("amount = part", "assert may_refund(order)\n    amount = part"), []),
        (REWRITTEN.replace("def refund", "@permission_required('refund')\ndef refund"), []),
        (REWRITTEN + "\n\ndef deny():\n    raise Forbidden\n", []),
        (REWRITTEN.replace("store.mark", "save").replace("store.pay", "send"), ["guard-removed"]),
        ("def refund(store, number, user):\n    return Refunds(store).start(number, user)\n", []),
    ],
)
def test_access_that_is_no_longer_denied_in_a_function_that_is_rewritten(
    codes: Codes, now: str, found: list[str]
) -> None:
    assert codes(check, {"app.py": REFUND}, {"app.py": now}) == found


@pytest.mark.parametrize(
    "call", ["app.control.revoke(job, terminate=True)", "self.invalidate_cache(job)"]
)
def test_a_call_that_ends_a_task_or_a_cache_is_no_control_of_sessions(
    codes: Codes, call: str
) -> None:
    before = f"def stop(self, job):\n    {call}\n    save(job)\n"
    assert codes(check, {"a.py": before}, {"a.py": "def stop(self, job):\n    save(job)\n"}) == []


def test_a_control_that_moved_to_another_file(codes: Codes) -> None:
    lost = GUARD[:23] + GUARD[113:]
    assert codes(check, {"app.py": GUARD}, {"app.py": lost, "headers.py": GUARD}) == []


def test_a_finding_stands_at_a_line_of_head_and_names_the_removed_one(compare: Compare) -> None:
    lost = GUARD[:23] + GUARD[113:]
    (one,) = compare(check, {"app.py": GUARD}, {"app.py": lost}).findings
    assert (one.path, one.line) == ("app.py", 2)
    assert (one.removed_path, one.removed_line) == ("app.py", 2)
    assert "'\\r' in value" in one.message


GUARDS = {
    "a.ts": (
        "function f(req, res) {\n",
        "  if (!isOwner(req.user)) {\n    return res.status(403).end();\n  }\n",
        "  remove(req.user);\n  return res.end();\n}\n",
    ),
    "a.js": (
        "const f = (user) => {\n",
        "  if (!user.isAdmin) throw new Error('no');\n",
        "  remove(user);\n  return user;\n};\n",
    ),
    "a.go": (
        "package a\n\nfunc f(r *Request) error {\n",
        '\tif r.Host != trusted {\n\t\treturn errors.New("host")\n\t}\n',
        "\tremove(r.Host)\n\treturn nil\n}\n",
    ),
    "A.java": (
        "class A {\n  void f(User user) {\n",
        "    if (!user.isAdmin()) {\n      throw new AccessDeniedException();\n    }\n",
        "    remove(user);\n    save(user);\n  }\n}\n",
    ),
    "a.rb": (
        "def f(user)\n",
        "  raise Forbidden unless user.admin?\n",
        "  remove(user)\n  save(user)\nend\n",
    ),
    "a.php": (
        "<?php\nfunction f($user) {\n",
        "  if (!$user->isAdmin()) {\n    throw new AccessDenied();\n  }\n",
        "  remove($user);\n  save($user);\n}\n",
    ),
}


@pytest.mark.parametrize("path", GUARDS)
def test_a_guard_clause_in_another_language(codes: Codes, path: str) -> None:
    before, guard, after = GUARDS[path]
    was = before + guard + after
    assert codes(check, {path: was}, {path: before + after}) == ["guard-removed"]
    assert codes(check, {path: before + after}, {path: was}) == []
    moved = before + guard.replace("remove", "delete") + after
    assert codes(check, {path: was}, {path: before + after, f"lib/{path}": moved}) == []


FINE = [
    # a limit that is counted, a value that is absent, a question without a right
    ("def f(a):\n    max_seen = top(a)\n    return g(a)\n", "def f(a):\n    return g(a)\n"),
    (
        "def f(session):\n    if a is None:\n        raise ValueError('invalid')\n    return g(a)\n",
        "def f(session):\n    return g(a)\n",
    ),
    (
        "def f(a):\n    if len(a) > 0:\n        return 1\n    return g(a)\n",
        "def f(a):\n    return g(a)\n",
    ),
    # a decorator that checks the shape of a request, whatever it is about
    (
        "@validation.validated(schema.role_create, 'role')\ndef create_role(a):\n    return g(a)\n",
        "def create_role(a):\n    return g(a)\n",
    ),
    # a cache, a setting that may be missing, a check that got another name
    (
        "def save(self, page):\n    self.expire_fragment(page)\n    write(page)\n",
        "def save(self, page):\n    write(page)\n",
    ),
    (
        "def f(a):\n    if hasattr(settings, 'BLACKLIST'):\n        a = strip(a, settings)\n    return g(a)\n",
        "def f(a):\n    a = strip(a, settings)\n    return g(a)\n",
    ),
    (
        "def f(user, doc):\n    permission_allowed(user, doc)\n    return g(user, doc)\n",
        "def f(user, doc):\n    allowed(user, doc)\n    return g(user, doc)\n",
    ),
    # an exception from a check, and a question about a type
    ("DEBUG = 1\nCSRF_TRUSTED_ORIGINS = ['https://a.test']\nx = 1\n", "DEBUG = 1\nx = 1\n"),
    (
        "def f(a):\n    if typing.get_origin(a) is typing.Union:\n        a = args(a)\n    return g(a)\n",
        "def f(a):\n    if is_union(a):\n        a = args(a)\n    return g(a)\n",
    ),
    # another condition for the same rejection
    (
        "def f(view, keys):\n    if view == 'Default Owner':\n        raise NotAllowed(view)\n"
        "    return g(view)\n",
        "def f(view, keys):\n    if view.lower() == 'default owner':\n        raise NotAllowed(view)\n"
        "    return g(view)\n",
    ),
    # the end of an iteration, another name of a type, and a header that is read
    (
        "def f(a, rows):\n    if a in rows:\n        raise StopIteration\n    return g(a)\n",
        "def f(a, rows):\n    return g(a)\n",
    ),
    ("allowed_hosts = Annotated[list[str], Depends(find)]\n\nx = 1\n", "x = 1\n"),
    ("allowed_hosts: TypeAlias = Names\n\nx = 1\n", "x = 1\n"),
    (
        "def f(r):\n    kind = r.headers.get('content-disposition', '')\n    return g(r)\n",
        "def f(r):\n    return g(r)\n",
    ),
    # a variable that goes with its use, and the same right asked for in another way
    (
        "def f(a, **rest):\n    verify = rest.get('verify')\n    return get(a, verify)\n",
        "def f(a, **rest):\n    return get(a, **rest)\n",
    ),
    (
        "def f(a, user):\n    a = g(a)\n    if user.is_admin:\n        h(a)\n    return a\n",
        "def f(a, user):\n    a = g(a)\n    if h and user.is_admin is True:\n        h(a)\n    return a\n",
    ),
    # an argument that is passed to another function, or with the others
    (
        "def f(a, verify):\n    tool = Tool(a, verify=verify)\n    return tool.build()\n",
        "def f(a, verify):\n    tool = Tool(a)\n    return tool.build(verify=verify)\n",
    ),
    (
        "def f(a, timeout, **rest):\n    return get(a, timeout=timeout)\n",
        "def f(a, **rest):\n    return get(a, **rest)\n",
    ),
    # decoding is no cleaning
    ("def f(text):\n    return g(text.replace('/', '-'))\n", "def f(text):\n    return g(text)\n"),
    # a protection that was off, so that the default protects more
    ("def f(url):\n    return get(url, verify=False)\n", "def f(url):\n    return get(url)\n"),
    (
        "def f():\n    return wrap(a=1, cert_reqs=ssl.CERT_NONE)\n",
        "def f():\n    return wrap(a=1)\n",
    ),
    # a helper that only computed
    (
        "def f(a):\n    return g(make(a))\n\n\ndef make(a):\n    return a + 1\n",
        "def f(a):\n    return g(a + 1)\n",
    ),
]


@pytest.mark.parametrize(("was", "now"), FINE)
def test_a_change_that_removes_no_control(codes: Codes, was: str, now: str) -> None:
    assert codes(check, {"app.py": was}, {"app.py": now}) == []


def test_a_list_of_protected_things_is_no_deny_list(codes: Codes) -> None:
    was = "_PROTECTED_TYPES = (int, float, type(None))\n"
    assert codes(check, {"app.py": was}, {"app.py": "_PROTECTED_TYPES = (int, float)\n"}) == []


def test_one_finding_for_a_control_that_goes_in_several_places(compare: Compare) -> None:
    one = "def {}(a):\n    check_owner(a)\n    return charge(a)\n"
    was = "".join(one.format(name) for name in ("f", "g", "h"))
    (lost,) = compare(
        check, {"app.py": was}, {"app.py": was.replace("    check_owner(a)\n", "")}
    ).findings
    assert lost.message == "The check is no longer made: check_owner(a); also at lines 4, 6"


def test_one_finding_for_a_guard_whose_condition_is_a_check(compare: Compare) -> None:
    was = "def f(user, a):\n    if not check_access(user, a):\n        raise Forbidden\n    return a\n"
    now = "def f(user, a):\n    return a\n"
    (lost,) = compare(check, {"app.py": was}, {"app.py": now}).findings
    assert (lost.code, lost.removed_line) == ("guard-removed", 2)


def test_a_file_in_another_encoding_is_compared(tmp_path: Path) -> None:
    cookie = "# -*- coding: latin-1 -*-\n# \xe9t\xe9\n"
    for side, text in (("base", GUARD), ("head", LOST[0][2])):
        (tmp_path / side).mkdir()
        (tmp_path / side / "app.py").write_text(cookie + text, encoding="latin-1")
    roots = {f"{side}_root": str(tmp_path / side) for side in ("base", "head")}
    file = {"path": "app.py", "old_path": "app.py", "status": "modified"}
    reply = check.run({**roots, "files": [{**file, "removed": [4, 5], "added": []}]})
    assert ([found.code for found in reply.findings], reply.gaps) == (["guard-removed"], {})


DOES_NOT_PARSE = "def f(:\n    pass\n"


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        (GUARD, DOES_NOT_PARSE, "does not parse: line 1: "),
        (DOES_NOT_PARSE, GUARD, "the base version does not parse: line 1: "),
        (DOES_NOT_PARSE, f"{DOES_NOT_PARSE}x = 1\n", "does not parse: line 1: "),
    ],
)
def test_a_file_that_does_not_parse_is_a_gap(tmp_path: Path, was: str, now: str, why: str) -> None:
    for side, text in (("base", was), ("head", now)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "app.py").write_text(text)
    lines = [1, 2]
    file = {"path": "app.py", "old_path": "app.py", "status": "modified"}
    roots = {f"{side}_root": str(tmp_path / side) for side in ("base", "head")}
    reply = check.run({**roots, "files": [{**file, "removed": lines, "added": lines}]})
    assert list(reply.gaps) == ["app.py"]
    assert reply.gaps["app.py"].startswith(why)
    assert reply.examined == []
