"""Properties that a store records of itself: type, model, version of its text analysis, and indexed fields."""

from __future__ import annotations

import json
from typing import Final

from devmem.errors import CollectionInUseError, EmbeddingMismatchError
from devmem.model.items import dump_item_json
from devmem.models.embedder import ModelIdentity
from devmem.search.indexes.passages import has_text, passages_of
from devmem.storage.tables import NOW, StoreTables
from devmem.storage.writing import Fields, PreparedItem, speaker_of, with_fields
from devmem.text.analysis import ANALYSIS_VERSION
from devmem.text.cues import cues_of_item

WORDS_ONLY: Final = "words_only"
"""Property of a store that has no model on purpose; one that has a model disregards it."""
_FIELDS: Final = "fields"
"""Property with the recorded fields, as JSON: lists of paths, the current one first, then all earlier ones."""


def claim(tables: StoreTables, model: ModelIdentity | None, store_type: str | None, *, record: bool) -> bool:
    """Check that a store, a store type and a model belong together; return whether something is not recorded yet.

    Args:
        tables: of the store.
        model: model that it is opened with.
        store_type: type that it is opened as.
        record: record what is not recorded yet; the transaction has to be one that writes.

    Raises:
        CollectionInUseError: the store is of another type.
        EmbeddingMismatchError: its embeddings are of another model.
    """
    owner, made, dimension = (tables.property(name) for name in ("store_type", "model", "dimension"))
    if store_type and owner and owner != store_type:
        raise CollectionInUseError(
            tables.location, f"holds the items of a {owner!r} store; give the {store_type!r} store another path."
        )
    # The first vector sets the dimension: a model whose package or file was missing has made none, and can be replaced.
    is_new = model is not None and (made is None or (dimension is None and made != model.name))
    if model is not None and not is_new:
        is_longer = bool(model.dimension and dimension and model.dimension != dimension)
        if made != model.name or is_longer:
            raise EmbeddingMismatchError(
                tables.location,
                recorded=f"{made} ({dimension or 'unknown'} dimensions)",
                wanted=f"{model.name} ({model.dimension or 'unknown'} dimensions)",
                same_name=made == model.name,
            )
    is_unowned = bool(store_type) and not owner
    is_outdated = tables.property("analysis") != ANALYSIS_VERSION
    if record and is_unowned:
        tables.set_property("store_type", store_type)
    if record and is_outdated:
        # Terms, cues and speaker of every version are of another version of the text analysis.
        for row, body in tables.bodies():
            item = tables.load(row, body)
            tables.replace_terms(row, PreparedItem.of(item).terms())
            statement = f"UPDATE items SET cues = ?, speaker = ? WHERE {tables.of} AND row = ?"
            tables.change(statement, (int(cues_of_item(item)), speaker_of(item), row))
        tables.note_other_terms()
        tables.set_property("analysis", ANALYSIS_VERSION)
    if record and model is not None and is_new:
        tables.set_property("model", model.name)
        tables.set_property("dimension", model.dimension)
        tables.change(f"UPDATE items SET refusal = NULL WHERE {tables.of} AND refusal IS NOT NULL")
    return is_unowned or is_outdated or is_new


def record_words_only(tables: StoreTables) -> None:
    """Record that a store has no model on purpose, unless it has one."""
    if lacks_words_only(tables):
        tables.set_property(WORDS_ONLY, 1)


def lacks_words_only(tables: StoreTables) -> bool:
    """Whether a store has no model, and does not record that this is on purpose."""
    return tables.property("model") is None and not tables.property(WORDS_ONLY)


def replace_model(tables: StoreTables, model: str, dimension: int | None) -> int:
    """Delete every embedding and record the model of the new ones; return the number of items that wait for it."""
    tables.delete_embeddings()
    among, values = tables.dialect.among(
        "row", [row for row, body in tables.bodies() if has_text(tables.load(row, body))]
    )
    tables.change(f"UPDATE items SET waiting = ? WHERE {tables.of} AND NOT waiting AND {among}", (True, *values))
    tables.change(f"UPDATE items SET refusal = NULL WHERE {tables.of} AND refusal IS NOT NULL")
    tables.set_property("model", model)
    tables.set_property("dimension", dimension)
    waiting = count_waiting(tables)
    tables.drop_vector_index()
    return waiting


def count_waiting(tables: StoreTables) -> int:
    """Return the number of current items that wait for an embedding."""
    ((waiting,),) = tables.execute(f"SELECT count(*) FROM items WHERE {tables.of} AND {NOW} AND waiting")
    return int(waiting)


def recorded_fields(tables: StoreTables) -> list[Fields]:
    """Return the fields that are recorded, the current ones first, then all earlier ones."""
    found = tables.property(_FIELDS)
    return [tuple(each) for each in json.loads(found)] if isinstance(found, str) else []


def record_fields(tables: StoreTables, fields: Fields) -> None:
    """Record that items are written with other fields, too; the current ones stay the first."""
    recorded = recorded_fields(tables)
    if fields not in recorded:
        tables.set_property(_FIELDS, json.dumps([*(recorded or [()]), fields]))


def replace_fields(tables: StoreTables, fields: Fields) -> int:
    """Search all versions by other fields; return the number of items that wait for embeddings."""
    recorded = recorded_fields(tables)
    changed: dict[int, PreparedItem] = {}
    for row, body in tables.bodies():
        item = tables.load(row, body)
        new = with_fields(item, fields, recorded)
        if new is item:
            continue
        body_of_row = f"UPDATE items SET body = ? WHERE {tables.of} AND row = ?"
        tables.change(body_of_row, (dump_item_json(new, is_stored=True).decode(), row))
        if passages_of(new) != passages_of(item):
            changed[row] = PreparedItem.of(new)
            waits = f"UPDATE items SET length = ?, waiting = ?, refusal = NULL WHERE {tables.of} AND row = ?"
            tables.change(waits, (changed[row].length(), has_text(new), row))
    if changed:
        tables.replace_passages(changed)
        tables.note_other_terms()
    others = [earlier for earlier in recorded if earlier != fields]
    tables.set_property(_FIELDS, json.dumps([fields, *others]))
    return count_waiting(tables)
