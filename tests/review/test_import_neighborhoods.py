"""Files that belong together are given to the same agent, as far as it can read them at once."""

from itertools import pairwise

from orchestrator.code_review.agents.reviewer_assignment import find_neighbors, split


def test_imports_of_python_javascript_and_c_make_neighbors() -> None:
    texts = {
        "shop/__init__.py": "",
        "shop/cart.py": "from shop import tax\nimport json\n",
        "shop/tax.py": "",
        "web/src/cart.ts": "import { tax } from './lib/tax';\nimport x from 'react';\n",
        "web/src/lib/tax.ts": "export { a } from '../deep/index.js';\n",
        "web/src/deep/index.ts": "",
        "core/a.c": '#include "a.h"\n#include <stdio.h>\n',
        "core/a.h": "",
        "README.md": "from shop import cart",
    }
    assert find_neighbors(texts) == {
        "shop/__init__.py": [],
        "shop/cart.py": ["shop/tax.py"],
        "shop/tax.py": ["shop/cart.py"],
        "web/src/cart.ts": ["web/src/lib/tax.ts"],
        "web/src/lib/tax.ts": ["web/src/cart.ts", "web/src/deep/index.ts"],
        "web/src/deep/index.ts": ["web/src/lib/tax.ts"],
        "core/a.c": ["core/a.h"],
        "core/a.h": ["core/a.c"],
        "README.md": [],
    }


def test_neighbors_stay_together_and_no_shard_exceeds_the_room() -> None:
    sizes = {"a": 5, "b": 3, "c": 4, "d": 4, "e": 3}
    neighbors = {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}
    assert split(sizes, neighbors, 10) == [["a", "b"], ["c", "d"], ["e"]]
    assert split(sizes, {}, 10) == [["a"], ["b", "c"], ["d", "e"]]


def test_a_neighborhood_that_is_too_large_is_cut_along_its_imports() -> None:
    names = ["a", "z", "b", "y"]
    chain: dict[str, list[str]] = {one: [] for one in names}
    for one, other in pairwise(names):
        chain[one].append(other)
        chain[other].append(one)
    assert split(dict.fromkeys(names, 5), chain, 10) == [["a", "z"], ["b", "y"]]


def test_a_file_above_the_room_has_a_shard_of_its_own() -> None:
    near = {"a": ["big"], "big": ["a", "c"], "c": ["big"]}
    assert split({"a": 3, "big": 90, "c": 3}, near, 10) == [["a"], ["big"], ["c"]]


def test_a_small_remainder_is_not_an_agent_of_its_own() -> None:
    assert split({"a": 99, "b": 7}, {}, 100) == [["a", "b"]]
    assert split({"a": 60, "b": 52}, {}, 100) == [["a"], ["b"]]


def test_the_shares_of_a_role_are_even() -> None:
    sizes = {f"f{n:02}": 9 + n % 3 for n in range(45)}
    pair = {"f22": ["f23"], "f23": ["f22"]}
    for neighbors in ({}, pair):
        first, second = split(sizes, neighbors, 390)  # not 39 files and 6
        amounts = [sum(sizes[path] for path in part) for part in (first, second)]
        assert abs(amounts[0] - amounts[1]) <= 22
        assert [*first, *second] == [*sizes]
    assert {"f22", "f23"} <= {*second} or {"f22", "f23"} <= {*first}
    # A neighborhood that one agent can read is not cut for the sake of evenness.
    near = {"a": ["b"], "b": ["a"]}
    assert split({"a": 50, "b": 45, "c": 20}, near, 98) == [["a", "b"], ["c"]]
