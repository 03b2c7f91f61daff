"""Build the wheel and the sdist into dist/, and prove that the wheel works where nothing else is.

The wheel is built from the sdist, so both are complete or neither is. It must hold the data files
of both packages. It is installed into a new environment, and reviews a small repository in an empty
folder. What that environment consists of is written beside it as a CycloneDX document, the SBOM.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SHIPPED = {
    **{
        name: f"orchestrator/_data/{name}"
        for name in ("agents", "config", "rubrics", "skills_catalog")
    },
    **{name: name for name in ("diffchecks", "orchestrator")},
}
"""Folder of the checkout -> where its files lie in the wheel."""
CODE = "import os\n\n\ndef show(name: str) -> None:\n    os.system('ls ' + name)\n"


def run(*words: str | Path, folder: Path = ROOT, expect: int = 0, bare: bool = False) -> str:
    """What a program prints, which must end with the expected exit code.

    Args:
        bare: without our environment, but for PATH.
    """
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)} if bare else None
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != expect:
        sys.stderr.write(done.stdout)
        sys.exit(f"dist: exit code {done.returncode}, not {expect}: {' '.join(map(str, words))}")
    return done.stdout


def tracked(folder: str) -> set[str]:
    """The files that git knows below a folder."""
    return set(run("git", "ls-files", "-z", folder).split("\0")) - {""}


def build(scratch: Path) -> Path:
    """Both packages, from a copy without what git ignores; returns the wheel."""
    DIST.mkdir(exist_ok=True)
    for old in [*DIST.glob("*.whl"), *DIST.glob("*.tar.gz"), *DIST.glob("*.cdx.json")]:
        old.unlink()
    hatchling = Path(sys.executable).with_name("hatchling")
    run(hatchling, "build", "-t", "sdist", "-d", DIST)
    (sdist,) = DIST.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    run(
        hatchling,
        "build",
        "-t",
        "wheel",
        "-d",
        DIST,
        folder=scratch / sdist.name.removesuffix(".tar.gz"),
    )
    (wheel,) = DIST.glob("*.whl")
    return wheel


def check_contents(wheel: Path) -> int:
    """Every tracked file of the packages and of their data is in the wheel; returns how many."""
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"{to}{name.removeprefix(of)}" for of, to in SHIPPED.items() for name in tracked(of)}
    if missing := sorted(wanted - held):
        sys.exit(f"dist: {wheel.name} lacks {len(missing)} files: {', '.join(missing[:5])}")
    return len(wanted)


def review(program: Path, empty: Path) -> str:
    """A review by the installed program, whose finding needs rules, agents and an analyzer."""
    repository = empty / "shop"
    git = (
        "git",
        "-c",
        "user.name=dist",
        "-c",
        "user.email=dist@example.org",
        "-C",
        str(repository),
    )
    run("git", "init", "--quiet", "--initial-branch=main", str(repository), folder=empty)
    for text, subject in (("import os\n", "Begin"), (CODE, "Show a folder")):
        (repository / "shop.py").write_text(text)
        run(*git, "add", ".", folder=empty)
        run(*git, "commit", "--quiet", "--message", subject, folder=empty)
    words = (
        "review",
        "HEAD~1..HEAD",
        "--repo",
        str(repository),
        "--quiet",
        "--json",
        str(empty / "verdict.json"),
    )
    run(program, *words, folder=empty, expect=1, bare=True)
    verdict = json.loads((empty / "verdict.json").read_text())
    found = {finding["rule"] for finding in verdict["findings"]}
    if verdict["status"] != "complete" or "security.subprocess-shell" not in found:
        sys.exit(
            f"dist: the installed wheel reviewed as {verdict['status']}, and found {sorted(found)}"
        )
    return f"{verdict['verdict']}, {len(found)} rules"


def say(text: str) -> None:
    """Report a step at once, also into a file."""
    sys.stdout.write(f"dist: {text}\n")
    sys.stdout.flush()


def main() -> None:
    """Build, look inside, install, review, list."""
    setup = ("sh", ROOT / "tools/setup.sh")
    with tempfile.TemporaryDirectory() as name:
        scratch, empty = Path(name), Path(name) / "empty"
        empty.mkdir()
        wheel = build(scratch)
        say(f"{wheel.name} holds all {check_contents(wheel)} files of both packages")
        run(*setup, scratch / "venv", "analyzers", wheel, folder=empty)
        outcome = review(scratch / "venv/bin/diffcourt", empty)
        say(f"installed in an empty folder, it reviews: {outcome}")
        run(*setup, scratch / "release", "release", wheel, folder=empty)
        sbom = wheel.with_suffix(".cdx.json")
        lister = (scratch / "release/bin/cyclonedx-py", "environment", "--output-reproducible")
        described = ("--pyproject", ROOT / "pyproject.toml", "-o", sbom)
        run(*lister, *described, scratch / "venv/bin/python", folder=empty)
        count = len(json.loads(sbom.read_text())["components"])
        say(f"{sbom.name} lists {count} components")


if __name__ == "__main__":
    main()
