"""Lines that make a block long and telling enough to be called a copy."""

NAMES = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lam",
         "mu", "nu", "xi", "omicron"]  # fmt: skip


def block(call: str) -> str:
    """A line a name, each with a call of that function."""
    return "".join(f"    {name}_total = {call}({name}_left, {name}_right)\n" for name in NAMES)
