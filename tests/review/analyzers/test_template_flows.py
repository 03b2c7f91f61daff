"""Values of a request that reach a template which prints them without escaping, in whole reviews."""

from pathlib import Path

from orchestrator.code_review.verdict.model import Finding
from tests.review.review_kit import change, review

VIEW = """from flask import Flask, render_template, request

app = Flask(__name__)


@app.route("/")
def hello():
    return render_template("hello.html", name=NAME)
"""
SAFE = {"shop/app.py": VIEW.replace("NAME", '"guest"')}
FLOWS = {"shop/app.py": VIEW.replace("NAME", 'request.args["name"]')}
RAW = {"shop/templates/hello.html": "{% if name %}\n<p>{{ name|safe }}</p>\n{% endif %}\n"}
ESCAPED = {"shop/templates/hello.html": "{% if name %}\n<p>{{ name }}</p>\n{% endif %}\n"}


async def flows(path: Path, base: dict[str, str], head: dict[str, str]) -> list[Finding]:
    verdict = await review(change(path, dict(base), dict(head)))
    return [found for found in verdict.findings if found.rule == "security.template-flow"]


async def test_a_view_that_gives_a_template_of_base_a_value_of_a_request(tmp_path: Path) -> None:
    (found,) = await flows(tmp_path, {**SAFE, **RAW}, FLOWS)
    assert (found.path, found.start_line, found.severity) == ("shop/app.py", 8, "high")
    assert [(step.path, step.line) for step in found.steps][-2:] == [
        ("shop/app.py", 8),
        ("shop/templates/hello.html", 2),
    ]


async def test_a_template_that_escapes_it_is_quiet(tmp_path: Path) -> None:
    assert await flows(tmp_path, {**SAFE, **ESCAPED}, FLOWS) == []


async def test_a_view_and_its_template_of_one_change(tmp_path: Path) -> None:
    (found,) = await flows(tmp_path, {}, {**FLOWS, **RAW})
    assert (found.path, found.start_line) == ("shop/templates/hello.html", 2)


async def test_a_template_that_no_longer_escapes_what_a_view_of_base_gives_it(
    tmp_path: Path,
) -> None:
    (found,) = await flows(tmp_path, {**FLOWS, **ESCAPED}, RAW)
    assert (found.path, found.start_line) == ("shop/templates/hello.html", 2)


async def test_a_template_alone_that_nothing_was_followed_to_is_a_question(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {**SAFE, **ESCAPED}, RAW))
    (found,) = verdict.findings
    assert (found.rule, found.severity) == ("security.template-unescaped", "low")
    assert verdict.verdict == "merge"


async def test_a_flow_that_base_has_is_not_reported(tmp_path: Path) -> None:
    base = {**FLOWS, **RAW}
    assert await flows(tmp_path, base, {"shop/app.py": FLOWS["shop/app.py"] + "\nX = 1\n"}) == []
