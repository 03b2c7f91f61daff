"""Patterns of dangerous or wrong code, matched on syntax trees; in Python only of configuration.

The patterns are data, a file per language under ``data/patterns``; ``pattern_loading.py`` has
their schema. ast-grep's wheel contains the grammars; a file that its grammar cannot parse is a gap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from diffchecks import DATA, name_some
from diffchecks.check_io import (
    NOT_PARSED,
    CheckReply,
    Gap,
    NotApplicable,
    RawFinding,
    Source,
    check_files_for_all,
)
from diffchecks.data_files import read_map, read_names, read_patterns
from diffchecks.file_patterns import file_names, matches
from diffchecks.flows import find_flows, join
from diffchecks.jobs import PatternsJob, SharedPatternsJob
from diffchecks.path_kinds import without_package_names
from diffchecks.patterns.configured_commands import (
    extract_configured_commands,
    extract_recipe,
    has_configured_commands,
)
from diffchecks.patterns.container_file_commands import extract_commands, is_container_file
from diffchecks.patterns.downloaded_scripts import find_downloaded_scripts, origin_of_download
from diffchecks.patterns.makefile_commands import extract_make_commands, is_makefile
from diffchecks.patterns.pattern_loading import Pattern, PatternFile, load_language
from diffchecks.patterns.pipeline_commands import (
    extract_pipeline_commands,
    is_gitlab_file,
    is_workflow_file,
)
from diffchecks.patterns.readings import Reading, read_program, unread_lines, without_comments
from diffchecks.patterns.template_code_extraction import (
    extract_blade,
    extract_ejs,
    extract_jsp,
    extract_page_scripts,
    extract_php,
    extract_scripts,
    extract_tags,
    is_component,
)
from diffchecks.patterns.value_origin import ValueOrigins
from diffchecks.python.notebook_code import extract_notebook_code
from diffchecks.rules import shipped_rules
from diffchecks.script_languages import path_by_language

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_NEAR = 3  # lines around a match that are its context
_SHOWN = 3  # lines of a match that identify it, since a call may span a whole program
_NAMED_LINES = 3  # in a message
_NAMED = 60  # maximum characters of a value in a message

_PATTERNS = read_patterns("patterns")
_REMOTE_SCRIPT = "-remote-script"
_BATS_TEST = re.compile(rb"^([ \t]*)@test[ \t].*\{[ \t]*$", re.MULTILINE)  # a function of the shell
_PAGES = frozenset({".html", ".htm", ".xhtml", ".jsp", ".jspf"})
_SHIPPED = tuple(map(str, sorted((DATA / "patterns").glob("*.yaml"))))
_View = tuple[Reading, ValueOrigins]  # the values are those of its tree


class Program:
    """A program in a language; its syntax trees are there once they are needed, and kept."""

    def __init__(self, source: Source, language: PatternFile) -> None:
        self.source, self.language = source, language

    @cached_property
    def readings(self) -> list[tuple[_View, _View]]:
        """See ``read_program``; each without its comments, and whole."""

        def view(reading: Reading) -> _View:
            return reading, ValueOrigins(reading.root, self.language, reading.grammar)

        readings = read_program(self.source, self.language)
        return [(view(without_comments(one, self.language)), view(one)) for one in readings]


def run(job: PatternsJob) -> CheckReply:
    """Search for patterns."""
    return run_for_all(SharedPatternsJob(**{**asdict(job), "codes": [job.codes]}))[0]


def run_for_all(job: SharedPatternsJob) -> list[CheckReply]:
    """Search for the patterns of several checks; each file is read once. One reply for each."""
    # What is kept is of one file: syntax trees take much memory.
    opened = lru_cache(maxsize=1)(partial(_open, files=tuple(job.data)))
    # Of which server a script is shows only once it is found.
    wanted = [
        {*codes, *(each.replace("-foreign-", "-remote-") for each in codes)} for codes in job.codes
    ]
    looks = [partial(_look, opened=opened, codes=frozenset(codes)) for codes in wanted]
    return check_files_for_all(job, looks)


def _open(source: Source, files: tuple[str, ...]) -> list[tuple[Source, Program | None]]:
    """The programs in a file; None: in no language that has patterns."""
    parts = [(part, load_language(files, part.suffix)) for part in programs_in(source)]
    return [(part, Program(part, language) if language else None) for part, language in parts]


def _look(
    source: Source,
    *,
    opened: Callable[[Source], list[tuple[Source, Program | None]]],
    codes: frozenset[str],
) -> Iterator[RawFinding]:
    parts = opened(source)
    if not parts:
        if matches(source.path, file_names("units")):
            return  # none of its commands can do harm
        raise NotApplicable
    searched = False
    # A script in a page may be filled in, or end in another page: no grammar parses it alone.
    is_page = source.suffix in _PAGES
    unread = (NotApplicable, Gap) if is_page else (NotApplicable,)
    for part, program in parts:
        with suppress(*unread):
            found = _found(program, codes)
            for finding in list(found) if is_page else found:
                yield _by_origin(replace(finding, path=source.path), part)
            searched = True
    if not searched:
        raise NotApplicable


def _by_origin(finding: RawFinding, program: Source) -> RawFinding:
    """A downloaded script that is run, as a graver finding if its server is not a known one."""
    if not finding.code.endswith(_REMOTE_SCRIPT):
        return finding
    command = "\n".join(program.lines[finding.line - 1 : finding.end_line])
    if origin_of_download(command) != "foreign":
        return finding
    return replace(finding, code=finding.code.replace("remote", "foreign"))


def programs_in(source: Source) -> list[Source]:
    """The programs in a file, each as a separate source; usually the file itself."""
    if is_component(source.path):
        programs = [(one.language, one.text) for one in extract_scripts(source.path, source.text)]
    elif language := read_map("maps.yaml", "languages_of_tags").get(source.suffix):
        programs = [(language, extract_tags(source.text, language))]
    elif source.suffix.startswith(".jsp"):
        programs = [("java", extract_jsp(source.text))] if "<%" in source.text else []
    elif source.suffix == ".ejs":
        if _PATTERNS["makes_other_files"].search(source.name):
            return []  # most of it is in an unsupported language
        programs = [("js", extract_ejs(source.text))]
    elif source.name.endswith(".blade.php"):
        programs = [("php", extract_blade(source.text))]
    elif source.suffix in _PAGES:
        programs = [("js", script) for script in extract_page_scripts(source.text)]
    elif source.suffix == ".ipynb":
        code = extract_notebook_code(source.text)
        both = ("py", code.python or ""), ("sh", code.shell)
        programs = [(language, text) for language, text in both if text.strip()]
    elif (commands := commands_in(source)) is not None:
        programs = [("sh", commands)] if commands.strip() else []
    else:
        return [_whole_program(source)]
    return [
        Source(f"{source.path}.{language}", text.encode("utf-8", "surrogateescape"))
        for language, text in programs
    ]


def _whole_program(source: Source) -> Source:
    """A file that is one program, under a name that tells its language."""
    path = path_by_language(source.path, source.data)
    if path.endswith(".bats"):
        return Source(f"{source.path}.sh", _BATS_TEST.sub(rb"\1t() {", source.data))
    if _PATTERNS["php"].search(path):
        return Source(path, extract_php(source.text).encode("utf-8", "surrogateescape"))
    if source.suffix in {".tf", ".tofu"}:
        text = insert_constants(source.text)
        return Source(path, text.encode("utf-8", "surrogateescape"))
    return source if path == source.path else Source(path, source.data)


def commands_in(source: Source) -> str | None:
    """What a shell runs of a file that is no shell script; None where it is of another kind."""
    if is_container_file(source.path, source.text):
        return extract_commands(source.text)
    path = path_by_language(source.path, source.data)
    if is_makefile(path):
        return extract_make_commands(path, source.text)
    if is_gitlab_file(source.path) or is_workflow_file(source.path):
        return extract_pipeline_commands(source.path, source.text)
    if matches(source.path, file_names("recipes")):
        return extract_recipe(source.text)
    if has_configured_commands(source.path):
        return extract_configured_commands(source.path, source.text)
    return None


def _found(program: Program | None, codes: frozenset[str]) -> Iterator[RawFinding]:
    if program is None:
        raise NotApplicable  # a name like a Makefile's, such as Makefile.PL
    source, language = program.source, program.language
    wanted = [pattern for pattern in language.patterns if pattern.code in codes]
    patterns = _likely(wanted, source)
    if not (patterns if language.prefilter else wanted):
        raise NotApplicable
    yield from find_matches(patterns, program, codes)
    if "bash" in language.grammars[source.suffix]:
        for finding in find_downloaded_scripts(source):
            if finding.code.replace("-foreign-", "-remote-") in codes:
                yield finding


def find_matches(
    patterns: Iterable[Pattern], program: Program, codes: frozenset[str] = frozenset()
) -> Iterator[RawFinding]:
    """Find matches of its language's patterns in a program, and flows of the wanted codes.

    Raises:
        Gap: after the matches, for the lines that its grammar cannot parse.
    """
    source, language = program.source, program.language
    seen = set[tuple[str, int, int]]()
    for views in program.readings:
        code, _ = views[0]
        flows = find_flows(Source(source.path, code.text.encode()), code.root, language, codes)
        for finding in join(_matches(patterns, source, views), *flows):
            if (place := (finding.code, finding.line, finding.column)) not in seen:
                seen.add(place)
                yield finding
    unread = unread_lines([whole for _, (whole, _) in program.readings])
    for group in _PATTERNS["conflict"].finditer(source.text):  # which is a finding
        first = source.text.count("\n", 0, group.start())
        unread -= {*range(first, first + group[0].count("\n") + 1)}
    # If another tool reads the language, that tool reports parse errors.
    enough = language.prefilter or len(unread) * 4 <= len(source.lines)
    if unread and not (language.tolerant and enough):
        lines = name_some([str(line + 1) for line in sorted(unread)], _NAMED_LINES)
        raise Gap(f"{NOT_PARSED} {'line' if len(unread) == 1 else 'lines'} {lines}")


def _matches(
    patterns: Iterable[Pattern], source: Source, views: tuple[_View, _View]
) -> Iterator[RawFinding]:
    for pattern in patterns:
        reading, values = views[pattern.reads_comments]
        fits = pattern.grammars is None or reading.grammar in pattern.grammars
        without = pattern.file_without
        fits &= values.has_request or not pattern.asks_for_request
        if fits and not (without and without.search(reading.text)):
            found = reading.root.find_all(dict(pattern.config))  # type: ignore[call-overload]
            names_fit = _name_conditions(pattern, reading.root) if found else lambda _: True
            for node in filter(names_fit, found):
                finding = _judged(pattern, node, values, source, reading)
                if finding is not None:
                    yield finding


def _name_conditions(pattern: Pattern, root: SgNode) -> Callable[[SgNode], bool]:
    """Whether a match has the names that the pattern demands of it in this file."""

    @cache
    def texts(name: str, wanted: bool) -> set[str]:
        rule = (pattern.only_names if wanted else pattern.except_names)[name]
        return {node.text() for node in root.find_all({"rule": dict(rule)})}  # type: ignore[call-overload]

    sides = (pattern.only_names, True), (pattern.except_names, False)
    asked = [(name, wanted) for names, wanted in sides for name in names]

    def fits(node: SgNode) -> bool:
        return all(
            (one := node.get_match(name)) is None or (one.text() in texts(name, wanted)) == wanted
            for name, wanted in asked
        )

    return fits


def find_in_shell(source: Source, added: Collection[int]) -> list[RawFinding] | None:
    """What is dangerous in a file that a shell reads; None: its grammar cannot read added lines."""
    script, found = Source(f"{source.path}.sh", source.data), list[RawFinding]()
    language = load_language(_SHIPPED, script.suffix)
    if language is None or not _holes(script, language).isdisjoint(added):
        return None
    codes = shipped_rules().codes("patterns", "security")
    with suppress(NotApplicable, Gap):
        for raw in _found(Program(script, language), codes):
            found.append(_by_origin(replace(raw, path=source.path), script))
    return found


def is_read_by_grammar(source: Source) -> bool:
    """Whether a grammar reads every line of a program as it stands."""
    language = load_language(_SHIPPED, source.suffix)
    return language is not None and not _holes(source, language)


def _holes(source: Source, language: PatternFile) -> set[int]:
    """The lines of a program that its grammar cannot read as they stand, from 1."""
    as_it_stands = replace(language, holes={}, macros=False)
    return {line + 1 for line in unread_lines(read_program(source, as_it_stands))}


def _likely(patterns: Iterable[Pattern], source: Source) -> list[Pattern]:
    """Those that may match in a file by its words and its path, which cost less than its tree."""
    path, text = without_package_names(source.path), source.text
    holds = cache(text.__contains__)  # many patterns have the same words
    return [
        pattern
        for pattern in patterns
        if (not pattern.words or any(map(holds, pattern.words)))
        and not pattern.not_in.search(path)
        and pattern.file.search(text)
        and (pattern.near is None or pattern.near.search(text))
    ]


def _judged(
    pattern: Pattern, node: SgNode, values: ValueOrigins, source: Source, reading: Reading
) -> RawFinding | None:
    """The finding for a match; None if one of the pattern's conditions does not hold."""
    span = node.range()
    first, last = span.start.line, span.end.line
    around = slice(max(0, first - _NEAR), last + 1 + _NEAR)
    if pattern.near is not None and not pattern.near.search("\n".join(source.lines[around])):
        return None
    if pattern.unless_near.search("\n".join(reading.text.split("\n")[around])):
        return None
    message, from_request = pattern.message, False
    for name, condition in pattern.where.items():
        value = node.get_match(name)
        part = None if value is None else values.holds(condition, value)
        if value is None or part is None:
            return None
        asked = replace(condition, kinds=("request",) if "request" in condition.kinds else ())
        from_request |= values.holds(asked, value) is not None
        text = " ".join(part.text().split())
        message += f": {text if len(text) <= _NAMED else text[:_NAMED] + '…'}"
    end_line = min(last, first + _SHOWN - 1) + 1
    column = span.start.column + 1
    # What is found of a whole declaration stays the same without one of its attributes.
    named = node.field("name") if node.kind() in read_names("scope_nodes") else None
    key = named.text() if named else None
    found = RawFinding(pattern.code, source.path, first + 1, message, end_line, column, key)
    return replace(found, from_request=from_request)


def insert_constants(text: str) -> str:
    """The file with locals, and defaults of variables, in place of their names."""
    constants = dict(_constants(text.split("\n")))
    if not constants:
        return text
    name = _PATTERNS["constant_name"]
    return name.sub(lambda found: constants.get(found["name"], found["name"]), text)


def _constants(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The names and values of constants that are written in one line."""
    prefix, variable = "", ""
    for line in lines:
        if block := _PATTERNS["constant_block"].match(line):
            prefix, variable = ("local.", "") if block["locals"] else ("var.", block["variable"])
        elif line.startswith("}"):
            prefix = ""
        elif prefix and (found := _PATTERNS["constant"].fullmatch(line)):
            if not variable:
                yield prefix + found["name"], found["value"]
            elif found["name"] == "default":
                yield prefix + variable, found["value"]
