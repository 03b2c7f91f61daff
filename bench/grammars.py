"""How much of real sources can the grammars not read? The share of unread lines per language.

    python bench/grammars.py [--show] FOLDER ...

A folder is any tree of sources: unpacked packages, clones. Of JavaScript and TypeScript a line
counts only where oxlint does not accept the file either, since then it is no gap.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from diffchecks import DATA
from diffchecks.check_io import Source
from diffchecks.file_patterns import file_names, matches
from diffchecks.patterns import programs_in
from diffchecks.patterns.pattern_loading import load_language
from diffchecks.patterns.readings import read_program, unread_lines

FILES = tuple(map(str, sorted((DATA / "patterns").glob("*.yaml"))))
LARGE = 2_000_000  # bytes


def is_accepted(path: Path) -> bool:
    """Whether oxlint, which conforms, parses a file."""
    oxlint = Path(sys.executable).with_name("oxlint")
    command = [str(oxlint), "-A", "all", "--format=json", "--no-ignore", str(path)]
    found = json.loads(subprocess.run(command, check=False, capture_output=True).stdout)
    return not any(not each.get("code") for each in found["diagnostics"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="name the lines")
    args = parser.parse_args()
    lines, unread, settled, files, broken = (Counter[str]() for _ in range(5))
    for path in (file for folder in args.folders for file in sorted(folder.rglob("*"))):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGE:
            continue
        source = Source(str(path), path.read_bytes())
        if not source.suffix or load_language(FILES, source.suffix) is None:
            continue
        for part in programs_in(source):
            language = load_language(FILES, part.suffix)
            assert language is not None
            name = language.grammars[part.suffix][-1]
            found = unread_lines(read_program(part, language))
            lines[name] += len(part.lines)
            files[name] += 1
            if found and matches(str(path), file_names("scripts")) and is_accepted(path):
                settled[name] += len(found)
                found = frozenset()
            unread[name] += len(found)
            broken[name] += bool(found)
            if found and args.show:
                first = min(found)
                print(f"{path}:{first + 1} {len(found)} lines: {part.lines[first].strip()[:90]}")
    for name, total in sorted(lines.items()):
        share = unread[name] / total
        more = f"; {settled[name]} that oxlint accepts" if settled[name] else ""
        print(
            f"{name:12} {total:9,} lines {files[name]:6} files: "
            f"{unread[name]:6} unread ({share:.4%}) in {broken[name]} files{more}"
        )


if __name__ == "__main__":
    main()
