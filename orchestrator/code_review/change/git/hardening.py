"""Options and environment of every git call: no repository configuration can start a program."""

import os

from diffchecks.skipped_files import BIG_FILE_BYTES
from orchestrator.data_directories import read_table
from orchestrator.errors import InputError
from orchestrator.program_search import SAFE_PATH, find_program

# Before 2.31 git prints no absolute paths (rev-parse --path-format).
MINIMUM = (2, 31)

OPTIONS = read_table(__file__, "options.yaml")
"""What ``options.yaml`` says of git's configuration, environment and commands."""
ENVIRONMENT: dict[str, str] = OPTIONS["environment"]
PLAIN_DIFF: tuple[str, ...] = tuple(OPTIONS["diff"])

# No index and no work tree: attributes of the checkout (the change's own) must not steer a diff.
NO_INDEX = "/nonexistent/index"


def find_git() -> str:
    """Absolute path of git, found on PATH outside of the repository under review."""
    path = os.environ.get("PATH", SAFE_PATH)
    if found := find_program("git", path):
        return found
    if inside := find_program("git", path, in_checkout=True):
        raise InputError(
            f"the only git on PATH is in the repository under review ({inside}), from which "
            "nothing is run; install git 2.31 or later elsewhere"
        )
    raise InputError("git is not installed or not on PATH; install git 2.31 or later")


def hardened_options() -> list[str]:
    """git's own options, before the command's name."""
    config = {**OPTIONS["config"], "core.bigFileThreshold": BIG_FILE_BYTES}
    pairs = [word for key, value in config.items() for word in ("-c", f"{key}={value}")]
    return ["--no-pager", "--no-optional-locks", "--no-replace-objects", *pairs]
