"""Defects that public projects have fixed: each is found before the fix, and gone after it.

``pairs/<language>.yaml`` holds for a pattern what such fixes have looked like. Nothing of a project
is copied: a pair is the smallest program of the same shape, and ``seen_in`` names the commit.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.diffchecks.patterns.test_pattern_files import PATTERNS, look

PAIRS = {file.stem: file for file in (Path(__file__).parent / "pairs").glob("*.yaml")}
SUFFIXES = {pattern.code: suffix for pattern, suffix in PATTERNS}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@pytest.mark.parametrize("language", sorted(PAIRS))
def test_defects_that_projects_have_fixed_are_found_and_their_fixes_are_quiet(
    tmp_path: Path, language: str
) -> None:
    shapes: dict[str, list[dict[str, Any]]] = yaml.load(PAIRS[language].read_text("utf-8"), _LOADER)
    files, expected = {}, set()
    for code, pairs in shapes.items():
        for number, pair in enumerate(pairs):
            for kind in ("bad", "good"):
                files[f"{code}-{number}-{kind}{SUFFIXES[code]}"] = pair[kind]
            expected.add((f"{code}-{number}-bad{SUFFIXES[code]}", code))
    reply = look(tmp_path, files)
    assert not reply.gaps
    assert {(finding.path, finding.code) for finding in reply.findings} == expected


def test_each_pair_names_the_commit_of_another_project() -> None:
    for file in PAIRS.values():
        for code, pairs in yaml.load(file.read_text("utf-8"), _LOADER).items():
            projects = [pair["seen_in"].partition("@")[0] for pair in pairs]
            assert len(set(projects)) == len(projects), code
            for pair in pairs:
                assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{12}", pair["seen_in"]), code


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.java", "class A { void f(Id id) { assertFalse(id.equals(null)); } }"),
        (
            "a.java",
            'class A { void f(Token accessToken) { log.info("of {}", accessToken.userId); } }',
        ),
        ("a.rb", "a.with_lock do\n  a.count += 1\n  a.save!\nend"),
        ("a.rb", "a.lock!\na.count += 1\na.save!"),
        ("a.rb", "class A\n  def f = a.lock!\n  def g\n    a.n += 1\n    a.save!\n  end\nend"),
        (
            "a.php",
            "<?php function f() { $a = A::lockForUpdate()->find(1); $a->n += 1; $a->save(); }",
        ),
        ("a.ts", "async function f() { const a = g({ lock: t.LOCK }); a.n += 1; await a.save(); }"),
        ("AExceptionTest.java", "class A { void f() { new AException(null); } }"),
        ("a.java", "class A { boolean f(I i) { return i.next() != 1 || i.next() != 2; } }"),
        ("a.java", "class A { boolean f(double x) { return x - x == 0; } }"),
        ("a.java", "class A { boolean f(double x, V v) { return x != x || v.x != v.x; } }"),
        ("a.c", "void f(int kind, int n) { if (kind == 1) (n) = 2; else (n) = 3; }"),
        ("a.c", "int f(double x, vec *v) { return x != x || v->y != v->y || isnan(x - x); }"),
        ("a.c", "int f(node *n) { if ((n->next = n->first)) return 1; return 0; }"),
        ("a.go", "package a; func f(x float64, v V) bool { return x != x || v.X != v.X }"),
        ("a.ts", "async function f() { await Promise.all(await a.map(async (b) => g(b))); }"),
        ("a.ts", "if (a != null || a != undefined) f(); if (a !== a || a === a) f();"),
        ("a.js", "for (var a of b) { if (a) { setTimeout(() => f(a)); break; } }"),
        ("a.js", "for (var a of b) { c.push(((a) => () => f(a))(a)); }"),
        ("a.js", "class A { async *f() {} async g() { return this.f().next(); } }"),
        ("a.js", "async function f() {} function g(f) { return f() && f().a; }"),
        ("a.js", "async function f() { try {} catch {} } async () => { try { f(); } catch {} };"),
        (
            "a.cs",
            "class A { void F() { foreach (var x in this) { if (x.Old) { Remove(x); break; } } } }",
        ),
        ("a.php", "<?php Log::info($accessToken['user']);"),
        (
            "a.cs",
            'class A { T F<T>(string outerSelect) { return c.Query<T>($"SELECT {outerSelect} FROM t", p); } }',
        ),
        (
            "a.swift",
            'struct A {\n#warning("b")\n  @S("x")\n  func f(a: L = #_sourceLocation) {}\n}\n',
        ),
        ("a.swift", "func f(clientRequest: R) {\n  g(URL(string: clientRequest.url.string))\n}\n"),
        ("a.swift", "f(aab - aab.rest(by: n), aab - aab[0], aab - aab!, aab - aab ?? 1)"),
        ("a.php", "<?php header('Content-Type: text/plain'); exit($_REQUEST['a'] ?? '');"),
        ("a.php", "<@php\n\nnamespace {namespace};\nclass {class} {}\n"),
        ("a.lua", "local names = {[FIRST] = 1} for i = 0, #names do print(names[i]) end"),
        ("a.ts", "async function f() { await next(); if (a) { next(); } }"),
        ("a.ts", "async function save() { try { await g(); } catch {} } async () => { save(); };"),
        ("a.jsx", "useEffect(() => { setInterval(f, 1); return stop; }, []);"),
        (
            "a.jsx",
            "const a = { __html: purify(b) }; const B = () => <p dangerouslySetInnerHTML={a} />;",
        ),
        (
            "a.js",
            "app.put('/', async (req, res) => { const a = validate(req.body); await A.create(a); });",
        ),
        (
            "a.js",
            "app.put('/', async (req, res) => { Object.assign(options, req.body); await save(a); });",
        ),
        (
            "a.js",
            "function mix(a, b) { const c = { ...a }; for (const k in b) c[k] = mix(c[k], b[k]); return c; } JSON.parse(x);",
        ),
        (
            "a.go",
            "package a\nfunc f() error {\n\ta, err := json.Marshal(b)\n\tif err != nil {\n\t\treturn nil // no state\n\t}\n\treturn g(a)\n}",
        ),
        (
            "a.go",
            "package a\nfunc f(u string) int { r, err := get(u); if err != nil { return 0 }; defer r.Body.Close(); return r.StatusCode }\nfunc get(u string) (*http.Response, error) { return c.Do(u) }",
        ),
        (
            "a.java",
            'class A { String f(int a, String b) { return String.format("%2$s %1$d %n %s%%", a, b, b); } }',
        ),
        (
            "a.java",
            "class A { DocumentBuilder f() { return DocumentBuilderFactory.newInstance().newDocumentBuilder(); } Document g() { return f().newDocument(); } }",
        ),
        (
            "a.cs",
            "class TokenBucket { Random r = new Random(); int F() { var jitter = r.Next(5); return jitter; } }",
        ),
        (
            "a.cs",
            "class A { async Task Go() { try { await G(); } catch (E e) { } } async Task F() { Go(); await G(); } }",
        ),
        ("a.php", "<?php if ($a != null || $a != false) { f(); }"),
        ("a.py", "x = a == 1 and a == 1"),
        ("a.py", "from time import sleep\nasync def f():\n    sleep(1)"),
        ("a.py", "import telethon\nasync def f(self):\n    self.message.delete(0, END)"),
        ("a.py", "for key in names:\n    if key in old:\n        names.pop(key)\n        break\n"),
    ],
)
def test_what_resembles_such_a_defect_and_is_meant_is_quiet(
    tmp_path: Path, name: str, text: str
) -> None:
    reply = look(tmp_path, {name: text})
    assert not reply.gaps
    assert reply.findings == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.c", "int f(int a, int b) { return b || a != 1 || a != 2; }"),
        ("a.cs", "class A { bool F(int a, bool b) { return b && a == 1 && a == 2; } }"),
        ("a.go", "package a; func f(a int, b bool) bool { return b || a != 1 || a != 2 }"),
        ("a.java", "class A { boolean f(int a, boolean b) { return b && a == 1 && a == 2; } }"),
        ("a.kt", "fun f(a: Int, b: Boolean) = b || a != 1 || a != 2"),
        ("a.php", "<?php $x = $b || $a !== 1 || $a !== 2;"),
        ("a.py", "x = b or a != 1 or a != 2"),
        ("a.rb", "x = b || a != 1 || a != 2"),
        ("a.rs", "fn f(a: u8, b: bool) -> bool { b || a != 1 || a != 2 }"),
        ("a.ts", "const x = b || a !== 1 || a !== 2;"),
    ],
)
def test_conditions_that_never_change_are_found_at_the_end_of_a_longer_one(
    tmp_path: Path, name: str, text: str
) -> None:
    reply = look(tmp_path, {name: text})
    assert not reply.gaps
    assert [finding.code.partition("-")[2] for finding in reply.findings] == ["always-same"]


REACT = "const A = ({ text }) => <p dangerouslySetInnerHTML={{ __html: show(text) }} />;"
LATER = REACT.replace("<p", "{ const b = show(text); return <p").replace("show(text) }}", "b }}")
LAST = "for (auto it = all.begin(); it != all.end(); ++it)"
DROPPED = "async function save(x) { await g(x); }\nasync () => {\n  // eslint-disable-next-line "
TASK = "class A { async Task Go() { await G(); }\nasync Task F() {\n#pragma warning disable CS"
DROP = "static void drop(node *n) { free(n); }"


@pytest.mark.parametrize(
    ("name", "quiet", "found"),
    [
        (
            "a.jsx",
            f"function show(a) {{ return purify(a); }} {REACT}",
            f"function show(a) {{ if (a.b) return a; return purify(a); }} {REACT}",
        ),
        (
            "a.jsx",
            f"const show = (a) => DOMPurify.sanitize(marked(a)); {LATER} }};",
            f"const show = (a) => marked(a); {LATER} }};",
        ),
        (
            "a.jsx",
            f"class B {{ show(a) {{ return purify(a); }} render() {{ {REACT.replace('show(', 'this.show(')} }} }}",
            f"class B {{ show(a) {{ return marked(a); }} render() {{ {REACT.replace('show(', 'this.show(')} }} }}",
        ),
        (
            "a.jsx",
            LATER.replace("b = show(text)", "[b, setB] = useState(''); setB(purify(text))") + " };",
            LATER.replace("b = show(text)", "[b, setB] = useState(''); setB(marked(text))") + " };",
        ),
        (
            "a.jsx",
            LATER.replace(
                "b = show(text)", "[b, setB] = useState(''); const c = purify(text); setB(c)"
            )
            + " };",
            LATER.replace(
                "b = show(text)", "[b, setB] = useState(''); const c = marked(text); setB(c)"
            )
            + " };",
        ),
        (
            "a.js",
            "const by = (a, b) => a.n > b.n ? 1 : -1; c.sort(by);",
            "const by = (a, b) => a.n > b.n; c.sort(by);",
        ),
        (
            "a.py",
            "@dataclass\nclass A:\n    at: datetime = field(default_factory=datetime.now)",
            "@dataclass\nclass A:\n    at: datetime = datetime.now()",
        ),
        (
            "a.py",
            "class A(Model):\n    at = DateTimeField(default=timezone.now)",
            "class A(Model):\n    at = DateTimeField(default=timezone.now())",
        ),
        (
            "a.go",
            "package a\nfunc f() error {\n\tvar err error\n\tif b {\n\t\terr := g()\n\t\tif err == nil {\n\t\t\terr = h()\n\t\t}\n\t\tlog.Print(err)\n\t}\n\treturn err\n}",
            "package a\nfunc f() error {\n\tvar err error\n\tif b {\n\t\terr := g()\n\t\tif err == nil {\n\t\t\terr = h()\n\t\t}\n\t}\n\treturn err\n}",
        ),
        (
            "a.go",
            "package a\ntype b struct { *sync.Mutex }\nfunc (c b) f() {}",
            "package a\ntype b struct { sync.Mutex }\nfunc (c b) f() {}",
        ),
        (
            "a.cpp",
            f"void f() {{ {LAST} {{ if (*it == 0) {{ all.erase(it); break; }} }} }}",
            f"void f() {{ {LAST} {{ if (*it == 0) {{ all.erase(it); }} }} }}",
        ),
        (
            "a.c",
            f"{DROP} void f(node *p) {{ while (p) {{ node *q = p->next; drop(p); p = q; }} }}",
            f"{DROP} void f(node *p) {{ for (; p; p = p->next) drop(p); }}",
        ),
        (
            "a.c",
            "void f(node *p) { while (p) { free(p); p = malloc(sizeof(*p)); } }",
            "void f(node *p) { while (p) { free(p); p = p->next; } }",
        ),
        ("a.swift", "f(aab - aab.rest(by: n))", "f((aab - aab).rest(by: n))"),
        ("a.swift", "let token = 1000 + grand() % 9000", "let token = 1000 + rand() % 9000"),
        (
            "a.sh",
            "f() {\n  local a\n  a=$(g)\n  [ $? -eq 0 ] || exit 1\n}",
            "f() {\n  local a=$(g)\n  [ $? -eq 0 ] || exit 1\n}",
        ),
        (
            "a.c",
            "void f(node *p) { free(p); ok(make(&p)); } void g(node *p) { free(p); check(p = make()); }",
            "void f(node *p) { free(p); show(p); }",
        ),
        (
            "a.c",
            "void f(node *p) { while (p) { node *q = p->next; node_free(p); p = q; } void node_free(node *node); }",
            "void f(node *p) { while (p) { node_free(p); p = p->next; } } void g(node *node) { node_free(node); }",
        ),
        (
            "a.java",
            "class A { Stream<B> f() { try (Reader a = open()) { return a.lines().toList().stream(); } } }",
            "class A { Stream<B> f() { try (Reader a = open()) { return a.lines(); } } }",
        ),
        (
            "a.java",
            'class A { static final String M = RSA + "/ECB/OAEPPadding"; Object f() { return Cipher.getInstance(M); } }',
            'class A { static final String M = AES + "/ECB/PKCS5Padding"; Object f() { return Cipher.getInstance(M); } }',
        ),
        (
            "a.php",
            "<?php if ($token->type == $token) { f(); } if ($this->token == $b) { f(); }",
            "<?php if ($user->token == $_GET['token']) { f(); }",
        ),
        ("a.sh", "A=$(g) || exit 1\nexport A", "export A=$(g) || exit 1"),
        (
            "a.ts",
            f"{DROPPED}@typescript-eslint/no-floating-promises\n  save(1);\n}};",
            f"{DROPPED}no-console\n  save(1);\n}};",
        ),
        (
            "a.ts",
            "async () => { await book(1);\nbook(2); // eslint-disable-line no-floating-promises\n}",
            "async () => { await book(1);\nbook(2);\n// eslint-disable-next-line no-floating-promises\n}",
        ),
        ("a.cs", f"{TASK}4014\n Go();\n}} }}", f"{TASK}1998\n Go();\n}} }}"),
        (
            "a.java",
            'class A { String a = "DES"; Object f(String b) { return Cipher.getInstance(b); } }',
            'class A { Object f() { String b = "DES"; return Cipher.getInstance(b); } }',
        ),
        (
            "a.php",
            "<?php class A { const M = 'aes-128-gcm'; function f() { openssl_encrypt($a, self::M, $k); } }",
            "<?php class A { const M = 'aes-128-ecb'; function f() { openssl_encrypt($a, self::M, $k); } }",
        ),
        (
            "a.rs",
            "fn f() { let mut a = Vec::with_capacity(4); g(&mut a); unsafe { a.set_len(4) }; }",
            "fn f() { let mut a = Vec::with_capacity(4); unsafe { a.set_len(4) }; g(&mut a); }",
        ),
    ],
)
def test_a_defect_behind_a_name_or_function_is_found_and_its_twin_is_quiet(
    tmp_path: Path, name: str, quiet: str, found: str
) -> None:
    assert look(tmp_path, {name: quiet}).findings == []
    assert len(look(tmp_path, {name: found}).findings) == 1
