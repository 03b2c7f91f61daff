"""What a change does not affect is not traced again, and no finding of the change is lost by it."""

import ast
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from diffchecks.check_io import CheckReply
from diffchecks.new_findings import RuledFinding, find_new
from diffchecks.python import syntax_downgrade
from diffchecks.rules import Rule
from diffchecks.taint.affected_names import affected_names
from tests.diffchecks.taint.taint_pairs import Pair, pairs, trace, write

MODULE = '''"""A module."""
from shlex import quote

PREFIX = "ls "

def clean(text):
    return quote(text)

def command(text):
    return PREFIX + clean(text)

def other(text):
    return text

class Shell:
    kind = "sh"

    def __init__(self, text):
        self.text = text

    def line(self):
        return command(self.text)

    def words(self):
        return self.text.split()

class Loud(Shell):
    def shout(self):
        return self.text.upper()
'''


@pytest.mark.parametrize(
    ("old", "new", "affected"),
    [
        ("return text\n", "return text  # as it is\n", {"other"}),
        ("return quote(text)", "return text", {"clean", "command", ".line"}),
        ('"ls "', '"df "', {"PREFIX", "command", ".line"}),
        ("import quote", "import join as quote", {"quote", "clean", "command", ".line"}),
        ("self.text.split()", "[self.text]", {".words"}),
        (
            "self.text = text",
            "self.text = quote(text)",
            {"Shell", ".line", ".words", "Loud", ".shout"},
        ),
        ('kind = "sh"', 'kind = "zsh"', {"Shell", ".line", ".words", "Loud", ".shout"}),
        ("class Loud(Shell)", "class Loud", {"Loud", ".shout"}),
        ("def other(text):\n    return text\n", "", {"other"}),
        ("def other(text)", "\n\n\n# moved\ndef other(text)", set()),
        ('"""A module."""', '"""It has functions."""', set()),
        ("class Shell:", "clean(PREFIX)\n\nclass Shell:", {"clean", "PREFIX", "command", ".line"}),
    ],
)
def test_names_are_affected_if_they_differ_or_mention_one_that_does(
    old: str, new: str, affected: set[str], tmp_path: Path
) -> None:
    write(tmp_path / "base", {"m.py": MODULE})
    write(tmp_path / "head", {"m.py": MODULE.replace(old, new)})
    assert _affected(tmp_path, "m.py", "m.py") == affected


METHODS = """class Report:
    def count(self):
        return 1

    def by_attribute(self):
        return self.count()

    def by_name(self):
        return getattr(self, "count")

    def by_pattern(self, other):
        match other:
            case Report(count=found):
                return found

    @count
    def by_decorator(self):
        return 1

    def of_a_variable(self, items):
        count = len(items)
        return count

def show(report):
    return report. \\
        count()

def total(items):
    count = sum(items)
    return count
"""


def test_a_method_is_mentioned_as_an_attribute_and_a_variable_of_its_name_is_none(
    tmp_path: Path,
) -> None:
    write(tmp_path / "base", {"m.py": METHODS})
    write(tmp_path / "head", {"m.py": METHODS.replace("return 1", "return 2", 1)})
    assert _affected(tmp_path, "m.py", "m.py") == {
        ".count", ".by_attribute", ".by_name", ".by_pattern", ".by_decorator", "show"
    }  # fmt: skip


def test_a_class_that_uses_its_method_in_its_body_is_affected_as_a_whole(tmp_path: Path) -> None:
    text = METHODS.replace(
        "    def by_attribute", "    size = property(count)\n\n    def by_attribute"
    )
    write(tmp_path / "base", {"m.py": text})
    write(tmp_path / "head", {"m.py": text.replace("return 1", "return 2", 1)})
    assert {"Report", ".of_a_variable"} <= (_affected(tmp_path, "m.py", "m.py") or set())


def test_a_name_that_another_changed_file_mentions_is_affected_there(tmp_path: Path) -> None:
    user = "from m import clean\n\ndef show(text):\n    return clean(text)\n"
    write(tmp_path / "base", {"m.py": MODULE, "user.py": user})
    write(tmp_path / "head", {"m.py": MODULE.replace("quote(text)", "text"), "user.py": user})
    files = [(path, path) for path in ("m.py", "user.py")]
    assert "show" in (affected_names(tmp_path / "head", tmp_path / "base", files) or ())


@pytest.mark.parametrize(
    "text", ["def broken(:\n", "from m import *\n", "# coding: utf-7\nx = 1\n", "x = [" * 5000]
)
def test_all_names_count_if_the_affected_ones_are_unknown(text: str, tmp_path: Path) -> None:
    write(tmp_path / "base", {"m.py": "x = 1\n"})
    write(tmp_path / "head", {"m.py": text})
    assert _affected(tmp_path, "m.py", "m.py") is None


def test_a_new_a_removed_and_a_renamed_file_are_affected_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "base", {"m.py": "def old(): pass\n"})
    write(tmp_path / "head", {"n.py": "def new(): pass\n", "m.py": "def old(): pass\n"})
    assert _affected(tmp_path, "n.py", None) == {"new"}
    assert _affected(tmp_path, None, "m.py") == {"old"}
    assert _affected(tmp_path, "n.py", "m.py") == {"old", "new"}
    assert _affected(tmp_path, "m.py", "m.py") == set()


def _affected(root: Path, here: str | None, there: str | None) -> set[str] | None:
    found = affected_names(root / "head", root / "base", [(here, there)])
    return None if found is None else set(found)


APPLICATION = {
    "app.py": """from flask import Flask, request
import services
from store import Store, keep
app = Flask(__name__)

@app.route("/a")
def listing():
    return services.listing(request.args["folder"])

@app.route("/b")
def report():
    store = Store(request.args["name"])
    return store.report()

@app.route("/c")
def saved():
    keep(request.args["text"])
    return services.fixed()
""",
    "services.py": """import helpers
from helpers import execute

ROOT = "/srv/"

def listing(folder):
    return execute("ls " + helpers.clean(ROOT + folder))

def fixed():
    return execute("df")

def backup(name):
    return helpers.execute("tar " + name)
""",
    "helpers.py": """import os
import shlex

def clean(text):
    return shlex.quote(text)

def execute(line):
    os.system(line)

def checked(text):
    if not text.isalnum():
        raise ValueError(text)
    return text
""",
    "store.py": """import helpers
from services import backup

class Store:
    def __init__(self, name):
        self.name = helpers.checked(name)

    def report(self):
        return backup(self.name)

def keep(text):
    helpers.execute("logger " + helpers.clean(text))
""",
}
EDITS = [
    ("shlex.quote(text)", "text"),
    ("helpers.clean(ROOT + folder)", "ROOT + folder"),
    ("helpers.clean(text)", "text"),
    ("helpers.checked(name)", "name"),
    ("    if not text.isalnum():\n        raise ValueError(text)\n", ""),
    ("os.system(line)", "print(line)"),
    ('"/srv/"', '"/home/"'),
    ('execute("df")', 'execute(helpers.clean("df"))'),
    ("return backup(self.name)", "return backup(helpers.clean(self.name))"),
    ("import services\n", "import services\n\nLIMIT = 3\n"),
    ('    store = Store(request.args["name"])', '    store = Store("all")'),
    ("def execute(line):", "def execute(line, shell=True):"),
    ("def checked(text):", "\n\n# verified\ndef checked(text):"),
]
RENAMED = ("store.py", "storage.py", ("from store import", "from storage import"))


def _edited(files: Mapping[str, str], chance: random.Random) -> dict[str, str]:
    """The files with some edits, perhaps one of them renamed or deleted."""
    edited = dict(files)
    for old, new in chance.sample(EDITS, chance.randint(1, 4)):
        edited = {path: text.replace(old, new) for path, text in edited.items()}
    kind = chance.randint(0, 5)
    if kind == 0:
        old_path, new_path, (old, new) = RENAMED
        edited[new_path] = edited.pop(old_path)
        edited = {path: text.replace(old, new) for path, text in edited.items()}
    elif kind == 1:
        del edited[chance.choice(sorted(edited))]
    return edited


def _introduced(root: Path, base: dict[str, str], head: dict[str, str], *, all_: bool) -> list[str]:
    """What the change brings in, as a review compares its sides."""
    changed = [path for path in base.keys() | head.keys() if base.get(path) != head.get(path)]
    found: list[list[RuledFinding]] = []
    for name, files, other, others in (("a", base, "b", head), ("b", head, "a", base)):
        pairs_of = [(p if p in files else None, p if p in others else None) for p in changed]
        job: dict[str, Any] = {"other_root": str(root / other), "changed": pairs_of}
        here = [path for path in changed if path in files]
        reply: CheckReply = trace(root / name, files, paths=here, **({} if all_ else job))
        text = {path: content.split("\n") for path, content in files.items()}
        found.append(
            [
                (
                    Rule(id=raw.code, title="", severity="low", codes=(raw.code,), why="", fix=""),
                    replace(raw, key=text[raw.path][raw.line - 1].strip(), scope=""),
                )
                for raw in reply.findings
            ]
        )
    before, after = found
    return [repr(finding) for finding in find_new(before, after, ())]


@pytest.mark.parametrize("seed", range(6))
def test_random_edits_give_the_findings_of_a_full_analysis(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    found = 0
    for number in range(6):
        base, head = (_edited(APPLICATION, chance) for _ in range(2))
        for side, files in (("a", base), ("b", head)):
            write(tmp_path / str(number) / side, files)
        traced, everything = (
            _introduced(tmp_path / str(number), base, head, all_=all_) for all_ in (False, True)
        )
        assert traced == everything
        found += len(everything)
    assert found


@pytest.mark.parametrize(
    "pair", [p for p in pairs() if len(p.bad) > 1], ids=lambda p: f"{p.code}:{p.name}"
)
def test_every_pair_of_several_files_gives_the_findings_of_a_full_analysis(
    pair: Pair, tmp_path: Path
) -> None:
    for base, head in ((pair.good, pair.bad), (pair.bad, pair.good)):
        root = tmp_path / ("bad" if head is pair.bad else "good")
        write(root / "a", base)
        write(root / "b", head)
        assert _introduced(root, base, head, all_=False) == _introduced(root, base, head, all_=True)


SHOP = {
    "models.py": """from django.db import models
from django.utils.html import escape
from django.utils.safestring import mark_safe

class Note(models.Model):
    text = models.TextField()
    def shown(self):
        return escape(self.text)

def marked(text):
    return escape(text)

def add(request):
    Note.objects.create(text=escape(request.POST["text"]))
""",
    "pages.py": """from django.shortcuts import render
from models import Note, marked

def index(request):
    return render(request, "c.html", {"text": marked(Note.objects.first().text)})

def page(request):
    return render(request, "n.html", {"note": Note.objects.first()})
""",
    "forms.py": """from models import Note

def save(request):
    Note.objects.create(text=request.POST["text"])
""",
    "c.html": "<p>{{ text }}</p>",
    "n.html": "<p>{{ note.text|safe }}{{ note.shown }}</p>",
}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('escape(request.POST["text"])', 'request.POST["text"]', 1),
        ("return escape(text)", "return mark_safe(text)", 0),
        ("return escape(self.text)", "return mark_safe(self.text)", 0),
        ("def marked(text)", "def log(text): print(text)\n\ndef marked(text)", 0),
    ],
)
def test_a_change_beside_a_stored_class_gives_the_findings_of_a_full_analysis(
    old: str, new: str, found: int, tmp_path: Path
) -> None:
    head = {**SHOP, "models.py": SHOP["models.py"].replace(old, new)}
    write(tmp_path / "a", SHOP)
    write(tmp_path / "b", head)
    full = _introduced(tmp_path, SHOP, head, all_=True)
    assert _introduced(tmp_path, SHOP, head, all_=False) == full
    assert len(full) == found


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ("def marked", "def log(text): print(text)\n\ndef marked", False),
        ("return escape(self.text)", "return self.text", True),
    ],
)
def test_users_of_a_stored_class_are_read_again_only_if_it_may_differ(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    parsed: list[str] = []
    whole = syntax_downgrade.parse

    def parse(text: str, name: str = "") -> ast.Module:
        parsed.append(text)
        return whole(text, name)

    models, *_ = SHOP["models.py"].partition("def add")  # which stores something
    base = {**SHOP, "models.py": models, "pages.py": f"{SHOP['pages.py']}# {tmp_path}\n"}
    head = {**base, "models.py": models.replace(old, new)}
    monkeypatch.setattr(syntax_downgrade, "parse", parse)
    write(tmp_path / "a", base)
    write(tmp_path / "b", head)
    _introduced(tmp_path, base, head, all_=False)
    assert (base["pages.py"] in parsed) is again


CIRCLE = {
    "app.py": """from flask import Flask, request
from tools.shell import execute
from tools.unused import other
app = Flask(__name__)

@app.route("/")
def index():
    return execute(request.args["command"])
""",
    "tools/shell.py": """import os
from app import app

def execute(command):
    return os.system(command)
""",
    "tools/unused.py": "def other(): pass\n",
}


def test_only_what_is_used_of_imported_modules_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    whole = syntax_downgrade.parse

    def parse(text: str, name: str = "") -> ast.Module:
        parsed.append(text)
        return whole(text, name)

    monkeypatch.setattr(syntax_downgrade, "parse", parse)
    (found,) = trace(tmp_path, CIRCLE, paths=["app.py"]).findings
    assert (found.path, found.steps[-1].path) == ("app.py", "tools/shell.py")
    assert CIRCLE["tools/unused.py"] not in parsed
    assert CIRCLE["tools/shell.py"] in parsed
