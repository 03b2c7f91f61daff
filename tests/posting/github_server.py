"""GitHub's API on loopback, as far as posting uses it."""

import re
from typing import Any

from tests.posting.forge_server import PAGE, ForgeServer, Refusal

FIRST_COMMENT = 5_000_000_000
ME, OTHER = "diffcourt[bot]", "mallory"


def kind_of(author: str) -> str:
    """Whether an account is a person's or a program's."""
    return "Bot" if author == "robot" or author.endswith("[bot]") else "User"


class GitHubServer(ForgeServer):
    """A pull request, number 12 of ``acme/shop``.

    Attributes:
        bad_lines: lines at which a comment is refused with 422.
        permissions: login → what the person may do; others are unknown.
        runs: of the workflow that reviews.
        reruns: ids of the runs that were started again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state = "open"
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
        self.bad_lines: set[int] = set()
        self.permissions = {"alice": "write", "bob": "admin", "robot": "write", OTHER: "read"}
        self.runs: list[dict[str, Any]] = []
        self.reruns: list[int] = []

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Answer the calls of posting."""
        if path == "/graphql":
            return self.graphql(body["query"], body["variables"])
        below = path.removeprefix("/repos/acme/shop")
        if "/check-runs" in below:
            return self.check_run(method, below, query, body)
        if "/issues/" in below:
            return self.conversation(below, body)
        if below.startswith(("/actions/", "/collaborators/")):
            return self.rights_and_runs(below, query)
        if below == "/pulls/12/reviews":
            return self.review(body)
        if below == "/pulls/12/files":
            return self.files
        issue = f"{self.url}/repos/acme/shop/issues/12"
        pull = {"number": 12, "head": {"sha": self.head}, "state": self.state}
        if below == "/pulls/12":
            return {**pull, "url": f"{self.url}{path}", "issue_url": issue}
        if below == "/pulls":
            forked = query == {"state": "open", "head": "fork:topic", "per_page": "100"}
            return [pull] if forked else []
        raise Refusal(404, {}, f"no route {method} {path}")

    def check_run(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """Add, list or change check runs."""
        if found := re.search(r"/check-runs/(\d+)$", path):
            self.checks[int(found[1]) - 1].update(body)
            return self.checks[int(found[1]) - 1]
        if method == "POST":
            self.checks.append({**body, "id": len(self.checks) + 1})
            return self.checks[-1]
        url = f"{self.url}/repos/acme/shop/check-runs"
        listed = [
            {**run, "url": f"{url}/{run['id']}"}
            for run in self.checks
            if run["name"] == query["check_name"]
        ]
        return {"total_count": len(listed), "check_runs": listed}

    def rights_and_runs(self, path: str, query: dict[str, str]) -> Any:
        """What somebody may do, the runs of a head, or a run that is started again."""
        if found := re.fullmatch(r"/collaborators/(.+)/permission", path):
            if found[1] not in self.permissions:
                raise Refusal(404, {}, "is not a user")
            return {"permission": self.permissions[found[1]]}
        if path == "/actions/workflows/diffcourt.yml/runs":
            assert query["event"] == "pull_request"
            assert query["head_sha"] == self.head
            return {"total_count": len(self.runs), "workflow_runs": self.runs}
        if found := re.fullmatch(r"/actions/runs/(\d+)(/rerun)?", path):
            if found[2]:
                self.reruns.append(int(found[1]))
            url = f"{self.url}/repos/acme/shop{path}"
            return {"id": int(found[1]), "url": url, "rerun_url": f"{url}/rerun"}
        raise Refusal(404, {}, f"no route {path}")

    def conversation(self, path: str, body: Any) -> Any:
        """Add, read or change a comment of the conversation."""
        if path == "/issues/12/comments":
            return self.comment(body["body"], ME)
        number = int(path.rpartition("/")[2])
        found = [comment for comment in self.comments if comment["id"] == number]
        if not found:
            raise Refusal(404, {}, "Not Found")
        found[0].update(body or {})
        author = found[0]["author"]
        return {
            **found[0],
            "url": f"{self.url}/repos/acme/shop{path}",
            "issue_url": f"{self.url}/repos/acme/shop/issues/{found[0]['issue']}",
            "user": {"login": author, "type": kind_of(author)},
        }

    def comment(self, body: str, author: str, *, issue: int = 12) -> dict[str, Any]:
        """Add a comment to the conversation; its id is more than 32 bits hold."""
        at = "2027-03-14T09:26:53Z"
        added = {"id": FIRST_COMMENT + len(self.comments), "body": body, "author": author}
        added |= {"created_at": at, "updated_at": at, "issue": issue}
        self.comments.append(added)
        return added

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
                     {"body": one["body"], "viewerDidAuthor": one["author"] == ME,
                      "reactionGroups": [
                          {"content": name, "reactors": {"totalCount": count}}
                          for name, count in one.get("reactions", {}).items()]}]}}
                for one in self.threads
            ]  # fmt: skip
        else:
            nodes = [
                {"url": f"https://forge.example/acme/shop/pull/12#issuecomment-{one['id']}",
                 "body": one["body"], "viewerDidAuthor": one["author"] == ME,
                 "lastEditedAt": None if one["created_at"] == one["updated_at"] else "now",
                 "author": {"login": one["author"].removesuffix("[bot]"),
                            "__typename": kind_of(one["author"])}}
                for one in self.comments
            ]  # fmt: skip
        start = int(variables["after"] or 0)
        end = start + PAGE
        info = {"hasNextPage": end < len(nodes), "endCursor": str(end)}
        page = {"pageInfo": info, "nodes": nodes[start:end]}
        return {"data": {"repository": {"pullRequest": {"page": page}}}}
