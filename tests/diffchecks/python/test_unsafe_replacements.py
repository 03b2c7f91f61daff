"""What a change replaces with something that protects less, and replacements that are fine."""

from collections.abc import Callable
from typing import Any

import pytest

from diffchecks import removed_controls as check

Compare = Callable[..., Any]
Codes = Callable[..., list[str]]

REPLACED = [
    ("settings.py", "SECURE_HSTS_SECONDS = 3600", "SECURE_HSTS_SECONDS = 0"),
    ("a.py", "ok = compare_digest(own, given)", "ok = given.startswith(own[:8])"),
    ("a.tf", "backup_retention_period = 14", "backup_retention_period = 0"),
    ("a.rs", "&all[all.len().saturating_sub(n)..]", "&all[all.len() - n..]"),
    ("a.rb", "x = current_user.notes.find(params[:id])", "x = Note.find(params[:id])"),
    ("a.php", "$x = $r->user()->notes()->findOrFail($id);", "$x = Note::findOrFail($id);"),
    ("a.py", "return format_html('<b>{}</b>', name)", "return mark_safe('<b>%s</b>' % name)"),
    ("a.py", "handle, path = tempfile.mkstemp()", "path = tempfile.mktemp()"),
    ("a.py", "subprocess.run(['show', name])", "os.system(f'show {name}')"),
    ("a.py", "port = int(text)", "port = eval(text)"),
    ("a.py", "data = yaml.safe_load(text)", "data = yaml.load(text)"),
    ("a.py", "from defusedxml import ElementTree", "from xml.etree import ElementTree"),
    ("a.py", "run('SELECT a FROM b WHERE c = %s', [c])", "run('SELECT a FROM b WHERE c = ' + c)"),
    ("a.py", "run('SELECT a FROM b WHERE c = ?', [c])", 'run(f"SELECT a FROM b WHERE c = {c}")'),
    ("a.py", "return PATTERN.fullmatch(name)", "return PATTERN.match(name)"),
    ("a.js", "box.textContent = name;", "box.innerHTML = name;"),
    ("a.ts", "execFile('show', [name]);", "exec(`show ${name}`);"),
    ("a.js", "const seen = Object.create(null);", "const seen = {};"),
    (
        "a.ts",
        "a: adminProcedure.query(a),\nf: publicProcedure.query(f),",
        "a: publicProcedure.query(a),\nf: publicProcedure.query(g),",
    ),
    ("a.yml", "      - run: npm test", "      - run: npm test || true"),
    ("a.sh", "pytest -q tests", "pytest -q tests || :"),
    ("a.ts", "return jwt.verify(token, key);", "return jwt.decode(token);"),
    ("a.go", "jwt.ParseWithClaims(text, c, key)", "parser.ParseUnverified(text, c)"),
    ("a.js", "const data = JSON.parse(text);", "const data = eval(text);"),
    ("a.php", "$data = json_decode($text);", "$data = unserialize($text);"),
    ("a.php", "$q = $db->prepare($sql);", "$q = $db->query($sql);"),
    ("a.rb", "data = YAML.safe_load(text)", "data = YAML.load(text)"),
    ("a.kt", 'authenticate("x") {', 'authenticate("x", optional = true) {'),
    ("a.scala", "def f = authAction.async { r =>", "def f = Action.async { r =>"),
    ("a.scala", "val r = AuthedRoutes.of[U, F] {", "val r = HttpRoutes.of[F] {"),
    ("a.rb", "NAME = /\\A[a-z]+\\z/", "NAME = /^[a-z]+$/"),
    ("a.rb", "params.permit(:name)", "params.permit!"),
    ("a.rb", "where('name = ?', name)", "where(\"name LIKE '#{name}'\")"),
    ("a.rb", "q = 'SELECT a FROM b WHERE c = @c'", "q = \"SELECT a FROM b WHERE c = '#{@c}'\""),
    ("a.js", "q('SELECT a FROM b WHERE c = :c', {c})", "q(`SELECT a FROM b WHERE c = ${c}`)"),
    ("A.java", "use(db.prepareStatement(sql));", "use(db.createStatement());"),
    ("a.go", 'import "html/template"', 'import "text/template"'),
    ("a.go", "c := exec.Command(name, text)", 'c := exec.Command("sh", "-c", text)'),
    ("a.py", "key = hmac.new(secret, text, sha256)", "key = sha256(secret + text)"),
    ("A.java", 'hash("SHA-256", text);', 'hash("MD5", text);'),
    ("a.py", "path = safe_join(root, name)", "path = os.path.join(root, name)"),
    ("a.go", "path, err := securejoin.SecureJoin(root, name)", "path := filepath.Join(root, name)"),
    ("a.go", "b, err := io.ReadAll(io.LimitReader(body, 1<<20))", "b, err := io.ReadAll(body)"),
    ("a.js", "if (Object.hasOwn(known, key)) {", "if (key in known) {"),
    ("a.php", "if (in_array($kind, $kinds, true)) {", "if (in_array($kind, $kinds)) {"),
    ("a.php", "if ($token === $stored) {", "if ($token == $stored) {"),
    ("a.rs", "let end = at.checked_add(n)?;", "let end = at.wrapping_add(n);"),
    ("a.rs", "let s = str::from_utf8(b)?;", "let s = str::from_utf8_unchecked(b);"),
    ("a.c", "snprintf(to, sizeof to, form, name);", "sprintf(to, form, name);"),
    ("a.py", "text = reply.read(MAX_SIZE + 1)", "text = reply.read()"),
    ("a.ts", "if (url.hostname === HOME) {", "if (url.hostname.includes(HOME)) {"),
    ("a.go", "if u.Host == home {", "if strings.HasPrefix(u.Host, home) {"),
    ("a.go", "os.WriteFile(path, key, 0600)", "os.WriteFile(path, key, 0644)"),
    ("a.py", "os.chmod(path, 0o600)", "os.chmod(path, 0o640)"),
]
FINE = [
    # the same way round as before, with or without the safe call
    ("a.py", "os.system('show ' + name)", "os.system('show -a ' + name)"),
    ("a.py", "x = int(text)\ny = eval(text)", "y = eval(text)"),
    ("a.js", "box.textContent = name;", "box.title = name;"),
    ("a.yml", "- run: npm test", "- run: npm test || exit 1"),
    ("a.yml", "- run: npm test || true", "- run: npm test -- --ci || true"),
    ("a.yml", "verify: true", "verify: false"),
    # another safe one
    ("a.py", "handle, path = tempfile.mkstemp()", "folder = tempfile.mkdtemp()"),
    ("a.py", "data = yaml.safe_load(text)", "data = yaml.load(text, Loader=SafeLoader)"),
    ("a.js", "box.textContent = name;", "box.innerText = name;"),
    ("a.php", "$q = $db->prepare($sql);", "$q = $db->execute($sql, $values);"),
    # a method, a name, a word in a text
    ("a.js", "execFile('show', [name]);", "pattern.exec(name);"),
    ("a.scala", "def f = userAction { r =>", "def f = adminAction { r =>"),
    ("a.py", "port = int(text)", "port = model.eval(text)"),
    ("a.py", "run('SELECT a FROM b WHERE c = %s', [c])", "run('SELECT a FROM b WHERE c = 1')"),
    ("a.py", 'x = """SELECT a FROM {}\n""".format(t)', 'x = f"SELECT a FROM {t}"'),
    # a relation's own query, and what it is made of
    ("a.rb", 'q = "FROM (\n  #{@all.select(:c).to_sql}\n) x"', 'q = "FROM (#{inner}) x"'),
    ("a.rb", "q = 'SELECT a FROM b WHERE c = :c'", 'q = "SELECT a FROM (#{rows.to_sql}) d"'),
    ("a.php", "$q = 'SELECT a FROM b WHERE c = :c'", '$q = "SELECT a FROM ({$rows->toSql()}) d"'),
    ("a.py", "say('Where %s is', a)", "say('It is from ' + a)"),
    ("A.java", 'hash("SHA-256", text);', 'hash("SHA-512", text);'),
    ("a.py", "path = safe_join(root, name)", "path = safe_join(root, 'a', name)"),
    (
        "a.go",
        "b, err := io.ReadAll(io.LimitReader(body, 1<<20))",
        "b, err := io.ReadAll(http.MaxBytesReader(w, body, 9))",
    ),
    ("a.js", "if (Object.hasOwn(known, key)) {", "for (const key in known) {"),
    ("a.js", "if (origin === HOME) {", "if (allowedOrigins.includes(origin)) {"),
    ("a.js", "if (host === HOME) {", "if (host.endsWith('.example.com')) {"),
    (
        "a.php",
        "if (in_array($kind, $kinds, true)) {",
        "if (in_array($type, $this->kinds(), true)) {",
    ),
    ("a.php", "if ($token === $stored) {", "if ($token !== $stored) {"),
    ("a.rs", "let end = at.checked_add(n)?;", "let end = at.saturating_add(n);"),
    ("a.c", "snprintf(to, sizeof to, form, name);", "strlcpy(to, name, sizeof to);"),
    ("a.py", "line = file.read(80)", "line = file.read()"),
    ("a.go", "os.WriteFile(path, key, 0600)", "os.WriteFile(path, key, 0400)"),
    ("a.tf", "backup_retention_period = 14", "backup_retention_period = 7"),
    ("a.rb", "x = current_user.notes.find(id)", "x = current_user.own_notes.find(id)"),
    # in a language of which it says nothing
    ("a.txt", "box.textContent = name;", "box.innerHTML = name;"),
]


def around(text: str) -> str:
    return f"first\n{text}\nlast\n"


@pytest.mark.parametrize(("path", "was", "now"), REPLACED)
def test_a_less_safe_call_in_the_same_place(
    compare: Compare, codes: Codes, path: str, was: str, now: str
) -> None:
    (one,) = compare(check, {path: around(was)}, {path: around(now)}).findings
    assert (one.code, one.line) == ("unsafe-replacement", 2)
    assert codes(check, {path: around(now)}, {path: around(was)}) == []


@pytest.mark.parametrize(("path", "was", "now"), FINE)
def test_a_call_that_is_as_safe_or_never_was_safe(
    codes: Codes, path: str, was: str, now: str
) -> None:
    assert "unsafe-replacement" not in codes(check, {path: around(was)}, {path: around(now)})


def test_one_finding_names_every_place(compare: Compare) -> None:
    was = "a.textContent = b;\nkept();\n" * 8
    now = was.replace("textContent", "innerHTML")
    (one,) = compare(check, {"a.js": was}, {"a.js": now}).findings
    assert one.line == 1
    assert one.message.endswith("; also at lines 3, 5, 7, 9, 11, …")


def test_a_repetition_of_a_pattern_that_loses_its_bound(codes: Codes) -> None:
    was, now = "P = compile(r'<a.{,1024}?>')\n", "P = compile(r'<a.*?>')\n"
    assert codes(check, {"a.py": was}, {"a.py": now}) == ["bound-removed"]
    assert codes(check, {"a.py": now}, {"a.py": was}) == []
    assert codes(check, {"a.py": was}, {"a.py": was.replace("1024", "2048")}) == []


WEAKER = [
    ("A.java", 'f.setFeature("disallow-doctype-decl", true);', "true", "false"),
    ("A.java", 'f.setFeature("external-general-entities", false);', "false", "true"),
    ("a.go", "cfg := Config{InsecureSkipVerify: false}", "false", "true"),
    ("a.js", "cookie.secure = true;", "true", "false"),
    ("a.js", "csrf({ disableCsrf: false });", "false", "true"),
    ("A.java", "long MAX_ENTITY_SIZE = 2097152L;", "2097152", "-1"),
    ("a.php", "$maxDepth = 64;", "64", "4096"),
    ("a.rb", "ITERATIONS = 600_000", "600_000", "10_000"),
    ("a.py", "MAX_BODY = 1000", "1000", "100000"),
    ("a.py", "env = Env(autoescape=True)", "True", "False"),
    ("a.py", "parse(text, XMLParser(resolve_entities=False))", "resolve_entities=False", ""),
    ("a.py", "options = {'autoescape': True, **more}", "'autoescape': True, ", ""),
    ("a.py", "c.set(key, value, secure=True, path='/')", "secure=True, ", ""),
    ("a.js", "res.cookie(a, b, { httpOnly: true });", " httpOnly: true ", ""),
]
AS_STRONG = [
    ("a.js", "cookie.visible = true;", "true", "false"),
    ("a.js", "form.required = true;", "true", "false"),
    ("a.js", "const maxItems = 10;", "10", "12"),
    # No number, and one that Python does not read.
    ("a.blade.php", '<input maxlength="[0-9]{9}">', "9]", "9_]"),
    ("a.js", "const maxItems = 10;", "10", "1" * 5000),
    ("a.rb", "validates_length_of :name, :maximum => 30", "30", "255"),
    ("a.js", "const width = 10;", "10", "-1"),
    ("a.go", "cfg := Config{InsecureSkipVerify: true}", "true", "false"),
    # a protection that was off, so that the default protects more
    ("a.py", "wrap(a=1, cert_reqs=ssl.CERT_NONE)", ", cert_reqs=ssl.CERT_NONE", ""),
    ("a.py", "c.set(key, value, secure=False)", ", secure=False", ""),
]


@pytest.mark.parametrize(("path", "line", "old", "new"), WEAKER)
def test_a_less_safe_flag_or_number(codes: Codes, path: str, line: str, old: str, new: str) -> None:
    was, now = around(line), around(line.replace(old, new))
    assert codes(check, {path: was}, {path: now}) == ["hardening-removed"]
    assert codes(check, {path: now}, {path: was}) == []


@pytest.mark.parametrize(("path", "line", "old", "new"), AS_STRONG)
def test_a_flag_or_number_that_is_as_safe_or_irrelevant(
    codes: Codes, path: str, line: str, old: str, new: str
) -> None:
    assert codes(check, {path: around(line)}, {path: around(line.replace(old, new))}) == []


def test_a_long_line_of_words_of_a_query_is_read_in_bounded_time(codes: Codes) -> None:
    was, now = 'a = "%s"\n', "a = '" + "SET " * 4_000 + "'\n"
    assert codes(check, {"a.js": was}, {"a.js": now}) == []
