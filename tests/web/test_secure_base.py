"""Who is let in, from where, and that nothing of what a page is given can run in it."""

import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import httpx2
import pytest
from jinja2 import ChoiceLoader, DictLoader, PackageLoader
from starlette.responses import Response

from orchestrator.errors import InputError, RunNotFound
from orchestrator.report import page_templates
from orchestrator.web import site as serving
from orchestrator.web.access import PROXY_SECRET_HEADER, Access, Proxy
from orchestrator.web.site import (
    FormAction,
    Site,
    SitePage,
    SitePart,
    Stream,
    Visit,
    running,
    serve,
)
from tests.plain_http import PLAIN, press_sign_in
from tests.report.browser import Browser, needs_axe, needs_chromium

HOSTILE = '<script>document.title="pwned"</script>"onload=x \u202e\x1b[31m'
DONE: list[str] = []


def show(visit: Visit) -> Response:
    return visit.render("demo.html", title="Demo", text=HOSTILE)


def act(visit: Visit) -> Response:
    DONE.append(f"{visit.person.name}: {visit.form['text']}")
    return visit.redirect("/", "It is done.")


def fail(visit: Visit) -> Response:
    if "run" in visit.query:
        raise RunNotFound("there is no such run")
    raise ValueError("a defect")


async def events(visit: Visit) -> AsyncIterator[tuple[str, str]]:
    yield "hello", "one\ntwo"


DEMO = SitePart(
    [
        SitePage("/", show),
        SitePage("/fail", fail),
        FormAction("/act", act),
        Stream("/events", events),
    ]
)
TEMPLATE = """{% extends "base.html" %}{% block content %}<h1>Demo</h1><p title="{{ text }}">{{ text }}</p>
<form method="post" action="{{ url('/act') }}">{{ csrf() }}<label>Text <input name="text"></label>
<p><button class="primary">Send</button></p></form>{% endblock %}"""


CLIENTS = ExitStack()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    ours = ChoiceLoader([DictLoader({"demo.html": TEMPLATE}), PackageLoader("orchestrator.web")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_templates, "PackageLoader", lambda _: ours)
        with running(Site(Access("dana"), [DEMO])) as site:
            yield site


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    DONE.clear()
    with CLIENTS:
        yield


def signed_in(site: Site, *, may_act: bool = True) -> httpx2.Client:
    client = CLIENTS.enter_context(
        httpx2.Client(base_url=site.access.origin, follow_redirects=True, verify=PLAIN)
    )
    assert press_sign_in(client, site.access.new_link(may_act=may_act)).status_code == 200
    return client


def csrf_of(page: httpx2.Response) -> str:
    found = re.search('name="csrf" value="([0-9a-f]+)"', page.text)
    assert found
    return found[1]


def post(client: httpx2.Client, site: Site, path: str = "/act", **changed: str) -> httpx2.Response:
    form = {"csrf": csrf_of(client.get(site.url("/"))), "text": "a\r\nb"}
    headers = {"Origin": site.access.origin}
    for name, value in changed.items():
        (form if name in form else headers)[name.replace("_", "-")] = value
    return client.post(site.url(path), data=form, headers=headers)


def test_a_page_does_not_wait_until_its_headers_are_acknowledged() -> None:
    # asyncio sets TCP_NODELAY where it knows the protocol; without it each page took 40 ms more.
    with serving._listen(Site(Access("dana"), [DEMO]), 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_link_signs_one_browser_in_once_by_a_strict_cookie(site: Site) -> None:
    link = site.access.new_link()
    with httpx2.Client(verify=PLAIN) as other:
        first = press_sign_in(other, link)
        assert first.status_code == 303
        kept = first.headers["set-cookie"].lower()
        assert "httponly" in kept
        assert "samesite=strict" in kept
        assert f"path={site.access.prefix.lower()};" in kept
        assert first.headers["location"] == site.url("/")
        assert press_sign_in(other, link).status_code == 403
    assert httpx2.get(site.access.origin + site.url("/"), verify=PLAIN).status_code == 401
    assert httpx2.get(site.access.origin + "/", verify=PLAIN).status_code == 401


@pytest.mark.attack("a preview, a scanner or a page elsewhere uses up a person's sign-in link")
@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", {}),
        ("GET", {}),
        ("GET", {"Sec-Purpose": "prefetch;prerender"}),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}),
        ("POST", {"Origin": "http://evil.example"}),
        ("POST", {"Origin": "null"}),
    ],
)
def test_whatever_fetches_a_link_signs_nobody_in_and_leaves_it_to_its_person(
    site: Site, method: str, headers: dict[str, str]
) -> None:
    link = site.access.new_link()
    for _ in range(3):
        got = httpx2.request(method, link, headers=headers, verify=PLAIN)
        assert "set-cookie" not in got.headers
        assert got.status_code == (403 if method == "POST" else 200)
    with httpx2.Client(verify=PLAIN) as person:
        assert press_sign_in(person, link).status_code == 303


@pytest.mark.attack("another program of the machine guesses links until the right one is refused")
def test_wrong_links_keep_the_right_one_from_nobody(site: Site) -> None:
    link = site.access.new_link()
    with httpx2.Client(verify=PLAIN) as client:
        wrong = f"{site.access.origin}/open?token=x"
        codes = {press_sign_in(client, wrong).status_code for _ in range(30)}
        assert codes == {403}
        assert press_sign_in(client, link).status_code == 303


def test_each_answer_forbids_frames_caches_sniffing_and_scripts_that_are_not_ours(
    site: Site,
) -> None:
    client = signed_in(site)
    for path in ("/", "/nothing", "/static/page.js", "/events"):
        headers = client.get(site.url(path)).headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),  # DNS rebinding
        ({"Host": "127.0.0.1"}, 421),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),  # another port
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({}, 200),
    ],
)
def test_only_requests_of_this_host_and_origin_are_answered(
    site: Site, headers: dict[str, str], status: int
) -> None:
    assert signed_in(site).get(site.url("/"), headers=headers).status_code == status


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 200),
        ({"csrf": "0" * 64}, 403),
        ({"csrf": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"text": "x" * 1_000_001}, 413),
    ],
)
def test_an_action_needs_our_page_and_its_token(
    site: Site, changed: dict[str, str], status: int
) -> None:
    got = post(signed_in(site), site, **changed)
    assert got.status_code == status
    assert (DONE == ["dana: a\nb"]) == (status == 200)
    assert ("It is done." in got.text) == (status == 200)


def test_a_viewer_cannot_act_or_use_the_token_of_another(site: Site) -> None:
    operator, viewer = signed_in(site), signed_in(site, may_act=False)
    assert post(viewer, site).status_code == 403
    other = csrf_of(operator.get(site.url("/")))
    assert post(viewer, site, csrf=other).status_code == 403
    assert DONE == []
    with running(Site(Access("dana", read_only=True), [DEMO])) as read_only:
        assert post(signed_in(read_only), read_only).status_code == 403


def test_an_error_is_a_page_and_the_server_goes_on(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    client = signed_in(site)
    assert client.get(site.url("/fail?run=1")).status_code == 404
    defect = client.get(site.url("/fail"))
    assert (defect.status_code, "ValueError" in defect.text) == (500, False)
    assert "a defect" in caplog.text
    assert client.get(site.url("/events")).text == "event: hello\ndata: one\ndata: two\n\n"


@pytest.mark.usefixtures("site")  # and its templates
def test_a_proxy_names_the_person_and_only_the_proxy_can() -> None:
    secret = "0123456789abcdef"
    proxy = Proxy("https://review.example.org", "X-User", secret, frozenset({"dana"}))
    with running(Site(Access("root", proxy=proxy), [DEMO])) as site:
        assert site.access.new_link() == "https://review.example.org/"

        def client(user: str, given: str = secret) -> httpx2.Client:
            headers = {"Host": "review.example.org", "X-User": user, PROXY_SECRET_HEADER: given}
            port = site.access.port
            return CLIENTS.enter_context(
                httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, verify=PLAIN)
            )

        assert client("dana", "guessed").get("/").status_code == 401
        assert client("").get("/").status_code == 401
        assert post(client("sam"), site).status_code == 403
        assert post(client("dana"), site).status_code == 303
        assert DONE == ["dana: a\nb"]
    with pytest.raises(InputError, match="not an origin"):
        Proxy("https://review.example.org/x", "X-User", secret)
    with pytest.raises(InputError, match="needs 16"):
        Proxy("https://review.example.org", "X-User", "short")


def test_a_port_that_is_taken_is_named(site: Site) -> None:
    with pytest.raises(InputError, match=f"port {site.access.port} cannot be used"):
        serve(Site(Access("dana"), []), site.access.port, lambda: None)


@needs_chromium
@needs_axe
def test_a_link_needs_no_click_where_scripts_run_and_one_where_they_do_not(
    site: Site, browser: Browser
) -> None:
    page, other = browser.new_page(), browser.new_page()
    page.sign_in(site.access.new_link())
    assert page.run("document.title") == "Demo · Diffcourt"
    other._call("Emulation.setScriptExecutionDisabled", value=True)
    other.open(site.access.new_link())
    for _ in range(3):  # past the links of the head
        other.press("Tab")
    other.follow(lambda: other.press("Enter"))
    other._call("Emulation.setScriptExecutionDisabled", value=False)
    assert other.run("document.title") == "Demo · Diffcourt"


@needs_chromium
@needs_axe
def test_in_a_browser_nothing_hostile_runs_and_a_form_works_by_keyboard(
    site: Site, browser: Browser
) -> None:
    page = browser.new_page()
    page.sign_in(site.access.new_link())
    for look in page.looks(site.access.origin + site.url("/")):
        assert page.run("document.title") == "Demo · Diffcourt"
        assert page.overflow() == 0
        assert page.axe() == [], look
    page.open(site.access.origin + site.url("/"))
    assert page.complaints() == []
    for key in ("Tab", "Tab", "Tab", "H", "i"):
        page.press(key)
    page.follow(lambda: page.press("Enter"))
    assert DONE == ["dana: Hi"]
    assert page.run("document.querySelector('[role=status]').innerText") == "It is done."
    page.open("http://localhost:" + site.access.origin.rpartition(":")[2] + site.url("/"))
    assert "you are not signed in" in page.run("document.body.innerText.toLowerCase()")
