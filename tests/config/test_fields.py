"""Facts about fields for form builders."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr

from devmem import Stage
from devmem.config import AgentConfig, Attachment, ConfigModel, Edge, NodeConfig, StoreDeclaration, field_specs

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


def test_attachments() -> None:
    fields = _json(Attachment)
    assert fields["top_k"]["default"] == 3
    assert fields["retrieve_stage"]["type"] == "list[Stage]"
    assert fields["retrieve_stage"]["enum"] == [stage.value for stage in Stage]
    assert fields["write_stage"]["default"] == ["finished"]


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
