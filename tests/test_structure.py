"""What the house promises of its code: each file and function can be read in one sitting."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct

import orchestrator
from diffchecks import DATA
from orchestrator.catalog.settings import ReviewSettings, RunBounds, SizeLimits, StagnationPolicy
from orchestrator.engine.loop_detection import LoopPolicy

ROOT = Path(orchestrator.__file__).parent
FILES = sorted([*ROOT.rglob("*.py"), *DATA.parent.rglob("*.py")])
FILE_LINES = 500
FUNCTION_LINES = 60
ENGINE_MAY_IMPORT = {"anyio", "jsonschema_rs", "msgspec", "networkx", "orchestrator"}
MAY_OPEN_PATHS = {
    "__init__.py": "our own list of the public API",
    "report/page_templates.py": "our own styles and script",
    "report/terminal_escaping.py": "/dev/null, in place of a broken stream",
    "cli/commands/stats.py": "our own data",
    "app/run_one_test.py": "a copy of a commit in a directory of our own",
    "app/test_detection.py": "files of the checkout for which a person asks",
    "app/agent_files.py": "files for coding agents that a person asks for, in their checkout",
    "app/watching.py": "times of files in the checkout, of which it opens none",
    "app/ci_files.py": "CI files that a person asks for, in their checkout",
    "posting/github.py": "the event file of the CI runner",
    "posting/comment_commands.py": "the event file of the CI runner",
    "app/runs/verdict_files.py": "a verdict that the user names",
    "cli/review_output.py": "files that the CI runner names",
    "code_review/tools/program_output_files.py": "lists the outputs in the run's own directory",
    "app/audit/signing_keys.py": "the key that a person names",
    "app/audit/verification.py": "the verdict that a person names",
    "app/review_inputs/copied_inputs.py": "reports that a person names; copies under our own names",
    "cli/arguments.py": "our own data",
    "data_directories.py": "our own data",
    "code_review/json_schema_generation.py": "our own data",
    "report/rules_page.py": "our own data",
    "app/runs/forking.py": "the run's own directory, copied to a new one",
    "app/policy_sources.py": "lists `.diffcourt/`",
    "app/runs/run_archive.py": "the directory that a person exports to",
    "app/notify/channels.py": "the user's own file",
    "app/runs/state_directory.py": "the parent of the state directory; lists the state directory",
    "catalog/data_file_layers.py": "our own data",
    "diffchecks/safe_paths.py": "the policy itself",
    "diffchecks/dependencies/advisories.py": "copies under our own names",
    "diffchecks/dependencies/advisory_dump.py": "a dump that a person or the configuration in base names",
    "diffchecks/dependencies/look_alikes.py": "our own data",
    "diffchecks/declarations.py": "our own data, and copies under our own names",
    "diffchecks/imported_reports/changed_results.py": "copies under our own names",
    "diffchecks/data_files.py": "our own tables",
    "diffchecks/packed_files.py": "files of a review, under our own names",
    "diffchecks/patterns/pattern_loading.py": "our own data",
    "diffchecks/taint/library_models.py": "our own data, and copies under our own names",
    "diffchecks/programs/__init__.py": "copies under our own names",
    "diffchecks/rules.py": "our own data",
    "diffchecks/templates/dialects.py": "our own data",
    "diffchecks/trees.py": "lists the caller's directories; files are read by the path policy",
    "diffchecks/type_errors.py": "what a type checker printed, under our own name",
    "diffchecks/test_quality/failed_tests.py": "a report under our own name",
    "diffchecks/test_quality/proof_runs.py": "a report under our own name",
    "diffchecks/test_quality/uncovered_lines.py": "copies under our own names",
    "cli/commands/review.py": "the patch that a person names",
    "cli/commands/view.py": "the token for scrapers that a person names",
    "cli/output.py": "where a person wants the verdict",
    "library/external_model_calls.py": "the directories of skills that a program names",
    "library/agent_execution.py": "the directory of the journal that a program names",
    "code_review/analyzers/check_data_files.py": "a directory of our own, with plain names",
    "code_review/analyzers/configured_programs.py": "our own directories, links to exported files, and the first line of programs that we start",
    "code_review/analyzers/program_execution.py": "the size and date of the programs that we start",
    "code_review/analyzers/result_cache.py": "our own code",
    "code_review/analyzers/run_tests.py": "copies of exported files; a report under our own name",
    "code_review/tools/prove_finding.py": "an empty directory of our own",
    "code_review/tools/proof_trees.py": "files of a side under our own names, and a new file in a tree without a link",
    "code_review/change/git/repository_layout.py": "lists a git directory",
    "code_review/change/file_export.py": "directories of our own",
    "code_review/change/worktree_snapshot.py": "the repository's index; names that git listed, not opened",
    "code_review/review_workspace.py": "a directory of our own, and copies under our own names",
    "sandbox/cgroups.py": "cgroups of our own, their parents and children; `/proc` of this process",
    "sandbox/process_confinement.py": "the canary; paths that must be denied",
    "sandbox/file_rollback.py": "the vault, with names of our own in it",
    "sandbox/isolated_run.py": "a copy of ours, given to the user that runs in it",
    "sandbox/kernel_calls.py": "paths of a policy, opened to name them to the kernel; `/proc`",
    "sandbox/launcher_main.py": "descriptors that it was given",
    "sandbox/namespace_verification.py": "namespaces and mounts of its own process, in `/proc`",
    "sandbox/private_paths.py": "directories that base names as readable, outside of the repository",
    "sandbox/scratch_directory.py": "directories of our own, also those that killed processes left",
    "sandbox/fork_server_main.py": "the null device",
    "sandbox/seccomp_filter.py": "our own table",
    "stores/sqlite_repair.py": "the damaged journal, which it copies before SQLite opens it",
    "stores/sqlite_log_damage.py": "the log of the journal that SQLite opens",
    "stores/writer_identity.py": "`/proc` of a process",
    "service/database.py": "its own SQL",
    "service/local_postgres.py": "the data directory of a server of our own",
    "service/repository_cache.py": "a lock beside the clones",
    "service/settings.py": "the operator's configuration and secrets",
    "stores/postgres.py": "our own migrations",
    "stores/result_cache.py": "the user's cache directory, outside of the work tree",
    "stores/used_approvals.py": "the log of used approvals, outside of every repository",
    "tuning/file_formats/rubric_file.py": "files that a person names",
    "tuning/file_formats/text_files.py": "files that a person names",
    "web/site.py": "our own styles and scripts",
}
"""Modules that open files other than by ``diffchecks/safe_paths.py``, and whose paths these are.

Paths that a change, a model or an imported run names are opened by ``safe_paths`` (docs/paths.md).
A module that begins to open others is entered here.
"""
METHODS = {
    "read_bytes", "read_text", "write_bytes", "write_text", "unlink", "rmdir", "mkdir", "iterdir",
    "rglob", "symlink_to", "hardlink_to", "touch", "chmod",
}  # fmt: skip
OF_OS = METHODS | {
    "open", "scandir", "listdir", "stat", "lstat", "readlink", "symlink", "link", "rename",
    "replace", "remove", "makedirs", "walk", "truncate",
}  # fmt: skip
OF_SHUTIL = {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"}
STARTERS = re.compile(
    r"subprocess\.(?:run|call|check_call|check_output|getoutput|getstatusoutput|Popen)"
    r"|asyncio\.(?:subprocess\.)?create_subprocess_\w+|(?:\w+\.)*subprocess_(?:exec|shell)"
    r"|anyio\.(?:run_process|open_process|to_process\.\w+)"
    r"|trio\.(?:run_process|lowlevel\.open_process)"
    r"|os\.(?:exec\w+|spawn\w+|posix_spawn\w*|popen|system|startfile|fork|forkpty)"
    r"|pty\.(?:fork|spawn)|multiprocessing\.\w+|(?:concurrent\.futures\.)?ProcessPoolExecutor"
    r"|shutil\.which|webbrowser\.\w+|ctypes\.util\.find_library"
    r"|platform\.(?:platform|processor|uname)|sys\.executable"
)
"""Whatever starts a process, looks a program up, or names our interpreter."""
MAY_START = {
    "sandbox/process_start.py": "every process of ours",
    "program_search.py": "the directory of our interpreter",
    "sandbox/launcher_main.py": "what it is told to, by an absolute path, once it is confined",
    "sandbox/fork_server_main.py": "forks of itself, once they are confined",
    "sandbox/isolated_run_main.py": "becomes a program in namespaces, on a path of the system's",
    "code_review/analyzers/program_execution.py": "the directory of our interpreter",
    "cli/page_serving.py": "the person's browser, on a PATH that the command has cleaned",
}
ENGINE_MAY_NOT = {"asyncio", "sqlite3", "socket", "subprocess", "threading", "urllib"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT.parent).as_posix().removeprefix("orchestrator/")


class Module(Struct, frozen=True):
    """What the tests ask of a module; its tree is not kept."""

    name: str
    text: str
    imported: tuple[str, ...]
    attributes: frozenset[str]
    long_functions: tuple[str, ...]
    opens: bool
    starts: bool


@cache
def modules() -> list[Module]:
    return [read_module(path) for path in FILES]


def read_module(path: Path) -> Module:
    text = path.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    return Module(
        name=name_of(path),
        text=text,
        imported=tuple(imported(nodes)),
        attributes=frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute)),
        long_functions=tuple(
            node.name
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
        ),
        opens=any(opens(nodes)),
        starts=any(starts(nodes)),
    )


def test_files_and_functions_are_within_the_size_limits() -> None:
    assert not [one.name for one in modules() if len(one.text.splitlines()) > FILE_LINES]
    assert not [f"{one.name}: {name}" for one in modules() for name in one.long_functions]


def imported(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


def test_the_engine_has_few_dependencies() -> None:
    engine = [one for one in modules() if one.name.startswith("engine/")]
    for name, module in ((one.name, module) for one in engine for module in one.imported):
        package, *rest = module.split(".")
        assert package in ENGINE_MAY_IMPORT | sys.stdlib_module_names, name
        assert package not in ENGINE_MAY_NOT, name
        if package == "orchestrator":
            assert rest[:1] in ([], ["engine"], ["errors"], ["data_directories"]), name


def test_the_engine_names_no_config_file() -> None:
    """Which data files there are is for the catalog."""
    engine = [one for one in modules() if one.name.startswith("engine/")]
    assert not [one.name for one in engine if "config/" in one.text]


def test_one_module_prints() -> None:
    writes = re.compile(
        # Not the examples of docstrings.
        r"^(?! *(?:>>>|\.\.\.)).*(?:\b(?:std(?:out|err)|_?stream)\.write\(|\bprint\()",
        re.MULTILINE,
    )
    allowed = {"report/terminal_escaping.py", "report/tuning/scoring_text.py", "cli/main.py"}
    above = ("adapters/", "app/", "cli/", "library/", "posting/", "report/", "service/", "web/")
    found = {one.name for one in modules() if writes.search(one.text)}
    assert {name for name in found if name.startswith(above)} == allowed


def test_every_setting_is_read_by_something() -> None:
    """A key that does nothing is a promise that is not kept."""
    settings = {
        name
        for model in (ReviewSettings, RunBounds, StagnationPolicy, LoopPolicy, SizeLimits)
        for name in model.__struct_fields__
    }
    assert settings <= frozenset[str]().union(*(one.attributes for one in modules()))


def dotted(node: ast.AST) -> str:
    """A name with its attributes; an empty part for whatever else they are of."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def opens(nodes: list[ast.AST]) -> Iterator[str]:
    """Whatever a module calls that reaches the file system by a path."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name not in OF_OS | OF_SHUTIL:
            continue
        function = dotted(node.func)
        owner = function.removesuffix(name)
        if owner == "os.":
            found = name in OF_OS
        elif owner == "shutil.":
            found = name in OF_SHUTIL
        elif name == "open" and owner:  # a path's, and not a class's or a folder's own
            found = bool(node.args) and isinstance(node.args[0], ast.Constant)
        else:
            found = name in METHODS if owner else name == "open"
        if found:
            yield function


def test_only_these_modules_open_files_by_other_means_than_the_path_policy() -> None:
    assert MAY_OPEN_PATHS.keys() == {one.name for one in modules() if one.opens}


def starts(nodes: list[ast.AST]) -> Iterator[str]:
    """Whatever a module names, other than as a type, that starts or finds a program."""
    names: dict[str, str] = {}
    types: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom):
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        for found in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            types |= {id(part) for part in ast.walk(found)} if found else set()
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name):
            written = dotted(node)
            first, dot, rest = written.partition(".")
            if STARTERS.fullmatch(names.get(first, first) + dot + rest) and id(node) not in types:
                yield written


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import subprocess as s\ns.run([])", ["s.run"]),
        ("from subprocess import Popen as P\nP([])", ["P"]),
        ("from anyio import open_process\nstart = open_process", ["open_process"]),
        ("import asyncio\nasyncio.create_subprocess_exec", ["asyncio.create_subprocess_exec"]),
        (
            "import asyncio.subprocess as a\na.create_subprocess_shell",
            ["a.create_subprocess_shell"],
        ),
        ("import os\nos.execvp(a, b)", ["os.execvp"]),
        ("from concurrent.futures import ProcessPoolExecutor as E\nE()", ["E"]),
        ("import subprocess\np: subprocess.Popen[bytes]\nx = subprocess.PIPE", []),
    ],
)
def test_the_start_of_a_process_is_seen_under_any_name(text: str, found: list[str]) -> None:
    assert list(starts(list(ast.walk(ast.parse(text))))) == found


@pytest.mark.attack("a process of ours that looks for a program or a module in the checkout")
def test_only_these_modules_start_processes_or_look_for_programs() -> None:
    assert MAY_START.keys() == {one.name for one in modules() if one.starts}


@pytest.mark.parametrize(
    "package", ["diffchecks/taint", "orchestrator/code_review/findings", "orchestrator/engine"]
)
def test_a_large_package_says_where_to_find_each_module(package: str) -> None:
    within = {path.stem for path in (ROOT.parent / package).glob("*.py")} - {"__init__"}
    guide = ast.get_docstring(ast.parse((ROOT.parent / package / "__init__.py").read_text()))
    assert guide is not None
    assert set(re.findall(r"``(\w+)``", guide)) >= within
