"""Check in new namespaces that they are those that we asked ``bwrap`` for.

Imported by processes that must start fast: next to nothing is imported here.
"""

from __future__ import annotations

import _socket  # ``socket`` imports enumerations, which take longer than all of this
import marshal
import os

from orchestrator.sandbox import kernel_calls

TYPE_CHECKING = False  # ``typing`` is not needed at run time
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAMESPACES = ("net", "pid", "mnt", "ipc", "uts", "cgroup")
_KILL = 9
_ADDRESSES = {_socket.AF_INET: "192.0.2.1", _socket.AF_INET6: "2001:db8::1"}
"""Of documentation: no machine has them."""
_NEW = {
    "/": "tmpfs", "/dev": "tmpfs", "/dev/shm": "tmpfs", "/tmp": "tmpfs", "/dev/pts": "devpts",  # noqa: S108
    "/proc": "proc",
}  # fmt: skip
"""New mounts that bwrap creates, and their types."""
_TYPE, _CHARACTER_DEVICE = 0o170000, 0o020000


def describe_request(file: object, paths: Mapping[str, bool], capabilities: Iterable[int]) -> str:
    """What the namespaces must be like, as ``namespace_error`` takes it.

    Args:
        file: a file that exists only outside.
        paths: the paths that exist inside, and whether they may be written there.
        capabilities: the numbers of those that root keeps; others have none, and a user namespace.
    """
    is_root, found = os.geteuid() == 0, {}
    for path, writable in paths.items():
        try:
            status = os.stat(path)
        except OSError:  # bwrap leaves it out, or fails
            continue
        found[path] = (status.st_dev, status.st_ino, writable)
    outside = {place: device for device, place, *_ in _mounts()}
    request = {
        "namespaces": _namespaces(NAMESPACES if is_root else (*NAMESPACES, "user")),
        "capabilities": sum(1 << number for number in capabilities) if is_root else 0,
        "devices": list(outside.values()),
        "below": dict(_mounts_below(found, outside)),
        "file": os.fspath(file),  # type: ignore[call-overload]
        "paths": found,
    }
    return marshal.dumps(request).hex()


def namespace_error(request: str) -> str:
    """Why this process is not in the namespaces that were asked for; empty when it is."""
    requested = marshal.loads(bytes.fromhex(request))  # noqa: S302 - our parent's
    outside = requested["namespaces"]
    inside = _namespaces(outside)
    if shared := [name for name, number in outside.items() if inside.get(name) == number]:
        return f"bwrap ran, but shares our {', '.join(shared)} namespace"
    if error := _process_error(requested["capabilities"]):
        return f"bwrap ran, but {error}"
    if os.path.exists(requested["file"]):
        return "bwrap ran, but our files are visible in its namespaces"
    if error := _mounts_error(requested["paths"], requested["below"], requested["devices"]):
        return f"bwrap ran, but {error}"
    reachable = any(_has_route(*probe) for probe in _ADDRESSES.items())
    return "bwrap ran, but the network is reachable" if reachable else ""


def _has_route(family: int, address: str) -> bool:
    """Whether an address can be reached; sends nothing."""
    try:
        probe = _socket.socket(family, _socket.SOCK_DGRAM)
    except OSError:  # a kernel without the family
        return False
    try:
        probe.connect((address, 9))
    except OSError:
        return False
    finally:
        probe.close()
    return True


def _namespaces(names: Iterable[str]) -> dict[str, int]:
    """Namespace → its number, for those that the kernel has."""
    places = {name: f"/proc/self/ns/{name}" for name in names}
    return {name: os.stat(place).st_ino for name, place in places.items() if os.path.exists(place)}


def _process_error(capabilities: int) -> str:
    """What bwrap left out for this process itself, empty for nothing."""
    if os.getsid(0) == 0:  # its leader is in no namespace that we see
        return "shares our session"
    if kernel_calls.parent_death_signal() != _KILL:
        return "programs that it starts would outlive it"
    extra = kernel_calls.effective_capabilities() & ~capabilities
    return "has capabilities that nobody asked for" if extra else ""


def _mounts() -> Iterator[tuple[str, str, bool, str]]:
    """Device, place, whether it can be written, and type of every mount of this process."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.split(" ")
            place = fields[4]
            for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
                place = place.replace(f"\\{code}", character)
            kind = fields[fields.index("-", 6) + 1]
            yield fields[2], place, "rw" in fields[5].split(","), kind


def _mounts_below(paths: Iterable[str], outside: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is mounted below these paths, which bring it with them: place inside, and device."""
    for path in paths:
        real = os.path.realpath(path)
        for place, device in outside.items():
            if place.startswith(f"{real}/"):
                yield path + place[len(real) :], device


def _mounts_error(
    paths: Mapping[str, tuple[int, int, bool]],
    below: Mapping[str, str],
    host_devices: Iterable[str],
) -> str:
    """Which mount was not asked for; empty when all were.

    That a path that was asked for is the right one, its device and number say.
    """
    for path, (path_device, number, _) in paths.items():
        status = os.stat(path)
        if (status.st_dev, status.st_ino) != (path_device, number):
            return f"{path} is another file in its namespaces"
    writable = {
        form: may_write
        for path, (_, _, may_write) in paths.items()
        for form in (path, os.path.realpath(path))
    }
    for device, place, can_write, kind in _mounts():
        owner = next((above for above in _parents(place) if above in writable), None)
        new = _NEW.get("/proc" if place.startswith("/proc/") else place)
        if owner is not None:
            if place not in writable and below.get(place) != device:
                return f"{place} is mounted in its namespaces, which was not requested"
            if can_write and not writable[owner]:
                return f"{place} can be written in its namespaces"
        elif new is not None:
            if kind != new or device in host_devices or (place == "/" and can_write):
                return f"{place} is not a new one of its namespaces"
        elif not (
            place.startswith("/dev/") and os.stat(place).st_mode & _TYPE == _CHARACTER_DEVICE
        ):
            return f"{place} is mounted in its namespaces, which was not requested"
    return ""


def _parents(path: str) -> Iterator[str]:
    """A path and all directories above it but ``/``, the deepest first."""
    while path != "/":
        yield path
        path = os.path.dirname(path)
