"""Chunks of a file's sections, and the limits that a file has to keep.

The process that parses files imports this, and starts in a quarter of the time without pydantic and numpy.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Final

from devmem.text import estimate_tokens, split_sentences

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a file that belongs together: below one heading, one definition, one record, one page."""

    text: str
    numbers: Sequence[int]
    """For each line of the text, the 1-based line of the file that it comes from."""
    heading: tuple[str, ...] = ()
    """Its headings, outermost first."""
    symbol: str | None = None
    """Name of the definition, such as `Class.method`."""
    page: int | None = None
    """1-based, where the file has pages."""
    last: int | None = None
    """The last line, where it is not the last of `numbers`: a record that spans several lines."""
    whole: tuple[range, ...] = ()
    """Lines of the text (0-based) that should not be torn apart: code fences."""


def lines_of(text: str) -> list[str]:
    """Split at line feeds alone, as editors count lines; the lines keep them."""
    return _LINE.findall(text)


def section_of(
    lines: Sequence[str], start: int, end: int, *, heading: tuple[str, ...] = (), symbol: str | None = None
) -> Section:
    """Make a section of the lines from `start` up to `end` (0-based, exclusive); they keep their line ends."""
    return Section(text="".join(lines[start:end]), numbers=range(start + 1, end + 1), heading=heading, symbol=symbol)


_WHOLE: Final = 4
"""A code fence is kept whole up to this multiple of the chunk size."""
_WORD_END: Final = re.compile(r"\s+")

Measure = Callable[[str], int]
Span = tuple[int, int]
"""Start and end in the text, the end exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """Length of chunks."""

    size: int
    overlap: int
    unit: str = "characters"
    """`characters` or `tokens`."""

    @property
    def measure(self) -> Measure:
        """Function that measures a text in the unit."""
        return len if self.unit == "characters" else estimate_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A chunk's text and where it stands."""

    text: str
    first: int
    """1-based line of the file."""
    last: int


def chunk(section: Section, chunking: Chunking) -> Iterator[Piece]:
    """Split a section; together the pieces hold all of its text but the blanks around them."""
    lines = lines_of(section.text)
    starts = [0, *accumulate(len(line) for line in lines)]
    fences = [(starts[part.start], starts[part.stop]) for part in section.whole]
    for start, end in spans(section.text, chunking, fences):
        stripped = section.text[start:end].strip("\n").rstrip()
        if not stripped.strip():
            continue
        begin = start + section.text[start:end].index(stripped)
        first = bisect_right(starts, begin) - 1
        last = bisect_right(starts, begin + len(stripped) - 1) - 1
        at_end = section.last is not None and last == len(section.numbers) - 1
        yield Piece(
            text=stripped,
            first=section.numbers[first],
            last=section.last if at_end and section.last is not None else section.numbers[last],
        )


def spans(text: str, chunking: Chunking, whole: Sequence[Span] = ()) -> list[Span]:
    """Return the chunks of a text as spans, in order; only blanks lie between two of them."""
    if chunking.measure(text) <= chunking.size:
        return [(0, len(text))] if text.strip() else []
    found: list[Span] = []
    start = end = length = 0
    for unit_start, unit_end in _units(text, chunking, whole):
        cost = chunking.measure(text[unit_start:unit_end])
        if length and length + cost > chunking.size and text[start:end].strip():
            found.append((start, end))
            start = _overlap_start(text, start, end, chunking, chunking.size - cost)
            length = chunking.measure(text[start:end]) if start < end else 0
        end = unit_end
        length += cost
    if text[start:end].strip():
        found.append((start, end))
    return found


def _units(text: str, chunking: Chunking, whole: Sequence[Span]) -> Iterator[Span]:
    """Return the units that a chunk keeps whole where it can: fences, sentences, lines; longer ones in parts."""
    at = 0
    for start, end in [*whole, (len(text), len(text))]:
        for sentence in split_sentences(text[at:start]):
            yield from _parts(text, at, at + len(sentence), chunking)
            at += len(sentence)
        if start < end:
            if chunking.measure(text[start:end]) <= _WHOLE * chunking.size:
                yield start, end
            else:
                yield from _parts(text, start, end, chunking)
        at = end


def _parts(text: str, start: int, end: int, chunking: Chunking) -> Iterator[Span]:
    """Split what is too long for a chunk at a line's end, at a blank, or anywhere."""
    window = 8 * chunking.size
    # Measuring all that is left for each part takes quadratic time.
    while chunking.measure(text[start : min(end, start + window)]) > chunking.size or (
        end - start > window and chunking.measure(text[start:end]) > chunking.size
    ):
        most = start + _fitting(text, start, end, chunking)
        cut = text.rfind("\n", start, most) + 1
        if cut <= start:
            blanks = [match.end() for match in _WORD_END.finditer(text, start + (most - start) // 2, most)]
            cut = blanks[-1] if blanks else most
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _fitting(text: str, start: int, end: int, chunking: Chunking) -> int:
    """Return the number of characters from `start` that fit into a chunk, at least one."""
    if chunking.unit == "characters":
        return chunking.size
    low, high = 1, min(end - start, 8 * chunking.size)
    while low < high:
        middle = (low + high + 1) // 2
        if chunking.measure(text[start : start + middle]) <= chunking.size:
            low = middle
        else:
            high = middle - 1
    return low


def _overlap_start(text: str, start: int, end: int, chunking: Chunking, room: int) -> int:
    """Return where the next chunk begins: at a sentence, else at a word, so that it repeats at most `overlap`."""
    most = min(chunking.overlap, room)
    if most <= 0:
        return end
    begin = end
    for sentence in reversed(split_sentences(text[start:end])):
        if chunking.measure(text[begin - len(sentence) : end]) > most:
            break
        begin -= len(sentence)
    if begin < end:
        return max(begin, start + 1)
    for match in _WORD_END.finditer(text, max(start, end - 8 * most), end):
        if match.end() < end and chunking.measure(text[match.end() : end]) <= most:
            return match.end()
    return end


VERSION: Final = "1"
"""Recorded with every file; files chunked by another version are chunked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a file that is found, shown and embedded as one."""

    id: str
    """Made of the file's name and the content, so that a chunk which only moved keeps it."""
    summary: str
    """Its headings or its symbol, and its text."""
    hash: str
    """SHA-256 of the summary: equal ones have the same embedding."""
    first: int
    """1-based line of the file."""
    last: int
    heading: tuple[str, ...] = ()
    """Headings of its section, outermost first."""
    symbol: str | None = None
    """Name of the definition that it is part of, such as `Class.method`."""
    page: int | None = None
    """1-based, where the file has pages."""


def chunks_of(name: str, sections: Iterable[Section], chunking: Chunking) -> Iterator[Chunk]:
    """Split the sections of a file, in order."""
    seen: Counter[str] = Counter()
    for section in sections:
        for piece in chunk(section, chunking):
            summary = _summary(section, piece.text)
            digest = sha256(summary.encode()).hexdigest()
            key = f"{name}\0{digest}\0{seen[digest]}"
            seen[digest] += 1
            yield Chunk(
                id=sha256(key.encode()).hexdigest()[:32],
                summary=summary,
                hash=digest,
                first=piece.first,
                last=piece.last,
                heading=section.heading,
                symbol=section.symbol,
                page=section.page,
            )


def _summary(section: Section, text: str) -> str:
    """Put the headings before the text, without those that its first line contains."""
    first = text.split("\n", 1)[0]
    above = [part for part in section.heading if part and part not in first]
    # A definition's own line has its name, but not the class that it is in.
    if section.symbol and ("." in section.symbol or section.symbol not in first):
        above.append(section.symbol)
    return f"{' > '.join(above)}\n{text}" if above else text


FREE_CHARACTERS: Final = 1_000_000
"""Characters of text that a file of any size may have: small files may well expand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseLimits:
    """Limits of a single file; one beyond them is reported and not indexed."""

    max_bytes: int
    max_chunks: int
    max_seconds: float
    """Longest time to parse the file."""
    max_expansion: float
    """Characters of chunk text for each byte of the file, beyond the first million."""
    max_memory: int
    """Bytes of memory that parsing may take; enforced on Linux only."""
