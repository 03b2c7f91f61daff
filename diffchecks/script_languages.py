"""In which language a file without a suffix is a program: by its name, or by its ``#!`` line."""

from pathlib import PurePosixPath

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh88", "ksh93"})
SHELL_FILES = (".envrc", ".profile", ".bashrc", ".bash_profile", ".bash_aliases", ".bash_login")
RUBY_FILES = (
    *("Gemfile", "Rakefile", "Podfile", "Vagrantfile", "Capfile", "Guardfile", "Brewfile"),
    *("Fastfile", "Appfile", "Dangerfile"),
)
_BY_NAME = {
    name.lower(): language
    for names, language in ((SHELL_FILES, "sh"), (RUBY_FILES, "rb"))
    for name in names
}
_BY_INTERPRETER = {
    **dict.fromkeys(SHELLS, "sh"),
    **dict.fromkeys(("node", "nodejs"), "js"),
    **dict.fromkeys(("deno", "bun", "tsx", "ts-node"), "ts"),
    **dict.fromkeys(("ruby", "jruby"), "rb"),
    "php": "php",
    "lua": "lua",
    "luajit": "lua",
    "elixir": "exs",
    "python": "py",
}


def interpreter(data: bytes) -> str | None:
    """The name of the program in a script's ``#!`` line, None where there is no such line."""
    first = data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    names = [PurePosixPath(word).name for word in words]
    if names and names[0] == "env":
        names = [name for name in names[1:] if name[:1] != "-" and "=" not in name]
    if names and names[0] == "busybox":
        names = names[1:]
    return names[0] if names else ""


def is_husky_hook(path: str) -> bool:
    """Whether a shell runs the file as a hook of git, although nothing in it says so."""
    pure = PurePosixPath(path)
    return pure.parent.name == ".husky" and not pure.suffix and not pure.name.startswith(".")


def script_language(path: str, data: bytes) -> str:
    """The language of such a file, as the suffix of its files without the dot; empty: unknown."""
    program = interpreter(data)
    if program is not None:
        return _BY_INTERPRETER.get(program.rstrip(".0123456789"), _BY_INTERPRETER.get(program, ""))
    if is_husky_hook(path):
        return "sh"
    return _BY_NAME.get(PurePosixPath(path).name.lower(), "")
