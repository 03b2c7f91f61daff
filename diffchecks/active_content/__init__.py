"""What runs although nobody takes it for a program.

Scripts in images and prose, commands in settings of any format and in other programs, and settings
that name a program to be run.
"""

from collections.abc import Iterator

from diffchecks.active_content.commands import find_commands
from diffchecks.active_content.markup import find_scripts
from diffchecks.active_content.settings import find_settings
from diffchecks.check_io import CheckReply, RawFinding, Source, check_files
from diffchecks.jobs import SideJob


def find_active_content(source: Source) -> Iterator[RawFinding]:
    """All findings in one file."""
    yield from find_scripts(source)
    yield from find_settings(source)
    yield from find_commands(source)


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, find_active_content)
