"""ChatDev's configuration and payloads as devmem's; these tests need no ChatDev."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import devmem
from devmem.adapters.chatdev import install, uninstall
from devmem.adapters.chatdev.conversion import REPLACED, attachment_of, declared, payload_of, settings_of
from devmem.errors import ConfigError, HostNotFoundError

EMBEDDING = SimpleNamespace(provider="openai", model="small", api_key="k", base_url=None, params={"max_length": 1000})
SOURCE = SimpleNamespace(source_path="docs", file_types=[".md"], recursive=False, encoding="utf-8")
CONFIGS = {
    "simple": SimpleNamespace(memory_path="notes.json", embedding=EMBEDDING),
    "file": SimpleNamespace(index_path="index.json", file_sources=[SOURCE], embedding=None),
    "blackboard": SimpleNamespace(memory_path=None, max_items=7),
    "mem0": SimpleNamespace(api_key="k", org_id=None, project_id=None, user_id="ann", agent_id=None),
}


class Snapshot(SimpleNamespace):
    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def test_without_chatdev_the_error_says_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmem.adapters.chatdev.find_spec", lambda _name: None)
    with pytest.raises(HostNotFoundError, match="PYTHONPATH") as caught:
        install()
    assert isinstance(caught.value, ImportError)
    uninstall()
    with pytest.raises(ValueError, match="user"):
        install(user=" ")


@pytest.mark.parametrize("store_type", REPLACED)
def test_each_of_chatdevs_configurations_becomes_devmems(store_type: str, tmp_path: Path) -> None:
    settings = settings_of(store_type, CONFIGS[store_type])
    declaration = declared("notes", store_type, settings, tmp_path)
    assert (declaration.name, declaration.type) == ("notes", store_type)
    assert set(settings) <= set(type(declaration.config).model_fields)
    if store_type == "simple":
        assert settings["embedding"] == {key: value for key, value in vars(EMBEDDING).items() if value is not None}
    if store_type == "file":
        assert settings["file_sources"][0]["path"] == "docs"


def test_what_cannot_be_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Mem0 memory store configuration expected"):
        settings_of("mem0", None)
    with pytest.raises(ValueError, match="'brain'"):
        settings_of("brain", SimpleNamespace())
    with pytest.raises(ConfigError, match="max_itemz"):
        declared("notes", "simple", {"max_itemz": 3}, tmp_path)


def test_an_attachment_keeps_its_stages_and_stays_within_bounds() -> None:
    stages = [SimpleNamespace(value="pre_gen_thinking"), SimpleNamespace(value="gen")]
    given = SimpleNamespace(
        name="notes", retrieve_stage=stages, top_k=10**9, similarity_threshold=-7, read=True, write=False
    )
    attachment = attachment_of(given)
    assert attachment.retrieve_stage == (devmem.Stage.PLAN, devmem.Stage.GEN)
    assert (attachment.top_k, attachment.similarity_threshold) == (10_000, -1.0)
    assert (attachment.read, attachment.write) == (True, False)
    given.retrieve_stage = None
    assert attachment_of(given).retrieve_stage is None


@pytest.mark.parametrize(("role", "trust"), [("user", 0.8), ("tool", 0.4)])
def test_a_payload_keeps_blocks_node_and_user(role: str, trust: float) -> None:
    block = {"type": "image", "attachment": {"attachment_id": "a", "data_uri": "data:,x"}}
    asked = Snapshot(text="see", blocks=[{"role": role, "block": block}])
    given = SimpleNamespace(agent_role=None, inputs_text="see", input_snapshot=asked, output_snapshot=None)
    payload = payload_of(given, node="writer", user="ann")
    assert (payload.source, payload.scope.user, payload.trust) == ("writer", "ann", trust)
    assert payload.output_snapshot is None
    assert payload.input_snapshot is not None
    assert payload.input_snapshot.attachment_overview()[0]["attachment_id"] == "a"
