"""The trees that configured analyzers run on: a side of the change, with base's configuration.

A change could switch an analyzer off with its own configuration file. So these files are as in
base: a file that base does not have is left out.
"""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from diffchecks.safe_paths import SafeDirectory
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.review_workspace import ReviewWorkspace

CONFIG_FILES = (
    *("pyproject.toml", "setup.cfg", "tox.ini", "mypy.ini", ".mypy.ini", "pyrightconfig.json"),
    *("pylintrc", ".pylintrc", "pylintrc.toml", ".pylintrc.toml", ".flake8", ".ruff.toml"),
    *("ruff.toml", ".bandit", "bandit.yaml", "bandit.yml", ".semgrep.yml", ".semgrepignore"),
    *("eslint.config.*", ".eslintrc", ".eslintrc.*", ".eslintignore", "biome.json", "biome.jsonc"),
    *(".stylelintrc", ".stylelintrc.*", "stylelint.config.*", ".stylelintignore", ".oxlintrc.json"),
    *(".golangci.*", "clippy.toml", ".clippy.toml", "phpstan.neon", "phpstan.neon.dist"),
    *("phpstan.dist.neon", "psalm.xml", "psalm.xml.dist", ".rubocop.yml", ".rubocop_todo.yml"),
    *(".checkov.yml", ".checkov.yaml", ".trivyignore", ".trivyignore.yaml", "trivy.yaml"),
    *(".tflint.hcl", ".tfsec.yml", ".kube-linter.yaml", ".yamllint", ".yamllint.*", ".clang-tidy"),
    *(".cppcheck", ".detekt.yml", "detekt.yml", "checkstyle.xml", ".swiftlint.yml"),
    *(".gitleaks.toml", ".gitleaksignore", ".sqlfluff", ".sqlfluffignore", ".cfnlintrc*"),
    *(".ansible-lint", ".hadolint.yaml", ".hadolint.yml", ".shellcheckrc"),
    *(".markdownlint.*", ".markdownlint-cli2.*", ".vale.ini"),
    *("tsconfig.json", "tsconfig.*.json", "jsconfig.json"),
    *(".editorconfig", ".gitignore", ".ignore"),
)
"""Names of files that configure analyzers, in any directory."""


class AnalyzedTree(Struct, frozen=True):
    """A tree on disk.

    Attributes:
        root: holds only the regular files of a side and the requested links; no component of its
            path is a link.
        paths: of these files.
        from_base: those of the paths whose content is taken from base.
        links: directories outside of the tree that it contains as links.
    """

    root: Path
    paths: Collection[str]
    from_base: frozenset[str] = frozenset()
    links: Collection[Path] = ()


async def analyzed_tree(
    workspace: ReviewWorkspace,
    side: SideName,
    is_config: Callable[[str], bool],
    *,
    links: Mapping[str, Path],
    name: str,
) -> AnalyzedTree:
    """A side, with its configuration files as in base.

    Args:
        links: path in the tree → the directory outside of it to which it links.
        name: of a directory that is created for the tree if one is needed.

    Raises:
        OSError: it cannot be written.
    """
    head = _regular(await workspace.contents.paths("head"))
    base = _regular(await workspace.contents.paths("base"))
    if side == "base":
        differ = frozenset(path for path in base if head.get(path) != base[path])
        paths, from_base = set(base), differ
    else:
        changed = (path for path in head.keys() | base.keys() if head.get(path) != base.get(path))
        differ = frozenset(filter(is_config, changed))
        from_base = differ & base.keys()
        paths = (head.keys() - differ) | from_base
    exported, _ = await workspace.side("head", sorted(paths - from_base))
    if not differ and not links:
        return AnalyzedTree(exported.root.resolve(), paths)
    before, _ = await workspace.side("base", sorted(from_base))
    # Linking takes a fraction of the time of writing, and most files are the same in base.
    sources = {path: before.root if path in from_base else exported.root for path in paths}
    target = workspace.root / name
    await anyio.to_thread.run_sync(_link, sources, links, target)
    as_in_base = differ if side == "head" else frozenset[str]()
    return AnalyzedTree(target.resolve(), paths, as_in_base, links.values())


def _regular(listed: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Path → blob of the regular files of a tree."""
    return {path: blob for path, (mode, blob) in listed.items() if mode.startswith("100")}


def _link(sources: Mapping[str, Path], links: Mapping[str, Path], target: Path) -> None:
    """Link files of ours into a new directory; a file that could not be exported is left out."""
    target.mkdir()
    with SafeDirectory(target) as tree:
        for path, root in sorted(sources.items()):
            if os.path.isfile(root / path):
                with tree.parent(path, make=True) as (directory, name):
                    os.link(root / path, name, dst_dir_fd=directory)
        for path, place in links.items():
            with tree.parent(path, make=True) as (directory, name):
                os.symlink(place, name, dir_fd=directory)
