"""The tool that reads a web page, only from hosts that base lists."""

import socket
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

import anyio

from orchestrator.catalog.settings import HttpHosts
from orchestrator.code_review.tools.tool_specs import make_spec
from orchestrator.engine.ports import CallContext
from orchestrator.engine.types import Json, Observation
from orchestrator.errors import InputError

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 400_000
MAX_REDIRECTS = 5
SECONDS = 20.0
NAT64 = IPv6Network("64:ff9b::/96")
HEADERS = {"accept-encoding": "identity", "user-agent": "diffcourt"}


class HttpGet:
    """Reads a page of a listed host; connects to the address that was checked."""

    spec = make_spec("http_get", tags=frozenset({"network"}), timeout=SECONDS)

    def __init__(self, allowed: HttpHosts) -> None:
        import httpx2  # noqa: PLC0415 - it would slow every start down

        self._httpx = httpx2
        full = (name if "://" in name else f"https://{name}" for name in allowed.hosts)
        self._origins = {_origin(httpx2.URL(url)) for url in full}
        self._private = {name.lower() for name in allowed.private}

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Read the page; a redirect is followed to listed hosts only.

        Raises:
            InputError: the address is not allowed or cannot be read.
        """
        httpx2 = self._httpx
        try:
            url = httpx2.URL(arguments["url"])
            transport = httpx2.AsyncHTTPTransport(trust_env=False)
            async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
                for _ in range(MAX_REDIRECTS + 1):
                    request = await self._request(url)
                    reply = await client.send(request, stream=True)
                    try:
                        if not reply.has_redirect_location:
                            return Observation(await _read(reply, url))
                        url = url.join(reply.headers["location"])
                    finally:
                        await reply.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"{arguments['url']} cannot be read ({what})") from None
        raise InputError(f"{arguments['url']} redirects more than {MAX_REDIRECTS} times")

    async def _request(self, url: "httpx2.URL") -> "httpx2.Request":
        """A request to the address of a listed host, resolved once."""
        if _origin(url) not in self._origins or url.userinfo:
            listed = ", ".join(sorted(f"{s}://{h}:{p}" for s, h, p in self._origins))
            raise InputError(f"{url} is not on the list of allowed hosts: {listed}")
        scheme, host, port = _origin(url)
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [ip_address(str(entry[4][0])) for entry in found]
        if host not in self._private:
            for address in addresses:
                if not _is_public(address):
                    raise InputError(
                        f"{host} has the address {address}, which is not public; list the host "
                        "under http.private in config/tools.yaml if it may be read"
                    )
        target = url.copy_with(scheme=scheme, host=str(addresses[0]), port=port, fragment=None)
        return self._httpx.Request(
            "GET",
            target,
            headers={**HEADERS, "host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": host, "timeout": dict.fromkeys(_TIMEOUTS, SECONDS)},
        )


_TIMEOUTS = ("connect", "read", "write", "pool")


def _origin(url: "httpx2.URL") -> tuple[str, str, int]:
    port = url.port or {"https": 443, "http": 80}.get(url.scheme, 0)
    return url.scheme, url.raw_host.decode("ascii").lower(), port


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
    return address.is_global and not address.is_multicast


async def _read(reply: "httpx2.Response", url: "httpx2.URL") -> str:
    """The status and the text, of bounded size."""
    # Nobody asked for compression, and it could expand to any size.
    if reply.headers.get("content-encoding", "identity") != "identity":
        raise InputError(f"{url} has a compressed response, which is not supported")
    body = bytearray()
    with anyio.CancelScope() as enough:  # to break out would leave the stream's generators open
        async for chunk in reply.aiter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                enough.cancel()
    cut = f"\n[cut after {MAX_BYTES} bytes]" if len(body) > MAX_BYTES else ""
    kind = reply.headers.get("content-type", "no content type")
    text = bytes(body[:MAX_BYTES]).decode(errors="replace")
    return f"{reply.status_code} {url} ({kind})\n\n{text}{cut}"
