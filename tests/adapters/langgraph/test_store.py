"""The contract of LangGraph's stores, and the claims of our page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langgraph.store.base import InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.sqlite import SqliteStore

import devmem
from devmem.adapters.langgraph import DevmemStore
from devmem.stores import CollectionMemory
from tests.adapters.contract import Notes, Searches
from tests.adapters.pages import run_example

NOTES = ("ann", "notes")
PAGE = Path(__file__).resolve().parents[3] / "docs/adapters/langgraph.md"


@pytest.fixture
def store(memory: devmem.Memory) -> DevmemStore:
    return DevmemStore(memory)


def keys(found: list[Any]) -> list[str]:
    return [each.key for each in found]


def test_a_value_is_got_as_it_was_put(store: DevmemStore) -> None:
    value = {"text": "Tea, no milk", "tags": ["drink"], "nested": {"deep": [1, 2.5, None, True]}, "none": None}
    store.put(NOTES, "tea", value)
    item = store.get(NOTES, "tea")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (NOTES, "tea", value)
    assert store.get(NOTES, "coffee") is None
    assert store.get(("ann",), "tea") is None


def test_a_second_put_replaces_and_keeps_when_it_was_made(store: DevmemStore) -> None:
    store.put(NOTES, "tea", {"text": "with milk"})
    first = store.get(NOTES, "tea")
    store.put(NOTES, "tea", {"text": "with milk", "sure": True})
    second = store.get(NOTES, "tea")
    assert first
    assert second
    assert second.value == {"text": "with milk", "sure": True}
    assert second.created_at == first.created_at
    assert second.updated_at >= first.updated_at
    assert len(store.search(NOTES)) == 1
    store.delete(NOTES, "tea")
    assert store.get(NOTES, "tea") is None
    assert store.search((), query="milk") == []


def test_reads_of_a_batch_come_before_its_puts_and_the_last_put_of_a_key_counts(store: DevmemStore) -> None:
    store.put(NOTES, "a", {"n": 0})
    before = store.batch([PutOp(NOTES, "a", {"n": 1}), SearchOp(NOTES), PutOp(NOTES, "a", {"n": 2})])
    assert [item.value for item in before[1]] == [{"n": 0}]
    assert store.get(NOTES, "a").value == {"n": 2}


def test_a_namespace_ends_at_a_label(store: DevmemStore) -> None:
    store.put(("ann",), "1", {"n": 1})
    store.put(("anna",), "2", {"n": 2})
    store.put(("ann", "x%_*"), "3", {"n": 3})
    assert sorted(keys(store.search(("ann",)))) == ["1", "3"]
    assert keys(store.search(("ann", "x"))) == []
    assert sorted(keys(store.search(()))) == ["1", "2", "3"]


@pytest.mark.parametrize("namespace", [("a.b",), ("a", "")])
def test_a_namespace_that_another_could_be_taken_for_is_refused(store: DevmemStore, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError, match="label"):
        store.batch([PutOp(namespace, "k", {"n": 1})])


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"color": "red"}, ["a", "c"]),
        ({"color": {"$ne": "red"}}, ["b"]),
        ({"n": {"$gt": 1}}, ["b", "c"]),
        ({"n": {"$gte": 2, "$lt": 3}}, ["b"]),
        ({"n": {"$lte": 2}, "color": "red"}, ["a"]),
        ({"tags": ["x", "y"]}, ["a"]),
        ({"deep": {"k": 1}}, ["b"]),
        ({"deep.k": 1}, ["b"]),
        ({"color": {"$eq": "blue"}}, ["b"]),
        ({"absent": None}, ["a", "b", "c"]),
    ],
)
def test_filters(store: DevmemStore, wanted: dict[str, Any], found: list[str]) -> None:
    store.put(NOTES, "a", {"text": "ball", "color": "red", "n": 1, "tags": ["x", "y"]})
    store.put(NOTES, "b", {"text": "ball", "color": "blue", "n": 2, "deep": {"k": 1}})
    store.put(NOTES, "c", {"text": "ball", "color": "red", "n": 3})
    assert sorted(keys(store.search(NOTES, filter=wanted))) == found
    assert sorted(keys(store.search(NOTES, query="ball", filter=wanted))) == found
    for refused in ({"a' OR 1=1": 1}, {"n": {"$nope": 1}}):
        with pytest.raises(ValueError, match=r"filter key|operator"):
            store.search(NOTES, filter=refused)


def test_a_search_is_widened_until_enough_pass_what_the_database_cannot_decide(store: DevmemStore) -> None:
    for n in range(60):
        store.put(NOTES, f"{n}", {"text": "a red ball", "deep": {"wanted": n % 20 == 0}})
    found = store.search(NOTES, query="ball", filter={"deep": {"wanted": True}}, limit=3)
    assert sorted(keys(found)) == ["0", "20", "40"]
    assert all(item.score for item in found)


def test_pages_of_a_long_result_are_complete() -> None:
    """Beyond the candidates of one search too, whose ranking differs with their number."""
    with DevmemStore.open(":memory:", index={"dims": 8, "embed": embed}) as store:
        # Those with the word and those near in meaning are others.
        texts = [f"boat {'h' * (n % 50)} {n}" if n % 2 else f"{'a' * (n % 40)} raft {n}" for n in range(500)]
        store.batch([PutOp(NOTES, f"{n}", {"text": text}) for n, text in enumerate(texts)])
        pages = [store.search(NOTES, query="a boat", limit=50, offset=offset) for offset in range(0, 500, 50)]
    assert sorted(keys([item for page in pages for item in page])) == sorted(map(str, range(500)))


def test_a_value_is_as_good_as_its_best_field(memory: devmem.Memory) -> None:
    """One short field among long ones is found as if it stood alone, whatever path leads to it."""
    store = DevmemStore(memory, index={"dims": 8, "embed": "none", "fields": ["chapters[*].{title,body}", "meta.*"]})
    value = {"chapters": [{"title": "harbour", "body": "ships " * 40}], "meta": {"by": "Ann"}, "other": "storm"}
    store.put(NOTES, "book", value)
    store.put(NOTES, "whole", value, index=["$"])
    store.put(NOTES, "any", {"langgraph": "kite", "b": {"c": "gale"}}, index=["*"])
    (book,) = [hit for hit in memory.search("harbour") if hit.metadata["langgraph.key"] == "book"]
    assert (book.field, book.passage) == ("chapters[0].title", None)
    assert keys(store.search(NOTES, query="ann", limit=1)) == ["book"]
    assert keys([each for each in store.search(NOTES, query="storm") if each.score]) == ["whole"]
    assert keys([each for each in store.search(NOTES, query="gale") if each.score]) == ["any"]
    assert not memory.search("notes")


def test_namespaces_are_listed(store: DevmemStore) -> None:
    for namespace in (("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("z",)):
        store.put(namespace, "k", {"n": 1})
    assert store.list_namespaces() == [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("z",)]
    assert store.list_namespaces(prefix=("a", "*", "c")) == [("a", "b", "c"), ("a", "x", "c")]
    assert store.list_namespaces(suffix=("c",)) == [("a", "b", "c"), ("a", "x", "c")]
    assert store.list_namespaces(max_depth=1) == [("a",), ("z",)]
    assert store.list_namespaces(limit=1, offset=1) == [("a", "b", "d")]


def test_what_others_wrote_is_in_a_namespace_of_its_own(store: DevmemStore, memory: devmem.Memory) -> None:
    written = memory.add("The launch is on June 2nd.", metadata={"sure": True})
    store.put(NOTES, "tea", {"text": "Tea at four"})
    assert store.list_namespaces() == [NOTES, ("devmem",)]
    (item,) = store.search(("devmem",), query="launch")
    assert (item.key, item.value) == (written, {"text": "The launch is on June 2nd.", "sure": True})
    assert store.get(("devmem",), written) is not None
    assert store.get(NOTES, written) is None
    with pytest.raises(ValueError, match="others"):
        store.put(("devmem",), "k", {"n": 1})
    store.delete(("devmem",), written)
    assert memory.get(written) is None
    assert memory.search("tea")[0].text == "Tea at four"


def test_a_store_never_leaves_its_user(memory: devmem.Memory) -> None:
    ann, bob = (DevmemStore(memory.scoped(user=user)) for user in ("ann", "bob"))
    ann.put(NOTES, "k", {"text": "Ann's secret"})
    bob.put(NOTES, "k", {"text": "Bob's"})
    bobs = memory.add("Bob's own", user="bob")
    ann.delete(("devmem",), bobs)
    assert memory.get(bobs) is not None
    assert [item.value for item in ann.search((), query="secret own")] == [{"text": "Ann's secret"}]
    ann.delete(NOTES, "k")
    assert bob.get(NOTES, "k") is not None
    assert ann.list_namespaces() == []


def expiry(memory: devmem.Memory) -> float:
    """Return when the only item that expires does so."""
    (found,) = [record.expires_at for record in memory.list(100) if record.expires_at]
    return found


def test_items_expire_and_reading_starts_their_time_again(store: DevmemStore, memory: devmem.Memory) -> None:
    store.put(NOTES, "brief", {"text": "gone"}, ttl=-1)
    store.put(NOTES, "long", {"text": "kept"}, ttl=60)
    store.put(NOTES, "ever", {"text": "kept"})
    assert store.get(NOTES, "brief") is None
    assert sorted(keys(store.search(NOTES, refresh_ttl=False))) == ["ever", "long"]
    first = expiry(memory)
    store.get(NOTES, "long", refresh_ttl=False)
    assert expiry(memory) == first
    store.get(NOTES, "long")
    second = expiry(memory)
    store.search(NOTES)
    assert first < second < expiry(memory)


def test_a_read_brings_no_replaced_value_back(store: DevmemStore, memory: devmem.Memory) -> None:
    store.put(NOTES, "k", {"n": 1}, ttl=60)
    assert isinstance(memory.store, CollectionMemory)
    read = memory.store.recent(1)
    store.put(NOTES, "k", {"n": 2}, ttl=60)
    # Nothing public comes between the two halves of a read.
    store._refresh(read)
    assert store.get(NOTES, "k").value == {"n": 2}
    store.delete(NOTES, "k")
    store._refresh(read)
    assert store.get(NOTES, "k") is None


def embed(texts: list[str]) -> list[list[float]]:
    """Embed texts by the letters in them."""
    return [[float(text.count(letter)) + 0.01 for letter in "abcdefgh"] for text in texts]


def test_cosine_scores_are_those_of_the_embeddings() -> None:
    with DevmemStore.open(":memory:", index={"dims": 8, "embed": embed}, scores="cosine") as store:
        store.put(NOTES, "a", {"text": "aaab"})
        store.put(NOTES, "b", {"text": "bbba"})
        found = store.search(NOTES, query="aaa")
    first, query = (np.array(embed([text])[0]) for text in ("aaab", "aaa"))
    cosine = first @ query / np.linalg.norm(first) / np.linalg.norm(query)
    assert keys(found) == ["a", "b"]
    assert found[0].score == pytest.approx(cosine, abs=1e-4)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    assert json.loads(run_example("langgraph", tmp_path)) == ["She takes her tea without milk."]


def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    page = PAGE.parents[1] / "start" / "langgraph.md"
    code, told = re.findall(r"^```(?:python host|text output)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, told), done.stderr


def test_the_page_about_moving_here_copies_a_store_of_langgraph(tmp_path: Path) -> None:
    page = PAGE.parents[1] / "migration" / "langgraph.md"
    (code,) = re.findall(r"^```python host\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    with SqliteStore.from_conn_string(str(tmp_path / "store.db")) as store:
        store.setup()
        store.put(("memories", "ann"), "tea", {"text": "She takes her tea without milk.", "sure": True})
        store.put(("memories", "bob"), "train", {"kind": "Memory", "content": {"content": "He takes the train."}})
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "2 items\n"), done.stderr
    with DevmemStore.open(tmp_path / "notes.db") as copy:
        tea = copy.get(("memories", "ann"), "tea")
    assert tea is not None
    assert tea.value == {"text": "She takes her tea without milk.", "sure": True}


class TestContract(Notes, Searches):
    def found(self, memory: devmem.Memory, query: str) -> int:
        return len(DevmemStore(memory).search((), query=query))

    def note(self, memory: devmem.Memory, text: str) -> None:
        DevmemStore(memory).put(NOTES, "hall", {"text": text})


def test_a_number_that_json_has_not_is_refused_and_not_stored_as_none(store: DevmemStore) -> None:
    with pytest.raises(ValueError, match="'score' holds nan"):
        store.put(NOTES, "tea", {"score": float("nan")})
    assert store.get(NOTES, "tea") is None
