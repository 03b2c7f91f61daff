"""The whole service on this machine, and one pull request reviewed from its webhook to its post.

    make serve        runs until Ctrl-C
    make serve ARGS=--once

A database, ``diffcourt serve`` and ``diffcourt work`` are real; the forge is a stand-in on loopback,
from which the worker clones over HTTP. A database of yours is used where DIFFCOURT_SAMPLE_DATABASE
holds its address.
"""

import argparse
import hashlib
import hmac
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx2

from tests.posting.forge_server import serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import SECRET, Service
from tests.stores.postgres_server import server as postgres_server

DATABASE = "DIFFCOURT_SAMPLE_DATABASE"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def cloneable(service: Service) -> Iterator[str]:
    """The repository's address over HTTP, as files."""
    bare = service.folder / "bare.git"
    service.repo.git("clone", "--quiet", "--mirror", str(service.repo.path), str(bare))
    service.repo.git("-C", str(bare), "update-server-info")
    handler = partial(_Quiet, directory=str(service.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as files:
        Thread(target=files.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{files.server_port}/bare.git"
        files.shutdown()


def open_request(service: Service, url: str, clone_url: str) -> None:
    """Tell the server of a pull request, as the forge would."""
    repository = {"full_name": "acme/shop", "clone_url": clone_url}
    request = {
        "number": 12,
        "title": "Run a command",
        "body": "So that people can.",
        "head": {"sha": service.head},
        "base": {"sha": service.base, "repo": repository},
    }
    body = json.dumps({"action": "opened", "pull_request": request}).encode()
    answer = httpx2.post(
        f"{url}/webhooks/forge",
        content=body,
        headers={
            "X-Forgejo-Event": "pull_request",
            "X-Forgejo-Delivery": "sample-1",
            "X-Forgejo-Signature": hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
        },
    )
    print(f"webhook: {answer.status_code}, {answer.text.strip()}")


def run_sample(address: str, folder: Path, *, once: bool) -> None:
    """Review the sample request; then keep the service running, unless ``once``."""
    began = time.monotonic()
    with serving(ForgejoServer()) as forge:
        service = Service(address, folder, forge)
        service.configure("enqueuing: {debounce: 0}")
        with cloneable(service) as clone_url, service.server() as url, service.worker():
            open_request(service, url, clone_url)
            service.wait(service.is_posted)
            took = time.monotonic() - began
            print(f"posted after {took:.1f} s: {forge.statuses[-1]['description']}\n")
            print(forge.comments[-1]["body"].split("\n\n<!--")[0])
            if not once:
                print(f"\nThe server is at {url} (/metrics, /readyz). Ctrl-C ends it.")
                with suppress(KeyboardInterrupt):
                    while True:
                        time.sleep(1)


def main(argv: list[str]) -> int:
    """Run the sample with a database of its own, or the one of the environment."""
    parser = argparse.ArgumentParser(prog="make serve", allow_abbrev=False)
    parser.add_argument("--once", action="store_true", help="end after the sample request")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="diffcourt-") as folder:
        if address := os.environ.get(DATABASE):
            run_sample(address, Path(folder), once=args.once)
        else:
            with postgres_server() as postgres:
                run_sample(postgres.fresh("sample"), Path(folder), once=args.once)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
