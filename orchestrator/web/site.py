"""A site of pages, made of the parts that features add; served on this machine only."""

import hashlib
import logging
import mimetypes
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.data_directories import read_table
from orchestrator.errors import DiffcourtError, InputError, RunNotFound, StoreError
from orchestrator.report.page_templates import asset, new_environment
from orchestrator.web.access import HOURS, Access, AccessDenied, Person, Session

MAX_FORM = 1_000_000
"""Bytes of a form."""
_TABLES = read_table(__file__, "site.yaml")
HEADERS: dict[str, str] = _TABLES["headers"]
_TITLES: dict[int, str] = _TABLES["titles"]
_log = logging.getLogger(__name__)


class Visit:
    """One request of a person who is signed in.

    Attributes:
        person: who makes the request.
        query, form: the values of the URL and the form; ``get`` and ``getlist``.
        values: the named parts of the path.
    """

    def __init__(
        self, site: "Site", request: Request, session: Session, form: "ImmutableMultiDict[str, str]"
    ) -> None:
        self.site, self.session, self.form = site, session, form
        self.person: Person = session.person
        self.path: str = request.url.path.removeprefix(site.access.prefix)
        self.query: ImmutableMultiDict[str, str] = request.query_params
        self.values: Mapping[str, str] = request.path_params

    def render(self, template: str, status: int = 200, **context: Any) -> Response:
        """A page from a template of ``web/templates``."""
        notes, self.session.notes = self.session.notes, []
        return self.site.render(template, status, visit=self, notes=notes, **context)

    def redirect(self, path: str, note: str = "") -> Response:
        """Redirect to a page after an action, with a message about it."""
        if note:
            self.session.notes.append(note)
        return RedirectResponse(self.site.url(path), 303)


class SitePage(Struct, frozen=True):
    """A page for GET of a path; the path may have named parts, as in ``/runs/{run}``.

    Attributes:
        for_programs: it is also served to programs with the scraper's token.
    """

    path: str
    show: Callable[[Visit], Response]
    for_programs: bool = False


class FormAction(Struct, frozen=True):
    """An action for POST of a path, for people who may act."""

    path: str
    act: Callable[[Visit], Response]


class Stream(Struct, frozen=True):
    """Server-sent events of a path, each the name of an event and its data."""

    path: str
    events: Callable[[Visit], AsyncIterator[tuple[str, str]]]


class SitePart(Struct, frozen=True):
    """What a feature adds to a site.

    Attributes:
        entries: its pages, actions and streams.
        title, path: of its link in the navigation; empty for none.
        filters: functions for its templates.
    """

    entries: Sequence[SitePage | FormAction | Stream]
    title: str = ""
    path: str = "/"
    filters: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


class Site:
    """The pages of some parts, for people whom ``access`` admits."""

    def __init__(self, access: Access, parts: Sequence[SitePart]) -> None:
        self.access, self.parts = access, parts
        self._static = load_static()
        self._templates = new_environment(
            "orchestrator.web", url=self.url, static=self.static, site=self, csrf=_csrf_field
        )
        for part in parts:
            self._templates.filters.update(part.filters)
        routes = [
            Route("/static/{name}", self._send_static, methods=["GET"]),
            *(self._route(entry) for part in parts for entry in part.entries),
        ]
        for_programs = [
            entry
            for part in parts
            for entry in part.entries
            if isinstance(entry, SitePage) and entry.for_programs
        ]
        self.paths_for_programs = frozenset(entry.path for entry in for_programs)
        plain = map(self._route, for_programs)
        link = [
            Route("/open", self._ask_to_open, methods=["GET"]),
            Route("/open", self._open, methods=["POST"]),
        ]
        self.app = Starlette(
            routes=[*plain, Mount(access.prefix, routes=routes), *link],
            middleware=[Middleware(_AccessMiddleware, site=self)],
            exception_handlers={HTTPException: self._on_http_error},
        )

    def url(self, path: str) -> str:
        """The address of a path of this site."""
        return f"{self.access.prefix}{path}"

    def static(self, name: str) -> str:
        """The address of a file of ``web/static``, which changes with its content."""
        return self.url(f"/static/{name}?{self._static[name].digest}")

    def render(self, template: str, status: int = 200, **context: Any) -> Response:
        """A page from a template."""
        return HTMLResponse(self._templates.get_template(template).render(context), status)

    def render_part(self, template: str, **context: Any) -> Markup:
        """A part of a page from a template."""
        found = self._templates.get_template(template).render(context)
        return Markup(found)  # noqa: S704 - the template escapes

    def render_error(self, status: int, why: str, visit: Visit | None = None) -> Response:
        """A page that says what is wrong."""
        title = _TITLES.get(status, "Not possible")
        return self.render("error.html", status, title=title, why=why, visit=visit, notes=[])

    def _route(self, entry: SitePage | FormAction | Stream) -> Route:
        if isinstance(entry, SitePage):
            return Route(entry.path, self._endpoint(entry.show), methods=["GET"])
        if isinstance(entry, FormAction):
            return Route(entry.path, self._endpoint(entry.act), methods=["POST"])
        return Route(entry.path, self._streaming(entry.events), methods=["GET"])

    def _endpoint(
        self, answer: Callable[[Visit], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            session: Session = request.state.session
            form = await _read_form(request) if request.method == "POST" else ImmutableMultiDict()
            visit = Visit(self, request, session, form)
            try:
                if request.method == "POST":
                    _require_act(request, visit)
                return await run_in_threadpool(answer, visit)
            except AccessDenied as barred:
                return self.render_error(barred.status, barred.why, visit)
            except DiffcourtError as error:
                return self.render_error(_status_of(error), str(error), visit)
            except Exception:
                _log.exception("%s %s", request.method, visit.path)
                return self.render_error(500, "the terminal of the server says why", visit)

        return respond

    def _streaming(
        self, events: Callable[[Visit], AsyncIterator[tuple[str, str]]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            visit = Visit(self, request, request.state.session, ImmutableMultiDict())

            async def lines() -> AsyncIterator[str]:
                async for name, data in events(visit):
                    rows = "".join(f"data: {row}\n" for row in data.split("\n"))
                    yield f"event: {name}\n{rows}\n"

            return StreamingResponse(lines(), media_type="text/event-stream")

        return respond

    async def _send_static(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found.content, media_type=found.media_type)

    async def _ask_to_open(self, request: Request) -> Response:
        """The page of a one-time link, which signs nobody in: previews and scanners fetch it too.

        Its form does, which our script sends at once where a person sees the page.
        """
        token = request.query_params.get("token", "")
        return self.render("open.html", title="Sign in", token=token, visit=None, notes=[])

    async def _open(self, request: Request) -> Response:
        try:
            value = self.access.exchange((await _read_form(request)).get("token", ""))
        except AccessDenied as barred:
            return self.render_error(barred.status, barred.why)
        response = RedirectResponse(self.url("/"), 303)
        response.set_cookie(
            self.access.cookie, value, max_age=HOURS * 3600, path=self.access.prefix,
            httponly=True, samesite="strict",
        )  # fmt: skip
        return response

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        session = getattr(request.state, "session", None)
        visit = Visit(self, request, session, ImmutableMultiDict()) if session else None
        why = "there is no such page" if error.status_code == 404 else error.detail
        return self.render_error(error.status_code, why, visit)


class _AccessMiddleware:
    """Rejects requests without a session or from other origins, and sets response headers."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [
                    (name.lower().encode(), value.encode()) for name, value in HEADERS.items()
                ]
            await send(message)

        request, access = Request(scope), self._site.access
        answer = self._app
        try:
            if request.url.path in self._site.paths_for_programs and access.is_scraper(request):
                scope.setdefault("state", {})["session"] = access.admit_scraper(request)
                await answer(scope, receive, send_with_headers)
                return
            access.check_source(request)
            open_to_all = ("/open", f"{access.prefix}/static/")
            if not request.url.path.startswith(open_to_all):
                scope.setdefault("state", {})["session"] = access.find_session(request)
        except AccessDenied as barred:
            answer = self._site.render_error(barred.status, barred.why)
        await answer(scope, receive, send_with_headers)


async def _read_form(request: Request) -> "ImmutableMultiDict[str, str]":
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise HTTPException(413, "the form is too long")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        raise HTTPException(400, "the form cannot be read") from None
    return ImmutableMultiDict([(name, re.sub(r"\r\n?", "\n", value)) for name, value in pairs])


def _require_act(request: Request, visit: Visit) -> None:
    """Check that a form is of our page, and its person may act."""
    given = request.headers.get("x-csrf-token") or visit.form.get("csrf") or ""
    if not compare_digest(given.encode(), visit.session.csrf.encode()):
        raise AccessDenied(
            403, "the form belongs to an older session; reload the page and submit it again"
        )
    if not visit.person.may_act:
        raise AccessDenied(403, f"{visit.person.name} may only view this")


def _status_of(error: DiffcourtError) -> int:
    if isinstance(error, RunNotFound):
        return 404
    return 500 if isinstance(error, StoreError) else 409


STYLE = "style.css"
FINDINGS_SCRIPT = "findings.js"


class StaticFile(Struct, frozen=True):
    """A file that is sent as it is."""

    content: str
    media_type: str
    digest: str


@cache
def load_static() -> dict[str, StaticFile]:
    """The files of ``web/static`` by name, with style and script of the page of a verdict."""
    found = {}
    contents = {FINDINGS_SCRIPT: asset("verdict.js")}
    for path in sorted((Path(__file__).parent / "static").iterdir()):
        contents[path.name] = path.read_text(encoding="utf-8")
    contents[STYLE] = asset("shared.css") + contents[STYLE]
    for name, content in contents.items():
        kind = mimetypes.guess_type(name, strict=True)[0] or "text/plain"
        digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        found[name] = StaticFile(content, kind, digest)
    return found


@pass_context
def _csrf_field(context: Context) -> Markup:
    """What each form sends back."""
    field = Markup('<input type="hidden" name="csrf" value="{}">')
    return field.format(context["visit"].session.csrf)


HOST = "127.0.0.1"
MAX_CONNECTIONS = 200


def serve(site: Site, port: int, started: Callable[[], None]) -> None:
    """Serve a site until Ctrl-C or SIGTERM.

    Args:
        port: 0 for a free one.
        started: called once the site can be opened.

    Raises:
        InputError: the port is taken.
    """
    listening = _listen(site, port)
    started()
    try:
        _server(site).run([listening])
    except KeyboardInterrupt:
        return  # the usual end
    finally:
        listening.close()


@contextmanager
def running(site: Site) -> Iterator[Site]:
    """Serve a site in a thread, at a free port."""
    listening = _listen(site, 0)
    server = _server(site)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield site
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _listen(site: Site, port: int) -> socket.socket:
    # asyncio turns delays off (TCP_NODELAY) only where the protocol is named: 40 ms for each page.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "no such port"
        raise InputError(f"port {port} cannot be used ({why}); leave --port out") from None
    site.access.serve_at(listening.getsockname()[1])
    return listening


def _server(site: Site) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            site.app,
            ws="none",
            http="h11",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
    )
