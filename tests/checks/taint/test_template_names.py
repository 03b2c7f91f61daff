"""Which names a program's templates print without escaping."""

from pathlib import Path

from orchestrator.checks.taint.template_names import Printed, Templates
from tests.checks.taint.taint_pairs import write

RAW = "{% if name %}<p>{{ name|safe }}</p>{% endif %}"


def templates(root: Path, files: dict[str, str]) -> Templates:
    write(root, files)
    return Templates(str(root), files)


def test_the_template_nearest_to_its_caller_is_meant(tmp_path: Path) -> None:
    files = {"a/templates/x.html": RAW, "b/templates/x.html": "<p>{{ name }}</p>", "c/y.html": RAW}
    known = templates(tmp_path, files)
    assert known.printed("x.html", "a/views.py") == {"name": Printed("a/templates/x.html", 1)}
    assert known.printed("x.html", "b/views.py") == {}
    assert known.printed("other/x.html", "a/views.py") == {}


def test_templates_that_include_each_other_end(tmp_path: Path) -> None:
    files = {
        "templates/a.html": '{% extends "b.html" %}\n<p>{{ one|safe }}</p>',
        "templates/b.html": "<p>\n{% include 'a.html' %}{{ two|safe }}",
    }
    found = templates(tmp_path, files).printed("a.html", "app.py")
    assert found == {"one": Printed("templates/a.html", 2), "two": Printed("templates/b.html", 2)}


def test_what_is_no_name_or_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    files = {
        "templates/a.html": "{% if x %}<p>{{ user.name|safe }}{{ f(name)|safe }}</p>",
        "templates/b.html": "{% if x %}<p>{{ name|safe",
        "templates/c.html": "{% autoescape false %}<p>{{ name|e }}{{ _('x') }}</p>",
    }
    known = templates(tmp_path, files)
    assert [known.printed(name, "app.py") for name in ("a.html", "b.html", "c.html")] == [{}] * 3
