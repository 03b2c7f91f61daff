"""What a repository's configuration may do: only what a user, a variable or a CI job allows."""

import os
import pwd
from pathlib import Path

import pytest

from orchestrator.app.configuration_consent import (
    allowed_servers,
    decide_consent,
    private_paths,
    read_answer,
)
from orchestrator.errors import InputError
from tests.review.review_kit import options

CI = {"CI": "true", "GITHUB_ACTIONS": "true"}
CONSENTS = {
    "run_tests": "DIFFCOURT_RUN_TESTS",
    "run_analyzers": "DIFFCOURT_RUN_ANALYZERS",
    "allow_spending": "DIFFCOURT_ALLOW_SPENDING",
}
NONE = dict.fromkeys(CONSENTS, False)
ALL = dict.fromkeys(CONSENTS, True)


def decided(environment: dict[str, str], **given: bool) -> dict[str, bool | None]:
    made = decide_consent(options(None, **given), environment)
    return {name: getattr(made, name) for name in CONSENTS}


def test_nothing_is_allowed_by_default_and_everything_in_a_job_of_ci() -> None:
    assert decided({}) == NONE
    assert decided(CI) == ALL


@pytest.mark.parametrize(("name", "variable"), CONSENTS.items())
def test_a_variable_allows_or_forbids_one_thing_and_an_option_goes_before_it(
    name: str, variable: str
) -> None:
    assert decided({variable: "1"}) == {**NONE, name: True}
    assert decided({variable: " TRUE "}) == {**NONE, name: True}
    assert decided({**CI, variable: "0"}) == {**ALL, name: False}
    assert decided({**CI, variable: "false"}) == {**ALL, name: False}
    assert decided({**CI, variable: ""}) == ALL
    assert decided({variable: "1"}, **{name: False}) == NONE
    assert decided({**CI, variable: "0"}, **{name: True}) == ALL


@pytest.mark.parametrize("given", ["DIFFCOURT_RUN_TEST", "DIFFCOURT_RUN_TESTS_"])
def test_a_misspelled_variable_is_an_error_before_it_allows_anything(given: str) -> None:
    environment = {"HOME": "/", "DIFFCOURT_RUN_TESTS": "1", "DIFFCOURT_STORE": "x", given: "0"}
    with pytest.raises(InputError) as refused:
        decided({**CI, **environment})
    assert str(refused.value) == f"there is no variable {given}; did you mean DIFFCOURT_RUN_TESTS?"


def test_a_variable_of_another_program_or_purpose_is_none_of_these() -> None:
    others = {"RUN_TESTS": "x", "XDIFFCOURT_RUN_TESTS": "x", "DIFFCOURT_RUN_THE_REST": "x"}
    assert decided(others) == NONE


def test_an_answer_is_one_or_zero() -> None:
    assert read_answer("V", {}) is None
    assert read_answer("V", {"V": " True\n"}) is True
    assert read_answer("V", {"V": "FALSE"}) is False
    with pytest.raises(InputError) as refused:
        read_answer("V", {"V": "yes, and more than twenty"})
    assert str(refused.value) == "V must be 1 or 0, not 'yes, and more than t'"


def test_servers_are_named_by_the_variable_one_by_one() -> None:
    assert allowed_servers({"DIFFCOURT_MCP": "files, shell"}) == {"files", "shell"}
    assert "" not in allowed_servers({"DIFFCOURT_MCP": "files"})
    assert allowed_servers({}) == {""}


def test_home_key_state_and_cache_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = pwd.getpwuid(os.geteuid()).pw_dir
    environment = {
        "HOME": "/somewhere",
        "DIFFCOURT_AUDIT_KEY_FILE": "/keys/audit",
        "XDG_CACHE_HOME": "/cache",
        "XDG_STATE_HOME": "/state",
    }
    others = (Path("/cache/diffcourt"), Path("/state/diffcourt"))
    found = private_paths(tmp_path, environment)
    assert found == (tmp_path, Path("/somewhere"), Path(home), Path("/keys/audit"), *others)
    # What is no absolute path is nobody's; what is named twice is one.
    relative = {**environment, "HOME": home, "DIFFCOURT_AUDIT_KEY_FILE": "keys"}
    assert private_paths(tmp_path, relative) == (tmp_path, Path(home), *others)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/below")
    defaults = (Path("/below/.cache/diffcourt"), Path("/below/.local/state/diffcourt"))
    assert private_paths(None, {}) == (tmp_path, Path(home), *defaults)


def test_a_user_without_an_entry_or_a_home_has_fewer_private_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setenv("HOME", "nowhere")
    assert private_paths(tmp_path, {}) == (tmp_path,)
