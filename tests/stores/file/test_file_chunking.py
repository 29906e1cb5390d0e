"""Chunks hold all of a text, repeat no more than the overlap, and know their lines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.text import estimate_tokens
from devmem_stores.file.chunks import Chunking, Section, chunk, lines_of, section_of, spans
from devmem_stores.file.formats import code, markdown, plain, python

TEXT = st.text(st.sampled_from("ab c.\n!。,\tü \u2028\x0c"), max_size=400)
LINES = st.lists(
    st.sampled_from(
        [
            *(
                "# One",
                "## Two",
                "### Three",
                "text.",
                "",
                "```",
                "- item",
                "---",
                "===",
                "最后。",
                "function f() {",
                "}",
            ),
            *("def f():", "    return 1", "class A:", "    def g(self): ...", "@decorator", "async def h():", '"""'),
        ]
    ),
    max_size=40,
).map("\n".join)


@st.composite
def chunkings(draw: st.DrawFn) -> Chunking:
    size = draw(st.integers(1, 60))
    return Chunking(
        size=size, overlap=draw(st.integers(0, size // 2)), unit=draw(st.sampled_from(["characters", "tokens"]))
    )


@given(TEXT, chunkings())
def test_spans_hold_everything_and_never_one_another(text: str, chunking: Chunking) -> None:
    found = spans(text, chunking)
    held = set[int]()
    for start, end in found:
        held.update(range(start, end))
    assert not "".join(char for at, char in enumerate(text) if at not in held).strip()
    for (start, end), (next_start, next_end) in pairwise(found):
        assert start < next_start <= end < next_end
        assert chunking.measure(text[next_start:end]) <= chunking.overlap
    for start, end in found:
        # A single character can be more than one token by the estimate.
        assert chunking.measure(text[start:end].strip()) <= max(chunking.size, 1) or end - start == 1


@given(TEXT, chunkings())
def test_lines_are_those_of_the_text(text: str, chunking: Chunking) -> None:
    lines = lines_of(text)
    if not text.strip():
        return
    for piece in chunk(section_of(lines, 0, len(lines)), chunking):
        cited = "".join(lines[piece.first - 1 : piece.last])
        assert piece.text in cited
        assert piece.text.split("\n")[0] in lines[piece.first - 1]
        assert piece.text.split("\n")[-1] in lines[piece.last - 1]


@pytest.mark.parametrize("reader", [plain, markdown, python, code])
@given(text=LINES)
def test_sections_hold_every_line_once(reader: Callable[[str], list[Section]], text: str) -> None:
    sections = reader(text)
    lines = lines_of(text)
    numbers = [number for section in sections for number in section.numbers]
    assert numbers == sorted(set(numbers))
    assert not "".join(line for at, line in enumerate(lines, 1) if at not in numbers).strip()
    for section in sections:
        assert section.text == "".join(lines[number - 1] for number in section.numbers)


def test_a_chunk_ends_with_a_sentence_in_scripts_without_spaces() -> None:
    text = "锅炉在地下室。钥匙挂在门边。每年春天清洗过滤器。过滤器的编号是七。" * 4
    found = [text[start:end] for start, end in spans(text, Chunking(size=40, overlap=10))]
    assert len(found) > 3
    assert all(part.endswith("。") for part in found)


def test_tokens_are_a_unit() -> None:
    text = "Internationalization matters. " * 50
    chunking = Chunking(size=40, overlap=10, unit="tokens")
    found = [text[start:end] for start, end in spans(text, chunking)]
    assert all(estimate_tokens(part) <= 40 for part in found)
    assert len(found[0]) > 60


def test_a_fence_is_kept_whole_and_a_huge_one_is_not() -> None:
    fence = "```\n" + "run --me\n" * 8 + "```\n"
    text = "Words before it. " * 4 + "\n\n" + fence + "\nWords after it.\n"
    (section,) = markdown(text)
    pieces = list(chunk(section, Chunking(size=40, overlap=10)))
    assert any(fence.strip() in piece.text for piece in pieces)
    huge = "```\n" + "run --me\n" * 80 + "```\n"
    (section,) = markdown(huge)
    assert all(len(piece.text) <= 40 for piece in chunk(section, Chunking(size=40, overlap=0)))
