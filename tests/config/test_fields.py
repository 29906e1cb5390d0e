"""Facts about fields for form builders, their docstrings, and the form of a block by breadcrumbs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, SecretStr

from devmem.config import AgentConfig, Attachment, ConfigModel, Edge, NodeConfig, StoreDeclaration, field_specs, form
from devmem.config.base import field_description
from devmem.errors import FormPathError

from .fakes import FakeTypes, NotesConfig


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(ConfigModel):
    """A block."""


class EverythingConfig(ConfigModel):
    """One field of each kind."""

    text: str = "x"
    """A text
    on two lines."""
    number: int | None = None
    share: float = 0.5
    flag: bool = Field(default=True, title="Switch", json_schema_extra={"advanced": True})
    secret: SecretStr = SecretStr("never shown")
    place: Path = Path("a/b")
    colour: Colour = Colour.RED
    choice: Literal["a", "b"] | None = "a"
    texts: list[str] = Field(default_factory=lambda: ["x"])
    either: str | list[str] | None = None
    free: dict[str, Any] = Field(default_factory=dict)
    block: Inner | None = None
    blocks: tuple[Inner, ...] = ()
    wanted: int


def _json(model: type[ConfigModel], store_types: FakeTypes | None = None) -> dict[str, dict[str, Any]]:
    return {spec.name: spec.to_json() for spec in field_specs(model, store_types)}


def test_required_fields_come_first() -> None:
    assert [spec.name for spec in field_specs(EverythingConfig)][:2] == ["wanted", "text"]


def test_types_and_defaults() -> None:
    fields = _json(EverythingConfig)
    assert {name: (field["type"], field.get("default")) for name, field in fields.items()} == {
        "wanted": ("int", None),
        "text": ("str", "x"),
        "number": ("int", None),
        "share": ("float", 0.5),
        "flag": ("bool", True),
        "secret": ("str", None),
        "place": ("str", "a/b"),
        "colour": ("Colour", "red"),
        "choice": ("str", "a"),
        "texts": ("list[str]", ["x"]),
        "either": ("str | list[str]", None),
        "free": ("dict[str, Any]", {}),
        "block": ("Inner", None),
        "blocks": ("list[Inner]", []),
    }


def test_the_shape_that_devall_reads() -> None:
    assert _json(EverythingConfig)["wanted"] == {
        "name": "wanted",
        "displayName": "Wanted",
        "type": "int",
        "required": True,
        "advance": False,
    }
    assert _json(EverythingConfig)["flag"] == {
        "name": "flag",
        "displayName": "Switch",
        "type": "bool",
        "required": False,
        "advance": True,
        "default": True,
    }
    assert _json(EverythingConfig)["choice"]["enum"] == ["a", "b"]
    assert _json(EverythingConfig)["colour"]["enumOptions"][0] == {"value": "red", "label": "red"}
    assert _json(EverythingConfig)["blocks"]["childNode"] == "Inner"
    assert _json(EverythingConfig)["text"]["description"] == "A text on two lines."


def test_a_store_lists_the_types_and_what_each_needs(store_types: FakeTypes) -> None:
    fields = _json(StoreDeclaration, store_types)
    assert fields["type"]["enum"] == ["notes", "files", "cloud", "broken"]
    assert fields["type"]["enumOptions"][0] == {"value": "notes", "label": "notes", "description": "Keeps notes."}
    assert "needs libacme" in fields["type"]["enumOptions"][3]["description"]
    assert fields["config"]["childRoutes"][0] == {
        "childKey": {"field": "config", "value": "notes"},
        "childNode": "NotesConfig",
    }
    assert len(fields["config"]["childRoutes"]) == 3
    routes = {spec.name: spec for spec in field_specs(StoreDeclaration, store_types)}["config"].child_routes
    assert routes[0].model is NotesConfig


def test_a_node_says_what_an_agent_needs() -> None:
    fields = _json(NodeConfig)
    assert "enum" not in fields["type"]
    assert [route["childNode"] for route in fields["config"]["childRoutes"]] == ["AgentConfig"]


def test_everything_is_explained(store_types: FakeTypes) -> None:
    for model in (StoreDeclaration, NodeConfig, AgentConfig, Attachment, Edge):
        assert all(spec.description for spec in field_specs(model, store_types))


class Base(ConfigModel):
    """A model."""

    path: str = ""
    """Where it is,
    in two lines."""
    plain: int = 0
    given: int = Field(default=0, description="As the field says.")
    """Not read."""


class Derived(Base):
    """A model with a field of another kind."""

    plain: int = 1
    """Now it has one."""
    path: str = "x"


def test_descriptions() -> None:
    assert field_description(Base, "path") == "Where it is,\nin two lines."
    assert field_description(Base, "plain") is None
    assert field_description(Base, "given") == "As the field says."
    assert field_description(Derived, "given") == "As the field says."
    assert field_description(Derived, "plain") == "Now it has one."
    assert field_description(Derived, "path") is None


def test_a_class_without_source_has_none() -> None:
    names: dict[str, type[ConfigModel]] = {}
    exec("from devmem.config import ConfigModel\nclass Made(ConfigModel):\n    x: int = 0\n    '''Text.'''", names)
    assert field_description(names["Made"], "x") is None


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
