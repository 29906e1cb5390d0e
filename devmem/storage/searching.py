"""Searching a collection: what every collection does with a `SearchPipeline` and its hits."""

from __future__ import annotations

import hashlib
import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, runtime_checkable
from uuid import uuid4

import numpy as np
from pydantic import ValidationError

from devmem.config.store import IndexConfig
from devmem.errors import CollectionInUseError, EmbeddingMismatchError
from devmem.model.fields import embedded_hash
from devmem.model.items import MemoryItem, Scope, Vector, dump_item_json, load_item_json
from devmem.model.results import Hit, HitGroup, SearchReport
from devmem.models.embedder import ModelIdentity
from devmem.search.indexes.columns import locked
from devmem.search.indexes.index_set import IndexReader, IndexSet
from devmem.search.pipeline import SearchPipeline
from devmem.search.query import Filter, SearchQuery
from devmem.storage.protocol import PreparedItem
from devmem.text.cues import cues_of

T = TypeVar("T")

MISSING: Final = MemoryItem(id="", content_summary="", created_at=0.0)
"""Stands for a row that is damaged or not there, while a search ranks it."""


class SearchingCollection(ABC):
    """The searching methods of `Collection`, on a source that a subclass opens for each search."""

    @abstractmethod
    def _now(self) -> float:
        """Return the current time in seconds since the epoch."""

    @abstractmethod
    def _search(self, query: SearchQuery, run: Callable[[SearchPipeline], T]) -> T:
        """Run a search on indexes that are up to date."""

    @abstractmethod
    def _with_attachments(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items, in their order, with their attachments as they are read."""

    def find(self, query: SearchQuery) -> SearchReport:
        """Return the best items, best first, and how they were found."""
        if not _ranks(query):
            return SearchReport()
        report = self._search(query, lambda pipeline: pipeline.run())
        return replace(
            report,
            hits=self._shown(report.hits, query),
            cut=tuple(each for each in report.cut if each.item_id != MISSING.id),
        )

    def search(self, query: SearchQuery) -> list[Hit]:
        """Return the hits of `find` alone."""
        return list(self.find(query).hits)

    def conversations(self, query: SearchQuery, *, hits_each: int = 3) -> list[HitGroup]:
        """Return the conversations that the query is about, best first, each with its best items."""
        if hits_each < 1 or not _ranks(query):
            return []
        groups = self._search(query, lambda pipeline: pipeline.conversations(hits_each))
        shown = (replace(group, hits=self._shown(group.hits, query)) for group in groups)
        return [group for group in shown if group.hits]

    def _shown(self, hits: Sequence[Hit], query: SearchQuery) -> tuple[Hit, ...]:
        """Return the hits with their attachments, without damaged rows.

        Where a column is damaged, the item itself does not match the filter.
        """
        admits = query.where.matcher(self._now())
        intact = [hit for hit in hits if hit.item is not MISSING and admits(hit.item)]
        items = self._with_attachments([hit.item for hit in intact])
        # Most items have no attachments and are the hits' own.
        pairs = zip(intact, items, strict=True)
        return tuple(hit if item is hit.item else replace(hit, item=item) for hit, item in pairs)


def _ranks(query: SearchQuery) -> bool:
    """Whether a query has anything to rank by."""
    return query.limit > 0 and (query.vector is not None or bool(query.text.strip()))


Connection = TypeVar("Connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """One moment of the database."""

    indexes: IndexReader
    model: str | None
    """Name of the model that made the embeddings."""
    generation: int
    """Grows when all embeddings are replaced, which keep the numbers of their passages."""


class Follower(ABC, Generic[Connection]):
    """Keeps an `IndexSet` up to date with a database. Thread-safe."""

    def __init__(self, config: IndexConfig | None) -> None:
        """Start empty; `config` says how vectors are searched, None takes the defaults."""
        self._lock = threading.Lock()
        self._config = config
        self.indexes = IndexSet(config)
        """Only to be changed or read while no other thread follows."""
        self._moment: ReadSnapshot | None = None
        """None as long as the indexes are not those of the database."""
        self._generation = 0
        """Generation of the database that the indexes are of."""

    @abstractmethod
    def _poll(self, connection: Connection) -> bool:
        """Whether the database may have changed since the moment; the first statement of a transaction."""

    @abstractmethod
    def _catch_up(self, connection: Connection, now: float) -> str | None:
        """Apply what was committed since the moment, or begin again where `_moment` is None; return the model's name.

        `now` is in seconds since the epoch.
        """

    def _is_untouched(self, error: BaseException) -> bool:  # noqa: ARG002 - of a subclass
        """Whether the indexes are those of the moment after an error; False where that is not known."""
        return False

    def follow(self, connection: Connection, now: float) -> ReadSnapshot:
        """Bring the indexes up to date with the connection's read transaction, and return them as of that moment.

        This has to be the first statement of the transaction: it fixes the moment that the transaction reads while no
        other thread can bring the indexes further.

        Args:
            connection: in a transaction.
            now: items that expired until then are not in the indexes; seconds since the epoch.
        """
        return locked(self._lock, lambda: self._follow(connection, now))

    def _follow(self, connection: Connection, now: float) -> ReadSnapshot:
        try:
            if self._moment is not None and now < self.indexes.expired_until:
                # The clock went back: items that had expired are there again.
                self._moment = None
            if self._poll(connection) or self._moment is None:
                model = self._catch_up(connection, now)
            else:
                model = self._moment.model
            self.indexes.expire(now)
        except BaseException as error:
            # What was applied in part would be applied twice: the next call starts again.
            if not self._is_untouched(error):
                self._moment = None
            raise
        self._moment = ReadSnapshot(indexes=self.indexes.reader(), model=model, generation=self._generation)
        return self._moment


def check_name(location: str, *, made: str | int | None, given: str | None) -> None:
    """Refuse another model than the one that is recorded now.

    While a collection is open another process may have embedded it with another model.
    """
    if made is not None and given is not None and made != given:
        raise EmbeddingMismatchError(location, recorded=str(made), wanted=given)


def check_length(location: str, *, made: int, given: int) -> None:
    """Refuse an embedding of another length than those in the collection."""
    if given != made:
        raise EmbeddingMismatchError(
            location, recorded=f"a model of {made} dimensions", wanted=f"one of {given} dimensions", same_name=True
        )


def is_replaceable(model: ModelIdentity | None, *, recorded: str | None, dimension: int | None) -> bool:
    """Whether the recorded model has made no vector yet, of which the first sets the dimension, and another is wanted.

    So it is where a package or a file of the first model was missing.
    """
    return model is not None and recorded is not None and dimension is None and recorded != model.name


def check_model(location: str, model: ModelIdentity, *, recorded: str, dimension: int | None) -> None:
    """Refuse to open a collection with another model than the recorded one."""
    if recorded != model.name or (model.dimension and dimension and model.dimension != dimension):
        raise EmbeddingMismatchError(
            location,
            recorded=f"{recorded} ({dimension or 'unknown'} dimensions)",
            wanted=f"{model.name} ({model.dimension or 'unknown'} dimensions)",
            same_name=recorded == model.name,
        )


def check_store_type(location: str, *, owner: str | None, wanted: str | None) -> None:
    """Refuse to open the collection of another store type."""
    if wanted and owner and owner != wanted:
        raise CollectionInUseError(
            location, f"holds the items of a {owner!r} store; give the {wanted!r} store another path."
        )


@runtime_checkable
class UnlabelledEmbeddings(Protocol):
    """A collection that keeps embeddings of an unknown model aside: who has the model settles whether it made them."""

    location: str

    def unlabelled(self) -> list[MemoryItem]:
        """Return the items whose embedding names no model and was not settled, with that embedding."""
        ...

    def settle_unlabelled(self, items: Sequence[MemoryItem], *, same_model: bool) -> None:
        """Search by the embeddings of `unlabelled` items from now on, or keep them in the file alone.

        It writes nothing. The next write labels those of the same model.
        """
        ...

    def kept_vectors(self) -> int:
        """Return the number of embeddings that stand in the file, but are not known to be of the collection's model."""
        ...


MOST_EXPORTS: Final = 1_000
"""Maximum number of exports that are remembered, the latest ones."""
_MOST_IDS: Final = 100
_FOREVER: Final = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRecord:
    """An export or a backup that was made."""

    kind: Literal["export", "backup"]
    place: str
    """Path of the file; empty where it was printed."""
    made_at: float
    """Seconds since the epoch, as all times here."""
    items: int
    """Number of items."""
    scope: Scope = field(default_factory=Scope)
    """Scope that the items were selected by, as salted hashes: it outlives a user who is forgotten."""
    after: float | None = None
    before: float | None = None
    """End of the time that they were selected by, as `Filter` has it."""
    ids: tuple[str, ...] = ()
    """Ids that they were selected by, hashed too; empty where there were none, or too many to record."""
    salt: str = ""
    """Salt of the hashes."""

    @classmethod
    def of_selection(cls, place: str, *, made_at: float, items: int, where: Filter, ids: Sequence[str] = ()) -> Self:
        """Return the record of an export of the items that have some ids, if there are any, and match a filter."""
        salt = uuid4().hex
        return cls(
            kind="export",
            place=place,
            made_at=made_at,
            items=items,
            scope=_hashed_scope(where.scope, salt),
            after=where.after,
            before=where.before,
            ids=tuple(_hashed(each, salt) for each in ids) if len(ids) <= _MOST_IDS else (),
            salt=salt,
        )

    def may_hold(self, item: MemoryItem) -> bool:
        """Whether an item may be in it, as far as its scope and its times tell."""
        if item.created_at > self.made_at or (self.ids and _hashed(item.id, self.salt) not in self.ids):
            return False
        if self.scope != Scope() and not self.scope.admits(_hashed_scope(item.scope, self.salt)):
            return False
        return Filter(after=self.after, before=self.before).admits(item, _FOREVER)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; what does not apply is left out."""
        form = {key: value for key, value in asdict(self).items() if value not in (None, ()) and key != "scope"}
        scope = {key: value for key, value in asdict(self.scope).items() if value is not None}
        return {**form, **({"scope": scope} if scope else {})}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """Read the JSON form.

        Raises:
            TypeError: it is none.
        """
        return cls(**{**raw, "scope": Scope(**raw.get("scope", {})), "ids": tuple(raw.get("ids", ()))})


def _hashed(value: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}{value}".encode("utf-8", "surrogatepass")).hexdigest()


def _hashed_scope(scope: Scope, salt: str) -> Scope:
    return Scope(**{part: None if value is None else _hashed(value, salt) for part, value in asdict(scope).items()})


@runtime_checkable
class ExportLog(Protocol):
    """A collection that remembers its exports."""

    def record_export(self, export: ExportRecord) -> None:
        """Remember an export, durably."""
        ...

    def exports(self) -> list[ExportRecord]:
        """Return the exports that were made, the oldest first."""
        ...


COLUMNS: Final = (
    *("id", "content_hash", "created_at", "event_time", "expires_at", "trust", "importance"),
    *("agent", "user", "session", "conversation", "trace", "run"),
    *("source_kind", "source_name", "speaker", "cues", "length"),
)
_FIELDS: Final = '"indexed_fields":'
"""Part of the body of every item with fields."""
TextForm: TypeAlias = Callable[[str | None], str | None]
"""Returns the form in which a database's columns can hold a text; different texts have different ones."""


def item_columns(prepared: PreparedItem, text: TextForm) -> tuple[str | float | int | None, ...]:
    """Return the columns of `COLUMNS`, which searches and filters read; `text` is the database's form of a text."""
    item = prepared.item
    scope = item.scope
    return (
        text(item.id),
        item.content_hash,
        _number(item.created_at),
        None if item.event_time is None else _number(item.event_time),
        None if item.expires_at is None else _number(item.expires_at),
        _number(item.trust),
        _importance(item),
        text(scope.agent),
        text(scope.user),
        text(scope.session),
        text(scope.conversation),
        text(scope.trace),
        text(scope.run),
        item.provenance.kind.value,
        text(item.provenance.name),
        _speaker(item, text),
        int(cues_of(item.content_summary)),
        prepared.length(),
    )


def stored_hash(content_hash: str, body: str | bytes) -> str:
    """Return the `embedded_hash` of a stored item, given the hash of its content; only one with fields is read."""
    named = _FIELDS in body if isinstance(body, str) else _FIELDS.encode() in body
    try:
        return embedded_hash(load_item_json(body)) if named else content_hash
    except (ValueError, RecursionError):
        # A damaged row, which no embedding is asked of.
        return content_hash


def _speaker(item: MemoryItem, text: TextForm) -> str | None:
    found = item.metadata.get("speaker")
    return text(found) if isinstance(found, str) and found else None


def _importance(item: MemoryItem) -> float | None:
    found = item.metadata.get("importance")
    if isinstance(found, bool) or not isinstance(found, int | float) or _is_not_finite(found):
        return None
    # An integer may be too large for a float.
    return _number(min(max(found, 0), 1))


def _number(value: float) -> float:
    """Return a number as SQLite gives it back, which has no negative zero."""
    return float(value) + 0.0


def check_item(item: MemoryItem) -> None:
    """Refuse an item whose fields do not fit their columns; `dump_item_json` refuses what has no JSON form.

    Raises:
        ValueError: it names the item and the field.
    """
    named = {"id": item.id, **{part.name: getattr(item.scope, part.name) for part in fields(Scope)}}
    for name, value in named.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"item {item.id!r} cannot be stored: its `{name}` is {value!r}, not a string")
    for name in ("created_at", "event_time", "expires_at", "trust"):
        if _is_not_finite(value := getattr(item, name)):
            shown = value if isinstance(value, float) else "too large a number"
            raise ValueError(f"item {item.id!r} cannot be stored: its `{name}` is {shown}")


def _is_not_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not math.isfinite(value)
    except OverflowError:
        return True


MOST_LEVELS: Final = 190
"""Maximum depth of an item's JSON form; the parser stops at 200, and exports enclose items in other values."""
MOST_DIGITS: Final = 4300
"""Maximum number of digits of an integer, both in the parser of item bodies and in that of Python."""


def item_body(item: MemoryItem) -> bytes:
    """Return the JSON form in which an item is stored, which can be read again.

    Raises:
        ValueError: it could not: it is nested too deeply, a number has too many digits, or a value is of no JSON type.
    """
    body = dump_item_json(item)
    # Of a short body with few brackets this is known without reading it.
    if len(body) <= MOST_DIGITS and body.count(b"{") + body.count(b"[") <= MOST_LEVELS:
        return body
    try:
        load_item_json(body)
        _check_depth(body)
    except (ValueError, RecursionError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ValueError(
            f"item {item.id!r} cannot be stored, as it could not be read again: {reason}. Metadata and blocks may be "
            f"nested {MOST_LEVELS - 2} levels deep, and integers may have {MOST_DIGITS} digits."
        ) from error
    return body


def _check_depth(body: bytes) -> None:
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MOST_LEVELS:
            raise ValueError("its values are nested too deeply")


def vector_bytes(vector: Vector) -> bytes:
    """Return a vector as the database stores it: float32, little-endian."""
    return np.asarray(vector, dtype="<f4").tobytes()


def vector_from(raw: bytes) -> Vector:
    """Return the vector of stored bytes."""
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)
