"""Which files an analyzer reads: patterns of names, and files that may be scripts."""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

from diffchecks.script_languages import RUBY_FILES, SHELL_FILES

ANY = ("*",)
NOTHING: tuple[str, ...] = ()
PYTHON = ("*.py", "*.pyi")
PYTHON_MODULES = ("*.py",)
NOTEBOOKS = ("*.ipynb",)
DATA = ("*.json", "*.jsonc", "*.yaml", "*.yml", "*.toml")
INFRASTRUCTURE = ("*.yaml", "*.yml", "*.json", "*.template")
GITLAB_PIPELINES = (
    *("*.gitlab-ci.yml", "*.gitlab-ci.yaml", ".gitlab/*.yml", ".gitlab/*.yaml"),
    *(".gitlab-ci/*.yml", ".gitlab-ci/*.yaml"),
)
GITHUB_WORKFLOWS = tuple(
    f"{name}.{end}"
    for name in (".github/workflows/*", "*/.github/workflows/*", "action")
    for end in ("yml", "yaml")
)
PARSED_DATA = (*PYTHON, *DATA)
MANIFESTS = (
    "*requirements*.txt",
    "*requirements*.in",
    *("requirements/*.txt", "*/requirements/*.txt", "requirements/*.in", "*/requirements/*.in"),
    "pyproject.toml",
    "Pipfile",
    "setup.cfg",
    "setup.py",
    "package.json",
    "Cargo.toml",
    "build.rs",
    "go.mod",
    "composer.json",
    "Gemfile",
    "*.gemspec",
    *("pom.xml", "*.gradle", "*.gradle.kts", "libs.versions.toml"),
    *(".npmrc", ".yarnrc", ".yarnrc.yml", "pip.conf", "pip.ini"),
)
LOCK_FILES = (
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock"),
    *("poetry.lock", "pdm.lock", "uv.lock", "pylock.toml", "Pipfile.lock"),
    *("Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock"),
    *("gradle.lockfile", "gradle-wrapper.properties", "maven-wrapper.properties"),
)
SCRIPTS = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.mts", "*.cts", "*.tsx")
COMPONENTS = ("*.vue", "*.svelte", "*.astro")
PAGES = ("*.html", "*.htm", "*.xhtml")
TEMPLATES = (
    *(*PAGES, "*.jinja", "*.jinja2", "*.j2", "*.njk", "*.djhtml"),
    *("*.mako", "*.erb", "*.rhtml", "*.vue", "*.svelte", "*.astro", "*.blade.php", "*.twig"),
    *("*.ejs", "*.hbs", "*.handlebars", "*.mustache", "*.pug", "*.jade", "*.haml", "*.slim"),
    *("*.jsp", "*.jspf", "*.jspx", "*.tag", "*.tagx", "*.cshtml", "*.razor", "*.liquid", "*.tpl"),
    *("*.ftl", "*.ftlh", "*.ftlx", "*.vm", "*.vtl", "*.gohtml", "*.gotmpl", "*.tmpl"),
    *("*.eex", "*.leex", "*.heex"),
)
TEMPLATE_DIRECTORY = re.compile(r"(?:^|/)(?:templates?|jinja2?|views)/")
TEMPLATE_DIRECTORIES = re.compile(
    rf"{TEMPLATE_DIRECTORY.pattern}.*\.(?:x?html?|jinja2?|j2|mako|tpl)$"
)
C_FAMILY = ("*.c", "*.h", "*.cc", "*.cpp", "*.cxx", "*.hh", "*.hpp", "*.hxx")
PATTERN_LANGUAGES = (
    *SCRIPTS,
    *COMPONENTS,
    *("*.go", "*.java", "*.rb", "*.rake", "*.gemspec", "*.ru", *RUBY_FILES, "*.erb", "*.ejs"),
    *C_FAMILY,
    *("*.cs", "*.kt", "*.kts", "*.php", "*.phtml", "*.rs", "*.scala", "*.sc", "*.swift"),
    *("*.ex", "*.exs", "*.dart", "*.lua", "*.sol"),
    *("*.tf", "*.tfvars", "*.hcl"),
)
SQL = ("*.sql", "*.psql", "*.plsql", "*.ddl")
SHELL_SCRIPTS = ("*.sh", "*.bash", "*.ksh", *SHELL_FILES)
CONTAINER_FILES = tuple(
    f"{before}{name}{after}"
    for name in ("Dockerfile", "Containerfile", "dockerfile", "containerfile")
    for before, after in (("", ""), ("", ".*"), ("*.", ""))
)
MAKEFILES = (
    *("Makefile", "makefile", "GNUmakefile", "Makefile.*", "makefile.*", "*.mk"),
    *("Justfile", "justfile", ".justfile", "*.just"),
)
UNITS = ("*.service", "crontab", "*cron.*/*")
TOOL_SETTINGS = (
    *("package.json", ".pre-commit-config.yaml", ".pre-commit-config.yml", "devcontainer.json"),
    *("tasks.json", "lefthook.yml", "lefthook.yaml", *UNITS),
)
WITH_PROGRAMS = (
    *TOOL_SETTINGS,
    *(*SHELL_SCRIPTS, *CONTAINER_FILES, *MAKEFILES, *GITLAB_PIPELINES, *GITHUB_WORKFLOWS),
    *NOTEBOOKS,
    *PAGES,
)
"""What holds commands for a shell, or scripts, among other things."""
REFERENCING_FILES = ("*.py", "*.pyi", "*.pyx", "*.pxd", "*.md", "*.rst")
LONG_TEXTS = ("CHANGELOG*", "CHANGES*", "HISTORY*", "NEWS*", "*.md", "*.rst", "*.txt", "*.po")
"""What may be long: no parser needs more time for it than a search."""
CHANGELOG_FILES = ("*.py", *LONG_TEXTS[:4])
TESTABLE_CODE = (
    *PYTHON_MODULES,
    *SCRIPTS,
    *("*.go", "*.java", "*.kt", "*.scala", "*.rb", "*.php", "*.cs", "*.swift", "*.rs"),
    *("*.ex", "*.exs", "*.dart"),
    *C_FAMILY,
)
SOURCE_CODE = tuple(dict.fromkeys((*PYTHON, *PATTERN_LANGUAGES, *TESTABLE_CODE)))
MARKDOWN = ("*.md", "*.markdown")


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path matches a pattern with a slash, or the last part of it one without."""
    names, paths = _compiled(tuple(patterns))
    return names.match(path, path.rfind("/") + 1) is not None or paths.match(path) is not None


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One expression for the patterns of names, and one for those of paths."""
    names = (translate(pattern) for pattern in patterns if "/" not in pattern)
    paths = (translate(pattern) for pattern in patterns if "/" in pattern)
    return re.compile("|".join(names) or "(?!)"), re.compile("|".join(paths) or "(?!)")


# Named like one without a suffix, but something else by its name.
_NO_SCRIPT = re.compile(
    r"(?:jenkinsfile|dockerfile|containerfile|licen[cs]e).*|(?:gnu)?makefile|justfile|build|workspace"
    r"|tiltfile|readme|changelog|changes|news|history|authors|contributors|copying|notice|"
    + "|".join(RUBY_FILES),
    re.IGNORECASE,
)


def may_be_script(path: str) -> bool:
    """Whether a file may be a script by its name: it has no suffix; its contents decide."""
    name = path.rpartition("/")[2]
    has_suffix = 0 < name.rfind(".") < len(name) - 1
    return not (has_suffix or name.startswith(".") or _NO_SCRIPT.fullmatch(name))
