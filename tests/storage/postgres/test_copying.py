"""Copying a store into a database and out of it, also where that is interrupted, and embedding it again there."""

from __future__ import annotations

import base64
import hashlib
import json
import signal
from pathlib import Path

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner, Result

import devmem
from devmem.cli.app import app
from devmem.memory.reading import MemoryReader
from devmem.model.caller import acting_as
from devmem.models import Embedder
from devmem.stores import CollectionMemory
from devmem.testing import HashTokenEmbedder
from devmem.transfer.copy import copy_items
from devmem_stores.brain import BrainMemory
from tests.conftest import StartScript

pytestmark = pytest.mark.postgres

KILLED = """
import os, signal, sys
import devmem
from devmem.transfer.copy import copy_items

def advance(done):
    os.kill(os.getpid(), signal.SIGKILL)

with devmem.open(sys.argv[1], embedding=None) as source, devmem.open(sys.argv[2], embedding=None) as target:
    copy_items(source.store, target.store, advance)
"""


def filled(path: Path, embedder: Embedder | None, count: int = 150) -> Path:
    with devmem.open(path, embedding=embedder) as memory:
        memory.add([f"Note number {n} of the launch." for n in range(count)], user="ann", metadata={"topic": "launch"})
    return path


def attached(item: devmem.MemoryItem) -> set[str | None]:
    blocks = item.input_snapshot.blocks if item.input_snapshot else ()
    return {each.block.attachment.data_uri for each in blocks if each.block.attachment}


def collection_of(memory: devmem.Memory) -> CollectionMemory:
    assert isinstance(memory.store, CollectionMemory)
    return memory.store


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def copied(source: object, target: object) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = json.loads(run("copy", source, target, "--json").stdout)
    return found


def test_a_store_moves_into_a_database_and_back(tmp_path: Path, store_url: str) -> None:
    source = filled(tmp_path / "notes.db", None)
    for first, second in ((source, store_url), (store_url, tmp_path / "notes.json"), (store_url, tmp_path / "back.db")):
        report = copied(first, second)
        assert (report["counts"], report["identical"], report["items"]) == ({"stored": 150}, True, 150)
        again = copied(first, second)
        assert (again["counts"], again["identical"], again["items"]) == ({"duplicate": 150}, True, 150)
    with devmem.open(source, embedding=None) as one, devmem.open(tmp_path / "back.db", embedding=None) as two:
        assert [(r.id, r.text, r.user, r.time) for r in one.scoped(user="ann")] == [
            (r.id, r.text, r.user, r.time) for r in two.scoped(user="ann")
        ]


def test_versions_move_with_their_times_vectors_and_runs(tmp_path: Path, store_url: str) -> None:
    """Also where the copy is repeated, and back again; what an earlier state says is the same everywhere."""
    model, places = HashTokenEmbedder(32), (tmp_path / "a.db", store_url, tmp_path / "c.db")
    with devmem.open(places[0], embedding=model) as memory:
        for number in range(5):
            memory.add(f"note {number}", id=str(number))
        then = memory.history("4")[-1].since
        with acting_as("ann", run="r"):
            memory.update("1", text="note one")
        memory.update("1", text="note uno")
        collection_of(memory).collection.delete(ids=["3"])
    for first, second in ((places[0], places[1]), (places[1], places[2]), (places[0], places[1])):
        with devmem.open(first, embedding=model) as one, devmem.open(second, embedding=model) as two:
            copy_items(one.store, two.store, lambda _: None)
    told = list[object]()
    for place in places:
        with devmem.open(place, embedding=model) as memory, memory.as_of(then) as earlier:
            histories = [list(memory.history(str(number))) for number in range(5)]
            hits = [hit.text for hit in earlier.search("note 3", limit=2)]
            told.append((histories, sorted(record.text for record in earlier), hits, memory.runs()))
    assert told[0] == told[1] == told[2]
    assert "note 1" in str(told[0])


def found(memory: MemoryReader, text: str) -> tuple[str, str | None] | None:
    """Return the item that has this very text, and the field in which it is."""
    best = memory.search(text)[0]
    return (best.id, best.field) if (best.similarity or 0) > 0.99 else None


def test_a_copy_that_was_killed_goes_on(tmp_path: Path, store_url: str, start_script: StartScript) -> None:
    source = filled(tmp_path / "notes.db", None)
    assert start_script(KILLED, source, store_url).wait(60) == -signal.SIGKILL
    with devmem.open(store_url, embedding=None) as target:
        there = len(target.scoped(user="ann"))
    assert 0 < there < 150
    report = copied(source, store_url)
    assert report["counts"] == {"duplicate": there, "stored": 150 - there}
    assert (report["identical"], report["items"]) == (True, 150)


@pytest.mark.parametrize("other", ["same", "another"])
def test_vectors_and_token_codes_go_along_where_the_model_is_the_same(
    tmp_path: Path, store_url: str, other: str
) -> None:
    model, its = HashTokenEmbedder(32, name="same"), HashTokenEmbedder(32, name=other)
    with devmem.open(filled(tmp_path / "notes.db", model, 5), embedding=model) as one:
        its.texts.clear()
        with devmem.open(store_url, embedding=its) as two:
            report = copy_items(one.store, two.store, lambda _: None)
            assert report.identical
            assert bool(its.texts) == bool(report.vectors_left) == (other == "another")
            ids = [record.id for record in one.scoped(user="ann")]
            before, after = (collection_of(each).collection.embeddings(ids) for each in (one, two))
            same = all((before[name].vectors == after[name].vectors).all() for name in ids)
            assert same or other == "another"
            assert [after[name].tokens is not None for name in ids] == [before[n].tokens is not None for n in ids]


def test_a_conversation_keeps_its_summaries(tmp_path: Path, store_url: str) -> None:
    path = tmp_path / "move.yaml"
    stores = (("file", "chats.db"), ("team", store_url))
    declared = (f"{{name: {n}, type: brain, config: {{memory_path: '{p}', max_messages: 2}}}}" for n, p in stores)
    path.write_text(f"memory: [{', '.join(declared)}]\n")
    with devmem.open(f"{path}#file") as memory:
        assert isinstance(memory.store, BrainMemory)
        brain = memory.store.brain("ann")
        for number in range(8):
            brain.add_talk(f"Note number {number} of the launch.")
        wanted = [summary.text for summary in brain.snapshot().summaries]
    assert wanted
    for _ in range(2):
        run("copy", path, "file", "team")
        with devmem.open(f"{path}#team") as memory:
            assert isinstance(memory.store, BrainMemory)
            assert [summary.text for summary in memory.store.brain("ann").snapshot().summaries] == wanted


def test_the_hash_of_an_attachment_in_its_place_is_no_attachment(tmp_path: Path, store_url: str) -> None:
    """Neither in a file nor in a database, nor after a change, nor in an export and what is imported from it."""
    content = b"a secret" * 40_000
    secret = "data:image/png;base64," + base64.b64encode(content).decode()
    forged = f"data:image/png;base64,@{hashlib.sha256(content).hexdigest()}"
    attachments = [{"attachment_id": name, "data_uri": uri} for name, uri in (("1", secret), ("2", forged))]
    file, imported = tmp_path / "notes.db", tmp_path / "imported.db"
    with devmem.open(file, embedding=None) as notes:
        notes.add(
            {"role": "user", "content": "A picture.", "blocks": [{"type": "image", "attachment": one}]}
            for one in attachments
        )
    run("copy", file, store_url)
    with devmem.open(store_url, embedding=None) as copied:
        (item,) = (one for one in copied.list() if attached(one) == {forged})
        copied.update(item.id, "Another picture.")
    run("export", store_url, "--output", tmp_path / "notes.json")
    run("import", imported, tmp_path / "notes.json")
    for place in (file, store_url, imported):
        with devmem.open(place, embedding=None) as memory:
            assert set().union(*map(attached, memory.list())) == {secret, forged}
