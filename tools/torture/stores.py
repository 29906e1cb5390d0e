"""The stores that are tortured: each kind in a folder of its own, with an embedder that needs no model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from devmem import MemoryContentSnapshot, MemoryWritePayload, load_workflow
from devmem.stores import CollectionMemory
from devmem.testing import HashEmbedder
from devmem.workflow import make_store

KINDS: Final = ("simple", "blackboard", "long_term", "role_zero", "brain")
SEARCHED: Final = ("simple", "long_term", "role_zero", "brain")
"""Kinds that find an item by its words; a blackboard returns the newest."""
EMBEDDER: Final = HashEmbedder(dimension=32)

_WORKFLOW: Final = """\
memory:
  - name: tortured
    type: {kind}
    config: {{memory_path: "{place}", durability: {durability}{more}}}
"""
_EMBEDDED: Final = ", embedding: {provider: openai, model: hash, api_key: unused, base_url: 'http://127.0.0.1:9/v1'}"


def prepare(folder: Path, kind: str) -> Path:
    """Write the workflow of a store of this kind into a folder and return the folder."""
    # Of what a kill of the process can lose, `normal` loses nothing either.
    return _prepared(folder, kind, place="store.db", durability="normal")


def prepare_at(folder: Path, kind: str, url: str) -> Path:
    """Write the workflow of a store of this kind in a database into a folder and return the folder."""
    return _prepared(folder, kind, place=url, durability="full")


def _prepared(folder: Path, kind: str, *, place: str, durability: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    more = ", max_items: 1000000" if kind == "blackboard" else _EMBEDDED
    text = _WORKFLOW.format(kind=kind, place=place, durability=durability, more=more)
    (folder / "workflow.yaml").write_text(text, encoding="utf-8")
    return folder


@contextmanager
def opened(folder: Path, clock: Callable[[], float] = time.time) -> Iterator[CollectionMemory]:
    """Open the store of a folder, load it, and close it at the end."""
    workflow = load_workflow(folder / "workflow.yaml")
    store = make_store(workflow, "tortured", embedders=lambda _: EMBEDDER, clock=clock)
    assert isinstance(store, CollectionMemory)
    try:
        store.load()
        yield store
    finally:
        store.close()


def payload(token: str, **more: str) -> MemoryWritePayload:
    """Return an exchange whose answer has a word of its own."""
    return MemoryWritePayload(
        agent_role="tester",
        inputs_text=f"What is known about number {token}a?",
        output_snapshot=MemoryContentSnapshot(text=f"The answer for this number is {token} and nothing else."),
        **more,  # type: ignore[arg-type]
    )
