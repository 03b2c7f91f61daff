"""Request data is followed through the functions of other files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from diffchecks.check_io import RawFinding
from diffchecks.data_files import parse_yaml
from diffchecks.patterns import flows_across_files
from diffchecks.rules import shipped_rules
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.patterns.test_pattern_files import FILES

ROWS: list[Mapping[str, Any]] = parse_yaml((Path(__file__).parent / "across.yaml").read_bytes())


def found(root: Path, files: Mapping[str, str], changed: Iterable[str]) -> list[RawFinding]:
    """What a change of some of the files says of the tree."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    job = {"root": str(root), "paths": list(changed), "tree": sorted(files), "data": FILES}
    return run_check(flows_across_files.run, job).findings


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["found"][0])
def test_a_flow_is_found_from_both_of_its_ends_and_a_safe_one_from_none(
    tmp_path: Path, row: Mapping[str, Any]
) -> None:
    files, (path, line, code) = row["files"], row["found"]
    (one,) = found(tmp_path, files, files)
    assert (one.path, one.line, one.code.partition("-flow-")[2]) == (path, line, code)
    rule = shipped_rules().find_for("patterns", one)
    assert rule is not None
    assert rule.severity_of(one) in {"critical", "medium"}
    first, last = one.steps[0].path, one.steps[-1].path
    assert first != last
    for changed in {first, path}:
        assert [each.path for each in found(tmp_path, files, [changed])] == [changed]
    for change in row["safe"]:
        ((where, (old, new)),) = change.items()
        assert old in files[where]
        twin = {**files, where: files[where].replace(old, new)}
        assert found(tmp_path, twin, twin) == [], change


def test_of_functions_with_one_name_the_first_is_run_each_time(tmp_path: Path) -> None:
    go = "package store\nfunc Run(name string) { %s }\n"
    files = {f"store/{each}.go": go % "log(name)" for each in "bcdefgh"}
    files["store/a.go"] = go % 'exec.Command("sh", "-c", name)'
    files["api/a.go"] = (
        "package api\n"
        'func f(w http.ResponseWriter, r *http.Request) { store.Run(r.FormValue("name")) }\n'
    )
    (one,) = found(tmp_path, files, files)
    assert one.path == "store/a.go"


@pytest.mark.parametrize(
    ("of_class", "expected"),
    [
        ("class Visit { Integer getRoom() { return room; } }", [1]),
        ("@Data class Visit { private Integer room; }", [1]),
        ("class Visit { int getRoom() { return room; } }", []),
        ("class Visit { private Integer room; int getRoom() { return room; } }", []),
        ("class Visit { Room getRoom() { return room; } }", []),
    ],
)
def test_objects_of_another_class_are_not_compared_by_identity(
    tmp_path: Path, of_class: str, expected: list[int]
) -> None:
    use = "class Rooms { boolean same(Visit a, Visit b) { return a.getRoom() == b.getRoom(); } }"
    files = {"src/Rooms.java": use, "src/Visit.java": of_class}
    reply = found(tmp_path, files, ["src/Rooms.java"])
    assert [one.line for one in reply if one.code == "java-boxed-identity"] == expected


@pytest.mark.parametrize(("type_", "expected"), [("Long", [1]), ("long", [])])
def test_parts_of_a_record_of_another_file_are_not_compared_by_identity(
    tmp_path: Path, type_: str, expected: list[int]
) -> None:
    use = "class Rooms { boolean same(Move move) { return move.from() == move.to(); } }"
    record = f"record Move({type_} from, Long to) {{ }}"
    files = {"src/Rooms.java": use, "src/Move.java": record}
    reply = found(tmp_path, files, ["src/Rooms.java"])
    assert [one.line for one in reply if one.code == "java-boxed-identity"] == expected
