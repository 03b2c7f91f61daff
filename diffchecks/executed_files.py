"""Changed files whose names say that they hold text or data, and that programs run as code.

Of what a shell runs, the patterns of shells judge the changed lines. Any other one is read by no
analyzer in its language, so it is a gap, with the line that runs it. A program runs a file if a
line names it in a call, statement or command that does so, or gives its name to a variable that
such a line uses.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, islice
from pathlib import PurePosixPath
from posixpath import dirname, join, normpath

from diffchecks.build_files import languages
from diffchecks.check_io import CheckReply, RawFinding, Source, decode_text, read_if_possible
from diffchecks.data_files import any_of, read_map, read_names, read_patterns, read_yaml
from diffchecks.declarations import Files
from diffchecks.file_patterns import file_names, matches, suffix_of
from diffchecks.jobs import ChangedFile, ExecutedFilesJob
from diffchecks.path_kinds import path_kinds
from diffchecks.patterns import find_in_shell
from diffchecks.script_languages import script_language

_TABLE = "executed_files.yaml"
_PATTERNS = read_patterns("executed_files")
_NAMES = read_yaml(_TABLE)["names"]
_SHELL_SUFFIXES = {"", *read_names("suffixes_with_commands")}
_LISTED = 3  # names of shells in a line that only lists them
_LOOKED_UP = 20  # variables with names of files; each is searched for in the whole program
_MAX_LINE_LENGTH = 2000  # characters of a line; longer ones are minified code, whose names differ

_BUILDS = [each["files"] for each in languages().values() if "settings" not in each]
PROGRAMS = Files((*file_names("source_code"), *file_names("with_programs"), *chain(*_BUILDS)))
"""What may run another file."""
_NAMED_AS_PROGRAMS = tuple({*PROGRAMS.names} - {*file_names("pages"), *file_names("tool_settings")})


def choose_texts(changed: Iterable[str]) -> tuple[list[str], bool]:
    """Those of the changed files that are not named like programs, for a job.

    Returns:
        The files, and whether one is so unusual that the programs of the tree have to be searched.
    """
    texts = [path for path in changed if not matches(path, _NAMED_AS_PROGRAMS)]
    return texts, not all(matches(path, file_names("prose_and_data")) for path in texts)


def run(job: ExecutedFilesJob) -> CheckReply:
    """Name each changed file that is run under the name of a text as a gap (see ``check_io``).

    Args:
        job: also ``texts``: changed files that are not named like programs, and ``programs``: files
            of head, beside the changed ones, that may run one.
    """
    files = {file.path: file for file in job.files if file.status != "deleted"}
    found = ((path, _as_text(job.head_root, path)) for path in job.texts if path in files)
    wanted = {path: data for path, data in found if data is not None}
    if not wanted:
        return CheckReply(examined=[])
    gaps: dict[str, str] = {}
    read: dict[str, list[RawFinding]] = {}
    by_token = defaultdict[str, list[str]](list)
    for path in wanted:
        by_token[_token(path)].append(path)
    for program in dict.fromkeys((*files, *job.programs)):
        text = decode_text(read_if_possible(job.head_root, program))
        tokens = by_token.keys() & set(_PATTERNS["token"].findall(text))
        named = [path for token in sorted(tokens) for path in by_token[token]]
        left = [path for path in named if path not in gaps and path != program]
        for path, language, why in (*_executions(program, text, left), *_globs(text, wanted)):
            file, data, as_shell = files[path], wanted[path], None
            if path in {program, *gaps} or (language == "sh" and path in read):
                continue
            if _does_nothing(language, data, _changed_lines(job, file, data), text):
                continue
            if language == "sh":
                anew = range(data.count(b"\n") + 2) if file.old_path != path else file.added
                as_shell = find_in_shell(Source(path, data), anew)
            if as_shell is None:
                gaps[path] = f"{program}:{why}"
            else:
                read[path] = [raw for raw in as_shell if raw.line in file.added]
    findings = [raw for path in sorted(read.keys() - gaps) for raw in read[path]]
    return CheckReply(findings, sorted(read.keys() - gaps), gaps)


def _as_text(root: str, path: str) -> bytes | None:
    """The contents of a file that no analyzer takes for a program; None for others."""
    if "lock_files" in path_kinds(path):
        return None
    data = read_if_possible(root, path)
    is_read = not suffix_of(path) and script_language(path, data)
    return None if is_read or not data.strip() else data


def _changed_lines(job: ExecutedFilesJob, file: ChangedFile, data: bytes) -> list[str]:
    """The lines that the change adds to a file and takes from it; all of one that is new there."""
    head = decode_text(data).split("\n")
    base = decode_text(read_if_possible(job.base_root, file.path)).split("\n")
    if file.old_path != file.path or max(file.removed, default=0) > len(base):
        return head
    return [*(base[n - 1] for n in file.removed), *(head[n - 1] for n in file.added)]


def _token(path: str) -> str:
    """The part of a file's name by which programs are searched for it."""
    return str((_PATTERNS["token"].findall(PurePosixPath(path).name) or [""])[-1])


def _executions(program: str, text: str, paths: list[str]) -> Iterator[tuple[str, str, str]]:
    """(path, language, line and why) for each of the files that a program names and runs."""
    if not paths:
        return
    suffix = PurePosixPath(program).suffix.lower().lstrip(".")
    language, looked_up = read_map(_TABLE, "languages").get(suffix, suffix), 0
    lines = text.split("\n")
    places = _places(lines, {_token(path) for path in paths})
    by_name = defaultdict[tuple[str, str], list[str]](list)
    for path in paths:
        whole = PurePosixPath(path)
        by_name[whole.name, "" if whole.suffix else whole.parent.name].append(path)
    for (name, _), alike in by_name.items():
        word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w/-]|\.\w)")
        for number in places.get(_token(name), ()):
            line = lines[number]
            found = word.search(line[:_MAX_LINE_LENGTH])
            if found is None or _PATTERNS["comment"].match(line) or _lists_shells(name, line):
                continue
            before = line[: found.start()]
            # A module of JavaScript is looked for beside the program.
            place = _PATTERNS["required"].search(before) if language == "js" else None
            if place and normpath(join(dirname(program), place[1], name)) not in alike:
                continue
            how = _run_by(language, alike[0], before)
            if not how and looked_up < _LOOKED_UP and _PATTERNS["assigned"].match(line):
                looked_up += 1
                how = _later(language, alike[0], line, lines)
            if how:
                for path in alike:
                    own = read_map(_TABLE, "languages").get(suffix_of(path).lstrip("."), "") == how
                    but = "which no analyzer reads" if own else "but it is named like a text"
                    yield path, how, f"{number + 1} runs it as {_NAMES[how]}, {but}"
                break


def _lists_shells(name: str, line: str) -> bool:
    """Whether a file is named like a shell, and a line only lists such names."""
    shells = read_names("names_of_shells")
    return name in shells and len(shells.intersection(_PATTERNS["token"].findall(line))) >= _LISTED


def _places(lines: list[str], tokens: Set[str]) -> dict[str, list[int]]:
    """The lines, from 0, that have each token."""
    places = defaultdict[str, list[int]](list)
    for number, line in enumerate(lines):
        for token in tokens & set(_PATTERNS["token"].findall(line)):
            places[token].append(number)
    return places


def _globs(text: str, paths: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """The same for the files that a program finds by their suffix and runs."""
    for language, (found, run) in read_yaml(_TABLE)["found_and_run"].items():
        by_name = {files["name"]: files for files in islice(re.finditer(found, text), _LOOKED_UP)}
        for name, files in by_name.items():
            if re.search(run.format(name), text):
                line = text.count("\n", 0, files.start()) + 1
                for path in filter(lambda path: path.endswith(files["suffix"]), paths):
                    yield path, language, f"{line} runs such files as {_NAMES[language]}"
                break


def _reader(language: str) -> re.Pattern[str] | None:
    """What stands before the name of a file that a program in a language runs."""
    known = language in read_yaml(_TABLE)["readers"]
    return any_of(_TABLE, "readers", language) if known else None


def _run_by(language: str, path: str, before: str) -> str:
    """In which language a line runs a file, by what precedes its name; empty: it does not."""
    if _PATTERNS["itself"].search(before):
        return "py"
    command = _without_directories(path, before)
    for started in filter(None, (re.search(way, command) for way in read_yaml(_TABLE)["started"])):
        if started["program"] not in {".", "source", "include"} or language in _SHELL_SUFFIXES:
            return read_map(_TABLE, "interpreters")[started["program"]]
    suffix = PurePosixPath(path).suffix.lower()
    reader = _reader(language)
    if reader is None or not reader.search(before):
        return ""
    directory = PurePosixPath(path).parent.name
    if not suffix and not before.endswith(("./", f"{directory or '.'}/")):
        return ""  # a common word, which names many things
    # Bundlers give data to `require`, and C includes lists under names of their own.
    is_data = language == "js" and any_of(_TABLE, "data").fullmatch(suffix)
    is_list = language == "c" and not _PATTERNS["text"].fullmatch(suffix)
    return "" if is_data or is_list else language


def _without_directories(path: str, before: str) -> str:
    """What precedes a file's name, without the directories in a list of its path's parts."""
    *_, outer, inner, _ = ("", "", *PurePosixPath(path).parts)
    parts = rf"[\"']{re.escape(outer)}[\"']\s*,\s*[\"']{re.escape(inner)}[\"']\s*,\s*(?=[\"']\Z)"
    return _PATTERNS["joined"].sub('"', re.sub(parts, "", before))


def _later(language: str, path: str, line: str, lines: list[str]) -> str:
    """The language, where a line gives the file's name to a variable that another line runs."""
    assigned, reader = _PATTERNS["assigned"].match(line), _reader(language)
    if assigned is None or reader is None or language == "c":
        return ""
    word = re.compile(rf"(?<!\w){re.escape(assigned['name'])}(?!\w)")
    for other in lines:
        if assigned["name"] not in other:
            continue
        found = word.search(other) if other is not line and len(other) <= _MAX_LINE_LENGTH else None
        if found and (how := _run_by(language, path, other[: found.start()])):
            return how
    return ""


def _does_nothing(language: str, data: bytes, new: Sequence[str], program: str) -> bool:
    """Whether new lines only set variables, to constants, for a shell or make, or PHP prints it.

    Nor is markup a program of JavaScript, whose bundler hands it on as a text.
    """
    if language == "js":
        return data.lstrip().startswith(b"<?xml")
    if language not in {"sh", "mk"}:
        return language == "php" and b"<?" not in data and "eval" not in program
    sets = all(map(_PATTERNS["setting"].fullmatch, new))
    return sets and _PATTERNS["substitution"].search("\n".join(new)) is None
