"""Options and environment of every git call: no repository configuration can start a program."""

import os
from collections.abc import Iterable
from pathlib import Path

from orchestrator.errors import InputError
from orchestrator.sandbox.process_start import SAFE_PATH, find_program

# Before 2.31 git prints no absolute paths (rev-parse --path-format).
MINIMUM = (2, 31)

BIG_FILE_BYTES = 5 << 20  # bytes; git neither diffs a larger file nor holds it whole

_CONFIG = (
    ("attr.tree", ""),  # from 2.43 a bare repository would take attributes from HEAD
    ("core.bigFileThreshold", str(BIG_FILE_BYTES)),
    ("core.checkStat", "default"),
    ("core.commitGraph", "false"),  # it is believed before the commits themselves
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.ignoreStat", "false"),
    ("core.multiPackIndex", "false"),
    ("core.pager", "cat"),
    ("core.quotePath", "false"),
    ("core.safecrlf", "false"),  # a mixed line end is the reviewers' affair, not a fatal error
    ("core.splitIndex", "false"),
    ("core.trustctime", "true"),
    ("core.untrackedCache", "false"),
    ("core.warnAmbiguousRefs", "true"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gpg.program", "false"),
    ("index.sparse", "false"),
    ("log.showSignature", "false"),
    ("pack.useBitmaps", "false"),
    ("protocol.allow", "never"),
    ("safe.directory", "*"),
    ("submodule.recurse", "false"),
)

ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # unlike protocol.allow, no repository can override this one
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}

# No index and no work tree: attributes of the checkout (the change's own) must not steer a diff.
NO_INDEX = "/nonexistent/index"


def find_git(within: Iterable[Path] = ()) -> str:
    """Absolute path of git, found on the absolute entries of PATH only.

    Args:
        within: the repository's directories; a git in them could be part of the change.
    """
    found = find_program("git", os.environ.get("PATH", SAFE_PATH))
    if found is None:
        raise InputError("git is not installed or not on PATH; install git 2.31 or later")
    real = Path(found).resolve()
    if any(real.is_relative_to(p.resolve()) or Path(found).is_relative_to(p) for p in within):
        raise InputError(
            f"the git on PATH is in the repository under review ({found}); "
            "remove that directory from PATH"
        )
    return found


def hardened_options() -> list[str]:
    """git's own options, before the command's name."""
    pairs = [word for key, value in _CONFIG for word in ("-c", f"{key}={value}")]
    return ["--no-pager", "--no-optional-locks", "--no-replace-objects", *pairs]
