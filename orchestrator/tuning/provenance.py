"""Groups and judges of items, and whether a rubric was tuned on those groups."""

import hashlib
from collections.abc import Iterable

from orchestrator.engine.types import Rubric
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.wording import count_noun


def hash_groups(items: Iterable[Item]) -> list[str]:
    """Short digests of the group names, to detect later that items were used for tuning."""
    names = {i.group for i in items}
    return sorted(hashlib.sha256(name.encode()).hexdigest()[:10] for name in names)


def list_judges(items: Iterable[Item]) -> list[str]:
    """The judges of the items, each once."""
    return sorted({i.judge for i in items if i.judge})


def count_seen_groups(rubric: Rubric, items: Iterable[Item]) -> int:
    """Number of the items' groups that the rubric was tuned on, or a criterion reworded from."""
    made = (rubric.provenance.get(how) for how in ("tuned", "rewritten"))
    lists = [found.get("groups") for found in made if isinstance(found, dict)]
    seen = {str(one) for found in lists if isinstance(found, list) for one in found}
    return len(seen & set(hash_groups(items)))


def describe_seen_groups(rubric: Rubric, items: Iterable[Item], name: str = "the rubric") -> str:
    """A warning that figures on these items are optimistic; empty where they are not."""
    used = list(items)
    seen, groups = count_seen_groups(rubric, used), len({item.group for item in used})
    if not seen:
        return ""
    return (
        f"{name} was tuned on {seen} of these {count_noun(groups, 'group')}, so its agreement here "
        "is optimistic; for held-out figures: diffcourt rubric show"
    )
