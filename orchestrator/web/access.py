"""Access to the pages: one-time links, sessions, a proxy, and checks of Host and Origin."""

import hmac
import secrets
import time
from hashlib import sha256
from urllib.parse import urlsplit

from msgspec import Struct, field
from starlette.requests import Request

from orchestrator.errors import InputError

HOURS = 12
"""How long a session lasts."""
LINK_HOURS = 1
"""How long a link that nobody opened is valid."""
TRIES = 10
"""Wrong tokens for /metrics at once; after that, one more every ``SECONDS_PER_TRY``."""
SECONDS_PER_TRY = 6.0
PROXY_SECRET = "DIFFCOURT_PROXY_SECRET"  # noqa: S105 - a variable's name
PROXY_SECRET_HEADER = "X-Diffcourt-Proxy"  # noqa: S105 - a header's name
MIN_SECRET = 16
METRICS_TOKEN = "DIFFCOURT_METRICS_TOKEN"  # noqa: S105 - a variable's name
MAX_NAME = 200


class AccessDenied(Exception):
    """A request is rejected.

    Args:
        status: the HTTP status.
        why: what is wrong and what to do, in one line.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Person(Struct, frozen=True):
    """A signed-in person, who may act or only read."""

    name: str
    may_act: bool


class Session(Struct):
    """A browser in which a person is signed in.

    Attributes:
        csrf: the token that each of its forms must send back.
        ends: a time of ``time.monotonic``.
        notes: messages for the next page: results of actions.
    """

    person: Person
    csrf: str
    ends: float
    notes: list[str] = field(default_factory=list)


class _AttemptLimit:
    """Limits the number of attempts to guess a token that a person chose."""

    def __init__(self) -> None:
        self._left, self._at = float(TRIES), time.monotonic()

    def check(self) -> None:
        """Check that an attempt is left."""
        now = time.monotonic()
        self._left = min(TRIES, self._left + (now - self._at) / SECONDS_PER_TRY)
        self._at = now
        if self._left < 1:
            raise AccessDenied(429, "too many wrong tokens; wait a minute")

    def fail(self) -> None:
        """Count a failed attempt."""
        self._left -= 1


class Proxy(Struct, frozen=True):
    """A reverse proxy that signs people in and names them in a header.

    Attributes:
        origin: the address for browsers, such as ``https://review.example.org``.
        user_header: the header with the person's name; the proxy must replace what clients send.
        secret: sent by the proxy in ``PROXY_SECRET_HEADER``, so that other programs of this
            machine cannot name a person.
        operators: people who may act; all others may only read.
    """

    origin: str
    user_header: str
    secret: str
    operators: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        parts = urlsplit(self.origin)
        if (
            parts.scheme not in {"http", "https"}
            or self.origin != f"{parts.scheme}://{parts.netloc}"
        ):
            raise InputError(
                f"{self.origin} is not an origin; give scheme and host only, such as "
                "https://review.example.org"
            )
        if len(self.secret) < MIN_SECRET or not self.secret.isascii():
            raise InputError(
                f"the proxy's secret, {PROXY_SECRET}, needs {MIN_SECRET} ASCII characters; make "
                "one with: openssl rand -hex 32"
            )


class Access:
    """Decides about each request before a page sees it.

    Args:
        user: the user of the program, whom its links sign in.
        read_only: nobody may act.
        proxy: signs people in, instead of links.
        metrics_token: the token of a scraper; empty: no scraper is admitted.

    Attributes:
        origin: of the pages for browsers.

    Raises:
        InputError: the token is too short.
    """

    def __init__(
        self,
        user: str,
        *,
        read_only: bool = False,
        proxy: Proxy | None = None,
        metrics_token: str = "",
    ) -> None:
        if metrics_token and (len(metrics_token) < MIN_SECRET or not metrics_token.isascii()):
            raise InputError(
                f"the token for /metrics needs {MIN_SECRET} ASCII characters; make one with: "
                "openssl rand -hex 32"
            )
        self._metrics_token = metrics_token
        self._user, self._read_only, self.proxy = user, read_only, proxy
        # Cookies are shared by all ports of a host, but not by all paths: no other program of this
        # machine is sent ours.
        self.prefix = "" if proxy else f"/{secrets.token_urlsafe(9)}"
        self._key = secrets.token_bytes(32)
        self._links: dict[bytes, tuple[bool, float]] = {}
        self._sessions: dict[bytes, Session] = {}
        self._token_tries = _AttemptLimit()
        self._origins: tuple[str, ...] = ()
        self.port, self.origin = 0, ""
        self.cookie = "diffcourt"

    def serve_at(self, port: int) -> None:
        """Set the port of the server."""
        self.port = port
        hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._origins = (self.proxy.origin,) if self.proxy else tuple(f"http://{h}" for h in hosts)
        self.origin = self._origins[0]

    def new_link(self, *, may_act: bool = True) -> str:
        """A URL that signs one browser in, once; with a proxy, the plain URL."""
        if self.proxy:
            return f"{self.origin}/"
        token = secrets.token_urlsafe(32)
        now = time.monotonic()
        self._links = {known: link for known, link in self._links.items() if link[1] > now}
        self._links[_digest(token)] = (may_act, now + LINK_HOURS * 3600)
        return f"{self.origin}/open?token={token}"

    def check_source(self, request: Request) -> None:
        """Check that a request is for this server, and from its own pages.

        Raises:
            AccessDenied: it names another host, as by DNS rebinding, or comes from another origin.
        """
        hosts = {origin.partition("://")[2] for origin in self._origins}
        if request.headers.get("host", "") not in hosts:
            raise AccessDenied(421, f"this server answers at {self.origin} only")
        if request.method not in {"GET", "HEAD", "POST"}:
            raise AccessDenied(405, f"{request.method} is not used here")
        came_from = request.headers.get("sec-fetch-site", "none")
        navigates = request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        looks = request.method != "POST" and navigates
        if came_from not in {"none", "same-origin"} and not looks:
            raise AccessDenied(403, "a page from another origin requested this; open it here")
        if request.method == "POST" and not self._is_own(request):
            raise AccessDenied(
                403, "this was sent from a page of another origin; send it from here"
            )

    def _is_own(self, request: Request) -> bool:
        origin = request.headers.get("origin", "")
        return origin in self._origins and origin.endswith(f"://{request.headers['host']}")

    def exchange(self, token: str) -> str:
        """The value of the session's cookie for the token of a link, which is valid once.

        Wrong tokens are not counted: nobody guesses 256 bits, but whoever could use up the tries
        could keep the right person out.

        Raises:
            AccessDenied: the link is not valid any more.
        """
        now = time.monotonic()
        link = self._links.pop(_digest(token), None)
        if self.proxy or link is None or link[1] < now:
            raise AccessDenied(
                403, "this link was used or is too old; for a new one, press Enter in the terminal"
            )
        value = secrets.token_urlsafe(32)
        name = _digest(value)
        person = Person(self._user, link[0] and not self._read_only)
        self._sessions = {at: one for at, one in self._sessions.items() if one.ends > now}
        self._sessions[name] = Session(person, self._csrf(name), now + HOURS * 3600)
        return value

    def find_session(self, request: Request) -> Session:
        """The session of a request.

        Raises:
            AccessDenied: nobody is signed in.
        """
        if self.proxy:
            return self._from_proxy(request, self.proxy)
        found = self._sessions.get(_digest(request.cookies.get(self.cookie, "")))
        if found is None or found.ends < time.monotonic():
            raise AccessDenied(401, "you are not signed in; open the link that the command printed")
        return found

    def is_scraper(self, request: Request) -> bool:
        """Whether a request for a page for programs is from a program, not through the proxy."""
        return not (self.proxy and PROXY_SECRET_HEADER in request.headers)

    def admit_scraper(self, request: Request) -> Session:
        """The session of a program that reads metrics; it may name any host, as no browser can ask.

        Raises:
            AccessDenied: the token is missing, or there were too many wrong ones.
        """
        self._token_tries.check()
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(_digest(given.strip()), _digest(self._metrics_token))
        if not self._metrics_token or kind.lower() != "bearer" or not right:
            if given:
                self._token_tries.fail()
            raise AccessDenied(
                401,
                "metrics need the header Authorization: Bearer TOKEN, with the token of "
                f"--metrics-token-file or {METRICS_TOKEN}",
            )
        return Session(Person("scraper", may_act=False), "", 0)

    def _from_proxy(self, request: Request, proxy: Proxy) -> Session:
        given = request.headers.get(PROXY_SECRET_HEADER, "")
        name = request.headers.get(proxy.user_header, "").strip()
        if not hmac.compare_digest(_digest(given), _digest(proxy.secret)):
            raise AccessDenied(401, f"the request did not pass the proxy; open {proxy.origin}")
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise AccessDenied(401, f"the proxy named no user in {proxy.user_header}")
        may_act = name in proxy.operators and not self._read_only
        at = _digest(name)
        if at not in self._sessions:
            self._sessions[at] = Session(Person(name, may_act), self._csrf(at), 0)
        return self._sessions[at]

    def _csrf(self, name: bytes) -> str:
        return hmac.new(self._key, name, sha256).hexdigest()


def _digest(text: str) -> bytes:
    """The key for looking up a secret, so that timing reveals nothing about it."""
    return sha256(text.encode()).digest()
