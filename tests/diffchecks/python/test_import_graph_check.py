"""Cycles, broken imports and reach; each positive case has a quiet twin."""

from collections.abc import Callable

import pytest

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.imports import import_graph_changes

Compare = Callable[..., CheckReply]

PACKAGE = {"pkg/__init__.py": ""}


def _found(reply: CheckReply, code: str) -> list[RawFinding]:
    return [one for one in reply.findings if one.code == code]


@pytest.mark.parametrize(
    ("line", "closes"),
    [
        ("from pkg import a\n", True),
        ("from . import a\n", True),
        ("import pkg.a\n", True),
        ("try:\n    from .a import x\nexcept ImportError:\n    x = None\n", True),
        ("class C:\n    from .a import x\n", True),
        ("def late():\n    from pkg import a\n", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a\n", False),
        ("from pkg import other\n", False),
    ],
)
def test_a_cycle_needs_an_import_that_runs(compare: Compare, line: str, closes: bool) -> None:
    base = PACKAGE | {"pkg/a.py": "from . import b\nx = 1\n", "pkg/b.py": "y = 1\n"}
    head = base | {"pkg/b.py": line + "y = 1\n", "pkg/other.py": ""}
    found = _found(compare(import_graph_changes, base, head), "cycle")
    assert bool(found) is closes
    if closes:
        assert found[0].path == "pkg/b.py"
        assert found[0].message == "This import closes a cycle: pkg.b -> pkg.a -> pkg.b"


def test_a_cycle_is_reported_once(compare: Compare) -> None:
    base = PACKAGE | {
        "pkg/a.py": "from . import b\n",
        "pkg/b.py": "from . import c\n",
        "pkg/c.py": "",
    }
    head = base | {"pkg/c.py": "from .a import (\n    x,\n    y,\n)\n"}
    found = _found(compare(import_graph_changes, base, head), "cycle")
    assert [one.message for one in found] == [
        "This import closes a cycle: pkg.c -> pkg.a -> pkg.b -> pkg.c"
    ]


def test_both_halves_in_one_change_are_one_cycle(compare: Compare) -> None:
    base = PACKAGE | {"pkg/a.py": "", "pkg/b.py": ""}
    head = PACKAGE | {"pkg/a.py": "import pkg.b\n", "pkg/b.py": "import pkg.a\n"}
    assert len(_found(compare(import_graph_changes, base, head), "cycle")) == 1


def test_an_old_cycle_is_not_reported(compare: Compare) -> None:
    base = PACKAGE | {"pkg/a.py": "import pkg.b\n", "pkg/b.py": "import pkg.a\n", "pkg/c.py": ""}
    head = base | {"pkg/b.py": "import pkg.a\nimport pkg.c\n\n\nx = 1\n"}
    assert not _found(compare(import_graph_changes, base, head), "cycle")


def test_a_shortcut_within_an_old_cycle_is_not_reported(compare: Compare) -> None:
    base = PACKAGE | {
        "pkg/a.py": "import pkg.b\n",
        "pkg/b.py": "import pkg.c\n",
        "pkg/c.py": "import pkg.a\n",
    }
    head = base | {"pkg/a.py": "import pkg.b\nimport pkg.c\n"}
    assert not _found(compare(import_graph_changes, base, head), "cycle")


def test_an_old_cycle_is_not_reported_when_a_member_is_renamed(compare: Compare) -> None:
    base = PACKAGE | {"pkg/a.py": "import pkg.b\n", "pkg/b.py": "import pkg.a\n"}
    head = PACKAGE | {"pkg/a.py": "import pkg.new\n", "pkg/new.py": "import pkg.a\n"}
    renamed = {"pkg/b.py": "pkg/new.py"}
    assert not _found(compare(import_graph_changes, base, head, renamed), "cycle")
    assert _found(compare(import_graph_changes, base | {"pkg/b.py": ""}, head, renamed), "cycle")


def test_moving_an_import_out_of_a_function_closes_a_cycle(compare: Compare) -> None:
    base = PACKAGE | {"pkg/a.py": "import pkg.b\n", "pkg/b.py": "def f():\n    import pkg.a\n"}
    head = base | {"pkg/b.py": "import pkg.a\ndef f():\n    pass\n"}
    assert _found(compare(import_graph_changes, base, head), "cycle")


@pytest.mark.parametrize(
    ("base_init", "head_a"),
    [
        # A module that takes a name from the package above it, which imports the module.
        ("from .a import x\nname = 1\n", "from . import name\nx = 1\n"),
        # The same over a module between them.
        ("from .mid import x\nname = 1\n", "from . import name\nx = 1\n"),
        # A package's module that uses another one, which depends on the package already.
        ("from .a import x\nfrom .b import y\n", "from .b import y\nx = 1\n"),
    ],
)
def test_a_package_may_re_export_its_modules(compare: Compare, base_init: str, head_a: str) -> None:
    base = {
        "pkg/__init__.py": base_init,
        "pkg/a.py": "x = 1\n",
        "pkg/b.py": "from http_ import h\ny = 1\n",
        "pkg/mid.py": "from .a import x\n",
        "http_.py": "import pkg\nh = 1\n",
    }
    reply = compare(import_graph_changes, base, base | {"pkg/a.py": head_a})
    assert not _found(reply, "cycle")


@pytest.mark.parametrize(
    ("siblings", "config", "closes"),
    [("ab", "from . import a, b, new\n", False), ("a", "from . import a, new\n", True)],
)
def test_a_new_module_may_join_the_cycle_of_its_siblings(
    compare: Compare, siblings: str, config: str, closes: bool
) -> None:
    plugin = "from pkg import log\nfrom pkg import config\n"
    base = PACKAGE | {f"pkg/{name}/__init__.py": plugin for name in siblings}
    base |= {"pkg/config.py": config.replace(", new", ""), "pkg/log.py": "from . import config\n"}
    head = base | {"pkg/config.py": config, "pkg/new/__init__.py": plugin}
    assert bool(_found(compare(import_graph_changes, base, head), "cycle")) is closes
    apart = head | {"pkg/new/__init__.py": "from . import part\n"}
    apart |= {"pkg/new/part.py": "from pkg import other\n", "pkg/other.py": "from pkg import new\n"}
    assert _found(compare(import_graph_changes, base, apart), "cycle")


def test_stubs_never_run(compare: Compare) -> None:
    base = PACKAGE | {"pkg/a.py": "import pkg.b\n", "pkg/b.pyi": ""}
    head = PACKAGE | {"pkg/a.py": "import pkg.b\nx = 1\n", "pkg/b.pyi": "import pkg.a\n"}
    assert not _found(compare(import_graph_changes, base, head), "cycle")


def test_facts_say_what_the_change_reaches(compare: Compare) -> None:
    base = PACKAGE | {
        "pkg/low.py": "",
        "pkg/mid.py": "from . import low\n",
        "pkg/top.py": "def f():\n    import pkg.mid\n",
        "tests/test_low.py": "import pkg.low\n",
    }
    reply = compare(import_graph_changes, base, base | {"pkg/low.py": "x = 1\n"})
    assert reply.facts["reached"] == {
        "pkg/low.py": {
            "importers": ["pkg/mid.py", "tests/test_low.py"],
            "direct": 2,
            "transitive": 3,
        }
    }


LIBRARY = PACKAGE | {
    "pkg/util.py": "def keep(): ...\ndef gone(): ...\n",
    "pkg/user.py": "from pkg.util import gone, keep\n",
}


@pytest.mark.parametrize(
    ("util", "breaks"),
    [
        ("def keep(): ...\n", True),
        ("def keep(): ...\nif x:\n    gone = 1\n", False),
        ("def keep(): ...\nfrom .other import gone\n", False),
        ("def keep(): ...\nfrom .other import *\n", False),
        ("def keep(): ...\ndef __getattr__(name): ...\n", False),
        ("def keep(): ...\nglobals()['gone'] = 1\n", False),
        ("def keep():\n    global gone\n    gone = 1\n", False),
        ("def keep(): ...\nfor gone in (): ...\n", False),
    ],
)
def test_a_name_that_is_gone_breaks_an_untouched_file(
    compare: Compare, util: str, breaks: bool
) -> None:
    found = compare(import_graph_changes, LIBRARY, LIBRARY | {"pkg/util.py": util}).findings
    assert [(one.path, one.message) for one in found] == (
        [("pkg/user.py", "This import fails: pkg.util has no gone")] if breaks else []
    )


def test_a_removed_module_breaks_its_importers(compare: Compare) -> None:
    head = {path: text for path, text in LIBRARY.items() if path != "pkg/util.py"}
    found = compare(import_graph_changes, LIBRARY, head).findings
    assert [one.message for one in found] == ["This import fails: the module pkg.util was removed"]
    as_package = head | {"pkg/util/__init__.py": LIBRARY["pkg/util.py"]}
    assert not compare(import_graph_changes, LIBRARY, as_package).findings


@pytest.mark.parametrize(
    ("text", "breaks"),
    [
        ("from pkg.util import missing\n", True),
        ("def f():\n    from .util import missing\n", True),
        ("from pkg.util import keep\n", False),
        ("from pkg import util\n", False),
        ("from pkg.util import __name__\n", False),
        ("from elsewhere import missing\n", False),
        ("from pkg.compiled import missing\n", False),
        ("try:\n    from pkg.util import missing\nexcept ImportError:\n    pass\n", False),
        ("if TYPE_CHECKING:\n    from pkg.util import missing\n", False),
    ],
)
def test_a_new_import_of_a_name_that_never_existed(
    compare: Compare, text: str, breaks: bool
) -> None:
    base = LIBRARY | {"pkg/compiled.pyi": "def fast(): ...\n"}
    reply = compare(import_graph_changes, base, base | {"pkg/new.py": text})
    assert [one.code for one in reply.findings] == (["broken-import"] if breaks else [])


def test_an_import_that_was_broken_before_is_not_reported(compare: Compare) -> None:
    base = LIBRARY | {"pkg/user.py": "from pkg.util import never\n"}
    head = base | {"pkg/user.py": "from pkg.util import never\nx = 1\n"}
    assert not compare(import_graph_changes, base, head).findings


def test_a_changed_file_that_does_not_parse_is_a_gap(compare: Compare) -> None:
    base = PACKAGE | {"pkg/a.py": "import pkg.b\n", "pkg/b.py": ""}
    reply = compare(import_graph_changes, base, base | {"pkg/a.py": "import (\n"})
    assert reply.gaps == {"pkg/a.py": "does not parse: line 1: invalid syntax"}
    assert reply.examined == []
