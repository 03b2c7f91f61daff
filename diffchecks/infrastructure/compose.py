"""Checks of Compose files that need more than one value."""

from collections.abc import Iterator

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_map, read_patterns
from diffchecks.infrastructure.shared_checks import find_literal
from diffchecks.infrastructure.value_patterns import InfrastructureObject
from diffchecks.yaml_tree import TreeNode, TreePlace

_PATTERNS = read_patterns("compose")
_SERVICE_KEYS = ("image", "build")
_DATABASE_PORTS = read_map("maps.yaml", "database_ports")
_EVERYWHERE = frozenset(["", "0.0.0.0", "[::]", "::"])  # noqa: S104 - what is looked for


def find_objects(document: TreeNode, path: str) -> Iterator[InfrastructureObject]:
    """The services of a document, if it is a Compose file by its name or content."""
    services = document.find("services")
    if services is None or services.kind != "map":
        return
    every = [(key, value) for key, value in services.entries() if value.kind == "map"]
    by_name = _PATTERNS["name"].search(path.lower().rpartition("/")[2])
    if not by_name and not all(any(map(value.find, _SERVICE_KEYS)) for _, value in every):
        return
    for key, value in every:
        above, images = ("services", key.text), (value.get_text("image"),)
        yield InfrastructureObject(path, "service", key.text, value, above, images)


def look(found: InfrastructureObject) -> Iterator[RawFinding]:
    """Findings in one service."""
    ports = list(_ports(found))
    yield from ports
    is_open = bool(ports) and not _PATTERNS["own_machine"].search(found.path.lower())
    yield from _environment(found, is_open=is_open)


def _environment(found: InfrastructureObject, *, is_open: bool) -> Iterator[RawFinding]:
    """Literal secrets; any password counts where everybody reaches the database."""
    environment = found.root.find("environment")
    if environment is None:
        return
    above = (*found.above, "environment")
    if environment.kind == "map":
        for key, value in environment.entries():
            place = TreePlace((*above, key.text), key, value)
            yield from find_literal(
                found, "compose-env-secret", key.text, place, any_password=is_open
            )
        return
    for item in environment.texts():
        name, _, text = item.text.partition("=")
        value = TreeNode("text", item.line, item.end_line, item.column, text=text)
        place = TreePlace((*above, f"[{name}]"), value, value)
        yield from find_literal(found, "compose-env-secret", name, place, any_password=is_open)


def _ports(found: InfrastructureObject) -> Iterator[RawFinding]:
    ports = found.root.find("ports")
    for item in ports.items if ports else ():
        if item.kind == "map":
            address, port = item.get_text("host_ip"), item.get_text("target")
            published = item.get_text("published")
        else:
            address, published, port = _split_port(item.text)
        if published and port in _DATABASE_PORTS and address in _EVERYWHERE:
            place = TreePlace((*found.above, "ports"), item, item)
            message = f"{_DATABASE_PORTS[port]} is reachable at every address of the host"
            yield found.finding("compose-database-port", message, place)


def _split_port(text: str) -> tuple[str, str, str]:
    """The address, published port and container port of the short syntax."""
    known = _PATTERNS["variable"].sub("$", text).strip().partition("/")[0]
    front, _, port = known.rpartition(":")
    address, _, published = front.rpartition(":")
    return address, published, port
