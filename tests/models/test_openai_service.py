"""The `openai` provider against a real HTTP server: what it asks for, what it accepts, what it makes of failures."""

from __future__ import annotations

import base64
import json
import socket
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmem
from devmem.errors import (
    EmbeddingError,
    EmbeddingMismatchError,
    EmbeddingUnavailableError,
    TextsRefusedError,
)
from devmem.models.embedder import unit_rows
from devmem.stores import CollectionMemory, Vector
from tests.models.service import ChatService, Reply, Request, embed, failing, limited, vector_of

from .conftest import OpenOpenAI


def unit(text: str) -> Vector:
    (row,) = unit_rows(np.array([vector_of(text)]), source="the test")
    return np.asarray(row)


def test_asks_for_the_model_and_plain_numbers(service: ChatService, open_openai: OpenOpenAI) -> None:
    open_openai().embed(["x"])
    embedder = open_openai(dimensions=4, model="m")
    assert embedder.embed(["x"]).shape == (1, 4)
    usual = {"model": "text-embedding-3-small", "input": ["x"], "encoding_format": "float"}
    assert service.requests == [usual, {**usual, "model": "m", "dimensions": 4}]
    assert service.keys == ["Bearer sk-secret"] * 2
    assert (embedder.identity.name, embedder.identity.dimension) == ("openai:m:4", 4)


def test_sends_texts_as_they_were_written(service: ChatService, open_openai: OpenOpenAI) -> None:
    texts = ["a+b=c; x[0] != y?", "https://e.com/?q=1&r=2#z", "🎉 é 中文 \n\t  spaces  "]
    open_openai().embed([*texts, "broken \ud800 text", "\ud83c\udf89"])
    assert service.requests[0]["input"] == [*texts, "broken \ufffd text", "🎉"], "but for half a surrogate pair"


def test_entries_in_any_order_are_put_back_by_index(service: ChatService, open_openai: OpenOpenAI) -> None:
    def shuffled(request: Request) -> Reply:
        body = embed(request).body
        return Reply(body={**body, "data": body["data"][::-1]})

    service.script = [shuffled]
    np.testing.assert_allclose(open_openai().embed(["a", "b"]), [unit("a"), unit("b")], rtol=1e-5)


@pytest.mark.parametrize(
    ("status", "texts", "asked"),
    [
        *((status, 1, 3) for status in (408, 429, 500, 502)),
        *((status, 1, 1) for status in (401, 403, 404)),
        *((status, 64, 2) for status in (400, 413, 422)),
    ],
)
def test_a_failure_that_does_not_pass(
    service: ChatService, open_openai: OpenOpenAI, status: int, texts: int, asked: int
) -> None:
    """It is unavailability, a refusal that is final, or that of every text, which is not asked for with each."""
    service.script = [failing(status)]
    with pytest.raises(EmbeddingError, match=f"status {status}: not today") as caught:
        open_openai().embed([f"text {at}" for at in range(texts)])
    assert isinstance(caught.value, EmbeddingUnavailableError) is (asked == 3)
    assert not isinstance(caught.value, TextsRefusedError)
    assert len(service.requests) == asked


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_refused_text_does_not_block_the_others(service: ChatService, open_openai: OpenOpenAI, status: int) -> None:
    service.script = [limited(characters=20, status=status)]
    texts = [f"text {at}" for at in range(64)]
    texts[13] = "a text that is too long"
    with pytest.raises(TextsRefusedError, match=f"status {status}: at most") as caught:
        open_openai().embed(texts)
    assert list(caught.value.refused) == [13]
    assert "not 23 (a text of 23 characters; if that is too long, set `max_length`" in caught.value.refused[13]
    np.testing.assert_allclose(caught.value.made, [unit(text) for text in texts if text != texts[13]], rtol=1e-5)
    assert len(service.requests) == 14, "two for each halving, one to see that the service works at all"


def test_the_number_of_texts_that_a_service_accepts_is_kept(service: ChatService, open_openai: OpenOpenAI) -> None:
    service.script = [limited(texts=10)]
    texts, embedder = [f"text {at}" for at in range(71)], open_openai()
    np.testing.assert_allclose(embedder.embed(texts), [unit(text) for text in texts], rtol=1e-5)
    refused = sum(len(request["input"]) > 10 for request in service.requests)
    assert refused == 3, "64, 32, 16"
    embedder.embed(texts)
    assert sum(len(request["input"]) > 10 for request in service.requests) == refused


def test_a_refused_text_among_too_many_texts(service: ChatService, open_openai: OpenOpenAI) -> None:
    """Its refusal does not lower the number of texts in a request to one."""
    service.script = [limited(texts=10, characters=20)]
    texts, embedder = [f"text {at}" for at in range(40)], open_openai()
    texts[0] = "a text that is too long"
    with pytest.raises(TextsRefusedError) as caught:
        embedder.embed(texts)
    assert (list(caught.value.refused), len(caught.value.made)) == ([0], 39)
    service.requests.clear()
    embedder.embed(texts[1:31])
    assert max(len(request["input"]) for request in service.requests) == 10
    assert len(service.requests) <= 6


def test_a_text_is_refused_with_its_pieces(service: ChatService, open_openai: OpenOpenAI) -> None:
    service.script = [lambda request: failing(400) if "x" in str(request["input"]) else embed(request)]
    texts = ["one", "two is short. " + "x" * 16 + ". and more.", "three", "four is in. two pieces."]
    embedder = open_openai(use_chunking=True, max_length=20)
    with pytest.raises(TextsRefusedError) as caught:
        embedder.embed(texts)
    assert list(caught.value.refused) == [1]
    service.script = [embed]
    np.testing.assert_allclose(caught.value.made, embedder.embed([texts[0], *texts[2:]]), rtol=1e-5)


def test_an_answer_that_does_not_come_is_unavailability(service: ChatService, open_openai: OpenOpenAI) -> None:
    service.script = [Reply(body={}, hangs=True)]
    with pytest.raises(EmbeddingUnavailableError, match="no answer in time"):
        open_openai(timeout=0.05, max_retries=0).embed(["a"])


def test_nobody_there_is_unavailability(open_openai: OpenOpenAI) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(EmbeddingUnavailableError, match="no connection"):
            open_openai(base_url=address, max_retries=0).embed(["a"])


def test_vectors_in_base64_are_read(service: ChatService, open_openai: OpenOpenAI) -> None:
    """Some services send them whatever they are asked for."""
    encoded = base64.b64encode(np.array([0.0, 2.0], dtype="<f4").tobytes()).decode()
    service.script = [Reply(body={"data": [{"embedding": encoded, "index": 0}]})]
    np.testing.assert_array_equal(open_openai().embed(["a"]), [[0, 1]])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"<html>hello</html>", "not an answer", id="not JSON"),
        pytest.param(b"\xff\xfe", "not an answer", id="not text"),
        pytest.param([1, 2], "not an answer", id="another shape"),
        pytest.param({"data": [{"embedding": "AAAA", "index": 0}]}, "not float32s", id="three bytes in base64"),
        pytest.param({"data": [{"embedding": "no base64!", "index": 0}]}, "not float32s", id="a text"),
        pytest.param({"data": [{"embedding": [1e300, 1.0], "index": 0}]}, "NaN or inf", id="beyond float32"),
        pytest.param({"data": [{"embedding": [None], "index": 0}]}, "not an answer", id="null in a vector"),
        pytest.param({"data": []}, "got vectors for", id="too few"),
        pytest.param({"data": [{"embedding": [1.0], "index": 0}] * 2}, "got vectors for", id="one index twice"),
        pytest.param({"data": [{"embedding": [1.0], "index": 5}]}, "got vectors for", id="strange index"),
        pytest.param({"data": [{"embedding": [], "index": 0}]}, "all zeros", id="empty vector"),
        pytest.param({"data": [{"embedding": [0.0, 0.0], "index": 0}]}, "all zeros", id="zero vector"),
        pytest.param(b'{"data": [{"embedding": [NaN, 1.0], "index": 0}]}', "NaN", id="not a number"),
        pytest.param(b'{"data": ' + b"[" * 100_000, "not an answer", id="nested too deep"),
        pytest.param(b'{"data": [{"embedding": [1e999, 1.0], "index": 0}]}', "NaN or inf", id="infinite"),
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_a_wrong_answer_is_an_error(
    service: ChatService, open_openai: OpenOpenAI, body: Any, said: str, kind: str
) -> None:
    service.script = [Reply(body=body, kind=kind)]
    with pytest.raises(EmbeddingError, match=said) as caught:
        open_openai().embed(["a"])
    assert not isinstance(caught.value, EmbeddingUnavailableError)


@pytest.mark.parametrize(
    ("params", "bodies", "said"),
    [
        ({}, [[[1.0], [1.0, 2.0]]], "different lengths"),
        ({"batch_size": 1}, [[[1.0]], [[1.0, 2.0]]], "length 1, 2"),
        ({"dimensions": 3}, [[[1.0, 2.0], [2.0, 1.0]]], "asks for 3"),
    ],
)
def test_vectors_of_another_length_are_an_error(
    service: ChatService, open_openai: OpenOpenAI, params: dict[str, int], bodies: list[list[list[float]]], said: str
) -> None:
    service.script = [Reply(body={"data": [{"embedding": row} for row in rows]}) for rows in bodies]
    with pytest.raises(EmbeddingError, match=said):
        open_openai(**params).embed(["a", "b"])


@pytest.mark.parametrize("key", ["", "${API_KEY}", "$API_KEY", "${}"])
def test_a_key_that_is_none_is_refused_before_any_request(
    service: ChatService, open_openai: OpenOpenAI, key: str
) -> None:
    with pytest.raises(EmbeddingError, match=r"`api_key`.*OPENAI_API_KEY"):
        open_openai(api_key=key).embed(["a"])
    assert service.requests == []


def test_user_and_password_of_the_address_are_in_no_message(service: ChatService, open_openai: OpenOpenAI) -> None:
    address = service.address.replace("http://", "http://ann:geheim@")
    service.script = [failing(400)]
    with pytest.raises(EmbeddingError, match=r"http://\*\*\*@127") as caught:
        open_openai(base_url=address).embed(["a"])
    assert "geheim" not in str(caught.value)


def test_a_model_that_got_another_length_under_its_name_is_replaced_as_the_error_says(
    service: ChatService, tmp_path: Path
) -> None:
    block = {"provider": "openai", "api_key": "sk-secret", "base_url": service.address}
    declaration = {"type": "simple", "config": {"memory_path": str(tmp_path / "notes.db"), "embedding": block}}
    with devmem.open(declaration) as memory:
        memory.add("The launch is on June 2nd.")
        service.script = [lambda request: embed({**request, "dimensions": 6})]
        with pytest.raises(EmbeddingMismatchError, match="`devmem reindex FILE STORE --force`"):
            memory.search("launch")
        assert isinstance(memory.store, CollectionMemory)
        assert memory.store.reindex(force=True) == 1
        assert memory.store.info().waiting == 0


@pytest.mark.parametrize("status", [401, 503])
@pytest.mark.parametrize("text", ["Ann's PIN is 4711, and nobody knows it.", "我的密码是四七一一。", "PIN 4711"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_service_that_repeats_the_request_puts_no_text_into_errors_and_logs(
    service: ChatService, open_openai: OpenOpenAI, status: int, text: str, ascii_only: bool, caplog: Any
) -> None:
    def refuse(request: Request) -> Reply:
        return failing(status, {"error": {"message": f"unauthorized: {json.dumps(request, ensure_ascii=ascii_only)}"}})

    service.script = [refuse]
    embedder = open_openai(max_retries=0)
    with pytest.raises(EmbeddingError) as raised:
        embedder.embed([text])
    assert str(status) in str(raised.value)
    assert "left out" in str(raised.value)
    with devmem.open(":memory:", embedding=embedder) as memory:
        memory.add(text)
        memory.search("something else")
    said = "".join(traceback.format_exception(raised.value)) + caplog.text
    assert not [part for part in ("4711", "四七一一", "\\u56db") if part in said]
