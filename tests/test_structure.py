"""What the house promises of its code: each file and function can be read in one sitting."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import orchestrator
from orchestrator.catalog.settings import Limits, RunBounds, Settings, Stagnation

ROOT = Path(orchestrator.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FILE_LINES = 500
FUNCTION_LINES = 60
ENGINE_MAY_IMPORT = {"anyio", "jsonschema_rs", "msgspec", "networkx", "orchestrator"}
PATHS_PAGE = ROOT.parent / "docs/paths.md"
METHODS = {
    "read_bytes", "read_text", "write_bytes", "write_text", "unlink", "rmdir", "mkdir", "iterdir",
    "rglob", "symlink_to", "hardlink_to", "touch", "chmod",
}  # fmt: skip
OF_OS = METHODS | {
    "open", "scandir", "listdir", "stat", "lstat", "readlink", "symlink", "link", "rename",
    "replace", "remove", "makedirs", "walk", "truncate",
}  # fmt: skip
OF_SHUTIL = {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"}
ENGINE_MAY_NOT = {"asyncio", "sqlite3", "socket", "subprocess", "threading", "urllib"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_each_file_and_its_functions_can_be_read_in_one_sitting() -> None:
    long = [
        name for path, (name, _) in zip(FILES, modules(), strict=True)
        if len(path.read_text().splitlines()) > FILE_LINES
    ] + [
        f"{name}: {one.name}"
        for name, tree in modules()
        for one in functions(tree)
        if (one.end_lineno or one.lineno) - one.lineno + 1 > FUNCTION_LINES
    ]  # fmt: skip
    assert not long


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


def test_the_engine_rests_on_itself_and_little_else() -> None:
    for name, tree in modules():
        if not name.startswith("engine/"):
            continue
        for module in imported(tree):
            package = module.partition(".")[0]
            assert package in ENGINE_MAY_IMPORT | sys.stdlib_module_names, name
            assert package not in ENGINE_MAY_NOT, name
            if package == "orchestrator":
                assert module.split(".")[1:2] in ([], ["engine"], ["errors"], ["resources"]), name


def attributes() -> set[str]:
    """Every attribute name that the code above the settings reads."""
    return {
        node.attr
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    }


def test_every_setting_is_read_by_something() -> None:
    """A key that does nothing is a promise that is not kept."""
    settings = {
        name
        for model in (Settings, RunBounds, Stagnation, Limits)
        for name in model.__struct_fields__
    }
    assert settings <= attributes()


def tables_of_paths() -> list[set[str]]:
    """The modules in each table of the page."""
    parts = PATHS_PAGE.read_text().split("\n## ")[1:]
    return [set(re.findall(r"^\| `([\w/]+\.py)` \|", part, re.MULTILINE)) for part in parts]


def opens(tree: ast.Module) -> Iterator[str]:
    """Whatever a module calls that reaches the file system by a path."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called not in OF_OS | OF_SHUTIL:
            continue
        function = ast.unparse(node.func)
        owner, _, name = function.rpartition(".")
        if owner == "os":
            found = name in OF_OS
        elif owner == "shutil":
            found = name in OF_SHUTIL
        elif name == "open" and owner:  # a path's, and not a class's or a folder's own
            found = bool(node.args) and isinstance(node.args[0], ast.Constant)
        else:
            found = name in METHODS if owner else name == "open"
        if found:
            yield function


@cache
def modules() -> list[tuple[str, ast.Module]]:
    return [(name_of(path), ast.parse(path.read_text())) for path in FILES]


def test_the_page_names_every_module_that_uses_the_policy() -> None:
    using = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "orchestrator.sandbox.safe_paths"
    }
    assert tables_of_paths()[0] == using


def test_the_page_names_every_module_that_opens_files_by_other_means() -> None:
    assert tables_of_paths()[1] == {name for name, tree in modules() if any(opens(tree))}
