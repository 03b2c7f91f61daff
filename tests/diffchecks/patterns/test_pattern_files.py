"""Every pattern is shown by a program that has the defect and one that differs by one thing."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ast_grep_py import SgRoot

from diffchecks import DATA, patterns
from diffchecks.check_io import CheckReply, Source
from diffchecks.patterns.pattern_loading import load, load_language, read_definitions, search_config
from diffchecks.patterns.readings import read_program, unread_lines
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules
from tests.diffchecks.check_kit import run_check

FILES = sorted(str(file) for file in (DATA / "patterns").glob("*.yaml"))


def example_suffix(pattern: Any, language: Any) -> str:
    """Of a file that the pattern reads; where markup is read, of one that may hold it."""
    suffixes = [
        suffix
        for suffix, grammars in language.grammars.items()
        if pattern.grammars is None or grammars[0] in pattern.grammars
    ]
    return ".jsx" if ".jsx" in suffixes else suffixes[0]


PATTERNS = [
    (pattern, example_suffix(pattern, language))
    for language in load(tuple(FILES))
    for pattern in language.patterns
]
CODES = [pattern.code for pattern, _ in PATTERNS]


def look(root: Path, files: Mapping[str, str | bytes]) -> CheckReply:
    for name, text in files.items():
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return run_check(
        patterns.run, {"root": str(root), "paths": list(files), "data": FILES, "codes": CODES}
    )


def codes(root: Path, name: str, text: str | bytes) -> list[str]:
    reply = look(root, {name: text})
    assert not reply.gaps
    return [finding.code for finding in reply.findings]


@pytest.mark.parametrize("suffix", sorted({suffix for _, suffix in PATTERNS}))
def test_pattern_finds_its_bad_example_alone(tmp_path: Path, suffix: str) -> None:
    own = [pattern for pattern, its_suffix in PATTERNS if its_suffix == suffix]
    bad = {f"bad{number}{suffix}": pattern for number, pattern in enumerate(own)}
    mark = {".lua": "--"}.get(suffix, "#" if suffix in ".py .rb .sh .pl .ex .tf" else "//")
    good = {f"good{number}{suffix}": pattern.good for number, pattern in enumerate(own)}
    plea = f"\n{mark} admin role owner verify limiter csrf Authorize sanitize expires policy hash\n"
    reply = look(tmp_path, {**{path: pattern.bad + plea for path, pattern in bad.items()}, **good})
    assert not reply.gaps
    found = {(finding.path, finding.code) for finding in reply.findings}
    assert found == {(path, pattern.code) for path, pattern in bad.items()}
    assert len(reply.findings) == len(own)


def test_every_pattern_has_a_rule_and_the_reverse() -> None:
    graver = {code.replace("-remote-", "-foreign-") for code in CODES if "-remote-script" in code}
    patterns = {
        code
        for code in load_rules([read_shipped_layer()]).codes("patterns")
        if not code.startswith("*-flow-")
    }
    assert patterns == {*CODES, *graver}
    assert len(set(CODES)) == len(CODES)


def test_a_file_without_words_of_the_requested_patterns_is_not_examined(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("eval(x)")
    (tmp_path / "a.rb").write_text("eval(x)")
    job = {"root": str(tmp_path), "paths": ["a.js", "a.rb"], "data": FILES}
    reply = run_check(patterns.run, {**job, "codes": ["ruby-swallowed"]})
    assert reply == CheckReply(examined=["a.rb"])


def test_javascript_with_types_is_read_as_typescript(tmp_path: Path) -> None:
    assert codes(tmp_path, "a.js", "const f = (x: string): any => eval(x);") == ["js-eval"]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.js", "f();\nconst x = (1;\n", "line 2"),
        ("a.ts", "let a = 1;\nconst x: = 1;\n", "line 2"),
        ("a.go", "package a\nfunc f() {\n", "line 2"),
        ("a.java", "class A { void f() { int x = 1 } }", "line 1"),
        ("a.rb", "x = 1\ndef f(\nend\n", "lines 2, 3"),
    ],
)
def test_lines_that_do_not_parse_are_a_gap(
    tmp_path: Path, name: str, text: str, lines: str
) -> None:
    reply = look(tmp_path, {name: text, "fine.js": "eval(x)"})
    assert reply.gaps == {name: f"its grammar cannot parse {lines}"}
    assert reply.examined == ["fine.js"]
    assert [finding.path for finding in reply.findings] == ["fine.js"]


def test_what_stands_beside_a_line_that_does_not_parse_is_found(tmp_path: Path) -> None:
    reply = look(tmp_path, {"a.rb": "def f(x)\n  eval(x)\nend\n\nx = = 1\n\ny = 2\n"})
    assert reply.gaps == {"a.rb": "its grammar cannot parse line 5"}
    assert [(raw.code, raw.line) for raw in reply.findings] == [("ruby-eval-value", 2)]


def test_lines_of_a_committed_conflict_are_no_gap_beside_its_finding(tmp_path: Path) -> None:
    group = "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> b\n"
    texts = {"a.rb": f"{group}y = 3\n{group}", "b.rb": f"{group}z = = 1\n", "c.rb": group[:25]}
    assert look(tmp_path, texts).gaps == {
        "b.rb": "its grammar cannot parse line 6",
        "c.rb": "its grammar cannot parse lines 1, 3",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsx", "export const A = () => <b>View Billing & Usage</b>;"),
        ("a.tsx", "export const A = styled.div<{ on: boolean }>`padding: 2px;`;"),
        ("a.ts", "await prisma.$queryRaw<{ id: number }[]>`SELECT 1`;"),
        ("a.ts", 'const a = await importOriginal<typeof import("./b.js")>();'),
        ("a.ts", "export type X<in out T> = T;"),
        ("a.ts", "export type X<out T, in S extends T> = Y<T, S>;"),
        ("a.ts", 'export type * from "./a";'),
        ("a.ts", "class A { static accessor b = 1; }"),
        ("a.ts", "interface A</** a */ out B extends C = C> {}"),
        ("a.js", 'import defer * as a from "./a";'),
        ("a.js", "const a = `b\0`;"),
    ],
)
def test_what_only_the_grammar_cannot_parse_hides_nothing(
    tmp_path: Path, name: str, text: str
) -> None:
    reply = look(tmp_path, {name: f"{text}\nexport const f = (x) => eval(x);\n"})
    assert reply.gaps == {}
    assert [(raw.code, raw.line) for raw in reply.findings] == [("js-eval", 2)]


def test_a_comment_in_an_expression_of_perl_hides_nothing(tmp_path: Path) -> None:
    text = "1 while $x =~ s/ a # not '@{'\n | b/c/x;\nsub f { my $d = shift; return `ls $d`; }\n"
    assert codes(tmp_path, "a.t", text) == ["perl-backticks"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ('#ifdef __cplusplus\nextern "C" {\n#endif\nLIB_BEGIN\n', "LIB_END\n#ifdef X\n}\n#endif\n"),
        ("static shared size_t n;  // äöü€\n", 'void t(void) {\n  TEST("one") { run(); }\n}\n'),
        ("const char *a\n#ifdef X\n  API_WEAK\n#endif\n  ;\n", ""),
        ("#define gen(a) \\\nvoid a##_run(void) { /* b */ \\\n  x->##a(); }\n", "#undef gen\n"),
        ("node n[] = {\n#define OP(m) {NAME(#m)},\nOP(a)\n#undef OP\n};\n", ""),
        (
            'API_FLAG(bool, on, true, "What it\'s for");\n',
            "extern template int run<char>(char v);\n",
        ),
        ('enum a {\n  OPTION(A, LONG, 1),\n  OPTION(B, LONG, 2,\n         "Use a()"),\n};\n', ""),
        ('enum a {\n  FORM_NAME  OLD_SINCE(7.56.0, "Use b()"),\n};\n', ""),
        ('#define A "/*"\n', '#define B "*/"\n'),
    ],
)
def test_macros_of_c_that_the_grammar_does_not_know_are_read_around(
    tmp_path: Path, before: str, after: str
) -> None:
    use = "LIB_API int run(lua_State *L) {\n  each_of(10) {\n    gets(line);\n  }\n}\n"
    text = f"{before}{use}{after}"
    reply = look(tmp_path, {"a.hh": text})
    assert unread(text) == []
    assert [(raw.code, raw.line) for raw in reply.findings] == [("c-gets", before.count("\n") + 3)]


BROKEN = '  x = = "a" ( y ; gets ( [ line ;\n'


def unread(text: str) -> list[int]:
    source = Source("a.hh", text.encode())
    language = load_language(tuple(FILES), ".hh")
    assert language is not None
    return [line + 1 for line in sorted(unread_lines(read_program(source, language)))]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"void f(void) {{\n{BROKEN}}}\n", [2]),
        (f"int a b c;\n/*\n#if 0\n*/\nvoid f(void) {{\n{BROKEN}}}\n/*\n#endif\n*/\n", [6]),
        (f"int a b c;\n#if A\n#else\nint c; /*\n#endif */\nvoid f() {{\n{BROKEN}}}\n", [7]),
        (f'const char *a = R"(\n#define b )"; void f() {{\n{BROKEN}}}\n', [3]),
        (
            f"void f(void) {{\n  if (a\n#if X\n  && b) {{\n#else\n  ) {{\n{BROKEN}#endif\n  }}\n}}\n",
            [7],
        ),
        (f'#define A "/*"\nvoid f(void) {{\n{BROKEN}}}\n#define B "*/"\n', [3]),
        (f"#if A\n{BROKEN}#elif B\nvoid f() {{ gets(a); }}\n#else\n{BROKEN}#endif\n", [2, 6]),
    ],
)
def test_macros_hide_no_code_that_the_grammar_cannot_parse(text: str, lines: list[int]) -> None:
    assert unread(text) == lines


SPLIT = (
    "#ifdef X\nint f(void) {\n  for (;\n#ifdef Y\n    gets(a);\n#else\n    gets(b);\n#endif\n  ) {}\n"
    "  if (a\n#if 0 /*\n#else\n*/\n    && gets(c)) {\n#elif Y\n    || gets(d)) {\n#else\n"
    "    || gets(e)) {\n#endif\n    gets(g);\n  }\n}\n#endif\n"
)


@pytest.mark.parametrize("suffix", [".c", ".cc"])
def test_a_call_in_each_branch_of_a_statement_that_directives_split_is_found(
    tmp_path: Path, suffix: str
) -> None:
    reply = look(tmp_path, {f"a{suffix}": SPLIT})
    calls = [n for n, line in enumerate(SPLIT.split("\n"), 1) if "gets(" in line]
    assert sorted({raw.line for raw in reply.findings}) == calls
    assert reply.gaps == {}


def test_an_argument_that_is_blanked_to_read_the_rest_is_found_and_no_read_line(
    tmp_path: Path,
) -> None:
    text = (
        "DEFINE(gets(line));\nCHECK(unsigned char, gets(b), 1.5);\nAPI_FLAG(x = = (gets ( [b));\n"
    )
    found = look(tmp_path, {"a.hh": text}).findings
    assert [(raw.code, raw.line) for raw in found] == [("c-gets", 1), ("c-gets", 2)]
    assert 3 in unread(text)


SINK = "db.query(sql);"


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ('const sql = "SELECT a FROM b WHERE c = 1";', False),
        ('const sql = "SELECT a FROM b WHERE c = " + c;', True),
        ('const sql = "SELECT a FROM b WHERE c = " + 1;', False),
        ('const sql = "SELECT a FROM b WHERE c = " + LIMIT;', False),
        ('const sql = "SELECT a FROM b WHERE c = " + Number(c);', False),
        ('const c = "x"; const sql = `SELECT a FROM b WHERE c = ${c}`;', False),
        ('let c = "x"; c = get(); const sql = `SELECT a FROM b WHERE c = ${c}`;', True),
        ('const c = {a: "x"}; const sql = `SELECT a FROM b WHERE c = ${c[k]}`;', False),
        ('const c = on ? "x" : "y"; const sql = `SELECT a FROM b WHERE c = ${c}`;', False),
        ('const c = on ? "x" : y; const sql = `SELECT a FROM b WHERE c = ${c}`;', True),
        ('let sql = "SELECT a FROM b"; sql += " WHERE c = " + c;', True),
        ('let sql = "SELECT a FROM b"; sql += " WHERE c = 1";', False),
        ('const sql = "see the manual of " + c;', False),
        ('const sql = "SELECT a FROM " + table;', False),
        ("const sql = statement;", False),
    ],
)
def test_a_constant_that_reaches_a_sink_is_quiet(tmp_path: Path, before: str, found: bool) -> None:
    assert codes(tmp_path, "a.js", f"{before}\n{SINK}") == ["js-sql"] * found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(req, res) => { const {next} = req.query; res.redirect(next); }", True),
        ("(req, res) => { const q = req.query; res.redirect(q.next); }", True),
        ("(req, res) => { const q = PAGES; res.redirect(q.next); }", False),
        ("(req, res) => { res.redirect(String(req.query.next)); }", True),
        ("(req, res) => { res.redirect(lookUp(req.query.next)); }", False),
        (
            '(req, res) => { res.redirect("/login?next=" + encodeURIComponent(req.query.n)); }',
            False,
        ),
    ],
)
def test_a_value_from_a_request_is_distinguished_from_one_of_the_program(
    tmp_path: Path, text: str, found: bool
) -> None:
    assert codes(tmp_path, "a.js", f"app.get('/', {text})") == ["js-redirect-request"] * found


def test_names_are_looked_up_in_their_own_function(tmp_path: Path) -> None:
    text = """
    function safe() { const page = "<b>x</b>" + 1; el.innerHTML = page; }
    function other(name) { const page = "<b>x</b>" + name; return page; }
    """
    assert codes(tmp_path, "a.js", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "let a = b; let b = a; el.innerHTML = 'x' + a.c;",
        "a = a.parent; el.innerHTML = 'x' + a.b.c;",
        "x += x; x = x + 'y' + x; el.innerHTML = x;",
    ],
)
def test_names_that_define_each_other_end_the_search(tmp_path: Path, text: str) -> None:
    assert codes(tmp_path, "a.js", text) in ([], ["js-html-assigned"])


def test_long_sums_and_deep_chains_are_no_gap(tmp_path: Path) -> None:
    total, chain = " + ".join(['"a"'] * 400), "a" + ".b" * 400
    assert codes(tmp_path, "a.js", f"el.innerHTML = {total};\nel.innerHTML = {chain};") == []


def test_valid_text_that_a_grammar_takes_for_something_else_is_no_gap(tmp_path: Path) -> None:
    method = "async Task F(bool async) { var c = async\n ? await B() : C(async, x => async); }"
    switch = "return switch (e) { case B(D.E(int x, int y), int z) -> x; };"
    built = "B(A a) {\n int n = a.n();\n super(n);\n }\n B() {\n A a = A.of();\n this(a);\n }"
    files = {
        "a.cs": f"class A {{\n  {method}\n}}\n",
        "a.rs": 'fn f() {\n    check().stdout_eq(str![""]);\n    g(char!(1), u8![2]);\n}\n',
        "A.java": "class A {\n  void f(@Nullable Object @Nullable ... a) {}\n}\n",
        "B.java": f"import module java.base;\nclass B extends C {{\n{built}\n}}\n",
        "C.java": f"class C {{ int f(A a) {{ if (a instanceof D.E(var e)) {switch} }} }}\n",
        "a.rb": "def f(&)\n  g(\n    1,\n    &\n  )\nend\nA = {\n  :$, => 1,\n  :$@ => 2\n}\n",
    }
    assert look(tmp_path, files).gaps == {}


def test_binary_content_does_not_break_the_check(tmp_path: Path) -> None:
    assert codes(tmp_path, "a.js", b'const s = "\xff\xfe"; eval(x);') == ["js-eval"]


def test_a_script_of_the_project_may_build_its_commands(tmp_path: Path) -> None:
    text = "function f(tag) { execSync(`git tag ${tag}`); }"
    for folder in ("contrib", "scripts", "server"):
        (tmp_path / folder).mkdir()
    assert codes(tmp_path, "server/a.js", text) == ["js-shell"]
    assert codes(tmp_path, "scripts/a.js", text) == []
    text = '<?php function f($tag) { return shell_exec("git tag " . $tag); }'
    assert codes(tmp_path, "server/a.php", text) == ["php-shell"]
    assert codes(tmp_path, "contrib/a.php", text) == []


def test_the_scaffold_around_a_pattern_needs_not_be_in_the_file(tmp_path: Path) -> None:
    reply = look(tmp_path, {"a.c": "int main() {\n    char line[9];\n    gets(line);\n}\n"})
    assert [finding.code for finding in reply.findings] == ["c-gets"]


def test_python_without_a_word_of_a_pattern_is_not_examined(tmp_path: Path) -> None:
    reply = look(
        tmp_path, {"a.py": "def add(a, b):\n    return a + b\n", "b.py": "DEBUG = False\n"}
    )
    assert reply == CheckReply(examined=["b.py"])


def test_a_webhook_that_is_signed_may_do_without_a_csrf_token(tmp_path: Path) -> None:
    text = "@csrf_exempt\ndef paid(request):\n    verify_signature(request)\n"
    assert codes(tmp_path, "a.py", text) == []


def test_a_script_that_the_grammar_hardly_parses_is_searched_since_shellcheck_reads_it(
    tmp_path: Path,
) -> None:
    text = "curl -s https://get.docker.com | sh\n" + "case ) in (( esac fi }\n" * 9
    assert codes(tmp_path, "a.sh", text) == ["shell-remote-script"]


@pytest.mark.parametrize(
    ("expression", "matches", "others"),
    [
        (r"^\w+$", {"size", "größe", "a_1"}, {"a.b", "f()"}),
        (r"^[\w.]+$", {"size", "größe", "a_1", "a.b"}, {"f()"}),
        (r"^[^\w.]", set(), {"size", "größe", "a_1", "a.b", "f()"}),
        (r"(?i)^S\w*E$", {"size"}, {"größe", "a_1", "a.b", "f()"}),
        (r"^[\w--z]+$", {"größe", "a_1"}, {"size", "a.b", "f()"}),
        (r"^[[:alpha:]\w]+$", {"size", "größe", "a_1"}, {"a.b", "f()"}),
        (r"^\\w$", set(), {"size", "größe", "a_1", "a.b", "f()"}),
    ],
)
def test_expressions_mean_what_they_did_once_they_are_simplified(expression, matches, others):
    """A table of all letters of the world takes ast-grep most of its time, file by file."""
    kinds = ("identifier", "member_expression", "call_expression")
    given = {"rule": {"any": [{"kind": kind} for kind in kinds], "regex": expression}}
    root = SgRoot("size; größe; a_1; a.b; f();", "javascript").root()
    both = []
    for config in (given, search_config(given)):
        nodes = root.find_all(dict(config))  # type: ignore[call-overload]
        both.append({node.text() for node in nodes})
    assert both[0] == both[1]
    assert matches <= both[1]
    assert not others & both[1]


def test_no_shipped_expression_has_a_table_of_all_letters() -> None:
    assert not [pattern.code for pattern, _ in PATTERNS if repr(r"\w")[1:-1] in str(pattern.config)]


@pytest.mark.parametrize(("suffix", "read"), [(".py", ["python"]), (".go", ["go"]), (".txt", [])])
def test_only_the_file_of_a_language_is_parsed_for_it(tmp_path, suffix, read):
    files = []
    for file in FILES:  # where nobody has read them yet
        files.append(str(tmp_path / Path(file).name))
        Path(files[-1]).write_bytes(Path(file).read_bytes())
    before = read_definitions.cache_info().misses
    language = load_language(tuple(files), suffix)
    assert (language is not None) == bool(read)
    assert read_definitions.cache_info().misses == before + len(read)
    more = tmp_path / "more.yaml"
    more.write_text('"extends" : go\npatterns: []\n')
    assert load_language((*files, str(more)), suffix) == language
    assert read_definitions.cache_info().misses == before + len(read) + 1


MANY = {
    "lua-shared-global": (".lua", "local function f()\n{}end\n", "v{} = ngx.var.arg_a\n"),
    "go-template-text": (
        ".go",
        'package a\nimport "text/template"\nfunc f(w http.ResponseWriter, r *http.Request) {{\n{}}}\n',
        't.Execute(w, r.FormValue("q{}"))\n',
    ),
    "js-path-request": (
        ".js",
        "function bundle() {{\n{}}}\napp.get('/', (req, res) => res.sendFile(req.query.file));\n",
        "require('a{}'); resolve('b'); // " + "more text " * 80 + "\n",
    ),
    "python-session-secret": (".py", "{}hmac.new(V7, text)\n", "V{} = 'some text'\n"),
    "python-literal-key": (".py", "{}AES.new(V7, AES.MODE_GCM)\n", "V{} = b'some text'\n"),
    "shell-rm-after-cd": (".sh", "{}", "cd /tmp/a{}\nrm -rf *\n"),
    "solidity-storage-pointer": (
        ".sol",
        "pragma solidity ^0.4.24;\ncontract A {{ function f() public {{\n{}}} struct S7 {{ uint a; }} }}\n",
        "S{0} s{0};\n",
    ),
}
EVERY_LINE = {"lua-shared-global", "go-template-text", "shell-rm-after-cd"}


@pytest.mark.parametrize("code", MANY)
def test_the_time_of_a_search_grows_with_the_length_of_a_file_alone(
    tmp_path: Path, code: str
) -> None:
    suffix, frame, line = MANY[code]

    def seconds(count: int) -> float:
        text = frame.format("".join(line.format(number) for number in range(count)))
        (tmp_path / f"a{suffix}").write_text(text)
        job = {"root": str(tmp_path), "paths": [f"a{suffix}"], "data": FILES}
        start = time.process_time()
        reply = run_check(patterns.run, {**job, "codes": [code]})
        elapsed = time.process_time() - start
        assert len(reply.findings) == (count if code in EVERY_LINE else 1)
        return elapsed

    seconds(10)  # reads the pattern files
    assert seconds(1000) < 9 * max(0.02, seconds(250))  # not 16 times as long


def test_a_secret_of_a_settings_module_is_found_whether_or_not_it_signs(tmp_path: Path) -> None:
    secret = "SECRET = 'correct-horse'\n"
    assert codes(tmp_path, "a.py", secret) == ["python-session-secret"]
    assert codes(tmp_path, "a.py", f"{secret}hmac.new(SECRET, text)\n") == ["python-session-secret"]
    for use in ("hmac.new(WORD.encode(), text)", "jwt.decode(token, WORD)"):
        assert codes(tmp_path, "a.py", f"WORD = 'horse'\n{use}\n") == ["python-session-secret"]
    assert codes(tmp_path, "a.py", "WORD = 'horse'\nhmac.new(OTHER, WORD)\n") == []


@pytest.mark.parametrize(
    "declaration",
    [
        "local user",
        "local user = 1",
        "user = nil",
        "local function g(user) end",
        "for user = 1, 2 do end",
        "for _, user in pairs(t) do end",
        "function user() end",
    ],
)
def test_a_global_of_lua_that_the_file_declares_is_no_finding(
    tmp_path: Path, declaration: str
) -> None:
    text = "local function f() user = ngx.var.arg_user; return user end"
    assert codes(tmp_path, "a.lua", f"local other = 1\n{text}\n") == ["lua-shared-global"]
    assert codes(tmp_path, "a.lua", f"{declaration}\n{text}\n") == []


def test_a_lua_file_that_sets_its_environment_or_serves_no_requests_is_not_searched_for_globals(
    tmp_path: Path,
) -> None:
    text = "local function f() user = ngx.var.arg_user end"
    assert codes(tmp_path, "a.lua", text) == ["lua-shared-global"]
    assert codes(tmp_path, "a.lua", f"{text}\nsetfenv(1, {{}})") == []
    assert codes(tmp_path, "a.lua", text.replace("ngx.var", "nginx.var")) == []


@pytest.mark.parametrize(
    ("value", "found"), [("name", True), ("user_name", True), ("table_name", False)]
)
def test_a_name_in_sql_of_elixir_is_a_value_unless_it_names_a_part_of_the_database(
    tmp_path: Path, value: str, found: bool
) -> None:
    text = f"Repo.query(\"SELECT id FROM users WHERE name = '#{{{value}}}'\")"
    assert codes(tmp_path, "a.ex", text) == (["elixir-sql"] if found else [])


@pytest.mark.parametrize("call", ["Repo.query(sql)", "Ecto.Adapters.SQL.query(Repo, sql, [])"])
def test_in_elixir_a_parameter_that_is_joined_to_text_is_not_taken_for_an_assignment(
    tmp_path: Path, call: str
) -> None:
    text = f'def find(key) do\n  sql = "SELECT a FROM b WHERE c = \'" <> key <> "\'"\n  {call}\nend'
    assert codes(tmp_path, "a.ex", text) == ["elixir-sql"]
    assert codes(tmp_path, "a.ex", text.replace("  sql", '  key = "d"\n  sql')) == []
