"""Python text that samples are made of."""

IMPORTS = (
    "import abc, asyncio, contextvars, dataclasses, datetime, enum, functools, hashlib, itertools\n"
    "import logging, logging.config, os, re, ssl, subprocess, sys, tarfile, tempfile, threading\n"
    "from contextlib import suppress\nfrom decimal import Decimal\n"
)


def within(body: str, head: str = "def f(self, x, y, z):") -> str:
    """A function with these lines as its body."""
    return head + "".join(f"\n    {line}" for line in body.split("\n")) + "\n"
