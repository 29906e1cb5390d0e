"""Digests of old conversations: sentences of them, each with the ids of the turns that it comes from.

Without a language model the sentences are those that say most (`text.summarizing`). A model's sentence is kept only if
turns of the conversation say most of its words and all of its names and numbers, and agree with it in negation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from pydantic import JsonValue

from devmem.model.filters import OWNER_PARTS, Filter, exactly, time_of
from devmem.model.items import (
    MemoryContentSnapshot,
    MemoryItem,
    Provenance,
    Scope,
    SourceKind,
    agent_of,
    is_quarantined,
    parent_hash,
)
from devmem.model.versions import derived
from devmem.stores.abilities import every_item
from devmem.text.analysis import STOP_WORDS, SUMMARY_LENGTH, mostly_unspaced, query_terms, shorten, split_sentences
from devmem.text.duplicates import statement_form
from devmem.text.summarizing import chosen_sentences, count_words

if TYPE_CHECKING:
    from devmem.models.summarizer import Summarizer
    from devmem.stores.memory import MemoryBase

DIGEST: Final = "devmem.digest"
"""Metadata key of a digest: its `sentences`, each with its `text` and the ids of its `turns`."""
_NAME: Final = "consolidation"
_LEAST_TURNS: Final = 10
"""Number of turns from which on a conversation gets a digest."""
_SHARE: Final = 0.1
_LEAST_WORDS, _MOST_WORDS = 40, 300
"""A digest has a tenth of its conversation's words, within these bounds."""
_MOST_CITED: Final = 3
"""Maximum number of turns of which a model's sentence may be made."""
_LEAST_COVERED, _LEAST_COVERED_UNSPACED = 0.6, 0.9
"""Share of a model's sentence's words that its turns must have."""
_NEGATIONS: Final = frozenset(
    "not no never none nobody nothing nowhere neither nor without 不 没 無 无 非 别 未".split()
)
_NAMED: Final = re.compile(r"(?<![.!?:\n] )(?<!^)\b[A-Z][\w'-]*[a-z]\w*")
_FIRST: Final = re.compile(r"[A-Z][^\W_]*")
_Cited: TypeAlias = tuple[str, Sequence[MemoryItem]]
"""A sentence, and the turns that it comes from."""


@dataclass(slots=True)
class DigestReport:
    """Digests that were made, and what was left out of them."""

    items: list[MemoryItem] = field(default_factory=list)
    dropped: int = 0
    """Number of a language model's sentences that the conversation does not support."""


def make_digests(view: MemoryBase, where: Filter, before: float, report: DigestReport) -> Iterator[MemoryItem]:
    """Yield digests of conversations whose last turn was before a time (seconds since the epoch).

    One that is there and still rests on the same turns is not made again.

    Args:
        view: the store, or a run's view of it.
        where: filter of the turns.
        before: the time.
        report: is told of the digests and of dropped sentences.

    Raises:
        ChatModelError: the language model gave no answer.
    """
    summarizer = view.summarizer()
    for scope in _old_conversations(view, where, before):
        turns = sorted(filter(_is_turn, every_item(view, where & exactly(scope))), key=time_of)
        if len(turns) < _LEAST_TURNS:
            continue
        named = json.dumps([DIGEST, *(getattr(scope, part) for part in OWNER_PARTS)])
        wanted = hashlib.sha256(named.encode()).hexdigest()[:32]
        marks = [item.metadata.get(DIGEST) for item in view.get([wanted])]
        # It is there already, made of exactly these turns, which still say what they said.
        if any(isinstance(mark, dict) and mark.get("of") == _fingerprint(turns) for mark in marks):
            continue
        sentences, dropped = _sentences(turns, summarizer)
        report.dropped += dropped
        if sentences:
            digest = _digest(wanted, scope, turns, sentences)
            report.items.append(digest)
            yield digest


def _old_conversations(view: MemoryBase, where: Filter, before: float) -> list[Scope]:
    """Return the scopes of conversations that ended before a time."""
    last: dict[Scope, float] = {}
    for item in every_item(view, where):
        if _is_turn(item):
            key = replace(item.scope, trace=None, run=None)
            last[key] = max(last.get(key, 0.0), time_of(item))
    return [scope for scope, time in last.items() if time < before]


def _is_turn(item: MemoryItem) -> bool:
    """Whether an item was said in a conversation; what was derived from turns says nothing of its own."""
    has_place = item.scope.conversation is not None or item.scope.session is not None
    is_derived = item.provenance.kind is SourceKind.SUMMARY or item.provenance.parents
    return has_place and not is_derived and not is_quarantined(item)


def _fingerprint(turns: Iterable[MemoryItem]) -> str:
    said = "".join(f"{turn.id}\0{parent_hash(turn)}\0" for turn in turns)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _digest(item_id: str, scope: Scope, turns: Sequence[MemoryItem], sentences: Sequence[_Cited]) -> MemoryItem:
    cited = list({turn.id: turn for _, of in sentences for turn in of}.values())
    text = "\n".join(sentence for sentence, _ in sentences)
    listed: list[JsonValue] = [{"text": sentence, "turns": [turn.id for turn in of]} for sentence, of in sentences]
    item = MemoryItem(
        id=item_id,
        content_summary=shorten(text, SUMMARY_LENGTH),
        output_snapshot=MemoryContentSnapshot(text=text) if len(text) > SUMMARY_LENGTH else None,
        metadata={DIGEST: {"sentences": listed, "turns": len(turns), "of": _fingerprint(turns)}},
        scope=scope,
        event_time=max(map(time_of, turns)),
        provenance=Provenance(kind=SourceKind.SUMMARY, name=_NAME),
    )
    # What expires takes the digest along, and no sentence is trusted more than its turns.
    return derived(item, cited)


def _sentences(turns: Sequence[MemoryItem], summarizer: Summarizer) -> tuple[list[_Cited], int]:
    """Return the sentences of a digest with their turns, and the number of those that the turns do not support."""
    said = [(turn, turn.full_text().strip()) for turn in turns]
    length = sum(count_words(text) for _, text in said)
    most = min(max(round(_SHARE * length), _LEAST_WORDS), _MOST_WORDS)
    if not summarizer.asks_model:
        every = [(turn, sentence) for turn, text in said for sentence in split_sentences(text)]
        chosen = sorted(chosen_sentences([sentence for _, sentence in every], most))
        return [(_by(*every[at]), (every[at][0],)) for at in chosen], 0
    lines = [_by(turn, " ".join(text.split())) for turn, text in said]
    made = split_sentences(summarizer.summarize("\n".join(lines), max_words=most).text)
    forms = [_TurnWords.of(line) for line in lines]
    found = [(sentence.strip(), supporting(sentence, forms)) for sentence in made if sentence.strip()]
    kept: list[_Cited] = [(sentence, tuple(turns[at] for at in of)) for sentence, of in found if of]
    return kept, len(found) - len(kept)


def _by(turn: MemoryItem, text: str) -> str:
    """Return what a turn says with its speaker before it, where that is known."""
    speaker = turn.metadata.get("speaker") or agent_of(turn)
    text = " ".join(text.split())
    return f"{speaker}: {text}" if isinstance(speaker, str) and not text.startswith(f"{speaker}:") else text


@dataclass(frozen=True, slots=True)
class _TurnWords:
    """Words of a turn, or of a sentence, and whether it is negated."""

    terms: frozenset[str]
    tokens: frozenset[str]
    is_negated: bool

    @classmethod
    def of(cls, text: str) -> _TurnWords:
        tokens = frozenset(statement_form(text))
        return cls(frozenset(query_terms(text)), tokens, not tokens.isdisjoint(_NEGATIONS))


def supporting(sentence: str, turns: Sequence[_TurnWords]) -> tuple[int, ...]:
    """Return the places of the turns that say what a sentence says; empty where none do.

    Together they have most of its words, and all of its numbers and names; that which says most of it is negated if
    the sentence is, and only then.
    """
    said = _TurnWords.of(sentence)
    ranked = sorted(range(len(turns)), key=lambda at: -len(said.terms & turns[at].terms))
    cited: list[int] = []
    missing = set(said.terms)
    for at in ranked[: 2 * _MOST_CITED]:
        if len(cited) < _MOST_CITED and missing & turns[at].terms:
            cited.append(at)
            missing -= turns[at].terms
    # Names are not told apart in a script without capitals, so nearly every word has to be there.
    least = _LEAST_COVERED_UNSPACED if mostly_unspaced(sentence) else _LEAST_COVERED
    if not cited or len(missing) > (1 - least) * len(said.terms):
        return ()
    tokens = frozenset[str]().union(*(turns[at].tokens for at in cited))
    there = tokens | {token.removesuffix("'s") for token in tokens}
    exact = {token for token in said.tokens if any(map(str.isdigit, token))}
    exact |= {name.casefold().removesuffix("'s") for name in _NAMED.findall(sentence)}
    # A name may begin the sentence, as any word may.
    if (first := _FIRST.match(sentence)) is not None and first[0].casefold() not in STOP_WORDS:
        exact.add(first[0].casefold())
    if not exact <= there or turns[cited[0]].is_negated != said.is_negated:
        return ()
    return tuple(sorted(cited))
