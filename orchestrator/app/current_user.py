"""The name of the user and the machine, as approvals and the audit trail record it."""

from __future__ import annotations

import getpass
import os
import socket


def current_user() -> str:
    """The login name of the user who started this command, and the name of the machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without an entry in passwd; OSError from Python 3.13
        name = f"user {os.getuid()}"
    return f"{name} on {socket.gethostname()}"
