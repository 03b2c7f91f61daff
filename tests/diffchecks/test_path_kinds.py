"""What a file is for, by its path: one table that every analyzer, rule and plan goes by."""

import pytest

from diffchecks.path_kinds import is_illustrative, is_product, is_public_module, is_test, path_kinds

TABLE = """
# Code, and nothing else
src/pkg/mod.py                        code
lib/Latest.java                       code
src/Contest.php                       code
pkg/attestation.go                    code
docker/app.py                         code
doctor/views.py                       code
pkg/history.py                        code
src/license_manager.ts                code
dockerfile_parser.py                  code
pkg/testing.py                        code
werkzeug/test.py                      code
pkg/tool_spec.py                      code
app/tasks.py                          code
starlette/middleware/wsgi.py          code
myapp/conf.py                         code
src/vectors/math.py                   code
src/t/types.ts                        code
pkg/__init__.py                       code init
pkg/mod.pyi                           code stubs
pkg/__init__.pyi                      code init stubs
# Names of packages and of what a product is about
src/main/java/org/example/Login.java  code
src/main/kotlin/com/example/demo/A.kt code
src/commonMain/kotlin/org/example/A.kt code
src/main/scala-3/example/Main.scala   code
src/main/java/shop/vendor/Sellers.java code
src/Shop.Demo/Controllers/Login.cs    code
src/demo/views.py                     code
lib/demo/accounts.ex                  code
internal/spec/parse.go                code
internal/samples/store.go             code
src/spec/mod.rs                       code
src/samples/samples.service.ts        code
app/vendor/orders_controller.rb       code
app/Http/Controllers/Vendor/Login.php code
src/vendor/vendor.controller.ts       code
vendor/models.py                      code
examples/a/src/main/java/org/A.java   code samples
src/Shop.Demo/Program.cs              code samples
samples/Shop/Controllers/Login.cs     code samples
src/demo/app.ts                       code samples
src/vendor/jquery.js                  code vendored
vendor/shop/models.py                 code vendored
vendor/shop/spec/parse.go             code vendored
# Nothing of these
pkg/data.json
requirements.txt
CMakeLists.txt
.env
server.pem
# Tests
tests/test_a.py                       code tests
pkg/tests/helper.py                   code tests
pkg/testing/helpers.py                code tests
testing/unit.py                       code tests
pkg/fixtures/app.py                   code tests
specs/a.py                            code tests
spec/models/user_spec.rb              code tests
src/mocks/x.py                        code tests
src/api/__mocks__/client.js           code tests
t/basic.py                            code tests
src/FooTests.kt                       code tests
src/Vault.t.sol                       code tests
src/VaultTest.sol                     code tests
src/Attestation.sol                   code
src/FooTest.java                      code tests
src/TestFoo.java                      code tests
src/PaymentIT.java                    code tests
src/UserSpec.scala                    code tests
app/src/androidTest/Login.kt          code tests
Tests/AppTests/Login.swift            code tests
src/Acme.Tests/Login.cs               code tests
cypress/login.ts                      code tests
packages/playwright/src/index.ts      code
packages/playwright-test/src/index.ts code
packages/playwright/src/tests/a.ts    code tests
packages/playwright/tests/index.ts    code tests
packages/app/playwright/src/login.ts  code tests
src/main/java/test/shop/Login.java    code
src/test/java/shop/Login.java         code tests
tests/src/main/kotlin/Login.kt        code tests
src/main/java/shop/LoginTest.java     code tests
e2e/login.ts                          code tests
web/login.cy.ts                       code tests
web/login.spec.tsx                    code tests
web/login.test.js                     code tests
web/login-test.js                     code tests
pkg/thing_test.go                     code tests
pkg/mock_store.go                     code tests
pkg/store_mock.go                     code tests
pkg/thing_test.py                     code tests
pkg/tests.py                          code tests
conftest.py                           code tests
test.py                               code tests
test.js                               code tests
base/run_unittest.cc                  code tests
scripts.bats                          code tests
unit_tests/a.py                       code tests
lib/unittest-files/a.exe               tests
openpgp/keys_test_data.go              code tests
test_utils/a.py                       code tests
integration-tests/a.py                code tests
testdata/key.pem                      samples tests
tests/data/cases/a.py                 code samples tests
tests/units/test_data.py              code tests
vectors/rsa.pem                       tests
pkg/user.fixtures.json                tests
test-config.yml                       tests
.env.test                             tests
docker-compose.test.yml               tests
tests/cassettes/login.yaml            tests
web/__snapshots__/a.snap              generated tests
# Samples
examples/app.py                       code samples
python-examples/app.py                code samples
example_project/app.py                code samples
pkg/demo/app.py                       code samples
tutorial/step1.py                     code samples
bench/loop.py                         code samples
benchmarks/loop.py                    code samples
benches/loop.rs                       code samples
DVCSharp-API.postman_collection.json    samples
.env.example                          samples
config.sample.yml                     samples
wp-config-sample.php                  code samples
templates/styleguide.html             samples
# Documents
README                                documents
README.md                             documents
readme.ja                             documents
LICENSE-MIT                           documents
CHANGES.txt                           documents
HISTORY.rst                           documents
pkg/notes.md                          documents
locale/de.po                          documents
docs/index.md                         documents samples
docs/a.py                             code documents samples
docs_src/a.py                         code documents samples
docs/img/a.svg                        documents samples
docs/conf.py                          code documents samples sphinx
docs/source/conf.py                   code documents samples sphinx
conf.py                               code sphinx
tests/README.md                       documents tests
license.pem
news.json
# Other people's code
node_modules/a/index.js               code vendored
web/vendor/a.js                       code vendored
web/static/vendors/a.js               code vendored
src/Admin/wwwroot/lib/jquery/jquery.js   code vendored
app/vendors/views.py                  code
ext/sqlite-3.45.1/sqlite3.c           code vendored
js/jquery-ui-1.13.2/ui/widget.js      code vendored
ext/sqlite-3.45/sqlite3.c             code
app/release-1.13.2/run.py             code
app/data-migration-1.13.2/run.py      code
pip/_vendor/six.py                    code vendored
libs/urllib3/util/url.py              code vendored
app/custom_libs/html5lib/filters.py   code vendored
external/zlib/inflate.c               code vendored
libs/accounts/src/zlib.ts             code
lib/sqlalchemy/engine.py              code
libs/urllib3.py                       code
third_party/lib/a.c                   code vendored
deps/3rdparty/a.c                     code vendored
# Written by a program
dist/app.min.js                       code generated
dist/app.js.map                       generated
pkg/api_pb2.py                        code generated
pkg/api_pb2.pyi                       code generated stubs
pkg/api.pb.go                         code generated
src/__generated__/types.ts            code generated
src/models.g.dart                     code generated
poetry.lock                           lock_files
web/package-lock.json                 lock_files
go.sum                                lock_files
pylock.dev.toml                       lock_files
# CI and container builds
.github/workflows/test.yml            ci
.github/workflows/tests.yaml          ci
.github/actions/build/action.yml      ci
.github/CODEOWNERS                    ci
.github/x.py                          ci code
.github/scripts/test_release.py       ci code tests
.github/pull_request_template.md      documents
.gitlab-ci.yml                        ci
.gitlab-ci-test.yml                   ci
.circleci/config.yml                  ci
azure-pipelines.yml                   ci
Jenkinsfile                           ci
Dockerfile                            ci
web/Dockerfile.test                   ci
web/app.dockerfile                    ci
ci/deploy.sh                          ci code
# What builds and maintains the project
setup.py                              code tooling
packages/a/setup.py                   code tooling
noxfile.py                            code tooling
script/bump.py                         code tooling
manage.py                             code tooling
site/wsgi.py                          code tooling
tasks.py                              code tooling
scripts/release.py                    code tooling
pkg/scripts/run.py                    code
typings/lib/a.pyi                     code stubs tooling
app/migrations/0001_first.py          code migrations
"""
ROWS = [line.split() for line in TABLE.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(("path", "kinds"), [(path, set(kinds)) for path, *kinds in ROWS])
def test_a_path_shows_the_purpose_of_the_file(path: str, kinds: set[str]) -> None:
    assert path_kinds(path) == kinds


@pytest.mark.parametrize(
    ("path", "test", "product", "public"),
    [
        ("src/pkg/mod.py", False, True, True),
        ("pkg/_impl.py", False, True, False),
        ("pkg/_impl/mod.py", False, True, False),
        ("pkg/__init__.py", False, True, True),
        ("pkg/testing.py", False, True, True),
        ("testing/unit.py", True, False, False),
        ("pkg/tests/helper.py", True, False, False),
        ("pkg/thing_test.py", True, False, False),
        ("conftest.py", True, False, False),
        ("docs/conf.py", False, False, False),
        ("docs_src/a.py", False, False, False),
        ("scripts/release.py", False, False, False),
        ("pkg/scripts/run.py", False, True, True),
        ("setup.py", False, False, False),
        (".github/x.py", False, False, False),
        ("pip/_vendor/six.py", False, False, False),
        ("pkg/api_pb2.py", False, True, True),
    ],
)
def test_product_and_public_modules_are_derived_from_the_path(
    path: str, test: bool, product: bool, public: bool
) -> None:
    assert (is_test(path), is_product(path), is_public_module(path)) == (test, product, public)


def test_values_are_made_up_in_tests_samples_and_documents_but_not_in_workflows() -> None:
    for path in (
        "tests/a.py",
        "examples/a.py",
        "docs/a.py",
        "website/.vitepress/theme/a.py",
        "README.md",
        ".env.example",
    ):
        assert is_illustrative(path)
    for path in ("pkg/a.py", ".github/workflows/test.yml", "setup.py", "go.sum", "web/Dockerfile"):
        assert not is_illustrative(path)
