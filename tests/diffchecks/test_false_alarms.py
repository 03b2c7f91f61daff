"""What everyday changes hold and is no defect, each beside an honest twin that is found."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from diffchecks import CheckFinding, check_trees
from diffchecks.check_io import Source

Files = Mapping[str, str]

MARKERS = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n"
HASH = "$2a$10$ymaklWBnpBKlgdMgkjWVF.GMGyvH8aDuTK.glFOaKw712LHtRRymS"
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
ICON = "def icon(name, css)\n  \"<i class='{}#{{name}}{}'></i>\".html_safe\nend\n"
FORK = "GIT\n  remote: https://{}/a/rack.git\n  revision: 1f\n  specs:\n    rack (6.1.7)\n\n"
PROJECT = {"pyproject.toml": '[project]\nname = "x"\nversion = "1"\n', "x/__init__.py": ""}
HTML = "function html(e, v) { e.innerHTML = '<div>' + v + '</div>'; }\n"
BERRY = '__metadata:\n  version: 8\n\n"{}":\n  version: 1.3.0\n  resolution: "{}"\n  checksum: 10c0/{}\n'
YARN = '# yarn lockfile v1\n\n\n"{}":\n  version "1.3.0"\n  resolved "{}"\n  integrity sha512-{}\n'
REGISTRY = "https://registry.yarnpkg.com"
OLD, NEW = "a" * 88, "b" * 88
GIT = "https://github.com/a/h.git"
GEMS = "GEM\n  remote: https://rubygems.org/\n{}  specs:\n    rack ({})\n\nDEPENDENCIES\n  rack\n"
VIEWS = "def {}(request, pk):\n    return str(pk)\n\n\ndef serve(request, pk):\n    return pk\n"
WORK = "class A {{ async Task F() {{ await Task.Run({} => {{ b.ExecuteAsync(g); }}); }} }}\n"
QUERY = "import m, { User, g, q } from 'mongoose';\nasync function f() {\n  User.deleteMany(q);\n  await g();\n}\n"
UPDATE = "<?php\nforeach ($a as $b) { DB::update(\"UPDATE t SET a = '{$b}'\"); }\n"
ACTION = "  def a\n    1\n  end\n"
SHELL = "const { exec } = require('child_process');\nfunction f(c) {\n  exec(c);\n}\n"
PANIC = 'fn f(req: HttpRequest) { let t = req.headers().get("auth").unwrap(); }'
LISTS = (
    "import subprocess\nfrom flask import request\n\n\ndef f():\n"
    "    subprocess.run('ls ' + request.args['a'], shell=True)\n"
)
CRON = "Route::get('cron', [A::class, 'run'])->withoutMiddleware(['api']);\n"
POM = "<project><groupId>g</groupId><artifactId>{}</artifactId>{}<version>{}</version></project>\n"
PARENT = (
    "\n<parent><groupId>g</groupId><artifactId>r</artifactId>\n<version>1.0</version></parent>\n"
)
FRAMEWORK = (
    "x/views.py",
    "x/views/staff.py",
    "x/forms.py",
    "x/tasks.py",
    "x/management/commands/sync.py",
)
STORE = (
    'package a\n\nimport (\n\t"net/http"\n\t"os"\n\t"path"\n\t"regexp"\n)\n\n'
    "var valid = regexp.MustCompile(`^[a-f0-9]{40}$`)\n\n"
    "func (s *S) read(w http.ResponseWriter, r *http.Request) {\n"
    '\thash := r.FormValue("hash")\n\tif !valid.MatchString(hash) {\n\t\treturn\n\t}\n'
    "\tcontent, err := os.ReadFile(path.Join(s.dir, hash))\n\tuse(content, err)\n}\n"
)


def needed(*names: str) -> str:
    return json.dumps({"dependencies": dict.fromkeys(names, "^4.1.2")})


def npm(resolved: str, digest: str) -> str:
    package = f'"version": "1.3.0", "resolved": "{resolved}", "integrity": "sha512-{digest}"'
    return f'{{"lockfileVersion": 3, "packages": {{"node_modules/h": {{{package}}}}}}}\n'


def found(tmp_path: Path, base: Files, head: Files) -> list[str]:
    rules = [each.rule for each in compared(tmp_path, base, head)]
    return [rule for rule in rules if rule != "security.new-dependency"]


def compared(tmp_path: Path, base: Files, head: Files) -> list[CheckFinding]:
    for side, files in (("base", base), ("head", head)):
        (tmp_path / side).mkdir()
        for name, text in files.items():
            (tmp_path / side / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / side / name).write_text(text)
    return list(check_trees(tmp_path / "base", tmp_path / "head"))


ASKED = "<?php\nclass A {{\n  public function isOpen(): bool {{\n    return {};\n  }}\n}}\n"
PAYMENT = "class A {{\n  [HttpPost]{}\n  [IgnoreAntiforgeryToken]\n  public IActionResult Pay([FromBody] Order order)\n  {{\n    {};\n  }}\n}}\n"
CHAIN = "class A {{\n  Chain f(HttpSecurity http) {{\n    return http.csrf(csrf -> csrf.disable()){}.build();\n  }}\n}}\n"
ISSUED = 'fn f(secret: &str) {{\n    println!("secret: {{}}", secret);\n    println!("{}");\n}}\n'
ROUTER = "export default function routes(router) {{\n  router.get('/a', koaGuard({{ response: {} }}), show);\n}}\n"
ENDED = 'class A {{\n  void f(String authToken, Exception e) {{\n    logger.debug("ended {{}}", {});\n  }}\n}}\n'
FETCHES = "curl -o /tmp/a.deb https://a.test/a.deb\n"
QUIET = {
    "a file of a fixed name where an image is built": ({}, {"scripts/build/a.sh": FETCHES}),
    "a file of a fixed name where a system boots, and a mark": (
        {},
        {
            "skel/default/etc/a.sh": FETCHES,
            "initramfs-tools/scripts/a.sh": FETCHES,
            "modules.d/90a/a.sh": FETCHES,
            "lib/b.sh": "touch /tmp/ready\ntest -e /tmp/ready\n",
        },
    ),
    "something else that a line logs": (
        {"A.java": ENDED.format("authToken")},
        {"A.java": ENDED.format("authToken, e")},
    ),
    "guards of the shape of data": (
        {
            "a.ts": "const listGuard = isOpen() ? getWideListResponseGuard : getListResponseGuard;\n\n"
            + ROUTER.format("listGuard"),
            "b.ts": "const namesGuard = eventsGuard.nonempty().transform((all) => unique(all));\n\n"
            + ROUTER.format("namesGuard"),
        },
        {
            "a.ts": ROUTER.format("getListResponseGuard"),
            "b.ts": ROUTER.format("namesGuard").replace(
                "{\n", "{\n  const namesGuard = show.array();\n", 1
            ),
        },
    ),
    "a secret that whoever runs the program sees": (
        {},
        {"a.rs": ISSUED.format("It is only shown once.")},
    ),
    "a request that nobody is signed in for": (
        {},
        {"A.cs": PAYMENT.format("\n  [AllowAnonymous]", "return Ok(Charge(order))")},
    ),
    "a request that a header authenticates": (
        {},
        {
            "A.cs": PAYMENT.format(
                '\n  [Authorize(AuthenticationSchemes = "Bearer")]',
                "return Ok(Charge(User, order))",
            ),
            "B.java": CHAIN.format(
                ".sessionManagement(s -> s.sessionCreationPolicy(SessionCreationPolicy.STATELESS))"
            ),
        },
    ),
    "markers in a template literal": ({}, {"d.ts": f"export const d = `\n{MARKERS}`;\n"}),
    "a name that an expression checks": ({}, {"s.go": STORE}),
    "a question about a right that a helper asks now": (
        {"a.php": ASKED.format("$this->permissions()->can('access')")},
        {"a.php": ASKED.format("Permissions::fromCache($this, 'access')")},
    ),
    "a type with locks, named for safety, that goes": (
        {
            "a.go": "package a\n\nfunc NewSafeguard() *Safeguard {\n\treturn &Safeguard{at: now()}\n}\n"
        },
        {"a.go": "package a\n"},
    ),
    "markers in a fence": ({}, {"d.md": f"# Conflicts\n\n```text\n{MARKERS}```\n"}),
    "markers in a docstring": ({}, {"d.py": f'D = """\n{MARKERS}"""\n'}),
    "markers in a raw string": ({}, {"d.go": f"package d\n\nconst D = `\n{MARKERS}`\n"}),
    "a dialect that is no YAML in base either": (
        {"keys.yaml": "Next: E\n\tText: next\n", "m/keys.yaml": "Last: E\n\tText: last\n"},
        dict.fromkeys(("keys.yaml", "m/keys.yaml", "n/keys.yaml"), "Tab: F\n\tText: tab\n"),
    ),
    "a file that cannot be parsed moves": ({"a/n.json": "{,}\n"}, {"b/m.json": "{,}\n"}),
    "a query of placeholders": (
        {"a.go": 'package a\n\nfunc f() string {\n\treturn g() + "WHERE a = ? AND id IN (?)"\n}\n'},
        {
            "a.go": 'package a\n\nfunc f() string {\n\treturn "WHERE id IN " + query.IntParams(i...)\n}\n'
        },
    ),
    "a statement that is put together in another way": (
        {
            "M.java": 'class M {\n  String f() {\n    s.append("INSERT INTO ");\n    s.append("?");\n  }\n}\n'
        },
        {
            "M.java": 'class M {\n  String f() {\n    return "INSERT INTO " + name() + values;\n  }\n}\n'
        },
    ),
    "settings and names of a table in PHP": (
        {},
        {
            "D.php": "<?php\n$db->exec('PRAGMA synchronous = ' . $this->mode);\n"
            '$db->query("INSERT INTO {$this->db->prefix}temp SELECT a FROM b");\n'
            "$c = array_map(fn ($i) => $db->protectIdentifiers($i), $n);\n"
            '$db->query("INSERT INTO t SELECT {$c} FROM b");\n'
        },
    ),
    "what moved and was laid out in another way": (
        {"static/app.js": HTML.replace("{ ", "{\n").replace("; }", "\n}"), "a.js": SHELL},
        {
            "web/app.js": HTML.replace("{ ", "{\n").replace("; }", ";\n}").replace("'", '"'),
            "b/a.js": SHELL.replace("(c)", "(\n    c,\n  )"),
        },
    ),
    "the next version of the repository itself": (
        {"pom.xml": POM.format("r", "", "1.0"), "a/pom.xml": POM.format("a", PARENT, "1.0")},
        {
            "pom.xml": POM.format("r", "", "2-SNAPSHOT"),
            "a/pom.xml": POM.format("a", PARENT.replace("1.0", "2-SNAPSHOT"), "2-SNAPSHOT"),
        },
    ),
    "a request that a test makes in a file of the product": (
        {},
        {
            "src/a.rs": f"fn g() {{}}\n\n#[cfg(test)]\nmod tests {{\n    use super::*;\n\n    {PANIC}\n}}\n",
            "src/b.rs": f"#[tokio::test]\nasync {PANIC}\n",
        },
    ),
    "a query that is only compiled": ({}, {"test/types/q.test.ts": QUERY}),
    "a route that was open already, written twice": (
        {"routes/api.php": f"<?php\n{CRON}"},
        {"routes/api.php": f"<?php\n{CRON}" + CRON.replace(")->w", ")\n  ->w")},
    ),
    "text of a migration": ({}, {"database/migrations/a.php": UPDATE}),
    "a guard of what goes too": (
        {
            "a/c.rb": f"class C\n  before_action :require_admin, except: [:a]\n{ACTION}{ACTION.replace(' a', ' b')}end\n",
            "a/d.rb": f"class D\n  before_action :require_admin, only: %i[b]\n{ACTION}{ACTION.replace(' a', ' b')}end\n",
        },
        {"a/c.rb": f"class C\n{ACTION}end\n", "a/d.rb": f"class D\n{ACTION}end\n"},
    ),
    "conditions and their arguments, side by side": (
        {},
        {
            "a.go": "package a\n\nfunc f(a, b int) {\n\twhere, args := []string{}, []any{}\n"
            '\twhere, args = append(where, "a = ?"), append(args, a)\n'
            '\tg(db.Exec("DELETE FROM t WHERE "+strings.Join(where, " AND "), args...))\n'
            '\tg(db.Exec("DELETE FROM t WHERE b IN "+inClause(len(args)+1, b), args...))\n}\n'
        },
    ),
    "a group that a goroutine waits for": (
        {},
        {
            "a.go": "package a\n\nfunc f() {\n\tgo func() {\n\t\twg := &sync.WaitGroup{}\n\t\tfor range 2 {\n"
            "\t\t\twg.Add(1)\n\t\t\tgo func() {\n\t\t\t\tdefer wg.Done()\n\t\t\t}()\n\t\t}\n\t\twg.Wait()\n\t}()\n}\n"
        },
    ),
    "work in the background": ({}, {"A.cs": WORK.format("()")}),
    "a condition that is asserted": (
        {},
        {"A.php": "<?php\n$id = implode(':', [$a, $b]);\nassert($id !== '');\n"},
    ),
    "a token that GitHub's documentation shows": (
        {},
        {"a.py": 'BODY = {"token": "ghs_16C7e42F292c6912E7710c838347Ae178B4a"}\n'},
    ),
    "a label in another script": (
        {},
        {
            "a.yml": 'login: "\\U00010464\\U0001046A"\npassword: "\\U00010450\\U00010468 \\U00010455"\n'
        },
    ),
    "one of two sources of gems goes": (
        {"Gemfile.lock": GEMS.format("  remote: https://gems.a.example/\n", "6.1.6")},
        {"Gemfile.lock": GEMS.format("", "6.1.7")},
    ),
    "text of a translation in a page": (
        {},
        {
            "p.js": 'function f(c) { $("#a").append("<i>" + Shop.I18n.t("a.b", { c: c }) + "</i>"); }\n'
        },
    ),
    "a word of another script in a name": (
        {},
        {"n.ts": "f('\u043a\u0430\u0442\u0435\u0433\u043e\u0440\u0438\u044fId');\n"},
    ),
    "a request of the program itself": (
        {},
        {"n.ts": "const run = (request) => {\n  spawn(request.file, [...request.args]);\n};\n"},
    ),
    "a hash that takes everything": (
        {},
        {"n.go": "package n\n\nfunc f() {\n\tbinary.Write(hasher, binary.BigEndian, *n)\n}\n"},
    ),
    "a number that differs from the last one": ({}, {"n.ts": "o({ nonce: Math.random() });\n"}),
    "a count without its name": ({}, {"n.py": "import re\n\nP = re.split(',', 'a,b', 1)\n"}),
    "a test that would fail": ({}, {"n_spec.ts": "expect((a?.b as string).length).toBe(1);\n"}),
    "more tokens": ({"a.ts": "o({ maxTokens: 8192 });\n"}, {"a.ts": "o({ maxTokens: 65536 });\n"}),
    "other work is skipped": (
        {"a.ts": "this.skip = p.skipNextSpeakerCheck ?? false;\n"},
        {"a.ts": "this.skip = p.skipNextSpeakerCheck ?? true;\n"},
    ),
    "forms validate later": (
        {"a.ts": "o({ validateOnBlur: true });\nd({ closeOnEscape: true });\n"},
        {"a.ts": "o({ validateOnBlur: false });\nd({ closeOnEscape: false });\n"},
    ),
    "a mapping that names permissions": (
        {"U.cs": 'class U {\n  [ForeignKey("Permission_Guid")]\n  int P { get; set; }\n}\n'},
        {"U.cs": "class U {\n  int P { get; set; }\n}\n"},
    ),
    "a column of a role": (
        {"U.java": 'class U {\n  @JoinColumn(name = "role_id")\n  Role role;\n  void f() {}\n}\n'},
        {"U.java": "class U {\n  Role role;\n  void f() {}\n}\n"},
    ),
    "a second path": (
        {"v.py": '@app.get("/admin")\n@app.get("/old/admin")\ndef page():\n    return 1\n'},
        {"v.py": '@app.get("/admin")\ndef page():\n    return 1\n'},
    ),
    "registration in Django's admin": (
        {"a/admin.py": "@admin.register(Tag)\nclass TagAdmin(Base):\n    ordering = 1\n"},
        {"a/admin.py": "class TagAdmin(Base):\n    ordering = 1\n\n\nregister(Tag, TagAdmin)\n"},
    ),
    "a wrapper without its number": (
        {"package.json": needed("sqlite3")},
        {"package.json": needed("sqlite3", "sqlite")},
    ),
    "an alias in Yarn 2": (
        {"yarn.lock": BERRY.format("h@npm:^1.3.0", "h@npm:1.3.0", OLD)},
        {"yarn.lock": BERRY.format("h@npm:@s/h@*", "@s/h@npm:1.3.0", NEW)},
    ),
    "an alias in Yarn 1": (
        {"yarn.lock": YARN.format("h@^1.3.0", f"{REGISTRY}/h/-/h-1.3.0.tgz#1", OLD)},
        {"yarn.lock": YARN.format("h@npm:@s/h@*", f"{REGISTRY}/@s/h/-/h-1.3.0.tgz#2", NEW)},
    ),
    "another commit in Yarn 2": (
        {"yarn.lock": BERRY.format(f"h@{GIT}", f"h@{GIT}#commit={'a' * 40}", OLD)},
        {"yarn.lock": BERRY.format(f"h@{GIT}", f"h@{GIT}#commit={'b' * 40}", NEW)},
    ),
    "another commit in npm": (
        {"package-lock.json": npm(f"git+ssh://git@github.com/a/h.git#{'a' * 40}", OLD)},
        {"package-lock.json": npm(f"git+ssh://git@github.com/a/h.git#{'b' * 40}", NEW)},
    ),
    "a helper among views": (
        {**PROJECT, **dict.fromkeys(FRAMEWORK, VIEWS.format("etag"))},
        {**PROJECT, **dict.fromkeys(FRAMEWORK[:-1], VIEWS.partition("\n\n\n")[2])},
    ),
    "a library for pages": (
        {},
        {
            "static/jquery-3.7.1.js": HTML,
            "js/zepto.js": HTML,
            "js/jquery.validate.js": HTML,
            "js/owl.carousel.min.js": HTML,
        },
    ),
    "a hash and a token that the file has in another statement": (
        {"db/u.sql": f"INSERT INTO u VALUES\n('a', '{HASH}');\n", "a.py": f'A = "{TOKEN}"\n'},
        {
            "db/u.sql": f"INSERT INTO u SELECT 'a', '{HASH}' WHERE b;\n",
            "a.py": f'A = load(default="{TOKEN}")\n',
        },
    ),
    "a class that is put into markup of the same values": (
        {"a.rb": ICON.format("fa ", "#{css}")},
        {"a.rb": ICON.format("#{'fas ' unless css}", "#{' ' if css}#{css}")},
    ),
    "SQL about passwords": ({}, {"a.py": 'PASSWORD_SQL = "UPDATE users SET password = $1"\n'}),
}

TWINS = {
    "conflict-markers": ({}, {"d.ts": f"let a = 1;\n{MARKERS}"}),
    "hardening-removed": (
        {"a.ts": "o({ maxLoginAttempts: 5 });\n"},
        {"a.ts": "o({ maxLoginAttempts: 65536 });\n"},
    ),
    "lookalike-dependency": (
        {"package.json": needed("express")},
        {"package.json": needed("express", "exprress")},
    ),
    "lock-digest-changed": (
        {"yarn.lock": BERRY.format("h@npm:^1.3.0", "h@npm:1.3.0", OLD)},
        {"yarn.lock": BERRY.format("h@npm:^1.3.0", "h@npm:1.3.0", NEW)},
    ),
    "api-removed": (
        {**PROJECT, "x/api.py": VIEWS.format("etag")},
        {**PROJECT, "x/api.py": VIEWS.partition("\n\n\n")[2]},
    ),
    "html-built": (
        {"a.rb": ICON.format("fa ", "#{css}")},
        {"a.rb": ICON.format("fa ", "#{css}#{bio}")},
    ),
    "live-secret": ({"a.py": f'A = "{TOKEN}"\n'}, {"a.py": f'A = "{TOKEN[:-1]}6"\n'}),
    "does-not-parse": (
        {"a/n.json": "{,}\n", "b/n.json": "{}\n"},
        {"a/n.json": "{}\n", "b/n.json": '{"a": }\n'},
    ),
    "escape-removed": (
        {"a.html.haml": ".note{title: quote_html(note.title)}\n"},
        {"a.html.haml": ".note{title: note.title}\n"},
    ),
    "lock-foreign-source": (
        {"Gemfile.lock": GEMS.format("", "6.1.6")},
        {"Gemfile.lock": GEMS.format("  remote: https://gems.a.example/\n", "6.1.7")},
    ),
    "access-control-removed": (
        {"a/c.rb": f"class C\n  before_action :require_admin, except: [:b]\n{ACTION}end\n"},
        {"a/c.rb": f"class C\n{ACTION}end\n"},
    ),
    "sql-built": ({}, {"database/a.php": UPDATE}),
    "request-panics": (
        {},
        {"src/a.rs": f"#[cfg(test)]\nmod tests {{\n    fn g() {{}}\n}}\n\n{PANIC}\n"},
    ),
    "command-injection": ({"a.py": LISTS}, {"b/a.py": LISTS.replace("ls ", "rm ")}),
    "remote-script-plain-http": (
        {"Dockerfile": f"# escape=`\nFROM a:1@sha256:{'a' * 64}\nUSER 1\n"},
        {
            "Dockerfile": f"# escape=`\nFROM a:1@sha256:{'a' * 64}\nUSER 1\n"
            "RUN curl http://a.example/x `\n | sh\n"
        },
    ),
    "not-awaited": ({}, {"A.cs": WORK.format("async ()")}),
    "unsafe-replacement": (
        {"r.ts": "const r = router({ all: protectedProcedure.query(f) });\n"},
        {"r.ts": "const r = router({ all: publicProcedure.query(f) });\n"},
    ),
    "password-literal": ({}, {"a.py": 'db_password = "t7kQx9Lm2pZ"\n'}),
}


GUARDS = {
    "v.py": '@app.get("/x", dependencies=[Depends(require_admin)])\ndef page():\n    return 1\n',
    "w.py": "@user_passes_test(lambda user: user.is_staff)\ndef page(request):\n    return 1\n",
    "C.cs": 'class C {\n  [Authorize(Roles = "Admin")]\n  public void F() { G(); }\n}\n',
    "C.java": "class C {\n  @PreAuthorize(\"hasRole('ADMIN')\")\n  void f() { g(); }\n}\n",
    "C.kt": "class C {\n  @PreAuthorize(\"hasRole('ADMIN')\")\n  fun f() { g() }\n}\n",
    "c.ex": "defmodule C do\n  plug :require_user when action in [:a]\n  def a(c), do: c\nend\n",
    "r.exs": 'scope "/" do\n  pipe_through [:require_user]\n  get "/a", A, :b\nend\n',
    "c.ts": "class C {\n  @SetMetadata('roles', ['admin'])\n  f() { return g(); }\n}\n",
}


@pytest.mark.parametrize("path", GUARDS)
def test_guard_that_goes_is_found(tmp_path: Path, path: str) -> None:
    lines = GUARDS[path].splitlines(keepends=True)
    marks = ("@", "[Authorize", "plug", "pipe_through")
    without = [line for line in lines if not any(map(line.__contains__, marks))]
    without += ["\n"] * 80 + ["return 403\n"] * (path == "w.py")  # of something else
    if path == "v.py":
        without.insert(0, '@app.get("/x")\n')
    rules = found(tmp_path, {path: GUARDS[path]}, {path: "".join(without)})
    assert rules == ["security.access-control-removed"]


@pytest.mark.parametrize("what", QUIET)
def test_everyday_change_has_no_finding(tmp_path: Path, what: str) -> None:
    assert found(tmp_path, *QUIET[what]) == []


@pytest.mark.parametrize("logged", ["e", "authToken"])
def test_another_secret_or_a_higher_level_is_logged(tmp_path: Path, logged: str) -> None:
    base, head = ENDED.format(logged), ENDED.format("authToken, secret").replace("debug", "info")
    head = head if logged == "authToken" else ENDED.format("authToken")
    assert found(tmp_path, {"A.java": base}, {"A.java": head}) == ["security.secret-logged"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *((f"{place}a.sh", FETCHES) for place in ("", "etc/skel/bin/", "initramfs-tools/hooks/")),
        ("skel/a.sh", "touch /tmp/a\necho x >/tmp/a\n"),
    ],
)
def test_a_file_of_a_fixed_name_is_found_elsewhere(tmp_path: Path, path: str, text: str) -> None:
    assert found(tmp_path, {}, {path: text}) == ["security.temp-name"]


def test_a_secret_that_is_written_without_a_word_is_logged(tmp_path: Path) -> None:
    assert found(tmp_path, {}, {"a.rs": ISSUED.format("ready")}) == ["security.secret-logged"]


def test_request_of_who_is_signed_in_needs_a_token(tmp_path: Path) -> None:
    for number, (attribute, text) in enumerate(
        (
            ("", "return Ok(Charge(order))"),
            ("\n  [AllowAnonymous]", "return Ok(Charge(User, order))"),
        )
    ):
        (place := tmp_path / str(number)).mkdir()
        files = {"A.cs": PAYMENT.format(attribute, text), "B.java": CHAIN.format(".formLogin()")}
        assert found(place, {}, files) == ["security.csrf-off"]


# A connection that is not verified where a condition holds.
ALLOWED = {
    "a.go": "package a\n\nfunc f(o O) {\n\tif COND {\n\t\tuse(&tls.Config{InsecureSkipVerify: true})\n\t}\n}\n",
    "a.ts": "function f(o: O) {\n  if (COND) {\n    use({ rejectUnauthorized: false });\n  }\n}\n",
    "a.java": "class A { void f(O o) { if (COND) { use(NoopHostnameVerifier.INSTANCE); } } }\n",
    "a.kt": "fun f(o: O) {\n  if (COND) {\n    c.hostnameVerifier { _, _ -> true }\n  }\n}\n",
    "a.cs": "class A { void F(O o) { if (COND) { h.ServerCertificateCustomValidationCallback = (a, b, c, d) => true; } } }\n",
    "a.rb": "def f(o)\n  http.verify_mode = OpenSSL::SSL::VERIFY_NONE if COND\nend\n",
    "a.rs": "fn f(o: O) {\n  if COND {\n    b.danger_accept_invalid_certs(true);\n  }\n}\n",
    "a.c": "void f(O o, CURL *c) { if (COND) curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L); }\n",
    "a.swift": "func f(o: O) {\n  if COND {\n    use(DisabledTrustEvaluator())\n  }\n}\n",
    "a.dart": "void f(O o, HttpClient c) {\n  if (COND) {\n    c.badCertificateCallback = (a, b, d) => true;\n  }\n}\n",
    "a.scala": "object A { def f(o: O) = { if (COND) use(NoopHostnameVerifier.INSTANCE) } }\n",
    "a.php": "<?php\nfunction f($o, $c) {\n  if ($COND) {\n    curl_setopt($c, CURLOPT_SSL_VERIFYPEER, false);\n  }\n}\n",
    "b.ts": "const f = (o: O) => use({ ...(COND ? { tls: { rejectUnauthorized: false } } : {}) });\n",
    "c.js": "const f = (o) => use({ ...(COND && { tls: { rejectUnauthorized: false } }) });\n",
    "b.java": "class A { void f(O o) { use(COND ? NoopHostnameVerifier.INSTANCE : checked); } }\n",
    "b.cs": "class A { void F(O o) { h = COND ? HttpClientHandler.DangerousAcceptAnyServerCertificateValidator : null; } }\n",
    "b.rb": "def f(o)\n  http.verify_mode = COND ? OpenSSL::SSL::VERIFY_NONE : OpenSSL::SSL::VERIFY_PEER\nend\n",
    "b.swift": "func f(o: O) {\n  use(COND ? DisabledTrustEvaluator() : checked)\n}\n",
    "b.php": "<?php\nfunction f($o) {\n  use_it($COND ? ['verify_peer' => false] : []);\n}\n",
    "b.c": "void f(O o, SSL_CTX *c) { COND ? SSL_CTX_set_verify(c, SSL_VERIFY_NONE, 0) : (void) 0; }\n",
    "b.dart": "void f(O o) {\n  use(COND ? ServerTrustAuthResponseAction.PROCEED : other);\n}\n",
}  # fmt: skip
CONDITIONS = (
    ("o.verbose", True),
    ("o.allowInsecure", False),
    ("!o.insecure", True),
    ("!o.tlsRejectUnauthorized", False),
    ("o.verifySsl == false", False),
    ("o.verifySsl == true", True),
    ("o.novalidatecert", False),
    ("pick(o.insecure, d.insecure)", False),
    ("pick(o.verbose, d.insecure)", True),
    ("o.noCertCheck", False),
    ("o.novalidate", True),
)


@pytest.mark.parametrize("path", ALLOWED)
def test_unverified_connection_is_quiet_only_where_a_setting_allows_it(
    tmp_path: Path, path: str
) -> None:
    for name, told in CONDITIONS:
        condition = name.replace(".", "->") if path.endswith("php") else name
        text = ALLOWED[path].replace("$COND", "COND" if name[0] == "!" else "$COND")
        text = text.replace("COND", condition.replace("!", "!$") if "php" in path else condition)
        (place := tmp_path / name).mkdir()
        assert ("security.tls-unverified" in found(place, {}, {path: text})) is told, text


VIEW = "@login_required\ndef f(request):\n    g(request)\n"
ROUTE = "r.get('/x', requireAuth, f);\nfunction f(req, res) {\n  res.json(g());\n}\n"
FOR_ALL = "app.use(requireLogin);\napp.get('/x', (req, res) => {\n  res.json(g());\n});\n"
IN_GO = "package a\n\nfunc Del(w W, r *R) {\n\trequireAdmin(w, r)\n\tremove(r.ID)\n}\n"
NO_JS = "if (!req.user) return res.status(401).end();"
NO_GO = "\tif !isAdmin(r) {\n\t\thttp.Error(w, s, 403)\n\t\treturn\n\t}"
OF_CLASS = (
    "class C\n  before_action :require_user\n  def a\n    1\n  end\n  def b\n    2\n  end\nend\n"
)
NO_RB = "return head(:forbidden) unless user"

# A guard that goes, what comes in its place and where: before a text. Is the guard gone?
REPLACED = [
    ("a.py", VIEW, "@login_required\n", "    if not request.user.is_staff:\n        abort(403)\n", "    g", False),
    ("a.py", VIEW, "@login_required\n", "    if request.page:\n        return 403\n", "    g", True),
    ("a.py", VIEW, "@login_required\n", "    if request.user:\n        log('403')\n", "    g", True),
    ("a.py", VIEW, "@login_required\n", "def h(r):\n    if not r.user:\n        raise Forbidden\n", "def f", True),
    ("a.py", VIEW, "@login_required\n", "    # login_required is in the middleware\n", "    g", True),
    ("a.py", VIEW, "@login_required\n", '    """\n    @login_required\n    """\n', "    g", True),
    ("a.js", ROUTE, " requireAuth,", f"  {NO_JS}\n", "  res.json", False),
    ("a.js", ROUTE, " requireAuth,", f"function h(req, res) {{\n  {NO_JS}\n}}\n", "function f", True),
    ("a.js", ROUTE, " requireAuth,", "  if (!req.user) res.status(401);\n", "  res.json", True),
    ("a.js", ROUTE, " requireAuth,", "/*\n requireAuth\n*/\n", "function f", True),
    ("a.js", FOR_ALL, "app.use(requireLogin);\n", f"app.use((req, res, next) => {{\n  {NO_JS}\n  next();\n}});\n", "app.get", False),
    ("a.js", FOR_ALL, "app.use(requireLogin);\n", f"  {NO_JS}\n", "  res.json", True),
    ("a.go", IN_GO, "\trequireAdmin(w, r)\n", f"{NO_GO}\n", "\tremove", False),
    ("a.go", IN_GO, "\trequireAdmin(w, r)\n", f"{NO_GO}\n".replace("\t\treturn\n", ""), "\tremove", True),
    ("a.rb", OF_CLASS, "  before_action :require_user\n", f"    {NO_RB}\n", "    1", True),
]  # fmt: skip


@pytest.mark.parametrize(("path", "was", "guard", "comes", "before", "told"), REPLACED)
def test_only_a_refusal_of_the_caller_in_what_it_guarded_replaces_a_guard(
    tmp_path: Path, path: str, was: str, guard: str, comes: str, before: str, *, told: bool
) -> None:
    now = was.replace(guard, "").replace(before, comes + before)
    rules = found(tmp_path, {path: was}, {path: now})
    assert rules == ["security.access-control-removed"] * told


HIDING = {
    "a.rs": "/*\n#[cfg(test)]\nmod tests {\n*/\nfn f(req: HttpRequest) {\n"
    '  let t = req.headers().get("a"); Command::new("sh").arg("-c").arg(format!("ls {}", t));\n}\n',
    "a.ts": "import.meta.vitest = 1;\nif (import.meta.vitest) {\n"
    "  app.get('/', (req) => require('child_process').exec('ls ' + req.query.x));\n}\n",
    "a.c": "#ifdef TEST\n#elif 1\nvoid f() {\n  char b[8];\n  gets(b);\n}\n#endif\n",
}


@pytest.mark.parametrize("path", HIDING)
def test_what_only_looks_like_tests_in_a_file_hides_nothing_severe(
    tmp_path: Path, path: str
) -> None:
    findings = compared(tmp_path, {}, {f"src/{path}": HIDING[path]})
    assert {"high", "critical"} & {one.severity for one in findings}


# Lines with IN are run by tests only, lines with OUT are a part of the product.
INNER = [
    ("rs", "#[cfg(test)]\n// why\n#[allow(x)]\nmod tests {\n  IN!();\n}\nOUT!();\n"),
    ("rs", "#[tokio::test]\nasync fn f() { IN() }\nfn g() { OUT() }\n"),
    ("rs", "#[cfg(any(test, unix))]\nmod tests {\n  OUT!();\n}\n"),
    ("rs", "/*\n#[cfg(test)]\nmod tests {\n*/\nfn f() {\n  OUT!();\n}\n"),
    ("rs", "#[cfg(test)]\nmod tests {\n  fn f() {\n  IN } }\nfn g() {\n  OUT!();\n}\n"),
    ("rs", '#[cfg(test)]\nconst A: &str = "{";\nfn g() {\n  OUT!();\n}\n'),
    ("rs", "fn f() { OUT() } #[cfg(test)] mod a {\n  IN!();\n} fn g() { OUT() }\n"),
    ("ts", "if (import.meta.vitest) {\n  const { it } = import.meta.vitest\n  IN\n} else OUT\n"),
    ("js", "if (import.meta.env.A) OUT\nif (import.meta.vitest) {\n  IN\n}\n"),
    *(
        ("ts", f"{sets}\nif (import.meta.vitest) {{\n  OUT\n}}\n")
        for sets in ("import.meta/**/.vitest = 1", "f(import.meta)", "[import.meta.vitest] = [1]")
    ),
    ("ts", "const a = `\nif (import.meta.vitest) {\n`;\nfunction f() {\n  OUT\n}\n"),
    ("c", "#ifdef TEST\nOUT\n#endif\n"),
]


@pytest.mark.parametrize(("suffix", "text"), INNER)
def test_lines_that_only_tests_run_are_told_by_structure(suffix: str, text: str) -> None:
    inside = {n for part in Source(f"a.{suffix}", text.encode()).test_lines for n in part}
    for number, line in enumerate(text.split("\n"), 1):
        if "IN" in line or "OUT" in line:
            assert (number in inside) == ("OUT" not in line), line


@pytest.mark.parametrize("rule", TWINS)
def test_its_twin_is_found(tmp_path: Path, rule: str) -> None:
    assert [each.partition(".")[2] for each in found(tmp_path, *TWINS[rule])] == [rule]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("this.x = p.skipAuthCheck ?? {};\n", ("false", "true")),
        ("get(a, { links: b, verify: {} });\n", ("true", "false")),
        ("render(key, { escapeHtml: {} });\n", ("true", "false")),
    ],
)
def test_weakened_flag_is_found(tmp_path: Path, line: str, values: tuple[str, str]) -> None:
    base, head = ({"a.ts": line.replace("{}", value)} for value in values)
    assert found(tmp_path, base, head) == ["security.hardening-removed"]


def test_one_version_in_many_manifests_is_one_finding(tmp_path: Path) -> None:
    base, head = (
        {f"{n}/pom.xml": POM.format(n, PARENT.replace("1.0", version), 1) for n in "abc"}
        for version in ("1.0", "2-SNAPSHOT")
    )
    (finding,) = compared(tmp_path, base, head)
    assert (
        finding.message
        == "r was 1.0 and has no upper bound now; 3 places, also in b/pom.xml, c/pom.xml"
    )


@pytest.mark.parametrize(("count", "findings"), [(20, 20), (50, 1)])
def test_fifty_of_a_kind_in_a_file_are_one(tmp_path: Path, count: int, findings: int) -> None:
    lines = (f"http://a.example/?q={n}<script>alert(1)</script>\n" for n in range(count))
    rules = found(tmp_path, {"R.md": "# a\n"}, {"R.md": "# a\n" + "".join(lines)})
    assert rules == ["security.script-in-prose"] * findings
