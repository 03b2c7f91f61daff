"""Coverage reports: read safely, tied to the tree, and what they say of changed lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from diffchecks.check_io import CheckReply
from diffchecks.test_quality import uncovered_lines
from diffchecks.test_quality.coverage_reports import locate_files, parse
from diffchecks.xml_reports import ReportError
from tests.diffchecks.check_kit import as_received, run_check

PAY = """\
def pay(order):
    if order.paid:
        return None
    total = sum(order)
    charge(total)
    order.paid = True
    log(order)
    return total
"""


def cobertura(
    lines: dict[int, int], name: str = "shop/pay.py", source: str = "/ci/work", extra: str = ""
) -> bytes:
    rows = "".join(f'<line number="{n}" hits="{hits}"/>' for n, hits in lines.items())
    return (
        f'<?xml version="1.0" ?>{extra}<coverage timestamp="1700000000000">'
        f"<sources><source>{source}</source></sources><packages><package><classes>"
        f'<class filename="{name}"><methods/><lines>{rows}</lines></class>'
        "</classes></package></packages></coverage>"
    ).encode()


def as_json(lines: dict[int, int], name: str = "shop/pay.py") -> bytes:
    ran = [n for n, hits in lines.items() if hits]
    missing = [n for n, hits in lines.items() if not hits]
    return json.dumps({"files": {name: {"executed_lines": ran, "missing_lines": missing}}}).encode()


def lcov(lines: dict[int, int], name: str = "shop/pay.py") -> bytes:
    rows = "".join(f"DA:{n},{hits}\n" for n, hits in lines.items())
    return f"TN:\nSF:{name}\n{rows}LF:1\nend_of_record\n".encode()


class Tree:
    def __init__(self, root: Path) -> None:
        self.root, self.made, self.head_time = root, 1.7e9, 1.6e9

    def run(
        self, reports: list[bytes], head: dict[str, str], added: dict[str, list[int]] | None = None
    ) -> CheckReply:
        given = []
        for number, data in enumerate(reports):
            place = self.root / f"report-{number}"
            place.write_bytes(data)
            given.append({"path": str(place), "name": f"report-{number}", "made": self.made})
        files = []
        for path, text in head.items():
            place = self.root / "head" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            lines = (added or {}).get(path, list(range(1, text.count("\n") + 1)))
            files.append({"path": path, "status": "modified", "added": lines, "removed": []})
        job = {
            "head_root": str(self.root / "head"),
            "head_tree": sorted(head),
            "files": files,
            "reports": given,
            "head_time": self.head_time,
        }
        return as_received(run_check(uncovered_lines.run, job))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


RAN = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1}
HALF = {**RAN, 3: 0, 7: 0, 8: 0}
NEVER = {1: 1, **dict.fromkeys(range(2, 9), 0)}


@pytest.mark.parametrize("write", [cobertura, as_json, lcov])
def test_three_formats_give_the_same_result(tree: Tree, write: Any) -> None:
    head = {"shop/pay.py": PAY}
    assert tree.run([write(RAN)], head).findings == []
    (half,) = tree.run([write(HALF)], head).findings
    assert (half.code, half.line) == ("lines", 3)
    assert half.message == "No test covers 3 of the 8 changed lines of pay: 3, 7-8"
    (never,) = tree.run([write(NEVER)], head).findings
    assert (never.code, never.line, never.end_line) == ("function", 2, 8)
    reply = tree.run([write(NEVER), write(RAN)], head)
    assert (reply.findings, reply.examined) == ([], ["shop/pay.py"])


def test_only_changed_lines_count(tree: Tree) -> None:
    reply = tree.run([lcov(HALF)], {"shop/pay.py": PAY}, {"shop/pay.py": [2, 3]})
    (found,) = reply.findings
    assert found.message == "No test covers 1 of the 2 changed lines of pay: 3"
    assert reply.facts == {"changed": 2, "uncovered": 1}


def test_in_other_languages_lines_are_grouped_by_distance_and_the_longest_groups_come_first(
    tree: Tree,
) -> None:
    lines = dict.fromkeys(range(1, 121), 1) | dict.fromkeys([*range(4, 7), *range(10, 121, 5)], 0)
    reply = tree.run([lcov(lines, "web/a.js")], {"web/a.js": "x();\n" * 120})
    assert [found.line for found in reply.findings[:3]] == [4, 10, 15]
    assert len(reply.findings) == uncovered_lines.SHOWN
    assert reply.findings[-1].detail == "4 further places are not shown."


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/ci/work", "src/shop/pay.py"),
        ("/ci/work/src", "shop/pay.py"),
        ("/ci/work/src/shop", "pay.py"),
        ("", "C:\\ci\\src\\shop\\pay.py"),
        ("", "./src/shop/pay.py"),
        ("", "shop/pay.py"),
    ],
)
def test_files_are_found_where_they_lie_in_the_tree(source: str, name: str) -> None:
    tree = ["src/shop/pay.py", "pay.py", "vendor/other/pay.py"]
    report = parse(cobertura(RAN, name, source))
    assert list(locate_files(report, tree, ["src/shop/pay.py"])) == ["src/shop/pay.py"]
    assert list(locate_files(report, tree, ["pay.py"])) == []


def test_an_ambiguous_path_matches_no_file() -> None:
    tree = ["a/core/pay.py", "b/core/pay.py"]
    assert locate_files(parse(lcov(RAN, "core/pay.py")), tree, tree) == {}


def test_a_report_of_something_else_is_a_gap(tree: Tree) -> None:
    head = {"shop/pay.py": PAY, "shop/new.py": "x = 1\n", "setup.py": "x = 1\n"}
    reply = tree.run([lcov(RAN)], head)
    assert reply.gaps == {"shop/new.py": "no coverage report names it"}
    reply = tree.run([lcov(RAN, "elsewhere/b.py")], head)
    why = "the coverage reports name none of the changed files"
    assert reply.gaps == {"shop/pay.py": why, "shop/new.py": why}
    for other in ({**RAN, 99: 1}, {9: 1}):
        reply = tree.run([lcov(other)], {"shop/pay.py": f"{PAY}\n# end\n"})
        assert "another version of the file" in reply.gaps["shop/pay.py"]
        assert reply.examined == []


def test_a_report_older_than_head_is_a_gap(tree: Tree) -> None:
    tree.head_time, tree.made = 1_700_000_000 + 301, 2e9  # of two times, the report's own counts
    reply = tree.run([cobertura(RAN), lcov(RAN)], {"shop/pay.py": PAY})
    assert reply.gaps == {"report-0": "is older than head; run the tests again"}
    tree.made = 1e9
    assert set(tree.run([lcov(RAN)], {"shop/pay.py": PAY}).gaps) == {"report-0"}


BOMB = '<!DOCTYPE c [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (cobertura(RAN, extra=BOMB), "contains a DTD"),
        (cobertura(RAN, extra='<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]>'), "a DTD"),
        (cobertura(RAN)[:-9], "not well-formed XML"),
        (b"<report/>", "names no file"),
        (cobertura({0: 1}), "is not a Cobertura"),
        (cobertura({10**12: 1}), "is not a Cobertura"),
        (
            b'{"files": {"a.py": {"executed_lines": ["x"], "missing_lines": []}}}',
            "is not a Cobertura",
        ),
        (b'{"files": ' + b"[" * 100_000, "is not a Cobertura"),
        (b"SF:a.py\nDA:1\nend_of_record\n", "is not a Cobertura"),
        (b"root:x:0:0:root:/root:/bin/sh\n", "is not a Cobertura"),
        (b"", "is not a Cobertura"),
        (b"\xff\xfe\x00", "is not a Cobertura"),
    ],
)
def test_an_invalid_report_is_an_error_that_does_not_quote_its_text(data: bytes, why: str) -> None:
    with pytest.raises(ReportError, match=why) as refused:
        parse(data)
    assert "root:" not in str(refused.value)


def test_a_named_dtd_is_not_loaded() -> None:
    named = '<!DOCTYPE coverage SYSTEM "http://127.0.0.1:9/coverage-04.dtd">'
    report = parse(cobertura(RAN, extra=named))
    assert (list(report.files), report.made) == (["shop/pay.py"], 1_700_000_000.0)
