"""Planted defects by dialect: each is found, and the page that differs by one thing is quiet."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from diffchecks import DATA, templates
from diffchecks.check_io import CheckReply
from diffchecks.file_patterns import file_names
from diffchecks.templates.dialects import load_dialect
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules
from tests.diffchecks.check_kit import read_samples, run_check

NAMES = {
    "jinja": "a.html", "django": "a.html", "erb": "a.html.erb", "mako": "a.mako",
    "blade": "a.blade.php", "twig": "a.html.twig", "ejs": "a.ejs", "handlebars": "a.hbs",
    "ember": "a.hbs", "pug": "a.pug", "haml": "a.html.haml", "slim": "a.slim",
    "thymeleaf": "a.html", "jsp": "a.jsp", "razor": "a.cshtml", "freemarker": "a.ftlh", "go": "a.html",
    "smarty": "a.tpl", "bottle": "a.tpl", "tornado": "a.html", "liquid": "a.liquid", "velocity": "a.vm", "eex": "a.eex", "astro": "a.astro",
}  # fmt: skip
SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.yaml"))


def planted() -> list[Mapping[str, str]]:
    """Pages with a defect, the code that it is found by, and a page without it."""
    return [pair for file in SAMPLES for pair in planted_in(file)]


def planted_in(file: Path) -> list[Mapping[str, str]]:
    """Those of one dialect."""
    given = read_samples(file)
    assert 8 <= len(given) <= 20
    return [{"name": NAMES.get(file.stem, ""), **pair} for pair in given]


def look(root: Path, name: str, text: str | bytes) -> CheckReply:
    (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return run_check(templates.run, {"root": str(root), "paths": [name]})


def codes(root: Path, name: str, text: str | bytes) -> list[str]:
    reply = look(root, name, text)
    assert not reply.gaps
    assert reply.examined == [name]
    return [finding.code for finding in reply.findings]


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_a_planted_defect_is_found_and_its_safe_twin_is_quiet(tmp_path: Path, file: Path) -> None:
    for pair in planted_in(file):
        assert codes(tmp_path, pair["name"], pair["bad"]) == [pair["finds"]], pair["what"]
        assert codes(tmp_path, pair["name"], pair["good"]) == [], pair["what"]


def test_padding_hides_no_data_of_a_request(tmp_path: Path) -> None:
    page = f"<p>{{!! '{'x' * 1100}' . request('q') !!}}</p>\n"
    assert codes(tmp_path, "a.blade.php", page) == ["blade-request"]


def test_every_code_of_the_rule_table_is_planted() -> None:
    rules = load_rules([read_shipped_layer()])
    kinds = {"*-" + pair["finds"].partition("-")[2] for pair in planted()}
    assert rules.codes("templates") == kinds


def test_the_tool_is_given_the_files_of_every_dialect() -> None:
    known = [load_dialect(file.stem) for file in (DATA / "templates").glob("*.yaml")]
    globs = {glob for dialect in known for glob in (*dialect.files, *dialect.shared)}
    assert globs == set(file_names("templates"))


BASE = "{% extends 'base.html' %}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", f"{BASE}{{# <p>{{{{ x|safe }}}}</p> #}}<p></p>"),
        ("a.html", f"{BASE}<!-- <p>{{{{ x|safe }}}}</p> --><p></p>"),
        ("a.html", f"{BASE}{{% raw %}}<p>{{{{ x|safe }}}}</p>{{% endraw %}}"),
        ("a.html", f"{BASE}<p>{{{{ settings.BANNER|safe }}}}{{{{ FOOTER|safe }}}}</p>"),
        ("a.html", f"{BASE}<p>{{{{ text|replace('\\n', '<br>'|safe) }}}}</p>"),
        ("a.html", f"{BASE}<Card title={{{{ title }}}} /><c:card title={{{{ title }}}} />"),
        ("a.html", f"{BASE}<p style='width: {{{{ width }}}}' {{{{ attributes }}}}>x</p>"),
        ("a.html", f"{BASE}<script src='{{{{ source }}}}'></script><p>{{{{ x }}}}</p>"),
        ("a.html", f"{BASE}<script>go({{{{ number }}}});</script>"),
        ("a.html", f"{BASE}<style>a {{ color: {{{{ color }}}} }}</style>"),
        ("a.html", f"{BASE}{{{{ message|safe }}}}"),
        (
            "a.html",
            f"{BASE}<a href='{{{{ request.referrer }}}}'>x</a><a href='{{{{ request.url }}}}'>",
        ),
        ("a.cshtml", "<form action='@Context.Request.RawUrl'></form>"),
        ("a.blade.php", "<link href='{{ Request::fullUrl() }}' rel='canonical'>"),
        ("a.blade.php", "<form action='../index.html' method=post><input name=a></form>"),
        ("a.blade.php", "<img src='{{ request()->cookie('x') ? asset('a') : asset('b') }}'>"),
        ("a.html", f"{BASE}<form action={{{{ request.route_path('x') }}}} method=post></form>"),
        ("a.html", f"{BASE}{{% trans n=x, to='/a' %}}<a href={{{{ to }}}}>b</a>{{% endtrans %}}"),
        ("a.html", "---\ntitle: x\n---\n{% include a.html %}<a href={{ site.x }}>{{ x|safe }}</a>"),
        ("a.html", "<form method=post><{$a|date:'Y'}></form>"),
        ("a.tpl.html", "<form method=post>{if $a|default:'' == 1}x{/if}</form>"),
        ("a.html", "{{ range .Items }}<a href={{ .Link }}>{{ .Name | title }}</a>{{ end }}"),
        ("a.html", '<p *ngIf="x">{{ x | safe }}</p><a href={{x}}></a>'),
        ("a.html", "<p>Just a page with {{ braces }} and <a href=x>a link</a></p>"),
        ("page.html.j2", "<p>{{ x }}</p>"),
        ("a.vue", "<template><p :class='x' v-bind:href='y'>{{ x|safe }}</p></template>"),
        ("a.svelte", "<script>\nconst a = {b: '{@html x}'};\n</script><a href={x} {...y}>{x}</a>"),
    ],
)
def test_harmless_values_are_not_reported(tmp_path: Path, name: str, text: str) -> None:
    assert codes(tmp_path, name, text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.erb", "<p><%= raw '<b>new</b>' if item.unread? %></p>"),
        ("a.erb", "<p><%= raw note.made.strftime('%d&nbsp;%m') %></p>"),
        ("a.erb", "<p><%= KINDS.map { |k| k.to_s }.join('<br>').html_safe %></p>"),
        ("a.html", f"{BASE}{{% set a = 'x' if b else 'y' %}}<p onclick=\"f('{{{{ a }}}}')\">"),
        ("a.html.twig", "<p {{ key }}={{ value|e('html_attr') }}>x</p>"),
        ("a.html", f"{BASE}<a href={{{{ item|page_of }}}}>x</a>"),
        ("a.slim", 'a href="/x" = tab user.name, index == 0 do\n= tab user.name, x == 0\n'),
        ("a.haml", "%p= user.name if user != nil\n%a{href: x}= user.name != a\n"),
        ("a.pug", "p= user.name != a ? user.name : ''\nif user.name != a\n  p x\n"),
        ("a.html.twig", "<script>go('{{ path('show', {id: a})|raw }}')</script>"),
        ("a.html.twig", "{% set a = form_widget(form.name) %}<p>{{ a|raw }}</p>"),
        ("feed.blade.php", "<?xml version='1.0'?>\n<feed><p>{!! $item->summary !!}</p></feed>"),
    ],
)
def test_literals_numbers_addresses_and_feeds_are_not_reported(
    tmp_path: Path, name: str, text: str
) -> None:
    assert codes(tmp_path, name, text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nginx.conf.j2", "server_name {{ name|safe }};\n<p>"),
        ("script.py.mako", "${upgrades | n}\n"),
        ("values.yml.erb", "a: <%= raw x %>\n"),
        ("show.js.erb", "$('#a').html('<%= raw x %>')"),
        ("component.js.ejs", "const a = '<p><%- x %></p>';"),
        ("README.md.hbs", "<p>{{{ x }}}</p>"),
        ("values.yaml.tpl", "a: {$x nofilter}<p>"),
        ("vars.tpl", "a = ${x}"),
    ],
)
def test_templates_of_other_files_than_pages_are_not_examined(
    tmp_path: Path, name: str, text: str
) -> None:
    assert look(tmp_path, name, text) == CheckReply()


@pytest.mark.parametrize(
    ("name", "value", "typed"),
    [
        ("a.hbs", "{{user.firstName}}", True),
        ("a.hbs", "{{team.name}}", True),
        ("a.hbs", "{{title}}", True),
        ("a.hbs", "{{row.[city2]}}", True),
        ("a.hbs", "{{field.name}}", False),
        ("a.hbs", "{{form_name}}", False),
        ("a.hbs", "{{code}}", False),
        ("a.hbs", "{{labels.title}}", False),
        ("a.hbs", "{{userform.name}}", False),
        ("a.hbs", "{{userName}}", False),
        ("a.hbs", "{{field.description}}", False),
        ("a.cshtml", '@Loc["Common.WrongEmail"]', False),
        ("a.ftl", "${item.word!?html}", True),
        ("a.erb", "<%= user['email'] %>", True),
        ("a.erb", "<%= titles['email'] || '' %>", True),
        ("a.erb", "<%= label('email') %>", False),
        ("a.blade.php", "{{ request()->input('sid') }}", True),
        ("a.jsp", "<%= post.getContent() %>", True),
        ("a.jsp", '<%= request.getAttribute("userName") %>', True),
        ("a.jsp", "<%= post.getKind() %>", False),
        ("a.ejs", "<%- redirectPage %>", True),
        ("a.ejs", "<%- chart %>", False),
    ],
)
def test_text_that_people_type_is_distinguished_from_the_programs_own_values(
    tmp_path: Path, name: str, value: str, typed: bool
) -> None:
    page = f"<p title={value}>x</p>"
    (finding,) = look(tmp_path, name, page).findings
    assert finding.code.endswith(("-unquoted", "-raw"))
    assert finding.from_request is typed


@pytest.mark.parametrize(
    ("script", "found"), [("$('.note').on('submit', f)", []), ("$('.x')", ["blade-form"])]
)
def test_a_script_that_selects_a_form_by_its_class_may_send_it(
    tmp_path: Path, script: str, found: list[str]
) -> None:
    form = "<form class='wide note' method=post><input name=a></form>"
    assert codes(tmp_path, "a.blade.php", f"{form}<script>{script}</script>") == found


def test_an_address_that_a_request_carries_is_none_of_the_request_itself(tmp_path: Path) -> None:
    page = "<%- include('head') %><a href='<%= req.query.url %>'>x</a>"
    assert codes(tmp_path, "a.ejs", page) == ["ejs-address"]
    assert codes(tmp_path, "a.ejs", page.replace("query.url", "originalUrl")) == []


def test_a_finding_names_the_value_and_its_context(tmp_path: Path) -> None:
    text = f"{BASE}<p>\n  <b>{{{{ user.name\n    |safe }}}}</b></p>\n"
    (finding,) = look(tmp_path, "a.html", text).findings
    assert (finding.line, finding.end_line, finding.column) == (3, 4, 6)
    assert finding.message == "A value is printed without escaping: user.name"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.html", f"{BASE}<p>{{{{ x ", "the tag {{ in line 2 is not closed"),
        ("a.html", f"{BASE}{{% raw %}}<p>", "the block of {% raw %} in line 2 has no end"),
        ("a.html", f"{BASE}<p class='a>x</p>", "the quote ' in line 2 is not closed"),
        ("a.erb", "<p>\n<%= x", "the tag <%= in line 2 is not closed"),
        ("a.ejs", "<p>\n<%- x", "the tag <%- in line 2 is not closed"),
        ("a.hbs", "<p>\n{{{ x }}", "the tag {{{ in line 2 is not closed"),
        ("a.svelte", "<p>\n<script>let a = {", "the <script> in line 2 is not closed"),
    ],
)
def test_a_page_that_cannot_be_read_is_a_gap(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    reply = look(tmp_path, name, text)
    assert reply.gaps == {name: why}
    assert not reply.examined


def test_a_page_that_another_template_closes_is_read(tmp_path: Path) -> None:
    text = f"{BASE}</div></form><p>{{{{ q|safe }}}}<script>let a = '{{{{ b }}}}';"
    assert codes(tmp_path, "a.html", text) == ["jinja-raw", "jinja-script"]


def test_lines_are_counted_through_tags_and_characters_of_any_kind(tmp_path: Path) -> None:
    text = f"{BASE}<p>\ue000\ue001\r\n\u2028{{{{\n'a' }}}}</p>\xff\n<b>{{{{ x|safe }}}}</b>"
    reply = look(tmp_path, "a.html", text.encode() + b"\xff\xfe\n")
    assert [finding.line for finding in reply.findings] == [5]


HOSTILE = {
    "tags": BASE + "{{ a|safe }}<p>" * 3_750,
    "attributes": BASE + "<p " + "a='{{ x }}' " * 3_750 + ">",
    "unquoted": BASE + "<p a=" * 9_375,
    "braces": BASE + "{{ " + "{" * 56_250 + " }}<p>",
    "one line": BASE + "<p>" + "x" * 312_500 + "{{ y|safe }}",
    "quotes": BASE + "<p>" + "{{ '" * 12_500,
    "scripts": BASE + "<script>" * 6_250,
    "strings": BASE + "<script>" + "'\n`${" * 9_375,
    "comments": BASE + "<p><!--" + "<!-- -" * 9_375,
    "blocks": BASE + "<p>" + "{% autoescape false %}{{ x }}" * 3_125,
    "names": BASE + "<p>" + "{% set a = b %}{{ a|safe }}" * 1_875,
    "spaces": BASE + "<p>{{ x" + " " * 31_250 + "|safe }}",
    "bars": BASE + "<p>{{ x" + "|y" * 12_500 + " }}",
    "parentheses": BASE + "<p>{{ x" + "(" * 12_500 + "|safe }}",
    "handler": BASE + "<p onclick=\"f('" + "{{ a }} " * 3_750 + "')\">",
    "script": BASE + "<p><script>" + "{{ a|safe }} " * 3_750 + "</script>",
    "url": BASE + "<a href='" + "{{ request.args.a }} " * 3_750 + "'>",
    "conditions": BASE + "<script>let a = '{{ " + "if " * 18_750 + "}}'</script>",
    "asked": BASE + "<p>" + "{% if a " + "if " * 18_750 + "%}{{ a|safe }}",
    "v-html": BASE + "<p class=a " + "v-html='x' " * 3_750 + ">",
    "includes": "<p>" + '{% include "a" with ' * 6_250,
    "forms": BASE + "{% load a %}" + "<form method=post>" * 3_125,
}


HOSTILE_OF_DIALECTS = {
    "a.pug": "p(a='b' " * 3_750,
    "b.pug": "a.b" * 6_250 + "\n//\n" * 3_125,
    "a.haml": "= " + " " * 31_250 + "\n%a{b " * 3_125,
    "a.slim": "a b=c" * 3_750 + "\n= " + " " * 31_250,
    "a.jsp": "<p>" + "<a:b c='d' " * 1_250,
    "a.vm": "<p>" + "$a.b(c(d(" * 3_750,
    "a.cshtml": "<p>" + "@a.b(c(" * 3_750,
    "b.html": "<p th:text=a>{{{ " + "x" * 18_750,
    "a.ftl": "<p>" + "<#if (a " * 3_750,
}


@pytest.mark.parametrize("name", [*HOSTILE, *HOSTILE_OF_DIALECTS])
def test_a_hostile_page_takes_little_time(tmp_path: Path, name: str) -> None:
    text = HOSTILE.get(name) or HOSTILE_OF_DIALECTS[name]
    began = time.process_time()
    reply = look(tmp_path, "a.html" if name in HOSTILE else name, text)
    assert time.process_time() - began < 0.75
    assert reply.gaps or reply.examined


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jinja", "<p>{{ comment.text|safe }}{{ page.body_html|safe }}</p>"),
        ("a.html.twig", "<p>{{ author|raw }}{{ widget|raw }}</p>"),
        ("a.blade.php", "<p>{!! $row->pivot->note !!}{!! $footer !!}</p>"),
        ("a.erb", "<p><%= raw comment.body %><%= raw rendered_page %></p>"),
        ("a.vue", "<template><p v-html='user.about' /><p v-html='markdown(a)' /></template>"),
        ("a.svelte", "<p>{@html getComment(a)}{@html icon}</p>"),
        (
            "a.html",
            f"{BASE}<script>const rows = {{{{ rows|safe }}}}; f('{{{{ a_json|safe }}}}')</script>",
        ),
    ],
)
def test_a_name_without_meaning_gives_no_finding(tmp_path: Path, name: str, text: str) -> None:
    assert [code.split("-", 1)[1] for code in codes(tmp_path, name, text)] == ["raw", "raw"]
