"""The contract of LangGraph's stores, and the claims of our page."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.sqlite import SqliteStore

import devmem
from devmem.adapters.langgraph import DevmemStore
from devmem.stores import CollectionMemory
from tests.adapters.contract import Notes, Searches

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


def test_the_history_names_who_wrote(memory: devmem.Memory) -> None:
    own = memory.scoped(agent="cook")
    store = DevmemStore(own)
    store.put(NOTES, "tea", {"text": "with milk"})
    store.put(NOTES, "tea", {"text": "without milk"})
    with devmem.acting_as("planner"):
        store.put(NOTES, "tea", {"text": "none left"})
    (record,) = own
    first, second, third = own.history(record.id)
    assert (first.actor, second.actor, third.actor) == ("langgraph.ann.notes.", "cook", "planner")
    assert [each.ended and each.ended.actor for each in (first, second, third)] == ["cook", "planner", None]


def test_a_deleted_value_leaves_nothing(store: DevmemStore, memory: devmem.Memory) -> None:
    store.put(NOTES, "tea", {"text": "with milk"})
    store.delete(NOTES, "tea")
    assert store.get(NOTES, "tea") is None
    assert store.search((), query="milk") == []
    assert memory.count() == 0


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


@pytest.mark.parametrize("wanted", [{"a' OR 1=1": 1}, {"n": {"$nope": 1}}])
def test_a_filter_that_is_none_is_refused(store: DevmemStore, wanted: dict[str, Any]) -> None:
    store.put(NOTES, "a", {"n": 1})
    with pytest.raises(ValueError, match=r"filter key|operator"):
        store.search(NOTES, filter=wanted)


def test_a_search_is_widened_until_enough_pass_what_the_database_cannot_decide(store: DevmemStore) -> None:
    for n in range(60):
        store.put(NOTES, f"{n}", {"text": "a red ball", "deep": {"wanted": n % 20 == 0}})
    found = store.search(NOTES, query="ball", filter={"deep": {"wanted": True}}, limit=3)
    assert sorted(keys(found)) == ["0", "20", "40"]
    assert all(item.score for item in found)


def test_pages_have_no_item_twice(store: DevmemStore) -> None:
    for n in range(7):
        store.put(NOTES, f"{n}", {"text": f"ball number {n}"})
    for query in (None, "ball"):
        pages = [store.search(NOTES, query=query, limit=3, offset=offset) for offset in (0, 3, 6)]
        assert sorted(keys([item for page in pages for item in page])) == [f"{n}" for n in range(7)]


def test_pages_of_a_long_result_are_complete() -> None:
    """Beyond the candidates of one search too, whose ranking differs with their number."""
    with DevmemStore.open(":memory:", index={"dims": 8, "embed": embed}) as store:
        # Those with the word and those near in meaning are others.
        texts = [f"boat {'h' * (n % 50)} {n}" if n % 2 else f"{'a' * (n % 40)} raft {n}" for n in range(500)]
        store.batch([PutOp(NOTES, f"{n}", {"text": text}) for n, text in enumerate(texts)])
        pages = [store.search(NOTES, query="a boat", limit=50, offset=offset) for offset in range(0, 500, 50)]
    assert sorted(keys([item for page in pages for item in page])) == sorted(map(str, range(500)))


def _cpu(call: Callable[[], object]) -> float:
    """Return the CPU time of a call, the least of several."""
    times = []
    for _ in range(7):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return min(times)


def test_one_users_list_costs_the_same_beside_everybodys(tmp_path: Path) -> None:
    """It is of the order of what LangGraph's own store on SQLite needs, and so are namespaces and pages."""
    ops = [PutOp(("users", f"u{n % 100}"), f"{n}", {"text": f"note {n}"}) for n in range(4000)]
    ops += [PutOp(("users", "zoe"), f"{n}", {"text": f"Zoe's note {n}"}) for n in range(20)]
    calls: dict[str, Callable[[BaseStore], object]] = {
        "one user's list": lambda store: store.search(("users", "zoe"), limit=20),
        "one user's values": lambda store: store.search(("users", "zoe"), filter={"text": "Zoe's note 3"}, limit=20),
        "namespaces": lambda store: store.list_namespaces(prefix=("users",), limit=200),
        "a late page": lambda store: store.search(("users",), limit=20, offset=2000),
    }
    with (
        devmem.open(tmp_path / "ours.db", embedding=None) as memory,
        SqliteStore.from_conn_string(str(tmp_path / "theirs.db")) as theirs,
    ):
        ours = DevmemStore(memory)
        theirs.setup()
        for store in (ours, theirs):
            store.batch(ops)
        assert keys(ours.search(("users", "zoe"), limit=20)) == [f"{n}" for n in reversed(range(20))]
        costs = {name: (_cpu(lambda: call(ours)), _cpu(lambda: call(theirs))) for name, call in calls.items()}  # noqa: B023
    assert {name: own / host for name, (own, host) in costs.items() if own > 10 * host} == {}


def test_only_the_named_fields_are_searched(store: DevmemStore) -> None:
    store.put(NOTES, "a", {"title": "harbour", "body": "ships"}, index=["title"])
    store.put(NOTES, "b", {"title": "ships"}, index=False)
    (only,) = store.search(NOTES, query="harbour", limit=1)
    assert only.key == "a"
    assert all(item.score is None for item in store.search(NOTES, query="ships"))


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


def test_a_long_field_is_stored_once(store: DevmemStore, memory: devmem.Memory) -> None:
    """A summary of it is shown, but neither searched again nor kept whole beside the value."""
    store.put(NOTES, "long", {"text": "A sentence about ships. " * 200}, index=["text"])
    (found,) = memory.search("ships")
    assert found.item.input_snapshot is None
    assert len(found.item.content_summary) <= 1_000
    assert found.field == "text"


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


def test_an_async_function_alone_is_no_embedding_model() -> None:
    async def later(texts: list[str]) -> list[list[float]]:
        return embed(texts)

    with pytest.raises(TypeError, match="async"), DevmemStore.open(":memory:", index={"dims": 8, "embed": later}):
        pass


def test_threads_and_tasks_share_a_store(store: DevmemStore) -> None:
    async def many() -> None:
        await asyncio.gather(*(store.aput(NOTES, f"task {n}", {"n": n}) for n in range(20)))

    threads = [threading.Thread(target=store.put, args=(NOTES, f"thread {n}", {"n": n})) for n in range(20)]
    for thread in threads:
        thread.start()
    asyncio.run(many())
    for thread in threads:
        thread.join()
    assert len(store.search(NOTES, limit=100)) == 40


class State(TypedDict):
    """State of the graph."""

    asked: str
    known: str


def test_a_node_of_a_graph_finds_what_another_run_kept(tmp_path: Path) -> None:
    def node(state: State, *, store: BaseStore) -> dict[str, str]:
        known = "; ".join(item.value["text"] for item in store.search(NOTES, query=state["asked"]) if item.score)
        store.put(NOTES, str(len(state["asked"])), {"text": state["asked"]})
        return {"known": known}

    def run(asked: str) -> str:
        with DevmemStore.open(tmp_path / "m.db") as store:
            graph = StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END)
            return str(graph.compile(store=store).invoke({"asked": asked, "known": ""})["known"])

    assert run("The harbour opens in June.") == ""
    assert run("When does the harbour open?") == "The harbour opens in June."


_WRITER = """
import sys
from devmem.adapters.langgraph import DevmemStore
with DevmemStore.open(sys.argv[1]) as store:
    for n in range(int(sys.argv[3])):
        store.put(("team",), f"{sys.argv[2]} {n}", {"text": f"note {n} of {sys.argv[2]}"})
"""


def test_processes_that_write_one_file_lose_nothing(tmp_path: Path) -> None:
    file = str(tmp_path / "m.db")
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, file, name, "40"]) for name in ("one", "two")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    with DevmemStore.open(file) as store:
        found = keys(store.search(("team",), limit=1000))
    assert sorted(found) == sorted(f"{name} {n}" for name in ("one", "two") for n in range(40))


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```text\n(import .*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["She takes her tea without milk."]


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
