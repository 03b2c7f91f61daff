"""Hazards and bugs in SQL of the dialects that teams use."""

import time
from pathlib import Path

import pytest

from diffchecks import sql
from tests.diffchecks.sql_samples import SAMPLES
from tests.diffchecks.test_text_checks import codes, look

PAIRS = [(code, bad, good) for code, pairs in SAMPLES.items() for bad, good in pairs]


@pytest.mark.parametrize(("code", "bad", "good"), PAIRS)
def test_a_defect_is_found_and_its_safe_twin_is_quiet(
    tmp_path: Path, code: str, bad: str, good: str
) -> None:
    assert codes(look(sql, tmp_path, "a.sql", bad)) == [code]
    assert codes(look(sql, tmp_path, "a.sql", good)) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT 'a;\n", "the text that begins in line 1 is not closed"),
        ("SELECT 1;\n/* a\n", "the comment that begins in line 2 is not closed"),
        ("CREATE FUNCTION f() AS $body$ BEGIN\n", "the quoted body $body$ is not closed"),
    ],
)
def test_what_is_not_closed_is_a_gap(tmp_path: Path, text: str, why: str) -> None:
    assert look(sql, tmp_path, "a.sql", text).gaps == {"a.sql": why}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'C:\\';\nSELECT 'DELETE FROM a;' AS b;\n",
        "SELECT a #>> '{}', a #> '{b}', a #- '{c}', 'it' FROM d WHERE e = 1;\n",
        "#- it's\n#---- it's\n# it's > '\nSELECT `a`;\n",
        "SELECT `a` FROM `b` WHERE c = 'it\\'s; DELETE FROM a;';\n",
        "SELECT E'it\\'s; DELETE FROM a;';\n",
        "-- DELETE FROM a;\n/* DELETE FROM a; */ # DELETE FROM a;\nSELECT 1;\n",
        'SELECT "DELETE" FROM [DELETE];\n',
        "INSERT INTO a VALUES (1) ON CONFLICT DO UPDATE SET b = NULL;\n",
        "CREATE TRIGGER t AFTER DELETE ON a EXECUTE FUNCTION f();\n",
        "\ufeffSELECT 1;\n",
        "end$$ $1 $ ' '",
    ],
)
def test_texts_comments_and_names_are_no_statements(tmp_path: Path, text: str) -> None:
    if text.startswith("end"):
        text = f"DO $$ begin {text}"
    assert codes(look(sql, tmp_path, "a.sql", text)) == []


@pytest.mark.parametrize(
    "path", ["migrations/7_users/down.sql", "7_users.down.sql", "rollback.sql"]
)
def test_a_down_migration_may_delete(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    assert codes(look(sql, tmp_path, path, "DROP TABLE users;\nDELETE FROM roles;\n")) == []


def test_a_migration_that_cleans_up_deletes_for_good(tmp_path: Path) -> None:
    for path in ("0013_cleanup.sql", "V7__reset_owner.sql"):
        found = look(sql, tmp_path, path, "ALTER TABLE users DROP COLUMN plan;\n")
        assert codes(found) == ["sql-drop"]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000,
        "ALTER TABLE a ADD b int NOT NULL, " * 2_500,
        "'" + "\\'" * 50_000 + "';`",
        "DELETE FROM a " * 4_000,
        "CREATE FUNCTION f(a text) AS $$ x := a || 'b'; EXECUTE x; $$;\n" * 1_000,
    ],
)
def test_hostile_files_take_seconds_at_most(tmp_path: Path, text: str) -> None:
    began = time.process_time()
    look(sql, tmp_path, "a.sql", text)
    assert time.process_time() - began < 0.5
