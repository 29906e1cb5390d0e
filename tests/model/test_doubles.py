"""The doubles that we ship do what tests rely on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import ChatModelError
from devmem.messages import Message
from devmem.stores import ChatModel, ChatRequest
from devmem.testing import HashEmbedder, ScriptedChat

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=40)
EMBEDDER = HashEmbedder()


def similarity(one: str, two: str) -> float:
    return float(EMBEDDER.vector(one) @ EMBEDDER.vector(two))


@given(one=TEXTS, two=TEXTS)
def test_vectors_tell_texts_apart(one: str, two: str) -> None:
    assert np.linalg.norm(EMBEDDER.vector(one)) == pytest.approx(1.0, abs=1e-5)
    assert (similarity(one, two) > 1 - 1e-6) == (one == two)


def test_the_same_text_has_the_same_vector_in_every_process() -> None:
    code = "from devmem.testing import HashEmbedder; print(HashEmbedder(16).vector('tea and rain').tobytes().hex())"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == HashEmbedder(16).vector("tea and rain").tobytes().hex()


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
        "    assert '[dev]' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('it was imported')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def request(*texts: str) -> ChatRequest:
    return ChatRequest(messages=tuple(Message(text) for text in texts))


def test_a_chat_follows_its_script() -> None:
    chat = ScriptedChat("first", lambda asked: asked.messages[-1].content.upper(), ChatModelError("no"))
    assert isinstance(chat, ChatModel)
    assert [chat.complete(request("a")).text, chat.complete(request("b", "loud")).text] == ["first", "LOUD"]
    with pytest.raises(ChatModelError, match="no"):
        chat.complete(request("c"))
    assert chat.asked == ["a", "loud", "c"]
    assert [len(asked.messages) for asked in chat.requests] == [1, 2, 1]


@given(one=st.lists(TEXTS, max_size=3), two=st.lists(TEXTS, max_size=3))
def test_a_chat_without_a_script_tells_requests_apart(one: list[str], two: list[str]) -> None:
    first, second = (ScriptedChat().complete(request(*texts)).text for texts in (one, two))
    assert (first == second) == (one == two)
