"""Forgejo's API on loopback, as far as posting uses it."""

import re
from typing import Any

from tests.posting.forge_server import PAGE, ForgeServer, Refusal

ME, OTHER = 7, 8
DIFF = """\
diff --git a/src/other.py b/src/other.py
--- a/src/other.py
+++ b/src/other.py
@@ -1 +1,2 @@
 a
+++ b/src/forged.py
diff --git a/src/upload.py b/src/upload.py
--- a/src/upload.py
+++ b/src/upload.py
@@ -38,3 +38,6 @@ def f
 a
-b
+c
+d
+e
+f
 g
"""


class ForgejoServer(ForgeServer):
    """A pull request, number 12 of ``acme/shop``."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "open"
        self.comments: list[dict[str, Any]] = []
        self.reviews: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self.listed: list[dict[str, Any]] = []
        self.bad_lines: set[int] = set()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Answer the calls of posting; its lists are not cut again by ``Handler.page``."""
        if path == "/api/v1/repos/acme/shop/pulls":
            return self.listed
        found = self.find(method, path.removeprefix("/api/v1"), body)
        if isinstance(found, list):
            start = (int(query["page"]) - 1) * PAGE
            query.clear()
            return found[start : start + PAGE]
        return found

    def find(self, method: str, path: str, body: Any) -> Any:
        """The whole document of a call."""
        if path == "/user":
            return {"id": ME, "login": "diffcourt"}
        path = path.removeprefix("/repos/acme/shop")
        if path == "/pulls/12":
            return {"head": {"sha": self.head}, "state": self.state}
        if path == "/pulls/12.diff":
            return DIFF
        if path == "/issues/12/comments":
            return self.comments if method == "GET" else self.comment(body["body"], ME)
        if found := re.fullmatch(r"/issues/comments/(\d+)", path):
            self.comments[int(found[1]) - 1].update(body)
            return self.comments[int(found[1]) - 1]
        if path == "/pulls/12/reviews":
            return self.reviews if method == "GET" else self.review(body, ME)
        if found := re.fullmatch(r"/pulls/12/reviews/(\d+)/comments", path):
            return self.reviews[int(found[1]) - 1]["comments"]
        if path == f"/commits/{self.head}/statuses":
            return self.statuses[::-1]
        if path == f"/statuses/{self.head}":
            entry = {**body, "status": body["state"], "id": len(self.statuses) + 1}
            self.statuses.append(entry)
            return entry
        raise Refusal(404, {}, f"no route {method} {path}")

    def comment(self, body: str, author: int) -> dict[str, Any]:
        """Add a comment to the conversation."""
        number = len(self.comments) + 1
        self.comments.append({"id": number, "body": body, "user": {"id": author}})
        return self.comments[-1]

    def review(self, body: Any, author: int) -> dict[str, Any]:
        """Add a review's comments, all or none."""
        if any(comment.get("new_position") in self.bad_lines for comment in body["comments"]):
            raise Refusal(422, {}, "the line is not part of the diff")
        number = len(self.reviews) + 1
        comments = [
            {"id": number * 100 + place, "resolver": None, **comment}
            for place, comment in enumerate(body["comments"])
        ]
        self.reviews.append({"id": number, "user": {"id": author}, "comments": comments})
        return {"id": number}
