"""The pattern ``single``: one agent reviews a change of many kinds of files, and leaves no gap."""

from pathlib import Path

from msgspec.structs import replace

from orchestrator.catalog.settings import ReviewSettings
from tests.review.review_kit import change, review

MIXED = {
    "shop/cart.py": '"""Carts."""\n\n\ndef total(prices):\n    """Add prices up."""\n    return sum(prices)\n',
    "tests/test_cart.py": "from shop.cart import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
    "web/cart.js": "export const total = (prices) => prices.length;\n",
    "main.go": "package main\n\nfunc main() {}\n",
    "deploy.sh": '#!/bin/sh\nset -eu\necho "$1"\n',
    "Dockerfile": "FROM python:3.11-slim@sha256:" + "a" * 64 + "\nUSER nobody\n",
    ".github/workflows/ci.yml": (
        "name: ci\non: push\npermissions: {}\njobs:\n  test:\n    runs-on: ubuntu-24.04\n"
        "    steps:\n      - run: make test\n"
    ),
    "requirements.txt": "msgspec==0.21.1\n",
    "docs/cart.md": "# Cart\n\nThe cart adds prices up.\n",
    "CHANGELOG.md": "# Changelog\n\n- A cart.\n",
}


def single(settings: ReviewSettings) -> ReviewSettings:
    return replace(settings, pattern="single")


async def test_one_agent_completes_a_change_of_many_kinds_of_files(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, MIXED), adjust=single)
    assert [gap for gap in verdict.skipped if gap.gap] == []
    assert verdict.status == "complete"
