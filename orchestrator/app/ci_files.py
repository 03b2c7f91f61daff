"""The files that add Diffcourt to a CI system, made from the templates in ``config/ci``."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from msgspec import Struct, convert

from diffchecks.secrets.live_secrets import redact_live_secrets
from orchestrator.data_directories import data_root, read_table
from orchestrator.errors import InputError

PLACEHOLDER = ("https://example.org/diffcourt", "0" * 40)
"""The repository and commit that the templates install, until a person names others."""
DEFAULT_STAGE = "test"
"""GitLab's pipelines have it unless they define stages of their own."""

HOOK = re.compile(
    r"""^(?!\s*\#).*?\b(?:id:\s*(["']?)diffcourt\1\s*(?=[,}\#]|$)|entry:\s*["']?(?:\S*/)?diffcourt\s+review\b)""",
    re.MULTILINE,
)
HOOKS = re.compile(r"""(?:^|[{,])\s*["']?repos["']?\s*:""", re.MULTILINE)
"""pre-commit's: our hook, or our command; and the list of all hooks."""


class CiTemplates(Struct, frozen=True):
    """A CI system.

    Attributes:
        review, comments, commands: templates; those for the same file are concatenated.
        gate: templates of one trusted job that reviews and posts, instead of the others.
        marks: files or directories by which it is detected; the first that exists decides.
        next_step: what a person does after the files are written.
        comments_step: what a person does in addition if comments are posted.
        is_shared: its file holds what others need as well, so it is never replaced.
    """

    title: str
    review: Mapping[str, str]
    marks: tuple[str, ...]
    next_step: str
    comments: Mapping[str, str] = {}
    comments_step: str = ""
    commands: Mapping[str, str] = {}
    gate: Mapping[str, str] = {}
    is_shared: bool = False


@cache
def ci_systems() -> Mapping[str, CiTemplates]:
    """The CI systems by name, from ``ci_files.yaml``."""
    return convert(read_table(__file__, "ci_files.yaml"), dict[str, CiTemplates])


def detect_ci(top: Path) -> str | None:
    """The CI system whose files a checkout has; None if there are none."""
    for name, system in ci_systems().items():
        if any((top / mark).exists() for mark in system.marks):
            return name
    return None


def installed_from() -> str | None:
    """``git+URL@COMMIT`` if this program was installed from such a repository, else None."""
    try:
        text = distribution("diffcourt").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    found = json.loads(text) if text else {}
    source = f"git+{found.get('url')}@{found.get('vcs_info', {}).get('commit_id')}"
    try:
        split_source(source)
    except InputError:
        return None
    return source


def split_source(source: str) -> tuple[str, str]:
    """The repository and the commit of ``git+https://HOST/PATH@COMMIT``.

    Raises:
        InputError: it is not pinned, or holds a credential. The message does not repeat it.
    """
    if not source.startswith("git+https://"):
        raise InputError("--from: the address must start with git+https://")
    address = source.removeprefix("git+")
    if re.match(r"https://[^/]*@", address) or redact_live_secrets(address) != address:
        raise InputError(
            "--from: the address holds a user name or token, which would be written into a file; "
            "leave it out, and let CI's git supply it"
        )
    url, _, commit = address.rpartition("@")
    if not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", commit):
        raise InputError(
            "--from: end it with @ and a commit in full (40 hexadecimal digits); "
            "a branch or tag can be moved to other code"
        )
    if not re.fullmatch(r"https://[\w.:-]+/[\w/.~+-]+", url):
        raise InputError(
            "--from: the address is not that of a repository: git+https://HOST/PATH@COMMIT"
        )
    return url, commit


def find_gitlab_stage(top: Path) -> str:
    """The stage of GitLab's pipeline in which to review: ``test``, or else its first one.

    Stages that another file defines are not known.
    """
    file = top / ".gitlab-ci.yml"
    if not file.exists():
        return DEFAULT_STAGE
    import yaml  # noqa: PLC0415 - only a repository with GitLab's pipeline needs it

    try:
        text = file.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)  # constructs no tags, such as !reference
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return DEFAULT_STAGE
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    stages = [
        stage.value
        for key, value in pairs
        if key.value == "stages" and isinstance(value, yaml.SequenceNode)
        for stage in value.value
        if isinstance(stage.value, str) and re.fullmatch(r"\w[\w -]*", stage.value)
    ]
    return DEFAULT_STAGE if not stages or DEFAULT_STAGE in stages else str(stages[0])


def has_line(config: Path, pattern: re.Pattern[str]) -> bool:
    """Whether a configuration that may be unreadable has such a line."""
    try:
        return pattern.search(config.read_text(encoding="utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return False


def make_ci_files(
    ci: str,
    *,
    comments: bool,
    source: str | None,
    commands: bool = False,
    gate: bool = False,
    stage: str = DEFAULT_STAGE,
) -> dict[str, str]:
    """The files of a CI system: path in the repository → content.

    Args:
        comments: include the posting of comments.
        source: where to install from, as ``git+https://HOST/PATH@COMMIT``; None: a placeholder to
            replace.
        commands: include commands in comments.
        gate: one trusted job that reviews and posts, instead of the others.
        stage: of GitLab's pipeline in which to review.

    Raises:
        InputError: the source is not pinned or holds a credential, or the system does not have
            what is asked for.
    """
    system = ci_systems()[ci]
    if comments and not system.comments:
        raise InputError(f"{system.title} reviews before a request exists; use --comments no")
    if commands and not system.commands:
        raise InputError(
            f"commands in comments are not supported on {system.title}; use --commands no"
        )
    if commands and not comments:
        raise InputError("commands need findings in comments; use --comments yes with them")
    if gate and not system.gate:
        raise InputError(f"there is no trusted job for {system.title}; use --comments yes or no")
    more = [(True, system.review), (comments, system.comments), (commands, system.commands)]
    wanted = [system.gate] if gate else [part for is_wanted, part in more if is_wanted]
    files: dict[str, str] = {}
    for template, path in (pair for part in wanted for pair in part.items()):
        text = (data_root() / "config" / "ci" / template).read_text(encoding="utf-8")
        text = text.replace(f"stage: {DEFAULT_STAGE} #", f"stage: {stage} #")
        files[path] = files.get(path, "") + text
    if source is None:
        return files
    for old, new in zip(PLACEHOLDER, split_source(source), strict=True):
        files = {path: text.replace(old, new) for path, text in files.items()}
    return files


def require_new(top: Path, names: Iterable[str]) -> None:
    """Refuse to replace files."""
    for name in names:
        if (top / name).exists():
            raise InputError(f"{name} already exists; check it, or replace it with --force")


def require_inside(top: Path, names: Iterable[str]) -> None:
    """Refuse files that links lead out of the work tree, which a change may have added."""
    real = top.resolve()
    for name in names:
        place = Path(os.path.realpath(top / name))  # of a loop, too
        if not place.is_relative_to(real) or place.is_relative_to(real / ".git"):
            raise InputError(f"{name} leads out of the repository through a symbolic link")


def write_ci_files(top: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write the files, all or none.

    Raises:
        InputError: one exists already or cannot be written.
    """
    if not force:
        require_new(top, files)
    require_inside(top, files)
    for name, text in files.items():
        try:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {name}: {error.strerror}") from None
