"""What the operations of a memory return: typed answers that hide no failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pydantic import JsonValue

from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope


class WriteStatus(StrEnum):
    """What became of an item that was to be stored."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    """The same content is there already."""
    SUPERSEDED = "superseded"
    """Stored in the place of an older item."""
    SKIPPED = "skipped"
    """Not stored, on purpose."""
    QUEUED = "queued"
    """Kept durably by the store and sent on later, because the service behind it failed; not found until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """What became of one item."""

    status: WriteStatus
    item_id: str | None = None
    """The item that now holds the content; None when nothing does."""
    replaced: str | None = None
    """Content hash of the older version, when the status is `superseded`."""
    reason: str = ""
    """Why an item was skipped, or what a person should know about the write."""
    waiting: bool = False
    """The item is stored and found by its text, but its embedding is still to be made."""
    failure: Exception | None = None
    """What went wrong, where the store dealt with it itself: nobody needs to write the payload again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item that a search returned, with every signal that ranked it; None means that the signal does not apply."""

    item: MemoryItem
    score: float
    """What the hits are ordered by, larger is better; comparable within one store."""
    similarity: float | None = None
    """Cosine of the query's and the item's embedding, from -1 to 1."""
    lexical: float | None = None
    """BM25 of the query's words in the item's text, 0 when none occurs."""
    recency: float | None = None
    """From 0 (old) to 1 (now), where a ranking uses the time."""
    rerank: float | None = None
    """Score of the second look that a ranking took at the best candidates."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What each kind of evidence added to the search's score, by name; empty where that is not a sum. A reranker's
    score takes the place of the sum."""
    passage: str | None = None
    """The passage of a long item that was found, where the summary does not have it."""
    store: str = ""
    """Name of the store that found it."""

    def text(self) -> str:
        """Give what is shown of the item: its summary, led by the day, and the passage that was found."""
        shown = self.item.dated_summary()
        return shown if self.passage is None else f"{shown}\n… {self.passage}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HitGroup:
    """What was found of one conversation, as one agent and one user have it."""

    conversation: str | None
    session: str | None
    agent: str | None
    user: str | None
    hits: tuple[Hit, ...]
    """Best first; there is at least one."""
    score: float
    """What the groups are ordered by, larger is better."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What each kind of evidence added to the score, by name; empty where the score is that of the best hit."""

    @classmethod
    def of(cls, hits: Sequence[Hit], score: float, parts: Mapping[str, float] | None = None) -> HitGroup:
        """Make the group of some hits of one conversation, best first."""
        scope = hits[0].item.scope
        return cls(
            conversation=scope.conversation,
            session=scope.session,
            agent=scope.agent,
            user=scope.user,
            hits=tuple(hits),
            score=score,
            parts=parts or {},
        )


class CandidateCut(StrEnum):
    """Why an item that a search looked at is not among its hits."""

    THRESHOLD = "less similar than the threshold"
    NEAR_DUPLICATE = "says the same as a better hit"
    DIVERSITY = "too much like the hits that were chosen"
    LIMIT = "beyond the number that was asked for"
    RERANKER = "the reranker put others before it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutCandidate:
    """An item that a search looked at and did not give."""

    item_id: str
    reason: CandidateCut
    score: float | None = None
    """As a hit's; None for what was cut before it was scored."""
    similarity: float | None = None
    like: str | None = None
    """Id of the hit that says the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """What a search found, and how it came to it."""

    hits: tuple[Hit, ...] = ()
    cut: tuple[CutCandidate, ...] = ()
    """Of what was cut, those that came nearest."""
    candidates: int = 0
    """Items that shared words or meaning with the query."""
    reranked: int = 0
    """Items that were looked at token by token, or read by a reranker."""
    filtered: int = 0
    """Items that the filter left out before the search."""
    period: tuple[float, float] | None = None
    """The time that the query names, from and until: seconds since the epoch."""
    stage_ms: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds of each stage, in order."""
    failure: str = ""
    """What a reranker could not do; the hits are as the search ranked them then."""

    @classmethod
    def of(cls, hits: Iterable[Hit]) -> SearchReport:
        """Report hits, best first, that were the only candidates."""
        found = tuple(hits)
        return cls(hits=found, candidates=len(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWritePayload:
    """What a finished node gives to the stores it writes to."""

    agent_role: str = ""
    """The agent's name or system prompt; kept with the item, not searched."""
    inputs_text: str = ""
    """What the user or the previous nodes said."""
    input_snapshot: MemoryContentSnapshot | None = None
    output_snapshot: MemoryContentSnapshot | None = None
    scope: Scope = field(default_factory=Scope)
    source: str = ""
    """Node, tool or user that the content comes from."""
    event_time: float | None = None
    """When it happened: seconds since the epoch, UTC; None means now."""
    trust: float = 1.0
    """From 0 to 1, see `MemoryItem.trust`."""
    quoted: bool = False
    """The output only quotes what was recalled."""
    metadata: dict[str, JsonValue] = field(default_factory=dict)

    def output_text(self) -> str:
        """Give the output's text; empty when there is none."""
        return self.output_snapshot.text if self.output_snapshot else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailure:
    """A store that could not do its part; the others did theirs."""

    store: str
    operation: str
    """`retrieve`, `update`, `save` or `embed the query`; at the last one, `store` is the embedding model's name."""
    error: Exception

    def __str__(self) -> str:
        return f"memory store {self.store!r} could not {self.operation}: {self.error}"


class CutReason(StrEnum):
    """Why a hit was left out of what an agent is shown."""

    DUPLICATE = "the same content is shown already"
    BUDGET = "the token budget was used up"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutHit:
    """A hit that was found but is not shown, and why."""

    hit: Hit
    reason: CutReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRetrievalResult:
    """What a node's attachments found at one stage."""

    formatted_text: str
    """The block to put before the agent; empty when there is nothing to show."""
    hits: tuple[Hit, ...] = ()
    """What the block shows, in its order."""
    cut: tuple[CutHit, ...] = ()
    failures: tuple[StoreFailure, ...] = ()

    @property
    def items(self) -> list[MemoryItem]:
        """The items that the block shows, in its order."""
        return [hit.item for hit in self.hits]

    def _snapshots(self) -> Iterator[MemoryContentSnapshot]:
        for item in self.items:
            yield from (snapshot for snapshot in (item.input_snapshot, item.output_snapshot) if snapshot is not None)

    def has_multimodal(self) -> bool:
        """Say whether an item carries more than text."""
        return any(snapshot.has_multimodal() for snapshot in self._snapshots())

    def attachment_overview(self) -> list[dict[str, JsonValue]]:
        """List the attachments of all items without their bytes."""
        return [entry for snapshot in self._snapshots() for entry in snapshot.attachment_overview()]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWrite:
    """What one store did with a payload."""

    store: str
    outcome: WriteOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUpdateResult:
    """What a node's attachments did with a payload."""

    writes: tuple[StoreWrite, ...] = ()
    failures: tuple[StoreFailure, ...] = ()


def from_store(hit: Hit, store: str) -> Hit:
    """Give the hit with the name of the store that found it."""
    return replace(hit, store=store)
