"""Models and prices are policy as all other files: checked with them, and part of what decided."""

import pytest

from orchestrator.cli.main import main
from tests.review.review_kit import change

FAULTY = {
    "config/models.yaml": "calls:\n  attempts: none\n",
    "config/prices.yaml": "prices:\n  m: {input: -1}\n",
}
DEARER = "prices:\n  gpt-6-luna: {input: 0.15}\n"


def test_the_faults_of_both_files_are_found_with_those_of_the_others(faults_of):
    found = faults_of({**FAULTY, "config/defaults.yaml": "bounds: {minutes: 0}\n"})
    assert [line.split(" ")[0] for line in found] == [
        ".diffcourt/config/defaults.yaml:1:",
        ".diffcourt/config/models.yaml:2:",
        *[".diffcourt/config/prices.yaml:2:"] * 2,
    ]
    assert found[1].endswith('calls.attempts must be a whole number, not "none"')
    assert "the keys 'output', 'cached', 'cache_write', 'source', 'date' are missing" in found[3]


def test_an_undescribed_provider_is_an_error(faults_of):
    (found,) = faults_of({"config/defaults.yaml": "provider: antropic\n"})
    assert found == (
        ".diffcourt/config/defaults.yaml:1: unknown provider 'antropic'; did you mean "
        "'anthropic'? allowed: anthropic, offline, openai, openai-compatible"
    )


def test_an_override_shows_in_the_digests(with_files):
    shipped, other = with_files({}), with_files({"config/prices.yaml": DEARER})
    differ = {name for name in shipped.digests if shipped.digests[name] != other.digests[name]}
    assert differ == {"config/prices.yaml"}
    assert other.prices["gpt-6-luna"].input == 0.15
    assert other.models == shipped.models


@pytest.mark.parametrize(("name", "said"), [
    ("models", "models.yaml:2: calls.attempts must be a whole number"),
    ("prices", "prices.yaml:2: prices.m.input must be a number of at least 0"),
])  # fmt: skip
def test_both_commands_refuse_a_broken_file_in_base(tmp_path, capsys, name, said):
    path = f"config/{name}.yaml"
    repo = change(tmp_path, {f".diffcourt/{path}": FAULTY[path]}, {"a.md": "# A\n"})
    where = ["--repo", str(repo.path)]
    assert main(["catalog", *where]) == 2
    assert said in capsys.readouterr().err
    assert main(["review", "--quiet", *where, "--base", "HEAD~1"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1
