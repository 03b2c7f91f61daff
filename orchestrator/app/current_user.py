"""Who sits here."""

from __future__ import annotations

import getpass
import os
import socket


def current_user() -> str:
    """The name by which the system knows whoever started this command, and the machine's."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user that no table names; OSError from Python 3.13
        name = f"user {os.getuid()}"
    return f"{name} on {socket.gethostname()}"
