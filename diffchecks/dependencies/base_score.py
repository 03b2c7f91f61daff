"""The severity of a vulnerability by its CVSS vector, version 3: https://www.first.org/cvss/."""

import math

_PREFIX = ("CVSS:3.0/", "CVSS:3.1/")
_WEIGHTS = {
    "AV": {"N": 0.85, "A": 0.62, "L": 0.55, "P": 0.2},
    "AC": {"L": 0.77, "H": 0.44},
    "PR": {"N": 0.85, "L": 0.62, "H": 0.27},
    "UI": {"N": 0.85, "R": 0.62},
    "C": {"H": 0.56, "L": 0.22, "N": 0.0},
    "I": {"H": 0.56, "L": 0.22, "N": 0.0},
    "A": {"H": 0.56, "L": 0.22, "N": 0.0},
}
_CHANGED_PR = {"N": 0.85, "L": 0.68, "H": 0.5}
_BOUNDS = ((9.0, "critical"), (7.0, "high"), (4.0, "medium"), (0.1, "low"))


def base_score(vector: str) -> float:
    """The base score, 0 to 10.

    Raises:
        ValueError: it is not a complete vector of version 3.
    """
    if not vector.startswith(_PREFIX):
        raise ValueError
    given = dict(part.split(":", 1) for part in vector.split("/")[1:] if ":" in part)
    try:
        weight = {name: values[given[name]] for name, values in _WEIGHTS.items()}
        changed = {"U": False, "C": True}[given["S"]]
    except KeyError:
        raise ValueError from None
    if changed:
        weight["PR"] = _CHANGED_PR[given["PR"]]
    base = 1 - (1 - weight["C"]) * (1 - weight["I"]) * (1 - weight["A"])
    impact = 7.52 * (base - 0.029) - 3.25 * (base - 0.02) ** 15 if changed else 6.42 * base
    ease = 8.22 * weight["AV"] * weight["AC"] * weight["PR"] * weight["UI"]
    if impact <= 0:
        return 0.0
    total = min(1.08 * (impact + ease) if changed else impact + ease, 10)
    # The standard rounds up to one decimal, after six digits.
    return math.ceil(round(total * 100_000) / 10_000) / 10


def severity_of_vector(vector: str) -> str:
    """``critical``, ``high``, ``medium`` or ``low``; empty without a score."""
    try:
        score = base_score(vector)
    except ValueError:
        return ""
    return next((name for least, name in _BOUNDS if score >= least), "")
