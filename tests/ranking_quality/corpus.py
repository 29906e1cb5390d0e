"""A small corpus of our own: conversations, questions about them, and the turns that answer each question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from devmem import MemoryItem, Scope
from devmem.models import TokenEmbedder, TokenEmbedding
from devmem.storage import Collection, PreparedItem, Ranking, SearchQuery, open_collection
from devmem.stores import EmbeddingConfig, embed_items, open_embedder

_HERE: Final = Path(__file__).parent
ASKED_AT: Final = datetime(2025, 7, 28, 12, tzinfo=UTC)
CANDIDATES: Final = 10
"""By each signal: few, so that what is around the best candidates is not a candidate anyway."""
_MODEL: Final = EmbeddingConfig(provider="minilm")
_READABLE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the turns or conversations that answer it."""

    text: str
    evidence: frozenset[str]
    """Names of turns (`shed/3`), or of conversations where these are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Questions that one signal of the ranking decides."""

    name: str
    corpus: str
    """File of the conversations."""
    floor: float
    """Least mean nDCG@5."""
    conversations: bool
    """Conversations are ranked, not turns."""
    ranking: Ranking
    waiting: frozenset[str]
    """Turns that have no embedding yet."""
    questions: tuple[Question, ...]


@cache
def turns(corpus: str = "conversations") -> tuple[MemoryItem, ...]:
    """Return every turn as an item; its id is that of its conversation and its place there, from 0."""
    made: list[MemoryItem] = []
    for talk in _read(f"{corpus}.yaml"):
        start = datetime.combine(talk["day"], datetime.min.time(), UTC) + timedelta(hours=9)
        for place, (speaker, text) in enumerate(talk["turns"]):
            said_at = (start + timedelta(minutes=place)).timestamp()
            made.append(
                MemoryItem(
                    id=f"{talk['id']}/{place}",
                    content_summary=text,
                    metadata={"speaker": speaker},
                    created_at=said_at,
                    event_time=said_at,
                    scope=Scope(conversation=talk["id"]),
                )
            )
    return tuple(made)


def signals() -> list[Signal]:
    """Return the questions, by the signal that decides them."""
    return [
        Signal(
            name=name,
            corpus=entry.get("corpus", "conversations"),
            floor=entry["floor"],
            conversations=entry.get("conversations", False),
            ranking=Ranking(**entry.get("ranking", {})),
            waiting=frozenset(entry.get("waiting", ())),
            questions=tuple(
                Question(text=text, evidence=frozenset(evidence)) for text, evidence in entry["questions"].items()
            ),
        )
        for name, entry in _read("questions.yaml").items()
    ]


def opened(corpus: str = "conversations", *, waiting: frozenset[str] = frozenset()) -> Collection:
    """Open a collection of a corpus's turns in memory; those in `waiting` have no embedding yet."""
    embedder = open_embedder(_MODEL)
    collection = open_collection(None, model=embedder.identity)
    collection.add([each.item if each.item.id in waiting else each for each in _embedded_turns(corpus)])
    return collection


def query(text: str, ranking: Ranking, limit: int = 10) -> SearchQuery:
    """Ask as a store asks: a question that the model cannot read is searched by its words."""
    tokens = _embedded(text)
    readable = tokens.known >= _READABLE
    return SearchQuery(
        text=text,
        vector=tokens.vector if readable else None,
        tokens=tokens if readable else None,
        limit=limit,
        ranking=ranking,
        candidates=CANDIDATES,
        now=ASKED_AT.timestamp(),
    )


def ndcg(ranked: Sequence[str], evidence: frozenset[str], depth: int = 5) -> float:
    """Return the normalised discounted cumulative gain of the first `depth`, each piece of evidence counting 1."""
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(ranked[:depth]) if name in evidence)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(depth, len(evidence))))


@cache
def _embedded_turns(corpus: str) -> Sequence[PreparedItem]:
    return embed_items(open_embedder(_MODEL), turns(corpus))


@cache
def _embedded(text: str) -> TokenEmbedding:
    embedder = open_embedder(_MODEL)
    assert isinstance(embedder, TokenEmbedder)
    return embedder.embed_tokens([text])[0]


def _read(name: str) -> Any:
    return yaml.safe_load((_HERE / name).read_text(encoding="utf-8"))
