"""Which changes of a file are taken back at the place of a finding."""

from pathlib import Path

import pytest

from diffchecks.test_quality.taken_back import run

BASE = """\
START = 0
RATE = 2


def label(name):
    return name.upper()


def total(prices):
    if not prices:
        raise ValueError("none")

    return 0 + sum(prices[START:])


class Cart:
    def size(self):
        return 1
"""
HEAD = (
    BASE.replace("START = 0", "START = 1")
    .replace("RATE = 2", "RATE = 3")
    .replace("upper", "lower")
    .replace('"none"', '"no price"')
    .replace("0 + sum", "sum")
    .replace("return 1", "return 2")
)
OTHER = "def taxed(n):\n    return n\n"


def taken_back(folder: Path, line: int, *names: str) -> list[list[str]]:
    """What of head stays, for each of the five."""
    for side, text, other in (("base", BASE, OTHER), ("head", HEAD, OTHER.replace("n\n", "-n\n"))):
        (folder / side).mkdir()
        (folder / side / "shop.py").write_text(text)
        (folder / side / "tax.py").write_text(other)
    job = {
        "roots": [str(folder / side) for side in ("base", "head")],
        "path": "shop.py", "paths": ["shop.py", "tax.py"],
        "first": line, "last": line, "removed": False, "names": names,
    }  # fmt: skip
    parts = {"START = 1": "start", "RATE = 3": "rate", "lower": "label", "no price": "message",
             "  return sum": "total", "return 2": "size"}  # fmt: skip
    found = run(job)
    assert all(set(texts) <= {"shop.py", "tax.py"} for texts in found)
    kept = [[name for text, name in parts.items() if text in texts["shop.py"]] for texts in found]
    return [
        [*names, *(["taxed"] if "tax.py" not in texts else [])]
        for names, texts in zip(kept, found, strict=True)
    ]


def test_the_cited_line_and_what_it_names_are_taken_back_and_nothing_beside_it(
    tmp_path: Path,
) -> None:
    exact, named, function, alone, near = taken_back(tmp_path, 13)
    assert exact == named == ["rate", "label", "message", "size", "taxed"]
    assert alone == ["start", *exact]
    assert function == near == ["rate", "label", "size", "taxed"]


def test_what_the_finding_names_is_taken_back_in_any_file(tmp_path: Path) -> None:
    exact, named, function, _, near = taken_back(tmp_path, 13, "size", "taxed")
    assert exact == ["rate", "label", "message", "size", "taxed"]
    assert named == ["rate", "label", "message"]
    assert function == near == ["rate", "label"]


def test_a_line_that_is_as_in_base_has_nothing_to_take_back(tmp_path: Path) -> None:
    assert taken_back(tmp_path, 10) == []


@pytest.mark.parametrize(
    ("path", "base", "head"),
    [
        ("a.py", "def load(n):\n    return [n]\n", "@cache\ndef load(n):\n    return [n]\n"),
        ("a.py", "LOAD = {\n    'x': 5,\n    'y': 6,\n}\nload = LOAD.get\n",
         "LOAD = {\n    'x': 3,\n    'y': 6,\n}\nload = LOAD.get\n"),
        ("a.py", "START, load = 0, str\n", "START, load = 0, repr\n"),
        ("a.py", "load = []\nload += [2]\n", "load = []\nload += []\n"),
        ("a.py", "load = {}\nload['x'] = 5\n", "load = {}\nload['x'] = 3\n"),
        ("a.py", "from b import up as load\n", "from b import down as load\n"),
        ("a.py", "from b import (\n    up as load,\n)\n", "from b import (\n    down as load,\n)\n"),
        ("a.py", "class load(Old):\n    pass\n", "class load(New):\n    pass\n"),
        ("a.py", "def rate():\n    return 5\n\n\ndef load(n):\n    return rate()\n",
         "def rate():\n    return 3\n\n\ndef load(n):\n    return rate()\n"),
        ("b.py", "def load(n):\n    return 5\n", "def load(n):\n    return 3\n"),
        ("a.mjs", "export const load = (n) => {\n  return 5;\n};\n",
         "export const load = (n) => {\n  return 3;\n};\n"),
        ("a.mjs", "class A {\n  load(n) {\n    return 5;\n  }\n}\n",
         "class A {\n  load(n) {\n    return 3;\n  }\n}\n"),
        ("a.go", "var load float64 = 5\n", "var load float64 = 3\n"),
    ],
)  # fmt: skip
def test_what_the_cited_line_calls_is_taken_back_however_it_is_defined(
    path: str, base: str, head: str, tmp_path: Path
) -> None:
    rest = "\n\ndef other():\n    return 1\n\n\ndef total(n):\n    {} = load(n)\n    return 1\n"
    unrelated = "\n\nother = {}\nload_all = {}\n"
    for side, text, name in (("base", base, "r"), ("head", head, "rows")):
        (tmp_path / side).mkdir()
        (tmp_path / side / path).write_text(text + unrelated.replace("{}", name))
        (tmp_path / side / "main.py").write_text(rest.format(name))
    job = {
        "roots": [str(tmp_path / side) for side in ("base", "head")], "path": "main.py",
        "paths": ["main.py", path], "first": 8, "last": 8, "removed": False, "names": [],
    }  # fmt: skip
    expected = base + unrelated.replace("{}", "rows")
    found = [texts.get(path) for texts in run(job)[1:]]
    assert found == [expected, expected, None, expected]
