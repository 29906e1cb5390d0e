"""Results of a memory's operations, typed so that no failure is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import StrEnum
from html import escape
from itertools import islice
from typing import Final

from pydantic import JsonValue

from devmem.errors import Finding, Level
from devmem.model.border import clean_fields
from devmem.model.caller import Caller, Turn
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, described


class WriteStatus(StrEnum):
    """Result of storing an item."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    """The same content is stored already."""
    SUPERSEDED = "superseded"
    """Stored, replacing an older item."""
    SKIPPED = "skipped"
    """Not stored, on purpose."""
    QUARANTINED = "quarantined"
    """Kept where no search finds it, because the store's guard caught it; the reason says why."""
    QUEUED = "queued"
    """Kept durably in the store's outbox and delivered later, because the place behind it failed; not found until
    then."""


ERASED_BEFORE: Final = "it was erased, and a tombstone keeps it out; `devmem forget --lift` removes tombstones"
"""Reason of an item that is skipped because of a tombstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """Result of storing one item, with its reason."""

    status: WriteStatus
    item_id: str | None = None
    """The item that now holds the content; None when nothing does."""
    replaced: str | None = None
    """Content hash of the older version, when the status is `superseded`."""
    reason: str = ""
    """Reason why an item was skipped, or a remark on the write, for people."""
    waiting: bool = False
    """The item is stored and found by its text, but its embedding is pending."""
    failure: Exception | None = None
    """The failure that the store handled itself; the caller must not write the payload again."""

    def __bool__(self) -> bool:
        """Return whether this write brought the item into the store, or into its outbox.

        A duplicate, what was skipped, and what is in quarantine are not.
        """
        return self.status not in (WriteStatus.DUPLICATE, WriteStatus.SKIPPED, WriteStatus.QUARANTINED)

    @property
    def erased_before(self) -> bool:
        """Whether the item was not stored because of a tombstone."""
        return self.status is WriteStatus.SKIPPED and self.reason == ERASED_BEFORE


NOT_ARCHIVED: Final = WriteOutcome(status=WriteStatus.SKIPPED, reason="no archived item with this id is visible here")
"""Outcome of restoring an item that is not archived."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Hit:
    """An item that a search returned, with every signal that ranked it; None means that the signal does not apply."""

    item: MemoryItem
    score: float
    """Score by which hits are ordered, larger is better; comparable within one store."""
    similarity: float | None = None
    """Cosine of the query's and the item's embedding, from -1 to 1."""
    lexical: float | None = None
    """BM25 of the query's words in the item's text, 0 when none occurs."""
    recency: float | None = None
    """From 0 (old) to 1 (now), where a ranking uses the time."""
    rerank: float | None = None
    """Score of the reranker, where one read the hit."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Contribution of each feature to the search's score, by name; empty where the score is not a sum. A reranker's
    score replaces the sum."""
    passage: str | None = None
    """The passage of a long item that was found, where the summary does not have it."""
    field: str | None = None
    """Path of the indexed field that was found, such as `chapters[2].content`; None for the item's own text."""
    same_as: tuple[str, ...] = ()
    """Ids of the other items that were found and left out because they say the same on the same day."""
    stale: str = ""
    """Why the item may no longer hold: what it was derived from changed or is gone; empty where nothing says so."""
    store: str = ""
    """Name of the store that found it."""

    @property
    def id(self) -> str:
        """Id of the item."""
        return self.item.id

    @property
    def text(self) -> str:
        """The whole text of the item."""
        return self.item.text

    @property
    def user(self) -> str | None:
        """The user that the item belongs to; None where it is unscoped."""
        return self.item.user

    @property
    def time(self) -> datetime:
        """When it happened, where that is known, else when it was stored; UTC."""
        return self.item.time

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """The metadata of the item."""
        return self.item.metadata

    @property
    def role(self) -> str | None:
        """Role of the message that was added; None when it was a text."""
        return self.item.role

    @property
    def snippet(self) -> str:
        """Text that an agent is shown: the summary, dated where the day is known, and the passage that was found.

        Lines of the passage are indented, so that none passes for a line of the summary.
        """
        shown = self.item.dated_summary()
        return shown if self.passage is None else f"{shown}\n… " + "\n  ".join(self.found().splitlines())

    def found(self) -> str:
        """Return the passage that was found, after the name of its field where it is of one; empty without any."""
        return f"{self.field}: {self.passage}" if self.field and self.passage else self.passage or ""

    def __repr__(self) -> str:
        return f"<Hit {self.score:.3f} {described(self.item)}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class HitGroup:
    """Hits of one conversation of an agent and a user."""

    conversation: str | None
    session: str | None
    agent: str | None
    user: str | None
    hits: tuple[Hit, ...]
    """Best first; there is at least one."""
    score: float
    """Score by which groups are ordered, larger is better."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Contribution of each feature to the score, by name; empty where the score is that of the best hit."""

    @classmethod
    def of(cls, hits: Sequence[Hit], score: float, parts: Mapping[str, float] | None = None) -> HitGroup:
        """Return the group of hits of one conversation, best first."""
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


class RejectReason(StrEnum):
    """Reason why a candidate is not among the hits."""

    THRESHOLD = "less similar than the threshold"
    RELEVANCE = "less relevant than wanted"
    NEAR_DUPLICATE = "says the same as a better hit"
    DIVERSITY = "too much like the hits that were chosen"
    LIMIT = "beyond the number that was asked for"
    RERANKER = "the reranker put others before it"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedCandidate:
    """A candidate that is not among the hits."""

    item_id: str
    reason: RejectReason
    score: float | None = None
    """As a hit's; None for a candidate that was cut before it was scored."""
    similarity: float | None = None
    like: str | None = None
    """Id of the hit that it duplicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """Hits of a search, best first, and how they were found; iterating it yields the hits."""

    hits: tuple[Hit, ...] = ()
    cut: tuple[RejectedCandidate, ...] = ()
    """The best of the candidates that were cut."""
    candidates: int = 0
    """Items that shared words or meaning with the query."""
    reranked: int = 0
    """Number of items compared token by token, or read by a reranker."""
    filtered: int = 0
    """Number of items within the filter's scope that the rest of it left out: trust, time, source and metadata."""
    query_cut: int = 0
    """Number of characters at the end of the query that were not searched for, because it is too long."""
    asked: str | None = None
    """The sentences of the query that ask something, where its others count little; None where all count alike."""
    corrected: Mapping[str, str] = field(default_factory=dict)
    """Misspelled words of the query, each with the word that was searched for in its place."""
    period: tuple[float, float] | None = None
    """Period that the query names, start and end in seconds since the epoch."""
    best_similarity: float | None = None
    """Highest cosine of the query and an item that the filter admits; None without vectors."""
    best_score: float | None = None
    """Highest score by words, meaning and context, whatever ranked the hits; None where the score is no such sum."""
    asks_for_period: bool = False
    """Whether the query asks for a time or a session and nothing else."""
    stage_ms: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Milliseconds of each stage, in order."""
    failure: str = ""
    """Failure of the reranker; the hits keep the order of the search then."""

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]

    @classmethod
    def of(cls, hits: Iterable[Hit]) -> SearchReport:
        """Report hits, best first, that were the only candidates."""
        found = tuple(hits)
        return cls(hits=found, candidates=len(found))


@dataclass(frozen=True, slots=True)
class MemoryWritePayload:
    """Input and output of a finished node, for the stores that it writes to."""

    agent_role: str = ""
    """The agent's system prompt; kept with the item, not searched."""
    inputs_text: str = ""
    """Text of the user or of the previous nodes."""
    input_snapshot: MemoryContentSnapshot | None = None
    output_snapshot: MemoryContentSnapshot | None = None
    _: KW_ONLY
    turns: tuple[Turn, ...] | None = None
    """`inputs_text` by its speakers, in order; None reads them from DevAll's frames in it, which anybody may have
    written."""
    scope: Scope = field(default_factory=Scope)
    source: str = ""
    """Node, tool or user that the content comes from."""
    caller: Caller = field(default_factory=Caller)
    """The agent that writes."""
    event_time: float | None = None
    """When it happened: seconds since the epoch, UTC; None means now."""
    expires_at: float | None = None
    """See `MemoryItem.expires_at`; None leaves it to the store."""
    trust: float = 1.0
    """From 0 to 1, see `MemoryItem.trust`."""
    quoted: bool = False
    """Whether the output only quotes what was recalled, as the chat provider says; a summary may leave it out."""
    metadata: dict[str, JsonValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clean_fields(self, "agent_role", "inputs_text", "source", "metadata")

    def output_text(self) -> str:
        """Return the output's text; empty when there is none."""
        return self.output_snapshot.text if self.output_snapshot else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailure:
    """Failure of one store, or of an embedding model; the other stores are not affected."""

    store: str = ""
    """Name of the store; empty when an embedding model failed, which several stores may share."""
    model: str = ""
    """Name of the embedding model that failed; its stores were searched by text alone."""
    operation: str
    """`retrieve`, `update`, `save` or `embed the query`."""
    error: Exception

    def __str__(self) -> str:
        who = f"embedding model {self.model!r}" if self.model else f"memory store {self.store!r}"
        return f"{who} could not {self.operation}: {self.error}"


class CutReason(StrEnum):
    """Reason why a hit is not shown to the agent."""

    DUPLICATE = "the same content is shown already"
    BUDGET = "the token budget was used up"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutHit:
    """A hit that was found but is not shown, and why."""

    hit: Hit
    reason: CutReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRetrievalResult:
    """Hits of a node's attachments at one stage."""

    formatted_text: str
    """The block to put before the agent; empty when there is nothing to show."""
    hits: tuple[Hit, ...] = ()
    """Hits in the block, in its order."""
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
        """Whether an item carries more than text."""
        return any(snapshot.has_multimodal() for snapshot in self._snapshots())

    def attachment_overview(self) -> list[dict[str, JsonValue]]:
        """List the attachments of all items without their bytes."""
        return [entry for snapshot in self._snapshots() for entry in snapshot.attachment_overview()]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWrite:
    """Result of writing a payload to one store."""

    store: str
    outcome: WriteOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUpdateResult:
    """Results of writing a payload to a node's attachments."""

    writes: tuple[StoreWrite, ...] = ()
    failures: tuple[StoreFailure, ...] = ()


Fact = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """Result of examining one file, or one folder, that a memory keeps."""

    path: str
    kind: str
    """Kind of file in words, as `outbox` or `index of files`."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Counts and recorded properties."""
    findings: Sequence[Finding] = ()
    """An error is damage or loss; a warning is work that waits, and that the next use of the store finishes."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged or lost."""
        return all(finding.level is not Level.ERROR for finding in self.findings)


def damage(message: str) -> Finding:
    """Return the finding of something that is damaged or lost."""
    return Finding(message=message)


def unfinished(message: str) -> Finding:
    """Return the finding of work that waits."""
    return Finding(message=message, level=Level.WARNING)


def refused_embeddings(reasons: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings of items whose text the embedding model refuses, of at most 20 by id."""
    for item_id, reason in islice(reasons.items(), _NAMED):
        yield unfinished(
            f"item {item_id} has no embedding, as its text was refused: {reason}. `devmem reindex` tries it again"
        )
    if len(reasons) > _NAMED:
        yield unfinished(f"and {len(reasons) - _NAMED:,} more items whose text was refused")


_NAMED: Final = 20


def html_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return an HTML table; every cell is escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
