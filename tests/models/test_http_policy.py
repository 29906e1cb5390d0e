"""Services that answer without end, packed, drop by drop, or with another address: bounded in time and memory."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import devmem
from devmem.errors import ChatModelError, EmbeddingUnavailableError
from devmem.messages import Message, Role
from devmem.models.openai_chat import OpenAIChat
from devmem.stores import ChatRequest, Embedder, EmbeddingConfig, open_embedder
from tests.models.service import ChatService, Reply, embed

MEGABYTE = 1_000_000
DRIPPING = Reply(body=b"", drips=b" ")
DRIPPING_HEAD = Reply(body=b"", drips=b"a", headers={}, is_headless=True)
ENDLESS = Reply(body=b"", drips=b" " * 65536)


@cache
def bomb() -> Reply:
    """Return some 900 kB that unpack to 200 MB."""
    return Reply(body=gzip.compress(bytes(200 * MEGABYTE), compresslevel=1), headers={"content-encoding": "gzip"})


def redirecting(to: str, status: int = 307) -> Reply:
    return Reply(body=b"", status=status, headers={"location": to})


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def elsewhere() -> Iterator[ChatService]:
    with ChatService() as service:
        yield service


def block(service: ChatService, timeout: float = 20.0) -> dict[str, Any]:
    params = {"timeout": timeout, "max_retries": 0}
    return {"provider": "openai", "model": "m", "api_key": "k", "base_url": service.address, "params": params}


def embedder(service: ChatService, *script: Reply, timeout: float = 20.0) -> Embedder:
    service.script = [*script]
    return open_embedder(EmbeddingConfig.model_validate(block(service, timeout)), shared=False)


def test_an_answer_without_end_is_cut_off_by_what_was_asked_for(service: ChatService) -> None:
    with pytest.raises(EmbeddingUnavailableError, match=r"more than 1,262,144 bytes"):
        embedder(service, ENDLESS).embed(["tea"])


def test_a_packed_answer_is_unpacked_no_further_than_that(service: ChatService) -> None:
    client = embedder(service, bomb())  # made here: the zeros themselves are not to be traced
    tracemalloc.start()
    try:
        with pytest.raises(EmbeddingUnavailableError, match="bytes"):
            client.embed(["tea"])
        assert tracemalloc.get_traced_memory()[1] < 20 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_packing_that_was_not_asked_for_is_refused(service: ChatService) -> None:
    with pytest.raises(EmbeddingUnavailableError, match="packed by 'gzip, gzip'"):
        embedder(service, Reply(body=b"", headers={"content-encoding": "gzip, gzip"})).embed(["tea"])


@pytest.mark.parametrize("answer", [DRIPPING, DRIPPING_HEAD], ids=["body", "head"])
def test_a_service_that_drips_is_left_alone_for_a_while(
    answer: Reply, service: ChatService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmem.models.openai_embedding._LONG_WAIT", 0.2)
    client = embedder(service, answer, timeout=0.3)
    with pytest.raises(EmbeddingUnavailableError, match="no answer in time"):
        client.embed(["tea"])
    with pytest.raises(EmbeddingUnavailableError, match="kept callers waiting, and is asked again in"):
        client.embed(["tea"])
    assert len(service.requests) == 1


def test_no_text_goes_to_the_address_of_a_redirect(
    service: ChatService, elsewhere: ChatService, tmp_path: Path
) -> None:
    client = embedder(service, redirecting(elsewhere.address + "/embeddings"))
    with devmem.open(tmp_path / "notes.db", embedding=block(service)) as memory:
        added = memory.add("The launch is on June 2nd.")
        (found,) = memory.search("launch")
    assert (found.id, elsewhere.requests) == (added, [])
    assert service.requests
    with pytest.raises(EmbeddingUnavailableError, match=r"redirects to http://127\.0\.0\.1:\d+, where nothing is sent"):
        client.embed(["tea"])


def test_a_redirect_within_the_service_is_followed(service: ChatService) -> None:
    client = embedder(service, redirecting(service.address + "/embeddings/", 308))
    service.script.append(embed)
    assert client.embed(["tea"]).shape == (1, 8)


@pytest.mark.parametrize("answer", ["endless", "bomb", "dripping", "redirecting"])
def test_a_chat_model_is_asked_by_the_same_policy(answer: str, service: ChatService, elsewhere: ChatService) -> None:
    replies = {"endless": ENDLESS, "bomb": bomb(), "dripping": DRIPPING, "redirecting": redirecting(elsewhere.address)}
    service.script = [replies[answer]]
    timeout = 0.4 if answer == "dripping" else 20.0
    chat = OpenAIChat("m", api_key=SecretStr("k"), base_url=service.address, timeout=timeout, max_retries=0)
    with pytest.raises(ChatModelError, match=r"gave no answer.*(more than 32,000,000 bytes|timed out|redirects to)"):
        chat.complete(ChatRequest(messages=(Message(content="tea?", role=Role.USER),)))
