"""A name or a parameter that is gone: its error is raised in the test, and yet it is the change's."""

from pathlib import Path

import pytest

from diffchecks.test_quality.proof_ends import NoProof, Prediction, require_as_predicted
from diffchecks.test_quality.proof_runs import TestEnd
from tests.review.proofs.test_prove_finding import bench, written

BASE_CODE = "RATES = {}\n_old = 1\n\n\nclass Cart:\n    rows = 1\n\n\ndef total(prices, start=0):\n    return 1\n"
KEYWORD = (
    "shop.total([1], start=2)",
    "TypeError",
    "total() got an unexpected keyword argument 'start'",
)
REMOVED = {
    "a keyword": (*KEYWORD, "total() takes no start"),
    "a new parameter": ("shop.total([1])", "TypeError", "total() missing 1 required positional argument: 'unit'", "total() needs unit"),
    "one of a class": ("shop.Cart(rows=1)", "TypeError", "Cart.__init__() got an unexpected keyword argument 'rows'", "Cart has no rows"),
    "a position": ("shop.total([1], 2)", "TypeError", "total() takes 1 positional argument but 2 were given", "total() takes one"),
    "a name": ("shop.RATES", "AttributeError", "module 'shop' has no attribute 'RATES'", "RATES is gone"),
    "an import": ("from shop import RATES", "ImportError", "cannot import name 'RATES' from 'shop'", "RATES is gone"),
    "an attribute": ("shop.Cart().rows", "AttributeError", "'Cart' object has no attribute 'rows'", "Cart has no rows"),
}  # fmt: skip
ENGINE = "class Engine:\n    def __init__(self, url):\n        pass\nshop.option('e', value=Engine)"
NEEDED = (
    ENGINE,
    "AssertionError",
    "assert 1 == 0, of Engine.__init__() missing 1 required positional argument: 'url'",
    "option() fails since the class that is its value is called",
)
NOT_REMOVED = {
    "not claimed": (*KEYWORD, "total() is too small"),
    "a name that is not claimed": (*REMOVED["a name"][:3], "total() is too small"),
    "a name that is not predicted": (*REMOVED["a name"][:2], "has no attribute", "RATES is gone"),
    "a name that base lacks": ("shop.SEEN", "AttributeError", "module 'shop' has no attribute 'SEEN'", "SEEN"),
    "a call of its own": ("def total(n):\n    pass\ntotal(start=2)", *KEYWORD[1:], "total() start"),
    "one of a library": ("json.dumps(1, start=2)", "TypeError", "JSONEncoder.__init__() got an unexpected keyword argument 'start'", "JSONEncoder, start"),
    "a private name": ("shop._old", "AttributeError", "module 'shop' has no attribute '_old'", "_old is gone"),
    "raised by its own callback": ("shop.each(lambda row: row['name'])", "KeyError", "'name'", "each() fails"),
    "nothing by its own callback": ("shop.each(lambda row: None[0])", "TypeError", "'NoneType' object is not subscriptable", "each() fails"),
    "a parameter that its fake lacks": ("class Cart:\n    def add(self, n):\n        pass\nshop.fill(Cart())", "TypeError", "Cart.add() got an unexpected keyword argument 'start'", "add() and start"),
    "one that its fake of a line lacks": ("shop.fill(lambda n: n)", "TypeError", "test_a.<locals>.<lambda>() takes 1 positional argument but 2 were given", "lambda"),
    "one that replaces its fake": (ENGINE.replace("shop.option", "patch.object"), *NEEDED[1:]),
    "one too many for its fake": (ENGINE, *KEYWORD[1:2], "Engine.__init__() got an unexpected keyword argument 'start'", NEEDED[3]),
    "one that it makes of its fake": (f"{ENGINE}\nEngine(1)", *NEEDED[1:]),
    "one of its fake that is claimed otherwise": (*NEEDED[:3], "option() fails"),
    "its own fake": ("class Cart:\n    pass\nCart().rows", *REMOVED["an attribute"][1:]),
}  # fmt: skip


@pytest.mark.attack("an exception that a test raises by itself")
def test_an_exception_of_the_test_itself_counts_if_the_claim_is_that_a_name_is_gone() -> None:
    found: dict[str, bool | None] = {}
    for name, (body, exception, value, claim) in {
        **REMOVED,
        **NOT_REMOVED,
        "an input": NEEDED,
    }.items():
        predicted = Prediction("test_a.py", body, exception, value, "", claim, BASE_CODE)
        last = "shop" if "fake" in name else "test_a"
        trace = f'File "test_a.py", line 9\nFile "shop.py", line 4\nFile "{last}.py", line 2'
        end = TestEnd("failed", exception, f"{value} now", trace)
        try:
            found[name] = require_as_predicted(predicted, "head", end, ["test_a.py", "shop.py"])
        except NoProof:
            found[name] = None
    assert found == {
        **dict.fromkeys(REMOVED, True),
        **dict.fromkeys(NOT_REMOVED),
        "an input": False,
    }


@pytest.mark.attack("an exception that a test raises by itself")
@pytest.mark.parametrize(
    "frames", [("a.test.mjs:4", "lib/shop.mjs:1"), ("lib/shop.mjs:1", "a.test.mjs:4")]
)
def test_in_a_script_the_first_frame_raised_the_error(frames: tuple[str, str]) -> None:
    trace = "".join(f"    at file:///tree/{frame}:6\n" for frame in ("x.mjs:5", *frames))
    end = TestEnd("failed", "SyntaxError", "Unexpected end of JSON input", trace)
    predicted = Prediction(
        "a.test.mjs", "each(parse)", "SyntaxError", "of JSON", "", "each() fails"
    )
    paths = ["lib/shop.mjs", "a.test.mjs"]
    if frames[0] == "lib/shop.mjs:1":
        assert not require_as_predicted(predicted, "head", end, paths)
    else:
        with pytest.raises(NoProof, match="comes from the test itself"):
            require_as_predicted(predicted, "head", end, paths)


async def test_a_parameter_that_is_gone_is_shown_by_the_call_that_base_takes(
    namespaces: None, tmp_path: Path
) -> None:
    base = "def total(prices, start=0):\n    return sum(prices, start)\n"
    head = base.replace(", start=0", "").replace(", start", "")
    body, exception, value = KEYWORD
    place = {"path": "shop.py", "first": 1, "last": 1}
    async with bench(tmp_path, base={"shop.py": base}, head={"shop.py": head}) as one:
        shown = await one.tries(
            written(f"assert {body} == 3"), exception, value, claim="start is gone from total()", place=place,
        )  # fmt: skip
    assert (shown.state, shown.not_shown, shown.reason) == ("reproduced", "", "")
