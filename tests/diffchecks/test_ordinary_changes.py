"""Ordinary changes in which a rule finds nothing, and the twin that it tells of."""

from pathlib import Path

import pytest

from diffchecks.check_io import RawFinding
from diffchecks.new_findings import find_new, remove_white_space
from diffchecks.rules import shipped_rules
from tests.diffchecks.test_false_alarms import Files, found

CS = "class C : Controller {{\n  async Task F() {{ await client.GetAsync({}); }}\n}}\n"
VIEW = "{}def drop(request, pk):\n{}\n"
PHP = "<?php\nclass A {{\n  {}public function drop(A $a): Response\n  {{\n    {}\n  }}\n}}\n"
JAVA = "class A {{\n  {}Object drop(A a) {{\n    {}\n  }}\n}}\n"
TS = "class A {{\n  {}drop(a: A) {{\n    {}\n  }}\n}}\n"
CSHARP = "class A {{\n  {}public IActionResult Drop(A a) {{\n    {}\n  }}\n}}\n"
GO = 'package a\n\nfunc f(dir, flag string) {{\n\texec.Command("sh", "-c", {})\n}}\n'
SAMPLE = '{"type": "a", "url": "https://127.0.0.1:8000", "token": "6ccc2932be3a7e8fa1dd2c254"}'
FLASK = "import gzip, io\nfrom flask import Flask, request\napp = Flask(__name__)\n@app.post('/')\ndef f():\n"
CARGO = """[package]
name = "a"
rust-version = "{}"
[dependencies]
b = {{
  version = "1",  # why }}
  features = ["{{"],
}}
"""
KT = "fun f(call: ApplicationCall) {{\n  {}\n}}\n"
UPLOAD = '@RestController\nclass A {{\n  @PostMapping("/a") void f(@RequestParam MultipartFile a, @RequestParam String b) {{ {} }}\n}}\n'
RB = "class AController < ApplicationController\n  def a\n    {}\n  end\nend\n"
JS = 'const fs = require("fs"); const app = require("express")();\napp.post("/a", (req, res) => {{ {} res.end(); }});\n'
ADMIN = '{}[Route("admin")]\nclass AdminController : Controller {{ [HttpGet] public string A() {{ return B(); }} }}\n'
LOGIN = "@app.post('/login')\ndef login():\n    return sign_in()\n\n\n"

OWN_RB = 'redirect_to own\n  end\n\n  def own\n    b = params[:a].to_s\n    return "/" {}\n    b'
OWN_JS = 'function f(req) {{\n  const a = req.query.a;\n  if ({}) return "/";\n  return a;\n}}\n'
OF_ERRORS = "class ErrorsController < ApplicationController\n  skip_before_action :verify_authenticity_token\n  def a\n    {}\n  end\nend\n"

# Base, a quiet head, one that is told of, and the rule.
CONNECT = "defmodule A do\n  def f(s), do: :ssl.connect(s, [verify: {}])\nend\n"
NAMED = "class A {{ void F() {{ {}; }} }}\n"
QUERY = 'package a\n\nfunc f(args []any) {{\n\tq += " AND b LIKE {}\n}}\n'
MEASURED = 'void f(char *b) {{\n  char *a = malloc({});\n  sprintf(a, "%s.tmp", b);\n}}\n'
STARTED = 'class A {{ void F(string p, string q) {{ Process.Start("cmd", $"/c {}"); }} }}\n'
STATEMENTS = """package a

func f(db *store, u user, id int) {{
	db.Query("SELECT b FROM a WHERE c < "+db.now(), id)
	db.Exec("UPDATE a SET d = "+db.now()+" WHERE b = ?", id)
	{}
}}
"""
CHANGES: dict[str, tuple[Files, Files, Files, str]] = {
    "a text for which a buffer is measured": (
        {},
        {"a.c": MEASURED.format("snprintf(NULL, 0, \"%s.tmp\", b) + 1")},
        {"a.c": MEASURED.format("16")},
        "security.buffer-overflow",
    ),
    "quotes around what a command has in base": (
        {"A.cs": STARTED.format("start {p}")},
        {"A.cs": STARTED.format('start \\"{p}\\"')},
        {"A.cs": STARTED.format('start \\"{p}\\" {q}')},
        "security.command-built",
    ),
    "a placeholder whose number is reckoned": (
        {"a.go": QUERY.format('$1"')},
        {"a.go": QUERY.format('$" + strconv.Itoa(len(args)+1)')},
        {"a.go": QUERY.format('" + name')},
        "security.unsafe-replacement",
    ),
    "what a helper for markup encodes": (
        {},
        {"a.js": "function f(scope) {\n  $('#a').append('<b>' + htmlEncode(scope) + '</b>');\n}\n"},
        {"a.js": "function f(scope) {\n  $('#a').append('<b>' + htmlDecode(scope) + '</b>');\n}\n"},
        "security.html-built",
    ),
    "an option beside one that base has already": (
        {"a.ex": CONNECT.format(":verify_none")},
        {"a.ex": CONNECT.format(":verify_none, depth: 3")},
        {"a.ex": CONNECT.format(":verify_none, depth: 3") + CONNECT.format(":verify_none")},
        "security.tls-unverified",
    ),
    "a name in a text": (
        {},
        {"A.cs": NAMED.format("log(nameof(B.DangerousAcceptAnyServerCertificateValidator))")},
        {"A.cs": NAMED.format("b.C = HttpClientHandler.DangerousAcceptAnyServerCertificateValidator")},
        "security.tls-unverified",
    ),
    "a picture in place of a text": (
        {"a.js": "function f(e, t) {\n  e.textContent = t.label;\n}\n"},
        {"a.js": "function f(e, t) {\n  e.innerHTML = `<i class='x'></i>`;\n}\n"},
        {"a.js": "function f(e, t) {\n  e.innerHTML = t.label;\n}\n"},
        "security.unsafe-replacement",
    ),
    "a command with a flag that base gives it already": (
        {"a.sh": "apt-get -y --allow-unauthenticated install kbd file gawk\n"},
        {"a.sh": "apt-get -y --allow-unauthenticated install ronn kbd file\n"},
        {"a.sh": "apt-get -y --allow-unauthenticated install kbd file $1\n"},
        "security.tls-unverified",
    ),
    "what the database says of the time, as in other statements": (
        {"a.go": STATEMENTS.format("")},
        {"a.go": STATEMENTS.format('db.Exec("DELETE FROM a WHERE e < "+db.now(), id)')},
        {"a.go": STATEMENTS.format('db.Exec("DELETE FROM a WHERE e = \'"+u.name()+"\'", id)')},
        "security.sql-built",
    ),
    "a count and flags, each by its name": (
        {},
        {"a.py": "import re\n\nA = re.sub('a', '', b, flags=re.I)\nB = re.split(',', b, flags=re.I)\n"},
        {"a.py": "import re\n\nA = re.sub('a', '', b, re.I)\n"},
        "qa.wrong-argument",
    ),
    "a fixed host by its parameter's name, C#": (
        {},
        {"C.cs": CS.format('requestUri: "https://a.com/" + Request.Query["a"]')},
        {"C.cs": CS.format('requestUri: Request.Query["a"]')},
        "security.server-side-request-forgery",
    ),
    "a fixed host by its parameter's name, Kotlin": (
        {},
        {"a.kt": KT.format('URL(spec = "https://a.com/" + call.request.queryParameters["a"])')},
        {"a.kt": KT.format('URL(spec = call.request.queryParameters["a"])')},
        "security.fetch-from-request",
    ),
    "an action that only answers that it is gone, Python": (
        {"a.py": VIEW.format("@login_required\n", "    remove(pk)\n    return done()")},
        {"a.py": VIEW.format("", "    return HttpResponse(status=410)")},
        {"a.py": VIEW.format("", "    remove(pk)\n    return HttpResponse(status=410)")},
        "security.access-control-removed",
    ),
    "an action that only throws, PHP": (
        {"A.php": PHP.format("#[IsGranted('edit', 'a')]\n  ", "return $this->remove($a);")},
        {"A.php": PHP.format("", "throw new GoneHttpException('Use \"POST /b\".');")},
        {"A.php": PHP.format("", "$this->remove($a); throw new GoneHttpException('x');")},
        "security.access-control-removed",
    ),
    "an action that only throws, Java": (
        {"A.java": JAVA.format("@PreAuthorize(\"hasRole('ADMIN')\")\n  ", "remove(a);")},
        {"A.java": JAVA.format("", "throw new ResponseStatusException(HttpStatus.GONE);")},
        {"A.java": JAVA.format("", "throw new ResponseStatusException(HttpStatus.GONE, remove(a));")},
        "security.access-control-removed",
    ),
    "an action that only throws, TypeScript": (
        {"a.ts": TS.format("@UseGuards(AdminGuard)\n  ", "return this.remove(a);")},
        {"a.ts": TS.format("", "throw new GoneException();")},
        {"a.ts": TS.format("", "return this.remove(a, 410);")},
        "security.access-control-removed",
    ),
    "an action that only throws, C#": (
        {"A.cs": CSHARP.format('[Authorize(Roles = "Admin")]\n  ', "return Remove(a);")},
        {"A.cs": CSHARP.format("", "return StatusCode(410);")},
        {"A.cs": CSHARP.format("", "return Remove(StatusCode(410));")},
        "security.access-control-removed",
    ),
    "a token that a method of the name of a guard makes": (
        {"A.java": JAVA.format("", "h.matchers(P).authenticated();\n    keep(Token.authenticated(u, t));")},
        {"A.java": JAVA.format("", "h.matchers(P).authenticated();\n    keep(session.establish(t));")},
        {"A.java": JAVA.format("", "h.matchers(P);\n    keep(Token.authenticated(u, t));")},
        "security.access-control-removed",
    ),
    "annotations that document, Java": (
        {"A.java": JAVA.format("@ApiOperation(value = \"x\", authorizations = @Authorization(\"a\"))\n  ", "f();")},
        {"A.java": JAVA.format("", "f();")},
        {"A.java": JAVA.format("@PermitAll\n  ", "f();")},
        "security.access-control-removed",
    ),
    "models that document, Java": (
        {"A.java": "@ApiModel(value = \"AdminRole\")\n@RolesAllowed(\"admin\")\n" + JAVA.format("", "f();")},
        {"A.java": "@Schema(name = \"AdminRole\")\n@RolesAllowed(\"admin\")\n" + JAVA.format("", "f();")},
        {"A.java": "@ApiModel(value = \"AdminRole\")\n" + JAVA.format("", "f();")},
        "security.access-control-removed",
    ),
    "attributes that document, C#": (
        {"A.cs": CSHARP.format('[ApiExplorerSettings(GroupName = "Admin")]\n  [Authorize]\n  ', "F();")},
        {"A.cs": CSHARP.format("[Authorize]\n  ", "F();")},
        {"A.cs": CSHARP.format('[ApiExplorerSettings(GroupName = "Admin")]\n  ', "F();")},
        "security.access-control-removed",
    ),
    "attributes that document, PHP": (
        {"A.php": PHP.format("#[OA\\Tag(name: 'admin')]\n  #[IsGranted('edit', 'a')]\n  ", "f();")},
        {"A.php": PHP.format("#[IsGranted('edit', 'a')]\n  ", "f();")},
        {"A.php": PHP.format("#[OA\\Tag(name: 'admin')]\n  ", "f();")},
        "security.access-control-removed",
    ),
    "decorators that document, Python": (
        {"a.py": VIEW.format("@extend_schema(tags=['admin'])\n@login_required\n", "    f()")},
        {"a.py": VIEW.format("@login_required\n", "    f()")},
        {"a.py": VIEW.format("@extend_schema(tags=['admin'])\n", "    f()")},
        "security.access-control-removed",
    ),
    "letters of an escape": (
        {},
        {"a.cs": 'class A { string b = "\\u1C89\u0430\\n\u043e"; }\n'},
        {"a.cs": 'class A { string b = "\\u1C89n\u0430me"; }\n'},
        "security.lookalike-name",
    ),
    "lines that a formatter joins": (
        {"f.go": GO.format('\n\t\t"ls "+dir,\n\t')},
        {"f.go": GO.format('"ls "+dir')},
        {"f.go": GO.format('"ls "+dir+" "+flag')},
        "security.command-built",
    ),
    "a comment that calls a token an example": (
        {},
        {"a.php": f"<?php\n/**\n * Example: {SAMPLE}\n */\nf();\n"},
        {"a.php": f"<?php\n/**\n * {SAMPLE}\n */\nf();\n"},
        "security.password-literal",
    ),
    "a number in a command, PHP": (
        {},
        {"a.php": "<?php\nfunction f($a, $b) { exec(sprintf('kill -9 %d %05d', $a, g($b))); }\n"},
        {"a.php": "<?php\nfunction f($a, $b) { exec(sprintf('kill -9 %d', $a) . $b); }\n"},
        "security.command-built",
    ),
    "a number in a command, Perl": (
        {},
        {"a.pl": "sub f { my ($a) = @_; system(sprintf('kill %d', $a)); }\n"},
        {"a.pl": "sub f { my ($a) = @_; system(sprintf('kill %d%s', 9, $a)); }\n"},
        "security.command-built",
    ),
    "a number in a command, Lua": (
        {},
        {"a.lua": "function f(a, b)\n  os.execute('pgrep ' .. string.format('-P %d', a))\nend\n"},
        {"a.lua": "function f(a, b)\n  os.execute(string.format('pgrep -P %d', a) .. b)\nend\n"},
        "security.command-built",
    ),
    "a number in a command, Ruby": (
        {},
        {"a.rb": "def f(a)\n  system(format('kill %d', a))\nend\n"},
        {"a.rb": "def f(a)\n  system(format('kill %s', a))\nend\n"},
        "security.command-built",
    ),
    "tables of TOML 1.1": (
        {},
        {"Cargo.toml": CARGO.format("1.94"), "b/Cargo.toml": CARGO.replace("rust-version", "edition").format(2024)},
        {"Cargo.toml": CARGO.format("1.88")},
        "qa.does-not-parse",
    ),
    "a table that is never closed": (
        {},
        {"Cargo.toml": CARGO.format("1.94")},
        {"Cargo.toml": CARGO.format("1.94").replace("],\n}", "],\n")},
        "qa.does-not-parse",
    ),
    "when tokens are thrown away": (
        {},
        {"a.py": "import random\nadd(every(hour=str(random.randint(0, 23))), drop_tokens, name='tokens')\n"},
        {"a.py": "import random\nadd(every(hour=3), token=str(random.randint(0, 23)))\n"},
        "security.predictable-random",
    ),
    "an archive that is open already": (
        {},
        {"a.py": FLASK + "    return gzip.open(io.BytesIO(request.files['x'].read())).read()\n"},
        {"a.py": FLASK + "    return gzip.open(request.args['x']).read()\n"},
        "security.path-traversal",
    ),
    "a name that is a word of guards, C#": (
        {"A.cs": CSHARP.format('[Menu("Admin role"), Authorize]\n  ', "")},
        {"A.cs": CSHARP.format("[Authorize]\n  ", "")},
        {"A.cs": CSHARP.format('[Menu("Admin role")]\n  ', "")},
        "security.access-control-removed",
    ),
    "a route that documentation did not guard either, C#": (
        {"A.cs": ADMIN.format('[Summary("Needs the role admin")]\n')},
        {"A.cs": ADMIN.format("")},
        {"A.cs": ADMIN.format(""), "B.cs": ADMIN.format('[Summary("Needs the role admin")]\n')},
        "security.admin-unguarded",
    ),
    "a route that documentation does not guard, Python": (
        {},
        {"a.py": f"{LOGIN}@app.post('/admin/a')\n@staff_only\ndef drop():\n    return clear()\n"},
        {"a.py": f"{LOGIN}@app.post('/admin/a')\n@doc('a')\ndef drop():\n    return clear()\n"},
        "security.admin-unguarded",
    ),
    "a statement of which the lines are joined, Java": (
        {"A.java": JAVA.format("", "c.make()\n      .executeQuery(\n        \"select * from t where b = '\" + d + \"'\");")},
        {"A.java": JAVA.format("", "c.make().executeQuery(\"select * from t where b = '\" + d + \"'\");")},
        {"A.java": JAVA.format("", "c.make().executeQuery(\"select * from t where b = '\" + d.b(e) + \"'\");")},
        "security.sql-built",
    ),
    "streams and what is written, C#": (
        {},
        {"C.cs": CS.format('new StreamReader(Request.Body)') + CSHARP.format("", 'File.WriteAllText("a", Request.Query["a"]); new StreamReader(new MemoryStream(F(Request.Query["a"])));')},
        {"C.cs": CSHARP.format("", 'File.Copy("a", Request.Query["a"]);')},
        "security.path-traversal",
    ),
    "streams and what is written, Java": (
        {},
        {"A.java": UPLOAD.format('Files.copy(a.getInputStream(), B); Files.write(B, a.getBytes()); Files.writeString(B, b);')},
        {"A.java": UPLOAD.format('Files.copy(a.getInputStream(), Paths.get(b));')},
        "security.path-traversal",
    ),
    "uploads and what is written, Ruby": (
        {},
        {"a.rb": RB.format('File.write("a", params[:a]); File.open(params[:b].path)')},
        {"a.rb": RB.format('FileUtils.cp("a", params[:a])')},
        "security.path-traversal",
    ),
    "the place of an upload, JavaScript": (
        {},
        {"a.js": JS.format("fs.unlinkSync(req.file.path); fs.readFileSync(req.files[0].path);")},
        {"a.js": JS.format("fs.unlinkSync(req.file.originalname);")},
        "security.path-traversal",
    ),
    "a reader of an upload, Python": (
        {},
        {"a.py": FLASK + "    return gzip.open(io.BufferedReader(request.files['x'].stream)).read()\n"},
        {"a.py": FLASK + "    return gzip.open('a/' + request.files['x'].filename).read()\n"},
        "security.path-traversal",
    ),
    "forged requests to pages of errors, Ruby": (
        {},
        {"a.rb": OF_ERRORS.format("render_404")},
        {"a.rb": OF_ERRORS.format("Report.create(params[:a])")},
        "security.csrf-off",
    ),
    "a target that a function has checked, Ruby": (
        {},
        {"a.rb": RB.format(OWN_RB.format('unless b.start_with?("/")'))},
        {"a.rb": RB.format(OWN_RB.format("if b.empty?"))},
        "security.open-redirect",
    ),
    "a target that a function has checked, JavaScript": (
        {},
        {"a.js": JS.format("res.redirect(f(req));") + OWN_JS.format('!a.startsWith("/")')},
        {"a.js": JS.format("res.redirect(f(req));") + OWN_JS.format("!a")},
        "security.open-redirect",
    ),
    "blanks at the ends of a text, Python": (
        {"a.py": "import re\n\ndef f(a):\n    b = re.sub(r'(^[\\s\\u200B]+)|([\\s\\u200B]+$)', '', a)\n    return re.sub(r'[\\r\\n]', '', b)\n"},
        {"a.py": "import re\n\ndef f(a):\n    b = a\n    return re.sub(r'[\\r\\n]', '', b)\n"},
        {"a.py": "import re\n\ndef f(a):\n    b = re.sub(r'(^[\\s\\u200B]+)|([\\s\\u200B]+$)', '', a)\n    return b\n"},
        "security.escape-removed",
    ),
    "every record, in a migration of data, Ruby": (
        {},
        {"db/data/20250226_a.rb": "class A < ActiveRecord::Migration[8.0]\n  def up\n    Order.update_all(paid: true)\n  end\nend\n"},
        {"app/a.rb": "class A\n  def up\n    Order.update_all(paid: true)\n  end\nend\n"},
        "qa.sql-all-rows",
    ),
    "an agent that a function makes now, JavaScript": (
        {"a.js": "get(url, {\n  agent: new https.Agent({ ...o, rejectUnauthorized: false }),\n});\n"},
        {"a.js": "function f(s) {\n  return s\n    ? new https.Agent({ ...o, rejectUnauthorized: false })\n    : null;\n}\nget(url, { agent: f(1) });\n"},
        {"a.js": "function f(s) {\n  return s\n    ? new tls.Agent({ ...o, rejectUnauthorized: false })\n    : null;\n}\nget(url, { agent: f(1) });\n"},
        "security.tls-unverified",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_ordinary_change_is_quiet_and_its_twin_is_told(tmp_path: Path, what: str) -> None:
    base, quiet, told, rule = CHANGES[what]
    for side in ("quiet", "told"):
        (tmp_path / side).mkdir()
    assert rule not in found(tmp_path / "quiet", base, quiet)
    assert rule in found(tmp_path / "told", base, told)


@pytest.mark.parametrize(
    ("code", "was", "had", "comes", "told"),
    [
        ("SC2242", "exit -1", 2, "exit -1", 0),
        ("SC2242", "exit -1", 1, "exit -1", 1),
        ("SC2242", "exit -1", 2, "exit 300", 1),
        ("SC2088", "a='~/.a'", 2, "b='~/.b'", 0),
        ("SC2088", "a='~/.a'", 1, "b='~/.b'", 1),
    ],
)
def test_what_a_script_does_already_is_its_way(
    code: str, was: str, had: int, comes: str, told: int
) -> None:
    rule = shipped_rules().find("shellcheck", code)
    assert rule is not None
    base, head = (
        [
            (rule, RawFinding(code, "a.sh", n, "odd", key=remove_white_space([text])))
            for n, text in enumerate(texts, 1)
        ]
        for texts in ([f"f || {was}"] * had, [f"f || {was}"] * had + [f"g || {comes}"])
    )
    assert len(find_new(base, head, [])) == told


@pytest.mark.parametrize(
    ("comes", "told"), [('"$b" != "flush"', 0), ('"$d" != "help"', 1), ("echo ${a[@]}", 1)]
)
def test_a_defect_of_a_condition_that_is_edited_is_not_new(comes: str, told: int) -> None:
    rule = shipped_rules().find("shellcheck", "SC2068")
    assert rule is not None
    was, now = (
        [
            (rule, RawFinding("SC2068", "a.sh", n, "split", key=text, statement=text))
            for n, text in enumerate(map("if[[-z$(echo ${{a[@]}}|grep$b)&&{}]]".format, parts))
        ]
        for parts in (['"$b" != "flush" && "$b" != "help"'], [comes, comes][: 1 + ("a" in comes)])
    )
    assert len(find_new(was, now, [])) == told


def test_fixed_names_of_one_script_are_one_finding(tmp_path: Path) -> None:
    script = "curl -o /tmp/a.deb https://a.test/a.deb\ncurl -o /tmp/b.deb https://a.test/b.deb\n"
    assert found(tmp_path, {}, {"a.sh": script}) == ["security.temp-name"]
