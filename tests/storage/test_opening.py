"""A location names its collection by its form or its URL scheme; any package may bring a scheme."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.errors import CollectionError, MissingExtraError
from devmem.storage import CollectionInfo, JsonCollection, SqliteCollection, open_collection
from devmem.stores import ModelIdentity
from tests.plugins.strangers import install


def test_a_path_or_nothing_names_a_collection(tmp_path: Path) -> None:
    opened: list[Any] = [open_collection(place) for place in (None, str(tmp_path / "a.json"), str(tmp_path / "a.db"))]
    assert [type(one) for one in opened] == [SqliteCollection, JsonCollection, SqliteCollection]
    for one in opened:
        one.close()


@pytest.mark.parametrize("name", ["sqlite", "json"])
def test_a_file_has_a_url(tmp_path: Path, name: str) -> None:
    path = tmp_path / "store.db"
    by_url = open_collection(f"{name}:///{path}")
    by_url.add([MemoryItem(id="1", content_summary="kept")])
    by_url.close()
    kind = {"sqlite": SqliteCollection, "json": JsonCollection}[name]
    again = kind(path)
    assert [item.id for item in again.recent(5)] == ["1"]
    again.close()


def test_postgresql_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("devmem.storage.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"\[postgres\]"):
        open_collection("postgresql://host/db")


def test_an_unknown_scheme_names_those_that_are_known() -> None:
    with pytest.raises(
        CollectionError,
        match=r"'sqlit' URLs; did you mean 'sqlite'\? Known schemes: json, postgres, postgresql, sqlite;",
    ):
        open_collection("sqlit:///store.db")


OPENER = """
def open_cloud(location, name, **options):
    return (location, name, options)
"""


def cloud(folder: Path, name: str, module: str, source: str | None = OPENER) -> Path:
    modules = {} if source is None else {module: source}
    return install(folder / name, name, {"cloud": f"{module}:open_cloud"}, modules, group="devmem.collections")


def test_a_strangers_scheme_gets_the_url_and_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cloud(tmp_path, "cloud-dist", "cloud_opener")
    monkeypatch.syspath_prepend(folder)
    model = ModelIdentity(name="m", dimension=3)
    opened: Any = open_collection("Cloud://host/x", name="x", model=model, store_type="notes")
    assert opened == ("Cloud://host/x", "x", {"model": model, "store_type": "notes"})


def test_two_packages_that_claim_one_scheme_are_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("two", "one"):
        monkeypatch.syspath_prepend(cloud(tmp_path, f"{name}-dist", f"{name}_opener"))
    with pytest.raises(CollectionError, match=r"'cloud' is claimed by one-dist 1\.0 and by two-dist 1\.0"):
        open_collection("cloud://host")


def test_an_opener_that_cannot_be_imported_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(cloud(tmp_path, "cloud-dist", "no_such_module", None))
    with pytest.raises(CollectionError, match=r"'cloud' of cloud-dist 1\.0 cannot be loaded: ModuleNotFoundError"):
        open_collection("cloud://host")


REFUSING = """
from devmem.errors import CollectionError

def open_cloud(location, name, **options):
    raise CollectionError(location, f"no answer from {location}")
"""


@pytest.mark.parametrize("url", ["oracle://ann:hunter2@host/db", "sqlit://ann:hunter2@host/db"])
def test_a_password_is_not_in_the_error_of_an_unknown_scheme(url: str) -> None:
    with pytest.raises(CollectionError) as caught:
        open_collection(url)
    assert "://***@host/db" in caught.value.location
    assert not [text for text in (str(caught.value), repr(caught.value), caught.value.location) if "hunter2" in text]


def test_a_password_is_not_in_the_error_of_a_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cloud(tmp_path, "refusing-dist", "refusing_opener", REFUSING)
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(CollectionError, match="no answer from") as caught:
        open_collection("cloud://ann:hunter2@host/x")
    assert "hunter2" not in str(caught.value) + repr(caught.value) + caught.value.location


def test_a_password_is_not_in_what_a_collection_reports() -> None:
    info = CollectionInfo(
        location="cloud://ann:hunter2@host/x", items=0, waiting=0, size_bytes=0, embedding=None, dimension=None
    )
    assert info.location == "cloud://***@host/x"
    assert "hunter2" not in repr(info)
