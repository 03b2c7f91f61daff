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
from contextlib import suppress
from pathlib import Path

import httpx2

from tests.posting.forge_server import serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.service_kit import SECRET, Service
from tests.stores.postgres_server import server as postgres_server

DATABASE = "DIFFCOURT_SAMPLE_DATABASE"


def make_cloneable(service: Service) -> None:
    """Have the forge serve the repository over HTTP, as files."""
    service.forge.folder = service.folder
    bare = service.folder / service.clone_url.removeprefix(f"{service.forge.url}/")
    service.repo.git("clone", "--quiet", "--mirror", str(service.repo.path), str(bare))
    service.repo.git("-C", str(bare), "update-server-info")


def open_request(service: Service, url: str) -> None:
    """Tell the server of a pull request, as the forge would."""
    request = service.pull_request(head={"sha": service.head}, title="Run a command")
    body = json.dumps(request).encode()
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
        make_cloneable(service)
        with service.server() as url, service.worker():
            open_request(service, url)
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
