"""Reading one JSON object as one record: a text with its speaker and time, a dumped item, or a rescued write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from devmem.manager import load_payload
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Provenance, Scope, SourceKind, load_item
from devmem.model.results import MemoryWritePayload
from devmem.model.trust import TRUST
from devmem.text.durations import parse_duration
from devmem.text.sentences import shorten
from devmem.transfer.importing.contents import text_of_content
from devmem.transfer.importing.origin import Origin

Record: TypeAlias = MemoryItem | MemoryWritePayload
"""An item to add as it is, or the payload of a write, which the store makes an item of."""

SUMMARY_LENGTH: Final = 1000
"""Maximum number of characters of a summary; a longer text is kept whole in a snapshot, and searched."""
_TEXT_KEYS: Final = ("text", "content", "content_summary")
_SPEAKER_KEYS: Final = ("speaker", "role")
_TIME_KEYS: Final = ("event_time", "timestamp", "time", "date")
_SCOPE_KEYS: Final = tuple(one.name for one in fields(Scope))
_EXPIRY_KEY: Final = "expires_at"
_TTL_KEY: Final = "ttl"
_TRUST_KEY: Final = "trust"
_ONLY_PLAIN: Final = frozenset({"text", "content", "time", "date", _TTL_KEY, *_SPEAKER_KEYS, *_SCOPE_KEYS})
"""Keys that no dumped item has."""
_PLAIN_KEYS: Final = frozenset(
    {"id", "metadata", _EXPIRY_KEY, _TTL_KEY, _TRUST_KEY, *_TEXT_KEYS, *_SPEAKER_KEYS, *_TIME_KEYS, *_SCOPE_KEYS}
)


def read_record(raw: object, origin: Origin) -> Record:
    """Return the record's item or payload.

    Raises:
        DataFileError: it is neither.
    """
    if not isinstance(raw, Mapping):
        raise origin.error(f"expected an object, found {type(raw).__name__}")
    if "payload" in raw:
        return _payload(raw["payload"], origin)
    if "content_summary" in raw and not raw.keys() & _ONLY_PLAIN:
        return _dumped(raw, origin)
    return _plain(raw, origin)


def looks_like_record(raw: object) -> bool:
    """Whether an object has a key that every record has one of."""
    return isinstance(raw, Mapping) and ("payload" in raw or any(key in raw for key in _TEXT_KEYS))


def text_item(
    *,
    origin: Origin,
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
        event_time=event_time,
        scope=scope or Scope(),
        provenance=_imported(origin),
        trust=TRUST[SourceKind.IMPORT],
    )


def text_of(raw: Mapping[str, Any], key: str, origin: Origin, *, default: str | None = None) -> str:
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


def _imported(origin: Origin) -> Provenance:
    return Provenance(kind=SourceKind.IMPORT, name=origin.path.name)


def _digest(raw: Mapping[str, Any]) -> str:
    """Hash a record that has no id, so that the same record is the same item next time."""
    text = json.dumps(raw, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _payload(raw: object, origin: Origin) -> MemoryWritePayload:
    try:
        return load_payload(raw)
    except ValidationError as error:
        raise origin.invalid(error) from error


def _dumped(raw: Mapping[str, Any], origin: Origin) -> MemoryItem:
    """Read an item as `dump_item` or DevAll wrote it, without its vector: nothing says which model made that."""
    known = {key: value for key, value in raw.items() if key not in ("embedding", "embedding_model")}
    times = {
        key: origin.time(key, known[key])
        for key in ("timestamp", "event_time", _EXPIRY_KEY)
        if known.get(key) is not None
    }
    try:
        item = load_item({"id": _digest(raw), **known, **times})
    except ValidationError as error:
        raise origin.invalid(error) from error
    if raw.get("provenance"):
        return item
    # An export of devmem leaves out what is by default, as full trust; only other programs' items have no hash.
    is_foreign = "trust" not in raw and "content_hash" not in raw
    return replace(item, provenance=_imported(origin), trust=TRUST[SourceKind.IMPORT] if is_foreign else item.trust)


def _plain(raw: Mapping[str, Any], origin: Origin) -> MemoryItem:
    key = next((key for key in _TEXT_KEYS if key in raw), None)
    if key is None:
        raise origin.error(f"no text: expected one of the keys {', '.join(_TEXT_KEYS)}, found {_keys(raw)}")
    speaker_key = next((key for key in _SPEAKER_KEYS if raw.get(key) is not None), None)
    speaker = text_of(raw, speaker_key, origin) if speaker_key else ""
    time_key = next((key for key in _TIME_KEYS if raw.get(key) is not None), None)
    given = raw.get("metadata") or {}
    if not isinstance(given, Mapping):
        raise origin.error(f"'metadata': expected an object, found {_kind(given)}")
    unknown = {key: value for key, value in raw.items() if key not in _PLAIN_KEYS}
    item = text_item(
        origin=origin,
        id=text_of(raw, "id", origin, default=_digest(raw)),
        text=_said(raw, key, origin),
        speaker=speaker,
        event_time=origin.time(time_key, raw[time_key]) if time_key else None,
        scope=Scope(**{key: text_of(raw, key, origin) for key in _SCOPE_KEYS if raw.get(key) is not None}),
        metadata={**({"speaker": speaker} if speaker else {}), **unknown, **given},
    )
    item = replace(item, expires_at=_expiry(raw, item.created_at, origin))
    return item if raw.get(_TRUST_KEY) is None else replace(item, trust=_trust(raw[_TRUST_KEY], origin))


def _expiry(raw: Mapping[str, Any], now: float, origin: Origin) -> float | None:
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


def _trust(raw: object, origin: Origin) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
        raise origin.error(f"'{_TRUST_KEY}': expected a number from 0 to 1, found {raw!r}")
    return float(raw)


def _said(raw: Mapping[str, Any], key: str, origin: Origin) -> str:
    """Return the text, which may be a list of parts."""
    parts = text_of_content(raw[key], origin) if key == "content" and isinstance(raw[key], list) else raw[key]
    return text_of({key: parts}, key, origin)


def _keys(raw: Mapping[str, Any]) -> str:
    return ", ".join(repr(str(key)[:40]) for key in list(raw)[:12]) or "none"
