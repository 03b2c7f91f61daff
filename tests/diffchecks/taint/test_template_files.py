"""Which templates of a tree print values without escaping, and what fills them in."""

import time
from pathlib import Path

import pytest

from diffchecks.taint.template_files import TemplateTree
from tests.diffchecks.taint.taint_pairs import trace, write

RAW = "{% if name %}<p>{{ name|safe }}</p>{% endif %}"


def templates(root: Path, files: dict[str, str]) -> TemplateTree:
    write(root, files)
    return TemplateTree(str(root), files)


def test_the_template_nearest_to_its_caller_is_used(tmp_path: Path) -> None:
    files = {"a/templates/x.html": RAW, "b/templates/x.html": "<p>{{ name }}</p>", "c/y.html": RAW}
    known = templates(tmp_path, files)
    assert known.find("x.html", "a/views.py") == "a/templates/x.html"
    assert known.find("x.html", "b/views.py") == "b/templates/x.html"
    assert known.find("other/x.html", "a/views.py") is None
    assert [known.prints(path) for path in files] == [True, False, True]


def test_templates_that_include_each_other_end(tmp_path: Path) -> None:
    files = {
        "templates/a.html": '{% extends "b.html" %}\n<p>{{ one|safe }}</p>',
        "templates/b.html": "<p>\n{% include 'a.html' %}{{ two|safe }}",
        "app.py": "from flask import Flask, render_template, request\napp = Flask(__name__)\n"
        "@app.route('/')\ndef a():\n"
        "    return render_template('a.html', one=request.args['a'], two=request.args['b'])\n",
    }
    found = trace(tmp_path, files).findings
    assert [(raw.code, raw.path, raw.line) for raw in found] == [
        ("rendered", "templates/a.html", 2),
        ("rendered", "templates/b.html", 2),
    ]


@pytest.mark.parametrize(
    "page",
    [
        "{% if x %}<p>{{ user.name }}{{ name|e|safe }}</p>",
        "{% if x %}<p>{{ name|safe",
        "{% autoescape false %}<p>{{ name|e }}{{ _('x') }}</p>",
        "{% load i18n %}Dear {{ name|safe }}, your order has arrived",
        "{% load i18n %}<b>{{ name|safe }}</b> has <code>arrived</code>",
    ],
)
def test_a_page_that_escapes_or_cannot_be_read_and_a_message_print_nothing(
    tmp_path: Path, page: str
) -> None:
    assert not templates(tmp_path, {"templates/a.html": page}).prints("templates/a.html")


def test_the_users_of_a_template_are_those_that_include_it_at_any_depth(tmp_path: Path) -> None:
    files = {
        "templates/card.html": RAW,
        "templates/list.html": '{% include "card.html" %}',
        "templates/page.html": "{% extends 'base.html' %}{% include 'list.html' %}",
        "templates/base.html": "<p>",
        "other/list.html": "{% include 'elsewhere/card.html' %}",
    }
    known = templates(tmp_path, files)
    users = ["templates/card.html", "templates/list.html", "templates/page.html"]
    assert sorted(known.users("templates/card.html")) == users


def test_a_template_that_gives_another_one_a_value_counts_but_not_one_that_extends_it(
    tmp_path: Path,
) -> None:
    files = {
        "templates/base.html": RAW,
        "templates/child.html": "{% extends 'base.html' %}<p>",
        "templates/giver.html": "<p>{% include 'base.html' with name=title %}",
    }
    known = templates(tmp_path, files)
    assert [known.fills_in(path) for path in files] == [True, False, True]


VIEW = """from flask import Flask, render_template, request
app = Flask(__name__)
@app.route("/")
def hello():
    return render_template("hello.html", name=request.args["name"])
"""
HOSTILE = {
    "loops": "{% for a in name %}" * 2_000 + "{{ a|safe }}",
    "conditions": "{% if name %}" * 2_000 + "{{ name|safe }}",
    "filters": "{{ name" + "|upper" * 300 + "|safe }}",
    "words": "{% for a" + " in" * 600 + " %}{{ name|safe }}{% with a" + " = b" * 400 + " %}",
    "values": "{{ name|safe }}" * 20_000,
    "macros": "{% macro a(name) %}{{ name|safe }}{{ a(name) }}{% endmacro %}{{ a(name) }}",
    "brackets": "{{ " + "(" * 300 + "name" + ")" * 300 + "|safe }}{{ " + "[" * 400 + "|safe }}",
    "elses": "{% if a %}" + "{% elif name %}{{ name|safe }}" * 2_000 + "{% else %}{% else %}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_takes_little_time_and_causes_no_gap_for_its_view(
    tmp_path: Path, name: str
) -> None:
    files = {"app.py": VIEW, "templates/hello.html": "{% extends 'a' %}<p>" + HOSTILE[name]}
    began = time.process_time()
    reply = trace(tmp_path, files)
    assert time.process_time() - began < 20
    assert reply.gaps == {}
    assert "app.py" in reply.examined


def test_the_view_of_a_changed_template_is_run(tmp_path: Path) -> None:
    files = {"shop/app.py": VIEW, "shop/templates/hello.html": RAW, "shop/other.py": "X = 1\n"}
    reply = trace(tmp_path, files, paths=["shop/templates/hello.html"])
    assert [(raw.path, raw.line) for raw in reply.findings] == [("shop/templates/hello.html", 1)]
    assert trace(tmp_path, files, paths=["shop/other.py"]).findings == []
