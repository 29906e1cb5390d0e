"""Hypothesis strategies: items and messages with whatever the model allows."""

from __future__ import annotations

from typing import Final

import numpy as np
from hypothesis import strategies as st
from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.messages import (
    AIMessage,
    AttachmentRef,
    Message,
    MessageBlock,
    PayloadData,
    Role,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from devmem.stores import Provenance, SnapshotBlock, SourceKind, Vector

_CHARACTERS: Final = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS: Final = st.text(_CHARACTERS, max_size=60)
"""Every character that the border lets in."""
NAMES: Final = st.text(_CHARACTERS, min_size=1, max_size=20)
_KEYS: Final = st.text(_CHARACTERS, max_size=20)
TIMES: Final = st.floats(min_value=0, max_value=4e9)
_OPTIONAL_NAMES: Final = st.none() | NAMES
_NUMBERS: Final = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES: Final[st.SearchStrategy[JsonValue]] = st.recursive(
    st.none() | st.booleans() | _NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
METADATA: Final = st.dictionaries(_KEYS, JSON_VALUES, max_size=4)

_ATTACHMENTS: Final = st.builds(
    AttachmentRef,
    attachment_id=NAMES,
    mime_type=_OPTIONAL_NAMES,
    name=_OPTIONAL_NAMES,
    size=st.none() | st.integers(0, 2**40),
    sha256=st.none() | NAMES,
    local_path=_OPTIONAL_NAMES,
    remote_file_id=_OPTIONAL_NAMES,
    data_uri=st.none() | TEXTS.map(lambda text: f"data:text/plain,{text}"),
    metadata=METADATA,
)
_MESSAGE_BLOCKS: Final = st.builds(
    MessageBlock,
    type=st.sampled_from(["text", "image", "audio", "video", "file", "data", "hologram"]),
    text=st.none() | TEXTS,
    attachment=st.none() | _ATTACHMENTS,
    data=METADATA,
)
_BLOCKS: Final = st.builds(
    SnapshotBlock, role=st.sampled_from(["user", "assistant", "tool", "input"]), block=_MESSAGE_BLOCKS
)
SNAPSHOTS: Final = st.builds(MemoryContentSnapshot, text=TEXTS, blocks=st.lists(_BLOCKS, max_size=2).map(tuple))
SCOPES: Final = st.builds(
    Scope, **dict.fromkeys(["agent", "user", "session", "conversation", "trace", "run"], _OPTIONAL_NAMES)
)
_PROVENANCES: Final = st.builds(
    Provenance,
    kind=st.sampled_from(list(SourceKind)),
    name=_KEYS,
    parents=st.lists(NAMES, max_size=2).map(tuple),
)


def vectors(dimension: int) -> st.SearchStrategy[Vector]:
    """Make vectors of unit length, shape (dimension,)."""

    def unit(seed: int) -> Vector:
        row = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
        return np.asarray(row / np.linalg.norm(row), dtype=np.float32)

    return st.integers(0, 2**32 - 1).map(unit)


def items(dimension: int | None = None) -> st.SearchStrategy[MemoryItem]:
    """Make items, with or without an embedding of `dimension` numbers; None makes none."""
    return st.builds(
        MemoryItem,
        content_summary=TEXTS,
        id=NAMES,
        metadata=METADATA,
        embedding=st.none() if dimension is None else st.none() | vectors(dimension),
        created_at=TIMES,
        input_snapshot=st.none() | SNAPSHOTS,
        output_snapshot=st.none() | SNAPSHOTS,
        scope=SCOPES,
        provenance=_PROVENANCES,
        event_time=st.none() | TIMES,
        trust=st.floats(min_value=0, max_value=1),
    )


def messages(ids: st.SearchStrategy[str] = NAMES) -> st.SearchStrategy[Message]:
    """Make messages of every class, with ids from a strategy."""
    shared = {
        "content": TEXTS,
        "id": ids,
        "blocks": st.lists(_MESSAGE_BLOCKS, max_size=2),
        "source": _OPTIONAL_NAMES,
        "created_at": TIMES,
        "metadata": METADATA,
        "cause_by": _OPTIONAL_NAMES,
        "send_to": st.sets(NAMES, max_size=3),
        "instruct_content": st.none() | st.builds(PayloadData, name=_KEYS, value=JSON_VALUES),
    }
    plain = st.builds(Message, role=st.sampled_from(Role), **shared)
    return st.one_of(
        plain, *(st.builds(made, **shared) for made in (UserMessage, SystemMessage, AIMessage, ToolMessage))
    )
