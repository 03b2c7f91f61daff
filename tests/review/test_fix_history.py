"""What a review says when the history of base cannot be compared with what the change removes."""

from tests.review.review_kit import Repo, review


async def test_a_shallow_clone_is_a_note_and_no_gap(tmp_path):
    whole = Repo(tmp_path / "whole")
    for number in range(3):
        whole.commit({"pay.py": f"A = {number}\n"})
    clone = tmp_path / "clone"
    whole.git("clone", "-q", "--depth=2", f"file://{whole.path}", str(clone))
    verdict = await review(Repo(clone))
    assert verdict.status == "complete"
    assert verdict.change.notes == (
        "lost lines were not compared with earlier security fixes: "
        "this clone is shallow and lacks history",
    )
