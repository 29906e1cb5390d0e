"""What a package exports is what its `__all__` says, and importing it costs little."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import devmem
import devmem_stores

HEAVY = {*"faiss mem0 onnxruntime openai rapidfuzz redis rich sentence_transformers torch typer".split()}


def public_packages() -> list[str]:
    found = [
        module.name
        for root in (devmem, devmem_stores)
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
        if module.ispkg
    ]
    return ["devmem", *(name for name in found if hasattr(import_module(name), "__all__"))]


@pytest.mark.parametrize("name", public_packages())
def test_all_that_is_exported_is_there_and_all_that_is_there_is_exported(name: str) -> None:
    package = import_module(name)
    exported = list(package.__all__)
    assert [one for one in exported if not hasattr(package, one)] == []
    assert len(set(exported)) == len(exported)
    there = {
        one
        for one, value in vars(package).items()
        if not one.startswith("_") and not isinstance(value, ModuleType) and one != "annotations"
    }
    imported_for_itself = {"TYPE_CHECKING", "Any", "Final", "import_module"} if name == "devmem.testing" else set()
    assert there - imported_for_itself <= set(exported)


def test_a_star_import_gives_the_same() -> None:
    names: dict[str, object] = {}
    exec("from devmem import *", names)
    assert set(devmem.__all__) <= names.keys()


def test_every_store_package_exports_its_config_and_its_store() -> None:
    for module in pkgutil.iter_modules(devmem_stores.__path__):
        package = import_module(f"devmem_stores.{module.name}")
        config, store = sorted(package.__all__, key=lambda name: not name.endswith("Config"))
        assert issubclass(getattr(package, config), devmem.stores.ConfigModel)
        assert issubclass(getattr(package, store), devmem.MemoryBase)


def test_importing_devmem_loads_nothing_that_is_heavy_and_no_store() -> None:
    code = f"import sys, devmem; print(*sorted(set(sys.modules) & {HEAVY | {'devmem_stores', 'pytest'}!r}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
