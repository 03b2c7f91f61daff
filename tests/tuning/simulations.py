"""How many draws a simulation makes: few in the suite, many in ``make simulations``.

Seeds are fixed, so few draws give the same each time. They show an interval that is far from what
it says; many tell it from one that is a little too narrow.
"""

import os

_IS_WHOLE = os.environ.get("SIMULATIONS") == "whole"


def draws(few: int, many: int) -> int:
    """The number of draws."""
    return many if _IS_WHOLE else few
