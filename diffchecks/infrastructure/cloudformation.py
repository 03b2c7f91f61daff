"""Checks of CloudFormation templates that need more than one value."""

import re
from collections.abc import Iterator

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_names
from diffchecks.infrastructure.shared_checks import find_literal
from diffchecks.infrastructure.value_patterns import InfrastructureObject
from diffchecks.yaml_tree import TreeNode, TreePlace, walk

_GROUP = "AWS::EC2::SecurityGroup"
_RULE = "AWS::EC2::SecurityGroupIngress"
_ANYWHERE = {"CidrIp": "0.0.0.0/0", "CidrIpv6": "::/0"}
_PUBLIC_PORTS = frozenset(["80", "443", "500", "1194", "4500", "51820"])  # the web, and VPN
_ENTRY = re.compile(r"bastion|vpn|jump_?-?(?:host|box|server)", re.IGNORECASE)
# Interfaces that are public, and endpoints within a network: anybody may call them on purpose.
_CALLED_BY_ALL = re.compile(r"AWS::(?:ApiGateway\w*|EC2::VPCEndpoint|Serverless)\b.*")


def find_objects(document: TreeNode, path: str) -> Iterator[InfrastructureObject]:
    """The resources of a template, and its parameters."""
    resources = document.find("Resources")
    if resources is None or resources.kind != "map":
        return
    found = [(key, value) for key, value in resources.entries() if "::" in value.get_text("Type")]
    for key, value in found:
        kind, above = value.get_text("Type"), ("Resources", key.text)
        yield InfrastructureObject(path, kind, key.text, value, above)
    parameters = document.find("Parameters")
    if found and parameters is not None:
        for key, value in parameters.entries():
            above = ("Parameters", key.text)
            yield InfrastructureObject(path, "Parameter", key.text, value, above)


def look(found: InfrastructureObject) -> Iterator[RawFinding]:
    """Findings in one resource or parameter."""
    if found.kind == "Parameter":
        default = found.root.find("Default")
        if default is not None and found.root.get_text("NoEcho").lower() == "true":
            place = TreePlace((*found.above, "Default"), default, default)
            yield from find_literal(found, "cfn-password", f"Password{found.name}", place)
        return
    if found.kind in {_GROUP, _RULE}:
        yield from _open_ports(found)
    for place in walk(found.root, found.above):
        if place.keys[-1] in read_names("cloudformation_passwords"):
            yield from find_literal(found, "cfn-password", f"{place.keys[-1]}", place)
        if place.value.kind == "map" and place.value.get_text("Effect") == "Allow":
            yield from _statement(found, place)


def _open_ports(found: InfrastructureObject) -> Iterator[RawFinding]:
    if found.kind == _RULE:
        rules = [found.root.find("Properties")]
    else:
        ingress = found.root.find("Properties", "SecurityGroupIngress")
        rules = [] if ingress is None else list(ingress.items) or [ingress]
    for rule in rules:
        if rule is None or rule.kind != "map" or _is_meant(rule):
            continue
        for key, value in rule.entries():
            if key.text in _ANYWHERE and value.text == _ANYWHERE[key.text]:
                ports = _shown_ports(rule)
                place = TreePlace((*found.above, "SecurityGroupIngress", key.text), key, value)
                message = f"Every address on the internet reaches {ports}"
                # Logins to a bastion host, by its name or its file's name.
                entry = _ENTRY.search(f"{found.path.rpartition('/')[2]} {found.name}")
                entry = None if rule.get_text("IpProtocol") in {"-1", "all"} else entry
                yield found.finding("cfn-open-entry" if entry else "cfn-open-port", message, place)


def _is_meant(rule: TreeNode) -> bool:
    """Whether it is for ping, web servers or VPN, open on purpose, or its port is filled in."""
    low, high = rule.get_text("FromPort"), rule.get_text("ToPort")
    if rule.get_text("IpProtocol").lower() in {"icmp", "icmpv6", "1", "58"}:
        return True
    ports = filter(None, map(rule.find, ("FromPort", "ToPort")))
    filled_in = any(port.kind == "map" or port.is_computed for port in ports)
    return filled_in or (low == high and low in _PUBLIC_PORTS)


def _shown_ports(rule: TreeNode) -> str:
    low, high = rule.get_text("FromPort"), rule.get_text("ToPort")
    if rule.get_text("IpProtocol") in {"-1", "all"} or not low:
        return "all ports"
    return f"port {low}" if low == high else f"the ports {low} to {high}"


def _statement(found: InfrastructureObject, place: TreePlace) -> Iterator[RawFinding]:
    """Find a statement that allows an identity everything, or opens a resource to everybody."""
    if not _CALLED_BY_ALL.fullmatch(found.kind):
        yield from _public_statement(found, place)
    if not found.kind.startswith(("AWS::IAM::", "AWS::Serverless::")):
        return
    stars = []
    for name in ("Action", "Resource"):
        values = place.value.find(name)
        stars += [text for text in values.texts() if text.text == "*"][:1] if values else []
    if len(stars) == 2 and place.value.find("Condition") is None:
        at = TreePlace((*place.keys, "Action"), stars[0], stars[0])
        message = "The policy allows every action on every resource"
        yield found.finding("cfn-any-action", message, at)


def _public_statement(found: InfrastructureObject, place: TreePlace) -> Iterator[RawFinding]:
    principal = place.value.find("Principal")
    whom = principal.find("AWS") if principal is not None and principal.kind == "map" else principal
    everybody = next((text for text in whom.texts() if text.text == "*"), None) if whom else None
    if everybody is not None and place.value.find("Condition") is None:
        at = TreePlace((*place.keys, "Principal"), everybody, everybody)
        message = "The policy lets everybody use it"
        yield found.finding("cfn-public-policy", message, at)
