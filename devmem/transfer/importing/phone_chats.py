"""Chats of messengers: WhatsApp's text files, and the JSON of Telegram, Discord, Facebook and Instagram."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any, Final, TypeAlias

from devmem.errors import DateOrderError
from devmem.model.items import MemoryItem
from devmem.model.times import DateOrder, NumericDate, numeric_date
from devmem.transfer.importing.files import LISTS, FileReader
from devmem.transfer.importing.records import (
    ChatTurn,
    Line,
    Position,
    listed,
    numbered,
    read_each,
    shaped,
    turn_items,
    with_files,
)

_Reader: TypeAlias = Callable[[Iterable[Line]], Iterator[MemoryItem]]
_NOTICES: Final = "notices of the program"
_ATTACHED: Final = "attachments, and media that the export omits"
_DELETED: Final = "deleted messages"
_MARKS: Final = str.maketrans({"\u200f": "", "\u202a": "", "\u202b": "", "\u202c": "", "\u202f": " ", "\xa0": " "})
"""Directions and narrow spaces that telephones put between the parts of a line."""
_OF_PROGRAM: Final = "\u200e"
"""Mark with which telephones begin what they themselves write in the place of a text."""
_LINE: Final = re.compile(
    r"\u200e?\[?(?P<date>\d{1,4}\D{1,3}\d{1,2}\D{1,3}\d{1,4}\D{1,14}\d{1,2}[:.]\d\d[^\]\[-]{0,16}?)"
    r"(?:\] | - |, (?=[^:]{1,60} : ))(?P<rest>.*)"
)
_SAID: Final = re.compile(r"(?P<speaker>[^:]{1,100}): ?(?P<text>.*)", re.DOTALL)
_OMITTED: Final = re.compile(r"<(?=[^<>]*[^!-~])[^<>/=]{4,60}>")
"""A text in angle brackets with a space or a letter beyond ASCII, such as `<Media omitted>` and `<媒体文件已忽略>`."""
_FILE: Final = re.compile(
    r"(?:[A-Z]{3}-\d{8}-WA\d{4}\.\w{2,5} \([^()\n]+\)"
    r"|\S[^\n]{0,200}\.\w{2,5} \((?:file attached|Datei angehängt|文件附件|附件|檔案已附加|파일 첨부됨|파일 첨부"
    r"|الملف مرفق|ملف مرفق|archivo adjunto|fichier joint|arquivo anexado|file allegato|bestand bijgevoegd)\))(?:\n|$)"
)
"""The line of a file that was sent, before its caption."""
_GONE: Final = re.compile(
    "this message was deleted|you deleted this message|diese nachricht wurde gelöscht|du hast diese nachricht gelöscht"
    "|此消息已删除|您删除了此消息|你删除了这条消息|此訊息已刪除|您已刪除此訊息"
    "|삭제된 메시지입니다|이 메시지를 삭제했습니다"
    "|تم حذف هذه الرسالة|حذفت هذه الرسالة|لقد حذفت هذه الرسالة|se eliminó este mensaje|eliminaste este mensaje"
    "|ce message a été supprimé|vous avez supprimé ce message|esta mensagem foi apagada|mensagem apagada"
    "|questo messaggio è stato eliminato|hai eliminato questo messaggio|dit bericht is verwijderd",
    re.IGNORECASE,
)
_FIRST_LINES: Final = 10
_NAME: Final = re.compile(r"^(?:WhatsApp Chat (?:with|-) |Chat de WhatsApp con |WhatsApp[- ]Chat mit )|^_chat$")


@dataclass(frozen=True, slots=True)
class _ChatMessage:
    """A message as the file has it."""

    line: int
    date: NumericDate
    text: list[str]
    """Lines of the speaker and the text; a notice of the program has no speaker."""


def is_whatsapp(lines: Iterable[str]) -> bool:
    """Whether a text begins as a chat of WhatsApp does: with a date, a time and a speaker or a notice."""
    heads = [_dated(line) for line in islice(lines, _FIRST_LINES) if line.strip()]
    return bool(heads) and heads[0] is not None and any(found and _SAID.match(found[1]) for found in heads)


def _dated(line: str) -> tuple[NumericDate, str] | None:
    """Return the date and the rest of the first line of a message; None for any other line."""
    found = _LINE.match(line.translate(_MARKS).rstrip())
    date = numeric_date(found["date"].replace(_OF_PROGRAM, "")) if found else None
    return (date, found["rest"]) if found and date else None


def read_whatsapp(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each message; notices, deleted messages, and attachments without words are left out.

    Args:
        source: the file.
        origin: its position; where it names no order of day and month, the dates themselves tell.

    Raises:
        DataFileError: a date is invalid, or day and month cannot be told apart.
    """
    messages = list(_messages(source.text_lines()))
    order = origin.dates or _order_of(messages, origin)
    name = _NAME.sub("", origin.path.stem) or origin.path.parent.name or "whatsapp"
    lines = ((message, replace(origin, line=message.line)) for message in messages)
    yield from turn_items(lines, partial(_whatsapp_turn, order, name))


def _messages(lines: Iterable[str]) -> Iterator[_ChatMessage]:
    last: _ChatMessage | None = None
    for number, line in enumerate(lines, start=1):
        if found := _dated(line):
            if last is not None:
                yield last
            last = _ChatMessage(number, found[0], [found[1]])
        elif last is not None:
            last.text.append(line.translate(_MARKS).rstrip())
    if last is not None:
        yield last


def _order_of(messages: Sequence[_ChatMessage], origin: Position) -> DateOrder:
    """Return the order of day and month that most dates have, or else that in which fewer of them go back in time."""
    dates = [replace(message.date, clock=(0, 0, 0)) for message in messages if not message.date.means_one_day()]
    certain = Counter(order for date in dates for order in date.orders() if len(date.orders()) == 1)
    if certain or not dates:
        return certain.most_common(1)[0][0] if certain else DateOrder.DMY
    back: dict[DateOrder, int] = {}
    for order in DateOrder:
        times = [date.time(order) for date in dates]
        back[order] = sum(earlier > later for earlier, later in pairwise(times))
    ranked = sorted(back, key=lambda order: back[order])
    if back[ranked[0]] == back[ranked[1]]:
        raise DateOrderError(
            origin.path,
            "day and month of the dates cannot be told apart: say which comes first, by `--dates dmy` or `--dates mdy`",
        )
    return ranked[0]


def _whatsapp_turn(order: DateOrder, name: str, message: _ChatMessage, origin: Position) -> ChatTurn | str:
    said = _SAID.fullmatch("\n".join(message.text))
    if said is None:
        return _NOTICES
    try:
        time = message.date.time(order)
    except ValueError as error:
        raise origin.error(f"the date does not exist ({error}); is `--dates {order}` right?") from error
    text, reason = _own_words(said["text"])
    speaker = said["speaker"].strip(f" {_OF_PROGRAM}")
    return reason or ChatTurn(text=text, speaker=speaker, time=time, conversation=name)


def _own_words(text: str) -> tuple[str, str]:
    """Return what the speaker wrote, and, where that is nothing, why the message is left out."""
    said = re.sub(f"{_OF_PROGRAM}<[^<>\n]+>", "", text).strip()
    is_of_program = said.startswith(_OF_PROGRAM)
    said = said.replace(_OF_PROGRAM, "").strip()
    if _GONE.fullmatch(said.strip(" .。")):
        return "", _DELETED
    if is_of_program and said.endswith("."):
        # iOS writes the notice of encryption as the first message of the other side.
        return "", _NOTICES
    if (file := _FILE.match(said)) is not None:
        said = said[file.end() :]
    elif is_of_program:
        said = said.partition("\n")[2]
    if not said.strip() or _OMITTED.fullmatch(said):
        return "", _ATTACHED
    return said.strip(), ""


def is_telegram(raw: object) -> bool:
    """Whether an object, or a chat in it, is Telegram's."""
    return isinstance(raw, Mapping) and (
        (isinstance(raw.get("messages"), LISTS) and "type" in raw and "id" in raw and "name" in raw)
        or (isinstance(raw.get("chats"), Mapping) and isinstance(raw["chats"].get("list"), list))
    )


def _chats(turn: Callable[[Mapping[str, Any], Any, Position], ChatTurn | str], step: int = 1) -> _Reader:
    """Return a reader of objects that are chats with `messages`, or that have such chats under `chats`.

    Args:
        turn: returns the turn of a message in a chat, or why it is none.
        step: -1 where the newest message stands first.
    """

    def read_chat(raw: Any, origin: Position) -> Iterator[MemoryItem]:  # noqa: ANN401 - any value of JSON
        if isinstance(raw, Mapping) and isinstance(chats := raw.get("chats"), Mapping):
            yield from read_each(numbered(listed(chats, "list", origin), origin.at("chats.list")), read_chat)
            return
        messages = listed(raw, "messages", origin)
        lines = numbered(messages, origin.at(".messages" if origin.entry else "messages"))
        yield from turn_items(lines if step > 0 else list(lines)[::step], partial(turn, raw))

    return lambda lines: read_each(lines, read_chat)


def _telegram_turn(chat: Mapping[str, Any], raw: Mapping[str, Any], origin: Position) -> ChatTurn | str:
    if raw.get("type") != "message":
        return _NOTICES
    return ChatTurn(
        text=_telegram_text(raw.get("text")),
        speaker=str(raw.get("from") or raw.get("from_id") or ""),
        id=f"telegram/{chat.get('id')}/{raw['id']}" if raw.get("id") is not None else None,
        time=origin.event_time("date", raw.get("date_unixtime") or raw.get("date")),
        conversation=str(chat.get("name") or chat.get("id") or "telegram"),
    )


def _telegram_text(text: object) -> str:
    """Return a text, which may be a list of parts with links and styles."""
    if isinstance(text, list):
        return "".join(_telegram_text(part) for part in text)
    if isinstance(text, Mapping):
        return str(text.get("text") or "")
    return text if isinstance(text, str) else ""


def is_discord(raw: object) -> bool:
    """Whether an object is a channel as DiscordChatExporter writes it."""
    return isinstance(raw, Mapping) and {"guild", "channel", "messages"} <= raw.keys()


def _discord_turn(chat: Mapping[str, Any], raw: object, origin: Position) -> ChatTurn | str:
    raw = shaped(raw, lambda message: isinstance(message.get("author"), Mapping), "a message with an `author`", origin)
    if raw.get("type") not in ("Default", "Reply", None):
        return _NOTICES
    channel = chat["channel"] if isinstance(chat["channel"], Mapping) else {}
    files = [one.get("fileName") for one in raw.get("attachments") or () if isinstance(one, Mapping)]
    return ChatTurn(
        text=with_files(str(raw.get("content") or ""), files),
        speaker=str(raw["author"].get("nickname") or raw["author"].get("name") or ""),
        id=f"discord/{raw['id']}" if raw.get("id") else None,
        time=origin.event_time("timestamp", raw.get("timestamp")),
        conversation=str(channel.get("name") or channel.get("id") or "discord"),
    )


def is_facebook(raw: object) -> bool:
    """Whether an object is a chat of Facebook's or Instagram's export."""
    return isinstance(raw, Mapping) and {"participants", "messages", "thread_path"} <= raw.keys()


def _facebook_turn(chat: Mapping[str, Any], raw: object, origin: Position) -> ChatTurn | str:
    raw = shaped(raw, lambda message: bool(message.get("sender_name")), "a message with `sender_name`", origin)
    if raw.get("is_unsent") or not raw.get("content"):
        return _DELETED if raw.get("is_unsent") else _ATTACHED
    return ChatTurn(
        text=_unmangled(raw["content"]),
        speaker=_unmangled(raw["sender_name"]),
        time=origin.event_time("timestamp_ms", raw.get("timestamp_ms")),
        conversation=_unmangled(chat.get("title") or chat["thread_path"]),
    )


def _unmangled(text: object) -> str:
    """Return a text of Meta's exports, which write each byte of UTF-8 as a character."""
    try:
        return str(text).encode("latin-1").decode("utf-8")
    except UnicodeError:
        return str(text)


read_telegram: Final = _chats(_telegram_turn)
read_discord: Final = _chats(_discord_turn)
read_facebook: Final = _chats(_facebook_turn, step=-1)
