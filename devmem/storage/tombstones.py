"""Tombstones: keyed hashes of what was erased, by which a text is recognized when it comes back.

A store keeps a random key, and for each erased text hashes of the whole and of its sentences under that key, so that
nothing of the text is left. Only letters and digits count: other spacing, case and punctuation make the same hash. The
owner of an item is hashed with the text: what was erased for one user may be stored for another.
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from devmem.encryption.files import read_file, sealed_for
from devmem.errors import DataFileError
from devmem.model.items import MemoryItem
from devmem.storage.erasure import metadata_texts, texts_of
from devmem.text.analysis import STOP_WORDS, split_sentences
from devmem.text.files import replace_file
from devmem.text.patterns import lazy_pattern

_TEXT: Final = b"text"
_SENTENCE: Final = b"sentence"
_OWNER: Final = b"owner"
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_IGNORED: Final = lazy_pattern(r"[\W_]+")
_BREAK: Final = lazy_pattern(r"[.,;:!?()\[\]{}\"“”…|\n\r\t。，、；：！？（）「」『』《》【】]+|\s[-–—*•>]+\s")
_LABEL: Final = lazy_pattern(r"\s*(?:\([\w.-]+\)\s+|[\w.-]+(?: [\w.-]+){0,2}\s*[:：]\s*)")
_WORD: Final = lazy_pattern(r"[^\W_]+")
_UNSPACED: Final = lazy_pattern(r"[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff]")
_RUN: Final = 12
"""Maximum number of clauses of a text that are compared with a sentence together."""
_SHORTEST: Final = 6
"""Minimum number of letters and digits of a sentence that is recognized within a longer text."""
_COURTESIES: Final = frozenset(
    "yes no not ok okay sure very really thank thanks please hello hi hey good great fine nice morning afternoon "
    "evening night day today bye goodbye welcome sorry course help helpful lot much well right perfect cool got know "
    "let see".split()
)
"""Words of which a sentence may consist without saying anything that could be erased."""
_COURTEOUS: Final = re.compile("谢|您好|你好|再见|早上好|晚上好|不客气|对不起|没关系")
_COURTEOUS_LENGTH: Final = 12


class Mark(NamedTuple):
    """The hash of one erased text, or of one sentence of it, as a row of the table `tombstones`."""

    digest: str
    owner: str
    """Hash of the user whose it was."""
    whole: bool
    """Whether it stands for a whole text."""
    erasure: str
    """Id of the erasure."""
    erased_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """Numbers of the texts and sentences that one erasure keeps out."""

    id: str
    """Id of the erasure, by which its tombstones are removed."""
    erased_at: float
    """Seconds since the epoch."""
    texts: int
    """Number of texts that are kept out."""
    sentences: int
    """Number of sentences that are kept out of longer texts, too."""


def new_key() -> bytes:
    """Return a random key."""
    return secrets.token_bytes(_KEY_BYTES)


def normal_form(text: str) -> str:
    """Return the letters and digits of a text in one case; of a text without any, all but its white space."""
    folded = text.casefold()
    if folded.isascii():
        return _IGNORED.sub("", folded) or "".join(folded.split())
    composed = unicodedata.normalize("NFKC", folded)
    # Vowel signs of many scripts are neither letters nor digits.
    kept = "".join(char for char in composed if char.isalnum() or unicodedata.category(char)[0] == "M")
    return kept or "".join(composed.split())


def owner_of(key: bytes, user: str | None) -> str:
    """Return the hash of a user; None stands for unscoped items."""
    return _hashed(key, _OWNER, user, "")


def _hashed(key: bytes, kind: bytes, user: str | None, form: str) -> str:
    owner = "" if user is None else f"u{user}"
    named = f"{owner}\0{form}".encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=_DIGEST_BYTES, key=key, person=kind).hexdigest()


def marks_of(key: bytes, item: MemoryItem, erasure: str, at: float, *, whole_only: bool = False) -> list[Mark]:
    """Return the marks of an item that an erasure takes; courtesies, which anybody may say again, leave none."""
    user, owner = item.scope.user, owner_of(key, item.scope.user)
    wholes = {normal_form(text) for text in texts_of(item) if _says(text, 1)}
    sentences = () if whole_only else (form for text in texts_of(item) for form in _sentences(text))
    forms = [(form, True) for form in wholes] + [(form, False) for form in dict.fromkeys(sentences)]
    return [
        Mark(_hashed(key, _TEXT if whole else _SENTENCE, user, form), owner, whole, erasure, at)
        for form, whole in forms
    ]


def _sentences(text: str) -> Iterator[str]:
    """Yield the forms of the sentences that are recognized within a longer text, also without a speaker's label."""
    for sentence in split_sentences(text):
        label = _LABEL.match(sentence)
        for part in (sentence, sentence[label.end() :] if label else ""):
            if _says(part, 2) and len(form := normal_form(part)) >= _SHORTEST:
                yield form


def _says(text: str, words: int) -> bool:
    """Whether a text has a number of words that are neither stop words nor courtesies; with a digit one is enough."""
    if len(text) < _COURTEOUS_LENGTH and _COURTEOUS.search(text):
        return False
    own = sum(map(_weight, _WORD.findall(text.casefold())))
    return own >= words or (own > 0 and any(char.isdigit() for char in text))


def _weight(word: str) -> int:
    """Return for how many words a word counts: two characters of a script without spaces are one."""
    if word in STOP_WORDS or word in _COURTESIES:
        return 0
    unspaced = sum(char not in STOP_WORDS for char in _UNSPACED.findall(word))
    return (unspaced + 1) // 2 if unspaced or _UNSPACED.search(word) else 1


Lookup = Callable[[Sequence[str]], Collection[str]]
"""Returns those of some digests that a store keeps."""


def erased_items(keys: Sequence[bytes], items: Iterable[MemoryItem], lookup: Lookup) -> frozenset[str]:
    """Return the ids of the items that hold something for which a tombstone stands.

    Args:
        keys: keys of the store; there is more than one only where another store's file took its place.
        items: items that are to be stored.
        lookup: finds digests among the tombstones.
    """
    digests = {item.id: [digest for key in keys for digest in _digests_of(key, item)] for item in items}
    found = set(lookup(list({digest for each in digests.values() for digest in each})))
    return frozenset(item_id for item_id, each in digests.items() if not found.isdisjoint(each))


def _digests_of(key: bytes, item: MemoryItem) -> Iterator[str]:
    user = item.scope.user
    seen: set[str] = set()
    for text in texts_of(item):
        if text and text not in seen:
            seen.add(text)
            yield _hashed(key, _TEXT, user, normal_form(text))
            yield from (_hashed(key, _SENTENCE, user, form) for form in _runs(text))
    for text in metadata_texts(item):
        if text not in seen and len(text) >= _SHORTEST:
            seen.add(text)
            yield from (_hashed(key, _SENTENCE, user, form) for form in _runs(text))


def _runs(text: str) -> set[str]:
    """Return the forms of all runs of clauses: a sentence is one, whatever divides it from others."""
    clauses = [form for clause in _BREAK.split(text) if (form := normal_form(clause))]
    runs: set[str] = set()
    for start in range(len(clauses)):
        run = ""
        for clause in clauses[start : start + _RUN]:
            run += clause
            if len(run) >= _SHORTEST:
                runs.add(run)
    return runs


def without_erased(keys: Sequence[bytes], text: str, user: str | None, lookup: Lookup) -> str:
    """Return a text without the sentences that hold something for which a tombstone stands."""
    sentences = split_sentences(text)
    digests = [
        [_hashed(key, _SENTENCE, user, form) for key in keys for form in _runs(sentence)]
        + [_hashed(key, _TEXT, user, normal_form(sentence)) for key in keys]
        for sentence in sentences
    ]
    found = set(lookup(list({digest for each in digests for digest in each})))
    kept = [each for each, own in zip(sentences, digests, strict=True) if found.isdisjoint(own)]
    return text if len(kept) == len(sentences) else "".join(kept).strip()


# The file beside a database file, which stays where a backup is put in the database's place.

SUFFIX: Final = ".tombstones"
_FORMAT: Final = "devmem tombstones 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneFile:
    """Content of the file beside a database: all its tombstones, with the keys."""

    state: str
    """Changes with every change; the database has the same."""
    keys: tuple[bytes, ...]
    marks: tuple[Mark, ...]

    def write(self, path: Path) -> None:
        """Write the file as a whole, durably; it is readable by its owner only."""
        keys = [key.hex() for key in self.keys]
        form = {"format": _FORMAT, "state": self.state, "keys": keys, "marks": self.marks}
        replace_file(path, sealed_for(path, [json.dumps(form).encode("ascii")]))


def new_state() -> str:
    """Return a state that no file has."""
    return uuid4().hex


def read_tombstone_file(path: Path) -> TombstoneFile | None:
    """Return the content of the file beside a database, as `TombstoneFile.write` writes it; None where there is none.

    Raises:
        DataFileError: it cannot be read.
    """
    try:
        form = json.loads(read_file(path))
        marks = tuple(Mark(*row) for row in form["marks"])
        return TombstoneFile(state=str(form["state"]), keys=tuple(map(bytes.fromhex, form["keys"])), marks=marks)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it holds no tombstones ({error}); move it away, and what it kept out may be stored again"
        raise DataFileError(path, reason) from error
