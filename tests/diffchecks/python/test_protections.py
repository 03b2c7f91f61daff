"""What a value loses that stays: escaping, constant time, real chance; and what only looks like it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from diffchecks import removed_controls as check

Codes = Callable[..., list[str]]

LOST = [
    ("a.js", "  return `<b>${escapeHtml(user.name)}</b>`;", "  return `<b>${user.name}</b>`;"),
    ("a.php", "<b><?= $view->escape($name) ?></b>", "<b><?= $name ?></b>"),
    ("a.rb", "body Tools.escape_html(boom.text)", "body boom.text"),
    ("a.py", "page = mark(lines(escape(head), 'a,b'))", "page = mark(lines(head, 'a,b'))"),
    ("a.go", "return join(root, safe.Clean(lower(user)))", "return join(root, lower(user))"),
    ("a.ts", "html: Purifier.sanitize(text, {\n  tags: [],\n}),", "html: text,"),
    ("a.erb", "<td><%= sanitize(row) %></td>", "<td><%= row %></td>"),
    ("a.py", "return name.replace('\"', '&quot;')", "return name"),
    ("a.rb", 'name = base(path).gsub(/["\\r]/, TABLE)', "name = base(path)"),
]
KEPT = [
    # moved to where the value is made
    ("a.js", "show(escapeHtml(name));", "name = escapeHtml(name);\nshow(name);"),
    # done with another call of that kind, or with the same one on more
    ("a.js", "show(escapeHtml(name) + escapeHtml(b));", "show(escapeHtml(name + b));"),
    # the reverse, a question, a pattern, a constant
    ("a.py", "x = unquote(path)", "x = path"),
    ("a.py", "if is_escaped(path): f()", "if path: f()"),
    ("a.java", "t.replaceAll(Pattern.quote(key), v);", "t.replaceAll(key, v);"),
    ("a.js", "show(escapeHtml('&'));", "show('&');"),
    # the value went as well
    ("a.js", "show(escapeHtml(name));", "show(title);"),
    # the same on all matches, with nothing behind it
    ("a.js", "name = name.replace(/\\\\/, '/')\n", "name = name.replace(/\\\\/g, '/')\n"),
    # trimming is no escaping
    ("a.js", "return url.replace(/'/, '');", "return url;"),
    ("a.py", "return url.replace('a', 'b')", "return url"),
    # a call that never ends, and one that is longer than any
    ("a.js", "x = escape(name", "x = name"),
    ("a.kt", "x = escape(" + "y, " * 2000 + ")", "x = y"),
]


def around(text: str) -> str:
    return f"first\n{text}\nlast\n"


@pytest.mark.parametrize(("path", "was", "now"), LOST)
def test_escaping_that_is_removed_whatever_a_comment_says(
    compare: Callable[..., Any], path: str, was: str, now: str
) -> None:
    forms = {"py": "# {}", "rb": "# {}", "php": "<!-- {} -->", "erb": "<!-- {} -->"}
    plea = forms.get(path[2:], "/* {} */").format(was.replace("\n", " "))
    for after in (now, f"{now}  {plea}"):
        (one,) = compare(check, {path: around(was)}, {path: around(after)}).findings
        assert (one.code, one.line) == ("escape-removed", 2)


@pytest.mark.parametrize(("path", "was", "now"), KEPT)
def test_escaping_that_moved_or_never_was_one(codes: Codes, path: str, was: str, now: str) -> None:
    assert codes(check, {path: around(was)}, {path: around(now)}) == []


NUMBERS = [
    # The lines above a use, the same ones when they do not make sure that it is a number, and the use.
    (
        "if ($b && is_numeric($a['b']))\n{",
        "if ($b || is_numeric($a['b']))\n{",
        "  $c = intval($a['b'])",
    ),
    ("if (ctype_digit($a)) {", "if (ctype_digit($b)) {", "  $c = intval($a)"),
    ("if (is_int($a)) {", "if (is_int($a)) {\n  f();\n} else {", "  $c = intval($a)"),
    (
        "if (filter_var($a, FILTER_VALIDATE_INT) !== false) {",
        "if (filter_var($a, FILTER_VALIDATE_INT) === false) {",
        "  $c = intval($a)",
    ),
    (
        "if (!is_numeric($a)) {\n  throw $e;\n}",
        "if (!is_numeric($a)) {\n  f();\n}",
        "$c = intval($a)",
    ),
    ("if (!is_int($a)) return;", "if ($b && !is_int($a)) return;", "$c = intval($a)"),
    ("if (!is_int($a)) return;", "if (!is_int($a)) return;\n$a = $b;", "$c = intval($a)"),
    ("if not a.isdigit():\n    raise E", "if a.isdigit():\n    raise E", "f(escape(a))"),
    ("if isinstance(a, int):", "if isinstance(a, str):", "    f(escape(a))"),
    (
        "function f(a: number, b: string) {",
        "function f(b: number, a: string) {",
        "  f(escapeHtml(a))",
    ),
    ('if (typeof a === "number") {', 'if (typeof a !== "number") {', "  f(escapeHtml(a))"),
]


@pytest.mark.parametrize(("sure", "unsure", "use"), NUMBERS)
def test_a_number_needs_no_escaping_where_the_code_above_makes_sure_of_it(
    codes: Codes, sure: str, unsure: str, use: str
) -> None:
    path = "a.php" if "$" in use else "a.ts" if "Html" in use else "a.py"
    now = re.sub(r"(?:intval|escape\w*)(\(.*?\))", lambda call: call[1][1:-1], use)
    for above, wanted in ((sure, []), (unsure, ["escape-removed"])):
        base, head = ({path: f"{above}\n{line};\n"} for line in (use, now))
        assert codes(check, base, head) == wanted


def test_a_call_that_several_values_of_a_file_lose_is_one_finding(
    compare: Callable[..., Any],
) -> None:
    was = "".join(f"f(escape({name}))\nsomething_else();\n" for name in "abc")
    now = was.replace("escape(", "").replace("))", ")")
    (found,) = compare(check, {"a.js": was}, {"a.js": now}).findings
    assert (found.line, found.message) == (1, "escape() no longer wraps a; also at lines 3, 5")


def test_escaping_that_another_file_does_now(codes: Codes) -> None:
    base = {"view.js": around("show(escapeHtml(name));"), "model.js": around("load(name);")}
    head = {"view.js": around("show(name);"), "model.js": around("load(escapeHtml(name));")}
    assert codes(check, base, head) == []


@pytest.mark.parametrize(
    ("path", "was", "now"),
    [
        ("a.py", "if not hmac.compare_digest(a.encode(), b): f()", "if a != b: f()"),
        ("a.go", "if hmac.Equal([]byte(sum), []byte(given)) {", "if sum == given {"),
        ("A.java", "return MessageDigest.isEqual(a, b.get());", "return a.equals(b.get());"),
        ("a.ts", "ok = timingSafeEqual(Buffer.from(a), Buffer.from(b));", "ok = a === b;"),
        ("a.rb", "Rack::Utils.secure_compare(a, b)", "a == b"),
    ],
)
def test_a_comparison_that_is_no_longer_constant_time(
    codes: Codes, path: str, was: str, now: str
) -> None:
    assert codes(check, {path: around(was)}, {path: around(now)}) == ["comparison-timing"]
    other = now.replace("b", "c").replace("given", "taken")
    assert codes(check, {path: around(was)}, {path: around(other)}) == []
    assert codes(check, {path: around(was)}, {path: around(f"{now}\n{was}")}) == []
    plea = f"{now} {'#' if path.endswith(('py', 'rb')) else '//'} {was}"
    assert codes(check, {path: around(was)}, {path: around(plea)}) == ["comparison-timing"]


@pytest.mark.parametrize(
    ("path", "was", "now"),
    [
        ("a.js", "crypto.randomFillSync(n);", "n = Math.random() * 9;"),
        ("a.py", "t = secrets.choice(LETTERS)", "t = random.choice(LETTERS)"),
        ("A.java", "Random r = new SecureRandom();", "Random r = new Random();"),
        ("a.go", '\t"crypto/rand"', '\t"math/rand/v2"'),
    ],
)
def test_random_numbers_that_became_predictable(
    codes: Codes, path: str, was: str, now: str
) -> None:
    assert codes(check, {path: around(was)}, {path: around(now)}) == ["random-weakened"]
    assert codes(check, {path: around(was)}, {path: around("n = 4")}) == []
    assert codes(check, {path: around(now)}, {path: around(was)}) == []


def test_files_that_come_go_and_move(compare: Callable[..., Any], codes: Codes) -> None:
    was, now = around("show(escapeHtml(name));"), around("show(name);")
    assert codes(check, {"a.js": was}, {}) == []
    assert codes(check, {}, {"a.js": now}) == []
    assert codes(check, {"a.js": was}, {"b.js": now}, {"a.js": "b.js"}) == ["escape-removed"]
    reply = compare(check, {"a.js": was}, {"a.js": now, "big.js": "x" * (9 << 20)})
    assert (reply.examined, list(reply.gaps)) == (["a.js"], ["big.js"])
