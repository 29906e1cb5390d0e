"""The changelog says where each public name went, and there it is."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from devmem.lazy_names import MOVED_NAMES

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
_ROW = re.compile(r"^\| `(devmem\.\w+)` \| ((?:`\w+`(?:, )?)+) \|$", re.MULTILINE)


def test_every_name_that_left_devmem_is_where_the_changelog_says() -> None:
    section = CHANGELOG.read_text(encoding="utf-8").split("### Moved public names")[1].split("## 0.1.0")[0]
    rows = _ROW.findall(section)
    assert len(rows) > 5
    for package, names in rows:
        for name in re.findall(r"\w+", names):
            assert hasattr(import_module(package), name), f"{package}.{name}"


@pytest.mark.parametrize(("former", "current"), MOVED_NAMES.items())
def test_a_former_name_in_a_package_is_the_current_one_and_warns(former: str, current: str) -> None:
    package, _, name = former.rpartition(".")
    vars(import_module(package)).pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"is now {current}"):
        found = getattr(import_module(package), name)
    elsewhere, _, now = current.rpartition(".")
    assert found is getattr(import_module(elsewhere or package), now)
