"""Checks of GitLab CI configuration that need more than one value.

Commands in scripts are checked as shell scripts: see ``patterns/pipeline_commands.py``.
"""

from collections.abc import Iterator

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_patterns, vocabulary
from diffchecks.infrastructure.shared_checks import find_literal
from diffchecks.infrastructure.value_patterns import InfrastructureObject
from diffchecks.patterns.pipeline_commands import find_commands, is_gitlab_file, jobs
from diffchecks.yaml_tree import TreeNode, TreePlace

_CHECK = vocabulary("checking_job")

# Text by the author of a commit or merge request; a branch name cannot contain a space.
_PATTERNS = read_patterns("gitlab")
_NEAR = 200  # characters before it


def find_objects(document: TreeNode, path: str) -> Iterator[InfrastructureObject]:
    """The whole configuration, in files that GitLab reads."""
    if document.kind == "map" and is_gitlab_file(path):
        yield InfrastructureObject(path, "pipeline", "", document)


def look(found: InfrastructureObject) -> Iterator[RawFinding]:
    """Findings at the top level of the configuration and in each job."""
    yield from _includes(found)
    for above, job in jobs(found.root):
        yield from _variables(found, above, job)
        allowed = job.find("allow_failure")
        named = " ".join((*above, job.get_text("stage")))
        if above and allowed is not None and allowed.text == "true" and _CHECK.search(named):
            place = TreePlace((*above, "allow_failure"), allowed, allowed)
            message = "The pipeline passes when this check fails"
            yield found.finding("gitlab-allow-failure", message, place)
    for command in find_commands(found.root):
        for number, line in enumerate(command.lines, command.line):
            if _is_split(line):
                at = TreeNode("text", number, number, 1)
                message = "Untrusted text is split into words and expanded by the shell"
                place = TreePlace((*command.keys, line.strip()), at, at)
                yield found.finding("gitlab-unquoted", message, place)


def _is_split(line: str) -> bool:
    """Whether a command contains such text unquoted."""
    quote = ""
    for match in _PATTERNS["quote_or_chosen"].finditer(line):
        if match["quote"]:
            quote = match["quote"] if not quote else quote.replace(match["quote"], "")
        elif match["chosen"] and not quote:
            before = line[max(0, match.start() - _NEAR) : match.start()]
            if not _PATTERNS["no_split"].search(before):
                return True
    return False


def _variables(
    found: InfrastructureObject, above: tuple[str, ...], job: TreeNode
) -> Iterator[RawFinding]:
    variables = job.find("variables")
    for key, given in variables.entries() if variables is not None else ():
        value = given.find("value") if given.kind == "map" else given
        if value is None:
            continue
        place = TreePlace((*above, "variables", key.text), key, value)
        yield from find_literal(found, "gitlab-variable-secret", key.text, place)


def _includes(found: InfrastructureObject) -> Iterator[RawFinding]:
    include = found.root.find("include")
    if include is None:
        return
    for item in include.items or [include]:
        address = item if item.kind == "text" else item.find("remote")
        project, ref = item.find("project"), item.find("ref")
        if address is not None and address.kind == "text":
            place = TreePlace(("include",), address, address)
            if _PATTERNS["moving_address"].search(address.text) and item.find("integrity") is None:
                message = "The next push to another repository's branch runs here"
                yield found.finding("gitlab-include-branch", message, place)
        elif project is not None and (ref is None or _PATTERNS["moving_ref"].fullmatch(ref.text)):
            place = TreePlace(("include", "project"), project, ref or project)
            message = "The next push to another project's branch runs here"
            yield found.finding("gitlab-include-branch", message, place)
