"""Reading one JSON object as one record: a text with its speaker and time, a dumped item, or a rescued write."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import ValidationError

from devmem.errors import AmbiguousDateError, DataFileError, DateOrderError
from devmem.model.filters import SEQUENCE_KEY
from devmem.model.items import TRUST, MemoryContentSnapshot, MemoryItem, Provenance, Scope, SourceKind, load_item
from devmem.model.record_fields import start_of
from devmem.model.results import MemoryWritePayload
from devmem.model.times import DateOrder, is_no_time, parse_time, time_key
from devmem.text.analysis import SUMMARY_LENGTH, shorten
from devmem.text.durations import parse_duration
from devmem.transfer.importing.files import LISTS
from devmem.workflow.rescue import load_write

_LOG: Final = logging.getLogger(__name__)
_Raw = TypeVar("_Raw")
_Read = TypeVar("_Read")
_NAMED_PROBLEMS: Final = 5
"""Number of problems of a kind that are named."""


@dataclass(slots=True)
class Problems:
    """Problems of one kind in a file."""

    count: int = 0
    first: list[DataFileError] = field(default_factory=list)

    def add(self, error: DataFileError) -> None:
        """Count a problem, and keep it where it is one of the first."""
        self.count += 1
        if self.count <= _NAMED_PROBLEMS:
            self.first.append(error)

    def __str__(self) -> str:
        more = f"; and {self.count - len(self.first):,} more" if self.count > len(self.first) else ""
        return f"{self.count:,}: {'; '.join(map(str, self.first))}{more}"


@dataclass(slots=True)
class LeftOut:
    """Parts of a file that become no record."""

    reasons: Counter[str] = field(default_factory=Counter)
    """Number of messages that are no memories, by what they are: `calls and results of tools`."""
    unusable: Problems = field(default_factory=Problems)
    """Records that cannot be used."""
    untimed: Problems = field(default_factory=Problems)
    """Records that are read without their time, which is not one."""

    def facts(self) -> dict[str, Any]:
        """Return what is left out, for programs."""
        reasons = {"left_out": dict(self.reasons)} if self.reasons else {}
        return {**reasons, **({"unusable": self.unusable.count} if self.unusable.count else {})}

    def notes(self) -> list[str]:
        """Return what is left out, for people."""
        notes = [f"{count:,} {reason}" for reason, count in self.reasons.most_common()]
        return [*notes, f"{self.unusable.count:,} that cannot be used"] if self.unusable.count else notes

    def report(self, path: Path) -> None:
        """Log the problems, the first ones by name."""
        for kind, problems in (
            ("records that cannot be used are left out", self.unusable),
            ("records that are read without their time", self.untimed),
        ):
            if problems.count:
                _LOG.warning("%s: %s: %s", path, kind, problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position of one record in its file."""

    path: Path
    """Path, or the name in its place."""
    file: Path | None = None
    """Where the file is; None for its path."""
    line: int | None = None
    """1-based, in a file of lines."""
    entry: str = ""
    """In a document: `[3]`, or `[0].conversation.session_2[4]`."""
    dates: DateOrder | None = None
    """Order of day and month in dates such as `03/04/2025`; None where it is not known."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """Parts of the file that become no record."""

    def at(self, entry: object) -> Position:
        """Return the position of a part: `[3]` of a list, `.messages` of an object."""
        return replace(self, entry=f"{self.entry}[{entry}]" if isinstance(entry, int) else f"{self.entry}{entry}")

    def leave(self, reason: str, count: int = 1) -> None:
        """Count messages that are no memories."""
        if count:
            self.left_out.reasons[reason] += count

    def error(self, message: str) -> DataFileError:
        """Return the error that names the record's position."""
        return DataFileError(self.path, f"{self.entry}: {message}" if self.entry else message, line=self.line)

    def invalid(self, error: ValidationError) -> DataFileError:
        """Return the error for the first finding of a model, without the value itself."""
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        return self.error(f"{place}: {first['msg']}" if place else first["msg"])

    def time(self, key: str, raw: object) -> float:
        """Read a time; raises `DataFileError` for anything else, `DateOrderError` when two days may be meant."""
        try:
            return parse_time(raw, self.dates)
        except AmbiguousDateError as error:
            hint = f"is `--dates {self.dates}` right?" if self.dates else "or say `--dates dmy` or `--dates mdy`"
            raise DateOrderError(self.path, f"{key!r}: {error}; {hint}", line=self.line) from error
        except (ValueError, OverflowError) as error:
            raise self.error(f"{key!r}: {error}") from error

    def event_time(self, key: str, raw: object) -> float | None:
        """Return the time of a record; None where it is unknown, or unreadable, which `left_out` counts and names.

        Raises:
            DateOrderError: two days may be meant.
        """
        if is_no_time(raw):
            return None
        try:
            return self.time(key, raw)
        except DateOrderError:
            raise
        except DataFileError as error:
            self.left_out.untimed.add(error)
            return None


_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal", ""})
"""Types of parts whose text was said."""
_NAMED: Final[Mapping[str, str]] = {
    kind: name
    for name, kinds in {
        "image": "image image_url input_image image_asset_pointer",
        "audio": "input_audio audio audio_transcription",
        "file": "file input_file document",
        "video": "video",
    }.items()
    for kind in kinds.split()
}
"""Types of parts that are named in the text, without what they hold."""


def text_of_content(content: object, origin: Position) -> str:
    """Return what was said; empty where nothing was, as in a message that only calls tools.

    Thoughts, calls of tools and their results are left out; images and files are named.

    Raises:
        DataFileError: it is no content of a message.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, Mapping):
        return text_of_content(content["parts"], origin) if "parts" in content else _text_of_part(content, origin)
    if isinstance(content, list):
        texts = (part if isinstance(part, str) else _text_of_part(part, origin) for part in content)
        return "\n".join(text.strip() for text in texts if text.strip())
    raise origin.error(f"'content': expected text or a list of parts, found a value of type {type(content).__name__}")


def _text_of_part(part: object, origin: Position) -> str:
    if part is None:
        return ""
    if not isinstance(part, Mapping):
        raise origin.error(f"'content': expected a part, found a value of type {type(part).__name__}")
    kind = str(part.get("type") or part.get("content_type") or "")
    text = part.get("text", part.get("refusal"))
    if kind in _NAMED and not isinstance(part.get("text"), str):
        file = part.get("file")
        name = part.get("filename") or part.get("title") or (file.get("filename") if isinstance(file, Mapping) else "")
        return f"[{_NAMED[kind]}: {name}]" if isinstance(name, str) and name else f"[{_NAMED[kind]}]"
    return text if isinstance(text, str) and kind in (*_NAMED, *_TEXTS) else ""


def with_files(text: str, names: Iterable[object]) -> str:
    """Return a text with a line for each file that came with it; a file without a name is left out."""
    return "\n".join([*filter(None, [text]), *(f"[file: {name}]" for name in names if name)])


Record: TypeAlias = MemoryItem | MemoryWritePayload
"""An item to add unchanged, or the payload of a write, which the store makes an item of."""

_TEXT_KEYS: Final = ("text", "content", "content_summary")
_SPEAKER_KEYS: Final = ("speaker", "role")
_MESSAGE_KEYS: Final = frozenset({*_SPEAKER_KEYS, "conversation", "session"})
"""Keys of which a record that is a message has one."""
_SCOPE_KEYS: Final = tuple(one.name for one in fields(Scope))
_EXPIRY_KEY: Final = "expires_at"
_TTL_KEY: Final = "ttl"
_TRUST_KEY: Final = "trust"
_ONLY_PLAIN: Final = frozenset({"text", "content", "time", "date", _TTL_KEY, *_SPEAKER_KEYS, *_SCOPE_KEYS})
"""Keys that no dumped item has."""
_PLAIN_KEYS: Final = frozenset(
    {"id", "metadata", _EXPIRY_KEY, _TTL_KEY, _TRUST_KEY, *_TEXT_KEYS, *_SPEAKER_KEYS, *_SCOPE_KEYS}
)


class RecordIds:
    """Ids of a file's records that have none, by which the same file gives the same items next time."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._said: dict[tuple[object, ...], str] = {}

    def of(self, raw: Mapping[str, Any], origin: Position) -> str:
        """Return the id of a record, none of which is another's in the same file.

        A message that only its place tells from others is named by its file and by what its conversation says up to it;
        any other record by all that it says, and by its number among equal ones.
        """
        if raw.keys() & _MESSAGE_KEYS and time_key(raw) is None:
            conversation = tuple(str(raw.get(key)) for key in _SCOPE_KEYS)
            before = self._said.get(conversation, str(origin.path.absolute()))
            self._said[conversation] = digest(before, raw)
            return self._said[conversation]
        return unique_id(digest(raw), self._seen)


def read_record(raw: object, origin: Position, ids: RecordIds) -> Record:
    """Return the record's item or payload.

    Args:
        raw: the record.
        origin: its position.
        ids: those of the records of the same file.

    Raises:
        DataFileError: it is neither.
    """
    if not isinstance(raw, Mapping):
        raise origin.error(f"expected an object, found {type(raw).__name__}")
    try:
        if "payload" in raw:
            return load_write(raw["payload"])
        if "content_summary" in raw and not raw.keys() & _ONLY_PLAIN:
            return _dumped(raw, origin, ids)
        return _plain(raw, origin, ids)
    except ValidationError as error:
        raise origin.invalid(error) from error
    except ValueError as error:
        # A name or a value that no item may have.
        raise origin.error(str(error)) from error


def looks_like_record(raw: object) -> bool:
    """Whether an object has a key that every record has one of."""
    return isinstance(raw, Mapping) and ("payload" in raw or any(key in raw for key in _TEXT_KEYS))


def text_item(
    *,
    origin: Position,
    id: str,  # noqa: A002 - the item's own word
    text: str,
    speaker: str = "",
    event_time: float | None = None,
    scope: Scope | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> MemoryItem:
    """Return the item of an utterance, `Speaker: text`; a long one is shortened, with the whole in a snapshot."""
    whole = f"{speaker}: {text.strip()}" if speaker else text.strip()
    is_long = len(whole) > SUMMARY_LENGTH
    return MemoryItem(
        id=id,
        content_summary=shorten(whole, SUMMARY_LENGTH) if is_long else whole,
        output_snapshot=MemoryContentSnapshot(text=whole) if is_long else None,
        metadata=metadata or {},
        event_time=start_of(metadata or {}) if event_time is None else event_time,
        scope=scope or Scope(),
        provenance=_imported(origin),
        trust=TRUST[SourceKind.IMPORT],
    )


def text_of(raw: Mapping[str, Any], key: str, origin: Position, *, default: str | None = None) -> str:
    """Return a value that has to be text, or an integer, as text; raises `DataFileError` otherwise."""
    value = raw.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise origin.error(f"{key!r}: expected text, found {_kind(value)}")
    return value


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return "empty text" if isinstance(value, str) else f"a value of type {type(value).__name__}"


def _imported(origin: Position) -> Provenance:
    return Provenance(kind=SourceKind.IMPORT, name=origin.path.name)


def _dumped(raw: Mapping[str, Any], origin: Position, ids: RecordIds) -> MemoryItem:
    """Read an item as `dump_item` or DevAll wrote it, without its vector: nothing says which model made that."""
    known = {key: value for key, value in raw.items() if key not in ("embedding", "embedding_model")}
    times = {
        key: origin.time(key, known[key])
        for key in ("timestamp", "created_at", "event_time", _EXPIRY_KEY)
        if known.get(key) is not None
    }
    item = load_item({**({} if "id" in known else {"id": ids.of(raw, origin)}), **known, **times})
    if raw.get("provenance"):
        return item
    # An export of devmem leaves out defaults, such as full trust; only other programs' items have no hash.
    is_foreign = "trust" not in raw and "content_hash" not in raw
    return replace(item, provenance=_imported(origin), trust=TRUST[SourceKind.IMPORT] if is_foreign else item.trust)


def _plain(raw: Mapping[str, Any], origin: Position, ids: RecordIds) -> MemoryItem:
    key = next((key for key in _TEXT_KEYS if key in raw), None)
    if key is None:
        keys = ", ".join(repr(str(key)[:40]) for key in list(raw)[:12]) or "none"
        raise origin.error(f"no text: expected one of the keys {', '.join(_TEXT_KEYS)}, found {keys}")
    parts = text_of_content(raw[key], origin) if key == "content" and isinstance(raw[key], list) else raw[key]
    speaker_key = next((key for key in _SPEAKER_KEYS if raw.get(key) is not None), None)
    speaker = text_of(raw, speaker_key, origin) if speaker_key else ""
    when = time_key(raw)
    event_time = origin.event_time(when, raw[when]) if when else None
    given = raw.get("metadata") or {}
    if not isinstance(given, Mapping):
        raise origin.error(f"'metadata': expected an object, found {_kind(given)}")
    known = _PLAIN_KEYS if event_time is None else {*_PLAIN_KEYS, when}
    unknown = {key: value for key, value in raw.items() if key not in known}
    item = text_item(
        origin=origin,
        id=ids.of(raw, origin) if raw.get("id") is None else text_of(raw, "id", origin),
        text=text_of({key: parts}, key, origin),
        speaker=speaker,
        event_time=event_time,
        scope=Scope(**{key: text_of(raw, key, origin) for key in _SCOPE_KEYS if raw.get(key) is not None}),
        metadata={**({"speaker": speaker} if speaker else {}), **unknown, **given},
    )
    item = replace(item, expires_at=_expiry(raw, item.created_at, origin))
    trust = item.trust if raw.get(_TRUST_KEY) is None else raw[_TRUST_KEY]
    if isinstance(trust, bool) or not isinstance(trust, int | float) or not 0 <= trust <= 1:
        raise origin.error(f"'{_TRUST_KEY}': expected a number from 0 to 1, found {trust!r}")
    return replace(item, trust=float(trust))


def _expiry(raw: Mapping[str, Any], now: float, origin: Position) -> float | None:
    """Return when a record expires: at its `expires_at`, or its `ttl` after `now` (seconds since the epoch)."""
    if (at := raw.get(_EXPIRY_KEY)) is not None:
        if raw.get(_TTL_KEY) is not None:
            raise origin.error(f"'{_EXPIRY_KEY}' and '{_TTL_KEY}' both say when it expires; give one of them")
        return origin.time(_EXPIRY_KEY, at)
    if (ttl := raw.get(_TTL_KEY)) is None:
        return None
    try:
        return now + parse_duration(ttl)
    except ValueError as error:
        raise origin.error(f"'{_TTL_KEY}': {error}, found {ttl!r}") from error


_ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("human", "user", "humanmessagechunk"), "user"),
    **dict.fromkeys("ai aimessagechunk assistant gpt chatgpt bing bard model bot".split(), "assistant"),
}
"""Speakers of a conversation, which prompts and tools are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurn:
    """Words of one speaker; what is empty counts as not given."""

    text: str
    speaker: str
    id: object = None
    """Unique id; without it, one is made of conversation, time (or else all that is said before it) and text."""
    time: float | None = None
    """Seconds since the epoch."""
    conversation: str | None = None
    session: object = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def speaker_of(role: object) -> str | None:
    """Return `user` or `assistant`, however a program names them; None for a prompt, a tool and whatever else."""
    return _ROLES.get(role.lower()) if isinstance(role, str) else None


Line: TypeAlias = tuple[object, Position]
"""A value of JSON, or the error in its place, and its position: a line, an element of a list, or the whole document."""


def numbered(elements: Iterable[object], origin: Position) -> Iterator[Line]:
    """Yield the elements of a list, each with its position."""
    for at, raw in enumerate(elements):
        yield raw, origin.at(at)


def read_each(
    lines: Iterable[tuple[_Raw, Position]], read: Callable[[Any, Position], Iterable[_Read]]
) -> Iterator[_Read]:
    """Yield what is read of each value; one that is refused is counted and named, and the others are read.

    Raises:
        DateOrderError: day and month of a date cannot be told apart, which concerns the whole file.
    """
    for raw, origin in lines:
        if isinstance(raw, DataFileError):
            origin.left_out.unusable.add(raw)
            continue
        try:
            yield from read(raw, origin)
        except DateOrderError:
            raise
        except DataFileError as error:
            origin.left_out.unusable.add(error)
        except RecursionError:
            origin.left_out.unusable.add(origin.error("it is nested too deeply"))
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
            # A value of another type than the program of this format writes, somewhere within.
            origin.left_out.unusable.add(origin.error(f"it has an unexpected form ({error})"))


def shaped(raw: object, is_one: Callable[[Mapping[str, Any]], bool], form: str, origin: Position) -> Mapping[str, Any]:
    """Return an object of a form; raises `DataFileError`, which names the form, for any other value."""
    if not isinstance(raw, Mapping) or not is_one(raw):
        raise origin.error(f"expected {form}")
    return raw


def listed(raw: object, key: str, origin: Position) -> Sequence[Any]:
    """Return the list under a key of an object; raises `DataFileError` where there is none."""
    found = raw.get(key) if isinstance(raw, Mapping) else None
    if not isinstance(found, LISTS):
        raise origin.error(f"expected an object with a list `{key}`")
    return found


def turn_items(
    lines: Iterable[tuple[_Raw, Position]], read: Callable[[Any, Position], ChatTurn | str]
) -> Iterator[MemoryItem]:
    """Yield an item for each turn that has a text; those of one time are numbered, so that they keep their order.

    Args:
        lines: the messages of a conversation, or of several.
        read: returns the turn of a message, or the reason for which it is none.
    """
    seen: Counter[str] = Counter()
    said: dict[str | None, str] = {}
    last: dict[str | None, tuple[float, int]] = {}
    for turn, origin in read_each(lines, lambda raw, origin: [(read(raw, origin), origin)]):
        if isinstance(turn, str) or not turn.text.strip():
            origin.leave(turn if isinstance(turn, str) else "messages without a text")
            continue
        place = said.get(turn.conversation) if turn.time is None else turn.time
        made = digest(turn.conversation, place, turn.speaker, turn.text)
        sequence: dict[str, Any] = {}
        if turn.time is None:
            said[turn.conversation] = made
        else:
            time, at = last.get(turn.conversation, (None, 0))
            last[turn.conversation] = turn.time, at + 1 if turn.time == time else 0
            sequence = {SEQUENCE_KEY: at + 1} if turn.time == time else {}
        about = {"speaker": turn.speaker, **turn.metadata}
        yield text_item(
            origin=origin,
            id=str(turn.id or unique_id(made, seen)),
            text=turn.text,
            speaker=turn.speaker,
            event_time=turn.time,
            scope=Scope(conversation=turn.conversation, session=str(turn.session) if turn.session else None),
            metadata={key: value for key, value in about.items() if value} | sequence,
        )


def unique_id(made: str, seen: Counter[str]) -> str:
    """Return an id that was made of a content, or of it and its number among the equal ones that were seen before."""
    seen[made] += 1
    return made if seen[made] == 1 else digest(made, seen[made])


def digest(*parts: object) -> str:
    """Return an id by which the same content is the same item next time."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
