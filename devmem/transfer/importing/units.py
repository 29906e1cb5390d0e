"""The plainest form of conversations: `{id, units: [{id, session, speaker, date, text}]}`; queries are left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from devmem.model.items import MemoryItem, Scope
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import text_item, text_of


def is_units(raw: object) -> bool:
    """Whether an element of a document, or the document, has this form."""
    return isinstance(raw, Mapping) and isinstance(raw.get("units"), list)


def count_units(groups: list[object]) -> int:
    """Count the units, broken groups left out."""
    return sum(len(group["units"]) for group in groups if isinstance(group, Mapping) and is_units(group))


def read_units(groups: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each unit, in order.

    Raises:
        DataFileError: something has not this form.
    """
    for at, group in enumerate(groups):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(group, Mapping) or not isinstance(group.get("units"), list):
            raise here.error("expected an object with `id` and `units`")
        name = text_of(group, "id", here)
        said_at: Counter[str] = Counter()
        for number, unit in enumerate(group["units"]):
            yield _unit(unit, replace(here, entry=f"[{at}].units[{number}]"), name, said_at)


def _unit(unit: object, origin: Origin, conversation: str, said_at: Counter[str]) -> MemoryItem:
    if not isinstance(unit, Mapping):
        raise origin.error(f"expected a unit, found {type(unit).__name__}")
    time = None
    if unit.get("date") is not None:
        # Many units have one date: a second each keeps their order.
        date = str(unit["date"])
        time = origin.time("date", unit["date"]) + said_at[date]
        said_at[date] += 1
    session = text_of(unit, "session", origin) if unit.get("session") is not None else None
    speaker, said_as = text_of(unit, "speaker", origin, default=""), text_of(unit, "id", origin)
    return text_item(
        origin=origin,
        id=f"{conversation}/{said_as}",
        text=text_of(unit, "text", origin),
        speaker=speaker,
        event_time=time,
        scope=Scope(conversation=conversation, session=session),
        metadata={"unit_id": said_as, "speaker": speaker},
    )
