"""Objects that a change loads by their id alone, where views beside it ask whose they are."""

from collections.abc import Callable

import pytest

from diffchecks.python import route_guards

Codes = Callable[..., list[str]]

DJANGO = """@login_required
def {name}(request, pk):
    order = get_object_or_404(Order, {by})
    {does}
    return redirect("orders")


"""
FLASK = """@bp.route("/{name}/<int:order_id>", methods=["POST"])
@login_required
def {name}(order_id):
    order = Order.query.filter_by({by}).first_or_404()
    {does}
    return redirect("/")


"""
FASTAPI = """@router.get("/{name}/{{order_id}}")
def {name}(order_id: int, session: Session, current_user: CurrentUser):
    order = session.exec(select(Order).where({by})).first()
    {does}
    return order


"""
DRF = """class {name}View(APIView):
    def post(self, request, *args, **kwargs):
        order = Order.objects.get({by})
        {does}
        return Response()


"""
# Template, how it loads by the owner, and how by the id alone.
KINDS = {
    "django": (DJANGO, "pk=pk, customer=request.user", "pk=pk"),
    "flask": (FLASK, "id=order_id, user_id=current_user.id", "id=order_id"),
    "fastapi": (FASTAPI, "Order.id == order_id, Order.owner_id == current_user.id", "Order.id == order_id"),
    "chained": (DJANGO.replace("get_object_or_404(Order, {by})", "Order.objects.filter({by}).get(pk=pk)"), "customer=request.user", ""),
    "drf": (DRF, "pk=kwargs['pk'], account__user=request.user", "pk=kwargs['pk']"),
}  # fmt: skip
SAVE, SHOW = "order.save()", "show(order)"


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_that_does_not_check_the_owner_is_reported(codes: Codes, kind: str) -> None:
    template, owned, bare = KINDS[kind]
    before = template.format(name="edit", by=owned, does=SAVE)
    more = template.format(name="cancel", by=bare, does=SAVE)
    assert codes(route_guards, {"v.py": before}, {"v.py": before + more}) == ["unowned"]
    mended = template.format(name="cancel", by=owned, does=SAVE)
    assert codes(route_guards, {"v.py": before}, {"v.py": before + mended}) == []


SHOWS = [("edit", SAVE), ("receipt", SHOW)]
READ = ("invoice", "pk=pk", SHOW)


@pytest.mark.parametrize(
    ("others", "added", "found"),
    [
        (SHOWS, READ, ["unowned"]),
        # Everybody may read here, and only the owner may write.
        ([("edit", SAVE), ("cancel", SAVE)], READ, []),
        (SHOWS[1:], READ, ["unowned"]),
        (SHOWS, ("invoice", "pk=pk", "if order.customer != request.user: raise Http404"), []),
        (SHOWS, ("invoice", "pk=pk", "check_right(request, order)"), []),
        (SHOWS, ("admin_invoice", "pk=pk", SHOW), []),
        (SHOWS, ("invoice", "number=request.GET['secret']", SHOW), []),
        (SHOWS, ("invoice", "pk=1", SHOW), []),
    ],
)
def test_a_reading_view_is_reported_if_other_reading_views_check_the_owner(
    codes: Codes, others: list[tuple[str, str]], added: tuple[str, str, str], found: list[str]
) -> None:
    owned = KINDS["django"][1]
    before = "".join(DJANGO.format(name=name, by=owned, does=does) for name, does in others)
    name, by, does = added
    more = DJANGO.format(name=name, by=by, does=does)
    assert codes(route_guards, {"v.py": before}, {"v.py": before + more}) == found
    assert codes(route_guards, {"v.py": before + more}, {"v.py": f"# a\n{before}{more}"}) == []


SQL = """@bp.route("/{name}/<int:pin_id>", methods=["POST"])
def {name}(pin_id):
    if g.user is None:
        abort(401)
    db.execute("DELETE FROM pins WHERE {by}", ({given}))
    return redirect("/")


"""
MINE = """class MyOrderList(ListAPIView):
    permission_classes = [IsAuthenticated]

    def get_queryset(self):
        return Order.objects.filter(courier=self.request.user)


"""
DETAIL = """class OrderView(RetrieveAPIView):
    permission_classes = [IsAuthenticated]
    queryset = Order.objects.all()
"""
SIGNED_IN = """@bp.route("/users/<int:user_id>", methods=["POST"])
def change(user_id, me=Depends(current_user)):
    user = User.query.get(user_id)
    user.email = request.form["email"]
    db.session.commit()
"""
LISTED = """def front(request):
    return show(Order.objects.all())


"""


@pytest.mark.parametrize(
    ("before", "added", "found"),
    [
        (
            SQL.format(name="remove", by="id = ? AND owner = ?", given="pin_id, g.user['id']"),
            SQL.format(name="drop", by="id = ?", given="pin_id,"),
            ["unowned"],
        ),
        (
            SQL.format(name="remove", by="id = ? AND owner = ?", given="pin_id, g.user['id']"),
            SQL.format(name="drop", by="id = ? AND owner = ?", given="pin_id, g.user['id']"),
            [],
        ),
        (MINE, DETAIL, ["unowned"]),
        (MINE, DETAIL.replace("IsAuthenticated", "IsOwner"), []),
        (MINE + LISTED, DETAIL, []),
        ("", SIGNED_IN, ["unowned"]),
        (
            "",
            "class UserChange(tornado.web.RequestHandler):\n    @tornado.web.authenticated\n"
            "    def post(self, number):\n        user = User.get_by_id(number)\n        user.save()\n",
            ["unowned"],
        ),
        (
            "",
            "class UserChange(MethodView):\n    decorators = [allows.requires(CanChange()), login_required]\n"
            "    def post(self, number):\n        user = User.query.get(number)\n        user.save()\n",
            [],
        ),
        ("", SIGNED_IN.replace("    user =", "    check_right(user_id)\n    user ="), []),
    ],
)
def test_statements_classes_and_accounts_are_asked_about_too(
    codes: Codes, before: str, added: str, found: list[str]
) -> None:
    assert codes(route_guards, {"v.py": before}, {"v.py": before + added}) == found
