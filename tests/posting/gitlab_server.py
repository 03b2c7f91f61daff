"""GitLab's API on loopback, as far as posting uses it."""

import re
from typing import Any

from tests.posting.forge_server import TOKEN, ForgeServer, Refusal

ME, OTHER = 7, 8


class GitLabServer(ForgeServer):
    """A merge request, number 12 of ``acme/shop``.

    Attributes:
        bad_lines: lines at which a discussion is refused.
        discussions: each with its first note, and its position where it stands at a line.
    """

    token_header = "PRIVATE-TOKEN", TOKEN

    def __init__(self) -> None:
        super().__init__()
        self.state = "opened"
        self.bad_lines: set[int] = set()
        self.discussions: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Answer the calls of posting."""
        path = path.removeprefix("/api/v4")
        if path == "/user":
            return {"id": ME, "username": "diffcourt"}
        path = path.removeprefix("/projects/acme/shop")
        if path == "/merge_requests/12":
            refs = {"base_sha": "b" * 40, "start_sha": "s" * 40, "head_sha": self.head}
            return {"iid": 12, "sha": self.head, "state": self.state, "diff_refs": refs}
        if path == "/merge_requests/12/diffs":
            return [
                *({"old_path": f"f{n}", "new_path": f"f{n}", "diff": ""} for n in "123"),
                {
                    "old_path": "src/old.py",
                    "new_path": "src/upload.py",
                    "diff": "@@ -38,3 +38,6 @@ def f\n a\n-b\n+c\n+d\n+e\n+f\n g\n",
                },
            ]
        if path == "/merge_requests/12/discussions":
            return self.discussions if method == "GET" else self.discuss(body)
        if path == "/merge_requests/12/notes":
            return self.add(body["body"], ME)["notes"][0]
        if found := re.fullmatch(r"/merge_requests/12/notes/(\d+)", path):
            note = self.discussions[int(found[1]) - 1]["notes"][0]
            note.update(body)
            return note
        if found := re.fullmatch(r"/merge_requests/12/discussions/d(\d+)", path):
            discussion = self.discussions[int(found[1]) - 1]
            discussion["notes"][0]["resolved"] = body["resolved"]
            return discussion
        if path == f"/repository/commits/{self.head}/statuses":
            return [one for one in self.statuses if one["name"] == query["name"]]
        if path == f"/statuses/{self.head}":
            return self.set_status(body)
        raise Refusal(404, {}, f"no route {method} {path}")

    def add(self, body: str, author: int, position: Any = None) -> dict[str, Any]:
        """Add a discussion."""
        number = len(self.discussions) + 1
        note = {"id": number, "body": body, "author": {"id": author}, "resolved": False}
        self.discussions.append({"id": f"d{number}", "notes": [note], "position": position})
        return self.discussions[-1]

    def discuss(self, body: Any) -> dict[str, Any]:
        """Start a discussion at a line, which GitLab takes only with all ids of the diff."""
        position = body["position"]
        expected = {
            "position_type": "text",
            "base_sha": "b" * 40,
            "start_sha": "s" * 40,
            "head_sha": self.head,
            "new_path": "src/upload.py",
            "old_path": "src/old.py",
            "new_line": position["new_line"],
        }
        if position != expected or position["new_line"] in self.bad_lines:
            raise Refusal(400, {}, '400 Bad request - Note {:line_code=>["can\'t be blank"]}')
        return self.add(body["body"], ME, position)

    def set_status(self, body: Any) -> Any:
        """Set a status; GitLab refuses to set the state that is there."""
        if self.statuses and self.statuses[-1]["status"] == body["state"]:
            raise Refusal(400, {}, "Cannot transition status via :succeed from :success")
        self.statuses.append({**body, "id": len(self.statuses) + 1, "status": body["state"]})
        return self.statuses[-1]
