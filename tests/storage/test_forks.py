"""A process may fork while stores are open: multiprocessing, gunicorn with preload and Celery do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import devmem
from devmem.testing import HashEmbedder
from tests.conftest import StartScript

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")

_SECONDS: Final = 60
"""Seconds after which a child hangs."""
_COMMON: Final = """
import json, multiprocessing, os, sys, threading, warnings
import devmem
from devmem.testing import HashEmbedder

# Python warns of a fork beside threads, which is what is tested here.
warnings.filterwarnings("ignore", "This process", DeprecationWarning)
folder, count, embedding, *rest = sys.argv[1:]
count = int(count)

def opened():
    return devmem.open(folder + "/a.db", embedding=HashEmbedder(dimension=64) if embedding == "hash" else embedding)

def filled():
    memory = opened()
    memory.add([f"memory number{k}x of {k}" for k in range(count)], user="ann")
    assert memory.search("number7x", user="ann")
    return memory

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid
"""


def run(start_script: StartScript, script: str, folder: Path, count: int, *rest: object) -> Any:
    """Run a script to its end, and return the JSON that it prints."""
    file = folder / "script.py"
    file.write_text(_COMMON + script, encoding="utf-8")
    process = start_script(file, folder, count, *rest)
    assert process.wait(_SECONDS) == 0, "it hangs, or failed"
    assert process.stdout is not None
    return json.loads(process.stdout.read())


def texts(folder: Path) -> set[str]:
    with devmem.open(folder / "a.db", embedding=HashEmbedder(dimension=64)) as memory:
        return {record.text for record in memory.list(10_000, user="ann")}


_TWO_SIDES: Final = """
memory = filled()
inherited = rest == ["inherited"]
from_child, to_parent = os.pipe()
from_parent, to_child = os.pipe()

def work():
    mine = memory if inherited else opened()
    assert mine.search("number7x", user="ann")[0].text == "memory number7x of 7"
    mine.add("first of the child", user="ann")
    os.write(to_parent, b"x")
    os.read(from_parent, 1)
    for k in range(3):
        mine.add(f"later{k} of the child", user="ann")
    assert mine.search("later2", user="ann")[0].text == "later2 of the child"
    assert mine.search("parent", user="ann")[0].text == "last of the parent"

child = in_child(work)
os.read(from_child, 1)
memory.add("last of the parent", user="ann")
assert memory.search("first of the child", user="ann")[0].text == "first of the child"
memory.close()
os.write(to_child, b"x")
print(json.dumps(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("handle", ["inherited", "new"])
@pytest.mark.parametrize("count", [300, 5000])
def test_both_sides_search_and_write(start_script: StartScript, tmp_path: Path, count: int, handle: str) -> None:
    """The child writes on after the parent has closed the file: what SQLite shared would take its writes along."""
    assert run(start_script, _TWO_SIDES, tmp_path, count, "hash", handle) == 0
    expected = {"first of the child", "last of the parent", *(f"later{k} of the child" for k in range(3))}
    found = texts(tmp_path)
    assert expected <= found
    assert len(found) == count + 5


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_pools_of_multiprocessing_search(start_script: StartScript, tmp_path: Path, method: str) -> None:
    script = """
def ask(k):
    with opened() as memory:
        memory.add(f"answer{k} of a worker", user="ann")
        return memory.search(f"number{k}x", user="ann")[0].text

if __name__ == "__main__":
    memory = filled()
    with multiprocessing.get_context(rest[0]).Pool(2) as pool:
        answers = pool.map(ask, [7, 8, 9])
    print(json.dumps([answers, memory.count(user="ann")]))
"""
    answers, count = run(start_script, script, tmp_path, 300, "hash", method)
    assert answers == [f"memory number{k}x of {k}" for k in (7, 8, 9)]
    assert count == 303


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the threads of a process")
@pytest.mark.parametrize("embedding", ["hash", "minilm"])
def test_a_search_leaves_no_thread_behind(start_script: StartScript, tmp_path: Path, embedding: str) -> None:
    """A pool of OpenMP's that exists at a fork makes the child's next parallel region wait forever."""
    script = """
import numpy
# Its own pool of threads ends before a fork and starts again behind it.
numpy.ones((500, 500)) @ numpy.ones((500, 500))
before = len(os.listdir("/proc/self/task"))
memory = filled()
memory.add([f"more{k}x" for k in range(300)], user="ann")
memory.search("more7x", user="ann")
print(json.dumps([before, len(os.listdir("/proc/self/task"))]))
"""
    before, after = run(start_script, script, tmp_path, 300, embedding)
    assert after == before


def test_the_locks_of_the_parents_other_threads_do_not_stop_a_child(start_script: StartScript, tmp_path: Path) -> None:
    script = """
memory = filled()
stop = threading.Event()

def busy(number):
    k = 0
    while not stop.is_set():
        memory.add(f"thread{number} adds {k}", user="bob")
        memory.search(f"number{k}x adds", user="ann")
        k += 1

threads = [threading.Thread(target=busy, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()

def work(number):
    memory.add(f"child{number} was here", user="ann")
    assert memory.search(f"child{number}", user="ann")[0].text == f"child{number} was here"

children = [in_child(lambda: work(number)) for number in range(12)]
statuses = [os.waitpid(child, 0)[1] for child in children]
stop.set()
for thread in threads:
    thread.join()
print(json.dumps([statuses, memory.count(user="ann")]))
"""
    statuses, count = run(start_script, script, tmp_path, 300, "hash")
    assert statuses == [0] * 12
    assert count == 312


def test_a_store_in_memory_is_copied_to_the_child(start_script: StartScript, tmp_path: Path) -> None:
    script = """
memory = devmem.open(":memory:", embedding=HashEmbedder(dimension=64))
memory.add([f"memory number{k}x of {k}" for k in range(count)], user="ann")
memory.search("number7x", user="ann")

def work():
    memory.add("of the child", user="ann")
    assert memory.search("child", user="ann")[0].text == "of the child"
    assert memory.count(user="ann") == count + 1

print(json.dumps([os.waitpid(in_child(work), 0)[1], memory.count(user="ann")]))
"""
    assert run(start_script, script, tmp_path, 300, "hash") == [0, 300]


def test_a_watched_folder_is_watched_on_both_sides(start_script: StartScript, tmp_path: Path) -> None:
    """A child that closes its copy must not end the watch of its parent."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.md").write_text("# Keel\n\nThe keel is red.\n", encoding="utf-8")
    (tmp_path / "team.yaml").write_text(
        "memory:\n  - name: docs\n    type: file\n    config:\n      index_path: docs.db\n      watch: true\n"
        "      file_sources: [{path: docs/}]\nnodes: []\n",
        encoding="utf-8",
    )
    script = """
memory = devmem.open(folder + "/team.yaml#docs")
assert memory.search("keel")

def found(text, query):
    with open(f"{folder}/docs/{query}.md", "w") as file:
        file.write(text)
    for _ in range(300):
        if any(query in hit.text for hit in memory.search(query)):
            return True
        threading.Event().wait(0.1)
    return False

def work():
    assert found("The child hoists a spinnaker.", "spinnaker")
    memory.close()

status = os.waitpid(in_child(work), 0)[1]
print(json.dumps([status, found("The parent lowers the anchor.", "anchor")]))
memory.close()
"""
    assert run(start_script, script, tmp_path, 0, "none") == [0, True]
