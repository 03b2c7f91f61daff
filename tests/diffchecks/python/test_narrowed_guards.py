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
