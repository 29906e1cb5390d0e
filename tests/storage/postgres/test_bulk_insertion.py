"""Batches that are large enough for COPY are stored as single items are."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from devmem.messages import AttachmentRef, MessageBlock
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, SnapshotBlock
from devmem.model.results import WriteStatus
from devmem.models import ModelIdentity
from devmem.models.embedder import PassageEmbeddings
from devmem.storage import PreparedItem, SearchQuery
from devmem.storage.attachments import INLINE_LIMIT
from devmem.storage.postgres.collection import PostgresCollection

pytestmark = pytest.mark.postgres

MODEL = ModelIdentity(name="bulk", dimension=4)
SIZE = 120
STARTED = 1.7e9
"""Creation time of the first item, in seconds since the epoch."""
PICTURE = "data:image/png;base64," + "AAAA" * INLINE_LIMIT


def item(at: int) -> PreparedItem:
    """An item of a kind of its own: with odd characters, several passages, an attachment, or no embedding."""
    ref = AttachmentRef(attachment_id="rocket", mime_type="image/png", data_uri=PICTURE)
    shown = MemoryContentSnapshot(
        text="shown", blocks=(SnapshotBlock(block=MessageBlock(type="image", attachment=ref)),)
    )
    prepared = PreparedItem.of(
        MemoryItem(
            id=f"item {at}",
            content_summary=f"Launch number {at}. " * (200 if at % 10 == 0 else 1),
            input_snapshot=shown if at % 30 == 0 else None,
            scope=Scope(user=f"user {at % 3}", run="r" if at % 2 else None),
            metadata={"number": at, "text": 'with "quotes" \\ and \t tabs', "none": None, "large": 1e300},
            created_at=STARTED + at,
            expires_at=4e9 if at % 7 == 0 else None,
        )
    )
    if at % 4 == 3:
        return prepared
    count = len(prepared.passages)
    vectors = np.eye(4, dtype=np.float32)[np.arange(at, at + count) % 4]
    tokens = tuple(np.full((2, 1), at % 256, dtype=np.uint8) for _ in range(count))
    return replace(prepared, embeddings=PassageEmbeddings(vectors=vectors, tokens=tokens if at % 5 else None))


def contents(url: str) -> tuple[object, ...]:
    with closing(PostgresCollection(url, model=MODEL)) as collection:
        items = list(collection.scan())
        ids = [each.id for each in items]
        embeddings = collection.embeddings(ids)
        query = SearchQuery(text="launch 30", limit=SIZE, now=STARTED + SIZE)
        found = [(hit.item.id, hit.score) for hit in collection.search(query)]
        waiting = [each.id for each in collection.waiting(SIZE)]
        forms = {
            name: (each.vectors.tolist(), None if each.tokens is None else [code.tolist() for code in each.tokens])
            for name, each in embeddings.items()
        }
        return [replace(each, embedding=None) for each in items], forms, found, waiting


def test_a_large_batch_is_stored_as_single_items_are(store_url: str) -> None:
    at_once, one_by_one = store_url, f"{store_url}+single"
    with closing(PostgresCollection(at_once, model=MODEL)) as collection:
        outcomes = collection.add([item(at) for at in range(SIZE)])
    assert {each.status for each in outcomes} == {WriteStatus.STORED}
    with closing(PostgresCollection(one_by_one, model=MODEL)) as collection:
        for at in range(SIZE):
            collection.add([item(at)])
    assert contents(at_once) == contents(one_by_one)
