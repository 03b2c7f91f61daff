"""Where a quotation stands in a file, in whatever form, and which of its places is meant."""

import pytest

from orchestrator.code_review.findings.quote_location import (
    FileText,
    Place,
    find_whole_lines,
    nearest_place,
)


def test_a_quotation_may_begin_in_the_middle_of_a_line() -> None:
    text = FileText(["", "alpha beta", "", "gamma delta", ""])
    assert text.find("beta gamma") == [(2, 4)]
    assert text.find("delta") == [(4, 4)]


NEAREST: list[tuple[list[Place], Place, str, set[int], Place | None]] = [
    ([], (1, 1), "abcde", set(), None),
    ([(1, 1)], (4000, 4000), "abcde", set(), (1, 1)),
    # A short text counts only where it was cited.
    ([(1, 1)], (2, 2), "ab cd", set(), None),
    ([(2, 4)], (4, 9), "ab", set(), (2, 4)),
    ([(2, 3)], (4, 9), "ab", set(), None),
    ([(4, 9)], (2, 4), "ab", set(), (4, 9)),
    ([(5, 9)], (2, 4), "ab", set(), None),
    # One of several at most thirty lines off, before or after the cited ones.
    ([(1, 1), (200, 200)], (31, 40), "abcde", set(), (1, 1)),
    ([(1, 1), (200, 200)], (32, 40), "abcde", set(), None),
    ([(70, 70), (200, 200)], (31, 40), "abcde", set(), (70, 70)),
    ([(71, 71), (200, 200)], (31, 40), "abcde", set(), None),
    # The nearest, then the changed one, then the one that begins nearest.
    ([(4, 4), (15, 15)], (10, 10), "abcde", {4}, (15, 15)),
    ([(5, 7), (14, 15)], (10, 10), "abcde", {14}, (5, 7)),
    ([(5, 6), (14, 15)], (10, 10), "abcde", {5}, (5, 6)),
    ([(6, 8), (12, 14)], (10, 10), "abcde", {14}, (12, 14)),
    ([(6, 8), (12, 14)], (10, 10), "abcde", {12}, (12, 14)),
    ([(6, 8), (12, 14)], (10, 10), "abcde", {15}, (12, 14)),
    ([(12, 14), (6, 8)], (10, 10), "abcde", {8}, (6, 8)),
    ([(12, 14), (6, 8)], (10, 10), "abcde", {6}, (6, 8)),
    ([(12, 14), (6, 8)], (10, 10), "abcde", {5}, (12, 14)),
    ([(14, 14), (8, 8)], (10, 12), "abcde", set(), (8, 8)),
    ([(8, 8), (14, 14)], (10, 12), "abcde", set(), (8, 8)),
    ([(3, 6), (8, 8)], (5, 9), "abcde", {8}, (8, 8)),
    ([(7, 7), (3, 6)], (5, 9), "abcde", {6}, (3, 6)),
]


def test_the_nearest_place_is_chosen_by_distance_then_change_then_first_line() -> None:
    for places, cited, quote, changed, expected in NEAREST:
        assert nearest_place(places, cited, quote, changed) == expected, (places, cited, changed)


FILE = ["alpha = 1", "  beta(x)", "gamma", '"q\t\'"', "a&b<c", "", "alpha = 1", "tail{}"]

FOUND: list[tuple[str, list[Place]]] = [
    ("alpha = 1", [(1, 1), (7, 7)]),
    ("tail{}", [(8, 8)]),
    ("", []),
    ("```py\nbeta(x)\n```", [(2, 2)]),
    ("  ```\ngamma\n  ```  ", [(3, 3)]),
    (" `gamma` ", [(3, 3)]),
    ("``beta(x)``", [(2, 2)]),
    ("`Xgamma`", []),
    ("alpha = 1\n  b", [(1, 2)]),
    ("1: alpha = 1\n 2 | beta(x)", [(1, 2)]),
    ("-alpha = 1\n+beta(x)", [(1, 2)]),
    ("1: +alpha = 1\n2: +beta(x)", [(1, 2)]),
    # A diff shows each line's sign, number and text.
    ("+1: alpha = 1\n+2: beta(x)", [(1, 2)]),
    ("-1: alpha = 1\n 2: beta(x)\n+3: gamma", [(1, 3)]),
    ("```diff\n 5: a&b<c\n+6: \n+7: alpha = 1\n```", [(5, 7)]),
    ("+1: alpha = 2\n+2: beta(x)", []),
    (r"\u0061lph\x61 = 1", [(1, 1), (7, 7)]),
    (r"alpha\t= 1\nbeta(x)", [(1, 2)]),
    (r"gamma\n\"q\t\'\"", [(3, 4)]),
    ("a&amp;b&lt;c", [(5, 5)]),
    ("```\n+a&amp;b&lt;c\n```", [(5, 5)]),
    ("```\n3: `gamma\n```", []),
    # An ellipsis stands for something between two texts of ten characters in all, a redaction for
    # something within a line between two of five.
    ("alpha\n...\ngamma", [(1, 3)]),
    ("alpha\n  # ...\ngamma", [(1, 3)]),
    ("alpha\n// …\ngamma", [(1, 3)]),
    ("alpha\n...\ngamm", []),
    ("alp\n...\nbeta(x)", [(1, 2)]),
    ("alpha\n...\n...\ngamma", [(1, 3)]),
    ("...\nalpha = 1 gamma\n...", []),
    ("alpha = 1\n...\ngamma\n...\ntail{}", [(1, 8)]),
    ("alpha\n[redacted]\ngamma", [(1, 3)]),
    ("alpha[redacted]\ngamma", []),
    ("be[redacted]x)\ngamma", [(2, 3)]),
    ("al[redacted]1", []),
    ("beta[redacted])\ngamma", [(2, 3)]),
    ("alpha [redacted]\nbeta(x)", [(1, 2)]),
    ("alpha [redacted] beta(x)", []),
]


@pytest.mark.parametrize(("quote", "places"), FOUND)
def test_a_quotation_is_found_in_the_form_in_which_it_stands(
    quote: str, places: list[Place]
) -> None:
    assert FileText(FILE).find(quote) == places


@pytest.mark.parametrize(("quote", "places"), [
    ("call(x)", [(2, 2), (3, 3), (7, 7)]),
    ("  call(x)\nrest = 1", [(7, 8)]),
    ("await call(x)", [(1, 1)]),
    ("call(y)", []),
    # What is redacted cannot be compared, so a part of a line is enough.
    ("await[redacted]call(x)", [(1, 1)]),
    ("call(x)[redacted]call(z)", [(6, 6)]),
])  # fmt: skip
def test_whole_lines_hold_nothing_but_the_quotation_and_a_comment(
    quote: str, places: list[Place]
) -> None:
    lines = [
        "await call(x)", "  call(x)", "call(x)  # as ever", "call(x) and y", "y = call(x)",
        "return call(x), call(z), w", "call(x)", "rest = 1",
    ]  # fmt: skip
    assert find_whole_lines(lines, quote) == places
