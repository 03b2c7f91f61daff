"""In which language a file is a program whose suffix does not tell: by its name or first line."""

from pathlib import PurePosixPath

from diffchecks.data_files import read_map, vocabulary
from diffchecks.file_patterns import file_names

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh88", "ksh93", "bats"})


def interpreter(data: bytes) -> str | None:
    """The name of the program in a script's ``#!`` line, None where there is no such line.

    A page of PHP says so in its first line as well.
    """
    first = data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if first.startswith(b"<?php"):
        return "php"
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    names = [PurePosixPath(word).name for word in words]
    if names and names[0] == "env":
        names = [name for name in names[1:] if name[:1] != "-" and "=" not in name]
    return next((name for name in names if name != "busybox"), "")


def is_husky_hook(path: str) -> bool:
    """Whether a shell runs the file as a hook of git, although nothing in it says so."""
    pure = PurePosixPath(path)
    return pure.parent.name == ".husky" and not pure.suffix and not pure.name.startswith(".")


def script_language(path: str, data: bytes) -> str:
    """The language of such a file, as the suffix of its files without the dot; empty: unknown.

    What other programs include under ``.inc`` is PHP where it has a tag of it, else C++.
    """
    if path.endswith(".inc"):
        return "php" if b"<?" in data else "cpp"
    program = interpreter(data)
    if program is not None:
        known = read_map("executed_files.yaml", "shebangs")
        return known.get(program.rstrip(".0123456789"), known.get(program, ""))
    if is_husky_hook(path):
        return "sh"
    name = PurePosixPath(path).name.lower()
    if vocabulary("gemfile").fullmatch(name):
        return "rb"
    kinds = (("sh", "shell_files"), ("rb", "ruby_files"))
    by_ending = read_map("executed_files.yaml", "read_as").get(name.rpartition(".")[2], "")
    named = (end for end, kind in kinds if name in map(str.lower, file_names(kind)))
    return next(named, by_ending)
