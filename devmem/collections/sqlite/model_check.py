"""Check that the vectors of a collection are of one model."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from devmem.collections.model_check import check_length, check_name
from devmem.collections.sqlite import database
from devmem.embedding import PassageEmbeddings


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
