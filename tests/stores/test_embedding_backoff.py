"""How long an embedding provider that failed is left alone does not depend on the wall clock."""

from __future__ import annotations

from contextlib import closing

from devmem.model.items import MemoryContentSnapshot
from devmem.model.results import MemoryWritePayload
from devmem.stores import EmbeddingConfig, MemoryQuery, StoreSetup
from devmem.testing import FailingEmbedder, ManualClock
from devmem_stores.simple import SimpleConfig, SimpleMemory


def test_a_jump_of_the_wall_clock_keeps_no_item_waiting() -> None:
    embedder, wall, monotonic = FailingEmbedder(), ManualClock(), ManualClock(0.0)
    config = SimpleConfig(embedding=EmbeddingConfig())
    setup = StoreSetup(
        name="notes",
        store_type="simple",
        config=config,
        open_embedder=lambda _: embedder,
        clock=wall,
        monotonic=monotonic,
    )
    with closing(SimpleMemory(setup)) as store:
        store.load()
        wall.advance(1e7)
        text = "Ann moved the launch to June 2nd."
        store.update(MemoryWritePayload(inputs_text=text, output_snapshot=MemoryContentSnapshot(text=text)))
        wall.advance(-1e7)
        embedder.recover()
        monotonic.advance(60)
        store.save()
        [hit] = store.search(MemoryQuery(text="launch", top_k=1))
        assert hit.similarity is not None
