"""Leads: views that a change adds without the guard or owner check of the views beside them."""

from collections.abc import Callable

import pytest

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


def asks(codes: Codes, old: str, new: str) -> bool:
    """Whether a change that adds ``new`` to a file gets a lead about its guard."""
    return codes(route_guards, {"app.py": old}, {"app.py": old + new}) == ["unguarded"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_route_without_the_guard_of_its_neighbors_is_a_lead(
    compare: Compare, kind: str
) -> None:
    base = "".join(map(KINDS[kind], NAMES))
    bad = base + KINDS[kind]("Coupons", NONE[kind])
    (lead,) = compare(route_guards, {"app.py": base}, {"app.py": bad}).findings
    assert lead.code == "unguarded"
    assert lead.key in {"Coupons", "Coupons.mutate"}
    good = base + KINDS[kind]("Coupons")
    assert not compare(route_guards, {"app.py": base}, {"app.py": good}).findings


FLASK = "".join(map(flask, NAMES))
API = "".join(map(fastapi, NAMES))
OPEN = "db=Depends(get_db)"


@pytest.mark.parametrize("name", ["login", "health_check", "static_file", "stripe_webhook"])
def test_a_route_that_is_public_by_its_name_is_no_lead(codes: Codes, name: str) -> None:
    assert not asks(codes, FLASK, flask(name, ""))


@pytest.mark.parametrize(
    "new",
    [
        flask("Coupons", "", body="abort(403) if not g.admin else None\n    "),
        flask("Coupons", "", body="check_permission(id)\n    "),
        flask("Coupons", "@public"),
        "def helper(id):\n    return id\n",
    ],
)
def test_a_route_that_may_be_guarded_is_no_lead(codes: Codes, new: str) -> None:
    assert not asks(codes, FLASK, new)


@pytest.mark.parametrize(
    "whole",
    [
        "router = APIRouter(dependencies=[Depends(current_user)])\n",
        "app.include_router(router, dependencies=[Depends(current_user)])\n",
        "router.add_middleware(AuthMiddleware)\n",
        "@router.middleware('http')\nasync def check(request, call_next):\n    ...\n",
    ],
)
def test_routes_of_a_guarded_router_are_no_lead(codes: Codes, whole: str) -> None:
    assert not asks(codes, whole + API, fastapi("Coupons", OPEN))
    assert asks(codes, "router.add_middleware(Gzip)\n" + API, fastapi("Coupons", OPEN))


def test_three_neighbors_and_three_quarters_of_all_must_have_a_guard(codes: Codes) -> None:
    new, shop = flask("Coupons", ""), flask("Shops", "")
    assert not asks(codes, "".join(map(flask, NAMES[:2])), new)
    assert asks(codes, FLASK + shop, new)
    assert not asks(codes, FLASK + shop + flask("Parts", ""), new)


def test_old_and_moved_routes_are_no_lead(codes: Codes, compare: Compare) -> None:
    old = FLASK + flask("Coupons", "")
    changed = old.replace("/Coupons/", "/vouchers/")
    assert codes(route_guards, {"app.py": old}, {"app.py": changed}) == []
    moved = compare(route_guards, {"app.py": old, "b.py": "x"}, {"app.py": "x", "b.py": old})
    assert not moved.findings
    assert codes(route_guards, {"b.py": "x"}, {"b.py": old}) == ["unguarded"]


def test_tests_are_ignored_and_files_that_do_not_parse_are_gaps(compare: Compare) -> None:
    head = {"tests/app.py": FLASK + flask("Coupons", ""), "a.py": "def f(:\n"}
    reply: CheckReply = compare(route_guards, {}, head)
    assert not reply.findings
    assert list(reply.gaps) == ["a.py"]


DJANGO = """@login_required
def {name}(request, pk):
    order = get_object_or_404(Order, {by})
    order.save()
    return redirect("orders")


"""
FLASK_ORDER = """@bp.route("/{name}/<int:order_id>", methods=["POST"])
@login_required
def {name}(order_id):
    order = Order.query.filter_by({by}).first_or_404()
    return redirect("/")


"""
FASTAPI = """@router.get("/{name}/{{order_id}}")
def {name}(order_id: int, session: Session, current_user: CurrentUser):
    return session.exec(select(Order).where({by})).first()


"""
DRF = """class {name}View(APIView):
    def post(self, request, *args, **kwargs):
        order = Order.objects.get({by})
        return Response()


"""
SQL = """@bp.route("/{name}/<int:pin_id>", methods=["POST"])
def {name}(pin_id):
    if g.user is None:
        abort(401)
    db.execute({by})
    return redirect("/")


"""


@pytest.mark.parametrize(
    ("view", "owned", "bare"),
    [
        (DJANGO, "pk=pk, customer=request.user", "pk=pk"),
        (FLASK_ORDER, "id=order_id, user_id=current_user.id", "id=order_id"),
        (
            FASTAPI,
            "Order.id == order_id, Order.owner_id == current_user.id",
            "Order.id == order_id",
        ),
        (DRF, "pk=kwargs['pk'], account__user=request.user", "pk=kwargs['pk']"),
        (
            SQL,
            "'DELETE FROM pins WHERE id = ? AND owner = ?', (pin_id, g.user['id'])",
            "'DELETE FROM pins WHERE id = ?', (pin_id,)",
        ),
    ],
)
def test_a_view_that_does_not_ask_for_the_owner_is_a_lead(
    codes: Codes, view: str, owned: str, bare: str
) -> None:
    before = view.format(name="edit", by=owned)
    for by, found in ((bare, ["unowned"]), (owned, [])):
        after = before + view.format(name="cancel", by=by)
        assert codes(route_guards, {"v.py": before}, {"v.py": after}) == found
