"""What security fixes in the history of base did to the files of a change."""

import pytest
from msgspec.structs import replace

from orchestrator.code_review.change.change_construction import from_refs, from_worktree
from orchestrator.code_review.change.security_fixes import MAX_FILES, find_past_fixes

OPEN = "def read(name):\n    return open(ROOT / name)\n"
SAFE = "def read(name):\n    return open(ROOT / secure(name))\n"
FIX = "Fix path traversal\n\nIt has an advisory: CVE-2021-12345."


@pytest.fixture
def fixed(repo):
    """A repository whose second commit is a fix, and whose third has nothing to do with it."""
    repo.commit({"src/files.py": OPEN})
    say(repo, {"src/files.py": SAFE}, FIX)
    say(repo, {"src/files.py": SAFE + "\n\nSIZE = 1\n"}, "Add a size")
    return repo


def say(repo, files, message):
    repo.commit(files)
    repo.git("commit", "--quiet", "--amend", "--allow-empty", "-m", message)


async def past(repo, path="src/files.py", base="HEAD", also=()):
    repo.commit({"other.py": "a = 1\n"})
    change = await from_refs(repo.root, f"{base}~1" if base == "HEAD" else base, None)
    return await find_past_fixes(change, {path}, {path, *also})


async def test_a_fix_is_found_with_the_lines_that_it_added_and_removed(fixed):
    (fix,), unsearched = await past(fixed)
    assert unsearched == ""
    assert (fix.path, fix.statement, fix.subject) == (
        "src/files.py",
        "security",
        "Fix path traversal",
    )
    assert (fix.commit, fix.date) == (fixed.oid("HEAD~2"), "2024-05-06")
    assert fix.identifiers == ("CVE-2021-12345",)
    assert fix.added == ("    return open(ROOT / secure(name))",)
    assert fix.removed == ("    return open(ROOT / name)",)


async def test_uncommitted_work_is_compared_with_the_history_of_its_base(fixed, tmp_path):
    fixed.write("src/files.py", OPEN)
    change = await from_worktree(fixed.root, None, tmp_path / "objects")
    assert [fix.commit for fix in (await find_past_fixes(change, {"src/files.py"}, ()))[0]] == [
        fixed.oid("HEAD~1")
    ]


async def test_a_fix_that_the_change_brings_itself_is_no_history(fixed):
    assert await past(fixed, base="HEAD~3") == ((), "")


async def test_a_revert_is_no_fix_and_its_revert_is_one(fixed):
    say(fixed, {"src/files.py": OPEN}, f'Revert "{FIX}"')
    say(fixed, {"src/files.py": SAFE + "\n"}, f'Revert "Revert "{FIX}""')
    fixes, _ = await past(fixed)
    assert [fix.commit for fix in fixes] == [fixed.oid("HEAD~1"), fixed.oid("HEAD~4")]


async def test_a_merged_fix_is_what_the_merge_brought_to_its_first_parent(repo):
    repo.commit({"src/files.py": OPEN, "a.py": "a = 1\n"})
    repo.git("checkout", "--quiet", "-b", "advisory")
    repo.commit({"src/files.py": SAFE})
    repo.git("checkout", "--quiet", "main")
    repo.commit({"a.py": "a = 2\n"})
    message = "Merge pull request from GHSA-2345-6789-cfgh"
    repo.git("merge", "--quiet", "--no-ff", "-m", message, "advisory")
    (fix,), _ = await past(repo)
    assert (fix.subject, fix.path) == (message, "src/files.py")
    assert fix.added == ("    return open(ROOT / secure(name))",)


async def test_a_file_that_was_moved_since_keeps_its_fixes(fixed):
    fixed.git("mv", "src", "lib")
    assert [fix.path for fix in (await past(fixed, "lib/files.py"))[0]] == ["lib/files.py"]
    assert await past(fixed, "lib/files.py", also=["src/files.py"]) == ((), "")
    assert await past(fixed, "lib/renamed.py") == ((), "")


async def test_a_commit_over_many_files_or_without_a_parent_is_no_fix(repo):
    many = {f"m{number}.py": "a = 1\n" for number in range(MAX_FILES)}
    say(repo, {"src/files.py": OPEN}, FIX)
    say(repo, {"src/files.py": SAFE, **many}, FIX)
    assert await past(repo) == ((), "")


async def test_history_that_cannot_be_searched_is_reported(fixed, tmp_path):
    shallow = fixed.clone(tmp_path / "shallow", "--depth=1")
    fixes, unsearched = await past(shallow)
    assert not fixes
    assert unsearched == "this clone is shallow and lacks history"
    change = await from_refs(fixed.root, "HEAD~1", None)
    for without in (replace(change, base="empty tree"), replace(change, has_tree=False)):
        fixes, unsearched = await find_past_fixes(without, {"src/files.py"}, ())
        assert not fixes
        assert unsearched == "the change has no base commit, so no history"


async def test_history_that_is_damaged_is_said_and_ends_nothing(fixed):
    tree = fixed.oid("HEAD~1^{tree}")
    (fixed.root / ".git/objects" / tree[:2] / tree[2:]).unlink()
    fixes, unsearched = await past(fixed)
    assert not fixes
    assert unsearched.startswith("the history of base could not be searched: ")
