"""Known vulnerabilities: which versions of which packages are found, and what is said of them."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from diffchecks import dependencies
from diffchecks.check_io import CheckReply
from diffchecks.dependencies.advisories import base_score, severity_of_vector
from diffchecks.dependencies.version_order import version_key
from tests.diffchecks import test_lock_files as forms
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.test_dependencies import CARGO, PACKAGE, job_of

VECTOR = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"


def advisory(
    name: str,
    *events: tuple[str, str],
    ecosystem: str = "PyPI",
    kind: str = "ECOSYSTEM",
    **given: Any,
) -> dict[str, Any]:
    listed = [dict([event]) for event in events or (("introduced", "0"), ("fixed", "2.0.0"))]
    affected = {
        "package": {"ecosystem": ecosystem, "name": name},
        "ranges": [{"type": kind, "events": listed}],
        "versions": given.pop("versions", []),
        "database_specific": given.pop("own", {}),
    }
    return {"id": "GHSA-1", "summary": "It is weak.", "affected": [affected], **given}


def look(
    folder: Path, base: dict[str, str], head: dict[str, str], *advisories: dict[str, Any]
) -> CheckReply:
    folder.mkdir(parents=True)
    (folder / "advisories.json").write_text(json.dumps(advisories))
    job = job_of(folder, base, head)
    return run_check(dependencies.run, {**job, "advisories": str(folder / "advisories.json")})


def told(reply: CheckReply) -> list[tuple[str, int, str]]:
    return [(one.code, one.line, one.message) for one in reply.findings if one.code[:4] in {"advi", "mali"}]  # fmt: skip


ORDERS = [
    ("PyPI", ["0", "1.0.dev1", "1.0a1", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1!0.1"]),
    ("npm", ["0.0.0", "0.9.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.10.0", "2.0.0"]),
    ("crates.io", ["0.1.0-0", "0.1.0", "0.1.1+build", "0.2.0"]),
    ("Go", ["v0.0.0-20200101000000-abcdef012345", "v0.0.0-20210101000000-abcdef012345", "0.1.0", "v1.2.3", "v2.0.0+incompatible"]),
    ("RubyGems", ["0.9", "1.0.a", "1.0.b1", "1.0.pre.2", "1.0", "1.0.0.1", "1.0.1.rc1", "1.0.1", "1.0.10"]),
    ("Packagist", ["1.0.0-dev", "1.0.0-alpha1", "1.0.0-beta2", "1.0.0-RC1", "1.0.0", "1.0.0-p1", "v1.0.1", "1.0.10"]),
    ("Maven", ["1.0-alpha-1", "1.0.0.Beta2", "1.0-M3", "1.0-rc1", "1.0-SNAPSHOT", "1.0", "1.0-jre", "1.0.1-rc1", "1.0.1", "1.0.10", "1.1"]),
]  # fmt: skip


@pytest.mark.parametrize(("ecosystem", "ascending"), ORDERS)
def test_versions_are_ordered_as_their_ecosystem_does(ecosystem: str, ascending: list[str]) -> None:
    keys = [version_key(ecosystem, version) for version in ascending]
    assert all(before < after for before, after in pairwise(keys))


@pytest.mark.parametrize(
    ("ecosystem", "one", "other"),
    [
        ("PyPI", "1.0", "1.0.0"),
        ("npm", "1.0.0", "v1.0.0+x"),
        ("RubyGems", "1", "1.0.0"),
        ("Packagist", "1.0", "v1.0.0.0"),
        ("Go", "v1.0.0", "1.0.0"),
        ("Maven", "5.3.0.RELEASE", "5.3"),
    ],
)
def test_spellings_of_one_version_are_equal(ecosystem: str, one: str, other: str) -> None:
    assert version_key(ecosystem, one) == version_key(ecosystem, other)


@pytest.mark.parametrize("ecosystem", [name for name, _ in ORDERS])
@pytest.mark.parametrize("version", ["", "dev-main", "not a version", "9" * 5000, "^1.0", "*"])
def test_an_invalid_version_has_no_order(ecosystem: str, version: str) -> None:
    with pytest.raises(ValueError):
        version_key(ecosystem, version)


ALL = ("introduced", "0")


@pytest.mark.parametrize(
    ("events", "version", "expected"),
    [
        ([ALL], "9.9.9", True),
        ([ALL, ("fixed", "2.0.0")], "1.9.9", True),
        ([ALL, ("fixed", "2.0.0")], "2.0.0", False),
        ([ALL, ("last_affected", "2.0.0")], "2.0.0", True),
        ([ALL, ("last_affected", "2.0.0")], "2.0.1", False),
        ([("introduced", "1.0.0"), ("fixed", "2.0.0")], "0.9.0", False),
        ([("introduced", "1.0.0"), ("fixed", "2.0.0")], "1.0.0", True),
        ([ALL, ("fixed", "1.1.0"), ("introduced", "2.0.0"), ("fixed", "2.1.0")], "1.5.0", False),
        ([ALL, ("fixed", "1.1.0"), ("introduced", "2.0.0"), ("fixed", "2.1.0")], "2.0.5", True),
        ([("fixed", "2.1.0"), ("introduced", "2.0.0"), ALL, ("fixed", "1.1.0")], "2.0.5", True),
        ([ALL, ("limit", "2.0.0")], "2.0.0", False),
        ([ALL, ("fixed", "2.0.0")], "2.0.0rc1", True),
    ],
)  # fmt: skip
def test_a_version_is_between_the_events_of_a_range(
    tmp_path: Path, events: list[tuple[str, str]], version: str, expected: bool
) -> None:
    reply = look(
        tmp_path / "x", {}, {"requirements.txt": f"a=={version}\n"}, advisory("A", *events)
    )
    assert bool(told(reply)) is expected
    assert reply.gaps == {}


def test_a_version_that_is_listed_is_affected_in_any_spelling(tmp_path: Path) -> None:
    listed = advisory("a", ("introduced", "5"), versions=["1.0", "1.1"])
    for number, (version, expected) in enumerate([("1.0.0", 1), ("1.1", 1), ("1.2", 0)]):
        reply = look(tmp_path / str(number), {}, {"requirements.txt": f"a=={version}\n"}, listed)
        assert len(told(reply)) == expected


def test_a_range_of_commits_is_ignored(tmp_path: Path) -> None:
    reply = look(tmp_path / "x", {}, {"requirements.txt": "a==1\n"}, advisory("a", ALL, kind="GIT"))
    assert told(reply) == []


def npm_key(name: str, form: str, url: str, digest: str) -> tuple[str, str, str]:
    texts = [form.format(version=v, url=url, digest=digest.format(v)) for v in ("1.0.0", "1.1.0")]
    return name, texts[0], texts[1]


LOCKED = {
    "package-lock.json": ("npm", "a"), "npm-shrinkwrap.json": ("npm", "a"), "yarn.lock": ("npm", "a"),
    "pnpm-lock.yaml": ("npm", "a"), "bun.lock": ("npm", "a"), "Cargo.lock": ("crates.io", "a"),
    "Gemfile.lock": ("RubyGems", "a"), "mix.lock": ("Hex", "a"), "composer.lock": ("Packagist", "V/A"),
    "gradle.lockfile": ("Maven", "x.io:a"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "form", "url", "digest"), forms.FORMATS, ids=[f[0] for f in forms.FORMATS]
)
def test_each_lock_file_by_an_update_to_a_vulnerable_version_and_away_from_it(
    tmp_path: Path, name: str, form: str, url: str, digest: str
) -> None:
    _, old, new = npm_key(name, form, url, digest)
    ecosystem, package = LOCKED.get(name, ("PyPI", "A"))
    kind = "SEMVER" if ecosystem in {"npm", "crates.io"} else "ECOSYSTEM"
    weak = advisory(
        package, ("introduced", "1.1.0"), ("fixed", "1.2.0"), ecosystem=ecosystem, kind=kind
    )
    ((code, line, message),) = told(look(tmp_path / "into", {name: old}, {name: new}, weak))
    assert code == "advisory-medium"
    assert "1.1.0" in new.split("\n")[line - 1]
    assert message == f"{package.lower()} 1.1.0 has a known vulnerability, GHSA-1: It is weak; update to 1.2.0 or later"  # fmt: skip
    assert told(look(tmp_path / "out", {name: new}, {name: old}, weak)) == []
    assert told(look(tmp_path / "same", {name: new}, {name: new + "\n"}, weak)) == []


GO = "module x.io/p\n\ngo 1.22\n\nrequire (\n\tx.io/a v1.0.0\n\tx.io/b v{} // indirect\n)\n"


def test_a_module_of_go_is_read_from_go_mod_and_not_from_go_sum(tmp_path: Path) -> None:
    weak = advisory("x.io/b", ecosystem="Go", kind="SEMVER")
    head = {"go.mod": GO.format("1.1.0"), "go.sum": "x.io/b v1.9.0 h1:aa=\n"}
    found = told(look(tmp_path / "x", {"go.mod": GO.format("1.0.0"), "go.sum": ""}, head, weak))
    assert [(line, "v1.1.0" in message) for _, line, message in found] == [(7, True)]


@pytest.mark.parametrize(
    ("name", "text", "ecosystem", "package"),
    [
        ("requirements.txt", "a==1.0\n", "PyPI", "a"),
        ("Pipfile", '[packages]\na = "==1.0"\n', "PyPI", "a"),
        ("package.json", PACKAGE.format("", '"a": "1.0.0"'), "npm", "a"),
        ("Cargo.toml", CARGO.format('a = "=1.0.0"'), "crates.io", "a"),
        ("composer.json", '{"require": {"v/a": "1.0.0"}}', "Packagist", "v/a"),
        ("Gemfile", 'gem "a", "1.0.0"\n', "RubyGems", "a"),
        ("build.gradle", "dependencies { api 'x.io:a:1.0.0' }\n", "Maven", "x.io:a"),
    ],
)
def test_an_exact_pin_of_a_manifest_counts_where_no_lock_file_is_beside_it(
    tmp_path: Path, name: str, text: str, ecosystem: str, package: str
) -> None:
    weak = advisory(package, ecosystem=ecosystem)
    assert len(told(look(tmp_path / "exact", {}, {name: text}, weak))) == 1
    loose = (
        text.replace("==", ">=")
        .replace('"=1', '"1')
        .replace('"1.0.0"', '"^1.0.0"')
        .replace("a:1.0.0", "a:1.+")
    )
    assert told(look(tmp_path / "range", {}, {name: loose}, weak)) == []
    assert told(look(tmp_path / "known", {name: text}, {name: text + "\n"}, weak)) == []


def test_the_lock_file_beside_a_manifest_says_the_version(tmp_path: Path) -> None:
    lock = '[[package]]\nname = "a"\nversion = "3.0"\n'
    head = {"uv.lock": lock, "app/requirements.txt": "a==1.0\n"}
    assert told(look(tmp_path / "beside", {}, head, advisory("a"))) == []
    head = {"other/uv.lock": lock, "app/requirements.txt": "a==1.0\n"}
    assert len(told(look(tmp_path / "elsewhere", {}, head, advisory("a")))) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"database_specific": {"severity": "CRITICAL"}}, "advisory-critical"),
        ({"database_specific": {"severity": "MODERATE"}, "severity": [{"type": "CVSS_V3", "score": VECTOR}]}, "advisory-medium"),
        ({"severity": [{"type": "CVSS_V3", "score": VECTOR}]}, "advisory-critical"),
        ({"own": {"cvss": VECTOR.replace("C:H/I:H", "C:N/I:N")}}, "advisory-high"),
        ({"severity": [{"type": "CVSS_V4", "score": "CVSS:4.0/AV:N"}]}, "advisory-medium"),
        ({"id": "MAL-2026-1"}, "malicious-critical"),
        ({"aliases": ["MAL-2026-1"]}, "malicious-critical"),
    ],
)  # fmt: skip
def test_the_severity_is_that_of_the_database_or_of_the_vector(
    tmp_path: Path, given: dict[str, Any], expected: str
) -> None:
    ((code, _, _),) = told(look(tmp_path / "x", {}, {"requirements.txt": "a==1\n"}, advisory("a", **given)))  # fmt: skip
    assert code == expected


@pytest.mark.parametrize(
    ("vector", "score", "severity"),
    [
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", 9.8, "critical"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:C/C:H/I:H/A:H", 10.0, "critical"),
        ("CVSS:3.0/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N", 6.1, "medium"),
        ("CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:H/I:H/A:H", 7.8, "high"),
        ("CVSS:3.1/AV:N/AC:H/PR:N/UI:R/S:U/C:N/I:L/A:N", 3.1, "low"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N", 0.0, ""),
    ],
)
def test_base_scores_of_published_vectors(vector: str, score: float, severity: str) -> None:
    assert (base_score(vector), severity_of_vector(vector)) == (score, severity)


def test_aliases_of_an_advisory_are_reported_once(tmp_path: Path) -> None:
    reply = look(
        tmp_path / "x",
        {},
        {"requirements.txt": "a==1\n"},
        advisory("a", id="PYSEC-1", aliases=["CVE-1"], summary="", database_specific={}),
        advisory("a", id="GHSA-1", aliases=["CVE-1"], database_specific={"severity": "HIGH"}),
        advisory("a", id="GHSA-2"),
    )
    assert [(code, message.partition(";")[0]) for code, _, message in told(reply)] == [
        ("advisory-high", "a 1 has a known vulnerability, GHSA-1 (PYSEC-1): It is weak"),
        ("advisory-medium", "a 1 has a known vulnerability, GHSA-2: It is weak"),
    ]


def test_the_next_fixed_version_is_named_if_there_is_one(tmp_path: Path) -> None:
    branches = advisory("a", ALL, ("fixed", "1.5"), ("introduced", "2.0"), ("fixed", "2.3"))
    ((_, _, message),) = told(look(tmp_path / "1", {}, {"requirements.txt": "a==2.1\n"}, branches))
    assert message.endswith("update to 2.3 or later")
    ((_, _, message),) = told(look(tmp_path / "2", {}, {"requirements.txt": "a==1\n"}, advisory("a", ALL)))  # fmt: skip
    assert message.endswith("no fixed version is known")


def test_an_update_short_of_the_fix_is_low_and_one_without_a_fix_is_not_reported(
    tmp_path: Path,
) -> None:
    base, head = {"requirements.txt": "a==1.0\n"}, {"requirements.txt": "a==1.1\n"}
    high: dict[str, Any] = {"database_specific": {"severity": "HIGH"}}
    ((code, _, message),) = told(look(tmp_path / "1", base, head, advisory("a", **high)))
    assert (code, "still has" in message, "2.0.0" in message) == ("advisory-low", True, True)
    assert told(look(tmp_path / "2", base, head, advisory("a", ALL, **high))) == []
    ((code, _, _),) = told(look(tmp_path / "4", base, head, advisory("a", ALL, id="MAL-1")))
    assert code == "malicious-critical"
    new = advisory("a", ("introduced", "1.1"), **high)
    ((code, _, _),) = told(look(tmp_path / "3", base, head, new))
    assert code == "advisory-high"


def test_a_finding_is_where_the_package_is_locked_and_not_where_another_needs_it(
    tmp_path: Path,
) -> None:
    other = '[[package]]\nname = "b"\nversion = "3.4"\n[package.extras]\nall = ["a (>=3.4)", "c (>=13.4)"]\n'
    text = f'{other}\n[[package]]\nname = "a"\ndescription = "x"\nversion = "3.4"\n'
    ((_, line, _),) = told(look(tmp_path / "x", {}, {"poetry.lock": text}, advisory("a", ALL)))
    assert line == 10


def test_a_version_without_an_order_is_a_gap(tmp_path: Path) -> None:
    reply = look(tmp_path / "x", {}, {"requirements.txt": "a==1.0-weird\n"}, advisory("a"))
    assert "a 1.0-weird could not be compared with GHSA-1" in reply.gaps["requirements.txt"]


def test_a_repository_or_a_directory_is_not_a_version_of_the_registry(tmp_path: Path) -> None:
    text = forms.npm(url="git+ssh://git@github.com/s/a.git#4bf2", digest="")
    assert told(look(tmp_path / "x", {}, {"package-lock.json": text}, advisory("a", ecosystem="npm"))) == []  # fmt: skip


def test_more_than_fifty_are_counted_in_a_gap(tmp_path: Path) -> None:
    many = [advisory(f"pkg-{number}", id=f"GHSA-{number}") for number in range(60)]
    text = "".join(f"pkg-{number}==1\n" for number in range(60))
    reply = look(tmp_path / "x", {}, {"requirements.txt": text}, *many)
    assert len(told(reply)) == 50
    assert reply.gaps == {
        "requirements.txt": "there are 10 more vulnerable packages than are listed"
    }


def test_the_vulnerabilities_of_one_package_and_severity_are_one_finding(tmp_path: Path) -> None:
    fixes = ["1.5", "1.10", "1.9"]
    several = [advisory("a", ALL, ("fixed", fix), id=f"GHSA-{fix}") for fix in fixes]
    head = {"requirements.txt": "a==1.0\n"}
    ((_, _, message),) = told(look(tmp_path / "1", {}, head, *several))
    assert "a 1.0 has 3 known vulnerabilities, GHSA-" in message
    assert all(f"GHSA-{fix}" in message for fix in fixes)
    assert message.endswith("update to 1.10 or later")
    ((_, _, message),) = told(
        look(tmp_path / "2", {}, head, *several, advisory("a", ALL, id="X-1"))
    )
    assert message.endswith("update to 1.10 or later, which fixes 3 of them")
    many = [advisory("a", id=f"GHSA-{number:02}") for number in range(20)]
    ((_, _, message),) = told(look(tmp_path / "3", {}, head, *many))
    assert "and 14 more; update to 2.0.0" in message


def test_a_summary_is_one_short_line_of_plain_text(tmp_path: Path) -> None:
    odd = advisory("a", summary="It \x1b[31m is\u202e\n\nweak " + "x" * 500)
    ((_, _, message),) = told(look(tmp_path / "x", {}, {"requirements.txt": "a==1\n"}, odd))
    assert message.isprintable()
    assert len(message) < 300
