"""DevAll's (ChatDev 2) memory files are read as they are, and what is written DevAll can read."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmem import MemoryItem
from devmem.errors import CollectionDamagedError
from devmem.model.fields import embedded_hash
from devmem.storage import JsonCollection, PreparedItem, SearchQuery
from devmem.stores import ModelIdentity, PassageEmbeddings

MODEL = ModelIdentity(name="openai:text-embedding-3-small", dimension=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    copy = tmp_path / "memory.json"
    shutil.copy(Path(__file__).with_name("devall_memory.json"), copy)
    return copy


def by_id(collection: JsonCollection) -> dict[str, MemoryItem]:
    return {item.id: item for item in collection.scan()}


def opened(path: Path, model: ModelIdentity = MODEL) -> JsonCollection:
    """Open the file, where the embeddings of DevAll are known to be the model's."""
    collection = JsonCollection(path, model=model)
    collection.settle_unlabelled(collection.unlabelled(), same_model=True)
    return collection


def raw_embeddings(path: Path) -> list[list[float]]:
    return [entry.get("embedding") or [] for entry in json.loads(path.read_text(encoding="utf-8"))]


def test_reading_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    collection = JsonCollection(path, model=MODEL)
    assert collection.count() == 5
    assert collection.search(SearchQuery(text="colour"))
    collection.close()
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_devall_wrote(path: Path) -> None:
    items = by_id(JsonCollection(path, model=MODEL))
    assert list(items) == ["3f2a91bc_1767225600", "bb_0c1d", "zeros", "short", "long"]
    first = items["3f2a91bc_1767225600"]
    assert first.content_summary.startswith("Input: Which colour")
    assert first.metadata["content_length"] == 67
    assert first.timestamp == first.created_at == 1767225600.25
    assert first.input_snapshot is not None
    assert first.output_snapshot is not None
    assert first.output_snapshot.text == "You said that you like teal."
    text, image = first.input_snapshot.to_message_blocks()
    assert (text.type, text.text) == ("text", "Which colour do I like?")
    assert image.attachment is not None
    assert image.attachment.data_uri == "data:image/png;base64,iVBORw=="
    assert first.input_snapshot.attachment_overview() == [
        {"role": "user", "attachment_id": "att_1", "mime_type": "image/png", "name": "swatch.png", "size": 4}
    ]


def test_unknown_keys_are_kept(path: Path) -> None:
    """At every level; they are written back too."""
    collection = JsonCollection(path, model=MODEL)
    collection.add([MemoryItem(id="new", content_summary="new")])
    items = by_id(JsonCollection(path, model=MODEL))
    assert items["short"].metadata == {"priority": 3, "tags": ["a", None], "score": 0.5}
    snapshot = items["3f2a91bc_1767225600"].input_snapshot
    assert snapshot is not None
    image = snapshot.to_message_blocks()[1]
    assert image.data == {"alt": "a swatch"}
    assert image.attachment is not None
    assert image.attachment.metadata == {"thumbnail": "swatch_small.png", "source": "upload"}


def test_embeddings_without_a_label_are_not_searched_by_until_they_are_settled(path: Path) -> None:
    """Another model may have made them, and its vectors would only look alike."""
    query = SearchQuery(vector=np.array([0.6, 0.8, 0.0], dtype=np.float32))
    collection = JsonCollection(path, model=MODEL)
    assert [item.id for item in collection.unlabelled()] == ["3f2a91bc_1767225600", "short", "long"]
    assert list(collection.search(query)) == []
    assert len(collection.waiting(9)) == 5
    collection.settle_unlabelled(collection.unlabelled(), same_model=True)
    assert collection.unlabelled() == []
    assert [hit.item.id for hit in collection.search(query)] == ["3f2a91bc_1767225600", "long"]
    # The file may be written by DevAll, with another model, at any time.
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw.append({"id": "late", "content_summary": "added later", "embedding": [0.0, 1.0, 0.0]})
    path.write_text(json.dumps(raw), encoding="utf-8")
    assert [item.id for item in collection.unlabelled()] == ["late"]
    assert "late" in [item.id for item in collection.waiting(9)]


@pytest.mark.parametrize("model", [MODEL, None])
def test_embeddings_of_an_unknown_model_are_written_back(path: Path, model: ModelIdentity | None) -> None:
    """Unchanged and without a label, whatever is written beside them."""
    before = raw_embeddings(path)
    collection = JsonCollection(path, model=model)
    collection.settle_unlabelled(collection.unlabelled(), same_model=False)
    collection.add([MemoryItem(id="new", content_summary="new")])
    collection.delete(ids=["new"])
    assert raw_embeddings(path) == [pytest.approx(each) for each in before]
    assert MODEL.name not in path.read_text(encoding="utf-8")


def test_vectors_that_cannot_be_of_the_model_are_made_again(path: Path) -> None:
    """Zeros, and another length: found by their text, waiting for an embedding; a long vector is normalised."""
    collection = opened(path)
    assert sorted(item.id for item in collection.waiting(9)) == ["bb_0c1d", "short", "zeros"]
    items = by_id(collection)
    assert items["long"].embedding is not None
    assert items["long"].embedding.tolist() == [0.0, 0.0, 1.0]
    hits = collection.search(SearchQuery(vector=np.array([0.6, 0.8, 0.0], dtype=np.float32)))
    assert [hit.item.id for hit in hits] == ["3f2a91bc_1767225600", "long"]
    assert [hit.similarity for hit in hits] == pytest.approx([1.0, 0.0], abs=1e-6)
    assert [hit.item.id for hit in collection.search(SearchQuery(text="failed zeros"))] == ["zeros"]
    collection.set_embeddings({"zeros": PassageEmbeddings.of(np.array([0.0, 1.0, 0.0], dtype=np.float32))})
    assert sorted(item.id for item in opened(path).waiting(9)) == ["bb_0c1d", "short"]


def test_what_is_written_is_what_devall_reads(tmp_path: Path, path: Path) -> None:
    """A JSON list with DevAll's keys, UTF-8, characters as they are."""
    collection = opened(path)
    collection.delete(ids=["zeros"])
    raw: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    assert [entry["id"] for entry in raw] == ["3f2a91bc_1767225600", "bb_0c1d", "short", "long"]
    first = raw[0]
    assert first["timestamp"] == 1767225600.25
    assert first["embedding"] == pytest.approx([0.6, 0.8, 0.0])
    assert first["embedding_model"] == MODEL.name
    assert first["input_snapshot"]["blocks"][0] == {
        "role": "user",
        "block": {"type": "text", "text": "Which colour do I like?", "data": {}},
    }
    assert "会议改到星期五" in path.read_text(encoding="utf-8")


def test_an_item_of_several_passages_with_one_vector_waits(tmp_path: Path) -> None:
    """Where devmem embedded it, a vector is missing; DevAll embeds an item as a whole."""
    path = tmp_path / "memory.json"
    entry = {"content_summary": "The lake is cold and deep. " * 200, "embedding": [1.0, 0.0, 0.0]}
    path.write_text(json.dumps([entry | {"id": "ours", "embedding_model": MODEL.name}, entry | {"id": "theirs"}]))
    assert [item.id for item in opened(path).waiting(9)] == ["ours"]


def test_embeddings_of_changed_fields_are_not_searched_by(tmp_path: Path) -> None:
    """An editor may change the file by hand; until the item is embedded again, it is found by its words."""
    path = tmp_path / "memory.json"
    item = MemoryItem(id="1", content_summary="tea", metadata={"title": "snow"}, indexed_fields=("title",))
    made = PassageEmbeddings(vectors=np.eye(2, 3, dtype=np.float32), content_hash=embedded_hash(item))
    JsonCollection(path, model=MODEL).add([replace(PreparedItem.of(item), embeddings=made)])
    assert JsonCollection(path, model=MODEL).waiting(9) == []
    path.write_text(path.read_text(encoding="utf-8").replace("snow", "rain"), encoding="utf-8")
    assert [item.id for item in JsonCollection(path, model=MODEL).waiting(9)] == ["1"]


@pytest.mark.parametrize(
    "form", [5, {}, {"vectors": "?", "content_hash": "x"}, {"vectors": "AAAA", "content_hash": "x"}]
)
def test_damaged_embeddings_are_named(tmp_path: Path, form: Any) -> None:
    path = tmp_path / "memory.json"
    entry = {"id": "1", "content_summary": "x", "embedding": [1.0, 0.0, 0.0], "embedding_model": MODEL.name}
    path.write_text(json.dumps([entry | {"embedding_passages": form}]), encoding="utf-8")
    with pytest.raises(CollectionDamagedError, match=r"entry \[0\].embedding_passages: .*take the key out"):
        JsonCollection(path, model=MODEL)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"file_metadata": {}, "contents": []}', "dict"),
        ('[{"id": "1"}]', r"entry \[0\].content_summary"),
        ('[{"id": "1", "content_summary": "x", "embedding": [[1]]}]', r"entry \[0\].embedding"),
        ("[" * 100_000, "not JSON"),
        ("\xff\xfe[]", "not JSON"),
    ],
)
def test_a_damaged_file_is_an_error_and_stays_as_it_is(tmp_path: Path, content: str, said: str) -> None:
    """DevAll takes it for an empty one and overwrites what could have been repaired."""
    path = tmp_path / "memory.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(CollectionDamagedError, match=said) as caught:
        JsonCollection(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content.encode("latin-1")


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = tmp_path / "memory.json"
    path.write_bytes(b'\xef\xbb\xbf[{"id": "1", "content_summary": "x"}]')
    assert JsonCollection(path).count() == 1


def test_items_of_one_id_are_all_kept(tmp_path: Path) -> None:
    """DevAll makes ids of a short hash and the second, so two items may share one; reading must lose neither."""
    path = tmp_path / "memory.json"
    raw = [{"id": "a_1", "content_summary": "one"}, {"id": "a_1", "content_summary": "two"}]
    path.write_text(json.dumps(raw))
    collection = JsonCollection(path)
    collection.add([MemoryItem(id="b", content_summary="three")])
    assert [entry["content_summary"] for entry in json.loads(path.read_text())] == ["one", "two", "three"]


def test_damage_while_it_is_open(path: Path) -> None:
    """Neither reading nor writing takes the place for an empty one."""
    collection = JsonCollection(path, model=MODEL)
    path.write_text('[{"id": "1", "cont')
    for use in (collection.count, lambda: collection.add([MemoryItem(content_summary="x")])):
        with pytest.raises(CollectionDamagedError):
            use()
    assert path.read_text() == '[{"id": "1", "cont'
