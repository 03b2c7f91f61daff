"""Which file an import reaches, in each layout that projects use."""

from pathlib import Path

import pytest

from diffchecks.python.imported_files import Import, ModuleIndex, read_imports, scan_imports
from diffchecks.python.source_definitions import parse_text

FLAT = ["pkg/__init__.py", "pkg/a.py", "pkg/sub/__init__.py", "pkg/sub/b.py", "tests/test_a.py"]
SRC = [f"src/{path}" for path in FLAT[:4]] + ["tests/test_a.py"]
MONO = [
    "one/src/first/__init__.py",
    "one/src/first/a.py",
    "two/src/second/__init__.py",
    "two/src/second/b.py",
]
NAMESPACE = ["ns/x/__init__.py", "ns/x/a.py", "ns/y/__init__.py", "ns/y/b.py"]


@pytest.mark.parametrize(
    ("tree", "importer", "module", "level", "found"),
    [
        (FLAT, "tests/test_a.py", "pkg.a", 0, "pkg/a.py"),
        (FLAT, "pkg/a.py", "", 1, "pkg/__init__.py"),
        (FLAT, "pkg/sub/b.py", "a", 2, "pkg/a.py"),
        (FLAT, "pkg/sub/b.py", "a", 9, None),
        (FLAT, "pkg/a.py", "os.path", 0, None),
        (SRC, "tests/test_a.py", "pkg.sub.b", 0, "src/pkg/sub/b.py"),
        (MONO, "two/src/second/b.py", "first.a", 0, "one/src/first/a.py"),
        (NAMESPACE, "ns/y/b.py", "ns.x.a", 0, "ns/x/a.py"),
        (["pkg/__init__.pyi", "pkg/fast.pyi"], "a.py", "pkg.fast", 0, "pkg/fast.pyi"),
        (
            ["pkg/__init__.py", "pkg/a.py", "pkg/part/b.py"],
            "a.py",
            "pkg.part.b",
            0,
            "pkg/part/b.py",
        ),
        # A file elsewhere that is named like a module of Python is not what is meant.
        (["src/pkg/__init__.py", "logging.py"], "src/pkg/x.py", "logging", 0, None),
        (["logging.py", "run.py"], "run.py", "logging", 0, "logging.py"),
        (["datetime/__init__.py", "datetime/a.py"], "datetime/a.py", "datetime", 0, None),
        (["p/datetime/__init__.py", "p/b/__init__.py"], "p/b/a.py", "datetime", 0, None),
        # Only the library's packages have anything inside.
        (["profile/__init__.py", "profile/a.py"], "b/a.py", "profile.a", 0, "profile/a.py"),
        (["email/__init__.py", "email/a.py"], "email/b.py", "email.a", 0, None),
    ],
)
def test_imports_find_their_file(
    tree: list[str], importer: str, module: str, level: int, found: str | None
) -> None:
    assert ModuleIndex(tree).resolve(importer, module, level) == found


def test_names_are_modules_if_such_modules_exist() -> None:
    index = ModuleIndex(FLAT)
    both = Import("pkg", ("a", "thing"), 0)
    assert set(index.targets("tests/test_a.py", both)) == {"pkg/a.py", "pkg/__init__.py"}


def test_dotted_names_count_from_the_packages_root() -> None:
    assert ModuleIndex(SRC).dotted("src/pkg/sub/b.py") == "pkg.sub.b"
    assert ModuleIndex(SRC).dotted("src/pkg/__init__.py") == "pkg"
    # A folder without an __init__ inside a package belongs to it.
    assert ModuleIndex(["pkg/__init__.py", "pkg/part/b.py"]).dotted("pkg/part/b.py") == "pkg.part.b"


def test_only_what_runs_at_import_counts() -> None:
    text = """
import a
try:
    import b
except ImportError:
    from c import d
if TYPE_CHECKING:
    import never
else:
    import e
if not typing.TYPE_CHECKING:
    import f
class C:
    import g
def late():
    import never
if __name__ == "__main__":
    import never
"""
    assert [one.module for one in read_imports(parse_text(text))] == list("abcefg")


def test_the_quick_scan_misses_no_import_of_our_own_sources() -> None:
    sources = sorted((Path(__file__).parents[3] / "orchestrator").rglob("*.py"))[::4]
    assert len(sources) > 50
    for source in sources:
        text = source.read_text("utf-8")
        quick = {(one.module, one.names, one.level) for one in scan_imports(text)}
        exact = {(one.module, one.names, one.level) for one in read_imports(parse_text(text))}
        assert exact <= quick, source.name
