"""A log of what agents were shown: each block of memories, with where each entry of it came from.

It has two tables in the file of a session's state (`devmem.storage.pending`).
The text of an entry is kept apart from its block, so that erasing an item takes it out of every block that showed it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from devmem.encryption.files import connect
from devmem.errors import PoolClosedError, RecallLogError
from devmem.model.caller import Caller, Stage
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope, version_hash
from devmem.model.results import Hit, MemoryRetrievalResult
from devmem.storage.connections import SidecarDb, read_transaction, write_transaction
from devmem.storage.erasure import EraseRequest, Residue, texts_of
from devmem.storage.pending import PENDING_TABLE, STATE_FILE
from devmem.text.analysis import estimate_tokens

Contents = Literal["text", "hash"]
_PRUNED_EVERY: Final = 500
"""Number of recalls after which old ones are deleted again."""
_ENTRY_MARK: Final = "\x00"
"""Line of a frame that stands for an entry; no text of a block has it."""
_ENTRY: Final = re.compile(r"\d+\. ")
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS recalls (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, run TEXT, conversation TEXT, user TEXT,
    node TEXT NOT NULL, agent TEXT NOT NULL, stage TEXT NOT NULL, query TEXT, frame TEXT, sha256 TEXT NOT NULL,
    tokens INTEGER NOT NULL, budget INTEGER, failures TEXT NOT NULL, seconds REAL
);
CREATE INDEX IF NOT EXISTS recalls_run ON recalls (run, id);
CREATE TABLE IF NOT EXISTS entries (
    recall INTEGER NOT NULL REFERENCES recalls (id) ON DELETE CASCADE, position INTEGER NOT NULL,
    store TEXT NOT NULL, item TEXT NOT NULL, version TEXT NOT NULL, about TEXT NOT NULL, text TEXT, cut TEXT,
    PRIMARY KEY (recall, position)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_item ON entries (item);
"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallEntry:
    """An item that a recall showed, or found and left out."""

    store: str
    item: str
    """Id of the item."""
    version: str
    """`version_hash` of the item as it was."""
    score: float
    user: str | None = None
    agent: str | None = None
    source: str = ""
    """Kind of origin and its name, as `tool search`."""
    trust: float = 1.0
    stored_at: float = 0.0
    """Seconds since the epoch."""
    tokens: int = 0
    """Estimated tokens that the entry took of the budget."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Contributions to the score, by name."""
    text: str | None = None
    """The entry as it stood in the block; None where only hashes are kept, where it was left out or is erased."""
    cut: str | None = None
    """Reason why it was left out; None where it was shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A block of memories that an agent received at one stage."""

    at: float
    """Seconds since the epoch."""
    run: str | None
    conversation: str | None
    user: str | None
    node: str
    agent: str
    stage: Stage
    query: str | None
    """Text that was searched for; None where only hashes are kept, or it is erased."""
    block: str | None
    """The block as the agent received it, empty where nothing was found; None where only hashes are kept. An erased
    entry is replaced by `ERASED`."""
    sha256: str
    """Hash of the block as it was received."""
    tokens: int
    """Estimated tokens of the block."""
    budget: int | None
    failures: tuple[str, ...] = ()
    entries: tuple[RecallEntry, ...] = ()
    """Shown ones in the order of the block, then those that were left out."""
    id: int = 0
    """Number in its log."""
    seconds: float | None = None
    """Duration of the search; None where it is not known."""

    @property
    def shown(self) -> tuple[RecallEntry, ...]:
        """The entries of the block."""
        return tuple(entry for entry in self.entries if entry.cut is None)

    @classmethod
    def of(
        cls,
        result: MemoryRetrievalResult | None,
        *,
        at: float,
        stage: Stage,
        caller: Caller,
        query: str,
        run: str | None = None,
        user: str | None = None,
        budget: int | None = None,
        seconds: float | None = None,
    ) -> Recall:
        """Return the recall of a manager's result; None is one that found nothing."""
        found = result or MemoryRetrievalResult(formatted_text="")
        texts = split_block(found.formatted_text)[1] if found.hits else []
        shown = [_entry(hit, text) for hit, text in zip(found.hits, texts, strict=True)]
        return cls(
            at=at,
            run=run,
            conversation=caller.conversation,
            user=user,
            node=caller.node,
            agent=caller.agent,
            stage=stage,
            query=query,
            block=found.formatted_text,
            sha256=hashlib.sha256(found.formatted_text.encode("utf-8", "surrogatepass")).hexdigest(),
            tokens=estimate_tokens(found.formatted_text),
            budget=budget,
            seconds=seconds,
            failures=tuple(map(str, found.failures)),
            entries=(*shown, *(_entry(one.hit, None, one.reason.value) for one in found.cut)),
        )


ERASED: Final = "[erased]"
"""Text in the place of an erased entry."""


def _entry(hit: Hit, text: str | None, cut: str | None = None) -> RecallEntry:
    item = hit.item
    origin = item.provenance
    return RecallEntry(
        store=hit.store,
        item=item.id,
        version=version_hash(item),
        score=hit.score,
        user=item.scope.user,
        agent=item.scope.agent,
        source=f"{origin.kind.value} {origin.name}".strip(),
        trust=item.trust,
        stored_at=item.created_at,
        tokens=0 if text is None else estimate_tokens(text),
        parts=dict(hit.parts),
        text=text,
        cut=cut,
    )


def split_block(block: str) -> tuple[str, list[str]]:
    """Return a block with a mark in the place of each entry, and the entries.

    Only the block's own lines and the first lines of entries stand at the left edge; see `devmem.search.rendering`.
    """
    frame: list[str] = []
    entries: list[str] = []
    for line in block.split("\n"):
        if _ENTRY.match(line):
            entries.append(line)
            frame.append(_ENTRY_MARK)
        elif line.startswith("   ") and entries:
            entries[-1] += f"\n{line}"
        else:
            frame.append(line)
    return "\n".join(frame), entries


def join_block(frame: str, entries: Iterable[str]) -> str:
    """Return the block of a frame and its entries, which is what `split_block` was given."""
    left = iter(entries)
    return "\n".join(next(left) if line == _ENTRY_MARK else line for line in frame.split("\n"))


class RecallLog:
    """The recalls of a session. Thread-safe; several processes may write to one file."""

    def __init__(
        self,
        file: Path,
        *,
        contents: Contents = "text",
        retention: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Name the file, which is made with the first recall.

        Args:
            file: a SQLite file.
            contents: `text` keeps queries and blocks, `hash` their hashes alone; ids, scores and times are kept always.
            retention: seconds after which a recall is deleted; None keeps it.
            clock: returns the seconds since the epoch.
        """
        self.file = file
        self._contents, self._retention, self._clock = contents, retention, clock
        # A recall may be lost with the machine, never with the process.
        self._db = SidecarDb(file, PENDING_TABLE + _SCHEMA, durability="normal")
        self._recorded = 0

    def record(self, recall: Recall) -> int:
        """Store a recall and return its number.

        Raises:
            RecallLogError: it cannot be stored.
        """
        frame = split_block(recall.block or "")[0]
        keeps = self._contents == "text"

        def insert(db: sqlite3.Connection) -> int:
            if self._retention is not None and self._recorded % _PRUNED_EVERY == 0:
                db.execute("DELETE FROM recalls WHERE at < ?", (self._clock() - self._retention,))
            self._recorded += 1
            apart: dict[str, str | None] = {
                "stage": recall.stage.value,
                "query": recall.query if keeps else None,
                "frame": frame if keeps else None,
                "failures": json.dumps(recall.failures if keeps else ()),
            }
            values = [apart[name] if name in apart else getattr(recall, name) for name in _COLUMNS.split(", ")]
            marks = ", ".join("?" * len(values))
            number = db.execute(f"INSERT INTO recalls ({_COLUMNS}) VALUES ({marks})", values).lastrowid or 0
            for at, entry in enumerate(recall.entries):
                about = {key: value for key, value in asdict(entry).items() if key not in _APART}
                text, form = entry.text if keeps else None, json.dumps(about, ensure_ascii=False)
                row = (number, at, entry.store, entry.item, entry.version, form, text, entry.cut)
                db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            return number

        return self._translated(lambda: self._db.run(lambda db: write_transaction(db, insert)))

    def recalls(
        self,
        *,
        run: str | None = None,
        node: str | None = None,
        item: str | None = None,
        text: str | None = None,
        limit: int = 100,
    ) -> list[Recall]:
        """Return the last recalls, oldest first.

        Args:
            run: only those of this run.
            node: only those of this node.
            item: only those that found this item.
            text: only those whose question, or an entry that was shown, has this text in it, in upper or lower case.
            limit: maximum number.

        Raises:
            RecallLogError: the log cannot be read.
        """
        wanted = {
            "run = :run": run,
            "node = :node": node,
            "id IN (SELECT recall FROM entries WHERE item = :item)": item,
            "(instr(lower(query), lower(:text)) > 0"
            " OR id IN (SELECT recall FROM entries WHERE cut IS NULL AND instr(lower(text), lower(:text)) > 0))": text,
        }
        where = " AND ".join(condition for condition, value in wanted.items() if value is not None) or "1"
        query = f"SELECT id, {_COLUMNS} FROM recalls WHERE {where} ORDER BY id DESC LIMIT :limit"
        values = {"run": run, "node": node, "item": item, "text": text, "limit": limit}

        def read(db: sqlite3.Connection) -> list[Recall]:
            return [_recall(db, row) for row in reversed(db.execute(query, values).fetchall())]

        return self._read(read, [])

    def recall(self, number: int) -> Recall | None:
        """Return the recall with a number; None where there is none.

        Raises:
            RecallLogError: the log cannot be read.
        """

        def read(db: sqlite3.Connection) -> Recall | None:
            row = db.execute(f"SELECT id, {_COLUMNS} FROM recalls WHERE id = ?", (number,)).fetchone()
            return None if row is None else _recall(db, row)

        return self._read(read, None)

    def items(self, prefix: str = "", limit: int = 50) -> list[str]:
        """Return the ids of items that were found, which begin with some letters, in alphabetical order.

        Raises:
            RecallLogError: the log cannot be read.
        """
        query = "SELECT DISTINCT item FROM entries WHERE item <> '' AND substr(item, 1, ?) = ? ORDER BY item LIMIT ?"
        return self._read(lambda db: [item for (item,) in db.execute(query, (len(prefix), prefix, limit))], [])

    def shown(self) -> set[str] | None:
        """Return the ids of all items that were shown; None where nothing was ever recorded.

        Raises:
            RecallLogError: the log cannot be read.
        """
        query = "SELECT DISTINCT item FROM entries WHERE cut IS NULL AND item <> ''"
        return self._read(lambda db: {item for (item,) in db.execute(query)}, None)

    def runs(self, limit: int = 50) -> list[RecallRun]:
        """Return the last runs that recalled something, the latest first.

        Raises:
            RecallLogError: the log cannot be read.
        """
        query = """
            SELECT run, min(at), max(at), count(*), group_concat(DISTINCT agent), max(user), max(conversation)
            FROM recalls GROUP BY run ORDER BY max(id) DESC LIMIT ?
        """
        return self._read(lambda db: [RecallRun(*row) for row in db.execute(query, (limit,))], [])

    def statistics(self, slowest: int = 5) -> RecallStatistics:
        """Return how often agents found something, in which stores, and the slowest searches.

        Raises:
            RecallLogError: the log cannot be read.
        """
        shown = "EXISTS (SELECT 1 FROM entries WHERE recall = id AND cut IS NULL)"
        rates = f"""
            SELECT {{name}}, count(*), sum({shown}), avg(tokens), avg(seconds)
            FROM recalls GROUP BY 1 ORDER BY 2 DESC, 1
        """
        stores = """
            SELECT store, count(DISTINCT recall), count(DISTINCT CASE WHEN cut IS NULL THEN recall END),
            sum(cut IS NULL), sum(cut IS NOT NULL) FROM entries GROUP BY 1 ORDER BY 3 DESC, 1
        """
        last = (
            "SELECT id, at, agent, stage, query, seconds FROM recalls WHERE seconds > 0 ORDER BY seconds DESC LIMIT ?"
        )

        def read(db: sqlite3.Connection) -> RecallStatistics:
            whole = [RecallRate(*row) for row in db.execute(rates.format(name="''"))]
            return RecallStatistics(
                all=whole[0] if whole else RecallRate("", 0, 0, None, None),
                agents=tuple(RecallRate(*row) for row in db.execute(rates.format(name="agent"))),
                stores=tuple(StoreRate(*row) for row in db.execute(stores)),
                slowest=tuple(SlowRecall(*row) for row in db.execute(last, (slowest,))),
            )

        return self._read(read, RecallStatistics())

    def select(self, request: EraseRequest, items: Sequence[MemoryItem]) -> tuple[str, ...]:
        """Return the names of what erasing some items takes from the log: entries, queries, and recalls of a user.

        Raises:
            RecallLogError: the log cannot be read.
        """
        user, everything = request.where.scope.user, request.is_everything
        whole_user = request == EraseRequest(where=Filter(scope=Scope(user=user)))
        ids = {item.id for item in items}
        said = [" ".join(text.split()).casefold() for item in items for text in texts_of(item) if text.strip()]

        def read(db: sqlite3.Connection) -> tuple[str, ...]:
            steps = db.execute("SELECT id FROM recalls WHERE ?1 OR (?2 AND user = ?3)", (everything, whole_user, user))
            names = [f"recall:{number}" for (number,) in steps]
            rows = db.execute("SELECT recall, position, item FROM entries").fetchall()
            names += [f"entry:{recall}:{position}" for recall, position, item in rows if item in ids]
            asked = db.execute("SELECT id, query FROM recalls WHERE query IS NOT NULL").fetchall()
            return (*names, *(f"query:{number}" for number, query in asked if _repeats(query, said)))

        return self._read(read, ())

    def remove(self, names: Iterable[str]) -> list[Residue]:
        """Remove what `select` named, and rewrite the file; return what could not be reached.

        Raises:
            RecallLogError: the log cannot be changed.
        """
        statements = {
            "recall": "DELETE FROM recalls WHERE id = ?",
            "query": "UPDATE recalls SET query = NULL WHERE id = ?",
            "entry": "UPDATE entries SET text = NULL, item = '', version = '' WHERE recall = ? AND position = ?",
        }

        def erase(db: sqlite3.Connection) -> None:
            for name in names:
                kind, *key = name.split(":")
                db.execute(statements[kind], key)

        if self._db.is_absent:
            return []
        self._translated(lambda: self._db.run(lambda db: write_transaction(db, erase)))
        return self._translated(self._db.rewrite)

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._db.close()

    def _read(self, read: Callable[[sqlite3.Connection], T], empty: T) -> T:
        """Read the file as of one commit, without making it; `empty` where it does not exist or has no log."""
        if not self.file.exists():
            return empty
        try:
            with closing(connect(self.file, uri=f"{self.file.absolute().as_uri()}?mode=ro")) as db:
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'recalls'").fetchone():
                    return empty
                return read_transaction(db, read)
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise RecallLogError(self.file, f"it cannot be read: {error}") from error

    def _translated(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except (sqlite3.Error, OSError, PoolClosedError) as error:
            raise RecallLogError(self.file, str(error)) from error


def shown_items(sessions: Path) -> frozenset[str] | None:
    """Return the ids of the items that the logs of some sessions show; None where there is no log.

    Raises:
        RecallLogError: a log cannot be read.
    """
    found: set[str] | None = None
    for file in sorted(sessions.glob(f"*/{STATE_FILE}")):
        with closing(RecallLog(file)) as log:
            if (shown := log.shown()) is not None:
                found = shown | (found or set())
    return None if found is None else frozenset(found)


def forget_shown(folder: Path | None, request: EraseRequest, items: Sequence[MemoryItem]) -> list[Residue]:
    """Take items out of the logs of every session of a workflow; return what could not be reached.

    Args:
        folder: that of one of the sessions; None where there is none.
        request: the selection.
        items: what it selects, and what was derived from it.
    """
    left: list[Residue] = []
    for file in sorted(folder.parent.glob(f"*/{STATE_FILE}")) if folder is not None else ():
        try:
            with closing(RecallLog(file)) as log:
                names = log.select(request, items)
                left += log.remove(names) if names else []
        except RecallLogError as error:
            left.append(Residue(place=str(file), reason=f"what agents were shown is still there: {error}", failed=True))
    return left


@dataclass(frozen=True, slots=True)
class RecallRun:
    """A run in a log."""

    run: str | None
    began: float
    """Seconds since the epoch."""
    ended: float
    recalls: int
    agents: str
    user: str | None
    conversation: str | None


@dataclass(frozen=True, slots=True)
class RecallRate:
    """How often an agent found something."""

    agent: str
    """Empty for all agents together."""
    recalls: int
    answered: int
    """Recalls that showed at least one item."""
    tokens: float | None
    """Mean size of the blocks, in estimated tokens; None without a recall."""
    seconds: float | None
    """Mean duration of a search; None where none is known."""

    @property
    def rate(self) -> float:
        """Share of the recalls that showed something, from 0 to 1; 0 without a recall."""
        return self.answered / self.recalls if self.recalls else 0.0


@dataclass(frozen=True, slots=True)
class StoreRate:
    """How often items of a store were found, and shown."""

    store: str
    found_in: int
    """Recalls that found one, shown or left out."""
    shown_in: int
    """Recalls that showed one."""
    shown: int
    """Entries that were shown."""
    left_out: int
    """Entries that were left out."""


@dataclass(frozen=True, slots=True)
class SlowRecall:
    """A search that took long."""

    id: int
    """Number of the recall, for `devmem log --step`."""
    at: float
    """Seconds since the epoch."""
    agent: str
    stage: str
    query: str | None
    """None where only hashes are kept, or it is erased."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallStatistics:
    """Rates of the recalls in a log."""

    all: RecallRate = RecallRate("", 0, 0, None, None)
    agents: tuple[RecallRate, ...] = ()
    stores: tuple[StoreRate, ...] = ()
    slowest: tuple[SlowRecall, ...] = ()
    """Slowest first."""


_COLUMNS: Final = (
    "at, run, conversation, user, node, agent, stage, query, frame, sha256, tokens, budget, failures, seconds"
)
_APART: Final = ("store", "item", "version", "text", "cut")
"""Fields of an entry that have their own columns."""


def _recall(db: sqlite3.Connection, row: tuple[Any, ...]) -> Recall:
    """Return the recall of a row of `recalls`, with its entries."""
    named = dict(zip(("id", *_COLUMNS.split(", ")), row, strict=True))
    stage, frame, failures = (named.pop(name) for name in ("stage", "frame", "failures"))
    query = f"SELECT about, {', '.join(_APART)} FROM entries WHERE recall = ? ORDER BY position"
    entries = tuple(
        RecallEntry(**json.loads(about), **dict(zip(_APART, columns, strict=True)))
        for about, *columns in db.execute(query, (named["id"],))
    )
    texts = [ERASED if entry.text is None else entry.text for entry in entries if entry.cut is None]
    block = None if frame is None else join_block(frame, texts)
    return Recall(**named, stage=Stage(stage), block=block, failures=tuple(json.loads(failures)), entries=entries)


def _repeats(query: str, said: Sequence[str]) -> bool:
    """Whether a query says what an item says, or a part of it."""
    asked = " ".join(query.split()).casefold()
    return any(asked and (asked in text or text in asked) for text in said)
