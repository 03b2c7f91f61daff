"""For HTTP clients of servers on loopback, which speak no TLS."""

import ssl

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Given as ``verify``, spares a client to load all certificate authorities, 30 ms each time."""
