"""Names of the files that analyzers want, as patterns of the last part of a path."""

ANY = ("*",)
PYTHON = ("*.py", "*.pyi")
MODULES = ("*.py",)
DATA = (*PYTHON, "*.json", "*.jsonc", "*.yaml", "*.yml", "*.toml")
MANIFESTS = (
    "*requirements*.txt",
    "*requirements*.in",
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
)
SCRIPTS = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.mts", "*.cts", "*.tsx")
COMPONENTS = ("*.vue", "*.svelte", "*.astro")
PATTERNED = (*SCRIPTS, *COMPONENTS, "*.go", "*.java", "*.rb", "*.rake", "*.erb")
PAGES = ("*.py", "*.pyi", "*.pyx", "*.pxd", "*.md", "*.rst")
LOGGED = ("*.py", "CHANGELOG*", "CHANGES*", "HISTORY*", "NEWS*")
TESTED = (
    *MODULES,
    *SCRIPTS,
    *("*.go", "*.java", "*.kt", "*.scala", "*.rb", "*.php", "*.cs", "*.swift", "*.rs"),
    *("*.c", "*.cc", "*.cpp", "*.h", "*.hpp"),
)
WRITTEN = tuple(dict.fromkeys((*PYTHON, *PATTERNED, *TESTED)))  # the commonest first
PROSE = ("*.md", "*.markdown")
