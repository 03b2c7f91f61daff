"""What the guard of claims reads of a run, and when."""

from orchestrator.guards.plain_text_guards import ClaimGuard, ClaimRule

TESTS = ClaimRule("test run", ["tests"], frozenset({"run_tests"}))


def test_what_ran_is_read_only_for_a_sentence_that_claims_something() -> None:
    """It is read from the whole journal: for each text, the time would grow with their square."""
    asked: list[int] = []

    def ran() -> frozenset[str]:
        asked.append(1)
        return frozenset()

    guard = ClaimGuard([TESTS], ran)
    assert guard.detect("The loop never ends. It is not known whether the tests pass.") is None
    assert asked == []
    assert guard.detect("All tests pass.") is not None
    assert asked == [1]
