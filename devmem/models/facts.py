"""Facts of a turn: a chat model extracts them, and each is checked against the words that it rests on.

A fact is a subject with the value of an attribute, such as Ann's diet, and the quote that states it. Nothing of an
answer is believed unseen: the quote has to be in one of the turn's texts, the value in the quote, and who said it is
decided by where the quote stands, not by the model.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Final

from devmem.config.agent import ChatConfig
from devmem.errors import ChatModelError
from devmem.model.interactions import Language
from devmem.models.chat import ChatModel, TextModel, Usage, json_in
from devmem.models.summarizer import SUMMARY_PROMPTS, prompt_language
from devmem.text.display import is_control
from devmem.text.patterns import lazy_pattern
from devmem.text.times import Period, period_of

_KNOWN: Final[dict[Language, str]] = {
    "en": "Subjects and attributes in use; take them where they fit: {known}",
    "zh": "已有的主体和属性,合适时请使用:{known}",
}
_LONGEST_ANSWER: Final = 100_000
"""Characters of an answer; a longer one is not read."""
_LENGTHS: Final[Mapping[str, int]] = {"subject": 80, "attribute": 60, "value": 300, "quote": 1_000}
"""Maximum number of characters of each part of a fact."""
_LONGEST_TIME: Final = 80
_CLAUSE_END: Final = ".,!?;:\n。，！？；：、"
_NEGATION: Final = lazy_pattern(
    r"\b(?:not|no|never|cannot|without|neither|none|nobody|nothing|nor)\b|n['’]t\b|不|没|無|无法|未|别|并非|从未", 2
)
_SPEAKING: Final = frozenset(
    "i me my mine myself we our us user speaker 我 我的 我们 本人 自己 用户 说话人 说话者".split()
) | {"the user", "the speaker"}
"""Names that a model gives to whoever speaks."""


class DropReason(StrEnum):
    """Reason why a statement of a model is not kept as a fact."""

    UNREADABLE = "the answer is not JSON"
    MALFORMED = "a part is missing, too long or not a text"
    QUOTE = "the quote is not in the turn"
    VALUE = "the value is not in the quote"
    SUBJECT = "the subject is not in the turn"
    NEGATED = "the turn denies it"
    ASKED = "the turn asks it"
    LIMIT = "more facts than a turn may have"
    KNOWN = "known already"
    OLDER = "older than what is known"
    LESS_TRUSTED = "less trusted than what is known"
    TAKEN = "an item that is not a fact has its id"
    NOT_STORED = "the store did not take it"


@dataclass(frozen=True, slots=True)
class Said:
    """A text of a turn, and who said it."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A fact that a turn states."""

    subject: str
    attribute: str
    value: str
    quote: str
    speaker: str
    """Who said it, by the text in which the quote stands."""
    time: str = ""
    """Words of the quote that say when it holds; empty where there are none."""
    period: Period | None = None
    """The time that these words mean."""

    @property
    def key(self) -> tuple[str, str]:
        """Subject and attribute, without differences of case, width and spacing."""
        return normal(self.subject).casefold(), normal(self.attribute).casefold()

    def worded(self, language: Language) -> str:
        """Return the fact as a line with its origin, as an agent is shown it."""
        if language == "zh":
            return f"事实:{self.subject},{self.attribute}:{self.value}({self.speaker}说:“{self.quote}”)"
        return f'Fact: {self.subject}, {self.attribute}: {self.value} ({self.speaker} said: "{self.quote}")'


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Facts of one turn, and the number of statements that were dropped, by reason."""

    statements: tuple[Statement, ...]
    dropped: Counter[DropReason]
    usage: Usage
    """Tokens that the service counted; zeros where it does not say."""


class FactModel(TextModel):
    """Asks a chat model for the facts of turns; safe to use from several threads."""

    def __init__(
        self, config: ChatConfig, open_chat: Callable[[ChatConfig], ChatModel], *, limit: int, length: int
    ) -> None:
        """Take the model; it is opened before it is first asked.

        Args:
            config: the model.
            open_chat: opens it.
            limit: maximum number of facts of a turn.
            length: maximum number of characters of a turn that the model reads; the first ones.
        """
        super().__init__(lambda: open_chat(config), config.params)
        self._limit, self._length = limit, length

    def facts_of(self, said: Sequence[Said], *, said_at: float, known: Sequence[str] = ()) -> Extraction:
        """Return the facts of a turn's texts.

        Args:
            said: the texts.
            said_at: when they were said, in seconds since the epoch, which "last week" is relative to.
            known: subjects and attributes in use, which the model is shown.

        Raises:
            ChatModelError: the model cannot be opened, or there is no answer.
            MissingExtraError: the model's package is not installed.
        """
        shown = list(self._shown(said))
        text = json.dumps([{"speaker": one.speaker, "text": one.text} for one in shown], ensure_ascii=False)
        language = prompt_language("\n".join(one.text for one in shown), "auto")
        instructions = files("devmem.models").joinpath("data", f"facts_{language}.txt").read_text("utf-8").strip()
        asked = [instructions.format(limit=self._limit)]
        if known:
            asked.append(_KNOWN[language].format(known=json.dumps([*known], ensure_ascii=False)))
        asked.append(SUMMARY_PROMPTS[language].data)
        reply = self.reply(asked, text)
        usage = reply.usage or Usage()
        if not reply.text.strip():
            raise ChatModelError(
                "the language model of facts answered without a text",
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
            )
        statements, dropped = read_facts(reply.text, shown, said_at=said_at, limit=self._limit)
        return Extraction(statements=tuple(statements), dropped=dropped, usage=usage)

    def _shown(self, said: Sequence[Said]) -> Iterator[Said]:
        left = self._length
        for one in said:
            if left > 0 and one.text.strip():
                yield Said(one.speaker, one.text[:left])
                left -= len(one.text)


def read_facts(
    answer: str, said: Sequence[Said], *, said_at: float, limit: int
) -> tuple[list[Statement], Counter[DropReason]]:
    """Return the facts of a model's answer that hold in the texts of a turn, and why others were dropped.

    Of several for one subject and attribute the last one counts. `said_at` is in seconds since the epoch.
    """
    dropped = Counter[DropReason]()
    found = _listed(answer)
    if found is None:
        dropped[DropReason.UNREADABLE] += 1
        return [], dropped
    kept: dict[tuple[str, str], Statement] = {}
    for raw in found:
        statement = _statement(raw, said, said_at)
        if isinstance(statement, DropReason):
            dropped[statement] += 1
        elif statement.key not in kept and len(kept) >= limit:
            dropped[DropReason.LIMIT] += 1
        else:
            dropped[DropReason.KNOWN] += statement.key in kept
            kept[statement.key] = statement
    return list(kept.values()), +dropped


def _listed(answer: str) -> list[object] | None:
    """Return the statements of an answer, with or without fences around it; None where it is not the JSON asked for."""
    found = json_in(answer) if len(answer) <= _LONGEST_ANSWER else None
    facts = found.get("facts") if isinstance(found, dict) else None
    return facts if isinstance(facts, list) else None


def _statement(raw: object, said: Sequence[Said], said_at: float) -> Statement | DropReason:
    parts = _parts(raw)
    if parts is None:
        return DropReason.MALFORMED
    quote, value = parts["quote"], parts["value"]
    source = next((one for one in said if stands_in(quote, normal(one.text))), None)
    if source is None:
        return DropReason.QUOTE
    if not stands_in(value, quote):
        return DropReason.VALUE
    around, ends_with = _clauses_around(quote, normal(source.text))
    if ends_with in ("?", "？"):
        return DropReason.ASKED
    if _NEGATION.search(around.replace(value, " ")):
        return DropReason.NEGATED
    subject = parts["subject"]
    if subject.casefold() in _SPEAKING:
        subject = normal(source.speaker)
    elif not _is_named(subject, said):
        return DropReason.SUBJECT
    time = parts.get("time", "")
    # Words that are not in the quote say nothing of it.
    period = period_of(time, said_at) if time and stands_in(time, quote) else None
    return Statement(
        subject=subject,
        attribute=parts["attribute"],
        value=value,
        quote=quote,
        speaker=normal(source.speaker),
        time=time if period else "",
        period=period,
    )


def _parts(raw: object) -> dict[str, str] | None:
    """Return the parts of a statement in normal form; None where one is missing, too long, or no line of text."""
    if not isinstance(raw, Mapping):
        return None
    parts: dict[str, str] = {}
    for name, longest in _LENGTHS.items():
        found = raw.get(name)
        part = normal(found) if isinstance(found, str) and len(found) <= 4 * longest else ""
        if not any(map(str.isalnum, part)) or len(part) > longest or any(map(is_control, part)):
            return None
        parts[name] = part
    time = raw.get("time")
    if isinstance(time, str) and len(time) <= _LONGEST_TIME:
        parts["time"] = normal(time)
    return parts


def normal(text: str) -> str:
    """Return a text with one form of each character (NFKC) and single spaces; nothing else of it is changed."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def stands_in(part: str, text: str) -> bool:
    """Whether a text has another one in it that neither begins nor ends within a word or a number."""
    at = text.find(part)
    while at >= 0:
        if not (_joins(text[:at], part) or _joins(part, text[at + len(part) :])):
            return True
        at = text.find(part, at + 1)
    return False


def _joins(before: str, after: str) -> bool:
    """Whether the end of one text and the beginning of another are parts of one word or number."""
    if not before or not after:
        return False
    last, first = before[-1], after[0]
    if last.isdigit() and first.isdigit():
        return True
    if last in ".," and before[-2:-1].isdigit() and first.isdigit():
        return True
    if first in ".," and last.isdigit() and after[1:2].isdigit():
        return True
    return _is_letter(last) and _is_letter(first)


def _is_letter(char: str) -> bool:
    """Whether a character is a letter of a script that puts spaces between words."""
    return char.isalpha() and ord(char) < 0x2E80


def _clauses_around(quote: str, text: str) -> tuple[str, str]:
    """Return the clauses of a text that a quote stands in, and the sign that ends their sentence."""
    start = text.find(quote)
    end = start + len(quote)
    while start > 0 and text[start - 1] not in _CLAUSE_END:
        start -= 1
    while end < len(text) and text[end] not in _CLAUSE_END:
        end += 1
    sentence_end = next((char for char in text[max(end - 1, 0) :] if char in ".!?;。！？；"), "")
    return text[start:end], sentence_end


def _is_named(subject: str, said: Sequence[Said]) -> bool:
    """Whether a subject is one of the speakers, or named in one of the texts."""
    wanted = subject.casefold()
    return any(
        wanted == normal(one.speaker).casefold() or stands_in(wanted, normal(one.text).casefold()) for one in said
    )
