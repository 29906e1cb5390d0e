"""The handle on an attached store: nothing leaves its scope, and `read` and `write` are enforced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryBase, MemoryItem, Scope
from devmem.errors import AccessError, ScopeError
from devmem.stores import StoreSetup
from devmem.workflow import AttachmentHandle, MemoryOperation
from devmem_stores.simple import SimpleConfig, SimpleMemory

from .doubles import ScriptedStore, hit, manager_of

ANN = Scope(user="ann", agent="writer", run="r1")


def _item(name: str, **more: Any) -> MemoryItem:
    return MemoryItem(id=name, content_summary=f"tea of {name}", **more)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryBase]:
    config = SimpleConfig.model_validate({"memory_path": str(tmp_path / "notes.db")})
    memory = SimpleMemory(StoreSetup(name="notes", store_type="simple", config=config))
    memory.load()
    memory.add(
        [
            _item("hers", scope=Scope(user="ann", agent="writer")),
            _item("her-editor", scope=Scope(user="ann", agent="editor")),
            _item("his", scope=Scope(user="bob", agent="writer")),
            _item("shared"),
            _item("doubtful", trust=0.1),
        ]
    )
    yield memory
    memory.close()


def _handle(store: MemoryBase, scope: Scope | None = ANN, **each: Any) -> AttachmentHandle:
    return manager_of(store, each={"min_trust": 0.5, "top_k": 10, **each}).attachment(store.name, scope)


@pytest.mark.parametrize(("scope", "seen"), [(ANN, {"hers", "shared"}), (None, {"shared"})])
def test_reading_stays_within_the_scope_and_the_attachments_trust(
    store: MemoryBase, scope: Scope | None, seen: set[str]
) -> None:
    handle = _handle(store, scope)
    everything = ("hers", "her-editor", "his", "shared", "doubtful")
    assert {hit.item.id for hit in handle.search("tea")} == seen
    assert {item.id for item in handle.recent()} == seen
    assert {item.id for item in handle.get(*everything)} == seen


def test_a_store_that_ignores_the_filter_shows_nothing_more() -> None:
    scripted = ScriptedStore(hits=[hit("his", id="his", scope=Scope(user="bob")), hit("shared", id="shared")])
    handle = _handle(scripted)
    assert [found.item.id for found in handle.search("tea")] == ["shared"]
    assert [item.id for item in handle.recent()] == ["shared"]
    assert [item.id for item in handle.get("his", "shared")] == ["shared"]


def test_what_is_added_belongs_to_the_run(store: MemoryBase) -> None:
    _handle(store).add(_item("new"))
    assert [item.scope for item in store.get(["new"])] == [ANN]


@pytest.mark.parametrize("scope", [Scope(user="bob"), Scope(agent="editor"), Scope(run="r2")])
def test_nothing_is_added_for_somebody_else(store: MemoryBase, scope: Scope) -> None:
    with pytest.raises(ScopeError):
        _handle(store).add(_item("new", scope=scope))
    assert store.get(["new"]) == []


def test_without_a_user_nothing_is_added_for_one(store: MemoryBase) -> None:
    with pytest.raises(ScopeError, match="unscoped items"):
        _handle(store, None).add(_item("new", scope=Scope(user="bob")))


@pytest.mark.parametrize("taken", ["his", "her-editor", "shared"])
def test_ids_of_others_are_not_replaced(store: MemoryBase, taken: str) -> None:
    before = store.get([taken])
    with pytest.raises(ScopeError, match="taken in another scope"):
        _handle(store).add(_item(taken))
    assert store.get([taken]) == before


@pytest.mark.parametrize(("scope", "deleted"), [(ANN, {"hers"}), (None, {"shared"})])
def test_only_what_the_scope_owns_is_deleted(store: MemoryBase, scope: Scope | None, deleted: set[str]) -> None:
    everything = ("hers", "her-editor", "his", "shared")
    assert _handle(store, scope).delete(*everything) == 1
    assert {item.id for item in store.get(everything)} == {*everything} - deleted


def test_a_store_that_lasts_one_run_shows_that_run_alone(store: MemoryBase) -> None:
    store.add([_item("now", scope=ANN), _item("before", scope=Scope(user="ann", agent="writer", run="r0"))])
    handle = manager_of(store, run_only=["notes"]).attachment("notes", ANN)
    assert [item.id for item in handle.recent()] == ["now"]
    assert handle.delete("before", "hers") == 0


def test_read_false_refuses_to_read(store: MemoryBase) -> None:
    handle = _handle(store, read=False)
    for read in (lambda: handle.search("tea"), lambda: handle.get("hers"), handle.recent):
        with pytest.raises(AccessError, match="`read: false`") as caught:
            read()
        assert (caught.value.store, caught.value.access) == ("notes", "read")
    assert handle.add(_item("new")) == ["new"]


def test_write_false_refuses_to_write(store: MemoryBase) -> None:
    handle = _handle(store, write=False)
    for write in (lambda: handle.add(_item("new")), lambda: handle.delete("hers")):
        with pytest.raises(AccessError, match="`write: false`"):
            write()
    assert [item.id for item in handle.get("hers", "new")] == ["hers"]


def test_a_store_that_is_not_attached_has_no_handle(store: MemoryBase) -> None:
    with pytest.raises(KeyError):
        manager_of(store).attachment("other")


def test_an_empty_user_is_refused(store: MemoryBase) -> None:
    with pytest.raises(ValueError, match="`user` is empty"):
        _handle(store, Scope(user=" "))


def test_every_call_is_reported_with_its_counts(store: MemoryBase) -> None:
    """Also one that fails; there is no stage."""
    done: list[MemoryOperation] = []
    handle = manager_of(store, on_operation=done.append, clock=lambda: 5.0).attachment("notes", ANN)
    handle.add(_item("new"))
    handle.search("tea")
    handle.get("new", "his")
    handle.recent()
    handle.delete("new")
    with pytest.raises(ScopeError):
        handle.add(_item("his"))
    assert [(one.kind, one.items) for one in done] == [
        *[("add", 1), ("search", 3), ("get", 1), ("recent", 4), ("delete", 1), ("add", 0)]
    ]
    assert all((one.store, one.stage, one.started_at) == ("notes", None, 5.0) for one in done)
    assert isinstance(done[-1].error, ScopeError)
    assert str(done[1]).startswith("search 'notes': 3 items in ")


def test_the_async_twins_do_the_same(store: MemoryBase) -> None:
    async def use(handle: AttachmentHandle) -> list[Any]:
        added = await handle.aadd(_item("new"))
        found = [{hit.item.id for hit in await handle.asearch("tea")}, await handle.aget("new"), await handle.arecent()]
        return [added, *found, await handle.adelete("new")]

    added, found, got, recent, deleted = asyncio.run(use(_handle(store)))
    assert (added, found, deleted) == (["new"], {"hers", "shared", "new"}, 1)
    assert [item.id for item in got] == ["new"]
    assert {item.id for item in recent} == {"hers", "shared", "new"}
