"""Lock files: each defect in each format that can have it, beside an ordinary update without it."""

from pathlib import Path

import pytest

from orchestrator.checks.dependencies.lock_file_entries import read_entries
from tests.checks.test_dependencies import look

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
GO_SUM = "x.io/a {version} {digest}\nx.io/a {version}/go.mod h1:cc=\n"

# file, template, URL, a host's URL in the same form, digest
FORMATS = [
    ("package-lock.json", NPM, "https://registry.npmjs.org/a/-/a.tgz", '      "integrity": "sha512-{}",\n'),
    ("npm-shrinkwrap.json", NPM_1, "https://registry.npmjs.org/a/-/a.tgz", '          "integrity": "sha512-{}",\n'),
    ("yarn.lock", YARN, "https://registry.yarnpkg.com/a/-/a.tgz", "  integrity sha512-{}\n"),
    ("pnpm-lock.yaml", PNPM, "https://registry.npmjs.org/a/-/a.tgz", "integrity: sha512-{}, "),
    ("poetry.lock", POETRY, "https://pypi.org/simple", '    {{file = "a.whl", hash = "sha256:{}"}},\n'),
    ("uv.lock", UV, "https://pypi.org/simple", 'sdist = {{ url = "https://files.pythonhosted.org/a.tar.gz", hash = "sha256:{}" }}\n'),
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
    assert (
        codes(tmp_path / "1", "yarn.lock", was, was.replace("1.0.0", "1.0.1").replace("/aa", "/b"))
        == []
    )
    assert codes(tmp_path / "2", "yarn.lock", was, was.replace("/aa", "/b")) == ["lock-digest"]
    url = was.replace("a@npm:1.0.0", "a@https://evil.example/a.tgz")
    assert codes(tmp_path / "3", "yarn.lock", was, url) == ["lock-source"]


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


def test_a_host_that_base_used_is_the_teams_own_mirror(tmp_path: Path) -> None:
    digest = '      "integrity": "sha512-{}",\n'
    was = NPM.format(version="1", url="https://npm.corp.example/a", digest=digest.format("a"))
    now = NPM.format(version="2", url="https://npm.corp.example/b", digest=digest.format("b"))
    assert codes(tmp_path, "package-lock.json", was, now) == []


@pytest.mark.parametrize(
    "name", [f[0] for f in FORMATS if not f[0].startswith(("yarn", "pnpm", "Gemf"))]
)
@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"packages": 3, "package": 3}', "package = 3"]
)
def test_a_malformed_lock_file_is_a_gap(tmp_path: Path, name: str, text: str) -> None:
    assert set(look(tmp_path, {}, {name: text}).gaps) == {name}


@pytest.mark.parametrize("name", ["yarn.lock", "pnpm-lock.yaml", "Gemfile.lock", "go.sum"])
def test_a_line_format_that_is_not_its_own_has_no_packages(name: str) -> None:
    assert read_entries(name, "&a [*a, *a]\n" * 1000) == []
