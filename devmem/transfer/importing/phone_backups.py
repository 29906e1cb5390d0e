"""Messages and calls of an Android phone, in the XML files of the app SMS Backup & Restore: each a record.

The fields are described at https://synctech.com.au/sms-backup-restore/fields-in-xml-backup-files/.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from devmem.errors import DataFileError
from devmem.model.items import MemoryItem, Scope
from devmem.model.record_fields import FROM, KIND, TO, WITH
from devmem.transfer.importing.files import LARGEST_WHOLE, SLOW_CODECS, is_utf8, read_byte_lines, read_head
from devmem.transfer.importing.records import Origin, digest, text_item

_LOG: Final = logging.getLogger(__name__)
_BEGINNING: Final = re.compile(rb"(?:\s|<\?[^>]{0,500}\?>|<!--[^>]{0,500}-->)*+<(?:smses|calls)[\s>/]")
_DECLARED: Final = re.compile(rb"""<\?xml\s[^>]{0,500}?encoding\s*=\s*["']([^"'>]{1,60})["']""")
_WIDE_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ROOTS: Final = ("smses", "calls")
_RECORDS: Final = ("sms", "mms", "call")
_TAGS: Final = re.compile(rb"<(?:sms|mms|call)[\s>/]")
_CUT_OFF: Final = frozenset(
    expat.errors.codes[one]
    for one in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
)
"""Errors of a document that ends too early."""
_LONGEST_TAG: Final = 6
_REFERENCES: Final = re.compile(r"(?:&#(?:x[0-9a-fA-F]{1,6}|[0-9]{1,7});)+")
_REFERENCE: Final = re.compile(r"&#(x?)([0-9a-fA-F]+);")
_FIRST_OF_PAIR: Final = re.compile(
    r"&#(?:55(?:29[6-9]|[3-9]\d\d)|56(?:[0-2]\d\d|3[01]\d)|x[dD][89abAB][0-9a-fA-F]{2});\Z", re.ASCII
)
_LONGEST_REFERENCE: Final = 10
_PART: Final = 1 << 18
_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML does not allow; the app writes control characters nevertheless."""
_UNDECODED: Final = re.compile("[\ud800-\udfff]")
_REPLACED: Final = re.compile("\ufffd")
_WIDE: Final = ("utf-16", "utf-32")
"""Encodings whose damaged bytes a decoder cannot keep as surrogates."""
_NOTHING: Final = frozenset({"", "null", "(Unknown)"})
"""Values of attributes that stand for none."""
_OWNER: Final = "user"
"""Speaker of the messages that the owner of the phone sent, as in imported chats."""
_DRAFT: Final = "3"
_SENT: Final = {"2": "", "4": "outbox", "5": "failed", "6": "queued"}
"""Boxes of messages by the owner, each with its status where it is not known to have been sent."""
_CALLS: Final = {
    "1": "Incoming call from",
    "2": "Outgoing call to",
    "3": "Missed call from",
    "4": "Voicemail from",
    "5": "Rejected call from",
    "6": "Blocked call from",
    "7": "Call answered on another device from",
}
_HIDDEN: Final = {"2": "a private number", "3": "an unknown number", "4": "a pay phone"}
"""Callers by their `presentation`, where the network shows no number."""
_SENDER: Final = "137"
_OWN_ADDRESS: Final = "insert-address-token"
_SHORTEST_NUMBER: Final = 7
_LONGEST_CALL: Final = 30 * 86_400


@dataclass(slots=True)
class _Element:
    """A message or a call as its file has it."""

    name: str
    line: int
    attributes: Mapping[str, str]
    parts: list[Mapping[str, str]] = field(default_factory=list)
    addresses: list[tuple[str, str]] = field(default_factory=list)
    """Numbers of a multimedia message, each with its role."""

    def get(self, name: str) -> str:
        """Return an attribute; empty where it is missing or stands for none."""
        return _value(self.attributes, name)


def is_phone_backup(head: bytes) -> bool:
    """Whether a file begins as a backup of messages or calls does."""
    return _BEGINNING.match(_narrow(head)) is not None


def _narrow(head: bytes) -> bytes:
    """Return the first bytes of a file as those of an encoding with a byte a character where they are UTF-16."""
    if not head.startswith(_WIDE_MARKS) and b"\0" not in head[:2]:
        return head
    return head.removeprefix(_WIDE_MARKS[0]).removeprefix(_WIDE_MARKS[1]).replace(b"\0", b"").lstrip()


def _encoding_of(path: Path, origin: Origin) -> str:
    """Return the encoding that a file declares or shows by its first bytes; UTF-8, in which the app writes, if none.

    Raises:
        DataFileError: the file cannot be read, or there is no encoding of the declared name.
    """
    head = read_head(path)
    if head.startswith(_WIDE_MARKS):
        return "utf-16"
    if b"\0" in head[:2]:
        return "utf-16-be" if head.startswith(b"\0") else "utf-16-le"
    declared = _DECLARED.match(head)
    if declared is None:
        return "utf-8"
    named = declared[1].decode("ascii", "replace")
    try:
        name = codecs.lookup(named).name
        "".encode(name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise replace(origin, line=1).error(f"there is no encoding {named!r}; --encoding names another") from error
    if name.startswith(_WIDE) or name in SLOW_CODECS:
        return "utf-8"  # the bytes show that the declaration is wrong
    if name in ("iso8859-1", "ascii"):
        # As of web pages: texts that are labelled so are mostly Windows-1252 or UTF-8.
        return "utf-8" if is_utf8(path) else "cp1252"
    return name


def read_phone_backup(path: Path, origin: Origin, encoding: str | None) -> tuple[int, Iterator[MemoryItem]]:
    """Return the number of messages and calls in a file, and an item for each; drafts and empty ones are left out.

    Args:
        path: the file.
        origin: name of the file in messages.
        encoding: None takes the one that the file declares; UTF-8, in which the app writes, if it declares none.

    Raises:
        DataFileError: the file cannot be read or is no such backup, is damaged or was cut off, now or while the items
            are consumed.
    """
    total = _count(path)
    return total, _items(_elements(path, origin, encoding or _encoding_of(path, origin)), origin)


def _count(path: Path) -> int:
    found, rest = 0, b""
    for _, line in read_byte_lines(path):
        data = rest + line.replace(b"\0", b"")
        found += sum(1 for _ in _TAGS.finditer(data))
        # A tag may stand across two parts of a long line.
        at = data.rfind(b"<", max(len(data) - _LONGEST_TAG + 1, 0))
        rest = b"" if at < 0 or _TAGS.match(data, at) else data[at:]
    return found


def _elements(path: Path, origin: Origin, encoding: str) -> Iterator[_Element]:
    """Yield the messages and calls of a file, each when its element ends; raises `DataFileError` for damaged XML."""
    collector = _Collector(origin)
    parsed, waiting = 0, bytearray()
    for text in _texts(path, origin, encoding):
        waiting += text.encode("utf-8")
        # The parser reads a tag that has not ended again with each part, so the parts of a picture double.
        if len(waiting) < parsed:
            continue
        parsed = 0 if collector.feed(bytes(waiting)) else parsed + len(waiting)
        waiting.clear()
        yield from collector.take()
        if parsed > LARGEST_WHOLE:
            raise replace(origin, line=collector.line).error(f"a tag has more than {LARGEST_WHOLE:,} bytes")
    collector.feed(bytes(waiting), is_final=True)
    yield from collector.take()
    collector.check_count()


def _texts(path: Path, origin: Origin, encoding: str) -> Iterator[str]:
    """Yield a file in parts as XML that a parser accepts.

    The app writes an emoji, as each character beyond the first 65,536, as references to its two surrogates. Bytes that
    are not of the encoding become U+FFFD, and are named in the log.

    Raises:
        DataFileError: the file cannot be read, or its encoding has no replacement for bytes that are not of it.
    """
    is_wide = codecs.lookup(encoding).name.startswith(_WIDE)
    decoder = codecs.getincrementaldecoder(encoding)("replace" if is_wide else "surrogateescape")
    undecoded = _REPLACED if is_wide else _UNDECODED
    lines: list[str] = []
    size, rest, number, is_damaged = 0, "", 1, False

    def decode(data: bytes, *, final: bool = False) -> str:
        try:
            return decoder.decode(data, final)
        except UnicodeError as error:
            # Of UTF-7 and HZ, for example, bytes cannot be kept as surrogates.
            raise replace(origin, line=number).error(
                f"it is not {encoding} ({error}); --encoding names another"
            ) from error

    for _, line in read_byte_lines(path):
        decoded = decode(line)
        if not decoded.isascii() and (found := undecoded.search(decoded)) is not None:
            if not is_damaged:
                # A line of bytes is none of the text in UTF-16, which has the byte of a line feed in other characters.
                damage = replace(origin, line=number + decoded.count("\n", 0, found.start())).error(
                    f"characters that are not {encoding} are replaced; --encoding names another"
                )
                _LOG.warning("%s", damage)
            is_damaged, decoded = True, undecoded.sub("\ufffd", decoded)
        number += decoded.count("\n")
        lines.append(decoded)
        size += len(line)
        if size < _PART:
            continue
        text = rest + "".join(lines)
        end = _end_of_part(text)
        yield _accepted(text[:end])
        lines, size, rest = [], 0, text[end:]
    yield _accepted(rest + "".join(lines) + _UNDECODED.sub("\ufffd", decode(b"", final=True)))


def _end_of_part(text: str) -> int:
    """Return where a text can be split: before a reference that may go on, and the first of its pair."""
    start = text.rfind("&", max(len(text) - _LONGEST_REFERENCE, 0))
    if start < 0:
        return len(text)
    before = _FIRST_OF_PAIR.search(text, max(start - _LONGEST_REFERENCE, 0), start)
    return before.start() if before else start


def _accepted(text: str) -> str:
    return _REFERENCES.sub(_joined, _ILLEGAL.sub(" ", text)).removeprefix("\ufeff")


def _joined(found: re.Match[str]) -> str:
    """Return references with each pair of surrogates joined, and those to characters that XML lacks replaced."""
    codes = [int(digits, 16 if is_hex else 10) for is_hex, digits in _REFERENCE.findall(found[0])]
    text = "".join(chr(code) if code < 0x110000 else "\ufffd" for code in codes)
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return "".join(f"&#{ord(character)};" for character in _ILLEGAL.sub(" ", joined))


class _Collector:
    """The handlers of a parser's events, which build the messages and calls of a document."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._done: list[_Element] = []
        self._declared = ""
        self._found = 0
        self._error: DataFileError | None = None
        self._open: _Element | None = None
        self._has_root = self._has_tags = False
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        # Entities, which expand to any size, are declared in a document type, and a backup has none.
        self._parser.StartDoctypeDeclHandler = self._refuse

    @property
    def line(self) -> int:
        """Number of the line that is read, 1-based."""
        return self._parser.CurrentLineNumber

    def feed(self, data: bytes, *, is_final: bool = False) -> bool:
        """Parse the next bytes, and return whether a tag ended in them; `take` raises what is wrong with them."""
        self._has_tags = False
        try:
            self._parser.Parse(data, is_final)
        except expat.ExpatError as error:
            is_cut = is_final and error.code in _CUT_OFF
            reason = "the file is cut off" if is_cut else f"damaged XML: {expat.ErrorString(error.code)}"
            self._error = replace(self._origin, line=error.lineno).error(reason)
        except DataFileError as error:
            self._error = error
        return self._has_tags

    def take(self) -> Iterator[_Element]:
        """Yield the elements that have ended since the last call; raises `DataFileError` behind the last whole one."""
        found, self._done = self._done, []
        yield from found
        if self._error is not None:
            raise self._error

    def check_count(self) -> None:
        """Log that the document has another number of messages and calls than it declares."""
        declared = int(self._declared) if re.fullmatch("[0-9]{1,12}", self._declared) else self._found
        if declared != self._found:
            lacks = "; the backup may be incomplete" if declared > self._found else ""
            _LOG.warning(
                "%s: the file declares %s messages or calls (`count`) and has %s%s",
                self._origin.path, f"{declared:,}", f"{self._found:,}", lacks,
            )  # fmt: skip

    def _refuse(self, *_: object) -> None:
        raise replace(self._origin, line=self.line).error(
            "it declares a document type, which no backup of a phone does; remove the line"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._has_root and name not in _ROOTS:
            raise replace(self._origin, line=self.line).error(
                f"expected <smses> or <calls>, found <{name[:40]}>, so it is no backup of a phone"
            )
        if not self._has_root:
            self._declared = attributes.get("count", "").strip()
        self._has_root = self._has_tags = True
        if name in _RECORDS:
            self._found += 1
            self._open = _Element(name, self.line, attributes)
        elif self._open is not None and name == "part":
            # The picture itself, in base64, is not kept.
            self._open.parts.append({key: value for key, value in attributes.items() if key != "data"})
        elif self._open is not None and name == "addr":
            self._open.addresses.append((_value(attributes, "address"), _value(attributes, "type")))

    def _end(self, name: str) -> None:
        self._has_tags = True
        if self._open is not None and name == self._open.name:
            self._done.append(self._open)
            self._open = None


def _items(elements: Iterator[_Element], origin: Origin) -> Iterator[MemoryItem]:
    left_out: Counter[str] = Counter()
    people = _People()
    for one in elements:
        here = replace(origin, line=one.line, entry=one.name)
        people.learn(one.get("address") or one.get("number"), one.get("contact_name"))
        if one.name == "call":
            yield _call(one, here, people)
        elif _box(one) == _DRAFT:
            left_out["drafts"] += 1
        elif text := _text(one):
            yield _message(one, text, here, people)
        else:
            left_out["messages without a text"] += 1
    if left_out:
        _LOG.warning(
            "%s: left out: %s", origin.path, ", ".join(f"{kind}: {number}" for kind, number in left_out.items())
        )


class _People:
    """Names of numbers, as the messages and calls of a file show them."""

    def __init__(self) -> None:
        self._names: dict[str, list[tuple[str, str]]] = {}

    def learn(self, number: str, name: str) -> None:
        """Note the name of a number; that of a group, which has several, is not noted."""
        digits = _digits(number)
        if name and "~" not in number and len(digits) >= _SHORTEST_NUMBER:
            known = self._names.setdefault(digits[-_SHORTEST_NUMBER:], [])
            if (digits, name) not in known:
                known.append((digits, name))

    def name(self, number: str) -> str:
        """Return the name of a number, with or without its country's code; the number itself where it has none."""
        digits = _digits(number)
        known = self._names.get(digits[-_SHORTEST_NUMBER:], []) if len(digits) >= _SHORTEST_NUMBER else []
        same = (name for other, name in reversed(known) if other.endswith(digits) or digits.endswith(other))
        return next(same, number)


def _digits(number: str) -> str:
    """Return the digits of a number, without the zeros for which a country's code stands."""
    return re.sub(r"\D", "", number).lstrip("0")


def _value(attributes: Mapping[str, str], name: str) -> str:
    value = attributes.get(name, "").strip()
    return "" if value in _NOTHING else value


def _box(message: _Element) -> str:
    return message.get("type" if message.name == "sms" else "msg_box")


def _text(message: _Element) -> str:
    """Return the text of a message, with its subject and the names of what it carries; empty where it has none."""
    subject = message.get("subject" if message.name == "sms" else "sub")
    return "\n".join(filter(None, [subject, message.get("body"), *map(_part, message.parts)]))


def _part(part: Mapping[str, str]) -> str:
    kind, _, form = _value(part, "ct").partition("/")
    if kind == "text" and form == "plain":
        return _value(part, "text")
    if form == "smil" or not kind:
        return ""
    named = next(filter(None, (_value(part, key) for key in ("name", "fn", "cl"))), "")
    shown = kind if kind in ("image", "audio", "video") else "file"
    return f"[{shown}: {named[:200]}]" if named else f"[{shown}]"


def _message(message: _Element, text: str, origin: Origin, people: _People) -> MemoryItem:
    address, box = message.get("address"), _box(message)
    is_own = box in _SENT
    sender = next((number for number, role in message.addresses if role == _SENDER and number != _OWN_ADDRESS), "")
    others = _correspondents(message, people, sender if not is_own else "")
    speaker = _OWNER if is_own else people.name(sender) if sender and "~" in address else next(iter(others), "")
    about = {
        "speaker": speaker,
        KIND: "message",
        WITH: others,
        "number": address.split("~") if "~" in address else address,
        "status": _SENT.get(box, ""),
    }
    return text_item(
        origin=origin,
        id=digest(message.name, address, message.get("date"), box, message.get("m_id"), text),
        text=text,
        speaker=speaker,
        event_time=_time(message, origin),
        scope=Scope(conversation=message.get("contact_name") or ", ".join(others) or None),
        metadata={key: value for key, value in about.items() if value},
    )


def _correspondents(message: _Element, people: _People, sender: str) -> list[str]:
    """Return the names of those that a message is from or to, other than the owner; numbers where they have none."""
    named = message.get("contact_name")
    numbers = [number for number in message.get("address").split("~") if number]
    if len(numbers) < 2:
        return [named or people.name(one) for one in numbers or [sender] if one or named]
    return list(dict.fromkeys(people.name(number) for number in filter(None, [*numbers, sender])))


def _call(call: _Element, origin: Origin, people: _People) -> MemoryItem:
    number = call.get("number")
    number = "" if number.startswith("-") else number
    other = call.get("contact_name") or people.name(number)
    time, duration = _time(call, origin), _duration(call, origin)
    about: dict[str, Any] = {KIND: "call", WITH: [other] if other else [], "number": number}
    if time is not None and duration:
        about |= {FROM: _iso(time), TO: _iso(time + duration)}
    caller = other or _HIDDEN.get(call.get("presentation"), "an unknown number")
    lasted = f", {_lasting(duration)}" if duration else ""
    return text_item(
        origin=origin,
        id=digest("call", number, call.get("date"), call.get("type")),
        text=f"{_CALLS.get(call.get('type'), 'Call with')} {caller}{lasted}",
        event_time=time,
        metadata={key: value for key, value in about.items() if value},
    )


def _time(element: _Element, origin: Origin) -> float | None:
    """Return the time of a message or a call, whose `date` is in milliseconds; any other date is named in the log."""
    raw = element.get("date")
    milliseconds = int(raw) if re.fullmatch(r"-?[0-9]{1,18}", raw) else None
    return origin.time_or_none("date", raw or None if milliseconds is None else milliseconds / 1000)


def _duration(call: _Element, origin: Origin) -> int:
    """Return how long a call lasted, in seconds; 0 where it is not known."""
    raw = call.get("duration")
    seconds = int(raw) if re.fullmatch(r"[0-9]{1,9}", raw) else _LONGEST_CALL
    if raw and seconds >= _LONGEST_CALL:
        _LOG.warning("%s; it is left out", origin.error(f"'duration': not the seconds of a call: {raw[:40]!r}"))
    return seconds if seconds < _LONGEST_CALL else 0


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat()


def _lasting(seconds: int) -> str:
    """Return a duration as `1 h 2 min 3 s`."""
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
