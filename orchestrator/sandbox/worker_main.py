"""What a worker process runs: one JSON line in, one JSON line out, until its input ends.

Started as a file, isolated (``-I``), with the folder to import checks from as its one argument. It
imports nothing of this package itself, so that it starts fast and a check is all it can break.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any, BinaryIO

READY = b'{"ready": true}\n'
OUT_OF_MEMORY = 71


def _protocol_streams() -> tuple[BinaryIO, BinaryIO]:
    """Keep the two pipes for the protocol; what a check prints or reads goes to the null device."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)
    return requests, replies


def _answer(request: dict[str, Any]) -> str:
    """The reply to one request: what the check returned, or its exception in one line."""
    number, (module, _, function) = request["id"], request["function"].partition(":")
    try:
        result = getattr(importlib.import_module(module), function)(request["job"])
        return json.dumps({"id": number, "result": result})
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # a starved interpreter is not worth another check
    except Exception as fault:
        name, line = module.rpartition(".")[2], " ".join(str(fault).split())
        return json.dumps({"id": number, "error": f"{name}: {type(fault).__name__}: {line:.500}"})


def main() -> None:
    """Serve requests until the input ends.

    An alarm ends the process a second after a request's own time: a parent that was killed cannot
    end a check that never returns, and a check deep in C code lets no Python code run.
    """
    sys.path.insert(0, sys.argv[1])
    requests, replies = _protocol_streams()
    replies.write(READY)
    replies.flush()
    for line in requests:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1)
        reply = _answer(request).encode("ascii")
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(reply + b"\n")
        replies.flush()


if __name__ == "__main__":
    main()
