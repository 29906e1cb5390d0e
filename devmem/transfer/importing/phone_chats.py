"""Chats of telephones: WhatsApp's text files, of Android and of iOS, and Telegram's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Final

from devmem.errors import DateOrderError
from devmem.model.items import MemoryItem
from devmem.model.times import DateOrder, NumericDate, numeric_date
from devmem.transfer.importing.records import Origin, Turn, turn_items

_MARKS: Final = str.maketrans({"\u200e": "", "\u200f": "", "\u202a": "", "\u202c": "", "\u202f": " ", "\xa0": " "})
"""Directions and narrow spaces that telephones put between the parts of a line."""
_LINE: Final = re.compile(
    r"\[?(?P<date>\d{1,4}[./-]\d{1,2}[./-]\d{1,4}),? (?P<time>\d{1,2}:\d{2}(?::\d{2})?)"
    r"(?: ?(?P<half>[AaPp])\.? ?[Mm]\.?)?(?:\]| -) (?P<rest>.*)"
)
_SAID: Final = re.compile(r"(?P<speaker>[^:]{1,100}): ?(?P<text>.*)", re.DOTALL)
_FIRST_LINES: Final = 10
_NAME: Final = re.compile(r"^(?:WhatsApp Chat (?:with|-) |Chat de WhatsApp con |WhatsApp[- ]Chat mit )|^_chat$")


@dataclass(frozen=True, slots=True)
class _Message:
    """A message as the file has it."""

    line: int
    date: NumericDate
    text: str
    """Speaker and text; a notice of the program has no speaker."""


def is_whatsapp(lines: Iterable[str]) -> bool:
    """Whether a text begins as a chat of WhatsApp does: with a date, a time and a speaker or a notice."""
    heads = [line.translate(_MARKS) for line in islice(lines, _FIRST_LINES) if line.strip()]
    found = [match for line in heads if (match := _LINE.match(line))]
    return bool(heads) and _LINE.match(heads[0]) is not None and any(_SAID.match(match["rest"]) for match in found)


def read_whatsapp(lines: Iterable[tuple[int, str]], origin: Origin) -> list[MemoryItem]:
    """Return an item for each message; notices of the program are left out.

    Args:
        lines: all lines with their 1-based numbers.
        origin: the file, whose name is that of the conversation; where it names no order of day and month, the dates
            themselves tell.

    Raises:
        DataFileError: a date is invalid, or day and month cannot be told apart.
    """
    messages = list(_messages(lines))
    order = origin.dates or _order_of(messages, origin)
    name = _NAME.sub("", origin.path.stem) or origin.path.parent.name or "whatsapp"
    return list(turn_items(_turns(messages, order, name, origin)))


def _messages(lines: Iterable[tuple[int, str]]) -> Iterator[_Message]:
    last: _Message | None = None
    for number, raw in lines:
        found = _LINE.match(line := raw.translate(_MARKS).rstrip())
        if found is None:
            last = last and replace(last, text=f"{last.text}\n{line}")
            continue
        half = f" {found['half']}m" if found["half"] else ""
        date = numeric_date(f"{found['date']} {found['time']}{half}")
        if date is None:
            last = last and replace(last, text=f"{last.text}\n{line}")
            continue
        if last is not None:
            yield last
        last = _Message(number, date, found["rest"])
    if last is not None:
        yield last


def _order_of(messages: Sequence[_Message], origin: Origin) -> DateOrder:
    """Return the order of day and month by which all dates exist and, where both do, follow one another."""
    possible: list[DateOrder] = []
    for order in DateOrder:
        try:
            times = [message.date.time(order) for message in messages]
        except ValueError:
            continue
        if all(earlier <= later for earlier, later in pairwise(times)):
            possible.append(order)
    if len(possible) == 1 or (possible and all(message.date.means_one_day() for message in messages)):
        return possible[0]
    raise DateOrderError(
        origin.path,
        "day and month of the dates cannot be told apart: say which comes first, by `--dates dmy` or `--dates mdy`",
    )


def _turns(messages: Sequence[_Message], order: DateOrder, name: str, origin: Origin) -> Iterator[Turn]:
    for message in messages:
        here = replace(origin, line=message.line)
        said = _SAID.fullmatch(message.text)
        if said is None:
            continue
        try:
            time = message.date.time(order)
        except ValueError as error:
            raise here.error(f"the date does not exist ({error}); is `--dates {order}` right?") from error
        yield Turn(
            text=said["text"].strip(), speaker=said["speaker"].strip(), origin=here, time=time, conversation=name
        )


def is_telegram(raw: object) -> bool:
    """Whether a document, or a chat in one, is Telegram's."""
    return isinstance(raw, Mapping) and (
        (isinstance(raw.get("messages"), list) and "type" in raw and "id" in raw and "name" in raw)
        or (isinstance(raw.get("chats"), Mapping) and isinstance(raw["chats"].get("list"), list))
    )


def _chats(document: object) -> list[Mapping[str, Any]]:
    if not isinstance(document, Mapping):
        return []
    chats = document["chats"]["list"] if "chats" in document else [document]
    return [chat for chat in chats if isinstance(chat, Mapping) and isinstance(chat.get("messages"), list)]


def count_telegram(document: object) -> int:
    """Count the messages of all chats, notices among them."""
    return sum(len(chat["messages"]) for chat in _chats(document))


def read_telegram(document: object, origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each message with a text; notices are left out.

    Raises:
        DataFileError: something is not as Telegram exports it.
    """
    for chat in _chats(document):
        yield from turn_items(_telegram_turns(chat, origin))


def _telegram_turns(chat: Mapping[str, Any], origin: Origin) -> Iterator[Turn]:
    name = str(chat.get("name") or chat.get("id") or "telegram")
    for at, raw in enumerate(chat["messages"]):
        here = replace(origin, entry=f"{origin.entry}messages[{at}]")
        if not isinstance(raw, Mapping):
            raise here.error(f"expected a message, found {type(raw).__name__}")
        if raw.get("type") != "message":
            continue
        yield Turn(
            text=_telegram_text(raw.get("text")),
            speaker=str(raw.get("from") or raw.get("from_id") or ""),
            origin=here,
            id=f"telegram/{chat.get('id')}/{raw['id']}" if raw.get("id") is not None else None,
            time=here.event_time("date", raw.get("date_unixtime") or raw.get("date")),
            conversation=name,
        )


def _telegram_text(text: object) -> str:
    """Return a text, which may be a list of parts with links and styles."""
    if isinstance(text, list):
        return "".join(_telegram_text(part) for part in text)
    if isinstance(text, Mapping):
        return str(text.get("text") or "")
    return text if isinstance(text, str) else ""
