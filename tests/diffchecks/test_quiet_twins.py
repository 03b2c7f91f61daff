"""Everyday code in which a rule finds nothing, and its twin with the defect."""

from pathlib import Path

import pytest

from diffchecks.check_io import Gap, NotApplicable, Source
from diffchecks.script_languages import path_by_language, script_language
from diffchecks.syntax_and_duplicates import looks
from tests.diffchecks.test_false_alarms import Files, compared, found

IMAGE = (
    f"services:\n  db:\n    image: mysql@sha256:{'a' * 64}\n    ports: ['3306:3306']\n"
    "    environment:\n      - "
)
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEpAIBAAKCAQEAw7q0x8Zk2Jt3v5nQd8F4yH1rT6u' * 20}\n-----END RSA PRIVATE KEY-----\n"
RUBY = "class A < ApplicationController\n  def f\n    {}\n  end\nend\n"
STATEMENTS = "<?php\nfunction f($db, $path, $a) {{\n  foreach (explode(';', file_get_contents($path)) as $s) {{\n    $ok = $db->query({});\n  }}\n}}\n"
SCRIPT = "app.use((req, res) => {{\n  return res.redirect({});\n}});\n"
GO = (
    "package a\n\nfunc f(w http.ResponseWriter, r *http.Request) {{\n\tbody, err := io.ReadAll(r.Body)\n"
    "\tif err != nil {{\n\t\tw.Write([]byte({}))\n\t}}\n\tuse(body)\n}}\n"
)
GEMS = 'source "https://rubygems.org"\ngem "rails"\n'
MAIL = "{}\n<!---------------->\n<html><body>{}</body></html>\n"
TURBO = "{}import './b';\n"
MIGRATION = "{}UPDATE users SET secret = NULL;\n"
LOADED = "load(x, {{ decodeEntities: {} }});\nparse(x, {{ externalEntities: {} }});\n"
CI = ".github/workflows/a.yml"
CI2 = ".github/workflows/0.yml"
SHA = "8e5e7e5ab8b370d6c329ec480221332ada57f0ab"
JOB = "on: push\n{1}\njobs:\n  {0}:\n    runs-on: x\n    steps: [{{uses: o/a@{2}}}]\n"
POWER = "    permissions:\n      {}\n"
READS = "  b:\n    runs-on: x\n    permissions:\n      contents: read\n    steps: [{run: make}]\n"
OTHER = "  b:\n    runs-on: x\n    steps: [{run: make}]\n"
REDIRECT = (
    "from urllib.parse import quote, urlencode\nfrom django.http import HttpResponseRedirect\n"
    "def f(request):\n    return HttpResponseRedirect({})\n"
)
CHECKED = (
    "import re\nfrom django.http import HttpResponseRedirect\ndef f(request):\n    url = request.GET['q']\n"
    "    if not re.match('{}', url):\n        url = '/'\n    return HttpResponseRedirect(url)\n"
)
NAMED = (
    "import os\nfrom flask import request\n\n\ndef f():\n    n, e = os.path.splitext(request.args['a'])\n"
    "    return open('/srv/' + {})\n"
)
UPLOAD = (
    "import os\nfrom django.core.files.uploadedfile import UploadedFile\nfrom django.http import HttpResponse\n"
    "def up(f: UploadedFile):\n    return open(os.path.join('/srv', f.{}), 'wb')\n"
    "def view(request):\n    up(request.FILES['f'])\n    return HttpResponse('')\n"
)
ASSET = (
    "from m import Asset, read\ndef see(request, pk):\n    return request.user.id == pk\n"
    "def f(request, asset_id):\n    asset = Asset.objects.get(pk=asset_id)\n    read(request, {})\n    return asset\n"
)
DIGEST = (
    "import hashlib\ndef f(password):\n    {} = hashlib.sha256(password.encode()).hexdigest()\n"
)
COSTS = "fn f(p: bool) {{\n{}\n{}a.m_cost({});\n{}a.m_cost({});\n}}\n"
MODEL = (
    "from django.db import models\nclass Item(models.Model):\n    kind = models.CharField()\n    name = models.CharField()\n"
    "def f(request):\n    item = Item(kind='a', name=request.GET['a'])\n    return open(f'/srv/{{item.{}}}')\n"
)
HMAC = "const {} = crypto.createHmac('md5', account.password);\n"
SHA1 = "const {} = crypto.createHash('sha1').update(password).digest('hex');\n"

KOTLIN = "class A {{\n  fun f(db: DB, leak: Leak, other: Leak) {{\n    {}\n  }}\n}}\n"
ROW = "db.rawQuery(\"SELECT a FROM t WHERE {} = '${{{}}}'\", null)"
CPP = "int f(const string& dir, const string& name) {{\n  {}\n  return 0;\n}}\n"
PREPARED = (
    "<?php\nclass A {{\n  function f($id, $name) {{\n    $sql = 'DELETE FROM t WHERE h=' . {};\n"
    "    $this->a = $this->pdo->prepare($sql){};\n  }}\n}}\n"
)
EVAL = '<?php\nclass A {{\n  function f($a, $b) {{\n    eval("x(\'" . addcslashes({}, "\'") . "\');");\n  }}\n}}\n'
SHOWN = 'class A {{\n  fun f() {{\n    val a = """\n    {}\n    """\n  }}\n}}\n'
RUN = "app.get('/', function show(req, res) {{\n  exec('ls ' + {});\n}});\n"

STYLE = "import hashlib\n\ndef f(secret):\n    with open('a.css') as file:\n        return hashlib.sha1({}.encode()).hexdigest(){}\n"
STORED = "<?php\nfunction f($pdo) {{\n  $sql = {};\n  $pdo->exec(str_replace('A', 'B', $sql . ' where a = b'));\n}}\n"
LOGIN = "package a\n\nfunc f(hash, password []byte) {{\n\t_ = bcrypt.CompareHashAndPassword({}, password)\n}}\n"
API = (
    "class A < ApplicationController\n  skip_before_action :verify_authenticity_token\n  before_action :authenticate\n"
    "  def authenticate\n    head 403 unless known?({})\n  end\nend\n"
)
PAGE = "function f(sql) {{\n  const url = new URL(location.href);\n  url.searchParams.set('q', sql);\n  location.href = {};\n}}\n"
FETCHED = "async function f() {{\n  const r = await fetch(location.href);\n  return {}(await r.text());\n}}\n"
WORKER = (
    "addEventListener('fetch', (event) => {{\n  event.respondWith(\n    (async () => {{\n"
    "      const a = await {};\n      return fetch(event.request.url, g(a));\n    }})(),\n  );\n}});\n"
)
NAMES = (
    "import re\nimport sqlite3\nfrom flask import Flask, request\n\napp = Flask(__name__)\nplain = re.compile(r'^[a-z]+$')\n\n\n"
    "def quoted(name):\n    if plain.match(name) and name not in WORDS:\n        return name\n    return '\"{{}}\"'.format({})\n\n\n"
    "@app.route('/')\ndef f():\n    sqlite3.connect('a').execute('select * from ' + quoted(request.args['t']))\n"
)
MODULES = '<script setup lang="ts">\nmainElement.a = 1\nimport {{ a }} from \'./a\'\n</script>\n\n<script lang="ts">\nexport const {} = 1\n</script>\n'
SORTED = "package a\n\nfunc f(by string) string {{\n\tq({})\n\treturn {}\n}}\n"

LISTED = "<?php\nfunction f($pdo, $ids) {{\n  $pdo->query('SELECT a FROM t WHERE b = ' . {});\n}}\n"

HELD = (
    "async def data({0}):\n    db = {0}.{1}\n    columns = await db.names({0})\n"
    "    await db.execute('select a from t where b = ' + columns)\n"
)

ROUTE = 'fun route() {{\n  val name = call.parameters["name"]\n  {}\n}}\n'

NUMBER = "<?php\nfunction f({} $id) {{\n  $sql = 'select a from t';\n  $sql .= ' where id = ' . {};\n}}\n"

BY_TABLE = "package a\n\nfunc f(db *sql.DB, tab, id, name string) {{\n\t{}\n}}\n"
SELECT = 'db.Query("SELECT a FROM " + {} + " WHERE {} = " + id)'
BY_ID = 'sub f {{\n  my ($dbh, $id, $name) = @_;\n  $dbh->do("DELETE FROM t WHERE {}");\n}}\n'

TYPED = "<?php\nfunction g({} $id) {{\n  h($id);\n}}\nfunction f({} $id) {{\n  echo {};\n}}\n"

SESSIONS = (
    "const session = require('{}');\napp.use(express.urlencoded({{ extended: false }}));\n"
    "app.use(session({{ keys: [process.env.KEY]{} }}));\napp.use(passport.{}());\n"
)
SHARED = "#!/bin/sh\nset -eu\n{}\nchmod 777 \\\n    {}\n"

# What both have in base, the everyday code, the twin, and the rule that finds it.
TWINS: dict[str, tuple[Files, Files, Files, str]] = {
    "a session whose cookie is secure by itself": (
        {},
        {"a.js": SESSIONS.format("cookie-session", "", "initialize")},
        {"a.js": SESSIONS.format("express-session", "", "initialize")},
        "security.insecure-cookie",
    ),
    "a session whose cookie is secure by itself, but for a setting": (
        {},
        {"a.js": SESSIONS.format("cookie-session", ", maxAge: 3600", "initialize")},
        {"a.js": SESSIONS.format("cookie-session", ", secure: false", "initialize")},
        "security.insecure-cookie",
    ),
    "a session that only holds the state of a sign-in": (
        {},
        {"a.js": SESSIONS.format("cookie-session", "", "initialize")},
        {
            "a.js": SESSIONS.format("cookie-session", "", "initialize")
            + "app.use(passport.session());\n"
        },
        "security.csrf-off",
    ),
    "folders that a container shares with its host": (
        {},
        {"dev.sh": SHARED.format("# For the users of bind mounts.", '"$APP/vendor"')},
        {"dev.sh": SHARED.format("# Make it work.", '"$APP/vendor"')},
        "security.file-permissions",
    ),
    "a folder that a container shares, and a file of the system": (
        {},
        {"dev.sh": SHARED.format("# Development: bind mounts.\n# See above.", '"$APP/vendor"')},
        {"dev.sh": SHARED.format("# Development: bind mounts.", "/etc/passwd")},
        "security.file-permissions",
    ),
    "the statement of base whose other value comes from elsewhere": (
        {"a.go": BY_TABLE.format(SELECT.format("tab", "b"))},
        {"a.go": BY_TABLE.format("r, err := " + SELECT.format("tab", "c"))},
        {"a.go": BY_TABLE.format(SELECT.format("name", "b"))},
        "security.sql-built",
    ),
    "the statement of base with one more value in its text": (
        {"a.pl": BY_ID.format("b = '$id'")},
        {"a.pl": BY_ID.format("c = '$id' -- this one")},
        {"a.pl": BY_ID.format("b = '$id' or c = '$name'")},
        "security.sql-built",
    ),
    "the command of base with a text in place of a number": (
        {"a.js": RUN.format("user.id")},
        {"a.js": RUN.format("user.id.toString()")},
        {"a.js": RUN.format("user.bio")},
        "security.command-built",
    ),
    "the mark before a file, and one within a name": (
        {"a.js": "\ufeffconst a = 1;\nif (admin) go();\n"},
        {"a.js": "\ufeffconst a = 2;\nif (admin) go();\n"},
        {"a.js": "const a = 1;\nif (ad\ufeffmin) go();\n"},
        "security.invisible-text",
    ),
    "a text with the name of a clause that a parameter holds": (
        {},
        {"a.py": "def f(cur, held):\n    cur.execute('select a from t where b = ' + held.db)\n"},
        {"a.py": "def f(cur, held):\n    cur.execute('select a from t where b = ' + held.query)\n"},
        "security.sql-from-parameter",
    ),
    "the path of base in a longer call": (
        {"a.kt": ROUTE.format("call.send(File(root, File(name).name))")},
        {"a.kt": ROUTE.format("call.send(File(root, File(name).name), 1)")},
        {"a.kt": ROUTE.format("call.send(File(root, name))")},
        "security.path-from-request",
    ),
    "the application, which is named like its package": (
        {},
        {"site/a.py": HELD.format("site", "name")},
        {"shop/a.py": HELD.format("site", "name")},
        "security.sql-from-parameter",
    ),
    "a database that a parameter holds": (
        {},
        {"a.py": HELD.format("found", "db")},
        {"a.py": HELD.format("found", "name")},
        "security.sql-from-parameter",
    ),
    "placeholders that are repeated": (
        {},
        {"a.php": LISTED.format("str_repeat('?,', count($ids))")},
        {"a.php": LISTED.format("str_repeat($ids[0], 2)")},
        "security.sql-built",
    ),
    "a query that is added to the page's own address": (
        {},
        {
            "a.js": "const q = location.search.slice(1);\nlocation.href = q ? '?' + q : location.pathname;\n"
        },
        {
            "a.js": "const q = location.search.slice(1);\nlocation.href = q ? 'https:' + q : location.pathname;\n"
        },
        "security.open-redirect",
    ),
    "the cut digest of a file": (
        {},
        {"a.py": STYLE.format("file.read()", "[:6]")},
        {"a.py": STYLE.format("secret", "[:6]")},
        "security.weak-hash",
    ),
    "a constant of an included file": (
        {},
        {"a.php": STORED.format("$GLOBALS['SQL_UPDATE']")},
        {"a.php": STORED.format("$GLOBALS['_GET']['q']")},
        "security.sql-built",
    ),
    "a password that is compared for its time only": (
        {},
        {"a.go": LOGIN.format("dummyHash")},
        {"a.go": LOGIN.format("hash")},
        "qa.error-unchecked",
    ),
    "a program's key in place of a token against forgery": (
        {},
        {"a.rb": API.format('request.headers["X-Key"]')},
        {"a.rb": API.format('session["key"]')},
        "security.csrf-off",
    ),
    "the page's own address with another query": (
        {},
        {"a.js": PAGE.format("url.toString()")},
        {"a.js": PAGE.format("url.searchParams.get('next')")},
        "security.open-redirect",
    ),
    "a page that a browser asks for again": (
        {},
        {"a.js": FETCHED.format("new DOMParser().parseFromString")},
        {"a.js": FETCHED.format("parse")},
        "security.server-side-request-forgery",
    ),
    "what a service worker of a browser asks for": (
        {},
        {"a.js": WORKER.format("self.clients.get(event.clientId)")},
        {"a.js": WORKER.format("clients.get(event.request.headers)")},
        "security.server-side-request-forgery",
    ),
    "a name in SQL whose quotes are doubled": (
        {},
        {"a.py": NAMES.format("name.replace('\"', '\"\"')")},
        {"a.py": NAMES.format('name.replace("\'", "\'\'")')},
        "security.sql-injection",
    ),
    "two scripts of a component": (
        {},
        {"a.vue": MODULES.format("mainElement")},
        {"a.vue": MODULES.format("other")},
        "qa.script-undeclared",
    ),
    "a statement that is joined in another way": (
        {"a.go": SORTED.format('" WHERE a = $1", by', 'fmt.Sprintf(" ORDER BY %s", by)')},
        {"a.go": SORTED.format('" WHERE a = $1", by', '" ORDER BY " + by')},
        {"a.go": SORTED.format('" WHERE a = " + by', 'fmt.Sprintf(" ORDER BY %s", by)')},
        "security.unsafe-replacement",
    ),
    "a number that its declaration makes one": (
        {"a.php": NUMBER.format("$old,", "intval($id)")},
        {"a.php": NUMBER.format("?int", "$id")},
        {"a.php": NUMBER.format("string", "$id")},
        "security.escape-removed",
    ),
    "a number of the function itself": (
        {"a.php": TYPED.format("string", "int", "htmlspecialchars($id)")},
        {"a.php": TYPED.format("string", "int", "$id")},
        {"a.php": TYPED.format("int", "string", "$id")},
        "security.escape-removed",
    ),
    "entities of a value that are no longer decoded": (
        {
            "a.php": "<?php\n$a = htmlspecialchars_decode($b, ENT_QUOTES);\n$c = htmlspecialchars($d);\n"
        },
        {"a.php": "<?php\n$a = $b;\n$c = htmlspecialchars($d);\n"},
        {"a.php": "<?php\n$a = htmlspecialchars_decode($b, ENT_QUOTES);\n$c = $d;\n"},
        "security.escape-removed",
    ),
    "an element of the page's own": (
        {},
        {"a.js": 'class A { f(e) { e.innerHTML = `<ul id="${this.listboxId}">`; } }\n'},
        {"a.js": 'class A { f(e) { e.innerHTML = `<ul id="${this.userId}">`; } }\n'},
        "security.html-built",
    ),
    "the statement of base with a renamed column": (
        {"a.kt": KOTLIN.format(ROW.format("signature", "leak.signature"))},
        {"a.kt": KOTLIN.format(ROW.format("mark", "leak.mark"))},
        {"a.kt": KOTLIN.format(ROW.format("mark", "other.mark"))},
        "security.sql-built",
    ),
    "the statement of base beside a second one": (
        {"a.kt": KOTLIN.format(ROW.format("a", "leak.a"))},
        {"a.kt": KOTLIN.format("use()\n    " + ROW.format("b", "leak.a"))},
        {"a.kt": KOTLIN.format(f"{ROW.format('a', 'leak.a')}\n    {ROW.format('b', 'leak.b')}")},
        "security.sql-built",
    ),
    "the command of base under a name": (
        {"a.cc": CPP.format('system(("write " + dir).c_str());')},
        {"a.cc": CPP.format('string c = "write " + dir;\n  system(c.c_str());')},
        {"a.cc": CPP.format('string c = "write " + name;\n  system(c.c_str());')},
        "security.command-built",
    ),
    "the command of base with more values": (
        {"a.cc": CPP.format('system(("write " + dir).c_str());')},
        {"a.cc": CPP.format('return system(("write " + dir).c_str());')},
        {"a.cc": CPP.format('system(("write " + dir + name).c_str());')},
        "security.command-built",
    ),
    "the statement of base prepared in another line": (
        {"a.php": PREPARED.format("$id", " ?: null")},
        {"a.php": PREPARED.format("$id", "")},
        {"a.php": PREPARED.format("$name", "")},
        "security.sql-built",
    ),
    "the code of base of a value that became an object": (
        {"a.php": EVAL.format("$a")},
        {"a.php": EVAL.format("$a->__toString()")},
        {"a.php": EVAL.format("$b->__toString()")},
        "security.text-as-code",
    ),
    "an invisible space between spaces": (
        {},
        {"a.kt": SHOWN.format("\u200b  a")},
        {"a.kt": SHOWN.format("\u3164  a")},
        "security.invisible-text",
    ),
    "the invisible character of base in a longer line": (
        {"a.kt": SHOWN.format("a\u200bb")},
        {"a.kt": SHOWN.format("a\u200bb c")},
        {"a.kt": SHOWN.format("a\u200bb\n    a\u200bb c")},
        "security.invisible-text",
    ),
    "the command of base with other data of the request": (
        {"a.js": RUN.format("req.session.dir")},
        {"a.js": RUN.format("req.session.dir.toString()")},
        {"a.js": RUN.format("req.query.dir")},
        "security.command-injection",
    ),
    "a method with a beginning of its own": (
        {},
        {"a.rb": RUBY.format('send("check_#{params[:m]}", 1)')},
        {"a.rb": RUBY.format('send("#{params[:m]}_check", 1)')},
        "security.code-injection",
    ),
    "the whole of a value is interpolated": (
        {},
        {"a.cue": '{\n"password": "\\#(password)"\n"token": "\\(token)"\n}\n'},
        {"a.cue": '{\n"password": "t7kQx9Lm2pZ"\n}\n'},
        "security.password-literal",
    ),
    "a page that is loaded again": (
        {},
        {"a.js": "window.location = window.location.href;\nlocation.href = location.href;\n"},
        {"a.js": "window.location = window.location.hash.slice(1);\n"},
        "security.open-redirect",
    ),
    "the address of the request itself in Ruby": (
        {},
        {"a.rb": RUBY.format("redirect_to URI(request.original_url).merge(target).to_s")},
        {"a.rb": RUBY.format("redirect_to URI(request.original_url).merge(params[:to]).to_s")},
        "security.open-redirect",
    ),
    "whole statements of a file": (
        {},
        {"a.php": STATEMENTS.format('"$s;"'), "b.php": STATEMENTS.format("$s . ';'")},
        {"a.php": STATEMENTS.format('"$s WHERE a = $a;"')},
        "security.sql-built",
    ),
    "the host of the request itself": (
        {},
        {"a.js": SCRIPT.format("`https://${req.hostname}${req.originalUrl}`")},
        {"a.js": SCRIPT.format("`https://${req.hostname}${req.query.rest}`")},
        "security.open-redirect",
    ),
    "the error of reading a body": (
        {},
        {"a.go": GO.format("err.Error()")},
        {"a.go": GO.format("string(body)")},
        "security.cross-site-scripting",
    ),
    "a column that is emptied after it is copied": (
        {},
        {"migrations/1/up.sql": MIGRATION.format("INSERT INTO t SELECT secret FROM users;\n")},
        {"migrations/1/up.sql": MIGRATION.format("INSERT INTO t SELECT secret FROM others;\n")},
        "qa.sql-all-rows",
    ),
    "a global name that an imported package sets": (
        {},
        {
            "a.js": TURBO.format("import '@hotwired/turbo';\n"),
            "b.js": "export {};\nTurbo.visit(1);\n",
        },
        {"a.js": TURBO.format(""), "b.js": "export {};\nTurbo.visit(1);\n"},
        "qa.script-undeclared",
    ),
    "packages beside others of the same family": (
        {"Gemfile": GEMS},
        {"Gemfile": GEMS + 'gem "net-ftp", "~> 0.1"\ngem "omniauth-oauth", "~> 1.0"\n'},
        {"Gemfile": GEMS + 'gem "omniauth-oauth3", "~> 0.1"\ngem "nokogirl", "~> 1.0"\n'},
        "security.lookalike-dependency",
    ),
    "entities that are decoded": (
        {"a.js": LOADED.format("false", "false")},
        {"a.js": LOADED.format("true", "false")},
        {"a.js": LOADED.format("false", "true")},
        "security.hardening-removed",
    ),
    "the subject of a mail": (
        {},
        {"email/a.html.hbs": MAIL.format("Hello {{{name}}}", "{{name}}")},
        {"email/a.html.hbs": MAIL.format("Hello", "{{{name}}}")},
        "security.template-unescaped",
    ),
    "a switch that lets the database choose a password": (
        {},
        {"docker-compose.yml": IMAGE + "MYSQL_RANDOM_ROOT_PASSWORD=yes\n"},
        {"docker-compose.yml": IMAGE + "MYSQL_ROOT_PASSWORD=yes\n"},
        "security.password-literal",
    ),
    "a power that base gave to all whose code others can replace": (
        {CI: JOB.format("a", "", "v1") + POWER.format("contents: write")},
        {CI: JOB.format("a", "", SHA) + POWER.format("contents: write  # to push")},
        {CI: JOB.format("a", "", SHA) + POWER.format("packages: write")},
        "security.workflow-token-writes",
    ),
    "powers that a workflow without a list gave": (
        {CI: JOB.format("a", "", SHA)},
        {CI: JOB.format("a", "permissions: {}", SHA) + POWER.format("contents: write")},
        {CI: JOB.format("a", "permissions: {}", SHA) + POWER.format("id-token: write")},
        "security.workflow-token-writes",
    ),
    "the first list of powers beside an action that its owner can replace": (
        {CI: JOB.format("a", "", "v1")},
        {CI: JOB.format("a", "", "v1") + POWER.format("contents: write")},
        {CI: JOB.format("a", "", "v1") + POWER.format("id-token: write")},
        "security.workflow-token-shared",
    ),
    "powers of all jobs that each of two states now": (
        {CI: JOB.format("a", "permissions: {contents: write}", SHA) + OTHER},
        {
            CI: JOB.format("a", "", SHA)
            + POWER.format("contents: write")
            + OTHER
            + POWER.format("contents: write")
        },
        {
            CI: JOB.format("a", "", SHA)
            + POWER.format("actions: write")
            + OTHER
            + POWER.format("contents: write")
        },
        "security.workflow-token-writes",
    ),
    "powers that a second job states beside those of the first": (
        {CI: JOB.format("a", "", SHA) + READS},
        {CI: JOB.format("a", "", SHA) + POWER.format("contents: write") + READS},
        {CI: JOB.format("a", "", SHA) + READS.replace("read", "write")},
        "security.workflow-token-writes",
    ),
    "what is behind the last dot of a name": (
        {},
        {"a.py": NAMED.format("e")},
        {"a.py": NAMED.format("n")},
        "security.path-traversal",
    ),
    "an upload's name, of which Django keeps the last part": (
        {},
        {"views.py": UPLOAD.format("name")},
        {"views.py": UPLOAD.format("content_type")},
        "security.path-traversal",
    ),
    "a record whose other end is asked whose it is": (
        {},
        {"views.py": ASSET.format("asset.bookmark_id")},
        {"views.py": ASSET.format("asset.name")},
        "security.record-unowned",
    ),
    "an annotation that says what a tool keeps": (
        {
            "F.java": '@Retention(RetentionPolicy.RUNTIME)\n@RolesAllowed("admin")\npublic class F {}\n'
        },
        {"F.java": '@RolesAllowed("admin")\npublic class F {}\n'},
        {"F.java": "@Retention(RetentionPolicy.RUNTIME)\npublic class F {}\n"},
        "security.access-control-removed",
    ),
    "a query of a request behind a path of the site": (
        {},
        {"a.py": REDIRECT.format("urlencode({'q': request.GET['q']})")},
        {"a.py": REDIRECT.format("quote(request.GET['q'])")},
        "security.open-redirect",
    ),
    "a path that an expression holds to the site": (
        {},
        {"a.py": CHECKED.format("^/[a-z]+")},
        {"a.py": CHECKED.format("^/[a-z]*")},
        "security.open-redirect",
    ),
    "a digest by which an entry is found": (
        {},
        {"a.py": DIGEST.format("cache_key")},
        {"a.py": DIGEST.format("stored")},
        "security.fast-password-hash",
    ),
    "two values that only moved": (
        {"a.rs": COSTS.format("match p {", "", 19456, "", 65540)},
        {"a.rs": COSTS.format("if p {", "    ", 19456, "    ", 65540)},
        {"a.rs": COSTS.format("if p {", "    ", 19456, "    ", 8192)},
        "security.hardening-removed",
    ),
    "a column that a request does not set": (
        {},
        {"a.py": MODEL.format("kind")},
        {"a.py": MODEL.format("name")},
        "security.path-traversal",
    ),
    "what a protocol asks for": (
        {},
        {"a.js": HMAC.format("cramMd5"), "b.js": SHA1.format("pwnedRange")},
        {"a.js": f"// cram-md5\n{HMAC.format('sign')}", "b.js": SHA1.format("stored")},
        "security.weak-hash",
    ),
    "a name that is declared in another way": (
        {"a.js": f"var {HMAC.format('sign')[6:]}"},
        {"a.js": HMAC.format("sign")},
        {"a.js": HMAC.format("sign").replace("'md5'", "'sha1'")},
        "security.weak-hash",
    ),
}


@pytest.mark.parametrize("what", TWINS)
def test_everyday_code_is_quiet_and_its_twin_is_found(tmp_path: Path, what: str) -> None:
    base, quiet, told, rule = TWINS[what]
    for side in ("quiet", "told"):
        (tmp_path / side).mkdir()
    assert rule not in found(tmp_path / "quiet", base, quiet)
    assert rule in found(tmp_path / "told", base, told)


def test_what_is_new_in_one_of_two_files_is_told_there(tmp_path: Path) -> None:
    power, none = POWER.format("contents: write"), JOB.format("a", "permissions: {}", SHA)
    base = {CI: JOB.format("a", "", SHA) + power, CI2: none}
    head = {CI: base[CI].replace("write", "write  # why"), CI2: none + power}
    told = compared(tmp_path, base, head)
    assert [(one.rule, one.path) for one in told] == [("security.workflow-token-writes", CI2)]


def test_a_key_of_a_test_environment_is_one_of_tests(tmp_path: Path) -> None:
    paths = (f"scripts/{name}/auth/key.yml" for name in ("environments", "test-environments"))
    rules = found(tmp_path, {}, dict.fromkeys(paths, KEY))
    assert rules == ["security.private-key", "security.example-key"]


def test_loosened_dependencies_of_a_change_are_one_finding(tmp_path: Path) -> None:
    names = ("rails", "puma", "devise")
    base, head = ("".join(f'gem "{n}"{spec}\n' for n in names) for spec in (', "~> 1.0"', ""))
    assert found(tmp_path, {"Gemfile": base}, {"Gemfile": head}) == ["security.loosened-dependency"]


def test_a_fixture_in_yaml_with_code_of_ruby_is_no_gap_and_a_setting_is_one() -> None:
    text = b"a:\n  b: <%= c %>\n<% d %>\n"
    with pytest.raises(NotApplicable):
        list(looks(Source("spec/fixtures/a.yml", text)))
    with pytest.raises(Gap):
        list(looks(Source("config/a.yml", text)))


def test_a_first_line_names_what_runs_ruby() -> None:
    for program in ("rake", "rackup", "thor", "bundle", "cap"):
        assert script_language("bin/x", f"#!/usr/bin/env {program}\n".encode()) == "rb"
    assert script_language("bin/x", b"#!/usr/bin/env other\nrun\n") == ""
    assert script_language("bin/x", b"set -eu\nls\n") == "sh"
    assert script_language("bin/x", b"set list\nls\n") == ""
    for begin in (b"prefer_openssl3\nexport A=1\n", b'# 1\n\ncase "$(arch)" in\n'):
        assert path_by_language("share/3.15.0b4", begin) == "share/3.15.0b4.sh"
    assert path_by_language("share/3.15.0b4", b"Set it first.\nexport A=1\n") == "share/3.15.0b4"
