"""Calls that a change of what they call breaks, in whatever file they stand."""

from collections.abc import Callable, Mapping

import pytest

from diffchecks.check_io import CheckReply
from diffchecks.imports import import_graph_changes

Compare = Callable[..., CheckReply]

BASE = {
    "pkg/__init__.py": "from pkg.pay import charge\n",
    "pkg/pay.py": (
        "def charge(order, fee=0): ...\n\n\n"
        "class Till:\n"
        "    def __init__(self, name): self.add(name)\n\n"
        "    def add(self, coin): ...\n"
    ),
}


def broken(compare: Compare, was: str, now: str, files: Mapping[str, str]) -> list[str]:
    base = {**BASE, **files}
    head = base | {"pkg/pay.py": base["pkg/pay.py"].replace(was, now)}
    assert head != base
    found = compare(import_graph_changes, base, head).findings
    assert {one.code for one in found} <= {"broken-call"}
    return [f"{one.path}:{one.line}: {one.message.partition(': ')[2]}" for one in found]


@pytest.mark.parametrize(
    "caller",
    [
        "from pkg.pay import charge\n\ncharge(1, 2)\n",
        "from pkg.pay import charge as take\n\ntake(1, 2)\n",
        "from .pay import charge\n\ncharge(1, fee=2)\n",
        "from pkg import pay\n\npay.charge(1, 2)\n",
        "import pkg.pay\n\npkg.pay.charge(1, 2)\n",
        "import pkg.pay as pay\n\npay.charge(1, 2)\n",
        "from pkg import charge\n\ncharge(1, 2)\n",
        "def f():\n    from pkg.pay import charge\n    return charge(1, 2)\n",
    ],
)
def test_a_caller_that_the_change_left_behind(compare: Compare, caller: str) -> None:
    (one,) = broken(compare, "(order, fee=0)", "(order)", {"pkg/shop.py": caller})
    assert one.startswith("pkg/shop.py:3: it ")
    assert not broken(compare, "(order, fee=0)", "(order, fee=1, *, now=0)", {"pkg/b.py": caller})


@pytest.mark.parametrize(
    ("now", "call", "says"),
    [
        ("(order, unit, fee=0)", "charge(1)", "'unit' is missing"),
        ("(order, *, unit, fee=0)", "charge(1)", "'unit' is missing"),
        ("(order, cost=0)", "charge(1, fee=2)", "it has no parameter 'fee'"),
        ("(fee, order=0)", "charge(1, fee=2)", "'fee' is given twice"),
        ("(order, /, fee=0)", "charge(order=1)", "it has no parameter 'order'"),
        ("(order, **more)", "charge(1, 2)", "it takes 1 by position and gets 2"),
        ("(order, *more)", "charge(1, 2)", None),
        ("(order, **more)", "charge(1, fee=2)", None),
        ("(order)", "charge(*given)", None),
        ("(order)", "charge(1, **given)", None),
        ("(order)", "charge(1)", None),
        # which failed before as well
        ("(order)", "charge(1, 2, 3)", None),
    ],
)
def test_what_is_wrong_with_a_call(compare: Compare, now: str, call: str, says: str | None) -> None:
    caller = {"pkg/shop.py": f"from pkg.pay import charge\n\n{call}\n"}
    found = broken(compare, "(order, fee=0)", now, caller)
    assert found == ([f"pkg/shop.py:3: {says}"] if says else [])


@pytest.mark.parametrize(
    "caller",
    [
        "from pkg.pay import charge\n\n\ndef f(charge):\n    charge(1, 2)\n",
        "try:\n    from pkg.pay import charge\nexcept ImportError:\n    from b import charge\ncharge(1, 2)\n",
        "from pkg.pay import charge\n\ncharge = wrapped(charge)\ncharge(1, 2)\n",
        "from other.pay import charge\n\ncharge(1, 2)\n",
        "from pkg.pay import charge\n\nx.charge(1, 2)\n",
    ],
)
def test_a_name_that_may_be_something_else(compare: Compare, caller: str) -> None:
    assert broken(compare, "(order, fee=0)", "(order)", {"pkg/shop.py": caller}) == []


@pytest.mark.parametrize("line", ["@app.command\n", "@retry(3)\n", "if fast:\n    "])
def test_a_function_whose_decorators_change_its_signature(compare: Compare, line: str) -> None:
    body = BASE["pkg/pay.py"].replace("def charge", f"{line}def charge")
    files = {"pkg/pay.py": body, "pkg/shop.py": "from pkg.pay import charge\n\ncharge(1, 2)\n"}
    assert broken(compare, "(order, fee=0)", "(order)", files) == []


def test_classes_are_called_by_what_makes_them(compare: Compare) -> None:
    files = {"pkg/shop.py": "from pkg import pay\n\npay.Till('a')\npay.Till.add(1, 2)\n"}
    said = ["pkg/shop.py:3: 'size' is missing"]
    assert broken(compare, "(self, name)", "(self, name, size)", files) == said
    own = ["pkg/pay.py:5: 'unit' is missing"]
    assert broken(compare, "(self, coin)", "(self, coin, unit)", files) == own
    made = files | {"pkg/pay.py": BASE["pkg/pay.py"].replace("Till:", "Till(metaclass=Odd):")}
    assert broken(compare, "(self, name)", "(self, name, size)", made) == []
