"""Former names of public packages lead to the current ones."""

from __future__ import annotations

from importlib import import_module

import pytest

from devmem.lazy_names import MOVED_NAMES


@pytest.mark.parametrize(("former", "current"), MOVED_NAMES.items())
def test_a_former_name_in_a_package_is_the_current_one_and_warns(former: str, current: str) -> None:
    package, _, name = former.rpartition(".")
    vars(import_module(package)).pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"is now {current}"):
        found = getattr(import_module(package), name)
    elsewhere, _, now = current.rpartition(".")
    assert found is getattr(import_module(elsewhere or package), now)
