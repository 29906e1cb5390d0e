"""The doubles that we ship do what tests rely on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import devmem.testing
from devmem.embedding import Embedder
from devmem.errors import EmbeddingUnavailableError
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=40)
EMBEDDER = HashEmbedder()


def similarity(one: str, two: str) -> float:
    return float(EMBEDDER.vector(one) @ EMBEDDER.vector(two))


@given(one=TEXTS, two=TEXTS)
def test_vectors_tell_texts_apart(one: str, two: str) -> None:
    assert np.linalg.norm(EMBEDDER.vector(one)) == pytest.approx(1.0, abs=1e-5)
    assert (similarity(one, two) > 1 - 1e-6) == (one == two)


def test_texts_that_share_words_are_similar() -> None:
    query = "the night train to Vienna"
    assert similarity(query, "night train Vienna") > 0.6
    assert similarity(query, "bread bakes for forty minutes") < 0.4
    assert similarity("会议改到星期五", "会议在星期五") > 0.6


def test_the_same_text_has_the_same_vector_in_every_process() -> None:
    code = "from devmem.testing import HashEmbedder; print(HashEmbedder(16).vector('tea and rain').tobytes().hex())"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == HashEmbedder(16).vector("tea and rain").tobytes().hex()


def test_embedding_counts() -> None:
    embedder = HashEmbedder(dimension=7)
    assert embedder.embed(["a", "b"]).shape == (2, 7)
    assert embedder.embed([]).shape == (0, 7)
    assert (embedder.calls, embedder.texts) == (2, ["a", "b"])
    assert embedder.identity.dimension == 7
    assert embedder.identity != HashEmbedder(dimension=8).identity != HashEmbedder(8, name="other").identity


def test_a_provider_goes_down_and_comes_back() -> None:
    embedder = FailingEmbedder()
    for _ in range(2):
        with pytest.raises(EmbeddingUnavailableError):
            embedder.embed(["a"])
        embedder.recover()
        assert embedder.embed(["a"]).tolist() == HashEmbedder().embed(["a"]).tolist()
        embedder.fail()
    assert (embedder.refused, embedder.calls) == (2, 2)


@pytest.mark.parametrize("embedder", [HashEmbedder(), FailingEmbedder()])
def test_they_are_embedders(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)


def test_the_clock_stands_still() -> None:
    clock = ManualClock(100.0)
    assert clock() == clock() == 100.0
    clock.advance(0.5)
    assert clock() == 100.5


def test_everything_that_is_promised_can_be_imported() -> None:
    for name in devmem.testing.__all__:
        assert getattr(devmem.testing, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        devmem.testing.nothing_of_the_kind  # noqa: B018 - reading it is the test


def test_the_doubles_need_no_pytest() -> None:
    """Whoever uses them elsewhere does not install it; whoever uses a suite is told what to install."""
    code = (
        "import sys\n"
        "sys.modules['pytest'] = None\n"
        "import devmem.testing\n"
        "devmem.testing.HashEmbedder().embed(['x'])\n"
        "try:\n"
        "    devmem.testing.StoreSuite\n"
        "except ImportError as error:\n"
        "    assert 'devmem[dev]' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('it was imported')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
