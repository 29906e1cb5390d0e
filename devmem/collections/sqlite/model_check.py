"""Check that the vectors of a collection are of one model."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from devmem.collections.sqlite import database
from devmem.embedding import PassageEmbeddings
from devmem.errors import EmbeddingMismatchError


def check_embeddings(
    connection: sqlite3.Connection, location: str, model: str | None, embeddings: Iterable[PassageEmbeddings | None]
) -> None:
    """Refuse embeddings of another model or length; the first embedding of all sets the length.

    Args:
        connection: in a write transaction.
        location: location of the collection, for the error.
        model: name of the model that made the embeddings; None when it is not known.
        embeddings: embeddings that are to be stored.

    Raises:
        EmbeddingMismatchError: the model or the length is another.
    """
    lengths = {encoding.vectors.shape[1] for encoding in embeddings if encoding is not None}
    if not lengths:
        return
    meta = database.read_meta(connection)
    check_name(location, made=meta.get("model"), given=model)
    recorded = meta.get("dimension")
    if recorded is None:
        recorded = min(lengths)
        database.set_meta(connection, "dimension", recorded)
    for length in lengths:
        check_length(location, made=int(recorded), given=length)


def check_name(location: str, *, made: str | int | None, given: str | None) -> None:
    """Refuse another model than the one that is recorded now.

    While a collection is open another process may have embedded it with another model.
    """
    if made is not None and given is not None and made != given:
        raise EmbeddingMismatchError(location, recorded=str(made), wanted=given)


def check_length(location: str, *, made: int, given: int) -> None:
    """Refuse an embedding of another length than those in the collection."""
    if given != made:
        raise EmbeddingMismatchError(
            location, recorded=f"a model of {made} dimensions", wanted=f"one of {given} dimensions"
        )
