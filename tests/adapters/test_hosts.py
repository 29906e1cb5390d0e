"""An adapter whose framework is missing says how to install it."""

from __future__ import annotations

import pytest

from devmem.adapters.hosts import require
from devmem.errors import MissingExtraError


@pytest.mark.parametrize("module", ["no_such_framework", "no_such_framework.store.base", "json.no_such_module"])
def test_a_missing_framework_is_named_with_the_extra(module: str) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install .*\[hosts\]") as caught:
        require(module, package="some-framework", extra="hosts")
    assert isinstance(caught.value, ImportError)
    assert "some-framework" in str(caught.value)


def test_what_is_installed_is_not_imported() -> None:
    require("json.tool", package="json", extra="hosts")
