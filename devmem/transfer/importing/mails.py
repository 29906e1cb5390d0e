"""Mails, `.eml` files and mbox mailboxes: a mail an item, with its sender and its time; a thread is a conversation."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.errors import CloseBoundaryNotFoundDefect, HeaderParseError, StartBoundaryNotFoundDefect
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import getaddresses, parseaddr, parsedate_to_datetime
from typing import Any, Final

from devmem.model.items import MemoryItem
from devmem.model.record_fields import WITH
from devmem.transfer.importing.files import LARGEST_WHOLE, FileReader, decode_as_declared
from devmem.transfer.importing.mail_text import is_forward, own_words, text_of_mail
from devmem.transfer.importing.records import ChatTurn, Position, digest, turn_items

_LOG: Final = logging.getLogger(__name__)
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_SEPARATOR: Final = re.compile(rb"From .{0,300}?\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.{0,40}\d\d:\d\d.{0,60}\r?\n?")
_HEADER: Final = re.compile(rb"[!-9;-~]{1,100}:|>From ")
_ESCAPED: Final = re.compile(rb"^>(>*From )", re.MULTILINE)
_HEADERS_END: Final = re.compile(rb"\r?\n\r?\n")
_MAIL_HEADERS: Final = frozenset(
    b"from date subject message-id received return-path delivered-to mime-version to x-gm-thrid".split()
)
_LARGEST_HEADER: Final = 20_000
"""Characters of a header that are read."""
_LARGEST_HEADERS: Final = 1_000_000
"""Bytes of a mail in which its headers are looked for."""
_IDS: Final = re.compile(r"<([^<>\s]{1,500})>")
_SEARCHED: Final = ("subject", "attachments")
_UNCLOSED: Final = (CloseBoundaryNotFoundDefect, StartBoundaryNotFoundDefect)


def is_mbox(head: bytes) -> bool:
    """Whether a file begins as a mailbox does, with `From SENDER DATE` and a header."""
    first, _, rest = head.lstrip(b"\r\n").partition(b"\n")
    return _SEPARATOR.fullmatch(first + b"\n") is not None and _HEADER.match(rest) is not None


def is_mail(head: bytes) -> bool:
    """Whether a file begins as a mail does: with headers, two of which mails have."""
    names = [line.partition(b":")[0].lower() for line in head.splitlines()[:40] if _HEADER.match(line)]
    first = head.partition(b"\n")[0]
    return _HEADER.match(first) is not None and len(_MAIL_HEADERS.intersection(names)) > 1


@dataclass(frozen=True, slots=True)
class _Raw:
    """A mail as its file has it."""

    number: int
    """1-based, in the mailbox."""
    line: int
    """1-based line on which it begins."""
    separator: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Mailbox:
    """Facts of a file from the headers of all its mails."""

    count: int
    parents: Mapping[str, str]
    """Ids of mails by those of the mails that follow them."""
    owners: frozenset[str]
    """Addresses, in lower case, to which mails were delivered."""


def read_eml(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield the item of a mail; none where it has neither a text nor a subject nor an attachment.

    Raises:
        DataFileError: the file cannot be read, or is not mail.
    """
    data = source.data().removeprefix(_UTF8_MARK).lstrip(b"\r\n")
    if _HEADER.match(data) is None:
        raise replace(origin, line=1).error("it begins without a header, so it is not mail; --format text reads a text")
    mails = [_Raw(1, 1, "", data)]
    yield from _items(mails, _survey(mails, origin), origin, source.encoding)


def read_mbox(source: FileReader, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each mail in a mailbox that has a text.

    A mail whose end is missing is read as far as it goes, and named in the log.

    Raises:
        DataFileError: the file cannot be read or is no mailbox.
    """
    mailbox = _survey(_split(source, origin), origin)
    yield from _items(_split(source, origin), mailbox, origin, source.encoding)


def _survey(mails: Iterable[_Raw], origin: Position) -> _Mailbox:
    count = 0
    parents: dict[str, str] = {}
    owners: set[str] = set()
    for raw in mails:
        count += 1
        message = _parsed(raw, origin, only_headers=True)
        owners.update(address.lower() for _, address in _people(message, "delivered-to"))
        own, above = _own_id(message), _parent(message)
        if own and above:
            parents.setdefault(own, above)
    return _Mailbox(count, parents, frozenset(owners))


def _split(source: FileReader, origin: Position) -> Iterator[_Raw]:
    """Yield the mails of a mailbox, which begin with `From SENDER DATE` above a header."""
    number, start, separator = 0, 0, b""
    data = bytearray()
    waiting: tuple[int, bytes] | None = None
    is_new = True
    for line_number, raw in source.byte_lines():
        # Some editors write the mark.
        line = raw.removeprefix(_UTF8_MARK) if line_number == 1 else raw
        if waiting is not None:
            if _HEADER.match(line):
                if number:
                    yield _Raw(number, start, separator.decode("ascii", "replace"), bytes(data))
                number, (start, separator), data = number + 1, waiting, bytearray()
            else:
                data += waiting[1]
            waiting = None
        if is_new and line.startswith(b"From ") and _SEPARATOR.fullmatch(line):
            waiting = line_number, line
        elif number or line.strip():
            if not number:
                raise replace(origin, line=line_number).error(
                    "it does not begin with `From SENDER DATE`, so it is no mbox; --format eml reads a single mail"
                )
            data += line
        if len(data) > LARGEST_WHOLE:
            raise replace(origin, line=start).error(f"mail {number} has more than {LARGEST_WHOLE:,} bytes")
        is_new = line.endswith(b"\n")
    if number:
        yield _Raw(number, start, separator.decode("ascii", "replace"), bytes(data))


def _items(mails: Iterable[_Raw], mailbox: _Mailbox, origin: Position, encoding: str | None) -> Iterator[MemoryItem]:
    def turn(raw: _Raw, here: Position) -> ChatTurn:
        message = _parsed(raw, here)
        is_last, reason = raw.number == mailbox.count, ""
        if is_last and _HEADERS_END.search(raw.data) is None:
            reason = "it is cut off within its headers"
        elif is_last and any(isinstance(defect, _UNCLOSED) for defect in message.defects):
            reason = "it is cut off: its last part has no end"
        if reason:
            _LOG.warning("%s; it is read as far as it goes", here.error(reason))
        return _turn(raw, message, mailbox, here, encoding)

    each = ((raw, replace(origin, line=raw.line, entry=f"mail {raw.number}")) for raw in mails)
    yield from (replace(item, indexed_fields=_SEARCHED) for item in turn_items(each, turn))


def _parsed(raw: _Raw, origin: Position, *, only_headers: bool = False) -> Message:
    """Parse a mail; raises `DataFileError` where its parts nest too deeply."""
    end = _HEADERS_END.search(raw.data, 0, _LARGEST_HEADERS)
    head = raw.data[: end.end() if end else _LARGEST_HEADERS]
    if only_headers:
        return BytesParser(policy=compat32).parsebytes(head, headersonly=True)
    body = raw.data[len(head) :]
    try:
        whole = head + (_ESCAPED.sub(rb"\1", body) if raw.separator else body)
        return BytesParser(policy=compat32).parsebytes(whole)
    except RecursionError as error:
        raise origin.error("its parts nest too deeply") from error


def _turn(raw: _Raw, message: Message, mailbox: _Mailbox, origin: Position, encoding: str | None) -> ChatTurn:
    subject = _header(message, "subject")
    sender, address = _sender(message)
    text, attached = text_of_mail(message, encoding)
    words = own_words(text, is_forwarded=is_forward(subject))
    to, copied = _people(message, "to"), _people(message, "cc")
    others = [(name or mail) for name, mail in ((sender, address), *to, *copied) if mail.lower() not in mailbox.owners]
    own = _own_id(message)
    about: dict[str, Any] = {
        "subject": subject,
        "from": address,
        "to": [one for _, one in to],
        "cc": [one for _, one in copied],
        # Without the mailbox's owner.
        WITH: list(dict.fromkeys(filter(None, others))),
        "attachments": attached,
        "labels": [label.strip() for label in _header(message, "x-gmail-labels").split(",") if label.strip()],
        "message_id": own,
    }
    return ChatTurn(
        text=words or subject or "\n".join(f"[file: {name}]" for name in attached),
        speaker=sender or address,
        id=digest("mail", own, address, _header(message, "date")) if own else None,
        time=_time(raw, message, origin),
        conversation=_thread(message, own, mailbox.parents),
        metadata=about,
    )


def _thread(message: Message, own: str, parents: Mapping[str, str]) -> str | None:
    """Return the id of the first mail of the thread, as far as headers and mailbox know it; None without any id."""
    at = _parent(message) or own
    seen: set[str] = set()
    while at in parents and at not in seen:
        seen.add(at)
        at = parents[at]
    return at or None


def _parent(message: Message) -> str:
    """Return the id of the earliest mail that a mail names as one that it follows; empty where it follows none."""
    above = _IDS.findall(_header(message, "references")) or _IDS.findall(_header(message, "in-reply-to"))
    return str(above[0]) if above else ""


def _own_id(message: Message) -> str:
    raw = _header(message, "message-id")
    found = _IDS.search(raw)
    return found[1] if found else raw[:500].strip()


def _time(raw: _Raw, message: Message, origin: Position) -> float | None:
    """Return the time of a mail, in seconds since the epoch: of its `Date`, or else of the line above it."""
    written = _header(message, "date")
    below = re.search(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*", raw.separator)
    for text in (written, below[0] if below else ""):
        try:
            found = parsedate_to_datetime(text)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            if text and text == written:
                _LOG.warning("%s", origin.error(f"'Date': not a time: {text[:60]!r}"))
    return None


def _sender(message: Message) -> tuple[str, str]:
    """Return name and address of the sender, each empty where it is not known."""
    raw = _raw_header(message, "from") or _raw_header(message, "sender") or _raw_header(message, "reply-to")
    try:
        name, address = parseaddr(raw[:_LARGEST_HEADER])
    except RecursionError:
        # Comments in comments; the header is no address of anybody.
        name, address = "", ""
    if not name and not address:
        return _words(raw)[:200], ""
    return _words(name).strip("'\" ")[:200], address[:500]


def _people(message: Message, name: str) -> list[tuple[str, str]]:
    """Return names and addresses of a header; a name is empty where it is not known."""
    try:
        found = getaddresses([_raw_header(message, name)[:_LARGEST_HEADER]])
    except RecursionError:
        return []
    return [(_words(shown).strip("'\" ")[:200], address) for shown, address in found if address]


def _header(message: Message, name: str) -> str:
    """Return a header as a person reads it; empty where it is missing."""
    return _words(_raw_header(message, name))


def _raw_header(message: Message, name: str) -> str:
    """Return the first header of a name, unfolded, its bytes read as UTF-8 or else as Windows-1252."""
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name), "")[:_LARGEST_HEADER]
    data = raw.encode("utf-8", "surrogateescape")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    return " ".join(text.replace("\0", "").split())


def _words(text: str) -> str:
    """Return a header with its encoded words (RFC 2047) decoded; one with a damaged word stays as it is written."""
    try:
        parts = decode_header(text)
    except (HeaderParseError, ValueError):
        return text
    whole = "".join(part if isinstance(part, str) else _decoded(charset, part) for part, charset in parts)
    return " ".join(whole.replace("\0", "").split())


def _decoded(charset: str | None, data: bytes) -> str:
    if charset is None:
        return data.decode("raw-unicode-escape")
    text = decode_as_declared(data, charset.partition("*")[0])
    return data.decode("utf-8", "replace") if text is None else text
