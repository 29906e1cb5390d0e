"""The form of a block, found by breadcrumbs as DevAll's front end sends them."""

from __future__ import annotations

from typing import Any

import pytest

from devmem.config import form
from devmem.errors import FormPathError

from .fakes import FakeTypes, NotesConfig

TO_STORE = {"node": "WorkflowDocument", "field": "memory"}
TO_NOTES = {"node": "StoreDeclaration", "field": "config", "value": "notes"}


def names(shown: dict[str, Any]) -> list[str]:
    return [field["name"] for field in shown["fields"]]


def test_the_document_a_store_and_its_settings() -> None:
    whole = form(FakeTypes())
    assert (whole["node"], whole["breadcrumbs"], whole["schemaVersion"]) == ("WorkflowDocument", [], "0.1.0")
    assert whole["constraints"] == []
    assert {"memory", "nodes", "edges"} <= {*names(whole)}
    store = form(FakeTypes(), [TO_STORE])
    assert names(store)[:2] == ["name", "type"]
    settings = form(FakeTypes(), [TO_STORE, {**TO_NOTES, "index": 3}])
    assert (settings["node"], names(settings)) == ("NotesConfig", [*NotesConfig.model_fields])
    assert settings["breadcrumbs"] == [TO_STORE, TO_NOTES]
    embedding = form(FakeTypes(), [TO_STORE, TO_NOTES, {"node": "NotesConfig", "field": "embedding"}])
    assert embedding["node"] == "EmbeddingConfig"


def test_the_cache_key_changes_with_the_fields() -> None:
    few, more = FakeTypes(), FakeTypes(poems=NotesConfig)
    assert form(few, [TO_STORE])["cacheKey"] == form(few, [TO_STORE])["cacheKey"]
    assert form(few, [TO_STORE])["cacheKey"] != form(more, [TO_STORE])["cacheKey"]
    assert form(few)["cacheKey"] != form(few, [TO_STORE])["cacheKey"]


@pytest.mark.parametrize(
    ("crumbs", "message"),
    [
        ([{"node": "Graph"}], "does not start at 'WorkflowDocument'"),
        ([{}], "does not start at"),
        ([{"node": "WorkflowDocument", "field": "memroy"}], "did you mean 'memory'?"),
        ([{"node": "WorkflowDocument", "field": "version"}], "holds no block"),
        ([TO_STORE, {"node": "StoreDeclaration", "field": "config"}], "needs `value`, one of notes, files, cloud"),
        ([TO_STORE, {**TO_NOTES, "value": ["x"]}], "needs `value`"),
    ],
)
def test_a_path_that_leads_nowhere(crumbs: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(FormPathError) as caught:
        form(FakeTypes(), crumbs)
    assert message in str(caught.value)
