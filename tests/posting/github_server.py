"""GitHub's API on loopback, as far as posting uses it: pages, rate limits, refusals, lost replies."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

HEAD = "9d0e4f2a1b2c3d4e5f60718293a4b5c6d7e8f901"
ME, OTHER = "diffcourt[bot]", "mallory"
PAGE = 2
"""Entries of a page, whatever is asked for."""


class GitHubServer:
    """A pull request, number 12 of ``acme/shop``; every call is listed.

    Attributes:
        refuse: (method, part of the path) → what the next such calls are answered, as
            (status, headers, message); what is performed first has "performed" in its headers.
        bad_lines: lines at which a comment is refused with 422.
    """

    def __init__(self) -> None:
        self.head, self.state = HEAD, "open"
        self.files = [{"filename": f"src/f{n}.py", "patch": "@@ -1 +1,2 @@\n a\n+b"} for n in "123"]
        self.files.append(
            {
                "filename": "src/upload.py",
                "patch": "@@ -38,3 +38,5 @@ def f\n a\n-b\n+c\n+d\n e\n+f\n\\ No newline",
            }
        )
        self.files.append({"filename": "large.bin"})
        self.comments: list[dict[str, Any]] = []
        self.threads: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.refuse: dict[tuple[str, str], list[tuple[int, dict[str, str], str]]] = {}
        self.bad_lines: set[int] = set()
        self.url = ""

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """The document that a call is answered with.

        Raises:
            Refusal: it is refused.
        """
        if path == "/graphql":
            return self.graphql(body["query"], body["variables"])
        if path.endswith("/pulls/12"):
            return {"head": {"sha": self.head}, "state": self.state, "url": f"{self.url}{path}",
                    "issue_url": f"{self.url}/repos/acme/shop/issues/12"}  # fmt: skip
        if path.endswith("/pulls/12/files"):
            return self.files
        if path.endswith("/pulls/12/reviews"):
            return self.review(body)
        if path.endswith("/check-runs"):
            if method == "POST":
                self.checks.append({**body, "id": len(self.checks) + 1})
                return self.checks[-1]
            runs = [run for run in self.checks if run["name"] == query["check_name"]]
            url = f"{self.url}/repos/acme/shop/check-runs"
            listed = [{**run, "url": f"{url}/{run['id']}"} for run in runs]
            return {"total_count": len(listed), "check_runs": listed}
        if found := re.search(r"/check-runs/(\d+)$", path):
            self.checks[int(found[1]) - 1].update(body)
            return self.checks[int(found[1]) - 1]
        if path.endswith("/issues/12/comments"):
            return self.comment(body["body"], ME)
        if found := re.search(r"/issues/comments/(\d+)$", path):
            comment = self.comments[int(found[1]) - 1]
            comment.update(body or {})
            return {**comment, "url": f"{self.url}{path}"}
        raise Refusal(404, {}, f"no route {method} {path}")

    def comment(self, body: str, author: str) -> dict[str, Any]:
        """Add a comment to the conversation."""
        self.comments.append({"id": len(self.comments) + 1, "body": body, "author": author})
        return self.comments[-1]

    def review(self, body: Any) -> Any:
        """Add a review's comments, all or none."""
        assert body["event"] == "COMMENT"
        if any(comment["line"] in self.bad_lines for comment in body["comments"]):
            raise Refusal(422, {}, "Unprocessable: pull_request_review_thread.line must be part")
        for comment in body["comments"]:
            self.thread(comment, ME)
        return {"id": 1}

    def thread(self, comment: dict[str, Any], author: str) -> None:
        """Add a comment at a line."""
        number = f"T{len(self.threads) + 1}"
        self.threads.append({"id": number, "resolved": False, "author": author, **comment})

    def graphql(self, query: str, variables: dict[str, Any]) -> Any:
        """The three queries and mutations of posting."""
        if "resolveReviewThread" in query:
            (thread,) = [t for t in self.threads if t["id"] == variables["input"]["threadId"]]
            thread["resolved"] = True
            return {"data": {"resolveReviewThread": {"thread": {"isResolved": True}}}}
        if "reviewThreads" in query:
            nodes = [
                {"id": one["id"], "isResolved": one["resolved"],
                 "comments": {"nodes": [
                     {"body": one["body"], "viewerDidAuthor": one["author"] == ME}]}}
                for one in self.threads
            ]  # fmt: skip
        else:
            nodes = [
                {"databaseId": one["id"], "body": one["body"],
                 "viewerDidAuthor": one["author"] == ME}
                for one in self.comments
            ]  # fmt: skip
        start = int(variables["after"] or 0)
        end = start + PAGE
        info = {"hasNextPage": end < len(nodes), "endCursor": str(end)}
        page = {"pageInfo": info, "nodes": nodes[start:end]}
        return {"data": {"repository": {"pullRequest": {"page": page}}}}


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, headers: dict[str, str], message: str) -> None:
        super().__init__(message)
        self.status, self.headers, self.message = status, headers, message


class Handler(BaseHTTPRequestHandler):
    """Answers calls from a ``GitHubServer``."""

    github: GitHubServer

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def handle_call(self) -> None:
        """Answer one call."""
        path, _, raw = self.path.partition("?")
        query = dict(part.split("=", 1) for part in raw.split("&") if part)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.github.calls.append(f"{self.command} {path}")
        assert self.headers["Authorization"] == "token s3cret-t0ken"
        try:
            self.refuse(path, query, body)
            document = self.github.answer(self.command, path, query, body)
        except Refusal as refusal:
            self.send(refusal.status, refusal.headers, {"message": refusal.message})
            return
        self.send(200, *self.page(path, query, document))

    def refuse(self, path: str, query: dict[str, str], body: Any) -> None:
        """Refuse the call where the test says so."""
        for (method, part), answers in self.github.refuse.items():
            if method == self.command and part in path and answers:
                status, headers, message = answers.pop(0)
                if headers.pop("performed", ""):
                    self.github.answer(self.command, path, query, body)
                raise Refusal(status, headers, message)

    def page(self, path: str, query: dict[str, str], document: Any) -> tuple[dict[str, str], Any]:
        """One page of a list, with the address of the next one."""
        if not isinstance(document, list):
            return {}, document
        start = (int(query.get("page", "1")) - 1) * PAGE
        headers = {}
        if start + PAGE < len(document):
            following = f"{self.github.url}{path}?page={start // PAGE + 2}"
            headers["Link"] = f'<{following}>; rel="next"'
        return headers, document[start : start + PAGE]

    def send(self, status: int, headers: dict[str, str], document: Any) -> None:
        """Send a document."""
        data = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = handle_call  # noqa: N815 - names of the standard library


@contextmanager
def serving(server: GitHubServer) -> Iterator[GitHubServer]:
    """Serve on loopback; ``server.url`` is its address."""
    handler = type("Bound", (Handler,), {"github": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        server.url = f"http://127.0.0.1:{http.server_port}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
