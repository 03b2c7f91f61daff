"""Options and environment of every git call: no repository configuration can start a program."""

import os

from orchestrator.errors import InputError
from orchestrator.program_search import SAFE_PATH, find_program

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
    pairs = [word for key, value in _CONFIG for word in ("-c", f"{key}={value}")]
    return ["--no-pager", "--no-optional-locks", "--no-replace-objects", *pairs]
