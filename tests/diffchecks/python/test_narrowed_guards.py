"""Guards that a change leaves, and that cover fewer people, methods or routes than before."""

from collections.abc import Callable

import pytest

from diffchecks import removed_controls as check

Codes = Callable[..., list[str]]

ROUTES = "<?php\nRoute::middleware([{}])->group(function () {{\n  Route::get('/a', 'a');\n}});\n"
PLUG = "defmodule A do\n  use W, :controller\n  plug A.RequireClerk{}\n\n  def index(conn, _) do\n    1\n  end\n\n  def drop(conn, _) do\n    2\n  end\nend\n"
VAPOR = 'func routes(_ app: Application) throws {{\n    let r = app.grouped({})\n    r.get("a") {{ _ in 1 }}\n}}\n'
EXCEPT = "class A < B\n  before_action :authenticate_user!{}\n  def show\n    1\n  end\n  def drop\n    2\n  end\nend\n"
CHI = 'package a\n\nfunc f() {{\n\tr.Group(func(r chi.Router) {{\n{}\t\tr.Get("/a", a)\n\t}})\n}}\n'
WEAKER = [
    (
        "app.py",
        "@r.delete('/a')\ndef drop(session: Db, current_user: CurrentUser):\n    return page()\n",
        "@r.delete('/a')\ndef drop(session: Db):\n    return page()\n",
    ),
    (  # while the lines of other routes change, which keep theirs
        "app.py",
        "def show(user=Depends(current_user)):\n    return page()\n\n\ndef drop(user=Depends(current_user)):\n"
        "    return page()\n",
        "def show(sort: str, user=Depends(current_user)):\n    return page()\n\n\ndef drop():\n    return page()\n",
    ),
    (  # while another route gets it
        "app.py",
        "@r.get('/a', dependencies=[Depends(staff)])\ndef a():\n    return 1\n\n\n@r.get('/b')\ndef b():\n    return 2\n",
        "@r.get('/a')\ndef a():\n    return 1\n\n\n@r.get('/b', dependencies=[Depends(staff)])\ndef b():\n    return 2\n",
    ),
    ("web.php", ROUTES.format("'auth', 'verified'"), ROUTES.format("'throttle:60,1'")),
    ("a.ex", PLUG.format(""), PLUG.format(" when action in [:index]")),
    (
        "a.ex",
        PLUG.format(" when action in [:index, :drop]"),
        PLUG.format(" when action in [:index]"),
    ),
    ("a.ex", PLUG.format(""), PLUG.format(" when action not in [:drop]")),
    ("a.swift", VAPOR.format("Token(), User.guardMiddleware()"), VAPOR.format("Token()")),
    ("a.rb", EXCEPT.format(""), EXCEPT.format(", except: %i[drop]")),
    ("a.rb", EXCEPT.format(""), EXCEPT.format(", only: [:show]")),
    ("a.go", CHI.format("\t\tr.Use(requireClerk)\n"), CHI.format("")),
    (
        "a.py",
        "class V(B):\n    permission_classes = [A]\n",
        "class V(B):\n    permission_classes = [AOrReadOnly]\n",
    ),
]
AS_STRONG = [
    ("web.php", ROUTES.format("'throttle:60,1'"), ROUTES.format("'throttle:90,1'")),
    ("web.php", ROUTES.format("'auth'"), ROUTES.format("'auth', 'throttle:60,1'")),
    ("a.ex", PLUG.format(""), PLUG.format(" when action in [:index, :drop]")),
    ("a.ex", PLUG.format(" when action not in [:drop]"), PLUG.format("")),
    ("a.rb", EXCEPT.format(""), EXCEPT.format(", except: %i[other]")),
    ("a.rb", EXCEPT.format(", except: %i[show drop]"), EXCEPT.format(", except: %i[drop]")),
    (
        "A.java",
        "class A {\n  @RequiresApi(30)\n  void f() { g(); }\n}\n",
        "class A {\n  @Cached\n  void f() { g(); }\n}\n",
    ),
    (
        "a.py",
        "class V(B):\n    permission_classes = [AllowAny]\n",
        "class V(B):\n    permission_classes = [AOrReadOnly]\n",
    ),
]


@pytest.mark.parametrize(("path", "was", "now"), WEAKER)
def test_a_guard_that_covers_less_than_before(codes: Codes, path: str, was: str, now: str) -> None:
    assert codes(check, {path: was}, {path: now}) == ["access-control-removed"]


@pytest.mark.parametrize(("path", "was", "now"), AS_STRONG)
def test_a_guard_that_covers_no_less_is_not_a_finding(
    codes: Codes, path: str, was: str, now: str
) -> None:
    assert codes(check, {path: was}, {path: now}) == []


JAVA = "class A {{\n  @{}\n  void f() {{ g(); }}\n}}\n"
CSHARP = "class A {{\n  [{}]\n  void F() {{ G(); }}\n}}\n"
VIEW = "@{}\ndef show(request):\n    return 1\n"
SETTING = "class V(B):\n    permission_classes = [{}]\n"
EXPRESS = "router.delete('/a', {}, act);\n"
PHOENIX = (
    'defmodule R do\n  scope "/a" do\n    pipe_through [{}]\n    get "/a", A, :a\n  end\nend\n'
)
KTOR = 'fun Application.r() = routing {{\n  authenticate("{}") {{\n    delete("/a") {{ f() }}\n  }}\n}}\n'
RIGHTS = [
    ("A.java", JAVA, "PreAuthorize(\"hasRole('ADMIN')\")", 'PreAuthorize("isAuthenticated()")'),
    ("A.java", JAVA, 'RolesAllowed("admin")', "Authenticated"),
    ("A.cs", CSHARP, 'Authorize(Policy = "Owner")', "Authorize"),
    ("a.py", SETTING, "IsAdminUser", "IsAuthenticated"),
    ("a.py", VIEW, "permission_required('a.delete')", "login_required"),
    ("a.py", VIEW, "admin_required", "login_required"),
    (
        "a.py",
        "@r.get('/a')\ndef show(user=Depends({})):\n    return 1\n",
        "get_superuser",
        "get_current_user",
    ),
    ("web.php", "<?php\nRoute::delete('/a', 'a')->middleware('{}');\n", "can:delete,post", "auth"),
    (
        "a.php",
        "<?php\nclass A {{\n  #[IsGranted('{}')]\n  public function f() {{ return 1; }}\n}}\n",
        "ROLE_ADMIN",
        "ROLE_USER",
    ),
    (
        "a.go",
        'package a\n\nfunc f() {{\n\tr.With({}).Delete("/a", a)\n}}\n',
        "requireAdmin",
        "requireUser",
    ),
    ("a.ex", PHOENIX, ":browser, :require_admin", ":browser"),
    (
        "a.rb",
        "class A < B\n  before_action :{}\n  def f\n    1\n  end\nend\n",
        "require_admin",
        "require_login",
    ),
    ("a.js", EXPRESS, "requireAdmin", "requireAuth"),
    ("a.kt", KTOR, "admin", "user"),
    (
        "a.ex",
        "defmodule C do\n  use W, :live_view\n  on_mount {{A, :{}}}\nend\n",
        "ensure_admin",
        "ensure_authenticated",
    ),
]


@pytest.mark.parametrize(("path", "text", "was", "now"), RIGHTS)
def test_a_guard_that_asks_only_who_somebody_is_takes_the_place_of_no_right(
    codes: Codes, path: str, text: str, was: str, now: str
) -> None:
    base, head = {path: text.format(was)}, {path: text.format(now)}
    expected = "hardening-removed" if text == SETTING else "access-control-removed"
    assert codes(check, base, head) == [expected]
    assert codes(check, head, base) == []


@pytest.mark.parametrize(
    ("path", "text", "was", "now"),
    [
        (
            "A.java",
            JAVA,
            "PreAuthorize(\"hasRole('ADMIN')\")",
            "PreAuthorize(\"hasAuthority('x:write')\")",
        ),
        ("a.py", VIEW, "admin_required", "permission_required('a.delete')"),
        ("a.py", SETTING, "IsAdminUser", "IsOrganizationOwner"),
        ("a.js", EXPRESS, "requireAdmin", "requireScope('write')"),
    ],
)
def test_a_right_that_takes_the_place_of_another_is_not_a_finding(
    codes: Codes, path: str, text: str, was: str, now: str
) -> None:
    assert codes(check, {path: text.format(was)}, {path: text.format(now)}) == []


LARAVEL = (
    (
        "<?php\nclass A extends B implements HasMiddleware {\n  public static function middleware(): array {\n"
        "    return [{}'log'];\n  }}\n  public function show() {{ return 1; }}\n}}\n"
    )
    .replace("HasMiddleware {", "HasMiddleware {{")
    .replace("array {", "array {{")
)


@pytest.mark.parametrize(
    ("path", "text", "was", "now"),
    [
        ("A.cs", CSHARP, 'Authorize(Roles = "Admin")', 'Authorize(Roles = "Admin,User")'),
        (
            "A.java",
            JAVA,
            "PreAuthorize(\"hasRole('A')\")",
            "PreAuthorize(\"hasAnyRole('A', 'B')\")",
        ),
        ("A.java", JAVA, 'RolesAllowed("a")', 'RolesAllowed({"a", "b"})'),
        ("a.ts", JAVA, "Roles(Role.Admin)", "Roles(Role.Admin, Role.User)"),
        ("web.php", ROUTES, "'role:admin'", "'role:admin|editor'"),
    ],
)
def test_a_role_that_comes_lets_more_people_in(
    codes: Codes, path: str, text: str, was: str, now: str
) -> None:
    base, head = {path: text.format(was)}, {path: text.format(now)}
    assert codes(check, base, head) == ["access-control-widened"]
    assert codes(check, head, base) == []


def test_a_condition_beside_a_role_lets_nobody_in(codes: Codes) -> None:
    was, now = "PreAuthorize(\"hasRole('A')\")", "PreAuthorize(\"hasRole('A') and #id == 1\")"
    assert codes(check, {"A.java": JAVA.format(was)}, {"A.java": JAVA.format(now)}) == []
    was, now = 'Authorize(Roles = "A")', 'Authorize(Roles = "A", Policy = "B")'
    assert codes(check, {"A.cs": CSHARP.format(was)}, {"A.cs": CSHARP.format(now)}) == []


@pytest.mark.parametrize(
    ("path", "text", "guard", "code"),
    [
        ("a.php", LARAVEL, "'auth', ", "access-control-removed"),
        ("a.rb", "class A < B\n  def f\n    g\n{}  end\nend\n", "    verify_authorized\n", "access-control-removed"),
        ("a.rb", "class A < B\n  after_action :log{}\n  def f\n    1\n  end\nend\n", "\n  after_action :verify_authorized", "access-control-removed"),
        ("A.cs", "services.AddControllers(o =>\n{{\n{}  o.Filters.Add(new Log());\n}});\n", "  o.Filters.Add(new AuthorizeFilter());\n", "hardening-removed"),
    ],
)  # fmt: skip
def test_a_guard_of_all_methods_that_goes(
    codes: Codes, path: str, text: str, guard: str, code: str
) -> None:
    base, head = {path: text.format(guard)}, {path: text.format("")}
    assert codes(check, base, head) == [code]
    assert codes(check, head, base) == []


def test_a_mark_of_another_class_takes_the_place_of_none(codes: Codes) -> None:
    text = "{}public class {} : {} {{\n  public int Get() => 1;\n}}\n"
    bare, other = text.format("", "Orders", "Base"), text.format("[Authorize]\n", "Reports", "Base")
    base = {"Orders.cs": text.format("[Authorize]\n", "Orders", "Base")}
    assert codes(check, base, {"Orders.cs": bare, "Reports.cs": other}) == [
        "access-control-removed"
    ]
    above = text.format("[Authorize]\n", "Base", "Controller")
    assert codes(check, base, {"Orders.cs": bare, "Base.cs": above}) == []


def test_what_carries_out_an_annotation_or_sends_no_token_lets_nobody_in(codes: Codes) -> None:
    meta = "@Around\n@Type(RateLimiterInterceptor.class)\n@PreAuthorize(ADMIN)\npublic @interface A {\n}\n"
    less = meta.replace("@Type(RateLimiterInterceptor.class)\n", "")
    assert codes(check, {"A.java": meta}, {"A.java": less}) == []
    open_to_all = less.replace("@PreAuthorize(ADMIN)\n", "")
    assert codes(check, {"A.java": less}, {"A.java": open_to_all}) == ["access-control-removed"]
    hub = 'class A {\n    void F() {\n        b.MapHub<H>("/hub");\n    }\n}\n'
    for call, found in (("DisableAntiforgery", []), ("AllowAnonymous", ["access-control-removed"])):
        head = hub.replace(";", f"\n            .{call}();")
        assert codes(check, {"A.cs": hub}, {"A.cs": head}) == found


PHOENIX = "defmodule A do\n  use W, :controller\n  plug :load when action in [:drop]\n{}\n  def drop(conn, _) do\n    1\n  end\n\n  defp load(conn, _) do\n{}  end\nend\n"
RAILS = "class A < B\n  before_action :load, only: %i[show edit drop]\n{}\n  def edit\n{}    1\n  end\n\n  def drop\n{}    2\n  end\n\n  def load\n    @a = find\n{}  end\nend\n"
EXPRESS = "function load(req, res, next) {{\n{}  next();\n}}\nr.put('/a/:id', load, {}act);\n"
ASKS = "    if authorized?(conn) do\n      conn\n    else\n      conn |> put_status(404) |> halt()\n    end\n"
OWNS = "  if (req.a.owner !== req.user.id) return res.status(404).end();\n"
NO_HALT, THROWN_AWAY = ASKS.replace(" |> halt()", ""), "    authorized?(conn)\n    conn\n"
PLUGGED, FILTERED = (
    "  plug :authorize when action in [:drop]\n",
    "  before_action :authorize_owner, only: %i[edit drop]\n",
)
MOVED = [  # base, with the guard in another function, and without it
    (
        "a.ex",
        PHOENIX.format(PLUGGED, "    conn\n"),
        [PHOENIX.format("", ASKS)],
        [
            PHOENIX.format("", NO_HALT),
            PHOENIX.format("", THROWN_AWAY),
            PHOENIX.format("", ASKS).replace("[:drop]", "[:show]"),
        ],
    ),
    (
        "a.rb",
        RAILS.format(FILTERED, "", "", ""),
        [
            RAILS.format("", "", "", "    authorize @a\n"),
            RAILS.format("", "", "", "    head :forbidden unless @a.owner == current_user\n"),
            RAILS.format("", "", "", "    raise RecordNotFound unless can?(:edit, @a)\n"),
            RAILS.format("", "    authorize @a\n", "    authorize @a\n", ""),
        ],
        [
            RAILS.format("", "    authorize @a\n", "", ""),
            RAILS.format("", "", "", "    can?(:edit, @a)\n"),
            RAILS.format("", "", "", "    raise RecordNotFound unless @a.name\n"),
            RAILS.format("", "", "", "    authorize @a\n").replace("edit drop]", "edit]"),
            RAILS.format("", "", "", "    authorize @a\n").replace("drop]", "drop], if: :late?"),
            RAILS.format("", *["    head :forbidden unless @a.owner == current_user\n"] * 2, ""),
        ],
    ),
    (
        "a.js",
        EXPRESS.format("", "requireOwner, "),
        [EXPRESS.format(OWNS, "")],
        [EXPRESS.format(OWNS, "").replace("load, ", "")],
    ),
]


@pytest.mark.parametrize(("path", "was", "moved", "lost"), MOVED)
def test_a_guard_that_moves_into_what_runs_before_the_same_methods(
    codes: Codes, path: str, was: str, moved: list[str], lost: list[str]
) -> None:
    assert [codes(check, {path: was}, {path: now}) for now in moved] == [[]] * len(moved)
    found = [codes(check, {path: was}, {path: now}) for now in lost]
    assert found == [["access-control-removed"]] * len(lost)
