"""The README's transcript is today's output, and the pages' commands on a verdict work."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.cli.main import main
from orchestrator.report.formats import FORMATS
from tests.review.review_kit import Repo

ROOT = Path(__file__).resolve().parents[2]
CI = (ROOT / "docs/ci.md").read_text()


HOSTILE = "a,b::%\n.py"


@pytest.fixture
def example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str]:
    """The README's example, with its verdict in it, and what its review printed."""
    repo = Repo(tmp_path / "example")
    code = "import os\nfrom shop import x\n\n"
    repo.commit({"a.py": f"{code}print(os.name, x)\n", "README.md": "# Shop\n"})
    text = "# Shop\n\nLists what is there.\n"
    repo.write({"a.py": f'{code}os.system("ls " + x)\n', "README.md": text})
    monkeypatch.chdir(repo.path)
    words = ["review", "--worktree", "--quiet", "--json", str(repo.path / "verdict.json")]
    assert main(words) == 1
    return repo.path, capsys.readouterr().out


def told(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["sh", "-ec", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), script
    return done.stdout


def test_the_readme_shows_todays_output_and_jq_reads_its_verdict(example: tuple[Path, str]) -> None:
    folder, printed = example
    readme = (ROOT / "README.md").read_text()
    shown = re.search(r"```text\n(NEEDS CHANGES.*?)```", readme, re.DOTALL)
    assert shown is not None
    names = re.compile(r"\b[0-9a-f]{12}\b|\d{8}-\d{6}-[0-9a-f]{8}")
    assert names.sub("#", printed) == names.sub("#", shown[1])

    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    place = folder / "verdict.json"
    verdict: dict[str, Any] = json.loads(place.read_text())
    verdict["findings"][0] |= {"path": HOSTILE, "title": "100% ::sure::\nor not"}
    place.write_text(json.dumps(verdict))
    page = (ROOT / "docs/verdict-json.md").read_text()
    commands = re.findall(r"^jq .*$", page, re.MULTILINE)
    said = [told(line, folder) for line in commands]
    assert len(commands) == 6
    assert said[0] == "needs_changes\n"
    assert ":4: medium: " in said[1]
    assert json.loads(said[2]) == {"critical": 0, "high": 0, "medium": 1, "low": 0, "info": 0}
    assert (said[3], said[5]) == ("", "true\n")


def test_the_commands_of_the_formats_page_write_their_files(
    example: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = example
    page = (ROOT / "docs/formats.md").read_text()
    block = re.search(r"```sh\n(diffcourt.*?)```", page, re.DOTALL)
    assert block is not None
    commands = [line.split()[1:] for line in block[1].splitlines()]
    assert len(commands) == 3
    # The example is not committed, so its review takes the work tree.
    codes = [
        main([*words, *(["--worktree"] if words[0] == "review" else [])]) for words in commands
    ]
    assert codes == [1, 0, 0]
    assert "### Diffcourt: NEEDS CHANGES" in capsys.readouterr().out
    (entry,) = json.loads((folder / "quality.json").read_text())
    assert entry["severity"] == "major"
    assert entry["location"] == {"path": "a.py", "lines": {"begin": 4}}
    named = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert set(named) == set(FORMATS)


def test_the_jobs_are_yaml() -> None:
    for text in (CI, (ROOT / "README.md").read_text()):
        for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
            assert yaml.safe_load(block)
