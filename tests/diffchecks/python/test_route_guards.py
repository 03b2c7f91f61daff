"""Routes that a change adds without the guard that the routes beside them have."""

from collections.abc import Callable

import pytest

from diffchecks import removed_controls
from diffchecks.check_io import CheckReply
from diffchecks.python import route_guards
from tests.diffchecks.python.conftest import Compare

Codes = Callable[..., list[str]]


def flask(name: str, guard: str = "@login_required", method: str = "POST", body: str = "") -> str:
    return (
        f'@bp.route("/{name}/<int:id>", methods=["{method}"])\n{guard}\n'
        f"def {name}(id):\n    {body}return remove(id)\n\n\n"
    )


def fastapi(name: str, guard: str = "user=Depends(current_user)", method: str = "post") -> str:
    return f'@router.{method}("/{name}/{{id}}")\nasync def {name}(id: int, {guard}):\n    ...\n\n\n'


def django(name: str, guard: str = "@login_required") -> str:
    return f"{guard}\ndef {name}(request, pk):\n    return render(request, '{name}.html')\n\n\n"


def view(name: str, bases: str = "LoginRequiredMixin, DetailView", body: str = "") -> str:
    return f"class {name}({bases}):\n    model = Order\n    {body}\n\n\n"


def drf(name: str, body: str = "permission_classes = [IsAuthenticated]") -> str:
    return view(name, "APIView", body)


def aiohttp(name: str, guard: str = "@require_role('admin')") -> str:
    return f'@routes.post("/{name}/{{id}}")\n{guard}\nasync def {name}(request):\n    await request.post()\n\n\n'


def tornado(name: str, guard: str = "@tornado.web.authenticated") -> str:
    return f"class {name}(RequestHandler):\n    {guard}\n    def post(self, id):\n        remove(id)\n\n\n"


def graphene(name: str, guard: str = "@login_required") -> str:
    return f"class {name}(graphene.Mutation):\n    {guard}\n    def mutate(root, info, id):\n        remove(id)\n\n\n"


def strawberry(name: str, guard: str = "(permission_classes=[IsAuthenticated])") -> str:
    return f"@strawberry.mutation{guard}\ndef {name}(id: int) -> bool:\n    return remove(id)\n\n\n"


KINDS: dict[str, Callable[..., str]] = {
    "flask": flask,
    "fastapi": fastapi,
    "django": django,
    "view": view,
    "drf": drf,
    "aiohttp": aiohttp,
    "tornado": tornado,
    "graphene": graphene,
    "strawberry": strawberry,
}
NONE = {
    "flask": "",
    "fastapi": "db=Depends(get_db)",
    "django": "",
    "view": "DetailView",
    "drf": "",
    "aiohttp": "",
    "tornado": "",
    "graphene": "",
    "strawberry": "",
}
NAMES = ("Orders", "Invoices", "Refunds")


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_route_without_the_guard_of_its_neighbors_is_reported(
    compare: Compare, kind: str
) -> None:
    base = "".join(map(KINDS[kind], NAMES))
    bad = base + KINDS[kind]("Coupons", NONE[kind])
    (finding,) = compare(route_guards, {"app.py": base}, {"app.py": bad}).findings
    assert finding.key in {"Coupons", "Coupons.mutate"}
    assert finding.message.startswith(
        f"Is it meant that {finding.key} has no guard? Of the 3 other"
    )
    good = base + KINDS[kind]("Coupons")
    assert not compare(route_guards, {"app.py": base}, {"app.py": good}).findings


def asks(codes: Codes, old: str, new: str) -> bool:
    """Whether a change that adds ``new`` to a file is asked about."""
    return codes(route_guards, {"app.py": old}, {"app.py": old + new}) == ["unguarded"]


FLASK = "".join(map(flask, NAMES))
API = "".join(map(fastapi, NAMES))
VIEWS = "".join(map(view, NAMES))


@pytest.mark.parametrize("name", ["login", "health_check", "static_file", "stripe_webhook"])
def test_a_route_that_is_public_by_its_name_is_not_reported(codes: Codes, name: str) -> None:
    assert not asks(codes, FLASK, flask(name, ""))
    assert not asks(codes, API, fastapi(name, "db=Depends(get_db)"))


@pytest.mark.parametrize(
    "new",
    [
        flask("Coupons", "", body="abort(403) if not g.admin else None\n    "),
        flask("Coupons", "", body="check_permission(id)\n    "),
        flask("Coupons", "@tenant"),
        flask("Coupons", "@public"),
        flask("Coupons", "@bp.before_request"),
        '@bp.route("/coupons")\ndef coupons():\n    return render_template("coupons.html")\n',
        "def helper(id):\n    return id\n",
        flask("Coupons", "@csrf.exempt", body="hmac.compare_digest(a, b)\n    "),
    ],
)
def test_a_route_that_may_be_guarded_is_not_reported(codes: Codes, new: str) -> None:
    assert not asks(codes, FLASK, new)


@pytest.mark.parametrize(
    ("guard", "asked"),
    [
        ("db: Session = Depends(get_db)", True),
        ("db: SessionDep", True),
        ("page: Page = Depends()", True),
        ("user: UserCreate", True),
        ("user: CurrentUser", False),
        ("user: Annotated[User, Depends(get_current_user)]", False),
        ("user = Security(get_user, scopes=['a'])", False),
        ("user = Depends(get_current_user_optional)", False),
        ("tenant = Depends(get_tenant)", False),
        ("order = Depends(own_order)", False),
    ],
)
def test_dependencies_of_a_route(codes: Codes, guard: str, *, asked: bool) -> None:
    own = "def own_order(user=Depends(current_user)):\n    ...\n\n\n"
    assert asks(codes, own + API, fastapi("Coupons", guard)) is asked


def test_a_guard_in_the_call_that_makes_the_route(codes: Codes) -> None:
    new = fastapi("Coupons", "db=Depends(get_db)")
    assert asks(codes, API, new)
    guarded = new.replace('{id}")', '{id}", dependencies=[Depends(current_user)])')
    assert not asks(codes, API, guarded)


@pytest.mark.parametrize(
    "whole",
    [
        "router = APIRouter(dependencies=[Depends(current_user)])\n",
        "app.include_router(router, dependencies=[Depends(current_user)])\n",
        "router.add_middleware(AuthMiddleware)\n",
        "@router.middleware('http')\nasync def check(request, call_next):\n    ...\n",
    ],
)
def test_routes_of_a_guarded_router_are_not_reported(codes: Codes, whole: str) -> None:
    assert not asks(codes, whole + API, fastapi("Coupons", "db=Depends(get_db)"))
    assert asks(
        codes, "router.add_middleware(Gzip)\n" + API, fastapi("Coupons", "a=Depends(get_db)")
    )


@pytest.mark.parametrize(
    ("bases", "body", "asked"),
    [
        ("DetailView", "", True),
        ("StaffRequiredMixin, DetailView", "", False),
        ("UserPassesTestMixin, DetailView", "", False),
        ("OrdersBase", "", False),
        ("Invoices", "", False),
        ("DetailView", "permission_required = 'shop.view'", False),
        ("DetailView", "permission_classes = [AllowAny]", False),
        ("Model", "", False),
    ],
)
def test_classes_of_views(codes: Codes, bases: str, body: str, *, asked: bool) -> None:
    assert asks(codes, VIEWS, view("Coupons", bases, body)) is asked


def test_a_decorator_of_a_class_guards(codes: Codes) -> None:
    new = "@method_decorator(login_required, name='dispatch')\n" + view("Coupons", "DetailView")
    assert not asks(codes, VIEWS, new)


def test_three_neighbors_and_three_quarters_of_all_must_have_a_guard(codes: Codes) -> None:
    new = flask("Coupons", "")
    assert not asks(codes, "".join(map(flask, NAMES[:2])), new)
    assert asks(codes, FLASK + flask("Shops", ""), new)
    assert not asks(codes, FLASK + flask("Shops", "") + flask("Parts", ""), new)
    many = "".join(flask(f"Page{number}") for number in range(20))
    assert asks(codes, many + flask("Shops", "") + flask("Parts", ""), new)
    assert not asks(
        codes, many + "".join(flask(each, "") for each in ("Shops", "Parts", "Tags")), new
    )
    mixed = "".join(flask(name, f"@{name.lower()}_admin_required") for name in NAMES)
    assert not asks(codes, mixed, new)


def test_methods_of_routes(codes: Codes) -> None:
    reading = flask("Coupons", "", "GET")
    assert asks(codes, FLASK, reading)
    assert not asks(codes, FLASK + flask("Shops", "", "GET"), reading)
    assert asks(codes, FLASK + flask("Shops", "", "GET"), flask("Coupons", ""))


def test_a_call_that_looks_like_a_check_and_is_not(codes: Codes) -> None:
    for body in ("user.is_admin = True\n    ", "order = session.get(Order, id)\n    "):
        assert asks(codes, FLASK, flask("Coupons", "", body=body))
    for body in ("assert user.is_admin\n    ", 'user = session.get("user")\n    '):
        assert not asks(codes, FLASK, flask("Coupons", "", body=body))


def test_a_guarded_route_with_an_open_name_counts(codes: Codes) -> None:
    base = "".join(map(flask, [*NAMES[:2], "index"]))
    assert asks(codes, base, flask("Coupons", ""))


def test_methods_of_a_class_of_views_guard_it(codes: Codes) -> None:
    base = "".join(map(tornado, NAMES))
    mixed = tornado("Coupons") + "    def get(self, id):\n        show(id)\n"
    assert not asks(codes, base, mixed)
    assert not asks(codes, base, tornado("LoginHandler", ""))


def test_pages_of_classes_that_only_show_may_be_open_together(codes: Codes) -> None:
    shown = VIEWS + view("Products", "ListView")
    assert asks(codes, VIEWS, view("Coupons", "ListView"))
    assert not asks(codes, shown, view("Coupons", "ListView"))
    assert asks(codes, shown, view("Coupons", "DeleteView"))


def test_routes_of_other_routers_are_not_neighbors(codes: Codes) -> None:
    assert not asks(codes, FLASK, flask("Coupons", "").replace("@bp", "@open_bp"))


def test_old_and_moved_routes_are_not_reported(codes: Codes, compare: Compare) -> None:
    old = FLASK + flask("Coupons", "")
    changed = old.replace("/Coupons/", "/vouchers/")
    assert codes(route_guards, {"app.py": old}, {"app.py": changed}) == []
    moved = compare(route_guards, {"app.py": old, "b.py": "x"}, {"app.py": "x", "b.py": old})
    assert not moved.findings
    assert codes(route_guards, {"b.py": "x"}, {"b.py": old}) == ["unguarded"]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (flask("Coupons"), flask("Coupons", "")),
        (fastapi("Coupons"), fastapi("Coupons", "db=Depends(get_db)")),
        (view("Coupons"), view("Coupons", "DetailView")),
    ],
)
def test_a_guard_that_is_removed_is_reported_once(compare: Compare, was: str, now: str) -> None:
    base = FLASK + API + VIEWS
    change = ({"app.py": base + was}, {"app.py": base + now})
    (finding,) = compare(removed_controls, *change).findings
    assert finding.code == "access-control-removed"
    assert not compare(route_guards, *change).findings


def test_tests_are_ignored_and_files_that_do_not_parse_are_gaps(compare: Compare) -> None:
    head = {"tests/app.py": FLASK + flask("Coupons", ""), "a.py": "def f(:\n"}
    reply: CheckReply = compare(route_guards, {}, head)
    assert not reply.findings
    assert list(reply.gaps) == ["a.py"]


@pytest.mark.parametrize(
    ("usual", "own", "method", "found"),
    [
        ("@admin_required", "@login_required", "POST", ["unguarded"]),
        ("@admin_required", "@login_required", "GET", []),
        ("@admin_required", "@admin_required", "POST", []),
        ("@login_required", "@admin_required", "POST", []),
    ],
)
def test_a_sign_in_is_asked_about_where_others_ask_for_an_administrator(
    codes: Codes, usual: str, own: str, method: str, found: list[str]
) -> None:
    before = "".join(flask(name, usual) for name in ("drop", "lock", "rename"))
    added = flask("promote", own, method)
    assert codes(route_guards, {"v.py": before}, {"v.py": before + added}) == found
