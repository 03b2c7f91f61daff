"""Checks of GitHub workflows that zizmor does not have, or that it limits to certain forms."""

from collections.abc import Iterator
from itertools import chain
from json import dumps

from msgspec.structs import replace

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_names, read_patterns
from diffchecks.infrastructure.value_patterns import InfrastructureObject
from diffchecks.yaml_tree import TreeNode, TreePlace, parse_documents, walk

_PATTERNS = read_patterns("workflows")
_PRIVILEGED = frozenset(["pull_request_target", "workflow_run"])
_MAX_VARIABLES = 8  # that refer to each other


def is_workflow_file(path: str) -> bool:
    """Whether GitHub reads a file as a workflow, by its path."""
    return _PATTERNS["file"].fullmatch(path) is not None


def find_objects(document: TreeNode, path: str) -> Iterator[InfrastructureObject]:
    """The workflow and the powers of its jobs, in files that GitHub reads as workflows.

    The kind of powers says who else may use them: in jobs that run actions of others by a tag or
    branch, and in workflows that strangers start. ``implied`` ones are stated elsewhere or nowhere.
    """
    if document.kind != "map" or not is_workflow_file(path):
        return
    yield InfrastructureObject(path, "workflow", "", document)
    jobs, top = [job for job, _ in _jobs(document)], document.find("permissions")
    shared = [job for job in jobs if job.find("permissions") is None]
    reachable = any(
        not kinds or kinds - read_names("events_of_members") for _, kinds in _privileged(document)
    )
    for n, (node, covered) in enumerate([(document, shared), *((job, [job]) for job in jobs)]):
        powers, used = node.find("permissions"), chain.from_iterable(map(walk, covered))
        actions = [at.value.text for at in used if at.keys[-1] == "uses"]
        foreign = any(map(_PATTERNS["foreign"].search, actions))
        kind = f"powers{' shared' * foreign}{' reachable' * reachable}"
        if powers is None or powers.kind != "map":
            kind, powers = f"implied {kind}", _implied_powers(powers or top, n) if n else None
        if powers is not None:
            yield InfrastructureObject(path, kind, "", powers, ("permissions",))


def _implied_powers(permissions: TreeNode | None, line: int) -> TreeNode:
    """The powers that a job has without a list of its own, on a line of their own for each job."""
    given = {key.text: value.text for key, value in permissions.entries()} if permissions else {}
    if permissions is None or permissions.text == "write-all":
        given = dict.fromkeys(read_names("powers_of_a_token"), "write")
    return parse_documents("\n" * line + dumps(given))[0]


def look(found: InfrastructureObject) -> Iterator[RawFinding]:
    """Find a privileged trigger in a workflow that checks out a pull request's code."""
    trigger = next((name for name, _ in _privileged(found.root)), None)
    if trigger is not None and any(_runs_strangers_code(job) for job in _jobs(found.root)):
        place = TreePlace(("on",), trigger, trigger)
        message = "The workflow has the repository's secrets and checks out untrusted code"
        yield found.finding("workflow-checkout", message, place)
    for place in _find_injections(found.root):
        message = "The script holds text of strangers, which a variable or an output has brought"
        yield found.finding("workflow-value-injection", message, place)


def _find_injections(root: TreeNode) -> Iterator[TreePlace]:
    """Scripts in which GitHub replaces a variable or an output by text of strangers."""
    jobs, told = root.find("jobs"), dict[str, str]()
    for name, job in jobs.entries() if jobs is not None else ():
        steps, variables = job.find("steps"), {**_environment(root), **_environment(job)}
        for step in steps.items if steps is not None else ():
            own = {**variables, **_environment(step)}
            scripts = [at for at in walk(step) if at.keys in {("run",), ("with", "script")}]
            for at in scripts:
                used = _PATTERNS["expands"].finditer(at.value.text)
                if any(_PATTERNS["strange"].search(_filled_in(one[0], told | own)) for one in used):
                    yield replace(at, keys=("jobs", name.text, "steps", *at.keys))
            for output, text, target in _PATTERNS["tells"].findall(step.get_text("run")):
                names = _PATTERNS["shell"].findall(text)
                value = " ".join(own.get(f"env.{one}", "") for one in names)
                if target == "ENV":
                    variables[f"env.{output}"] = value
                else:
                    told[f"steps.{step.get_text('id')}.outputs.{output}"] = value
        given = job.find("outputs")
        for key, each in given.entries() if given is not None else ():
            told[f"needs.{name.text}.outputs.{key.text}"] = _filled_in(each.text, told)


def _privileged(root: TreeNode) -> Iterator[tuple[TreeNode, set[str]]]:
    """The privileged triggers, each with the kinds of event that it is limited to, if any."""
    for key, value in root.entries():
        if key.text in {"on", "true"}:  # in YAML 1.1 the key ``on`` is the value true
            single = [(name, None) for name in value.texts()]
            for name, settings in value.entries() if value.kind == "map" else single:
                if name.text in _PRIVILEGED:
                    kinds = settings.find("types") if settings else None
                    yield name, {kind.text for kind in kinds.texts()} if kinds else set()


def _jobs(root: TreeNode) -> Iterator[tuple[TreeNode, dict[str, str]]]:
    """The jobs, each with the variables that it sees."""
    jobs = root.find("jobs")
    for _, job in jobs.entries() if jobs is not None else ():
        yield job, {**_environment(root), **_environment(job)}


def _environment(node: TreeNode) -> dict[str, str]:
    found = node.find("env")
    values = found.entries() if found is not None else ()
    return {f"env.{key.text}": value.text for key, value in values}


def _runs_strangers_code(job: tuple[TreeNode, dict[str, str]]) -> bool:
    node, variables = job
    steps = node.find("steps")
    for step in steps.items if steps is not None else ():
        known = {**variables, **_environment(step)}
        if _PATTERNS["fetches"].search(step.get_text("run")):
            return True
        if step.get_text("uses").partition("@")[0] == "actions/checkout":
            wanted = [step.get_text("with", name) for name in ("ref", "repository")]
            if any(_PATTERNS["head"].search(_filled_in(text, known)) for text in wanted):
                return True
    return False


def _filled_in(text: str, variables: dict[str, str]) -> str:
    for _ in range(_MAX_VARIABLES):
        name = _PATTERNS["variable"].search(text)
        if name is None:
            break
        text = text.replace(name[0], variables.get(name[0], ""))[:1000]
    return text
