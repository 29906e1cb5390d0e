"""Ways back that a store type has of its own: a folder, an outbox, summaries, the state of a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import devmem
from devmem import Memory
from devmem.messages import Message
from devmem.stores import Indexing
from devmem_stores.brain import BrainMemory
from devmem_stores.conversation import ConversationMemory
from devmem_stores.long_term import LongTermMemory
from tests.stores.interactions import ANN, record

SECRET = "Her door code is 4711-Zeta."
OTHER = "The launch is on May 5th."


def opened(folder: Path, kind: str, **config: object) -> Memory:
    place = folder / str(config.pop("memory_path", "store.db"))
    return devmem.open({"type": kind, "name": "s", "config": {"memory_path": str(place), **config}})


def test_a_folder_that_is_indexed_again(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "ann.md"
    file.write_text(f"# Ann\n\n{SECRET}\n")
    (tmp_path / "docs" / "plans.md").write_text(OTHER)
    (tmp_path / "team.yaml").write_text(
        "memory: [{name: s, type: file, config: {index_path: index.db, file_sources: [{path: docs}]}}]\n"
    )
    with devmem.open(tmp_path / "team.yaml#s") as docs:
        (chunk,) = [record.id for record in docs.list() if "4711" in record.text]
        assert docs.forget(chunk, tombstone=True).tombstones
    file.write_text(f"# About Ann\n\n{SECRET} Really.\n")
    with devmem.open(tmp_path / "team.yaml#s") as docs:
        report = cast("Indexing", docs.store).index(rebuild=True)
        assert (report.kept_out, report.chunks) == (1, 1)
        assert ["4711" in record.text for record in docs.list()] == [False]


def test_the_state_of_a_conversation(tmp_path: Path) -> None:
    """Neither a message, nor knowledge, nor a summary that somebody wrote brings it back."""
    with opened(tmp_path, "brain") as memory:
        store = cast("BrainMemory", memory.store)
        brain = store.brain("ann", "c1")
        brain.add_talk(SECRET)
        brain.add_answer(OTHER)
        memory.forget(user="ann", matching="door code", tombstone=True, verify=True)
        assert brain.add_talk(SECRET).erased_before
        assert brain.add_knowledge(SECRET).erased_before
        assert brain.pop_last_talk() is None
        assert brain.set_history_summary(SECRET.upper()).erased_before
        brain.set_history_summary(f"They met. {SECRET} {OTHER}")
        assert brain.historical_summary == f"They met. {OTHER}"
        payload = devmem.MemoryWritePayload(inputs_text=SECRET, scope=devmem.Scope(user="ann", conversation="c1"))
        assert store.update(payload).erased_before
        assert "4711" not in brain.snapshot().whole_text()


def test_a_summary_that_a_model_writes(tmp_path: Path) -> None:
    class Remembering:
        text = f"They met. {SECRET}"
        method = "llm"

        def summarize(self, *_: object, **__: object) -> Remembering:
            return self

    with opened(tmp_path, "conversation", summary={"keep": 1, "words": 20}) as memory:
        store = cast("ConversationMemory", memory.store)
        texts = (SECRET, OTHER, "It rained.", "It snowed.")
        store.record([record(n, id=f"r{n}", target=ANN, content=text, sequence=n) for n, text in enumerate(texts)])
        memory.forget(matching="door code", tombstone=True, verify=True)
        store.summarizer = Remembering  # type: ignore[assignment, method-assign]
        assert store.compress() > 0
        summaries = [item.content_summary for item in store.scan() if item.id.startswith("summary-")]
        assert summaries == ["They met."]


def test_a_role_that_is_told_again(tmp_path: Path) -> None:
    """It is new to neither memory."""
    with opened(tmp_path, "long_term") as memory:
        role = cast("LongTermMemory", memory.store).recover("architect")
        said = Message(role="user", content=SECRET)
        assert role.add(said)
        memory.forget(matching="door code", agent="architect", tombstone=True, verify=True)
        assert not role.add(Message(role="user", content=SECRET))
        assert role.add_batch([Message(role="user", content=OTHER)])
        assert [message.content for message in role.get()] == [OTHER]
