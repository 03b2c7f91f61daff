"""Tests removed, emptied, skipped or not written; each with what differs by one thing."""

from collections.abc import Callable

import pytest

from diffchecks.check_io import CheckReply
from diffchecks.test_quality import weakened_tests as check

Codes = Callable[..., list[str]]
Compare = Callable[..., CheckReply]

PATH = "tests/test_pay.py"
KEPT = "def test_kept():\n    assert pay(1) == 1\n\n\n"
REFUND = "def test_refund():\n    bill = make_bill(3)\n    assert refund(bill) == 3\n"


def one_file(before: str, after: str) -> tuple[dict[str, str], dict[str, str]]:
    return {PATH: before}, {PATH: after}


def test_a_removed_test_is_named_where_it_stood(compare: Compare) -> None:
    (one,) = compare(check, *one_file("\n" + KEPT + REFUND, "\n" + KEPT)).findings
    assert (one.code, one.message) == ("removed", "1 test was removed: test_refund")
    line = f"\n{KEPT}{REFUND}".splitlines().index(REFUND.splitlines()[0]) + 1
    assert (one.path, one.line, one.in_base) == (PATH, line, True)


@pytest.mark.parametrize(
    ("base", "head"),
    [
        # moved to another file
        ({PATH: KEPT + REFUND}, {PATH: KEPT, "tests/test_b.py": REFUND}),
        # renamed
        ({PATH: KEPT + REFUND}, {PATH: KEPT + REFUND.replace("test_refund", "test_back")}),
        # written anew
        ({PATH: KEPT + REFUND}, {PATH: KEPT + "def test_all():\n    assert everything()\n"}),
        # merged into one with parameters
        (
            {PATH: KEPT + REFUND + REFUND.replace("refund", "gift")},
            {PATH: KEPT + "@pytest.mark.parametrize('f', [1])\ndef test_x(f):\n    assert f\n"},
        ),
        # gone with what it tested
        (
            {PATH: KEPT + REFUND, "pay.py": "def refund(bill): ...\n"},
            {PATH: KEPT, "pay.py": "x = 1\n"},
        ),
        # it asserted nothing, or was skipped
        ({PATH: KEPT + "def test_nothing():\n    pass\n"}, {PATH: KEPT}),
        ({PATH: KEPT + "@pytest.mark.skip\n" + REFUND}, {PATH: KEPT}),
        # no test at all
        ({PATH: KEPT + "def make_bill():\n    assert 1 == x\n"}, {PATH: KEPT}),
        ({"pay.py": KEPT + REFUND}, {"pay.py": KEPT}),
    ],
)
def test_removed_tests_that_are_not_reported(
    codes: Codes, base: dict[str, str], head: dict[str, str]
) -> None:
    assert codes(check, base, head) == []


def test_two_tests_are_not_merged_into_one_without_parameters(codes: Codes) -> None:
    base = {PATH: KEPT + REFUND + REFUND.replace("refund", "gift")}
    assert codes(check, base, {PATH: KEPT + "def test_x(f):\n    assert f\n"}) == ["removed"]


def test_a_local_name_of_the_source_is_not_what_a_test_was_about(codes: Codes) -> None:
    base = {PATH: KEPT + REFUND, "pay.py": "def f():\n    bill = 1\n    return bill\n"}
    assert codes(check, base, {PATH: KEPT, "pay.py": "def f():\n    return 1\n"}) == ["removed"]


def test_the_tests_of_a_deleted_file_are_named_where_they_stood(compare: Compare) -> None:
    base = {PATH: REFUND, "tests/test_kept.py": KEPT, "other.py": "x = 1\n"}
    head = {"tests/test_kept.py": KEPT, "other.py": "x = 2\n"}
    (one,) = compare(check, base, head).findings
    assert one.message == f"1 test was removed: {PATH}::test_refund"
    assert (one.path, one.in_base) == (PATH, True)
    # Also with nothing else in the change.
    for head in (base | {PATH: "x = 1\n"}, {}):
        (one,) = compare(check, {PATH: REFUND}, head).findings
        assert (one.path, one.in_base) == (PATH, True)


@pytest.mark.parametrize(
    ("body", "emptied"),
    [
        ("    refund(3)\n", True),
        ("    pass\n", True),
        ("    assert refund(3)\n", False),
        ("    with pytest.raises(ValueError):\n        refund(3)\n", False),
        ("    with pytest.warns(UserWarning):\n        refund(3)\n", False),
        ("    numpy.testing.assert_allclose(refund(3), 3)\n", False),
        ("    ledger.assert_called_once_with(3)\n", False),
        ("    self.assertEqual(refund(3), 3)\n", False),
        ("    raise AssertionError\n", False),
        ("    bill = refund(3)\n    bill.exists()\n    print(get_bill(3))\n", True),
        ("    check_refund(3)\n", False),
        ("    someone_elses_help(3)\n", False),  # it may assert
    ],
)
def test_a_test_that_lost_its_assertions(codes: Codes, body: str, emptied: bool) -> None:
    before = "def test_refund():\n    refund(3)\n    assert refund(3) == 3\n"
    found = codes(check, *one_file(before, "def test_refund():\n" + body))
    assert found == (["assertions-removed"] if emptied else [])


@pytest.mark.parametrize(
    ("more", "emptied"),
    [
        ("", False),
        ("    else:\n        self.fail()\n", True),
        ("    if a:\n        self.fail()\n", True),
    ],
)
def test_an_error_fails_a_test_that_does_not_catch_it(
    codes: Codes, more: str, emptied: bool
) -> None:
    before = "def test_refund():\n    try:\n        refund(3)\n    except OSError:\n        self.fail()\n"
    found = codes(check, *one_file(before + more, "def test_refund():\n    refund(3)\n"))
    assert found == (["assertions-removed"] if emptied else [])


def test_helpers_of_the_file_assert_for_their_tests(codes: Codes) -> None:
    helper = "def same(a, b):\n    assert a == b\n"
    before = helper + "def test_refund():\n    same(1, 2)\n    assert same(1, 1)\n"
    after = helper + "def test_refund():\n    same(1, 2)\n"
    assert codes(check, *one_file(before, after)) == []


@pytest.mark.parametrize(
    ("mark", "skipped"),
    [
        ("@pytest.mark.skip\n", True),
        ("@pytest.mark.skip(reason='later')\n", True),
        ("@unittest.skip('later')\n", True),
        ("@pytest.mark.xfail\n", True),
        ("@pytest.mark.xfail(reason='bug', strict=True)\n", True),
        ("@unittest.expectedFailure\n", True),
        ("@pytest.mark.xfail(sys.platform == 'win32', reason='x')\n", False),
        ("@pytest.mark.xfail(condition=WINDOWS, reason='x')\n", False),
        ("@pytest.mark.skipif(WINDOWS, reason='x')\n", False),
        ("@unittest.skipIf(WINDOWS, 'x')\n", False),
        ("@pytest.mark.slow\n", False),
    ],
)
def test_an_existing_test_that_is_skipped(codes: Codes, mark: str, skipped: bool) -> None:
    assert codes(check, *one_file(REFUND, mark + REFUND)) == (["skipped"] if skipped else [])
    assert codes(check, *one_file(KEPT, KEPT + mark + REFUND)) == []  # a new one
    assert codes(check, *one_file(mark + REFUND, mark + REFUND + "\nx = 1\n")) == []


@pytest.mark.parametrize(
    ("line", "skipped"),
    [
        ("    pytest.skip('later')\n", True),
        ("    self.skipTest('later')\n", True),
        ("    raise unittest.SkipTest('later')\n", True),
        ("    if WINDOWS:\n        pytest.skip('later')\n", False),
    ],
)
def test_a_test_that_begins_by_skipping_itself(codes: Codes, line: str, skipped: bool) -> None:
    head, body = REFUND.split("\n", 1)
    found = codes(check, *one_file(REFUND, f'{head}\n    """Say."""\n{line}{body}'))
    assert found == (["skipped"] if skipped else [])


@pytest.mark.parametrize(
    ("line", "skipped"),
    [
        ("pytestmark = pytest.mark.skip\n", True),
        ("pytestmark = [pytest.mark.slow, pytest.mark.skip(reason='x')]\n", True),
        ("pytest.skip('x', allow_module_level=True)\n", True),
        ("pytestmark = pytest.mark.slow\n", False),
        ("pytestmark = pytest.mark.skipif(WINDOWS, reason='x')\n", False),
        ("if WINDOWS:\n    pytest.skip('x', allow_module_level=True)\n", False),
    ],
)
def test_a_whole_file_that_is_skipped(codes: Codes, line: str, skipped: bool) -> None:
    found = codes(check, *one_file(REFUND, line + REFUND))
    assert found == (["skipped"] if skipped else [])


def test_a_skipped_class_is_reported_once(codes: Codes) -> None:
    text = "class TestPay:\n    def test_a(self):\n        assert a\n    def test_b(self):\n        assert b\n"
    assert codes(check, *one_file(text, "@pytest.mark.skip\n" + text)) == ["skipped"]


@pytest.mark.parametrize(
    ("line", "trivial"),
    [
        ("assert True", True),
        ("assert 1 == 1", True),
        ("assert not None", True),
        ("self.assertTrue(True)", True),
        ("self.assertEqual('a', 'a')", True),
        ("assert pay(1)", False),
        ("assert False", False),
        ("assert 1 == 2", False),
        ("assert True == x", False),
        ("self.assertTrue(x)", False),
    ],
)
def test_an_assertion_that_is_always_true(codes: Codes, line: str, trivial: bool) -> None:
    new = f"def test_new():\n    pay(1)\n    {line}\n"
    found = codes(check, *one_file(KEPT, KEPT + new))
    assert found == (["trivial-assertion"] if trivial else [])
    beside = f"def test_new():\n    assert pay(1)\n    {line}\n"
    assert codes(check, *one_file(KEPT, KEPT + beside)) == []
    assert codes(check, *one_file(new, new + "\nx = 1\n")) == []


SOURCE = {"src/shop/__init__.py": "", "src/shop/pay.py": "x = 1\n", "tests/test_old.py": KEPT}


def lines(count: int) -> str:
    return "".join(f"y{at} = compute({at})\n" for at in range(count))


@pytest.mark.parametrize(
    ("changed", "untested"),
    [
        ({"src/shop/pay.py": lines(15)}, True),
        ({"src/shop/pay.py": lines(14)}, False),
        ({"src/shop/pay.py": "".join(f"import a{at}\n" for at in range(15))}, False),
        ({"src/shop/pay.py": '"""' + "say\n" * 30 + '"""\n'}, False),
        ({"src/shop/pay.py": "".join(f"y{at}: int\n" for at in range(15))}, False),
        ({"src/shop/pay.py": "# say\n" * 30}, False),
        ({"docs/conf.py": lines(15)}, False),
        ({"setup.py": lines(15)}, False),
        ({"src/shop/pay.py": lines(15), "tests/test_a.py": "import shop.pay\n"}, False),
        ({"src/shop/pay.py": lines(15), "tests/test_a.py": "from shop import pay\n"}, False),
        ({"src/shop/pay.py": lines(15), "tests/test_a.py": "import shop\n"}, False),
        ({"src/shop/pay.py": lines(15), "tests/test_pay.py": "x = 1\n"}, False),
        ({"src/shop/pay.py": lines(15), "tests/test_a.py": "import other\n"}, True),
        ({"src/shop/pay.py": lines(15), "tests/test_a.py": "import other\n" + lines(14)}, False),
        ({"src/shop/pay.py": lines(15), "test-data/pay.test": "[case]\n" * 13}, True),
        ({"src/shop/pay.py": lines(15), "test-data/pay.test": "[case]\n" * 15}, False),
    ],
)
def test_source_with_no_test_touching_it(
    codes: Codes, changed: dict[str, str], untested: bool
) -> None:
    found = codes(check, SOURCE, SOURCE | changed)
    assert found == (["untested-change"] if untested else [])


def test_a_project_without_tests_gets_no_finding(codes: Codes) -> None:
    base = {"pay.py": "x = 1\n"}
    assert codes(check, base, {"pay.py": lines(30)}) == []


def test_code_that_moved_or_was_reformatted_needs_no_test(codes: Codes) -> None:
    block = lines(20)
    base = SOURCE | {"src/shop/pay.py": block}
    moved = SOURCE | {"src/shop/pay.py": "", "src/shop/new.py": block}
    assert codes(check, base, moved) == []
    wrapped = block.replace("compute(", "compute(\n    ").replace(")", ",\n)")
    assert codes(check, base, base | {"src/shop/pay.py": wrapped}) == []


def test_one_finding_names_the_sources_by_growth(compare: Compare) -> None:
    head = SOURCE | {f"src/shop/m{at}.py": lines(15 + at) for at in range(5)}
    (one,) = compare(check, SOURCE, head).findings
    assert one.path == "src/shop/m4.py"
    assert one.message == (
        "No test of the change imports or names the code that it changes: src/shop/m4.py (+19 lines), "
        "src/shop/m3.py (+18 lines), src/shop/m2.py (+17 lines) and 2 more"
    )


def test_a_test_file_that_does_not_parse_is_a_gap(compare: Compare) -> None:
    reply = compare(check, *one_file(REFUND, "def test_refund(:\n"))
    assert reply.gaps == {PATH: "does not parse: line 1: invalid syntax"}
    assert reply.findings == []
