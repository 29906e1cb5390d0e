"""The names of a package are those in its `__all__`, and importing it costs little."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import devmem
import devmem_stores
from devmem.errors import HostNotFoundError
from tools.site.names import public_names

HEAVY = {*"faiss mem0 onnxruntime openai rapidfuzz redis rich sentence_transformers torch typer mcp".split()}
FIRST_USED_LATER = {*"numpy pydantic yaml asyncio sqlite3 devmem.storage devmem.config devmem.stores".split()}


def public_packages() -> list[str]:
    found = [
        module.name
        for root in (devmem, devmem_stores)
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
        if module.ispkg
    ]
    return ["devmem", *(name for name in found if _is_installed(name) and hasattr(import_module(name), "__all__"))]


def _is_installed(name: str) -> bool:
    """Whether a package can be imported; an adapter cannot where its framework is not installed."""
    try:
        import_module(name)
    except (devmem.errors.MissingExtraError, HostNotFoundError):
        return False
    return True


@pytest.mark.parametrize("name", public_packages())
def test_all_that_is_exported_is_there_and_all_that_is_there_is_exported(name: str) -> None:
    package = import_module(name)
    exported = list(package.__all__)
    assert [one for one in exported if not hasattr(package, one)] == []
    assert len(set(exported)) == len(exported)
    there = {
        one
        for one, value in vars(package).items()
        if not one.startswith("_") and str(getattr(value, "__module__", "")).startswith(name)
    }
    assert there <= set(exported)


@pytest.mark.parametrize("stub", sorted(Path(devmem.__file__).parent.rglob("__init__.pyi")), ids=str)
def test_the_names_are_those_that_type_checkers_see(stub: Path) -> None:
    """Each that is imported in a stub is, and no other."""
    found = [one for one in ast.parse(stub.read_text("utf-8")).body if isinstance(one, ast.ImportFrom)]
    package = ".".join(stub.parent.relative_to(Path(devmem.__file__).parent.parent).parts)
    named = {alias.name for one in found if one.module != package for alias in one.names}
    assert set(public_names(package)) == named
    assert all(alias.asname == alias.name for one in found for alias in one.names)


def test_every_store_package_exports_its_config_and_its_store() -> None:
    for module in pkgutil.iter_modules(devmem_stores.__path__):
        package = import_module(f"devmem_stores.{module.name}")
        config, store = sorted(package.__all__, key=lambda name: not name.endswith("Config"))
        assert issubclass(getattr(package, config), devmem.stores.ConfigModel)
        assert issubclass(getattr(package, store), devmem.MemoryBase)


def loaded_by(code: str, names: set[str]) -> set[str]:
    code = f"import sys; {code}; print(*sorted(set(sys.modules) & {names!r}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_devmem_loads_next_to_nothing() -> None:
    assert loaded_by("import devmem", HEAVY | FIRST_USED_LATER | {"devmem_stores", "importlib.metadata"}) == set()


def test_using_devmem_loads_nothing_that_is_heavy_and_no_store() -> None:
    every = "; ".join(f"devmem.{name}" for name in public_names("devmem"))
    assert loaded_by(f"import devmem; {every}", HEAVY | {"devmem_stores", "pytest"}) == set()


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'devmem' has no attribute 'nothing'"):
        devmem.nothing  # type: ignore[attr-defined]  # noqa: B018 - that is the test
    assert set(public_names("devmem")) | {"stores", "config"} <= set(dir(devmem))


def test_the_manager_loads_no_collection_and_no_reader_of_workflows() -> None:
    unneeded = {*"devmem.storage.sqlite devmem.search.pipeline devmem.config.reading devmem.text.times".split()}
    assert loaded_by("import devmem; devmem.MemoryManager", unneeded | {"yaml", "dotenv"}) == set()
