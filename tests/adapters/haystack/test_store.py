"""Haystack's own suites of document stores, with all of their parts, and what only devmem promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from haystack import Document
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.errors import FilterError
from haystack.testing import document_store as suite
from haystack.testing import document_store_async as async_suite

import devmem
from devmem.adapters.haystack import DevmemDocumentStore


@pytest.fixture
def document_store(tmp_path: Path) -> Iterator[DevmemDocumentStore]:
    store = DevmemDocumentStore(str(tmp_path / "documents.db"))
    yield store
    store.close()


class _Compared:
    """Documents with vectors in 32 bits, as every database of vectors keeps them."""

    def assert_documents_are_equal(self, received: Sequence[Document], expected: Sequence[Document]) -> None:
        def plain(documents: Sequence[Document]) -> list[Document]:
            return sorted((replace(each, embedding=None) for each in documents), key=lambda each: each.id)

        assert plain(received) == plain(expected)
        vectors = {each.id: each.embedding for each in expected}
        for each in received:
            assert (each.embedding is None) == (vectors[each.id] is None)
            np.testing.assert_allclose(each.embedding or [], vectors[each.id] or [], rtol=1e-5, atol=1e-6)

    def test_write_documents(self, document_store: DevmemDocumentStore) -> None:
        """Without a policy, a document that is stored already is refused."""
        documents = [Document(content="test doc")]
        assert document_store.write_documents(documents) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(documents)
        self.assert_documents_are_equal(document_store.filter_documents(), documents)


class TestSuite(
    _Compared,
    suite.DocumentStoreBaseExtendedTests,
    suite.CountDocumentsByFilterTest,
    suite.CountUniqueMetadataByFilterTest,
    suite.GetMetadataFieldsInfoTest,
    suite.GetMetadataFieldMinMaxTest,
    suite.GetMetadataFieldUniqueValuesTest,
):
    @pytest.fixture
    def document_store(self, tmp_path: Path) -> Iterator[DevmemDocumentStore]:
        store = DevmemDocumentStore(str(tmp_path / "documents.db"))
        yield store
        store.close()


_ASYNC: list[Any] = [part for name, part in vars(async_suite).items() if name.endswith("AsyncTest")]


class TestAsyncSuite(_Compared, *_ASYNC):  # type: ignore[misc] # each part has its own tests
    async def test_write_documents_async(self, document_store: DevmemDocumentStore) -> None:
        documents = [Document(content="test doc")]
        assert await document_store.write_documents_async(documents) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async(documents)
        self.assert_documents_are_equal(document_store.filter_documents(), documents)

    @pytest.fixture
    def document_store(self, tmp_path: Path) -> Iterator[DevmemDocumentStore]:
        store = DevmemDocumentStore(str(tmp_path / "documents.db"))
        yield store
        store.close()


def test_everything_of_a_document_comes_back(document_store: DevmemDocumentStore) -> None:
    documents = [
        Document(content=None, blob=ByteStream(b"\x00\xff", meta={"page": 1}, mime_type="image/png")),
        Document(content="", meta={"key": "mine", "haystack": 1, "devmem.vector": "x", "a": {"b": [1, None]}}),
        Document(content=" kept ", sparse_embedding=SparseEmbedding(indices=[1, 9], values=[0.5, 2.0]), score=0.25),
        Document(id="日本", content="x" * 20_000, embedding=[3.0, 4.0]),
        Document(id="other", content="x" * 20_000),
    ]
    document_store.write_documents(documents)
    assert document_store.filter_documents() == documents
    found = document_store.filter_documents({"field": "meta.key", "operator": "==", "value": "mine"})
    assert found == [documents[1]]
    assert document_store.filter_documents({"field": "content", "operator": "==", "value": " kept "}) == [documents[2]]
    document_store.delete_documents(["other"])
    assert document_store.count_documents() == 4, "documents of the same text are documents of their own"
    with pytest.raises(ValueError, match="JSON cannot hold 'bad'"):
        document_store.write_documents([Document(content="a", meta={"bad": object()})])
    with pytest.raises(ValueError, match="'key' is a name"):
        document_store.update_by_filter({"field": "meta.a", "operator": "!=", "value": None}, {"key": 1})


def test_times_are_compared_as_times(document_store: DevmemDocumentStore) -> None:
    time = datetime(2026, 6, 2, 14, 30, tzinfo=UTC)
    document_store.write_documents([Document(content="a", meta={"at": time}), Document(content="b", meta={"at": "x"})])
    for value in ("2026-06-02T16:30:00+02:00", time):
        for operator in ("==", ">=", "<="):
            found = document_store.filter_documents({"field": "meta.at", "operator": operator, "value": value})
            assert [each.content for each in found] == ["a"]
    with pytest.raises(FilterError, match="neither"):
        document_store.filter_documents({"field": "meta.at", "operator": ">", "value": "soon"})


def test_scopes_share_a_file_and_see_nothing_of_each_other(tmp_path: Path) -> None:
    place = str(tmp_path / "shared.db")
    stores = [DevmemDocumentStore(place, user=user) for user in ("ann", "bob")]
    for number, store in enumerate(stores):
        store.write_documents([Document(id="same", content=f"secret {number}", embedding=[1.0, float(number)])])
    ann, bob = stores
    assert [each.content for each in ann.filter_documents()] == ["secret 0"]
    assert [each.content for each in ann.search("secret", vector=[1.0, 1.0])] == ["secret 0"]
    everybody = {"operator": "NOT", "conditions": [{"field": "meta.x", "operator": "==", "value": 1}]}
    assert ann.delete_by_filter(everybody) == 1
    assert (ann.count_documents(), bob.count_documents()) == (0, 1)
    for store in stores:
        store.close()


def test_what_is_searched_by_words_vectors_and_both(document_store: DevmemDocumentStore) -> None:
    texts = ["The launch is in June.", "Lunch is at noon.", "The ferry leaves at nine."]
    vectors = np.eye(3).tolist()
    document_store.write_documents(
        [
            Document(content=text, embedding=vector, meta={"n": n})
            for n, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
    )
    assert document_store.search("ferry", signal="words")[0].content == texts[2]
    by_vector = document_store.search(vector=[0.1, 1.0, 0.0], signal="vector", return_embedding=True)
    assert [each.content for each in by_vector] == [texts[1], texts[0], texts[2]]
    assert by_vector[0].score == pytest.approx(0.995, abs=1e-3)
    assert by_vector[0].embedding == [0.0, 1.0, 0.0]
    assert document_store.search("ferry", vector=[0.0, 0.2, 1.0])[0].content == texts[2]
    late = {"field": "content", "operator": "!=", "value": texts[1]}
    assert texts[1] not in [each.content for each in document_store.search(vector=[0.1, 1.0, 0.0], filters=late)]
    with pytest.raises(ValueError, match="has 2 numbers"):
        document_store.search(vector=[1.0, 2.0], signal="vector")
    words = DevmemDocumentStore(embedding=None)
    with pytest.raises(devmem.DevmemError, match="searched by words"):
        words.search(vector=[1.0], signal="vector")
