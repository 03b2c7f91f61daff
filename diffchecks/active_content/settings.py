"""Settings that run a program as soon as a tool reads them."""

import re
from collections.abc import Iterator
from functools import cache

from msgspec import Struct, convert

from diffchecks.check_io import RawFinding, Source
from diffchecks.data_files import read_yaml


class ProgramSetting(Struct, frozen=True):
    """A line of a settings file that has a program run: ``tables/program_settings.yaml``.

    Attributes:
        files: matches the paths of such files, from any directory on.
        line: matches the beginning of the line, in any case.
        message: what it does.
        text: must match in the file.
        code: the finding's.
    """

    files: str
    line: str
    message: str
    text: str = ""
    code: str = "run-setting"


@cache
def load_settings() -> list[tuple[re.Pattern[str], re.Pattern[str], ProgramSetting]]:
    """Load the settings, with their compiled expressions for paths and lines."""
    return [
        (
            re.compile(rf"(?:.*/)?(?:{setting.files})", re.DOTALL),
            re.compile(setting.line, re.IGNORECASE),
            setting,
        )
        for setting in convert(read_yaml("program_settings.yaml"), list[ProgramSetting])
    ]


def find_settings(source: Source) -> Iterator[RawFinding]:
    """The settings of a file that have a program run, the first of each kind."""
    for files, begins, setting in load_settings():
        if not files.fullmatch(source.path) or not re.search(setting.text, source.text):
            continue
        for number, line in enumerate(source.lines, 1):
            if len(line) < 2000 and begins.match(line):
                yield RawFinding(setting.code, source.path, number, setting.message)
                break
