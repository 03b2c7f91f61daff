"""SARIF 2.1.0; only the used parts are read, so a large report needs little memory."""

import posixpath
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field
from msgspec.json import decode

from diffchecks.imported_reports.result import ImportedReport, Result, level_of, weakness_numbers
from diffchecks.xml_reports import ReportError

_VERSION = "2.1.0"


class _Camel(Struct, frozen=True, rename="camel"):
    pass


class _Text(_Camel, frozen=True):
    text: str = ""
    markdown: str = ""
    id: str = ""
    arguments: tuple[str, ...] = ()


class _Configuration(_Camel, frozen=True):
    level: str = ""


class _Rule(_Camel, frozen=True):
    id: str = ""
    name: str = ""
    short_description: _Text = _Text()
    full_description: _Text = _Text()
    help: _Text = _Text()
    default_configuration: _Configuration = _Configuration()
    message_strings: dict[str, _Text] = {}
    properties: dict[str, Any] = {}


class _Component(_Camel, frozen=True):
    name: str = ""
    rules: tuple[_Rule, ...] = ()


class _Tool(_Camel, frozen=True):
    driver: _Component
    extensions: tuple[_Component, ...] = ()


class _Artifact(_Camel, frozen=True):
    uri: str = ""
    uri_base_id: str = ""
    index: int = -1


class _Region(_Camel, frozen=True):
    start_line: int = 0
    end_line: int = 0
    start_column: int = 0
    snippet: _Text | None = None


class _Physical(_Camel, frozen=True):
    artifact_location: _Artifact = _Artifact()
    region: _Region = _Region()


class _Location(_Camel, frozen=True):
    physical_location: _Physical = _Physical()


class _Reference(_Camel, frozen=True):
    id: str = ""
    index: int = -1
    tool_component: _Artifact = _Artifact()


class _Suppression(_Camel, frozen=True):
    kind: str = ""
    status: str = "accepted"


class _Found(_Camel, frozen=True):
    message: _Text = _Text()
    rule_id: str = ""
    rule_index: int = -1
    rule: _Reference = _Reference()
    level: str = ""
    kind: str = "fail"
    baseline_state: str = ""
    locations: tuple[_Location, ...] = ()
    suppressions: tuple[_Suppression, ...] = ()
    properties: dict[str, Any] = {}


class _Notification(_Camel, frozen=True):
    level: str = "warning"
    message: _Text = _Text()


class _Invocation(_Camel, frozen=True):
    execution_successful: bool = True
    tool_execution_notifications: tuple[_Notification, ...] = ()


class _Held(_Camel, frozen=True):
    location: _Artifact = _Artifact()


class _Version(_Camel, frozen=True):
    revision_id: str = ""


class _Run(_Camel, frozen=True):
    tool: _Tool
    results: tuple[_Found, ...] | None = ()
    invocations: tuple[_Invocation, ...] = ()
    artifacts: tuple[_Held, ...] = ()
    original_uri_base_ids: dict[str, _Artifact] = field(default_factory=dict)
    version_control_provenance: tuple[_Version, ...] = ()


class _Log(_Camel, frozen=True):
    runs: tuple[_Run, ...]
    version: str = _VERSION


def read_sarif(data: bytes, head: str) -> ImportedReport:
    """Read a SARIF report.

    Args:
        head: the commit under review; empty where head is no commit. Runs on another commit are
            left out.
    """
    report, log = ImportedReport([], []), decode(data, type=_Log)
    if log.version != _VERSION:
        raise ReportError(f"is SARIF {log.version[:20]}, of which only {_VERSION} is read")
    for run in log.runs:
        name = run.tool.driver.name or "sarif"
        made_of = [one.revision_id for one in run.version_control_provenance if one.revision_id]
        if head and made_of and not any(head.startswith(one.lower()) for one in made_of):
            report.gaps.append(
                f"{name} was run on commit {made_of[0][:12]}, not on {head[:12]}; its "
                f"{len(run.results or ())} results are left out, so run it again"
            )
            continue
        for invocation in run.invocations:
            failed = [n for n in invocation.tool_execution_notifications if n.level == "error"]
            if failed or not invocation.execution_successful:
                why = failed[0].message.text if failed else "it did not complete"
                report.gaps.append(f"{name} reports that its run failed: {why}")
        report.results += _results(run, name)
    return report


def _results(run: _Run, tool: str) -> Iterator[Result]:
    parts = run.tool.driver, *run.tool.extensions
    rules = {rule.id: rule for part in parts for rule in part.rules}
    for found in run.results or ():
        accepted = any(
            one.kind == "external" and one.status == "accepted" for one in found.suppressions
        )
        if accepted or found.kind in {"pass", "notApplicable"}:
            continue
        if found.baseline_state in {"unchanged", "absent"}:
            continue
        rule = _rule(run, found, rules)
        for location in found.locations[:1] or (_Location(),):
            yield _result(run, tool, found, rule, location.physical_location)


def _rule(run: _Run, found: _Found, rules: dict[str, _Rule]) -> _Rule:
    """The rule of a result: by id, or by index in the tool or one of its extensions."""
    name = found.rule_id or found.rule.id
    if name:
        return rules.get(name) or rules.get(name.rpartition("/")[0]) or _Rule(id=name)
    index = found.rule_index if found.rule_index >= 0 else found.rule.index
    part = found.rule.tool_component.index
    extensions = run.tool.extensions
    held = (extensions[part] if 0 <= part < len(extensions) else run.tool.driver).rules
    return held[index] if 0 <= index < len(held) else _Rule(id="result")


def _result(run: _Run, tool: str, found: _Found, rule: _Rule, place: _Physical) -> Result:
    about = {**rule.properties, **found.properties}
    listed = about.get("tags")
    tags = [str(tag) for tag in listed] if isinstance(listed, list) else []
    cwe = weakness_numbers(*tags, *(str(about[key]) for key in ("cwe", "CWE") if key in about))
    score = about.get("security-severity")
    security = bool(cwe) or score is not None or any(tag.lower() == "security" for tag in tags)
    level = found.level or rule.default_configuration.level or "warning"
    region = place.region
    title = rule.short_description.text or rule.name or rule.full_description.text
    return Result(
        tool=tool,
        rule=found.rule_id or rule.id,
        level=_scored(score) or level_of(level, security=security),
        message=_message(found.message, rule) or title,
        places=_places(run, place.artifact_location),
        line=region.start_line,
        end_line=region.end_line,
        column=region.start_column,
        title=title,
        help=rule.help.text,
        cwe=cwe,
        security=security,
        snippet=region.snippet.text if region.snippet else "",
    )


def _scored(score: object) -> str:
    """The level for a ``security-severity`` (a CVSS score); empty if it is not a number."""
    try:
        number = float(str(score))
    except ValueError:
        return ""
    bounds = ((9.0, "blocker"), (7.0, "critical"), (4.0, "major"))
    return next((level for least, level in bounds if number >= least), "minor")


def _message(message: _Text, rule: _Rule) -> str:
    text = message.text or message.markdown
    if not text and message.id in rule.message_strings:
        text = rule.message_strings[message.id].text
    for number, argument in enumerate(message.arguments):
        text = text.replace(f"{{{number}}}", argument)
    return text


def _places(run: _Run, artifact: _Artifact) -> tuple[str, ...]:
    if not artifact.uri and 0 <= artifact.index < len(run.artifacts):
        artifact = run.artifacts[artifact.index].location
    if not artifact.uri:
        return ()
    plain = _path(artifact.uri)
    base = run.original_uri_base_ids.get(artifact.uri_base_id, _Artifact()).uri
    return (posixpath.join(_path(base), plain), plain) if base else (plain,)


def _path(uri: str) -> str:
    """The path in a URI, including ``file://host/path`` and plain paths."""
    if uri.lower().startswith("file:"):
        uri = uri[5:]
        if uri.startswith("//"):
            uri = "/" + uri[2:].partition("/")[2]
    return unquote(uri)
