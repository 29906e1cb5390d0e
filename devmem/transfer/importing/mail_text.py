"""Words that the sender of a mail wrote: the text of its parts, without quoted replies, signatures and footers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.message import Message
from typing import Final

from devmem.errors import UnreadableError
from devmem.text.files import decode_text
from devmem.text.html import read_page
from devmem.transfer.importing.files import decode_as_declared

_LONGEST_MARK: Final = 400
"""Characters of a line, or of lines together, that may introduce a quotation."""
_ATTRIBUTION: Final = re.compile(
    r"(?:On .{6,250} wrote|Am .{6,150} schrieb .{1,150}|Le .{6,250} a écrit|El .{6,250} escribió|Il .{6,250} ha scritto"
    r"|Op .{6,150} schreef .{1,150}|Em .{6,250} escreveu|.{1,150} schrieb am .{6,150}"
    r"|.{0,150}<[^<>\s]{3,100}@[^<>\s]{3,100}> (?:wrote|schrieb)) ?:",
    re.IGNORECASE,
)
_OPENERS: Final = re.compile(r"(?:On|Am|Le|El|Il|Op|Em)\b|.{0,150}\bschrieb\b|.{0,150}<[^<>\s]+@", re.IGNORECASE)
_DATED: Final = re.compile(r"\d{4}|\d{1,2}[:.]\d\d|@")
_ATTRIBUTION_LINES: Final = 4
_ORIGINAL: Final = re.compile(
    r"\W{0,4}-{2,} ?(?:Original Message|Original-?Nachricht|Ursprüngliche Nachricht|Message d'origine|Mensaje original"
    r"|Messaggio originale|Oorspronkelijk bericht|Mensagem original) ?-{2,}\W{0,4}",
    re.IGNORECASE,
)
_FORWARDED: Final = re.compile(
    r"-{2,} ?(?:Forwarded message|Weitergeleitete Nachricht|Message transféré|Mensaje reenviado|Messaggio inoltrato"
    r"|Doorgestuurd bericht)\b.{0,80}|(?:Begin forwarded message|Anfang der weitergeleiteten (?:Nachricht|E-Mail)) ?:",
    re.IGNORECASE,
)
_FORWARDING: Final = re.compile(r"\s*(?:fwd?|wg|tr|rv|doorst) ?:", re.IGNORECASE)
_FROM: Final = re.compile(r"[*\s]{0,3}(?:From|Von|De|Da|Van)[*\s]{0,3}:[*\s]{0,3}\S.{0,300}")
_OTHER_HEADERS: Final = re.compile(
    r"[*\s]{0,3}(?:Sent|Date|To|Cc|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet|Enviado|Para|Asunto|Inviato|A"
    r"|Oggetto|Verzonden|Aan|Onderwerp)[*\s]{0,3}:.{0,300}"
)
_HEADER_LINES: Final = 6
_RULE: Final = re.compile(r"[_-]{10,200}")
_QUOTE: Final = re.compile(r"\s{0,3}>")
_SHORT_SIGNATURE: Final = 12
"""Lines that may follow a signature's two hyphens where the space behind them is missing."""
_FOOTER: Final = re.compile(
    r"(?:Sent|Gesendet|Von meine[mnr]?|Diese (?:Nachricht|E-Mail) wurde von meine[mnr]?|Envoyé|Enviado|Inviato|Get)\b"
    r".{0,60}\b(?:iPhone|iPad|Android\S{0,10}|Outlook|Mobil\w{0,20}|Handy|Samsung|Galaxy|Smartphone|Yahoo|GMX|Proton\w{0,5}"
    r"|Thunderbird|Gerät|device|phone)\b.{0,60}",
    re.IGNORECASE,
)
_NESTED: Final = 50
"""Depth to which parts of parts are read."""


def is_forward(subject: str) -> bool:
    """Whether the subject is that of a forwarded mail, whose text is new to the recipient."""
    return _FORWARDING.match(subject) is not None


def own_words(text: str, *, is_forwarded: bool = False) -> str:
    """Return the text without quoted replies, signatures, and footers of mailing lists and telephones.

    Forwarded text is kept, as is everything where a mail begins with a quotation that has no marks.

    Args:
        text: with line feeds as line ends.
        is_forwarded: whether the subject is that of a forwarded mail.
    """
    lines = text.replace("\xa0", " ").split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if _FORWARDED.fullmatch(line.strip()[:_LONGEST_MARK]):
            kept.extend(_QUOTE.sub("", one, count=1).strip() for one in lines[at:])
            break
        if not is_forwarded and _begins_reply(lines, at) and any(one.strip(" _-") for one in kept):
            break
        if _is_signature(lines, at):
            # On to a forwarded mail behind it.
            while at < len(lines) and not _FORWARDED.fullmatch(lines[at].strip()[:_LONGEST_MARK]):
                at += 1
            continue
        width = _attribution(lines, at)
        following = (lines[place] for place in range(at + width, len(lines)) if lines[place].strip())
        if width and _QUOTE.match(next(following, ">")):
            # A quotation follows, or nothing.
            at += width
            continue
        if width and not is_forwarded and _DATED.search(" ".join(lines[at : at + width])):
            break
        if not _QUOTE.match(line):
            kept.append(line.rstrip())
        at += 1
    while kept and (not kept[-1].strip() or _RULE.fullmatch(kept[-1]) or _FOOTER.fullmatch(kept[-1].strip())):
        kept.pop()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _begins_reply(lines: Sequence[str], at: int) -> bool:
    """Whether the mail that is answered begins here without marks, as Outlook writes it."""
    line = lines[at]
    if len(line) > _LONGEST_MARK:
        return False
    if _ORIGINAL.fullmatch(line.strip()):
        return True
    if _FROM.fullmatch(line) is None:
        return False
    following = lines[at + 1 : at + 1 + _HEADER_LINES]
    return sum(_OTHER_HEADERS.fullmatch(one) is not None for one in following if len(one) <= _LONGEST_MARK) > 1


def _attribution(lines: Sequence[str], at: int) -> int:
    """Return the number of lines from here on that introduce a quotation, as `On ... wrote:`; 0 where none does."""
    first = lines[at].strip()
    if len(first) > _LONGEST_MARK or _OPENERS.match(first) is None:
        return 0
    joined = ""
    for width, line in enumerate(lines[at : at + _ATTRIBUTION_LINES], start=1):
        joined = f"{joined} {line.strip()}".strip()
        if not line.strip() or len(joined) > _LONGEST_MARK:
            return 0
        if joined.endswith(":"):
            return width if _ATTRIBUTION.fullmatch(joined) else 0
    return 0


def _is_signature(lines: Sequence[str], at: int) -> bool:
    """Whether a signature or the footer of a mailing list begins here."""
    line = lines[at]
    if line == "-- " or (line.rstrip() == "--" and len(lines) - at <= _SHORT_SIGNATURE):
        return True
    following = lines[at + 1][:_LONGEST_MARK].lower() if at + 1 < len(lines) else ""
    return _RULE.fullmatch(line.strip()) is not None and "mailing list" in following


def text_of_mail(message: Message, encoding: str | None) -> tuple[str, list[str]]:
    """Return the text of a mail and the names of its attachments.

    Of alternatives the plain text is taken, HTML where there is none; quotations in HTML get `>` marks.

    Args:
        message: the mail.
        encoding: of texts that do not name theirs; None detects it.
    """
    attached: list[str] = []
    text = _text_of(message, encoding, attached, 0)
    return text.replace("\0", ""), attached


def _text_of(part: Message, encoding: str | None, attached: list[str], depth: int) -> str:
    kind = part.get_content_type()
    inner = part.get_payload()
    if part.is_multipart() and isinstance(inner, list):
        if kind == "message/rfc822" or depth >= _NESTED:
            attached.append(_name_of(part) or kind)
            return ""
        texts = [(each, _text_of(each, encoding, attached, depth + 1)) for each in inner if isinstance(each, Message)]
        if kind == "multipart/alternative":
            plain = [text for each, text in texts if each.get_content_type() == "text/plain"]
            return next((text for text in [*plain, *(text for _, text in reversed(texts))] if text.strip()), "")
        return "\n\n".join(text for _, text in texts if text.strip())
    name = _name_of(part)
    if name or part.get_content_disposition() == "attachment" or kind not in ("text/plain", "text/html"):
        attached.append(name or kind)
        return ""
    return _decoded(part, kind, encoding)


def _name_of(part: Message) -> str:
    """Return the file name of a part as its header has it; empty where it has none."""
    try:
        return " ".join((part.get_filename() or "").replace("\0", "").split())[:_LONGEST_MARK]
    except (ValueError, TypeError, LookupError):
        # Malformed parameters of RFC 2231.
        return part.get_content_type()


def _decoded(part: Message, kind: str, encoding: str | None) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    declared = str(part.get_content_charset() or "") or encoding or ""
    text = decode_as_declared(data, declared) if declared else None
    try:
        text = decode_text(data, None) if text is None else text
    except UnreadableError:
        return ""
    if kind == "text/html":
        lines = ((block.is_quoted, line) for block in read_page(text).blocks for line in block.text.split("\n"))
        return "\n".join(f"> {line}" if is_quoted else line for is_quoted, line in lines)
    form, delsp = (str(part.get_param(name, "")).lower() for name in ("format", "delsp"))
    return _unflowed(text, is_joined=delsp == "yes") if form == "flowed" else text


def _unflowed(text: str, *, is_joined: bool) -> str:
    """Join the lines of paragraphs that were broken for sending (RFC 3676)."""
    lines: list[str] = []
    parts: list[str] = []
    for line in text.split("\n"):
        is_soft = line.endswith(" ") and line != "-- " and not _QUOTE.match(line)
        parts.append((line[:-1] if is_joined and is_soft else line).removeprefix(" "))
        if not is_soft:
            lines.append("".join(parts))
            parts = []
    return "\n".join([*lines, *(["".join(parts)] if parts else [])])
