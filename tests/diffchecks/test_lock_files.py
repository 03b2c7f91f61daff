"""Lock files: each defect in each format that can have it, beside an ordinary update without it."""

import json
import time
from functools import partial
from pathlib import Path

import pytest

from diffchecks import dependencies
from diffchecks.check_io import Gap
from diffchecks.dependencies.lock_file_entries import read_entries
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.test_dependencies import look

NPM = """{{
  "lockfileVersion": 3,
  "packages": {{
    "": {{"name": "p"}},
    "node_modules/a": {{
      "version": "{version}",
      "resolved": "{url}",
{digest}      "license": "MIT"
    }},
    "packages/own": {{"version": "1.0.0"}}
  }}
}}
"""
NPM_1 = """{{
  "lockfileVersion": 1,
  "dependencies": {{
    "z": {{
      "version": "1.0.0",
      "dependencies": {{
        "a": {{
          "version": "{version}",
{digest}          "resolved": "{url}"
        }}
      }}
    }}
  }}
}}
"""
YARN = """# yarn lockfile v1


a@^1.0.0:
  version "{version}"
  resolved "{url}"
{digest}
b@^2.0.0:
  version "2.0.0"
  resolved "https://registry.yarnpkg.com/b/-/b-2.0.0.tgz#00"
"""
BERRY = """__metadata:
  version: 8

"a@npm:^1.0.0":
  version: {version}
  resolution: "a@npm:{version}"
{digest}  languageName: node
"""
PNPM = """lockfileVersion: '9.0'

packages:

  a@{version}:
    resolution: {{{digest}tarball: {url}}}

snapshots:

  a@{version}: {{}}
"""
POETRY = """[[package]]
name = "a"
version = "{version}"
files = [
{digest}]

[package.source]
type = "legacy"
url = "{url}"
reference = "own"
"""
UV = """version = 1

[[package]]
name = "a"
version = "{version}"
source = {{ registry = "{url}" }}
{digest}
[[package]]
name = "p"
version = "0.1.0"
source = {{ editable = "." }}
"""
PYLOCK = """lock-version = "1.0"

[[packages]]
name = "a"
version = "{version}"
index = "{url}"
{digest}
[[packages]]
name = "p"
directory = {{ path = ".", editable = true }}
"""
BUN = """{{
  "lockfileVersion": 1,
  "workspaces": {{"": {{"name": "p", "dependencies": {{"a": "^1.0.0",}},}},}},
  "packages": {{
    "a": ["a@{version}", "{url}", {{ "bin": {{ "a": "x,}}" }} }}{digest}],

    "own": ["own@workspace:packages/own"],
  }}
}}
"""
PIPFILE = """{{
  "_meta": {{"sources": [{{"name": "main", "url": "{url}"}}]}},
  "default": {{
    "a": {{
{digest}      "version": "=={version}"
    }}
  }}
}}
"""
CARGO = """[[package]]
name = "a"
version = "{version}"
source = "registry+{url}"
{digest}
[[package]]
name = "own"
version = "0.1.0"
"""
GEMS = """GEM
  remote: {url}
  specs:
    a ({version})
    b (2.0.0)

DEPENDENCIES
  a

CHECKSUMS
  a ({version}){digest}
  b (2.0.0) sha256=bb
"""
COMPOSER = """{{
  "packages": [
    {{
      "name": "v/a",
      "version": "{version}",
      "dist": {{
        "type": "zip",
{digest}        "url": "{url}"
      }}
    }}
  ],
  "packages-dev": []
}}
"""
MIX = """%{{
  "a": {{:hex, :a, "{version}", "{digest}", [:mix], [{{:b, "~> 1.0", [hex: :b, repo: "hexpm", optional: false]}}], "hexpm", "{digest}dd"}},
  "b": {{:git, "https://github.com/b/b.git", "0123abcd", [tag: "v1"]}},
}}
"""
GO_SUM = "x.io/a {version} {digest}\nx.io/a {version}/go.mod h1:cc=\n"

# file, template, URL, a host's URL in the same form, digest
FORMATS = [
    ("package-lock.json", NPM, "https://registry.npmjs.org/a/-/a.tgz", '      "integrity": "sha512-{}",\n'),
    ("npm-shrinkwrap.json", NPM_1, "https://registry.npmjs.org/a/-/a.tgz", '          "integrity": "sha512-{}",\n'),
    ("yarn.lock", YARN, "https://registry.yarnpkg.com/a/-/a.tgz", "  integrity sha512-{}\n"),
    ("pnpm-lock.yaml", PNPM, "https://registry.npmjs.org/a/-/a.tgz", "integrity: sha512-{}, "),
    ("poetry.lock", POETRY, "https://pypi.org/simple", '    {{file = "a.whl", hash = "sha256:{}"}},\n'),
    ("uv.lock", UV, "https://pypi.org/simple", 'sdist = {{ url = "https://files.pythonhosted.org/a.tar.gz", hash = "sha256:{}" }}\n'),
    ("pylock.toml", PYLOCK, "https://pypi.org/simple", 'sdist = {{ url = "https://files.pythonhosted.org/a.tar.gz", hashes = {{ sha256 = "{}" }} }}\n'),
    ("bun.lock", BUN, "https://registry.npmjs.org/", ', "sha512-{}"'),
    ("Pipfile.lock", PIPFILE, "https://pypi.org/simple", '      "hashes": ["sha256:{}"],\n'),
    ("Cargo.lock", CARGO, "https://github.com/rust-lang/crates.io-index", 'checksum = "{}"\n'),
    ("Gemfile.lock", GEMS, "https://rubygems.org/", " sha256={}"),
    ("composer.lock", COMPOSER, "https://api.github.com/repos/v/a/zipball/1", '        "shasum": "{}",\n'),
]  # fmt: skip


def codes(folder: Path, name: str, was: str, now: str) -> list[str]:
    reply = look(folder, {name: was}, {name: now})
    assert (reply.gaps, reply.examined) == ({}, [name])
    for one in reply.findings:
        assert now.split("\n")[one.line - 1] not in was.split("\n"), "no line of the change"
    return [one.code for one in reply.findings]


@pytest.mark.parametrize(("name", "form", "url", "digest"), FORMATS, ids=[f[0] for f in FORMATS])
def test_each_format_by_an_ordinary_update_and_by_each_defect(
    tmp_path: Path, name: str, form: str, url: str, digest: str
) -> None:
    was = form.format(version="1.0.0", url=url, digest=digest.format("aa"))
    update = form.format(version="1.0.1", url=url + "?2", digest=digest.format("bb"))
    assert codes(tmp_path / "update", name, was, update) == []
    heads = {
        "lock-http": update.replace(url, url.replace("https://", "http://")),
        "lock-source": update.replace(url, "https://evil.example/a.tgz"),
        "lock-digest": was.replace(digest.format("aa"), digest.format("cc")),
        "lock-unverified": form.format(version="1.0.1", url=url, digest=""),
    }
    for code, head in heads.items():
        assert codes(tmp_path / code, name, was, head) == [code], head


def test_yarn_2_has_checksums_and_no_urls(tmp_path: Path) -> None:
    was = BERRY.format(version="1.0.0", digest="  checksum: 10c0/aa\n")
    update = was.replace("1.0.0", "1.0.1").replace("/aa", "/b")
    assert codes(tmp_path / "1", "yarn.lock", was, update) == []
    assert codes(tmp_path / "2", "yarn.lock", was, was.replace("/aa", "/b")) == ["lock-digest"]
    url = was.replace("a@npm:1.0.0", "a@https://evil.example/a.tgz")
    assert codes(tmp_path / "3", "yarn.lock", was, url) == ["lock-source"]


def test_yarn_2_writes_no_checksum_for_another_platform(tmp_path: Path) -> None:
    url = "https://registry.yarnpkg.com/a/-/a.tgz"
    was = YARN.format(version="1.0.0", url=url, digest="  integrity sha512-aa\n")
    platform = BERRY.format(version="1.0.0", digest="  conditions: os=aix & cpu=ppc64\n")
    assert codes(tmp_path / "1", "yarn.lock", was, platform) == []
    bare = BERRY.format(version="1.0.0", digest="")
    assert codes(tmp_path / "2", "yarn.lock", was, bare) == ["lock-unverified"]
    told = BERRY.format(version="1.0.0", digest="  checksum: 10c0/aa\n")
    assert codes(tmp_path / "3", "yarn.lock", told, platform) == []


def test_go_sum_of_one_version_does_not_change(tmp_path: Path) -> None:
    was = GO_SUM.format(version="v1.0.0", digest="h1:aa=")
    same = GO_SUM.format(version="v1.0.0", digest="h1:bb=")
    assert codes(tmp_path / "1", "go.sum", was, same) == ["lock-digest"]
    assert (
        codes(tmp_path / "2", "go.sum", was, was + GO_SUM.format(version="v1.1.0", digest="h1:b="))
        == []
    )


def test_a_new_install_script_is_reported_once_and_an_old_one_never(tmp_path: Path) -> None:
    digest = '      "integrity": "sha512-aa",\n'
    was = NPM.format(version="1.0.0", url="https://registry.npmjs.org/a.tgz", digest=digest)
    now = was.replace(
        '"version": "1.0.0",\n      "res',
        '"version": "1.0.1",\n      "hasInstallScript": true,\n      "res',
    )
    assert codes(tmp_path / "1", "package-lock.json", was, now) == ["lock-script"]
    assert codes(tmp_path / "2", "package-lock.json", now, now.replace("1.0.1", "1.0.2")) == []
    told_now = now.replace("1.0.1", "1.0.0")  # by a newer tool, of the same bytes
    assert codes(tmp_path / "3", "package-lock.json", was, told_now) == []


def test_a_host_that_base_used_is_the_teams_own_mirror(tmp_path: Path) -> None:
    digest = '      "integrity": "sha512-{}",\n'
    was = NPM.format(version="1", url="https://npm.corp.example/a", digest=digest.format("a"))
    now = NPM.format(version="2", url="https://npm.corp.example/b", digest=digest.format("b"))
    assert codes(tmp_path, "package-lock.json", was, now) == []


@pytest.mark.parametrize(
    "name", [f[0] for f in FORMATS if not f[0].startswith(("yarn", "pnpm", "Gemf"))]
)
@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, "a." * 500_000 + "b = 1", '{"packages": 3, "package": 3}', "package = 3"],
)
def test_a_malformed_lock_file_is_a_gap(tmp_path: Path, name: str, text: str) -> None:
    assert set(look(tmp_path, {}, {name: text}).gaps) == {name}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        *((name, "&a [*a, *a]\n" * 1000, "line 1") for name in ("yarn.lock", "pnpm-lock.yaml", "go.sum")),
        ("Gemfile.lock", "GEM\n  remote: https://rubygems.org/\n  specs:\n    a (1.0)\n", "ends the file"),
        ("yarn.lock", YARN.format(version="1", url="u", digest="").rpartition('"')[0], "quote"),
        ("yarn.lock", "a@^1:\n  resolved \"https://r.example/a\"\n", "without a version"),
        ("pnpm-lock.yaml", PNPM.format(version="1", url="u", digest="").partition("snap")[0], "snapshots"),
        ("pnpm-lock.yaml", "lockfileVersion: '6.0'\npackages:\n  /a@1:\n    dev: true\n", "resolution"),
        ("go.sum", "x.io/a v1.0.0 h1:aa=\nx.io/b v1.0", "line 2"),
        ("mix.lock", MIX.format(version="1", digest="a")[:90], "ends the file"),
        ("mix.lock", '%{\n  "a": {:hex, :a,\n}\n', "line 2"),
        ("package-lock.json", '{"lockfileVersion": 3, "packages": {"node_modules/a": {"ver', "line 1"),
        ("uv.lock", 'version = 1\n[[package]]\nname = "a', "end of document"),
    ],
)  # fmt: skip
def test_a_lock_file_that_was_cut_off_is_a_gap_that_says_where(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    (gap,) = look(tmp_path, {}, {name: text}).gaps.values()
    assert why in gap
    assert gap.endswith("lock it again with its package manager")


def test_conflict_markers_are_a_finding_and_a_gap(tmp_path: Path) -> None:
    merged = "x.io/a v1.0.0 h1:aa=\n<<<<<<< ours\n=======\nx.io/b v1.0.0 h1:bb=\n>>>>>>> theirs\n"
    reply = look(tmp_path, {"go.sum": ""}, {"go.sum": merged})
    assert [(one.code, one.line, one.end_line) for one in reply.findings] == [
        ("conflict-markers", 2, 5)
    ]
    assert "conflict markers" in reply.gaps["go.sum"]


def test_a_lock_file_of_base_that_cannot_be_read_is_a_gap(tmp_path: Path) -> None:
    reply = look(tmp_path, {"go.sum": "x.io/a v1\n"}, {"go.sum": "x.io/a v1.0.0 h1:aa=\n"})
    assert "in base its packages could not be read, line 1" in reply.gaps["go.sum"]


def test_an_empty_line_format_locks_nothing(tmp_path: Path) -> None:
    reply = look(tmp_path, {}, {"yarn.lock": "", "go.sum": "\n"})
    assert (reply.findings, reply.gaps, reply.examined) == ([], {}, ["yarn.lock", "go.sum"])


@pytest.mark.parametrize(
    ("key", "name", "version"),
    [
        ("a@1.0.0", "a", "1.0.0"),
        ("'@s/a@1.0.0'", "@s/a", "1.0.0"),
        ("/a/1.0.0", "a", "1.0.0"),
        ("/a/1.0.0_b@2.0.0", "a", "1.0.0"),
        ("/@s/a/1.0.0_@t+b@2.0.0", "@s/a", "1.0.0"),
        ("/@s/a@1.0.0(b@2.0.0)", "@s/a", "1.0.0"),
        ("a@file:own", "a", "file:own"),
    ],
)
def test_keys_of_each_version_of_pnpm(key: str, name: str, version: str) -> None:
    text = (
        f"lockfileVersion: 6.0\n\npackages:\n\n  {key}:\n    resolution: {{integrity: sha512-aa}}\n"
    )
    (entry,) = read_entries("pnpm-lock.yaml", text)
    assert (entry.name, entry.version, entry.digests) == (name, version, ("sha512-aa",))


def test_a_long_key_of_pnpm_and_of_yarn_is_read() -> None:
    long = "a@1.0.0(b@2.0.0)"
    text = f"lockfileVersion: '6.0'\npackages:\n  ? '{long}'\n  : resolution: {{integrity: sha512-aa}}\n"
    assert [(one.name, one.version) for one in read_entries("pnpm-lock.yaml", text)] == [
        ("a", "1.0.0")
    ]
    text = '__metadata:\n  version: 8\n\n? "a@npm:1, a@npm:2"\n:\n  version: 2.0.0\n  resolution: "a@npm:2.0.0"\n'
    assert [(one.name, one.version) for one in read_entries("yarn.lock", text)] == [("a", "2.0.0")]


MIRROR = "https://npm.corp.example/a.tgz"
PUBLIC = "https://registry.npmjs.org/a.tgz"
SHA512, SHA1 = '      "integrity": "sha512-aa",\n', '      "integrity": "sha1-aa",\n'


def npm(**given: str) -> str:
    return NPM.format(**{"version": "1.0.0", "url": PUBLIC, "digest": SHA512, **given})


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        # A mirror's file that takes a package from the public registry: dependency confusion.
        (npm(url=MIRROR), npm(url=PUBLIC, version="1.0.1"), ["lock-source"]),
        (npm(url="https://registry.npmmirror.com/a.tgz"), npm(url=PUBLIC, version="1.0.1"), []),
        (npm(url=PUBLIC), npm(url="https://registry.npmmirror.com/a.tgz", version="1.0.1"), ["lock-source"]),
        (npm(), npm(url="https://registry.yarnpkg.com/a.tgz", version="1.0.1"), []),
        (npm(), npm(url="git+ssh://git@github.com/s/a.git#4bf2", digest=""), ["lock-source"]),
        (npm().replace("/a", "/b"), npm(url="git+ssh://git@github.com/s/a.git#4bf2", digest=""), ["lock-outside"]),
        (npm(url="git+ssh://git@github.com/s/a.git#4bf2", digest=""), npm(url="git+ssh://git@github.com/s/a.git#99", digest=""), []),
        (npm(url="git+ssh://git@github.com/s/a.git#4bf2", digest=""), npm(url="git+ssh://git@github.com/t/a.git#4bf2", digest=""), ["lock-outside"]),
        (npm().replace("/a", "/b"), npm(url="file:../elsewhere", digest=""), ["lock-outside"]),
        (npm().replace("/a", "/b"), npm(url="file:own", digest=""), []),
        (npm(), npm(url="file:own", digest=""), ["lock-outside"]),
        (npm(url="git+ssh://git@github.com/s/a.git#4bf2", digest=""), npm(), []),
        (npm(digest=SHA1), npm(), []),
        (npm(), npm(digest=SHA1), ["lock-digest"]),
        (npm(), npm(digest=""), ["lock-unverified"]),
        (npm(), npm(url='", "inBundle": true, "x": "', digest=""), []),
        (npm(), npm(url='", "x": "', digest=""), ["lock-unverified"]),
        (npm(digest=""), npm(digest="", version="1.0.1"), []),
        (npm(url=PUBLIC.replace("https", "http")), npm(url=PUBLIC.replace("https", "http"), version="1.0.1"), []),
    ],
)  # fmt: skip
def test_entries_that_leave_the_registry_or_lose_digests(
    tmp_path: Path, was: str, now: str, expected: list[str]
) -> None:
    if was.replace(SHA512, "") == now:  # only lines are removed
        assert [one.code for one in look(tmp_path, {"package-lock.json": was}, {"package-lock.json": now}).findings] == expected  # fmt: skip
    else:
        assert codes(tmp_path, "package-lock.json", was, now) == expected


def test_a_package_that_moves_between_two_registries_of_the_file_is_reported(
    tmp_path: Path,
) -> None:
    both = npm(url=MIRROR).replace(
        '    "packages/own"',
        f'    "node_modules/b": {{"version": "1", "resolved": "{PUBLIC}", "integrity": "sha512-b"}},\n    "packages/own"',
    )
    moved = both.replace(MIRROR, "https://registry.npmjs.org/a-2.tgz")
    assert codes(tmp_path / "1", "package-lock.json", both, moved) == ["lock-source"]
    update = moved.replace("1.0.0", "1.0.1", 1)
    assert codes(tmp_path / "2", "package-lock.json", both, update) == ["lock-moved"]
    # Other packages still come from there, so this name may be of somebody else.
    more = (
        f'"node_modules/c": {{"version": "1", "resolved": "{MIRROR}", "integrity": "sha512-c"}},\n'
    )
    both, update = (
        each.replace('    "node_modules/b"', f'    {more}    "node_modules/b"')
        for each in (both, update)
    )
    assert codes(tmp_path / "3", "package-lock.json", both, update) == ["lock-source"]


def test_a_new_lock_file_of_a_mirror_reports_only_what_is_from_elsewhere(tmp_path: Path) -> None:
    entry = '    "node_modules/{0}": {{"version": "1", "resolved": "{1}/{0}.tgz", "integrity": "sha512-b"}}'
    listed = [entry.format(name, "https://npm.corp.example") for name in "abc"]
    whole = '{{"lockfileVersion": 3,\n"packages": {{\n{}\n}}}}\n'
    quiet = whole.format(",\n".join(listed))
    assert look(tmp_path / "1", {}, {"package-lock.json": quiet}).findings == []
    listed.append(entry.format("d", "https://evil.example"))
    found = look(tmp_path / "2", {}, {"package-lock.json": whole.format(",\n".join(listed))})
    assert [(one.code, one.line) for one in found.findings] == [("lock-source", 6)]


def test_another_version_of_yarn_writes_other_checksums(tmp_path: Path) -> None:
    was = BERRY.format(version="1.0.0", digest="  checksum: 8/aa\n")
    assert codes(tmp_path, "yarn.lock", was, was.replace("8/aa", "10c0/bb")) == []


def test_a_wheel_from_another_host_and_a_replaced_wheel_are_reported(tmp_path: Path) -> None:
    wheels = 'wheels = [\n  {{ url = "{}/a.whl", hash = "sha256:{}" }},\n  {{ url = "https://files.pythonhosted.org/b.whl", hash = "sha256:bb" }},\n]\n'
    form = partial(UV.format, version="1.0.0", url="https://pypi.org/simple")
    was = form(digest=wheels.format("https://files.pythonhosted.org", "aa"))
    for number, (head, code) in enumerate(
        [
            (wheels.format("https://evil.example", "aa"), "lock-source"),
            (wheels.format("https://files.pythonhosted.org", "cc"), "lock-digest"),
        ]
    ):
        assert codes(tmp_path / str(number), "uv.lock", was, form(digest=head)) == [code]
    more = wheels.format("https://files.pythonhosted.org", "aa").replace(
        "]\n", '  { url = "https://files.pythonhosted.org/c.whl", hash = "sha256:cc" },\n]\n'
    )
    assert codes(tmp_path / "more", "uv.lock", was, form(digest=more)) == []


def test_a_branch_of_a_composer_package_moves_on(tmp_path: Path) -> None:
    form = COMPOSER.replace("{digest}", '        "reference": "{digest}",\n')
    url = "https://api.github.com/repos/v/a/zipball/{}"
    was = form.format(version="dev-main", url=url.format(1), digest="aa")
    now = form.format(version="dev-main", url=url.format(2), digest="bb")
    assert codes(tmp_path / "1", "composer.lock", was, now) == []
    tag = [text.replace("dev-main", "v1.0.0") for text in (was, now)]
    assert codes(tmp_path / "2", "composer.lock", *tag) == ["lock-digest"]


def test_requirements_with_hashes_are_a_lock_file_too(tmp_path: Path) -> None:
    was = "a==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\nb==2.0 --hash=sha256:cc\n"
    cases = {
        was.replace("cc", "dd"): ["lock-digest"],
        was.replace("2.0", "2.1").replace("cc", "dd"): [],
        was.replace(" --hash=sha256:cc", ""): ["lock-unverified"],
        was.replace("sha256:bb", "sha256:ee"): [],
    }
    for number, (now, expected) in enumerate(cases.items()):
        assert codes(tmp_path / str(number), "requirements.txt", was, now) == expected


def test_hundreds_of_replaced_digests_are_ten_findings_and_the_last_counts(tmp_path: Path) -> None:
    was = "".join(f"x.io/a{number} v1.0.0 h1:{number}=\n" for number in range(300))
    found = look(tmp_path, {"go.sum": was}, {"go.sum": was.replace("h1:", "h1:z")}).findings
    assert [one.code for one in found] == ["lock-digest"] * 10
    assert found[-1].message.endswith("as with 290 more packages")


def test_lock_files_of_megabytes_are_compared_in_seconds(tmp_path: Path) -> None:
    def lock(salt: str) -> str:
        return "".join(f"x.io/package-{n} v1.0.0 h1:{salt}{n:040}=\n" for n in range(30_000))

    files = []
    for side, text in (("base", lock("a")), ("head", lock("b"))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "go.sum").write_text(text)
        files = [{"path": "go.sum", "old_path": "go.sum", "status": "modified", "added": list(range(1, 30_001))}]  # fmt: skip
    begin = time.process_time()
    reply = run_check(dependencies.run, {"base_root": str(tmp_path / "base"), "head_root": str(tmp_path / "head"), "files": files})  # fmt: skip
    assert len(reply.findings) == 10
    assert time.process_time() - begin < 4


def test_a_string_without_an_end_in_a_lock_file_takes_no_time() -> None:
    begin = time.process_time()
    with pytest.raises(Gap, match="could not be read"):
        read_entries("bun.lock", '{"' + '\\"' * 20_000)
    assert time.process_time() - begin < 1


def test_a_lock_file_above_the_bound_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependencies, "MAX_LOCK_FILE", 1 << 20)
    reply = look(tmp_path, {}, {"go.sum": " " * (1 << 20) + "\n"})
    assert reply.gaps == {"go.sum": "larger than 1 MiB"}


def test_one_version_may_have_several_digests_and_be_brought_along_by_another(
    tmp_path: Path,
) -> None:
    def lock(**packages: str) -> str:
        entries = {
            f"node_modules/{place}/node_modules/a": {"version": "1.0.0"}
            | (
                {"integrity": digest, "resolved": "https://registry.npmjs.org/a.tgz"}
                if digest
                else {}
            )
            for place, digest in packages.items()
        }
        return json.dumps({"lockfileVersion": 3, "packages": entries}, indent=1)

    was = lock(b="sha512-aa", c="sha1-bb", d="")
    more = lock(b="sha512-aa", c="sha1-bb", d="", e="sha1-bb")
    assert codes(tmp_path / "1", "package-lock.json", was, more) == []
    weaker = lock(b="sha512-aa"), lock(b="sha1-bb")
    assert codes(tmp_path / "2", "package-lock.json", *weaker) == ["lock-digest"]


def test_a_mix_lock_tells_other_bytes_and_other_places(tmp_path: Path) -> None:
    was = MIX.format(version="1.0.0", digest="aa")
    update = MIX.format(version="1.0.1", digest="bb")
    elsewhere = update.replace("github.com/b/b", "evil.example/b").replace("0123abcd", "4567")
    heads = {
        update: [],
        MIX.format(version="1.0.0", digest="bb"): ["lock-digest"],
        update.replace('"hexpm", "bbdd"', '"corp", "bbdd"'): ["lock-source"],
        elsewhere: ["lock-outside"],
    }
    for number, (now, wanted) in enumerate(heads.items()):
        assert codes(tmp_path / str(number), "mix.lock", was, now) == wanted
