"""The secrets of a change and its repository, which no model is sent.

Those in the changed files are looked for before any agent begins, and by the files' contents alone,
so that a resumed run knows the same ones. Elsewhere a secret is known by its own format.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from diffchecks.secrets.live_secrets import redact_live_secrets
from diffchecks.secrets.redaction import REDACTED, redact_secrets
from orchestrator.code_review.analyzers.own_checks import SECONDS, call_check_in_batches
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.engine.secret_redaction import is_secret
from orchestrator.sandbox.worker_pool import WorkerPool


async def make_filter(workspace: ReviewWorkspace, pool: WorkerPool) -> Callable[[str], str]:
    """Make a function that takes secrets out of a text, changed files' in base and head among them.

    A file that cannot be searched is a gap of the analyzer of secrets as well.
    """
    found: set[tuple[str, str]] = set()
    for name, paths in _changed_paths(workspace).items():
        side, failed = await workspace.side(name, paths)
        readable = [path for path in paths if path not in failed]
        replies, _ = await call_check_in_batches(
            pool,
            "redacted_text:list_secrets",
            {"root": str(side.root)},
            readable,
            SECONDS,
            list[tuple[str, str]],
        )
        found.update(pair for reply in replies for pair in reply)
    return _filter(sorted(found))


def _changed_paths(workspace: ReviewWorkspace) -> Mapping[SideName, list[str]]:
    """What is shown of a change, analyzed or not, but for what is no text or too large."""
    files = [
        file
        for file in workspace.change.files
        if file.skip is None and not workspace.is_too_large(file)
    ]
    return {
        "base": [file.old_path or file.path for file in files if file.old_blob],
        "head": [file.path for file in files if file.new_blob],
    }


def _filter(found: Sequence[tuple[str, str]]) -> Callable[[str], str]:
    """Replace each secret; one that reads like an ordinary word only where its line stands."""
    replacements: dict[str, str] = {}
    words: dict[str, list[str]] = {}
    for secret, line in found:
        if is_secret(secret):
            replacements[secret] = REDACTED
        else:
            words.setdefault(line, []).append(secret)
    for line, secrets in words.items():
        replacements[line] = redact_secrets(line, secrets)
    as_json = {json.dumps(old)[1:-1]: json.dumps(new)[1:-1] for old, new in replacements.items()}
    replacements |= as_json
    ordered = sorted(replacements.items(), key=lambda pair: (-len(pair[0]), pair[0]))

    def without(text: str) -> str:
        for old, new in ordered:
            if old in text:
                text = text.replace(old, new)
        return redact_live_secrets(text)

    return without
