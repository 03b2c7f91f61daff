"""Contracts that base declares for import-linter; each kind has a broken and a kept case."""

from collections.abc import Callable

import pytest

from diffchecks.check_io import CheckReply
from diffchecks.imports import broken_contracts

Compare = Callable[..., CheckReply]

TREE = {
    f"shop/{name}": text
    for name, text in {
        "__init__.py": "",
        "web/__init__.py": "",
        "web/page.py": "from shop.core import orders\n",
        "admin.py": "",
        "core/__init__.py": "",
        "core/orders.py": "from shop.store import rows\n",
        "store/__init__.py": "",
        "store/rows.py": "import sqlite3\n",
    }.items()
}
LAYERS = 'type = "layers"\nlayers = ["web | admin", "core", "store"]\ncontainers = ["shop"]'


def toml(contract: str, session: str = "") -> dict[str, str]:
    head = f'[tool.importlinter]\nroot_package = "shop"\n{session}\n'
    return {"pyproject.toml": f'{head}[[tool.importlinter.contracts]]\nname = "C"\n{contract}\n'}


def told(reply: CheckReply) -> list[tuple[str, int, str]]:
    assert reply.gaps == {}
    return [(f.path, f.line, f.message.partition(": ")[2]) for f in reply.findings]


@pytest.mark.parametrize(
    ("contract", "path", "line", "chain"),
    [
        (
            LAYERS,
            "shop/core/orders.py",
            "import shop.web.page",
            "shop.core.orders -> shop.web.page",
        ),
        (
            LAYERS,
            "shop/core/orders.py",
            "from ..web import page",
            "shop.core.orders -> shop.web.page",
        ),
        (LAYERS, "shop/web/page.py", "from shop import admin", "shop.web.page -> shop.admin"),
        (LAYERS, "shop/web/page.py", "from shop.store import rows", None),
        (
            'type = "forbidden"\nsource_modules = ["shop.web"]\nforbidden_modules = ["sqlite3"]\n'
            "allow_indirect_imports = true",
            "shop/web/page.py",
            "import sqlite3",
            "shop.web.page -> sqlite3",
        ),
        (
            'type = "forbidden"\nsource_modules = ["shop.web"]\nforbidden_modules = ["csv"]',
            "shop/store/rows.py",
            "import csv",
            "shop.web.page -> shop.core.orders -> shop.store.rows -> csv",
        ),
        (
            'type = "independence"\nmodules = ["shop.web", "shop.admin"]',
            "shop/admin.py",
            "from shop.web import page",
            "shop.admin -> shop.web.page",
        ),
        (
            'type = "protected"\nprotected_modules = ["shop.store"]\nallowed_importers = ["shop.core"]',
            "shop/web/page.py",
            "import shop.store.rows",
            "shop.web.page -> shop.store.rows",
        ),
        (
            'type = "acyclic_siblings"\nancestors = ["shop"]',
            "shop/store/rows.py",
            "from shop import core",
            "shop.store.rows -> shop.core",
        ),
    ],
)
def test_each_kind_of_contract(
    compare: Compare, contract: str, path: str, line: str, chain: str | None
) -> None:
    base = TREE | toml(contract, "include_external_packages = true")
    reply = compare(broken_contracts, base, base | {path: f"{TREE[path]}{line}\n"})
    at = TREE[path].count("\n") + 1
    assert told(reply) == ([(path, at, chain)] if chain else [])
    assert reply.examined == [path]


def test_imports_of_base_are_old_even_if_they_moved(compare: Compare) -> None:
    bad = {"shop/core/orders.py": "from shop import web\n"}
    base = TREE | toml(LAYERS) | bad
    now = {path: text for path, text in base.items() if path != "shop/core/orders.py"}
    now |= {"shop/core/bills.py": "# billing\nfrom shop import web\n"}
    moved = {"shop/core/orders.py": "shop/core/bills.py"}
    assert told(compare(broken_contracts, base, now, moved)) == []
    again = base | {"shop/core/bills.py": "from shop import web\n"}
    assert [path for path, *_ in told(compare(broken_contracts, base, again))] == [
        "shop/core/bills.py"
    ]


def test_a_longer_chain_between_connected_parts_is_old(compare: Compare) -> None:
    base = TREE | toml(LAYERS) | {"shop/core/orders.py": "from shop import web\n"}
    head = base | {"shop/core/bills.py": "from shop.core import orders\n"}
    assert told(compare(broken_contracts, base, head)) == []


def test_an_exhaustive_contract_misses_a_new_module(compare: Compare) -> None:
    base = TREE | toml(f"{LAYERS}\nexhaustive = true")
    head = base | {"shop/mail/__init__.py": "", "shop/mail/send.py": "\nimport smtplib\n"}
    reply = compare(broken_contracts, base, head)
    assert [(f.path, f.line) for f in reply.findings] == [("shop/mail/send.py", 2)]
    assert (
        reply.findings[0].message
        == 'The contract "C" must list every module, and shop.mail is missing'
    )


def test_settings_in_ini_form_and_sources_in_src(compare: Compare) -> None:
    ini = (
        "[importlinter]\nroot_packages =\n    shop\n[importlinter:contract:one]\nname = Down\n"
        "type = layers\nlayers =\n    shop.web\n    shop.core\nignore_imports =\n"
        "    shop.core.old -> shop.web\n"
    )
    base = {f"src/{path}": text for path, text in TREE.items()} | {".importlinter": ini}
    head = base | {"src/shop/core/orders.py": "x = 1\nimport shop.web\n"}
    assert told(compare(broken_contracts, base, head)) == [
        ("src/shop/core/orders.py", 2, "shop.core.orders -> shop.web")
    ]


def test_a_project_within_the_repository_has_contracts_of_its_own(compare: Compare) -> None:
    inner = {f"services/a/{path}": text for path, text in (TREE | toml(LAYERS)).items()}
    head = inner | {"services/a/shop/core/orders.py": "from shop.web import page\n"}
    assert [path for path, *_ in told(compare(broken_contracts, inner, head))] == [
        "services/a/shop/core/orders.py"
    ]


def test_tests_may_be_under_contract_and_the_data_of_tests_declares_none(compare: Compare) -> None:
    both = toml(
        'type = "protected"\nprotected_modules = ["shop.store"]\nallowed_importers = ["shop"]'
    )
    config = both["pyproject.toml"].replace(
        'root_package = "shop"', 'root_packages = ["shop", "tests"]'
    )
    base = TREE | {"pyproject.toml": config, "tests/__init__.py": "", "tests/test_a.py": ""}
    base |= {f"tests/data/{path}": text for path, text in (TREE | toml(LAYERS)).items()}
    head = base | {"tests/test_a.py": "import shop.store\n"}
    head |= {"tests/data/shop/core/orders.py": "import shop.web\n"}
    assert told(compare(broken_contracts, base, head)) == [
        ("tests/test_a.py", 1, "tests.test_a -> shop.store")
    ]


def test_the_change_cannot_loosen_the_contracts(compare: Compare) -> None:
    base = TREE | toml(LAYERS)
    head = base | {"shop/core/orders.py": "import shop.web\n", "pyproject.toml": "[tool.x]\n"}
    assert len(told(compare(broken_contracts, base, head))) == 1
    # A contract that only head has is no contract yet.
    assert told(compare(broken_contracts, TREE, head | toml(LAYERS))) == []


def test_nothing_under_review_is_imported(compare: Compare) -> None:
    """A dotted root package would be looked for by importing its parent; ours is another json."""
    trap = "raise SystemExit('imported')\n"
    base = {"trap/__init__.py": trap, "trap/json/__init__.py": trap, "trap/json/a.py": ""}
    base |= toml('type = "independence"\nmodules = ["trap.json.a", "trap.json.b"]')
    base["pyproject.toml"] = base["pyproject.toml"].replace('"shop"', '"trap.json"')
    head = base | {"trap/json/b.py": "from trap.json import a\n"}
    base |= {"trap/json/b.py": ""}
    assert told(compare(broken_contracts, base, head)) == [
        ("trap/json/b.py", 1, "trap.json.b -> trap.json.a")
    ]


@pytest.mark.parametrize(
    ("config", "head", "path", "why"),
    [
        (
            toml('type = "mine.Contract"'),
            {},
            "pyproject.toml",
            "type 'mine.Contract' are not supported",
        ),
        (toml(f"{LAYERS}\nexhaustiv = true"), {}, "pyproject.toml", "exhaustiv: Unrecognized"),
        (toml('type = "layers"\nlayers = [3]'), {}, "pyproject.toml", "invalid"),
        (toml('type = "layers"\nlayers = ["shop.gone"]'), {}, "pyproject.toml", "Missing layer"),
        ({"pyproject.toml": "importlinter = [\n"}, {}, "pyproject.toml", "cannot be read"),
        ({"setup.cfg": "importlinter\n"}, {}, "setup.cfg", "cannot be read"),
        (
            {"pyproject.toml": "[tool.importlinter]\nx = 1\n"},
            {},
            "pyproject.toml",
            "no root_package",
        ),
        (
            {"pyproject.toml": '[tool.importlinter]\nroot_package = "../x"\n'},
            {},
            "pyproject.toml",
            "not a package name",
        ),
        (
            {"pyproject.toml": '[tool.importlinter]\nroot_package = "elsewhere"\n'},
            {},
            "pyproject.toml",
            "no directory has that name",
        ),
        ({"pyproject.toml": 'tool = ["importlinter"]\n'}, {}, "pyproject.toml", "no table of"),
        (
            toml(LAYERS),
            {"shop/store/rows.py": "def (\n"},
            "shop/store/rows.py",
            "not parse at line 1",
        ),
    ],
)
def test_contracts_that_cannot_be_checked_are_a_gap(
    compare: Compare, config: dict[str, str], head: dict[str, str], path: str, why: str
) -> None:
    base = TREE | config
    reply = compare(
        broken_contracts, base, base | {"shop/core/orders.py": "import shop.web\n"} | head
    )
    assert reply.findings == []
    assert set(reply.gaps) == {path}
    assert why in reply.gaps[path]
