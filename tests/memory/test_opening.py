"""Places that `devmem.open` opens, and how it refuses what it cannot open."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.config.store import GuardConfig
from devmem.errors import ModelNotFoundError
from devmem.memory import opening
from devmem.storage import inspect_location
from devmem.testing import HashEmbedder

TEAM = """
memory:
  - {name: notes, type: simple, config: {memory_path: memory/notes.db}}
  - {name: board, type: blackboard, config: {memory_path: memory/board.db}}
nodes: []
"""


@pytest.fixture
def team(tmp_path: Path) -> Path:
    path = tmp_path / "team.yaml"
    path.write_text(TEAM)
    return path


@pytest.mark.parametrize("guard", [{"checks": [], "max_length": 10}, GuardConfig(checks=(), max_length=10)])
def test_a_memory_opened_by_its_path_takes_a_guard(file: Path, guard: Any) -> None:
    """As a dict, which is a workflow's block, or as the model of it."""
    with devmem.open(file, embedding=None, guard=guard) as memory:
        caught = memory.add("Ann likes tea, and Ben likes milk.")
        assert [record.id for record in memory.list(quarantined=True)] == [caught]
    with devmem.open(file, embedding=None) as memory:
        assert not memory.search("tea")
        memory.add("Ben likes a cup of milk.")
        assert len(memory.list(quarantined=True)) == 1


def test_the_path_of_a_workflows_file_is_opened_as_the_type_that_it_holds(tmp_path: Path, team: Path) -> None:
    with devmem.open(f"{team}#board") as memory:
        memory.add("Use the blue template.")
    with devmem.open(tmp_path / "memory" / "board.db") as memory:
        assert memory.store.setup.store_type == "blackboard"
        assert memory.list()[0].text == "Use the blue template."


@pytest.mark.parametrize(("place", "message"), [("#nots", "there is no store 'nots'"), ("", "name one store as")])
def test_a_store_that_is_not_declared_is_named_with_those_that_are(team: Path, place: str, message: str) -> None:
    with pytest.raises(devmem.ConfigError, match=message) as caught:
        devmem.open(f"{team}{place}")
    assert "notes, board" in str(caught.value)


def test_a_declaration_is_checked_as_a_file_is() -> None:
    with devmem.open({"name": "board", "type": "blackboard", "config": {"max_items": 2}}) as memory:
        memory.add(["one", "two", "three"])
        assert [record.text for record in memory] == ["two", "three"]
    with pytest.raises(devmem.ConfigError, match="max_itms"):
        devmem.open({"type": "blackboard", "config": {"max_itms": 2}})


def test_without_minilm_words_are_searched_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("devmem.models.model_files.find_spec", lambda name: None)
    opening.installed_provider.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                with devmem.open(":memory:") as memory:
                    memory.add("The code is 4711.")
                    assert memory.search("code")[0].similarity is None
    finally:
        opening.installed_provider.cache_clear()
    assert [record.getMessage() for record in caplog.records if "by their words alone" in record.getMessage()] != []
    assert len([record for record in caplog.records if "by their words alone" in record.getMessage()]) == 1


def test_a_closed_memory_says_so(file: Path) -> None:
    memory = devmem.open(file, embedding=None)
    memory.close()
    memory.close()
    assert repr(memory) == f"<Memory {str(file)!r}: closed>"
    with pytest.raises(devmem.errors.CollectionError, match="closed"):
        memory.add("too late")


@pytest.mark.parametrize("name", ["${HOME}.db", "$${x}.db", "a#b.db", "with space .db", "笔记.db", "%20.db", "é\n.db"])
def test_any_file_name_is_meant_as_it_is(tmp_path: Path, name: str) -> None:
    with devmem.open(tmp_path / name, embedding=None) as memory:
        memory.add("one")
    assert (tmp_path / name).exists()
    with devmem.open(str(tmp_path / name), embedding=None) as memory:
        assert len(memory) == 1


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(devmem.errors.CollectionError, match="cannot be reached") as caught:
        opening.declared_store("postgresql://ann:hunter2@localhost:1/notes", None)
    assert "hunter2" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("kind", ["simple", "blackboard", "brain", "long_term", "role_zero"])
def test_every_type_of_store_opens_the_same_way(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "memory.db"
    with devmem.open({"type": kind, "config": {"memory_path": path}}) as memory:
        launch = memory.add("The launch is on June 2nd.", user="ann", metadata={"topic": "launch"})
        memory.add([{"role": "user", "content": "Is the launch moved?"}], user="ann", session="s")
        memory.add("The launch party is on June 3rd.")
    with devmem.open(path) as memory:
        assert memory.store.setup.store_type == kind
        assert {hit.text for hit in memory.search("launch", user="ann")} == {
            "The launch is on June 2nd.",
            "Is the launch moved?",
        }
        assert [hit.text for hit in memory.search("launch")] == ["The launch party is on June 3rd."]
        assert memory.update(launch, "The launch is on July 1st.").metadata == {"topic": "launch"}
        assert memory.scoped(user="bob").get(launch) is None
        assert [memory.forget(user="ann", dry_run=dry_run).items for dry_run in (True, False)] == [2, 2]
        assert len(memory) == 1


def test_a_memory_is_searched_by_fields_of_its_metadata(tmp_path: Path) -> None:
    """Of all items, as it was opened first, or of one, as it was added."""
    with devmem.open(tmp_path / "notes.db", embedding=None, fields=["title"]) as memory:
        memory.add("We met at noon.", metadata={"title": "Launch"})
        memory.add("Nobody came.", metadata={"title": "Review", "body": "harbour"}, fields=["body"])
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        assert [(hit.text, hit.field) for hit in memory.search("launch")] == [("We met at noon.", "title")]
        assert [(hit.text, hit.field) for hit in memory.search("harbour")] == [("Nobody came.", "body")]
        assert memory.search("review") == []
        with pytest.raises(ValueError, match=r"`fields` are paths such as 'title'"):
            memory.add("x", fields=["a..b"])
        with pytest.raises(ValueError, match="not 'title'"):
            memory.add("x", fields="title")
    with pytest.raises(ValueError, match="into the declaration"):
        devmem.open({"type": "simple"}, fields=["title"])
    for wrong in ("title", ["a..b"]):
        with pytest.raises(ValueError, match="in a list, not"):
            devmem.open(tmp_path / "other.db", embedding=None, fields=wrong)


def test_e5_is_the_model_where_it_alone_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path | None) -> Path:
        raise ModelNotFoundError("minilm is not on this machine")

    opening.installed_provider.cache_clear()
    monkeypatch.setattr(opening, "find_model", gone)
    try:
        with devmem.open(tmp_path / "notes.db") as memory:
            memory.add("Das Auto steht in der Garage.")
            assert memory.search("car")[0].similarity is not None
    finally:
        opening.installed_provider.cache_clear()


@pytest.mark.parametrize("name", ["notes.db", "notes.json"])
def test_a_file_that_was_opened_without_a_model_stays_without_one(tmp_path: Path, name: str) -> None:
    """Until somebody names a model: nothing is embedded that nobody asked for."""
    file = tmp_path / name
    with devmem.open(file, embedding=None) as memory:
        memory.add("The lab's code is 4711.")
    with devmem.open(file) as memory:
        memory.add("The lab is closed on Mondays.")
        assert memory.store.info().embedding is None
    with devmem.open(file, embedding=HashEmbedder(32)) as memory:
        memory.add("The lab has a new door.")
        assert memory.store.info().waiting == 0
    facts = inspect_location(str(file))
    assert facts is None or (facts.model, facts.words_only) == ("testing:hash:32", False)
