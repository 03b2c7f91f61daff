"""Which files count as using what a changed file defines."""

from pathlib import Path

import pytest

from diffchecks.taint.dependent_files import find_dependent_files
from diffchecks.taint.module_index import Project

_CHANGED = "app/billing/views.py"


def _dependent_files(
    root: Path, files: dict[str, str], affected: set[str] | None = None
) -> dict[str, list[int]]:
    files = {_CHANGED: "def charge(card):\n    return card\n", **files}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return find_dependent_files(Project(root, files), [_CHANGED], affected)


@pytest.mark.parametrize(
    "statement",
    [
        "from app.billing.views import charge",
        "from app.billing.views import (\n    other,\n    charge as charge,\n)",
        "from app.billing.views import other, \\\n    charge",
        "from billing.views import charge",
        "from app.billing import views",
        "from app.billing import (\n    models,\n    views as charge_views,\n)",
        "import app.billing.views as views",
        "import os, app.billing.views",
        "from ..billing import views",
        "from ..billing.views import *",
        'if __name__ == "__main__":\n    from views import charge  # beside it',
    ],
)
def test_a_file_that_imports_the_module_and_names_its_function_counts(
    tmp_path: Path, statement: str
) -> None:
    caller = f"{statement}\n\ndef pay(card):\n    return charge(card)\n"
    found = _dependent_files(tmp_path, {"app/shop/pay.py": caller})
    assert list(found) == ["app/shop/pay.py"]
    assert caller.count("\n") in found["app/shop/pay.py"]


@pytest.mark.parametrize(
    "statement",
    [
        "from app.shop.views import charge",
        "from app.billing.views.parts import charge",
        "from .views import charge",
        "from . import charge",
        "import app.shop.views",
        "# from app.billing.views import charge",
        "from app.billing.models import charge  # not of app.billing.views",
    ],
)
def test_a_file_that_imports_another_module_of_that_name_does_not_count(
    tmp_path: Path, statement: str
) -> None:
    caller = f"{statement}\n\ndef pay(card):\n    return charge(card)\n"
    assert _dependent_files(tmp_path, {"app/shop/pay.py": caller}) == {}


def test_only_the_names_that_the_change_affects_count(tmp_path: Path) -> None:
    files = {"app/pay.py": "from app.billing.views import charge\n\ncharge(1)\n"}
    assert _dependent_files(tmp_path, files, {"refund"}) == {}
    assert _dependent_files(tmp_path, files, {"charge"}) == {"app/pay.py": [1, 3]}


@pytest.mark.parametrize(
    ("use", "counts"),
    [("card.charge(1)", True), ('getattr(card, "charge")', True), ("charge = card.total", False)],
)
def test_of_a_method_only_attributes_count(tmp_path: Path, use: str, *, counts: bool) -> None:
    files = {"app/pay.py": f"from app.billing.views import Card\n\n{use}\n"}
    found = _dependent_files(tmp_path, files, {".charge"})
    assert found == ({"app/pay.py": [3]} if counts else {})


def test_a_file_two_calls_away_counts_by_the_function_between_them(tmp_path: Path) -> None:
    service = "from app.billing.views import charge\n\ndef settle(x):\n    return charge(x)\n"
    found = _dependent_files(
        tmp_path,
        {
            "app/service.py": service,
            "app/handler.py": "from app.service import settle\n\nsettle(1)\n",
            "app/bystander.py": "from app.other import settle\n\nsettle(1)\n",
            "app/other.py": "def settle(x):\n    return x\n",
        },
    )
    assert sorted(found) == ["app/handler.py", "app/service.py"]


def test_a_file_that_imports_the_name_from_a_package_that_passes_it_on_counts(
    tmp_path: Path,
) -> None:
    found = _dependent_files(
        tmp_path,
        {
            "app/billing/__init__.py": "from .views import charge\n",
            "app/pay.py": "from app.billing import charge\n\ncharge(1)\n",
        },
    )
    assert sorted(found) == ["app/billing/__init__.py", "app/pay.py"]
