"""For HTTP clients of servers on loopback, which speak no TLS."""

import ssl
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

import httpx2

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Given as ``verify``, spares a client to load all certificate authorities, 30 ms each time."""


def press_sign_in(
    client: httpx2.Client, link: str, headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    """Send the form of a one-time link's page, as its button does."""
    place = urlsplit(link)
    origin = f"{place.scheme}://{place.netloc}"
    token = parse_qs(place.query)["token"][0]
    given = {"Origin": origin, **(headers or {})}
    return client.post(f"{origin}/open", data={"token": token}, headers=given)
