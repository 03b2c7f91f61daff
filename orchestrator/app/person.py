"""Who sits here."""

from __future__ import annotations

import getpass
import socket


def this_person() -> str:
    """The name by which the system knows whoever started this command, and the machine's."""
    return f"{getpass.getuser()} on {socket.gethostname()}"
