"""Checks of Kubernetes manifests that need more than one value."""

import re
from collections.abc import Iterator, Mapping

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_map, read_names
from diffchecks.infrastructure.shared_checks import find_literal
from diffchecks.infrastructure.value_patterns import InfrastructureObject
from diffchecks.yaml_tree import TreeNode, TreePlace, walk

_ROLES = frozenset(["Role", "ClusterRole"])
_BINDINGS = frozenset(["RoleBinding", "ClusterRoleBinding"])
_ANONYMOUS = frozenset(["system:anonymous", "system:unauthenticated"])
_DATABASE_PORTS = read_map("maps.yaml", "database_ports")
_EVERY_ACCOUNT = re.compile(r"system:(?:serviceaccounts(?::.*)?|authenticated)")
_MEANT_FOR_ALL = read_names("meant_for_all")
_SHARED_GROUPS = frozenset(["*", "", "apps", "batch", "rbac.authorization.k8s.io"])
_CONTAINER_LISTS = frozenset(["containers", "initContainers", "ephemeralContainers"])


def find_objects(document: TreeNode, path: str) -> Iterator[InfrastructureObject]:
    """The objects of a document; those of a ``List`` one by one."""
    kind = document.get_text("kind")
    if not kind or not document.get_text("apiVersion"):
        return
    items = document.find("items")
    if kind.endswith("List") and items is not None:
        for item in items.items:
            yield from find_objects(item, path)
    elif kind not in read_names("kubernetes_descriptions"):
        lists = (place.value for place in walk(document) if place.keys[-1] in _CONTAINER_LISTS)
        held = [item for each in lists for item in each.items]
        parts = tuple(item.get_text(key) for item in held for key in ("name", "image"))
        name = document.get_text("metadata", "name")
        yield InfrastructureObject(path, kind, name, document, parts=parts)


def look(found: InfrastructureObject) -> Iterator[RawFinding]:
    """Findings in one object."""
    if found.kind in _ROLES:
        yield from _wildcards(found)
    elif found.kind in _BINDINGS:
        yield from _bindings(found)
    elif found.kind == "Service":
        yield from _open_databases(found)
    else:
        writable = _writable_volumes(found.root)
        for place in walk(found.root, found.above):
            if place.value.kind == "map":
                yield from _host_root(found, place, writable)
            elif place.value.kind == "list" and place.keys[-1] in {"env", "extraEnv"}:
                yield from _environment(found, place)


def _open_databases(found: InfrastructureObject) -> Iterator[RawFinding]:
    """Ports of databases at a load balancer that limits neither addresses nor networks."""
    spec, notes = found.root.find("spec"), found.root.find("metadata", "annotations")
    limits = [f"{key.text} {value.text}" for key, value in notes.entries()] if notes else []
    if (
        spec is None
        or spec.get_text("type") != "LoadBalancer"
        or any("nternal" in s for s in limits)
    ):
        return
    ports = spec.find("ports") if spec.find("loadBalancerSourceRanges") is None else None
    for item in ports.items if ports else ():
        port = item.find("port")
        if port is not None and port.text in _DATABASE_PORTS:
            message = f"{_DATABASE_PORTS[port.text]} is reachable at every address"
            yield found.finding(
                "k8s-database-port", message, TreePlace(("spec", "ports"), port, port)
            )


def _wildcards(found: InfrastructureObject) -> Iterator[RawFinding]:
    rules = found.root.find("rules")
    for rule in rules.items if rules else ():
        star: list[TreeNode] = []
        for name in ("verbs", "resources"):
            values = rule.find(name)
            star += [text for text in values.texts() if text.text == "*"][:1] if values else []
        groups = rule.find("apiGroups")
        shared = groups is None or any(text.text in _SHARED_GROUPS for text in groups.texts())
        if len(star) == 2 and shared and rule.find("resourceNames") is None:
            place = TreePlace(("rules", "verbs"), star[0], star[0])
            message = "The role may do everything with every resource"
            whole = found.kind == "ClusterRole"
            code = "k8s-rbac-wildcard" if whole else "k8s-rbac-namespace-wildcard"
            yield found.finding(code, message, place)


def _bindings(found: InfrastructureObject) -> Iterator[RawFinding]:
    role, subjects = found.root.get_text("roleRef", "name"), found.root.find("subjects")
    for subject in subjects.items if subjects else ():
        named = subject.find("name")
        if named is None:
            continue
        place = TreePlace(("subjects", f"[{named.text}]"), named, named)
        if named.text in _ANONYMOUS and role not in _MEANT_FOR_ALL:
            message = (
                f"Anyone who can reach the API server, without a login, gets the role {role[:60]}"
            )
            yield found.finding("k8s-rbac-anonymous", message, place)
        default = subject.get_text("kind") == "ServiceAccount" and named.text == "default"
        if role == "cluster-admin" and (default or _EVERY_ACCOUNT.fullmatch(named.text)):
            message = "Pods without a service account of their own get all rights in the cluster"
            yield found.finding("k8s-rbac-default-admin", message, place)


def _host_root(
    found: InfrastructureObject, place: TreePlace, writable: Mapping[str, bool]
) -> Iterator[RawFinding]:
    """A volume of the node's root directory, unless all containers mount it read-only."""
    host = place.value.find("hostPath")
    directory = host.find("path") if host is not None else None
    if directory is None or directory.text not in {"/", "/.", "//"}:
        return
    if not writable.get(place.value.get_text("name"), True):
        return
    at = TreePlace((*place.keys, "hostPath", "path"), directory, directory)
    if found.kind == "DaemonSet":
        message = "The agent can write every file of each node"
        yield found.finding("k8s-agent-host-root", message, at)
    else:
        message = "The pod can write every file of its node"
        yield found.finding("k8s-host-root", message, at)


def _writable_volumes(root: TreeNode) -> Mapping[str, bool]:
    """Name of a mounted volume → whether a container may write to it."""
    found: dict[str, bool] = {}
    for place in walk(root):
        for item in place.value.items if place.keys[-1] == "volumeMounts" else ():
            name = item.get_text("name")
            read_only = item.get_text("readOnly").lower() == "true"
            found[name] = found.get(name, False) or not read_only
    return found


def _environment(found: InfrastructureObject, place: TreePlace) -> Iterator[RawFinding]:
    for item in place.value.items:
        value = item.find("value")
        if value is not None:
            name = item.get_text("name")
            at = TreePlace((*place.keys, f"[{name}]", "value"), value, value)
            yield from find_literal(found, "k8s-env-secret", name, at)
