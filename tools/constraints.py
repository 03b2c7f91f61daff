"""Write constraints.txt with uv: a line for each release that any extra needs.

A line holds the release, the SHA-256 of all its files, so that it serves every platform, and, as a
comment, the extras that need it (``core``: the program itself, ``build``: building it). Releases
stay as they are while pyproject.toml allows them; ``--upgrade`` takes the newest.
``tools/setup.sh`` installs the lines of some extras.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "constraints.txt"
UV = Path(sys.executable).with_name("uv")
# Wheels only: to build a release would run code that no hash names.
COMPILE = [
    *(UV, "pip", "compile", "--no-config", "--quiet", "--universal", "--python-version", "3.11"),
    *("--only-binary", ":all:", "--no-annotate", "--no-header", "--no-emit-package", "diffcourt"),
]


def resolve(requirements: str, *options: str) -> list[str]:
    """The releases that requirements need, as lines of a requirements file."""
    done = subprocess.run(
        [*COMPILE, "-c", PLACE, *options, "-"],
        input=requirements, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return done.stdout.replace("\\\n", "").splitlines()


def name_of(line: str) -> str:
    """The normalized name of the package of a line."""
    return re.sub(r"[-_.]+", "-", re.split(r"[ =<>;#]", line)[0]).lower()


def main() -> None:
    """Resolve everything at once, then each extra within that."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, build = document["project"], "\n".join(document["build-system"]["requires"])
    extras = project["optional-dependencies"]
    if "--upgrade" in sys.argv:
        PLACE.write_text("", encoding="utf-8")
    locked = resolve(build, "pyproject.toml", "--all-extras", "--generate-hashes")
    PLACE.write_text("".join(f"{line}\n" for line in locked), encoding="utf-8")
    core = {name_of(line) for line in resolve("\n".join(project["dependencies"]))}
    needed = {"core": core, "build": {name_of(line) for line in resolve(build)}}
    for extra in extras:
        lines = resolve("", "pyproject.toml", "--extra", extra)
        needed[extra] = {name_of(line) for line in lines} - core
    with PLACE.open("w", encoding="utf-8") as file:
        for line in locked:
            users = [extra for extra, names in needed.items() if name_of(line) in names]
            file.write(f"{' '.join(line.split())} # {' '.join(users)}\n")


if __name__ == "__main__":
    main()
