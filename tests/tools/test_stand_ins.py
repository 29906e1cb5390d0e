"""Stand-ins for packages that a host only imports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from tools.hosts.shims.stand_ins import stand_in_for


@pytest.fixture(autouse=True)
def imports() -> Iterator[None]:
    finders, modules = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_names_of_a_package_that_is_not_there_can_be_imported_subclassed_and_called() -> None:
    stand_in_for(["no_such_sdk"])
    module = import_module("no_such_sdk.types.chat")
    made = type("Made", (module.Completion,), {})
    assert isinstance(made("x", key=1), module.Completion)
    assert module.Completion is module.Completion
    assert (module.Completion | None) is module.Completion[int] is module.Completion
    assert module.decorator()(made) is made
    assert not hasattr(module, "__path_of_nothing__")
    assert not hasattr(module.Completion, "__path_of_nothing__")


def test_packages_that_are_there_and_others_are_not_stood_in_for() -> None:
    stand_in_for(["json"])
    assert import_module("json").loads("[1]") == [1]
    with pytest.raises(ModuleNotFoundError):
        import_module("another_sdk")
