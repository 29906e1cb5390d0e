"""Whether two texts state the same of one subject with another value: a number, a date, a name, a negation.

No model is asked. A text is cut into clauses, and of each clause the values are separated from the frame, the words
around them. Two clauses are related when their frames are the same and exactly one value differs; where the newer text
says that something changed ("now", "moved to", "改到"), one frame may say more than the other.

A wrong mark does more harm than a missing one, so only a clause that states what holds of a certain subject counts.
Requests, questions and single events state nothing that could change, and the number of an issue, a chapter or a
version tells things apart: it is an identifier, not a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import Final, Literal, TypeAlias

from devmem.text.analysis import STOP_WORDS, mostly_unspaced, terms
from devmem.text.patterns import lazy_pattern
from devmem.text.statements_zh import ChineseClause, Request, chinese_clauses, is_chinese_update

_LONGEST: Final = 1000
"""Number of characters of a text that are compared."""


def is_update(older: str, newer: str, *, same_speaker: bool = True) -> bool:
    """Whether a text states again what an older one does, but for one value.

    Args:
        older: the older text.
        newer: the newer text.
        same_speaker: whether the same person says both; what two people say in the first person is not of one subject.
    """
    return any(True for _ in _updated_clauses(older, newer, same_speaker=same_speaker))


def restated_share(older: str, newer: str, *, same_speaker: bool = True) -> float:
    """Return how much of an older text a newer one states again, or otherwise, from 0 to 1; 0 where it is no update.

    At 1 the older text says nothing beside what the newer one says or changes. What is longer than the characters that
    are compared counts as not restated. The arguments are those of `is_update`.
    """
    pairs = list(_updated_clauses(older, newer, same_speaker=same_speaker))
    if not pairs:
        return 0.0
    one, other = _analysed(older[:_LONGEST]), _analysed(newer[:_LONGEST])
    share = (_restated_chinese if one.unspaced else _restated_english)(older[:_LONGEST], newer, one, other, pairs)
    return share * min(1.0, _LONGEST / len(older))


_Clauses: TypeAlias = "tuple[ChineseClause, ChineseClause] | tuple[_EnglishClause, _EnglishClause]"


def _updated_clauses(older: str, newer: str, *, same_speaker: bool) -> Iterator[_Clauses]:
    """Yield the clauses of an older text of which a newer one states another value, each with that of the newer one."""
    one, other = _analysed(older[:_LONGEST]), _analysed(newer[:_LONGEST])
    if older == newer or one.unspaced != other.unspaced or _answer_different_requests(one, other):
        return
    told_by_one = same_speaker and (one.label == other.label or not one.label or not other.label)
    for a, b in product(one.chinese, other.chinese):
        if _is_comparable(a, b, told_by_one) and is_chinese_update(a, b):
            yield a, b
    for c, d in product(one.english, other.english):
        if _is_comparable(c, d, told_by_one) and _is_english_update(c, d):
            yield c, d


def _restated_chinese(_older: str, _newer: str, one: _Analysed, other: _Analysed, pairs: Sequence[_Clauses]) -> float:
    """Return the share of characters that stand in clauses which are updated, or are those of the newer text too."""
    parts = [*(clause.text for clause in one.chinese), *(str(request.values) for request in one.requests)]
    said = {clause.text for clause in other.chinese} | {str(request.values) for request in other.requests}
    said |= {clause.text for clause, _ in pairs if isinstance(clause, ChineseClause)}
    return sum(len(part) for part in parts if part in said) / max(sum(map(len, parts)), 1)


def _restated_english(older: str, newer: str, _one: _Analysed, _other: _Analysed, pairs: Sequence[_Clauses]) -> float:
    """Return the share of words that are replaced values, or words of the newer text too."""
    said = set(terms(newer))
    for before, after in pairs:
        if isinstance(before, _EnglishClause) and isinstance(after, _EnglishClause):
            kept = {after.first, *(value.text for value in after.values)}
            said.update(*(terms(text) for text in {before.first, *(value.text for value in before.values)} - kept))
    told = [term for term in terms(older) if term not in _without_content()]
    return sum(term in said for term in told) / len(told) if told else 1.0


@lru_cache(maxsize=1)
def _without_content() -> frozenset[str]:
    """Return the terms that tell nothing beside the subject and the value of a statement."""
    verbs = _BE | _STATE | _ARRANGED | _SINGLE | _SCHEDULED | _CHANGE_VERBS
    return _SMALL | frozenset(term for word in verbs | _MARKERS | _NEGATIONS | _PRONOUNS for term in terms(word))


def _is_comparable(
    one: ChineseClause | _EnglishClause, other: ChineseClause | _EnglishClause, told_by_one: bool
) -> bool:
    return told_by_one or not (one.first_person or other.first_person)


@dataclass(frozen=True, slots=True)
class _Analysed:
    """A text's statements, of one of the languages, and its requests."""

    unspaced: bool
    label: str = ""
    """The speaker whom the text begins with; empty for none."""
    chinese: tuple[ChineseClause, ...] = ()
    english: tuple[_EnglishClause, ...] = ()
    requests: tuple[Request, ...] = ()


_SPEAKER: Final = lazy_pattern(r"^(?:\[[^\]\n]*\]\s*)?([A-Z][\w.-]*(?:\s[A-Z][\w.-]*)?|[\u4e00-\u9fff]{1,4})[:：]")


@lru_cache(maxsize=4096)
def _analysed(text: str) -> _Analysed:
    label = found[1] if (found := _SPEAKER.match(text)) else ""
    if mostly_unspaced(text):
        chinese, requests = chinese_clauses(text)
        return _Analysed(unspaced=True, label=label, chinese=chinese, requests=requests)
    english, requests = _english_clauses(text)
    return _Analysed(unspaced=False, label=label, english=english, requests=requests)


def _answer_different_requests(one: _Analysed, other: _Analysed) -> bool:
    """Whether two texts answer requests that differ only in an identifier: chapter 1 and chapter 2 tell two things."""
    return any(a.frame == b.frame and a.values != b.values for a, b in product(one.requests, other.requests))


_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?"
)
_NUMBER_WORDS: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million half dozen once twice"
).replace(" ", "|")
_VALUE: Final = lazy_pattern(
    rf"""(?P<date>\b\d{{4}}-\d\d-\d\d\b
    |\b\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?:,?\s\d{{4}})?(?!\w)
    |\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?\b
    |\b(?:in|until|by|since|for|to|from)\s{_MONTH}(?!\w)(?!\s\d{{1,2}}(?!\d))(?:\s\d{{4}})?
    |\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:today|tonight|tomorrow)\b
    |\b(?:this|next|last)\s(?:week|month|year|spring|summer|autumn|fall|winter)\b)
    |(?P<address>\b\d+[a-z]?\s(?:[A-Z]\w+\s){{1,3}}(?:Street|St|Road|Rd|Avenue|Ave|Lane|Drive|Square|Way|Boulevard)\b)
    |(?P<number>[$€£]?\b\d[\d,.:\-/]*\d\s?(?:am|pm|%)?|[$€£]?\b\d\s?(?:am|pm|%)?(?:st|nd|rd|th)?
    |\b(?:noon|midnight)\b|\b(?:{_NUMBER_WORDS})(?:-\w+)?\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_NAME: Final = lazy_pattern(r"\b[A-Z][\w'’&.-]*(?:\s(?:(?:of|the|de|van|von|&|and)\s)?[A-Z][\w'’&.-]*)*")
_SENTENCE: Final = lazy_pattern(r"(?<=[.!?;])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bNo\.)\s+|\n+")
_CLAUSE: Final = lazy_pattern(r"(?<!\d),\s+(?!\d)|:\s+|\s[-–—]\s|,\s+(?=[a-z])")
_WORD: Final = lazy_pattern(r"[\w'’-]+(?:[./@_][\w-]+)*|\x00\d+")
_CLOCK: Final = lazy_pattern(r"\d?\d:\d\d|\d+(?::\d\d)?\s?[ap]m|noon|midnight", re.IGNORECASE)


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


_CHANGE_VERBS: Final = _split(
    """changed change moved moves move shifted rescheduled postponed pushed switched updated replaced became becomes
    brought raised increased reduced lowered cut extended delayed relocated"""
)
_CHANGES: Final = _CHANGE_VERBS | _split("now instead anymore longer actually correction")
"""Words that say that something changed."""
_MARKERS: Final = _CHANGES | _split("new already currently meanwhile again later earlier finally")
"""Words that are no part of a frame."""
_NEGATIONS: Final = _split("not no never cannot without neither none nobody nothing stopped")
_BE: Final = _split("is are was were be been being am will 's 're isn aren it's that's there's isn't aren't i'm we're")
_HOLDS: Final = _split("is are am 's 're be isn aren it's that's there's isn't aren't i'm we're")
"""Forms of "be" that tell what holds; "was" tells what happened."""
_MODALS: Final = _split("can cannot can't could may might must should would shall")
_STATE: Final = _split(
    """live lives lived work works located place held meet meets sit sits stay stays called named based hosted host
    hosts hold holds fit fits report reports belong belongs lead leads manage manages study studies teach teaches
    parked stored kept sleep sleeps play plays cost costs start starts begin begins open opens close closes leave
    leaves arrive arrives take takes need needs weigh weighs run runs last lasts end ends due has have use uses
    speak speaks drive drives drink drinks eat eats own owns pay pays earn earns charge charges require requires
    allow allows include includes contain contains seat seats measure measures depart departs prefer prefers give
    gives answer answers go goes sponsor sponsors chair chairs handle handles serve serves sell sells employ employs"""
)
"""Verbs of what holds until it changes, unlike what happens once and again."""
_SINGLE: Final = _split(
    """live lives work works located place held meet meets sit sits stay stays called named based hosted host hosts
    report reports belong belongs study studies teach teaches parked stored kept sleep sleeps park parks"""
)
"""Verbs of which one place or person is the object at a time."""
_ARRANGED: Final = _SINGLE | _split("assigned scheduled set planned booked due married led managed owned hosted run")
"""Participles after "be" whose object is one at a time."""
_SCHEDULED: Final = _split(
    """start starts begin begins end ends open opens close closes leave leaves arrive arrives depart departs meet meets
    last lasts run runs go goes due held"""
)
"""Verbs of what has one time; people eat, work and have meetings at many."""
_HELD_BY_ONE: Final = _split(
    """give gives lead leads host hosts chair chairs manage manages sponsor sponsors handle handles run runs teach
    teaches own owns present presents moderate moderates head heads"""
)
"""Verbs of which one person is the subject at a time."""
_PAST: Final = _split(
    """ran bought ate paid met saw went spent drank read sold sent wrote made got gave took drove flew swam won lost
    had came found heard told said did built caught cost grew held slept kept left felt thought taught sang rode rose
    threw chose broke spoke woke wore hid hit put let fell fed led lent drew began knew shot shut sat stood stole"""
)
_PAST_TIMES: Final = _split("yesterday ago")
_PRONOUNS: Final = _split("it its they their them he his she her hers this that")
_FIRST_PERSON: Final = _split("i i'm i've i'd my mine me we we're our ours us")
_BASE_FORM_AFTER: Final = _split("i we you they will can could must should to not don't people who now still")
_SMALL: Final = STOP_WORDS | _split("at on in by until till from to for of per each around about roughly approximately")
_INDEFINITE: Final = _split("a an another one some someone somebody many several any every")
_SUBORDINATE: Final = _split("which who whom whose that where when if because although while since unless whether as")
_NAMES_A_PLACE: Final = _split("room gate platform hall floor terminal track seat office building desk port level")
"""Nouns whose number is where something is, and may change; that of any other noun tells things apart."""
_AMOUNT: Final = _split("only exactly nearly almost over under just least most than up another hold holds due")
_LEADS: Final = _split(
    """then next now first firstly second secondly third finally also so and but or just kindly ok okay well lastly
    afterwards once again note remember reminder correction update hi hello hey"""
)
"""Words that a clause may begin with before its subject."""
_IMPERATIVES: Final = _split(
    """
    add adjust analyse analyze announce answer append apply approve archive arrange ask assess assign attach backup
    bake bring build bump buy calculate call cancel categorize change check choose cite clarify classify clean click
    close code collect combine comment commit compare compile complete compose compute configure confirm connect
    consider contact continue convert cook copy correct count create cut debug decide define delete deliver deploy
    describe design determine develop disable discard discuss do document download draft draw edit elaborate
    eliminate email enable ensure enter estimate evaluate examine execute expand explain explore export extend
    extract fetch file fill find finish fix focus follow format generate get give go grade group handle help
    highlight identify ignore implement import improve include inspect insert install invite join judge keep label
    launch learn leave list listen load log look mail make mark match measure meet mention merge migrate modify
    monitor move name negotiate notify open optimize order organize outline paint paraphrase parse pay perform pick
    plan play plot post practice prepare present print process produce proofread propose prove provide publish pull
    push put query quote rank rate read rebase rebuild recall recommend reconsider record reduce refactor refute
    refine reject release remind remove rename render repair repeat rephrase replace reply report reproduce request
    rerun research resolve respond restart restate restore return review revert revise rewrite run save scan
    schedule score search see select send set share ship show simplify sketch skip solve sort speak split start
    state stop store submit suggest summarise summarize sum support switch take talk teach tell test text think
    trace track train transcribe translate transform try turn type update upgrade upload use validate verify view
    visit wait wake walk watch write"""
)
_AUXILIARY: Final = _split("can could would will shall may do does did don't won't")
_ASKED: Final = _split("you we i someone somebody anyone")
_OBLIGED: Final = _split("should must need have has want plan intend ought would will can could shall may are ought")
_YOUR_TASK: Final = _split("task job goal role assignment mission turn work homework")
_USUAL_VERB: Final = 2
"""Place of a verb that is not known."""

_Kind: TypeAlias = Literal["date", "number", "name"]


@dataclass(frozen=True, slots=True)
class _Value:
    """A date, a number or a name in a clause."""

    kind: _Kind
    text: str
    at: int = 0
    """Place among the words of the clause."""
    is_identifier: bool = False
    """Whether it is the number of a thing, as in "issue 12"."""
    is_time: bool = False
    """Whether it is a date or a time of day."""


@dataclass(frozen=True, slots=True)
class _EnglishClause:
    """One clause, taken apart."""

    words: tuple[str, ...]
    """The lowercase words; a value is the sign \x00 and its number."""
    verb: int
    """Place of the verb among the words."""
    frame: frozenset[str]
    """Stems of the words that are not values."""
    context: frozenset[str]
    """Stems and names of the clause before it, where a pronoun refers to that."""
    values: tuple[_Value, ...]
    first: str
    """The first word, where it may be a name; empty otherwise."""
    changes: bool
    """Whether it says that something changed."""
    negated: bool
    has_verb: bool
    """Whether its subject and its verb are known."""
    state: bool
    """Whether it tells what holds, not what happened once."""
    event: bool
    """Whether it tells what somebody did once."""
    prefix: tuple[str, ...] = ()
    """Values of what stands before it in its sentence: "In chapter 1, ..."."""

    def of_kind(self, kind: _Kind) -> tuple[_Value, ...]:
        """Return the values of one kind, in order."""
        return tuple(value for value in self.values if value.kind == kind)

    @property
    def names(self) -> frozenset[str]:
        """The names among the values."""
        return frozenset(value.text for value in self.of_kind("name"))

    @property
    def first_person(self) -> bool:
        """Whether it speaks of who says it."""
        return not _FIRST_PERSON.isdisjoint(self.words)

    @property
    def verb_word(self) -> str:
        """The verb; empty where it is not known."""
        return self.words[self.verb] if self.has_verb else ""

    @property
    def indefinite(self) -> bool:
        """Whether its subject is any one of its kind: "a meeting", "there is a bus"."""
        after = self.words[self.verb + 1 : self.verb + 2] if self.words[0].startswith("there") else ()
        return not _INDEFINITE.isdisjoint((*self.words[:1], *after)) or self.words[1:2] == ("of",)

    @property
    def has_one_holder(self) -> bool:
        """Whether one person is its subject at a time: "Ann now gives the opening talk"."""
        if not all(word in _MARKERS or word.startswith("\x00") for word in self.words[1 : self.verb]):
            return False
        rest = self.words[self.verb + 1 :]
        is_role = self.verb_word in _HOLDS and rest[:1] in (("the",), ("our",), ("my",))
        return is_role or (self.verb_word in _HELD_BY_ONE and "the" in rest)


def _english_clauses(text: str) -> tuple[tuple[_EnglishClause, ...], tuple[Request, ...]]:
    """Return the clauses of a text that state something, and its requests and questions."""
    stated: list[_EnglishClause] = []
    requests: list[Request] = []
    before: _EnglishClause | None = None
    for sentence in _SENTENCE.split(text):
        requested = sentence.rstrip(" \"')").endswith("?")
        changes, prefix = False, tuple[str, ...]()
        for part in _CLAUSE.split(sentence):
            clause = _clause(part, before, changes=changes, prefix=prefix)
            if clause is None:
                continue
            before, changes = clause, clause.changes
            requested = requested or _is_request(clause.words)
            if requested:
                requests.append(Request(clause.frame, (clause.first, *(value.text for value in clause.values))))
            elif clause.has_verb:
                stated.append(clause)
            else:
                prefix += tuple(value.text for value in clause.values)
    return tuple(stated), tuple(request for request in requests if request.frame)


def _clause(
    text: str, before: _EnglishClause | None, *, changes: bool, prefix: tuple[str, ...]
) -> _EnglishClause | None:
    found: list[_Value] = []

    def kept(match: re.Match[str]) -> str:
        kind: _Kind = "date" if match["date"] else "name" if match["address"] else "number"
        found.append(_Value(kind, _plain(match[0]), is_time=kind == "date" or bool(_CLOCK.fullmatch(match[0].strip()))))
        return f" \x00{len(found) - 1} "

    rest = _NAME.sub(lambda match: _named(match, found), _VALUE.sub(kept, text.strip()))
    words = _WORD.findall(rest)
    if not words:
        return None
    lowered = tuple(word.casefold().replace("’", "'") for word in words)
    plain = {word.removesuffix("'s") for word in lowered} | {part for word in lowered for part in word.split("'")}
    verb = _place_of_verb(lowered)
    first = words[0] if words[0][0].isupper() and lowered[0] not in _SMALL and words[0] != "I" else ""
    frame = _frame(lowered[1:] if first else lowered)
    pronoun = bool(plain & _PRONOUNS)
    if pronoun and before is not None and not frame:
        frame = before.frame
    return _EnglishClause(
        words=lowered,
        verb=verb if verb > 0 else _USUAL_VERB,
        frame=frame,
        context=before.frame | before.names | _frame([before.first]) if pronoun and before else frozenset(),
        values=_placed(found, lowered),
        first=_plain(first).removesuffix("'s"),
        changes=changes or _says_that_it_changed(lowered, found),
        negated=bool(plain & _NEGATIONS) or any(word.endswith("n't") for word in lowered),
        has_verb=verb > 0 and _SUBORDINATE.isdisjoint(lowered[:verb]),
        state=_is_state(lowered, verb),
        event=_is_event(lowered, plain),
        prefix=prefix,
    )


def _named(match: re.Match[str], values: list[_Value]) -> str:
    name = match[0]
    at_start = not match.string[: match.start()].strip()
    if at_start and " " in name and name.split()[0].casefold() in _SMALL:
        # "The Rivers Fund": the article is no part of the name.
        article, _, name = name.partition(" ")
        return f"{article} {_kept_name(name, values)}"
    if (at_start and " " not in name) or name == "I" or name.startswith("I'"):
        return name
    return _kept_name(name, values)


def _kept_name(name: str, values: list[_Value]) -> str:
    values.append(_Value("name", _plain(name).removesuffix("'s")))
    return f" \x00{len(values) - 1} "


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").strip(" .,").split())


def _placed(values: Sequence[_Value], words: Sequence[str]) -> tuple[_Value, ...]:
    """Return the values with their places, dates first where the text is read; those that are identifiers say so."""
    places = {word: at for at, word in enumerate(words)}
    placed = []
    for number, value in enumerate(values):
        at = places.get(f"\x00{number}", 0)
        before = words[at - 1] if at else ""
        placed.append(
            _Value(
                value.kind,
                value.text,
                at,
                is_identifier=value.kind == "number" and not value.is_time and _is_numbered(before),
                is_time=value.is_time or (value.kind == "number" and before in ("at", "until", "till")),
            )
        )
    return tuple(placed)


def _is_numbered(word: str) -> bool:
    """Whether a number after a word is the number of what the word names."""
    is_small = word in _SMALL or word in _AMOUNT or word in _MARKERS or word in _NAMES_A_PLACE
    return bool(word) and not is_small and not _is_verb(word) and not word.endswith("ly")


def _place_of_verb(words: Sequence[str]) -> int:
    """Return the place of the first verb after the first word; -1 for none.

    "Report", "lead" and their like are nouns but after a plural, a pronoun or an auxiliary: "the report is due".
    """
    for at, (before, word) in enumerate(pairwise(words), start=1):
        is_base = word in _STATE and f"{word}s" in _STATE
        if _is_verb(word) and (not is_base or before.endswith("s") or before in _BASE_FORM_AFTER):
            return at
    return -1


def _is_verb(word: str) -> bool:
    return word in _BE or word in _STATE or word in _CHANGE_VERBS or word in _PAST or word in _MODALS


def _frame(words: Iterable[str]) -> frozenset[str]:
    kept = (
        word.removesuffix("'s")
        for word in words
        if not word.startswith("\x00") and word not in _MARKERS and word not in _NEGATIONS and word not in _BE
    )
    said = (term for word in kept if not word.endswith("n't") for term in terms(word))
    return frozenset(term for term in said if term not in _SMALL)


def _says_that_it_changed(words: Sequence[str], values: Sequence[_Value]) -> bool:
    numbers = {f"\x00{at}" for at, value in enumerate(values) if value.kind == "number"}
    # "We updated 3 pages" tells what was done, not that something changed to 3.
    changed = (
        word in _CHANGES and not (word in _CHANGE_VERBS and following in numbers)
        for word, following in pairwise((*words, ""))
    )
    return any(changed)


def _is_state(words: Sequence[str], verb: int) -> bool:
    """Whether a clause tells what holds: "is", "costs", "will be", but not "is buying" or "was"."""
    if verb <= 0:
        return False
    following = next((word for word in words[verb + 1 :] if word not in _MARKERS | _NEGATIONS), "")
    word = words[verb]
    if word == "will":
        return following == "be" or following in _STATE
    if word in _HOLDS:
        return not following.endswith("ing") or following.removesuffix("ing") in _STATE
    return word in _STATE and not (word in ("has", "have") and (following == "been" or following in _PAST))


def _is_event(words: Sequence[str], plain: set[str]) -> bool:
    if not _PAST_TIMES.isdisjoint(words):
        return True
    is_past = any(word in _PAST or (word.endswith("ed") and word not in _MARKERS) for word in words)
    return is_past and not plain & _BE


def _is_request(words: Sequence[str]) -> bool:
    """Whether a clause asks for something to be done, or says that somebody is to do it."""
    start = next((at for at, word in enumerate(words) if word not in _LEADS), len(words))
    one, two, three = (*words[start : start + 3], "", "", "")[:3]
    if "please" in words or one in ("let's", "let", "don't", "never"):
        return True
    if (one in _AUXILIARY and two in _ASKED) or (one == "do" and two == "not"):
        return True
    if one in ("you", "i", "we", "you'll", "i'll", "we'll", "i'd", "we'd", "you're"):
        return "'" in one or (two in _OBLIGED and (three == "to" or two in _MODALS))
    if one == "your" and two in _YOUR_TASK:
        return True
    # "Order 17 is due" and "Work starts at 9" begin with a noun.
    is_noun = _is_verb(two) or (two.startswith("\x00") and _is_verb(three))
    return one in _IMPERATIVES and not is_noun


_KINDS: Final[tuple[_Kind, ...]] = ("date", "number", "name")


def _is_english_update(older: _EnglishClause, newer: _EnglishClause) -> bool:
    """Whether a clause states again what an older one does, but for one value."""
    if not _same_frame(older, newer) or (older.prefix != newer.prefix and not newer.changes):
        return False
    swapped = older.first != newer.first and bool(older.first or newer.first)
    differing: list[_Kind] = [kind for kind in _KINDS if _differs(older, newer, kind)]
    if older.negated != newer.negated:
        return not differing and not swapped
    if len(differing) + swapped != 1 or older.negated or older.indefinite or newer.indefinite:
        return False
    if swapped:
        return newer.changes and newer.has_one_holder
    gone, come = _changed(older, newer, differing[0])
    if any(value.at < older.verb for value in gone) or any(value.at < newer.verb for value in come):
        return differing[0] == "name" and newer.changes and newer.has_one_holder
    if newer.changes:
        return _is_announced(older, newer, (*gone, *come))
    return len(gone) == len(come) == 1 and _may_change(older, *gone) and _may_change(newer, *come)


def _same_frame(older: _EnglishClause, newer: _EnglishClause) -> bool:
    if older.frame == newer.frame and older.frame:
        # A pronoun has to mean the same.
        return not (older.context and newer.context) or not older.context.isdisjoint(newer.context)
    whole, other = older.frame | older.context, newer.frame | newer.context
    if not newer.changes or not older.frame or not newer.frame:
        return False
    smaller, larger = sorted((older.frame, newer.frame), key=len)
    return (
        smaller <= larger
        or (smaller <= (whole & other) and bool(older.frame & newer.frame))
        or (older.frame <= other and bool(older.frame & newer.frame))
    )


def _differs(older: _EnglishClause, newer: _EnglishClause, kind: _Kind) -> bool:
    one, other = ([value.text for value in clause.of_kind(kind)] for clause in (older, newer))
    # Who says that something changed may leave out the rest.
    return one != other if one and other else one != other and not newer.changes


def _changed(
    older: _EnglishClause, newer: _EnglishClause, kind: _Kind
) -> tuple[tuple[_Value, ...], tuple[_Value, ...]]:
    """Return the values of a kind that only the older and only the newer clause has."""
    one, other = ({value.text for value in clause.of_kind(kind)} for clause in (older, newer))
    return (
        tuple(value for value in older.of_kind(kind) if value.text not in other),
        tuple(value for value in newer.of_kind(kind) if value.text not in one),
    )


def _is_announced(older: _EnglishClause, newer: _EnglishClause, changed: Iterable[_Value]) -> bool:
    """Whether a change that the newer clause announces is one of what the older clause states."""
    if older.event or newer.event:
        return False
    return (older.state and newer.state) or not any(value.is_identifier for value in changed)


def _may_change(clause: _EnglishClause, value: _Value) -> bool:
    """Whether a clause states a value that holds until it changes, of which there is one at a time."""
    if not clause.state or clause.event or value.is_identifier:
        return False
    is_being = clause.verb_word in _HOLDS
    between = frozenset(clause.words[clause.verb + 1 : value.at])
    if value.is_time:
        return (is_being or clause.verb_word in _SCHEDULED or "place" in clause.words) and _INDEFINITE.isdisjoint(
            between
        )
    if value.kind == "name":
        return not _SINGLE.isdisjoint(clause.words) or (is_being and between <= _SMALL | _ARRANGED | _MARKERS)
    return True
