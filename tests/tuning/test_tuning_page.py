"""The report page on a narrow screen: what can be known of it from its text."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from tests.tuning.labelsets import rows

VOID = {"meta", "br", "line", "circle", "rect", "path", "polyline"}
NARROW = 360
TOUCH = 0.8


class _Tree(HTMLParser):
    """Elements with their attributes and the attributes of what stands around them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str]]] = []
        self.seen: list[tuple[str, dict[str, str], list[tuple[str, dict[str, str]]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        self.seen.append((tag, own, list(self.open)))
        if tag not in VOID:
            self.open.append((tag, own))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, {n: v or "" for n, v in attrs}, list(self.open)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass


@pytest.fixture
def page(save: Callable[..., Path], house: Path, tmp_path: Path) -> tuple[str, _Tree]:
    items = rows(150)
    for row in items:
        row["id"] = f"{row['id']}-{'long' * 40}"
    path = tmp_path / "page.html"
    main(["rubric", "tune", str(house), str(save(items)), "--refits", "30", "--report", str(path)])
    tree = _Tree()
    tree.feed(text := path.read_text(encoding="utf-8"))
    return text, tree


def test_nothing_on_the_page_is_wider_than_a_phone(page: tuple[str, _Tree]) -> None:
    text, tree = page
    (viewport,) = [own for tag, own, _ in tree.seen if own.get("name") == "viewport"]
    assert "width=device-width" in viewport["content"]
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    given = [style, *(own["style"] for _, own, _ in tree.seen if "style" in own)]
    widths = [
        float(value) * {"px": 1, "rem": 16, "em": 16}[unit]
        for css in given
        for value, unit in re.findall(r"(?<![\w-])(?:min-)?width:([\d.]+)(px|rem|em)", css)
    ]
    assert all(width <= NARROW for width in widths)
    assert "overflow-wrap:anywhere" in style
    assert "white-space:nowrap" not in style
    # In a table only an item's name may break inside a word: seen in a browser, figures did.
    assert re.search(r"th,td\{[^}]*overflow-wrap:normal\}", style.replace("\n", ""))
    assert "td:first-child{overflow-wrap:anywhere;min-width:7rem}" in style
    # Columns of the grid give way before they are wider than the screen.
    assert all("min(100%" in css for css in re.findall(r"minmax\([^)]*\)+", style))
    assert not [tag for tag, own, _ in tree.seen if tag != "rect" and "width" in own]


def test_charts_shrink_and_tables_scroll_by_themselves(page: tuple[str, _Tree]) -> None:
    text, tree = page
    charts = [own for tag, own, _ in tree.seen if tag == "svg"]
    assert charts
    assert all(re.fullmatch(r"0 0 \d+ \d+", own["viewbox"]) for own in charts)
    # Drawn for a phone: at its width the words are at least 0.8 of their size.
    assert all(float(own["viewbox"].split()[2]) <= (NARROW - 32) / TOUCH for own in charts)
    assert re.search(r"svg\{[^}]*max-width:100%", text)
    tables = [around for tag, _, around in tree.seen if tag == "table"]
    assert tables
    assert all(any(own.get("class") == "scroll" for _, own in around) for around in tables)
    assert ".scroll{overflow-x:auto}" in text
