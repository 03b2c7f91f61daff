"""The configurations that the service's page shows are read, and it names every key."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("procrastinate")

from orchestrator.service.settings import (
    Database,
    ForgeSettings,
    Secret,
    ServiceSettings,
    load_settings,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/service.md").read_text()
EXAMPLES = [*re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL),
            (ROOT / "deploy/service.yaml").read_text()]  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_configuration_is_read(example: str, tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text(example.replace("{file: …}", ""))
    assert load_settings(tmp_path / "service.yaml").forges


def _keys(kind: Any) -> set[str]:
    found = set()
    for one in msgspec.structs.fields(kind):
        found.add(one.encode_name)
        if isinstance(one.type, type) and issubclass(one.type, msgspec.Struct):
            found |= _keys(one.type)
    return found


def test_every_key_of_the_configuration_is_on_the_page() -> None:
    keys = _keys(ServiceSettings) | _keys(Database) | _keys(ForgeSettings) | _keys(Secret)
    assert not {key for key in keys if f"{key}:" not in PAGE}
