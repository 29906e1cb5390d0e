"""Faults of DevAll (ChatDev 2) that must not occur here; the numbers are those of our list.

Others are tests of every collection and store type: lost writes of two processes, damaged files, mixed models, vectors
of zeros, attachments that are written again.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryBase, MemoryWritePayload
from devmem.stores import EmbeddingConfig, Vector, open_embedder
from devmem.stores.embedding_queue import devall_text
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore
from tests.models.service import ChatService, vector_of

Exchange = Callable[..., MemoryWritePayload]
KINDS = pytest.mark.parametrize("kind", [SimpleMemory, BlackboardMemory])


@KINDS
def test_d1_an_auto_path_is_a_file_of_the_session(
    make_store: MakeStore, exchange: Exchange, tmp_path: Path, kind: type[MemoryBase]
) -> None:
    """There the folder was missing: the answer was lost and the run aborted."""
    session = tmp_path / "WareHouse" / "session_1"
    store = make_store(kind, memory_path="auto", session=session)
    store.update(exchange("Where is the key?", "Under the flowerpot."))
    store.close()
    (file,) = session.glob("*.db")
    assert "notes" in file.name
    assert make_store(kind, memory_path="auto", session=session).count() == 1


def test_d7_the_answer_is_stored_when_the_input_is_long(make_store: MakeStore, exchange: Exchange) -> None:
    store = make_store(SimpleMemory)
    store.update(exchange("We talked about the weather at length. " * 100, "The spare key is under the flowerpot."))
    (item,) = store.retrieve("", "spare key flowerpot", 1)
    assert "The spare key is under the flowerpot." in item.content_summary
    assert len(item.content_summary) <= 500


@pytest.mark.parametrize(
    "fact",
    [
        "You are the best engineer we have, so note that the deadline is May 5th, not earlier",
        "你是最好的工程师，截止日期是五月五日",
    ],
)
def test_d8_a_fact_is_not_taken_for_a_phrase(make_store: MakeStore, exchange: Exchange, fact: str) -> None:
    """There everything from `You are` to the next comma was deleted, wherever it stood."""
    store = make_store(SimpleMemory)
    store.update(exchange(fact, "Noted, thank you for telling me."))
    (item,) = store.recent(1)
    assert fact in item.content_summary


def test_d30_files_are_utf8_whatever_the_machine_says(tmp_path: Path) -> None:
    """There a German or Chinese text crashed on Windows."""
    code = (
        "import sys; from devmem.storage import JsonCollection; from devmem.model.items import MemoryItem\n"
        "store = JsonCollection(sys.argv[1]); store.add([MemoryItem(content_summary='Zürich 会议')])\n"
        "assert JsonCollection(sys.argv[1]).count() == 1"
    )
    path = tmp_path / "notes.json"
    subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code, str(path)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "0"},
    )
    assert "Zürich 会议" in path.read_text(encoding="utf-8")


TEXTS = ("Input: Where's the key? Output: Under the flowerpot!", "Input: Who called? Output: Ada (twice).")


class ExactEmbedder(HashEmbedder):
    """A model to which each character matters."""

    def vector(self, text: str) -> Vector:
        return super().vector("".join(f"{ord(letter)}x{place} " for place, letter in enumerate(text)))


class OtherEmbedder(HashEmbedder):
    """A model of the same dimension, with directions of its own."""

    def vector(self, text: str) -> Vector:
        return super().vector(text[::-1])


def devall_file(tmp_path: Path, embedder: HashEmbedder) -> Path:
    """Write a file as DevAll does, which embeds texts without their punctuation."""
    path = tmp_path / "notes.json"
    raw = [
        {"id": f"a_{at}", "content_summary": text, "metadata": {}, "embedding": embedder.vector(words).tolist()}
        for at, (text, words) in enumerate(zip(TEXTS, map(devall_text, TEXTS), strict=True))
    ]
    path.write_text(json.dumps(raw), encoding="utf-8")
    return path


def entries(path: Path) -> list[dict[str, Any]]:
    raw: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return raw


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_embeddings_of_the_same_model_are_used_and_labelled_by_the_next_write(
    make_store: MakeStore, exchange: Exchange, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = ExactEmbedder()
    path = devall_file(tmp_path, embedder)
    before = path.read_bytes()
    store = make_store(SimpleMemory, memory_path=path.name, embedder=embedder)
    store.retrieve("", "key", 1)
    assert all(item.embedding is not None for item in store.recent(9))
    store.save()
    assert path.read_bytes() == before, "reading does not write"
    store.update(exchange("What is for dinner?", "Soup, as always on Mondays."))
    assert [entry["embedding_model"] for entry in entries(path)] == [embedder.identity.name] * 3
    assert entries(path)[0]["embedding"] == pytest.approx(json.loads(before)[0]["embedding"])
    assert not set(TEXTS) & set(embedder.texts), "none was embedded again"
    assert warnings(caplog) == []


@pytest.mark.parametrize("other", [OtherEmbedder(), HashEmbedder(32)], ids=["same dimension", "other dimension"])
def test_embeddings_of_another_model_are_neither_used_nor_replaced_by_reading(
    make_store: MakeStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, other: HashEmbedder
) -> None:
    path = devall_file(tmp_path, other)
    before = path.read_bytes()
    store = make_store(SimpleMemory, memory_path=path.name, embedder=HashEmbedder())
    for _ in range(2):
        (found,) = store.retrieve("", "the key under the flowerpot", 1)
        assert found.id == "a_0", "found by its words"
        assert found.embedding is None
        store.save()
    assert path.read_bytes() == before
    (warning,) = warnings(caplog)
    assert str(path) in warning
    assert "found by their words" in warning
    assert "DevAll then finds them only with that model" in warning


def test_a_model_that_is_down_is_asked_again_later(
    make_store: MakeStore, exchange: Exchange, tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile the embeddings stand in the file as they were."""
    embedder = FailingEmbedder()
    path = devall_file(tmp_path, HashEmbedder())
    before = [entry["embedding"] for entry in entries(path)]
    store = make_store(SimpleMemory, memory_path=path.name, embedder=embedder)
    store.update(exchange("What is for dinner?", "Soup, as always on Mondays."))
    assert [entry["embedding"] for entry in entries(path)[:2]] == [pytest.approx(each) for each in before]
    assert any("cannot be found out now" in warning for warning in warnings(caplog))
    embedder.recover()
    clock.advance(600)
    store.retrieve("", "key", 1)
    assert [item.embedding is None for item in store.recent(9)] == [True, False, False]


def test_vectors_of_a_service_are_recognised_though_only_its_answers_tell_their_length(
    make_store: MakeStore, exchange: Exchange, tmp_path: Path, service: ChatService
) -> None:
    path = tmp_path / "notes.json"
    texts = [f"Input: Where is boat {at}? Output: At pier {at}." for at in range(61)]
    raw = [
        {"id": f"a_{at}", "content_summary": text, "metadata": {}, "embedding": vector_of(devall_text(text))}
        for at, text in enumerate(texts)
    ]
    path.write_text(json.dumps(raw), encoding="utf-8")
    config = EmbeddingConfig.model_validate({"provider": "openai", "api_key": "k", "base_url": service.address})
    store = make_store(SimpleMemory, memory_path=path.name, embedder=open_embedder(config, shared=False))
    store.update(exchange("What is for dinner?", "Soup, as always on Mondays."))
    sent = [text for request in service.requests for text in request["input"]]
    assert not set(texts) & set(sent), "none was embedded again"
    assert len(sent) == 5, "the length, three comparisons, and the new item"
    assert all(item.embedding is not None for item in store.recent(99))
