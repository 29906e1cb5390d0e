"""Merging the hits of several stores into one block in order of time, and what repeats it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final, Self

from pydantic import JsonValue

from devmem.model.caller import Caller
from devmem.model.conditions import comparable_number
from devmem.model.filters import event_key
from devmem.model.interactions import SIDES, Language
from devmem.model.items import KEY, MESSAGE_KEY, MemoryItem, content_hash
from devmem.model.results import CutHit, CutReason, Hit, HitGroup, MemoryRetrievalResult, StoreFailure
from devmem.model.times import day_of
from devmem.search.rendering import (
    Shown,
    entry_lines,
    frame_lines,
    marked_text,
    render,
    section_line,
    speaker_of,
    when_of,
)
from devmem.text.analysis import STOP_WORDS, estimate_tokens, mostly_unspaced, shorten, terms
from devmem.text.patterns import lazy_pattern
from devmem.text.query_text import asks_something

_SPOKEN: Final = lazy_pattern(r"[^\W_]+(?:['’][^\W_]+)*")
_COMPARED: Final = 50
"""Number of hits that are compared with each other."""
_NEGATIONS: Final = frozenset("no not never none nobody nothing neither nor cannot without".split())
_CHINESE_NEGATIONS: Final = frozenset("不没沒别別無无")
_CHINESE_FIRST_PERSON: Final = frozenset("我咱")
_FIRST_PERSON: Final = frozenset("i i'm i've i'd i'll me my mine we we're our ours us".split())
_SMALL: Final = STOP_WORDS - frozenset("after all befor before from if into more most only or out over than up".split())
"""Words that change nothing of what is said."""
_CONFIRMING: Final = frozenset(
    term
    for word in (
        "ok okay yes yeah sure great good perfect nice thanks thank noted note noting saved save updated update added "
        "add understood got remember remembered recorded"
    ).split()
    for term in terms(word)
)
"""Words of an answer that confirms what was said."""
_NO_WORD: Final = lazy_pattern(r"\W+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """How hits of several stores become one block."""

    token_budget: int | None = 4000
    """Estimated tokens of the block; None is no limit."""
    language: Language = "en"
    dedupe: bool = True
    """Show the same content once, even when several stores have it."""
    origins: bool = True
    """Mark what came from a file, a tool, an import or another agent."""
    reader: Caller = field(default_factory=Caller)
    """The agent that is shown the block; what others said is marked where it is known."""


def merge(
    found: Sequence[Sequence[Hit]], policy: MergePolicy, failures: Sequence[StoreFailure] = ()
) -> MemoryRetrievalResult:
    """Merge the hits of several stores, each best first, into one block in order of time, the newest last.

    Stores' scores cannot be compared, so the budget is filled rank by rank: the best of each store, then the second.
    """
    ranks = zip_longest(*found)
    ranked = [hit for rank in ranks for hit in sorted(filter(None, rank), key=lambda hit: -hit.score)]
    kept, cut = _distinct(ranked) if policy.dedupe else (ranked, [])
    shown, over = _within_budget(kept, policy)
    shown.sort(key=lambda entry: time_key(entry.hit.item))
    return MemoryRetrievalResult(
        formatted_text=render(shown, policy.language),
        hits=tuple(entry.hit for entry in shown),
        cut=(*cut, *over),
        failures=tuple(failures),
    )


def time_key(item: MemoryItem) -> tuple[float, float, float]:
    """Return the key of the order in which items happened; of messages of one time, the one made first comes first."""
    form = item.metadata.get(MESSAGE_KEY)
    made = form.get("created_at") if isinstance(form, Mapping) else None
    return *event_key(item), comparable_number(made) if isinstance(made, int | float) else item.created_at


def _distinct(ranked: Iterable[Hit]) -> tuple[list[Hit], list[CutHit]]:
    """Return the hits without those that say what another one says, in the order of rank; and these."""
    kept: list[Hit] = []
    cut: list[Hit] = []
    seen: set[str] = set()
    for hit in ranked:
        keys = _content_keys(hit)
        (cut if keys & seen else kept).append(hit)
        seen |= keys
    repeated = _repeated(kept)
    cut += [hit for hit in kept if id(hit) in repeated]
    return [hit for hit in kept if id(hit) not in repeated], [
        CutHit(hit=hit, reason=CutReason.DUPLICATE) for hit in cut
    ]


def _content_keys(hit: Hit) -> set[str]:
    """Return keys of which two hits share one when they say the same.

    These are the item, the text with its day, and the exchange that both were made of: `simple` keeps it as `Input: X`,
    `blackboard` as `X`. Texts with different attachments do not say the same.
    """
    item = hit.item
    day = item.dated_summary().removesuffix(item.content_summary.strip())
    snapshots = (item.input_snapshot, item.output_snapshot)
    attached = content_hash("", *(snapshot and replace(snapshot, text="") for snapshot in snapshots))
    text = " ".join(_unlabelled(item.content_summary).casefold().split())
    speaker = speaker_of(item, "en")
    keys = {f"text {attached}{day}{speaker}{text}", f"id {item.id}"}
    asked, answered = (snapshot.text if snapshot else "" for snapshot in snapshots)
    # A message that two people said is two; what a store keeps of an exchange may be one side of it.
    if (asked and answered) or ((asked or answered) and not speaker):
        keys.add(f"exchange {attached}{asked}\x00{answered}")
    return keys


def _unlabelled(summary: str) -> str:
    """Return a summary without its label if it has one side of an exchange; one of both sides is unchanged."""
    one_sided = not any(f"\n{label}" in summary for label in SIDES)
    label = next((label for label in SIDES if summary.startswith(label)), "")
    return summary.removeprefix(label) if one_sided else summary


def _repeated(hits: Sequence[Hit]) -> set[int]:
    """Return the identities of the hits of whose words another hit of the same day has all.

    Of two in a row the one that says more is shown. A later one that another statement separates from the earlier one
    states it again, and stays.
    """
    gone: set[int] = set()
    before: list[tuple[Hit, _HitWords]] = []
    for hit in sorted(hits[:_COMPARED], key=lambda hit: time_key(hit.item)):
        said = _HitWords.of(hit)
        if before and said.is_said_by(before[-1][1]):
            gone.add(id(hit))
            continue
        shorter = [(other, one) for other, one in before if one.is_said_by(said)]
        gone.update(id(other) for other, _ in shorter)
        before = [(other, one) for other, one in before if id(other) not in gone]
        before.append((hit, said))
    return gone


@dataclass(frozen=True, slots=True)
class _HitWords:
    """The words of a hit, to tell whether another one has all of them."""

    day: str
    speaker: str
    words: frozenset[str]
    """Its content words, without those that only confirm, such as "noted"."""
    names: tuple[str, ...]
    """Its names and numbers, in their order: who owes whom."""
    negations: frozenset[str]
    is_personal: bool
    """Whether it says something of who says it."""
    asks: bool
    has_more: bool
    """Whether it has attachments."""

    @classmethod
    def of(cls, hit: Hit) -> Self:
        """Return the words of a hit."""
        text = hit.snippet.removeprefix(hit.item.dated_summary().removesuffix(hit.item.content_summary.strip()))
        spoken = [word.replace("’", "'").removesuffix("'s") for word in _SPOKEN.findall(text)]
        plain = [word.casefold() for word in spoken]
        content = [word for word in spoken if word.casefold() not in _SMALL and not _confirms(word)]
        return cls(
            day=day_of(time_key(hit.item)[0]),
            speaker=f"{hit.item.scope.user} {speaker_of(hit.item, 'en')}",
            words=frozenset(term for term in terms(text) if term not in _SMALL and term not in _CONFIRMING),
            names=tuple(word.casefold() for word in content if word[0].isupper() or word[0].isdigit()),
            negations=frozenset(word for word in plain if word in _NEGATIONS or word.endswith("n't"))
            | _CHINESE_NEGATIONS.intersection(text),
            is_personal=any(
                word in _FIRST_PERSON and not (word == "i" and any(map(_confirms, plain[at + 1 : at + 3])))
                for at, word in enumerate(plain)
            )
            or not _CHINESE_FIRST_PERSON.isdisjoint(text),
            asks=asks_something(text),
            has_more=_has_attachments(hit.item),
        )

    def is_said_by(self, other: _HitWords) -> bool:
        """Whether another one says all of it."""
        if self.day != other.day or not self.words or self.has_more or (other.asks and not self.asks):
            return False
        in_order = iter(other.names)
        if not all(name in in_order for name in self.names if name in other.names):
            return False
        if self.negations != other.negations or (self.is_personal and self.speaker != other.speaker):
            return False
        return self.words <= other.words


def _has_attachments(item: MemoryItem) -> bool:
    return any(snapshot and snapshot.has_multimodal() for snapshot in (item.input_snapshot, item.output_snapshot))


def _confirms(word: str) -> bool:
    return not _CONFIRMING.isdisjoint(terms(word))


def _within_budget(hits: Sequence[Hit], policy: MergePolicy) -> tuple[list[Shown], list[CutHit]]:
    """Take the hits that fit, in order of rank, and skip those that are too long; the first is shortened instead."""
    entries = _entries(hits, policy)
    if policy.token_budget is None:
        return entries, []
    left = policy.token_budget - estimate_tokens(frame_lines(policy.language))
    stores = {hit.store for hit in hits}
    shown: list[Shown] = []
    cut: list[CutHit] = []
    for entry in entries:
        # In order of time, each entry may need its store's heading where there are several.
        section = estimate_tokens(section_line(entry.hit.store)) if len(stores) > 1 or not shown else 0
        if not shown:
            entry = _fitting(entry, left - section)
        cost = section + _cost(entry, len(shown) + 1)
        if cost <= left or not shown:
            shown.append(entry)
            left -= cost
        else:
            cut.append(CutHit(hit=entry.hit, reason=CutReason.BUDGET))
    return shown, cut


def _cost(entry: Shown, number: int = 1) -> int:
    return estimate_tokens(entry_lines(number, entry.text, entry.when))


def _entries(hits: Sequence[Hit], policy: MergePolicy) -> list[Shown]:
    """Return the entries of hits: when it was, who said it, where it is from, and what was said."""
    days = Counter(when[: len("2026-05-08")] for when in {when_of(hit.item, minutes=True) for hit in hits})
    newest = {_subject(hit.item): hit for hit in sorted(hits, key=lambda hit: time_key(hit.item))}
    return [
        Shown(
            hit=hit,
            when=when_of(hit.item, minutes=days[when_of(hit.item, minutes=False)] > 1),
            text=marked_text(
                hit,
                policy.language,
                reader=policy.reader,
                origins=policy.origins,
                is_earlier=_subject(hit.item) is not None and newest[_subject(hit.item)] is not hit,
            ),
        )
        for hit in hits
    ]


def _subject(item: MemoryItem) -> tuple[JsonValue, str | None, str | None] | None:
    """Return what a key names an item of; items of one subject are earlier and later values of it."""
    key = item.metadata.get(KEY)
    return (key, item.scope.user, item.scope.agent) if isinstance(key, str) else None


def _fitting(entry: Shown, tokens: int) -> Shown:
    """Return the entry with as much of its text as fits into a number of tokens; at least 20 characters."""
    if _cost(entry) <= tokens:
        return entry
    least, most = 20, len(entry.text)
    while least < most:
        middle = (least + most + 1) // 2
        if _cost(replace(entry, text=shorten(entry.text, middle))) <= tokens:
            least = middle
        else:
            most = middle - 1
    return replace(entry, text=shorten(entry.text, least))


class PromptTexts:
    """The texts that a prompt holds already."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = [f" {_normalized(text)} " for text in texts]

    def hold(self, item: MemoryItem) -> bool:
        """Whether one of them contains an item's text word for word, whatever the signs between the words."""
        if _has_attachments(item):
            return False
        wanted = _normalized(_unlabelled(item.full_text()))
        wanted = wanted if mostly_unspaced(wanted) else f" {wanted} "
        return bool(wanted.strip()) and any(wanted in known for known in self._texts)


def by_conversation(hits: Sequence[Hit]) -> list[HitGroup]:
    """Group hits, best first, by the conversation of their items; the group of the best hit comes first.

    Items of the same conversation, session, agent and user are of one conversation; an item of none forms its own.
    """
    groups: dict[object, list[Hit]] = {}
    for at, hit in enumerate(hits):
        scope = hit.item.scope
        alone = scope.conversation is None and scope.session is None
        groups.setdefault(at if alone else (scope.conversation, scope.session, scope.agent, scope.user), []).append(hit)
    return [HitGroup.of(found, found[0].score) for found in groups.values()]


def _normalized(text: str) -> str:
    return " ".join(_NO_WORD.sub(" ", text.casefold()).split())
