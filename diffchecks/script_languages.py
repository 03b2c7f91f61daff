"""In which language a file is a program whose suffix does not tell: by its name or first line."""

from pathlib import PurePosixPath

from diffchecks.data_files import read_map, read_names, vocabulary
from diffchecks.file_patterns import may_be_script, suffix_of

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh88", "ksh93", "bats"})
_HEAD = 2000  # bytes
_MARKS = {b"<?php": "php", b"#compdef": "zsh", b"#autoload": "zsh"}


def interpreter(data: bytes) -> str | None:
    """The name of the program in a script's ``#!`` line, None where there is no such line.

    A page of PHP and what Zsh completes say so in their first line as well.
    """
    first = data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return next((name for mark, name in _MARKS.items() if first.startswith(mark)), None)
    words = first[2:].decode(errors="replace").split()
    names = [PurePosixPath(word).name for word in words if word[:1] != "-"]
    if names and names[0] == "env":
        names = [name for name in names[1:] if "=" not in name]
    if names[:1] == ["nix-shell"]:  # a line below says which, or several do
        names = list(set(vocabulary("of_nix_shell").findall(data.decode(errors="replace"))))
        names = names if len(names) == 1 else []
    started = (name for name in names if not vocabulary("starter").fullmatch(name))
    return next(started, names[0] if names else "")


def is_husky_hook(path: str) -> bool:
    """Whether a shell runs the file as a hook of git, although nothing in it says so."""
    pure = PurePosixPath(path)
    return pure.parent.name == ".husky" and not pure.suffix and not pure.name.startswith(".")


def path_by_language(path: str, data: bytes) -> str:
    """The path, with the suffix of the file's language where its own does not tell it."""
    suffix = suffix_of(path)
    if suffix and suffix not in read_names("suffixes_of_scripts"):
        return path
    script = script_language(path, data)
    # Named as a shell's, a script of Zsh is read as one, by more checks.
    return path if not script or (suffix and script == "zsh") else f"{path}.{script}"


def script_language(path: str, data: bytes) -> str:
    """The language of such a file, as the suffix of its files without the dot; empty: unknown.

    What other programs include under ``.inc`` is PHP where it has a tag of it, else C++.
    """
    if path.endswith(".inc"):
        return "php" if b"<?" in data else "cpp"
    program = interpreter(data)
    begins = data[:_HEAD].decode(errors="replace")
    empty = len(data) <= _HEAD and vocabulary("only_comments").fullmatch(begins) is not None
    if program is not None:
        known = read_map("executed_files.yaml", "shebangs")
        return known.get(program.rstrip(".0123456789"), known.get(program, "sh" if empty else ""))
    if is_husky_hook(path) or (vocabulary("completion").search(path) and may_be_script(path)):
        return "sh"
    name = PurePosixPath(path).name.lower()
    if vocabulary("gemfile").fullmatch(name):
        return "rb"
    language = read_map("executed_files.yaml", "read_as").get(name.rpartition(".")[2], "")
    return language or ("sh" if empty or vocabulary("shell_text").match(begins) else "")
