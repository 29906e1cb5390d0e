"""Stores are saved and closed at the end, whatever happens on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import MemoryBase, Workflow, load_workflow, open_stores
from devmem.errors import DevmemError
from devmem.plugins import StoreRegistry, StoreType
from devmem.stores import ConfigModel, StoreSetup
from tests.workflow.doubles import ScriptedStore


class Stores:
    """A registry whose one type gives doubles, by name."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.doubles = {name: ScriptedStore(name) for name in names}
        self.types = StoreRegistry(discover=list)
        described = StoreType(name="scripted", config_model=ConfigModel, factory=self._make)
        self.types.register(described, "these tests")
        file = folder / "workflow.yaml"
        file.write_text("memory:\n" + "".join(f"  - {{name: {name}, type: scripted}}\n" for name in names))
        self.workflow: Workflow = load_workflow(file, types=self.types)

    def _make(self, setup: StoreSetup) -> MemoryBase:
        return self.doubles[setup.name]

    def counts(self) -> list[tuple[int, int]]:
        return [(store.saved, store.closed) for store in self.doubles.values()]


@pytest.fixture
def two(tmp_path: Path) -> Stores:
    return Stores(tmp_path, "one", "two")


def test_all_are_saved_and_closed(two: Stores) -> None:
    with open_stores(two.workflow, types=two.types) as stores:
        assert list(stores) == ["one", "two"]
        assert two.counts() == [(0, 0), (0, 0)]
    assert two.counts() == [(1, 1), (1, 1)]


def test_only_the_named_ones_are_opened_and_each_once(two: Stores) -> None:
    with open_stores(two.workflow, ["two", "two"], types=two.types) as stores:
        assert list(stores) == ["two"]
    assert two.counts() == [(0, 0), (1, 1)]


def test_a_store_that_is_not_declared_is_a_key_error(two: Stores) -> None:
    with pytest.raises(KeyError, match="three"), open_stores(two.workflow, ["one", "three"], types=two.types):
        pass
    assert two.counts()[0][1] == 1


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_they_are_saved_and_closed_after_an_error_too(two: Stores, error: BaseException) -> None:
    with pytest.raises(type(error)), open_stores(two.workflow, types=two.types):
        raise error
    assert two.counts() == [(1, 1), (1, 1)]


def test_a_store_that_cannot_be_saved_keeps_no_other_from_it_and_is_raised(two: Stores) -> None:
    two.doubles["two"].failing["save"] = DevmemError("disk full")
    with pytest.raises(DevmemError, match="disk full"), open_stores(two.workflow, types=two.types):
        pass
    assert two.counts() == [(1, 1), (0, 1)]


def test_a_store_that_cannot_be_saved_does_not_hide_the_error_before_it(
    two: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    two.doubles["two"].failing["save"] = DevmemError("disk full")
    with pytest.raises(ValueError, match="mine"), open_stores(two.workflow, types=two.types):
        raise ValueError("mine")
    assert "'two'" in caplog.text
    assert "disk full" in caplog.text
    assert two.counts() == [(1, 1), (0, 1)]


def test_a_store_that_cannot_be_loaded_is_closed_and_not_saved(two: Stores) -> None:
    two.doubles["two"].failing["load"] = DevmemError("damaged")
    with pytest.raises(DevmemError, match="damaged"), open_stores(two.workflow, types=two.types):
        pytest.fail("a store that is damaged was opened")
    assert two.counts() == [(1, 1), (0, 1)]


@pytest.mark.parametrize(("one", "other"), [("a\u2010b", "a 10b"), ("a/b", "a%2fb"), ("a\u00a7", "a \u00a7")])
def test_no_two_stores_share_an_auto_file(one: str, other: str) -> None:
    places = [
        StoreSetup(name=name, store_type="notes", config=ConfigModel(), session_dir=Path("s")).location("auto")
        for name in (one, other)
    ]
    assert len(set(places)) == 2
