"""What each sandbox level prevents and what it does not, for ``diffcourt doctor``."""

from msgspec import Struct

from orchestrator.data_directories import read_table
from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, kernel_calls, run_program
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.process_confinement import is_available
from orchestrator.sandbox.program_permissions import Permissions

_LEVELS = read_table(__file__, "level_descriptions.yaml")
TRIAL = "/bin/true"


class SandboxReport(Struct, frozen=True):
    """The sandbox level of this machine, and what it prevents.

    Attributes:
        level: empty when none is allowed; then ``reason`` says why.
        reason: why it is not the best level.
        prevents, does_not_prevent: what it stops hostile code from, and what not.
        hint: a command that would improve it; empty when none would.
        limits: which limits hold for all programs together, and why not the others, in one line.
        refusal: why a program that was run for a trial was refused; empty when it was not.
    """

    level: str
    reason: str
    prevents: tuple[str, ...]
    does_not_prevent: tuple[str, ...]
    hint: str
    limits: str
    refusal: str = ""


async def try_program() -> str:
    """Run a program in the sandbox; why it was refused or failed, empty when it was not."""
    try:
        done = await run_program.run([TRIAL], permissions=Permissions())
    except SandboxError as error:
        return str(error)
    return f"{TRIAL} ended with {done.code}" if done.code else ""


def describe_sandbox() -> SandboxReport:
    """Start the sandbox and describe it."""
    hint = bubblewrap.INSTALL_HINT if bubblewrap.find_bwrap() is None and is_available() else ""
    try:
        level = SANDBOX.level
    except SandboxError as error:
        return SandboxReport("", str(error), (), (), hint, "")
    if not hint and level == "landlock" and SANDBOX.level_reason:
        hint = f"sudo {bubblewrap.ALLOW_NAMESPACES}   (on Ubuntu; else see docs/tests.md)"
    leaves = list(_LEVELS["does_not_prevent"][level])
    if level == "landlock" and not kernel_calls.can_change_user():
        if "pids" not in SANDBOX.controllers:
            leaves.append(_LEVELS["shared_count"])
        if kernel_calls.landlock_version() < 6:
            leaves.append(_LEVELS["old_signals"])
    prevents = tuple(_LEVELS["prevents"][level])
    limits = describe_shared_limits()
    return SandboxReport(level, SANDBOX.level_reason, prevents, tuple(leaves), hint, limits)


def describe_shared_limits() -> str:
    """Which limits hold for all programs together, and why not the others."""
    bounds = SANDBOX.limits
    names = {
        "memory": f"{bounds.memory >> 20} MB of memory",
        "pids": f"{bounds.processes} processes",
        "cpu": "a fair share of the processors",
    }
    held = [names[name] for name in names if name in SANDBOX.controllers]
    text = f"all programs together: {', '.join(held)}" if held else "each program separately"
    return f"{text}; {SANDBOX.missing_limits_reason}" if SANDBOX.missing_limits_reason else text
