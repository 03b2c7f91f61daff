"""How many of the risky lines of a public set of leaky files does the review find?

    python bench/leaky_files.py FOLDER [--lines]

FOLDER is a checkout of the set, https://github.com/Plazmaz/leaky-repo, which is fetched by hand: no
file of it belongs here, and no rule is made for its values. The files are committed onto an empty
commit in a scratch repository, and the change is reviewed as any other.

Counted as the set counts (``.leaky-meta/secrets.csv``): the lines of a file that hold a secret,
however many it holds, and not more of them than the file has risky lines. ``more`` are lines found
beyond these: a user's name beside his password, or a false alarm. ``--lines`` prints which lines.
"""

import argparse
import csv
import tempfile
from collections import defaultdict
from pathlib import Path

from noise import repository, review


def asked(folder: Path) -> dict[str, int]:
    """Risky lines of every file of the set."""
    text = (folder / ".leaky-meta" / "secrets.csv").read_text("utf-8")
    rows = csv.reader(line for line in text.splitlines() if line and not line.startswith("#"))
    return {path: int(risky) for path, risky, _ in rows}


def found(folder: Path) -> dict[str, set[int]]:
    """Lines with a secret, by file, as the review finds them."""
    lines: dict[str, set[int]] = defaultdict(set)
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as empty:
        repo = repository(Path(empty), folder, Path(scratch))
        for finding in review(repo).findings:
            if "secrets" in finding.reported_by:
                lines[finding.path].add(finding.start_line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="a checkout of the set")
    parser.add_argument("--lines", action="store_true", help="print which lines were found")
    args = parser.parse_args()
    if args.folder is None:
        print("needs a checkout of the set of leaky files: see its docstring")
        return
    risky, lines = asked(args.folder), found(args.folder)
    total = 0
    print(f"{'file':44} asked found  more")
    for path, count in risky.items():
        hit = min(count, len(lines[path]))
        total += hit
        told = sorted(lines[path]) if args.lines else ""
        print(f"{path:44} {count:5} {hit:5} {len(lines[path]) - hit:5}  {told}")
    everything = sum(risky.values())
    print(f"{total} of {everything} risky lines: {total / everything:.1%}")
    elsewhere = {path: sorted(hits) for path, hits in lines.items() if path not in risky and hits}
    print(f"files that the set does not list: {elsewhere or 'none'}")


if __name__ == "__main__":
    main()
