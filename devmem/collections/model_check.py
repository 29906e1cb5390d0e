"""Refusing embeddings of another model than the collection's."""

from __future__ import annotations

from devmem.embedding import ModelIdentity
from devmem.errors import CollectionInUseError, EmbeddingMismatchError


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
            location, recorded=f"a model of {made} dimensions", wanted=f"one of {given} dimensions", same_name=True
        )


def is_replaceable(model: ModelIdentity | None, *, recorded: str | None, dimension: int | None) -> bool:
    """Whether the recorded model has made no vector yet, of which the first sets the dimension, and another is wanted.

    So it is where a package or a file of the first model was missing.
    """
    return model is not None and recorded is not None and dimension is None and recorded != model.name


def check_model(location: str, model: ModelIdentity, *, recorded: str, dimension: int | None) -> None:
    """Refuse to open a collection with another model than the recorded one."""
    if recorded != model.name or (model.dimension and dimension and model.dimension != dimension):
        raise EmbeddingMismatchError(
            location,
            recorded=f"{recorded} ({dimension or 'unknown'} dimensions)",
            wanted=f"{model.name} ({model.dimension or 'unknown'} dimensions)",
            same_name=recorded == model.name,
        )


def check_store_type(location: str, *, owner: str | None, wanted: str | None) -> None:
    """Refuse to open the collection of another store type."""
    if wanted and owner and owner != wanted:
        raise CollectionInUseError(
            location, f"holds the items of a {owner!r} store; give the {wanted!r} store another path."
        )
