"""Broken public API: each breakage beside what looks like it and breaks nobody."""

import time
from collections.abc import Callable, Mapping

import pytest

from diffchecks.api import api_breakage as check
from diffchecks.check_io import CheckReply

Compare = Callable[..., CheckReply]

PROJECT = {"pyproject.toml": "", "pkg/__init__.py": ""}


@pytest.fixture
def broken(compare: Compare) -> Callable[..., list[tuple[str, str]]]:
    """Code and message of what a change to one module breaks."""

    def run(
        before: str, after: str, path: str = "pkg/mod.py", more: Mapping[str, str] | None = None
    ) -> list[tuple[str, str]]:
        rest = PROJECT | dict(more or {})
        reply = compare(check, rest | {path: before}, rest | {path: after})
        assert reply.gaps == {}
        return [(one.code, one.message) for one in reply.findings]

    return run


Broken = Callable[..., list[tuple[str, str]]]
TWO = "def keep(): ...\ndef gone(): ...\n"


def test_a_public_function_that_is_gone(broken: Broken) -> None:
    assert broken(TWO, "def keep(): ...\n") == [("object-removed", "pkg.mod no longer has gone")]


def test_thousands_of_assignments_are_read_in_seconds(broken: Broken) -> None:
    table = "".join(f"A_{n} = {n}\n" for n in range(5_000))
    start = time.process_time()
    assert [code for code, _ in broken("def gone(): ...\n" + table, table)] == ["object-removed"]
    assert time.process_time() - start < 3  # the time grew with the square


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def keep(): ...\ndef _gone(): ...\n", "def keep(): ...\n"),
        (TWO + "__all__ = ['keep']\n", "def keep(): ...\n__all__ = ['keep']\n"),
        (TWO, "def keep(): ...\nfrom .new import gone\n"),
        (TWO, "def keep(): ...\nfrom .new import *\n"),
        (TWO, "def keep(): ...\ngone = keep\n"),
        (TWO, "def keep(): ...\ndef __getattr__(name): ...\n"),
        (TWO, "import sys\nfrom . import new\nsys.modules[__name__] = new\n"),
        (
            TWO,
            "if TYPE_CHECKING:\n    from .a import keep\nelse:\n    load({'keep': 'a', 'gone': 'b'})\n",
        ),
        ("def keep(): ...\nimport gone\n", "def keep(): ...\n"),
        ("def keep(): ...\nfrom x import gone\n", "def keep(): ...\n"),
        ("def keep(): ...\nif TYPE_CHECKING:\n    class gone: ...\n", "def keep(): ...\n"),
        (
            "def keep(): ...\nif sys.version_info < (3, 9):\n    def gone(): ...\n",
            "def keep(): ...\n",
        ),
        (
            "def keep(): ...\nT = TypeVar('T')\nlog = logging.getLogger()\npkg = sys.modules['pkg']\n",
            "def keep(): ...\n",
        ),
        ("def keep(): ...\n@deprecated('x')\ndef gone(): ...\n", "def keep(): ...\n"),
        (
            "def keep(): ...\ndef gone():\n    warnings.warn('x', DeprecationWarning)\n",
            "def keep(): ...\n",
        ),
        ("def keep(): ...\nGone = create_deprecated_class('Gone')\n", "def keep(): ...\n"),
    ],
)
def test_removed_names_that_nobody_uses(broken: Broken, before: str, after: str) -> None:
    assert broken(before, after) == []


def test_all_decides_over_underscores_and_imports(broken: Broken) -> None:
    before = "from x import gone\n__all__ = ['keep', 'gone']\ndef keep(): ...\n"
    after = "__all__ = ['keep']\ndef keep(): ...\n"
    assert [code for code, _ in broken(before, after)] == ["object-removed"]


@pytest.mark.parametrize(
    ("path", "text", "public"),
    [
        ("pkg/mod.py", "from x import gone as gone\n", True),
        ("pkg/sub/__init__.py", "from .x import gone\n", True),
        ("pkg/sub/__init__.py", "from ..x import gone\n", False),
        ("pkg/sub/__init__.py", "from x import gone\n", False),
        ("pkg/sub/__init__.py", "from . import inner\n", False),  # still a module
    ],
)
def test_imports_that_are_meant_for_users(
    broken: Broken, path: str, text: str, public: bool
) -> None:
    found = broken(text + "def keep(): ...\n", "def keep(): ...\n", path,
                   {"pkg/sub/inner.py": ""})  # fmt: skip
    assert bool(found) is public


@pytest.mark.parametrize(
    "path",
    [
        "pkg/_mod.py",
        "_pkg/mod.py",
        "pkg/tests/mod.py",
        "test_mod.py",
        "docs/mod.py",
        "examples/mod.py",
        "scripts/mod.py",
        "setup.py",
        "pkg/viewsets.py",
        "pkg/handlers/mod.py",
    ],
)
def test_what_is_not_api(broken: Broken, path: str) -> None:
    assert broken(TWO, "def keep(): ...\n", path) == []


def test_an_application_and_what_is_beside_the_distributed_packages_have_no_api(
    compare: Compare,
) -> None:
    base = {"app/__init__.py": "", "app/mod.py": TWO}
    head = base | {"app/mod.py": "def keep(): ...\n"}
    assert compare(check, base, head).findings == []
    with_metadata = {"setup.cfg": ""}
    services: dict[str, str]
    for services in (
        {},
        {"docker-compose.yml": "services: {db: {image: postgres}}\n"},
        {"sandbox/manage.py": ""},
    ):
        library = with_metadata | services
        assert compare(check, base | library, head | library).findings
    for beside in (
        "alembic.ini",
        "container/compose.yml",
        "src/manage.py",
        "src/other/__init__.py",
    ):
        with_more = with_metadata | {beside: ""}
        assert compare(check, base | with_more, head | with_more).findings == []


def test_of_a_program_only_what_is_declared_or_documented_is_api(compare: Compare) -> None:
    scripts = "[project.scripts]\np = 'pkg.mod:keep'\n"

    def codes(more: dict[str, str], *, module: str | None = "def keep(): ...\n") -> set[str]:
        base = PROJECT | {"pyproject.toml": scripts, "pkg/mod.py": TWO} | more
        head = {
            **base,
            **({"pkg/mod.py": base["pkg/mod.py"].replace(TWO, module)} if module else {}),
        }
        if module is None:
            del head["pkg/mod.py"]
        return {one.code for one in compare(check, base, head).findings}

    internal: list[dict[str, str]] = [
        {},
        {"setup.cfg": "[options.entry_points]\nconsole_scripts =\n", "pyproject.toml": ""},
        {"docs/api.md": "`pkg.mod.keep` is stable, and gone from pkg.model is another.\n"},
        {"docs/api.rst": ".. automodule:: pkg.mod_of_another\n"},
        {"pyproject.toml": "[project]\nscripts.a = 'pkg.main:run'\n"},
        {"pkg/__init__.py": "from .mod import keep\n"},
        {"pkg/__init__.py": "from .mod import gone\n\ngone()\n"},
        {"docs/line.txt": "pkg.mod " + "import " * 20_000},
    ]
    public: list[dict[str, str]] = [
        {"docs/api.md": "Call `pkg.mod.gone()`.\n"},
        {"docs/api.md": "```python\nfrom pkg import other, mod\n\nmod.gone()\n```\n"},
        {"docs/api.rst": ".. automodule:: pkg.mod\n   :members:\n"},
        {"docs/api.md": "::: pkg.mod\n"},
        {"CHANGES.md": "pkg.mod.gone is new.\n"},
        {"docs/ref/mod.txt": ".. module:: pkg.mod\n\n.. function:: gone()\n"},
        {"pkg/__init__.py": "from .mod import gone\n"},
        {"pkg/__init__.py": "from .mod import gone\n\n__all__ = ['gone']\ngone()\n"},
        {"pyproject.toml": "[tool.pdm.scripts]\ntest = 'pytest'\n"},
    ]
    start = time.process_time()
    assert list(map(codes, internal)) == [{"undeclared"}] * len(internal)
    assert time.process_time() - start < 5
    assert list(map(codes, public)) == [{"object-removed"}] * len(public)
    assert codes({}, module=None) == {"undeclared"}
    assert codes({"docs/api.md": "Use `pkg.mod`.\n"}, module=None) == {"module-removed"}


@pytest.mark.parametrize(
    ("says", "told"), [("Usage:\n    python pkg/mod.py\n", 0), ("Usage: call it.\n", 1)]
)
def test_a_script_that_is_run_by_its_path_has_no_public_names(
    compare: Compare, says: str, told: int
) -> None:
    base = PROJECT | {"pkg/mod.py": f'"""Makes tables.\n\n{says}"""\n{TWO}'}
    head = base | {"pkg/mod.py": base["pkg/mod.py"].replace(TWO, "def keep(): ...\n")}
    assert len(compare(check, base, head).findings) == told


@pytest.mark.parametrize(
    ("notes", "code"), [("`gone` is gone.\n", "announced"), ("More.\n", "object-removed")]
)
def test_what_the_release_notes_tell_is_announced(compare: Compare, notes: str, code: str) -> None:
    base = PROJECT | {"pkg/mod.py": TWO, "docs/whats-new.rst": "Notes.\n"}
    head = base | {"pkg/mod.py": "def keep(): ...\n", "docs/whats-new.rst": notes}
    assert [one.code for one in compare(check, base, head).findings] == [code]


CALL = "def f({}): ...\n"
BY_NAME, BY_POSITION = "calls by name fail", "calls by position fail"


@pytest.mark.parametrize(
    ("before", "after", "code", "says"),
    [
        ("a, b", "a", "parameter-removed", "no longer takes 'b'"),
        ("a", "a, b", "parameter-required", "now requires 'b'"),
        ("a, b=1", "a, b", "parameter-required", "now requires 'b', which had a default"),
        ("a, b", "a, *, b", "parameter-kind", f"takes 'b' only by name; {BY_POSITION}"),
        ("b", "*, b", "parameter-kind", f"takes 'b' only by name; {BY_POSITION}"),
        ("a, b=1", "a, **k", "parameter-kind",
         f"takes 'b' only by name, as any other; {BY_POSITION}"),
        ("*, b", "b, /", "parameter-kind", f"takes 'b' only by position; {BY_NAME}"),
        ("a, b=1", "a, *c", "parameter-kind",
         f"takes 'b' only by position, as any other; {BY_NAME}"),
        ("a, b=1, /", "a, **k", "parameter-removed", "no longer takes 'b'"),
        ("a, *, b=1", "a, *c", "parameter-removed", "no longer takes 'b'"),
        ("a, b", "b, a", "parameter-moved",
         "takes 'a', 'b' at another position; calls by position pass others"),
        ("a, b", "a, c", "parameter-renamed", "takes 'c' where it took 'b'"),
        ("a, b", "a, b=1", None, None),
        ("a", "a, b=1", None, None),
        ("a, b=1", "a, b=2", None, None),
        ("a, b", "a, *args, **kwargs", None, None),
        ("a, *, b", "a, **kwargs", None, None),
        ("a, _b=1", "a", None, None),
        ("__a", "a, /", None, None),
        ("a, b=1", "a, c=1, **kwargs", None, None),
        ("a: int", "a: str", None, None),
    ],
)  # fmt: skip
def test_signatures(
    broken: Broken, before: str, after: str, code: str | None, says: str | None
) -> None:
    found = broken(CALL.format(before), CALL.format(after))
    assert found == ([(code, f"pkg.mod.f {says}")] if code else [])


@pytest.mark.parametrize(
    "prefix",
    [
        "@app.command('x')\n",
        "@overload\ndef f(z): ...\n",
        "def f(z): ...\n",
        "if x:\n    ",
        "@deprecated('x')\n",
    ],
)
def test_signatures_that_may_not_be_what_callers_see(broken: Broken, prefix: str) -> None:
    assert broken(prefix + CALL.format("a, b"), prefix + CALL.format("a")) == []


def test_a_function_that_gets_overloads_in_a_stub_is_not_gone(broken: Broken) -> None:
    before = "from typing import overload\ndef f(a: int) -> int: ...\n"
    after = (
        "from typing import overload\n"
        "@overload\ndef f(a: int) -> int: ...\n@overload\ndef f(a: str) -> str: ...\n"
    )
    assert broken(before, after, "pkg/mod.pyi") == []
    assert broken(before, "def g(): ...\n", "pkg/mod.pyi")


def method(body: str, bases: str = "") -> str:
    return f"class C{bases}:\n    def keep(self): ...\n{body}"


GONE = "    def gone(self): ...\n"


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (method(GONE), method(""), True),
        (method(GONE, "(ValueError)"), method("", "(ValueError)"), True),
        (method(GONE, "(Generic[T])"), method("", "(Generic[T])"), True),
        (method("    def _gone(self): ...\n"), method(""), False),
        (method("    def __repr__(self): ...\n"), method(""), False),
        (method("    def __enter__(self): ...\n"), method(""), True),
        (method("    def with_traceback(self): ...\n", "(ValueError)"),
         method("", "(ValueError)"), False),
        (method(GONE), method("    def __getattr__(self, name): ...\n"), False),
        (method(GONE), "class B:\n" + GONE + method("", "(B)"), False),
        (method(GONE, "(Unknown)"), method("", "(Unknown)"), False),
        (method(GONE), method("", "(metaclass=M)"), False),
    ],
)  # fmt: skip
def test_members(broken: Broken, before: str, after: str, lost: bool) -> None:
    assert bool(broken(before, after)) is lost


@pytest.mark.parametrize(("base_class", "lost"), [("def gone(self): ...", False), ("x = 1", True)])
def test_members_may_come_from_another_file(broken: Broken, base_class: str, lost: bool) -> None:
    more = {"pkg/base.py": "from .deep import B\n", "pkg/deep.py": f"class B:\n    {base_class}\n"}
    start = "from .base import B\n"
    found = broken(start + method(GONE, "(B)"), start + method("", "(B)"), more=more)
    assert found == ([("object-removed", "pkg.mod.C no longer has gone")] if lost else [])


def test_members_from_a_private_base_are_missing_in_the_public_class(broken: Broken) -> None:
    before = "class _B:\n" + GONE + method("", "(_B)")
    after = "class _B:\n    x_ = 1\n" + method("", "(_B)")
    assert broken(before, after) == [("object-removed", "pkg.mod.C no longer has gone")]


def test_names_gone_from_one_place_are_one_finding(broken: Broken) -> None:
    before = "def keep(): ...\n" + "".join(f"def f{at}(): ...\n" for at in range(7))
    assert broken(before, "def keep(): ...\n") == [
        ("object-removed", "pkg.mod no longer has f0, f1, f2, f3, f4 and 2 more")
    ]


def test_functions_broken_alike_are_one_finding(broken: Broken) -> None:
    before = "def f(a, b): ...\ndef g(b): ...\n"
    assert broken(before, "def f(a): ...\ndef g(): ...\n") == [
        ("parameter-removed", "pkg.mod.f no longer takes 'b'; the same holds for pkg.mod.g")
    ]


PROPERTY = "    @property\n    def p(self): ...\n"


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (PROPERTY, "    def p(self): ...\n", "object-kind"),
        ("    def p(self): ...\n", PROPERTY, "object-kind"),
        ("    @memoized\n    def p(self): ...\n", PROPERTY, None),
        ("    p = 1\n", PROPERTY, None),
    ],
)
def test_properties_and_methods(broken: Broken, before: str, after: str, code: str | None) -> None:
    found = [one for one, _ in broken("class C:\n" + before, "class C:\n" + after)]
    assert found == ([code] if code else [])


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("(A, ValueError)", "(ValueError)", True),
        ("(A)", "", True),
        ("(object)", "", False),
        ("(Generic[T])", "", False),
        ("(A, B)", "(B)", False),  # B may well be an A
        ("(A)", "(B)", False),
    ],
)
def test_bases(broken: Broken, before: str, after: str, lost: bool) -> None:
    start = "from x import A, B\n"
    found = broken(f"{start}class C{before}: ...\n", f"{start}class C{after}: ...\n")
    assert [code for code, _ in found] == (["base-removed"] if lost else [])


@pytest.mark.parametrize(
    ("init", "known"),
    [
        ("from ._impl import f\n", "pkg.f"),
        ("from ._impl import f as call\n", "pkg.call"),
        ("from ._middle import f\n", "pkg.f"),
        ("from ._impl import *\n__all__ = ['f']\n", "pkg.f"),
        ("from ._impl import f\n__all__ = ['other']\n", None),
        ("from ._impl import f as _f\n", None),
        ("", None),
    ],
)
def test_a_private_module_is_public_where_its_package_offers_it(
    broken: Broken, init: str, known: str | None
) -> None:
    more = {"pkg/__init__.py": init, "pkg/_middle.py": "from ._impl import f\n"}
    found = broken("def f(a, b): ...\n", "def f(a): ...\n", "pkg/_impl.py", more)
    assert found == ([("parameter-removed", f"{known} no longer takes 'b'")] if known else [])


def test_a_package_takes_a_name_from_its_module_of_that_name(compare: Compare) -> None:
    more = PROJECT | {"pkg/run.py": "def run(): ...\n"}
    init = "from pkg.run import run\n\n\ndef f(a{}): ...\n"
    reply = compare(
        check,
        more | {"pkg/__init__.py": init.format("")},
        more | {"pkg/__init__.py": init.format(", b")},
    )
    assert not reply.gaps
    assert [one.code for one in reply.findings] == ["parameter-required"]


def test_a_module_that_is_gone(compare: Compare) -> None:
    base = PROJECT | {"pkg/mod.py": TWO, "pkg/other.py": "x = 1\n"}
    head = PROJECT | {"pkg/other.py": "x = 1\n"}
    (one,) = compare(check, base, head).findings
    assert (one.code, one.path, one.in_base) == ("module-removed", "pkg/mod.py", True)
    assert one.message == "The public module pkg.mod was removed"


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ({"pkg/mod.py": TWO}, {"pkg/mod/__init__.py": TWO}),
        ({"src/pkg/__init__.py": "", "src/pkg/mod.py": TWO}, {"pkg/mod.py": TWO}),
        ({"pkg/_mod.py": TWO}, {}),
        ({"pkg/mod.py": "_x = 1\n"}, {}),
        ({"pkg/mod.py": '"""Say.\n\n.. deprecated:: 1.0\n"""\n' + TWO}, {}),
        ({"pkg/mod.py": "warnings.warn('x', DeprecationWarning)\n" + TWO}, {}),
        ({"pkg/mod.py": TWO, "pkg/mod.pyi": TWO}, {"pkg/mod.py": TWO}),
        ({"pkg/mod.py": TWO}, {"pkg/__init__.py": "from . import new as mod\n", "pkg/new.py": TWO}),
        (
            {"pkg/a/__init__.py": "", "pkg/a/mod.py": TWO},
            {
                "pkg/a/__init__.py": "",
                "pkg/__init__.py": "import sys\n\nsys.modules[__name__ + '.a.mod'] = new\n",
            },
        ),
    ],
)
def test_removed_modules_that_nobody_uses(
    compare: Compare, base: dict[str, str], head: dict[str, str]
) -> None:
    rest = PROJECT | {"pkg/z.py": "y = 1\n"}
    assert compare(check, rest | base, rest | head).findings == []


def test_a_removed_package_is_reported_once(compare: Compare) -> None:
    base = PROJECT | {"pkg/sub/__init__.py": "x = 1\n", "pkg/sub/a.py": TWO, "pkg/z.py": "y = 1\n"}
    found = compare(check, base, PROJECT | {"pkg/z.py": "y = 1\n"}).findings
    assert [one.message for one in found] == ["The public module pkg.sub was removed"]


def test_a_renamed_module_is_gone_under_its_old_name(compare: Compare) -> None:
    base, head = PROJECT | {"pkg/mod.py": TWO}, PROJECT | {"pkg/new.py": TWO}
    found = compare(check, base, head, {"pkg/mod.py": "pkg/new.py"}).findings
    assert [one.code for one in found] == ["module-removed"]
    kept = head | {"pkg/mod.py": "from .new import *\n"}
    assert compare(check, base, kept).findings == []


def test_confidence_is_higher_where_the_public_names_are_declared(compare: Compare) -> None:
    declared = "__all__ = ['f']\n"
    replies = [
        compare(check, PROJECT | {"pkg/m.py": start + "def f(a, b): ...\n"},
                PROJECT | {"pkg/m.py": start + "def f(a): ...\n"})
        for start in (declared, "")
    ]  # fmt: skip
    assert [reply.findings[0].confidence for reply in replies] == [0.9, 0.6]


def test_without_the_rest_of_the_tree_nothing_is_reported(compare: Compare) -> None:
    start = "from .base import B\n"
    base = PROJECT | {"pkg/mod.py": start + method(GONE, "(B)")}
    assert compare(check, base, PROJECT | {"pkg/mod.py": start + method("", "(B)")}).findings == []


def test_a_type_for_what_a_loop_binds_is_no_promise(broken: Broken) -> None:
    loop = "for key in list(globals()):\n    pass\n"
    assert broken(f"X = 1\nkey: str\n{loop}", f"X = 1\n{loop}") == []
    assert broken("X = 1\nkey: str = ''\n", "X = 1\n") != []
    assert broken("X: int\nkey: str\n", "X: int\n", path="pkg/mod.pyi") != []


def test_an_attribute_that_a_base_class_keeps_still_exists(broken: Broken) -> None:
    base = "class Base:\n    hook = None\n\n\n"
    before = f"{base}class A(Base):\n    def __init__(self, hook=None):\n        self.hook = hook\n"
    after = (
        f"{base}class A(Base):\n    def __init__(self, hook=None):\n        super().__init__()\n"
    )
    assert broken(before, after) == []
    assert broken(before.replace("(Base)", ""), after.replace("(Base)", "")) != []


def test_a_function_that_only_raises_may_have_any_parameters(broken: Broken) -> None:
    assert broken("def f(a=1): raise E\n", "def f(a) -> NoReturn: raise E\n") == []
    assert broken("def f(a=1): raise E\n", "def f(a) -> int: raise E\n") != []
