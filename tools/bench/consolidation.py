"""Near-duplicates and traps put into conversations: what a consolidation merges, and what a search finds after it.

A share of the turns is stored again with other case, marks, layout or courtesies, or with a slip of the pen; beside
them stand traps, which differ from a turn in a number, a name, a negation, a word or a question mark.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Annotated, Final, TypeAlias

import typer

import devmem
from devmem.memory.memory import Memory
from devmem.model.items import MemoryItem
from devmem.model.versions import MERGED
from devmem.stores.consolidation import Consolidation
from devmem.stores.digests import DIGEST
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.dataset import Haystack
from tools.bench.rows import JsonFile, Row, report

_SHARES: Final = (0.0, 0.05, 0.2, 0.35)
_TRAPS: Final = 0.05
_SHOWN: Final = 10
_LATER: Final = 60.0
"""Seconds after which a turn is stored again."""
_IDS: Final = ("dia_id", "unit_id")
"""Metadata in which every turn differs."""
_LEAST_PRECISION: Final = 0.99
_MOST_LOSS: Final = 0.005
Change: TypeAlias = Callable[[str, Random], str]
"""Returns another text, or the same where it does not apply."""

_WRITTEN_OUT: Final = {"I'm": "I am", "don't": "do not", "it's": "it is", "can't": "cannot", "you're": "you are"}


def _replaced(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Change:
    return lambda text, _: re.sub(pattern, new, text, count=1)


def _spaced(text: str, chance: Random) -> str:
    words = text.split()
    at = chance.randrange(len(words)) if words else 0
    return "  ".join(words[:at]) + "\n" + " ".join(words[at:])


def _marked(text: str, _: Random) -> str:
    first, _space, rest = text.partition(" ")
    return f"- **{first}** {rest}"


def _written_out(text: str, _: Random) -> str:
    for short, long in _WRITTEN_OUT.items():
        text = text.replace(short, long)
    return text


def _slipped(text: str, chance: Random) -> str:
    """Exchange two letters of a long word."""
    words = list(re.finditer(r"\b[a-z]{6,}\b", text))
    if not words:
        return text
    at = chance.choice(words).start() + 2
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _other_word(text: str, chance: Random) -> str:
    words = list(re.finditer(r"(?<=[a-z] )[a-z]{4,}\b", text))
    if not words:
        return text
    found = chance.choice(words)
    return f"{text[: found.start()]}{chance.choice(('garden', 'violin', 'expensive', 'yellow'))}{text[found.end() :]}"


_SAME: Final[Mapping[str, Change]] = {
    "case": lambda text, chance: text.upper() if chance.random() < 0.3 else text.lower(),
    "marks": lambda text, _: re.sub(r"[.!,;]", "", text) + " ...",
    "typography": lambda text, _: text.replace("'", "’").replace(" - ", " – ").replace('"', "”"),
    "layout": _spaced,
    "markup": _marked,
    "contractions": _written_out,
    "courtesies": lambda text, chance: f"Hi! {text}" if chance.random() < 0.5 else f"{text.rstrip(' .!')}. Thanks!",
    "articles": _replaced(r"(?<=[a-z] )(?:the|a) ", ""),
    "slip of the pen": _slipped,
}
_TRAPPED: Final[Mapping[str, Change]] = {
    "number": _replaced(r"\d+", lambda found: str(int(found[0]) + 1)),
    "negation": _replaced(r"\b(is|are|was|were|have|do|can|will)\b(?! not|n't)", r"\1 not"),
    "name": _replaced(r"(?<=[a-z] )[A-Z][a-z]{2,}", "Ferdinand"),
    "word": _other_word,
    "question": lambda text, _: text.rstrip(".! ") + "?" if text.endswith((".", "!")) else text,
}


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Conversations with questions and evidence.")],
    json_file: JsonFile = None,
) -> None:
    """Merge injected near-duplicates of conversations, and count what was merged wrongly and what is found after it.

    Exits with 1 if the precision is below 99 %, or recall@10 of the evidence falls by more than 0.5 points.
    """
    rows = [
        row
        for dataset in read_datasets(data)
        for share in _SHARES
        for row in _of(dataset.haystacks, dataset.name, share)
    ]
    report(rows, json_file)
    if any(_is_too_bad(row) for row in rows):
        raise typer.Exit(1)


def _is_too_bad(row: Row) -> bool:
    return (row.metric == "precision" and row.value < _LEAST_PRECISION) or (
        row.metric == "loss of recall@10" and row.value > _MOST_LOSS
    )


def _of(haystacks: Sequence[Haystack], dataset: str, share: float) -> Iterator[Row]:
    counts, found, before, after = Counter[str](), Counter[str](), list[float](), list[float]()
    digested: list[float] = []
    for haystack in haystacks:
        with (
            tempfile.TemporaryDirectory(prefix="devmem-consolidation-") as folder,
            devmem.open(Path(folder) / "notes.db", embedding=None) as memory,
        ):
            origins = _filled(memory, haystack, share)
            before += _recalls(memory, haystack, origins)
            done = memory.consolidate(ignore=_IDS)
            after += _recalls(memory, haystack, origins)
            digests = memory.consolidate(ignore=_IDS, digest_before=time.time()).digests
            digested += _recalls(memory, haystack, origins)
        counts["items"] += done.items
        counts["removed"] += done.removed
        counts["digests"] += len(digests)
        _judge(done, origins, counts, found)
    merged, lost = counts["right"] + counts["wrong"], [was - now for was, now in zip(before, after, strict=True)]
    figures = {
        "items": counts["items"],
        "fewer items": counts["removed"] / counts["items"],
        "merged": merged,
        "precision": counts["right"] / merged if merged else 1.0,
        "recall@10 before": fmean(before),
        "recall@10 after": fmean(after),
        "loss of recall@10": fmean(before) - fmean(after),
        "standard error of the loss": stdev(lost) / len(lost) ** 0.5 if len(lost) > 1 else 0.0,
        "digests": counts["digests"],
        "recall@10 with digests": fmean(digested),
        **{f"found: {kind}": found[kind] / counts[kind] for kind in _SAME if counts[kind]},
        "found: all": sum(found[kind] for kind in _SAME) / total
        if (total := sum(counts[kind] for kind in _SAME))
        else 1.0,
    }
    for metric, value in figures.items():
        unit = "count" if metric in ("items", "merged", "digests") else "share"
        yield Row(
            bench=f"consolidation: {dataset}", case=f"{share:.0%} injected", metric=metric, value=value, unit=unit
        )


def _filled(memory: Memory, haystack: Haystack, share: float) -> dict[str, str]:
    """Store the turns, their near-duplicates and the traps; return the id of the turn behind each."""
    chance = Random(f"{haystack.id} {share}")
    items, origins = list(haystack.items), {item.id: item.id for item in haystack.items}
    for kinds, wanted, is_same in ((_SAME, share, True), (_TRAPPED, _TRAPS if share else 0.0, False)):
        chosen = chance.sample(haystack.items, len(haystack.items))
        left = round(wanted * len(haystack.items))
        for number, item in enumerate(chosen):
            kind = [*kinds][number % len(kinds)]
            text = kinds[kind](item.content_summary, chance)
            if not left or text == item.content_summary:
                continue
            left -= 1
            name, later = f"{kind}: {item.id}", item.created_at + _LATER
            copy = replace(item, id=name, content_summary=text, created_at=later, content_hash="")
            origins[copy.id] = item.id if is_same else copy.id
            items.append(copy)
    chance.shuffle(items)
    memory.store.add(items)
    return origins


def _judge(done: Consolidation, origins: Mapping[str, str], counts: Counter[str], found: Counter[str]) -> None:
    """Count what was merged rightly: copies of one turn, or turns with the same letters and digits."""
    for name, origin in origins.items():
        if name != origin:
            counts[name.partition(":")[0]] += 1
    for merge in done.merges:
        for item in merge.merged:
            is_copy = origins[item.id] == origins[merge.kept.id]
            counts["right" if is_copy or _letters(item) == _letters(merge.kept) else "wrong"] += 1
        copies = [each.id for each in (merge.kept, *merge.merged) if origins[each.id] != each.id]
        # A copy may be what is left of its turn.
        found.update(name.partition(":")[0] for name in copies)


def _letters(item: MemoryItem) -> str:
    return "".join(filter(str.isalnum, item.content_summary.casefold()))


def _recalls(memory: Memory, haystack: Haystack, origins: Mapping[str, str]) -> list[float]:
    """Return for each question the share of its evidence among the first hits; a hit counts for all it stands for."""
    recalls: list[float] = []
    for question in haystack.questions:
        if question.apart:
            continue
        hits = memory.search(question.text, limit=_SHOWN)
        shown = {origins.get(name, name) for hit in hits for name in _stands_for(hit.item)}
        recalls.append(len(shown & question.gold) / len(question.gold))
    return recalls


def _stands_for(item: MemoryItem) -> list[str]:
    """Return the ids of an item, of what was merged into it, and of the turns that it quotes as a digest."""
    notes, mark = item.metadata.get(MERGED), item.metadata.get(DIGEST)
    merged = [str(note["id"]) for note in notes if isinstance(note, Mapping)] if isinstance(notes, list) else []
    return [item.id, *merged, *(item.provenance.parents if mark is not None else ())]
