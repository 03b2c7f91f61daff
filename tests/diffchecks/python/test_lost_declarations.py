"""Declared protection that a change removes, and changes that only look like it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffchecks import removed_controls as check
from tests.diffchecks.check_kit import run_check

Compare = Callable[..., Any]
Codes = Callable[..., list[str]]

CSHARP = "class A {{\n  [{}]\n  void F() {{ G(); }}\n}}\n"
JAVA = "class A {{\n  @{}\n  void f() {{ g(); }}\n}}\n"
GO = "package a\n\nfunc f() {{\n\t{}\n}}\n"
RUBY = "class A < B\n  {}\n  def f\n    1\n  end\nend\n"
ACCESS, HARDENING = "access-control-removed", "hardening-removed"
LOST = [
    (
        ACCESS,
        "app.py",
        "@login_required\n@cached\ndef view(request):\n    return page(request)\n",
        "@cached\ndef view(request):\n    return page(request)\n",
    ),
    (  # one of two
        ACCESS,
        "app.py",
        "@login_required\n@require_POST\ndef view(request):\n    return page(request)\n",
        "@login_required\ndef view(request):\n    return page(request)\n",
    ),
    (  # of several lines, of which the first stays
        ACCESS,
        "app.py",
        "@requires(\n    'admin_role',\n)\ndef view(request):\n    return page(request)\n",
        "@requires(\n)\ndef view(request):\n    return page(request)\n",
    ),
    (
        ACCESS,
        "app.py",
        "def view(user=Depends(current_user)):\n    return page()\n",
        "def view():\n    return page()\n",
    ),
    (
        ACCESS,
        "app.py",
        "def view(user: Annotated[User, Depends(current_user)]):\n    return page()\n",
        "def view():\n    return page()\n",
    ),
    (
        ACCESS,
        "app.py",
        "class View(LoginRequiredMixin, Base):\n    x = 1\n",
        "class View(Base):\n    x = 1\n",
    ),
    (
        HARDENING,
        "app.py",
        "class View(Base):\n    authentication_classes = [Token]\n    kind = 'a'\n    page = 2\n",
        "class View(Base):\n    kind = 'a'\n    page = 2\n",
    ),
    (
        ACCESS,
        "A.java",
        "class A {\n  @PreAuthorize(\"hasRole('ADMIN')\")\n  void act(Item item) {\n    remove(item);\n"
        "    save(item);\n  }\n}\n",
        "class A {\n  void act(Item item) {\n    remove(item);\n    save(item);\n  }\n}\n",
    ),
    (
        ACCESS,
        "A.cs",
        'class A {\n  [Authorize(Roles = "admin")]\n  public void Act() { Remove(); }\n}\n',
        "class A {\n  public void Act() { Remove(); }\n}\n",
    ),
    (
        ACCESS,
        "A.cs",
        "app.MapControllers().RequireAuthorization();\napp.Run();\n",
        "app.MapControllers();\napp.Run();\n",
    ),
    (
        ACCESS,
        "a.php",
        "<?php\nclass A {\n  #[IsGranted('ROLE_ADMIN')]\n  function act() { go(); }\n}\n",
        "<?php\nclass A {\n  function act() { go(); }\n}\n",
    ),
    (
        ACCESS,
        "a.ts",
        "@Controller()\nclass A {\n  @UseGuards(AdminGuard)\n  act() { go(); }\n}\n",
        "@Controller()\nclass A {\n  act() { go(); }\n}\n",
    ),
    (
        ACCESS,
        "a.rb",
        "class A < B\n  before_action :authenticate_user!\n\n  def act\n    1\n  end\nend\n",
        "class A < B\n\n  def act\n    1\n  end\nend\n",
    ),
    (
        ACCESS,
        "a.js",
        "router.post('/act', requireAuth, act);\nrouter.get('/', show);\n",
        "router.post('/act', act);\nrouter.get('/', show);\n",
    ),
    (
        ACCESS,
        "A.cs",
        "class A : B {\n  [ValidateAntiForgeryToken]\n  [HttpPost]\n  public void F() { G(); }\n}\n",
        "class A : B {\n  [HttpPost]\n  public void F() { G(); }\n}\n",
    ),
    (
        ACCESS,
        "A.cs",
        'app.MapDelete("/x", (int id) => act(id)).RequireAuthorization();\napp.Run();\n',
        'app.MapDelete("/x", (int id) => act(id));\napp.Run();\n',
    ),
    (
        ACCESS,
        "web.php",
        "<?php\nRoute::delete('/x', [A::class, 'f'])\n  ->name('x')\n  ->middleware(['auth', 'a']);\n",
        "<?php\nRoute::delete('/x', [A::class, 'f'])\n  ->name('x');\n",
    ),
    (
        ACCESS,
        "web.php",
        "<?php\nRoute::middleware(['auth'])->group(function () {\n  Route::get('/x', 'a');\n});\n",
        "<?php\nRoute::group([], function () {\n  Route::get('/x', 'a');\n});\n",
    ),
    (
        ACCESS,
        "A.php",
        "<?php\nclass A extends B {\n  function __construct() {\n    $this->middleware('auth');\n  }\n"
        "  function f() { g(); }\n}\n",
        "<?php\nclass A extends B {\n  function f() { g(); }\n}\n",
    ),
    (
        ACCESS,
        "Kernel.php",
        "<?php\nclass Kernel {\n  protected $middlewareGroups = ['web' => [\n    A::class,\n"
        "    VerifyCsrfToken::class,\n  ]];\n}\n",
        "<?php\nclass Kernel {\n  protected $middlewareGroups = ['web' => [\n    A::class,\n  ]];\n}\n",
    ),
    (ACCESS, "a.js", "app.use(requireAuth);\napp.use(routes);\n", "app.use(routes);\n"),
    (ACCESS, "a.js", "r.get('/x', [auth, admin], f);\n", "r.get('/x', [admin], f);\n"),
    (ACCESS, "a.js", "r.get('/x', { preHandler: auth }, f);\n", "r.get('/x', {}, f);\n"),
    (
        ACCESS,
        "A.java",
        'class A {\n  void f(H h) {\n    h.matchers("/admin").hasRole("ADMIN").any();\n  }\n}\n',
        'class A {\n  void f(H h) {\n    h.matchers("/admin").permitAll().any();\n  }\n}\n',
    ),
    # of which a part goes, or that comes in another spelling
    (ACCESS, "A.cs", CSHARP.format('Authorize(Roles = "Admin")'), CSHARP.format("Authorize")),
    (ACCESS, "A.cs", CSHARP.format('RequireScope("x")'), CSHARP.format("HttpPost")),
    (
        ACCESS,
        "web.php",
        "<?php\nRoute::get('/x', 'a')->middleware(['auth', 'verified']);\n",
        "<?php\nRoute::get('/x', 'a')->middleware(['verified']);\n",
    ),
    (
        ACCESS,
        "a.php",
        "<?php\nRoute::get('/x', 'a')->can('update', 'post');\n",
        "<?php\nRoute::get('/x', 'a');\n",
    ),
    (ACCESS, "a.js", "app.use('/a', jwt({ key }));\napp.use(x);\n", "app.use(x);\n"),
    (ACCESS, "a.ts", "r.get('/x', withAuth(f));\n", "r.get('/x', f);\n"),
    (ACCESS, "a.go", GO.format('r.GET("/x", AuthRequired(), f)'), GO.format('r.GET("/x", f)')),
    (ACCESS, "a.go", GO.format("r.Use(AuthMiddleware())\n\tgo()"), GO.format("go()")),
    (ACCESS, "a.go", GO.format('r.Group("/x", mw.JWT())'), GO.format('r.Group("/x")')),
    (ACCESS, "a.go", GO.format('r.Handle("/", requireLogin(f))'), GO.format('r.Handle("/", f)')),
    (ACCESS, "a.go", GO.format('r.With(authn.Only).Get("/", f)'), GO.format('r.Get("/", f)')),
    (
        ACCESS,
        "a.kt",
        'fun R.m() {\n  authenticate("admin") {\n    get("/a") { f() }\n  }\n  g()\n}\n',
        'fun R.m() {\n  get("/a") { f() }\n  g()\n}\n',
    ),
    (
        ACCESS,
        "a.rb",
        "Rails.routes.draw do\n  authenticate :user do\n    mount A => 'a'\n  end\nend\n",
        "Rails.routes.draw do\n  mount A => 'a'\nend\n",
    ),
    (
        ACCESS,
        "a.swift",
        "func routes(_ a: A) {\n  let p = a.grouped(User.guardMiddleware())\n  p.get(use: f)\n}\n",
        "func routes(_ a: A) {\n  let p = a\n  p.get(use: f)\n}\n",
    ),
    (
        ACCESS,
        "a.rs",
        'fn app() -> R {\n  R::new().route("/a", get(f))\n    .layer(from_fn(require_admin))\n}\n',
        'fn app() -> R {\n  R::new().route("/a", get(f))\n}\n',
    ),
    (ACCESS, "A.java", JAVA.format("RequiresAuthentication"), JAVA.format("Override")),
    (ACCESS, "a.rb", RUBY.format("load_and_authorize_resource"), RUBY.format("")),
    (ACCESS, "a.rb", RUBY.format("protect_from_forgery with: :exception"), RUBY.format("")),
    (ACCESS, "app.py", "@user_passes_test(f)\ndef f(a):\n    g(a)\n", "def f(a):\n    g(a)\n"),
    (
        ACCESS,
        "app.py",
        "@method_decorator(login_required, name='dispatch')\nclass A(B):\n    x = 1\n",
        "class A(B):\n    x = 1\n",
    ),
    (
        HARDENING,
        "settings.py",
        "MIDDLEWARE = [\n    'django.middleware.csrf.CsrfViewMiddleware',\n    'app.Timer',\n]\n",
        "MIDDLEWARE = [\n    'app.Timer',\n]\n",
    ),
    # that something new has now, which covers nothing else
    (
        ACCESS,
        "a.ts",
        "app.get('/a/:id', requireAuth, show);\n",
        "app.get('/a/:id', show);\napp.post('/b', requireAuth, act);\n",
    ),
    (
        ACCESS,
        "app.py",
        "@login_required\ndef view(request):\n    return 1\n",
        "def view(request):\n    return 1\n\n\n@login_required\ndef other(request):\n    return 2\n",
    ),
]


@pytest.mark.parametrize(("code", "path", "was", "now"), LOST)
def test_a_removed_declaration(codes: Codes, code: str, path: str, was: str, now: str) -> None:
    assert codes(check, {path: was}, {path: now}) == [code]
    assert codes(check, {path: now}, {path: was}) == []


OPENED = [
    (
        "A.cs",
        "class A {\n  void F() { G(); }\n}\n",
        "class A {\n  [AllowAnonymous]\n  void F() { G(); }\n}\n",
    ),
    (
        "A.java",
        'class A {\n  @RolesAllowed("a")\n  void f() { g(); }\n}\n',
        "class A {\n  @PermitAll\n  void f() { g(); }\n}\n",
    ),
    (
        "S.java",
        "class S {\n  void f(H h) { h.anyRequest().authenticated(); }\n}\n",
        "class S {\n  void f(H h) { h.anyRequest().permitAll(); }\n}\n",
    ),
    (
        "app.py",
        "class V(B):\n    permission_classes = [A]\n",
        "class V(B):\n    permission_classes = [AllowAny]\n",
    ),
    (
        "a.rb",
        "class A < B\n  def f\n    1\n  end\nend\n",
        "class A < B\n  skip_before_action :authenticate_user!\n  def f\n    1\n  end\nend\n",
    ),
]


OPENED += [
    (path, was, now.replace("user!", f"user!, only: %i[{named}]"))
    for path, was, now in OPENED[-1:]
    for named in ("f", "f hook", "inherited")
]
STATEMENTS = [
    (
        "a.php",
        "<?php\nclass A extends C {\n  public function update($r, $p) {\n    $this->authorize('update', $p);\n    return $p->save();\n  }\n}\n",
        "    $this->authorize('update', $p);\n",
    ),
    (
        "b.php",
        "<?php\nclass A extends C {\n  public function update($r, $p) {\n    Gate::authorize('update', $p);\n    return $p->save();\n  }\n}\n",
        "    Gate::authorize('update', $p);\n",
    ),
    (
        "c.php",
        "<?php\nclass A extends C {\n  public function update($r, $p) {\n    $this->denyAccessUnlessGranted('EDIT', $p);\n    return $p->save();\n  }\n}\n",
        "    $this->denyAccessUnlessGranted('EDIT', $p);\n",
    ),
    (
        "a.rb",
        "class A < B\n  def update\n    authorize @post\n    @post.save\n  end\nend\n",
        "    authorize @post\n",
    ),
    (
        "b.rb",
        "class A < B\n  def update\n    authorize! :edit, @post\n    @post.save\n  end\nend\n",
        "    authorize! :edit, @post\n",
    ),
    (
        "a.js",
        "export async function del(req, res) {\n  await requireRole(req.user, 'admin');\n  await remove(req.params.id);\n}\n",
        "  await requireRole(req.user, 'admin');\n",
    ),
    (
        "a.ts",
        "export class A {\n  async del(req: R) {\n    this.checkPermission(req.user);\n    return remove(req.id);\n  }\n}\n",
        "    this.checkPermission(req.user);\n",
    ),
    (
        "b.ts",
        "export async function loader({ request, params }: Args) {\n  await requireUser(request);\n  return find(params.id);\n}\n",
        "  await requireUser(request);\n",
    ),
    (
        "a.go",
        "package a\n\nfunc Del(w W, r *R) {\n\trequireAdmin(w, r)\n\tremove(r.ID)\n}\n",
        "\trequireAdmin(w, r)\n",
    ),
    (
        "A.java",
        "class A {\n  void del(R r) {\n    checkPermission(r.user());\n    remove(r.id());\n  }\n}\n",
        "    checkPermission(r.user());\n",
    ),
    (
        "A.cs",
        "class A : B {\n  async Task Del(R r) {\n    await EnsurePermission(r.User);\n    Remove(r.Id);\n  }\n}\n",
        "    await EnsurePermission(r.User);\n",
    ),
    (
        "a.py",
        "class V(A):\n    def post(self, request, o):\n        self.check_object_permissions(request, o)\n        o.save()\n",
        "        self.check_object_permissions(request, o)\n",
    ),
    (
        "b.py",
        "def post(request, o):\n    check_permission(request)\n    o.save()\n",
        "    check_permission(request)\n",
    ),
]


@pytest.mark.parametrize(("path", "was", "line"), STATEMENTS)
def test_a_statement_that_refuses_a_request_is_missed_where_nothing_replaces_it(
    codes: Codes, path: str, was: str, line: str
) -> None:
    now = was.replace(line, "")
    assert codes(check, {path: was}, {path: now}) == [ACCESS]
    assert codes(check, {path: now}, {path: was}) == []
    for other in (f"{now}\n{line.strip()}\n", was.replace(line, line.replace("(", "(x, ", 1))):
        assert codes(check, {path: was}, {path: other}) == []


@pytest.mark.attack("code that lets everybody in")
@pytest.mark.parametrize(("path", "was", "now"), OPENED)
def test_a_declaration_that_lets_everybody_into_what_was_there_before(
    compare: Compare, path: str, was: str, now: str
) -> None:
    (finding,) = compare(check, {path: was}, {path: now}).findings
    assert finding.code == ACCESS
    assert "can be reached by anybody" in finding.message
    new = compare(check, {}, {path: now})
    assert not new.findings


KEPT = [
    (
        "A.cs",
        "class A {\n  void F() { G(); }\n}\n",
        "class A {\n  void F() { G(); }\n  [AllowAnonymous]\n  void Login() { G(); }\n}\n",
    ),
    (  # a method that comes with it
        "a.rb",
        "class A < B\n  def f\n    1\n  end\nend\n",
        "class A < B\n  skip_before_action :authenticate_user!, only: %i[hook], raise: false\n  def f\n    1\n  end\n\n"
        "  def hook\n    2\n  end\nend\n",
    ),
    ("a.js", "app.use(adminRouter);\napp.use(x);\n", "app.use(x);\n"),
    ("a.js", "app.use('/admin', admin(db));\napp.use(x);\n", "app.use(x);\n"),
    ("a.js", "r.get('/x', adminController.list());\n", "r.get('/x', show());\n"),
    ("A.java", JAVA.format('RolesAllowed({A, "b"})'), JAVA.format('RolesAllowed("b")')),
    (
        "web.php",
        "<?php\nRoute::get('/x', 'a')->middleware('auth');\n",
        "<?php\nRoute::middleware('auth')->group(function () {\n  Route::get('/x', 'a');\n});\n",
    ),
    # a decorator that checks the shape of a request, whatever it is about
    (
        "app.py",
        "@validation.validated(schema.role_create, 'role')\ndef create_role(a):\n    return g(a)\n",
        "def create_role(a):\n    return g(a)\n",
    ),
    ("a.rs", '#[error("unauthorized")]\nstruct A;\nfn f() {}\n', "struct A;\nfn f() {}\n"),
    # in what it guarded
    (
        "web.rb",
        "class A\n  def b\n    use CsrfProtection if c[:csrf]\n    run A\n  end\nend\n",
        "class A\n  def call(env)\n    safe?(env) ? app.call(env) : [403, {}, []]\n  end\n"
        "  def b\n    run A\n  end\nend\n",
    ),
    (
        "app.py",
        "@login_required\ndef f(a):\n    g(a)\n",
        "def f(a):\n    if not a.user:\n        raise Forbidden\n    g(a)\n",
    ),
    (
        "a.rb",
        RUBY.format("before_action :require_user"),
        RUBY.format("").replace("    1", "    return redirect_to login_path unless user\n    1"),
    ),
    # in another form
    (
        "app.py",
        "def view(user=Depends(current_user)):\n    return page()\n",
        "def view(user: Annotated[User, Depends(current_user)]):\n    return page()\n",
    ),
    (
        "app.py",
        "@login_required\ndef view(request):\n    return page(request)\n",
        "@permission_required('page')\ndef view(request):\n    return page(request)\n",
    ),
    (
        "app.py",
        "class View(Base):\n    permission_classes = [IsUser]\n",
        "class View(Base):\n    permission_classes = [IsOwner]\n",
    ),
    # with its function
    ("app.py", "@login_required\ndef view(request):\n    return 1\n\n\nx = 1\n", "x = 1\n"),
    # on all routes, on a group of them, in the class above
    (
        "app.py",
        "r = APIRouter()\n\n\n@r.delete('/{a}', dependencies=[Depends(staff)])\ndef f(a):\n    g(a)\n",
        "r = APIRouter(dependencies=[Depends(staff)])\n\n\n@r.delete('/{a}')\ndef f(a):\n    g(a)\n",
    ),
    (
        "a.js",
        "router.post('/act/a', requireAuth, act);\n",
        "router.use('/act', requireAuth);\nrouter.post('/act/a', act);\n",
    ),
    (
        "app.py",
        "class View(LoginRequiredMixin, Base):\n    x = 1\n",
        "class Own(LoginRequiredMixin, Base):\n    y = 1\n\n\nclass View(Own):\n    x = 1\n",
    ),
    (
        "a.js",
        "router.post('/act', requireAuth, act);\n",
        "router.use(requireAuth);\nrouter.post('/act', act);\n",
    ),
    ("settings.py", "MIDDLEWARE = ['app.Timer', 'app.Log']\n", "MIDDLEWARE = ['app.Log']\n"),
]


@pytest.mark.parametrize(("path", "was", "now"), KEPT)
def test_a_declaration_that_is_replaced_or_does_not_protect(
    codes: Codes, path: str, was: str, now: str
) -> None:
    assert codes(check, {path: was}, {path: now}) == []


def test_one_finding_names_every_place_and_the_removed_line(compare: Compare) -> None:
    one = "@login_required\ndef {}(a):\n    return charge(a)\n"
    was = "".join(one.format(name) for name in ("f", "g", "h"))
    now = was.replace("@login_required\n", "")
    (lost,) = compare(check, {"app.py": was}, {"app.py": now}).findings
    assert lost.message == "f can be reached without: login_required; also at lines 3, 5"
    assert (lost.line, lost.removed_path, lost.removed_line) == (1, "app.py", 1)


LOGIN = LOST[0]


def test_a_file_in_another_encoding_is_compared(tmp_path: Path) -> None:
    cookie = "# -*- coding: latin-1 -*-\n# \xe9t\xe9\n"
    for side, text in (("base", LOGIN[2]), ("head", LOGIN[3])):
        (tmp_path / side).mkdir()
        (tmp_path / side / "app.py").write_text(cookie + text, encoding="latin-1")
    roots = {f"{side}_root": str(tmp_path / side) for side in ("base", "head")}
    file = {"path": "app.py", "old_path": "app.py", "status": "modified"}
    reply = run_check(check.run, {**roots, "files": [{**file, "removed": [3], "added": []}]})
    assert ([found.code for found in reply.findings], reply.gaps) == ([ACCESS], {})


def test_a_class_that_has_only_its_docstring_parses(compare: Compare) -> None:
    was = 'class Error(Exception):\n    """What failed."""\n\n\nx = run(\n    """select 1"""\n)\n'
    reply = compare(check, {"a.py": was}, {"a.py": f"{was}y = 1\n"})
    assert (reply.gaps, reply.examined) == ({}, ["a.py"])


DOES_NOT_PARSE = "def f(:\n    pass\n"


@pytest.mark.parametrize(
    ("was", "now", "why"),
    [
        (LOGIN[2], DOES_NOT_PARSE, "does not parse: line 1: "),
        (DOES_NOT_PARSE, LOGIN[2], "the base version does not parse: line 1: "),
        (DOES_NOT_PARSE, f"{DOES_NOT_PARSE}x = 1\n", "does not parse: line 1: "),
    ],
)
def test_a_file_that_does_not_parse_is_a_gap(
    compare: Compare, was: str, now: str, why: str
) -> None:
    reply = compare(check, {"app.py": was}, {"app.py": now})
    assert list(reply.gaps) == ["app.py"]
    assert reply.gaps["app.py"].startswith(why)
    assert reply.examined == []


@pytest.mark.parametrize(
    ("was", "gaps"),
    [
        ("f(1);\n", {"all.js": "a changed line is longer than 20000 characters"}),
        ("f(1);" * 5000, {}),  # built from sources, in base already
    ],
)
def test_a_changed_line_that_a_program_packed_is_a_gap_where_it_is_new(
    compare: Compare, was: str, gaps: dict[str, str]
) -> None:
    assert compare(check, {"all.js": was}, {"all.js": "f(2);" * 5000}).gaps == gaps
    # One text is data.
    shape = f"const a = {{\n  b: '{'f(2);' * 5000}',\n}};\n"
    assert compare(check, {"all.js": "f(1);\n"}, {"all.js": shape}).gaps == {}
    assert compare(check, {"all.js": "f(1);\n"}, {"all.js": shape.replace("',", "' + f,")}).gaps
