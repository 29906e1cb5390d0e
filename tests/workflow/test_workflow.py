"""Forgetting in a whole workflow: every store, what waits beside them, and what is left when something fails."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import devmem
import devmem.storage
from devmem import MemoryItem, Scope, Workflow, load_workflow, open_stores
from devmem.errors import UnknownSessionError
from devmem.model.interactions import Interaction, InteractionKind, Participant, ParticipantType
from devmem.recording.forwarder import records_in
from tests.conftest import StartScript
from tests.dying import DYING
from tools.forgetting_team import fill_team, left_in_files, make_team, words_of_user

STORES = ("notes", "copies", "board", "role", "long", "brain", "talk")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workflow = make_team(tmp_path_factory.mktemp("template") / "team")
    fill_team(workflow, ["ann", "bob"], rich=["ann", "bob"])
    return workflow.base_dir


@pytest.fixture
def team(template: Path, tmp_path: Path) -> Workflow:
    shutil.copytree(template, tmp_path / "team")
    return load_workflow(tmp_path / "team" / "team.yaml")


def words_left(workflow: Workflow, user: str) -> dict[str, list[str]]:
    return left_in_files(workflow.base_dir, words_of_user(user))


def counts(workflow: Workflow) -> dict[str, int]:
    with open_stores(workflow) as stores:
        return {name: store.count() for name, store in stores.items()}


def test_nothing_is_left_of_a_user_in_any_file(team: Workflow) -> None:
    """Not in stores, copies, summaries, versions, runs, states, records, unsaved writes and attachments."""
    assert {word for words in words_left(team, "ann").values() for word in words} == set(words_of_user("ann"))
    before = counts(team)
    receipt = devmem.forget(team, user="ann")
    assert words_left(team, "ann") == {}
    assert (receipt.left, receipt.exports, receipt.writes) == ((), (), 1)
    assert [part.store for part in receipt.stores] == list(STORES)
    assert {word for words in words_left(team, "bob").values() for word in words} == set(words_of_user("bob"))
    after = counts(team)
    assert {name: before[name] - after[name] for name in before} == {
        **{part.store: part.items for part in receipt.stores},
        "talk": 4,  # two more records were in a journal
        "docs": 0,
    }


def test_a_user_leaves_no_key_among_the_states_of_conversations(team: Workflow) -> None:
    devmem.forget(team, user="bob")
    assert left_in_files(team.base_dir / ".devmem" / "default", ["bob:c-bob"]) == {}


def test_a_dry_run_changes_nothing(team: Workflow) -> None:
    before, words = counts(team), words_left(team, "ann")
    receipt = devmem.forget(team, user="ann", dry_run=True)
    assert receipt.writes == 3
    assert {part.store: part.items for part in receipt.stores} == dict.fromkeys(STORES, 2) | {"brain": 4, "talk": 6}
    assert counts(team) == before
    assert words_left(team, "ann").keys() == words.keys()


def test_an_item_goes_with_its_copies_and_what_was_derived_from_it(team: Workflow) -> None:
    receipt = devmem.forget(team, "notes-ann-0", "notes-ann-1")
    assert {part.store: (part.items, len(part.derived)) for part in receipt.stores} == {
        "notes": (2, 0),
        "copies": (2, 1),
    }


def test_another_users_item_of_the_same_id_stays(team: Workflow) -> None:
    with open_stores(team) as stores:
        stores["notes"].add([MemoryItem(id="diet", content_summary="Ann eats fish.", scope=Scope(user="ann"))])
        stores["board"].add([MemoryItem(id="diet", content_summary="Bob eats meat.", scope=Scope(user="bob"))])
    devmem.forget(team, user="ann")
    with open_stores(team, ["board"]) as stores:
        assert [item.content_summary for item in stores["board"].get(["diet"])] == ["Bob eats meat."]


def test_every_session_is_reached_or_the_named_one(team: Workflow) -> None:
    for session in ("s1", "s2"):
        with open_stores(team, ["brain"], session=session) as stores:
            stores["brain"].add([MemoryItem(content_summary="Xylophonist", scope=Scope(user="eve"))])
    assert devmem.forget(team, user="eve", in_session="s1").items == 1
    receipt = devmem.forget(team, user="eve")
    assert [(part.store, part.items) for part in receipt.stores] == [("brain (session s2)", 1)]
    assert left_in_files(team.base_dir, ["Xylophonist"]) == {}


def test_a_session_without_files_is_refused(team: Workflow) -> None:
    """Nothing would be forgotten, as if nothing were there."""
    with open_stores(team, ["brain"], session="s1"):
        pass
    with pytest.raises(UnknownSessionError, match="no files of a session 'S1'; the sessions are: default, s1") as error:
        devmem.forget(team, user="eve", in_session="S1")
    assert error.value.known == ("default", "s1")


def test_a_document_that_still_says_it_is_named(team: Workflow) -> None:
    with open_stores(team, ["docs"]):
        pass
    receipt = devmem.forget(team, matching="opens at nine", user=devmem.ANY)
    assert receipt.items == 1
    assert [left.place for left in receipt.left] == ["docs/guide.md"]


def test_refused_records_are_forgotten(team: Workflow) -> None:
    side = Participant("writer", ParticipantType.AGENT)
    record = Interaction(
        id="r", conversation="c", trace="t", source=side, target=side, kind=InteractionKind.INPUT,
        content="Quillfeather", event_time=1.0, user="ann",
    )  # fmt: skip
    file = team.base_dir / "memory" / "talk.db.pending"
    with closing(records_in(file)) as records:
        records.put({"r": record, "other": replace(record, id="other", user="bob", content="ok")})
        for key in ("r", "other"):
            records.refuse(key, "not this one")
    assert devmem.forget(team, user="ann").writes == 2
    assert b"Quillfeather" not in file.read_bytes()
    with closing(records_in(file)) as records:
        assert [entry.value.content for entry in records.entries(refused=True)] == ["ok"]


def test_a_store_that_cannot_be_used_is_named_and_the_others_are_done(team: Workflow) -> None:
    (team.base_dir / "memory" / "board.db").write_bytes(b"no database at all, but long enough to look at" * 99)
    receipt = devmem.forget(team, user="ann")
    assert [left.place for left in receipt.residues] == ["board"]
    assert [part.store for part in receipt.stores] == [name for name in STORES if name != "board"]


_DYING = (
    DYING
    + """
import shutil
folder, share = sys.argv[1:]
shutil.copytree(folder, folder + "-copy")
lines = lines_of(lambda: devmem.forget(folder + "-copy/team.yaml", user="ann"))
shutil.rmtree(folder + "-copy")
die_after(int(lines * float(share)), lambda: devmem.forget(folder + "/team.yaml", user="ann"))
os._exit(9)
"""
)


@pytest.mark.parametrize("places", [5, pytest.param(60, marks=pytest.mark.kit)])
def test_a_process_that_dies_forgets_everything_or_nothing_when_the_workflow_is_opened(
    template: Path, tmp_path: Path, start_script: StartScript, places: int
) -> None:
    outcomes = set()
    for number in range(1, places):
        folder = tmp_path / str(number)
        shutil.copytree(template, folder)
        team = load_workflow(folder / "team.yaml")
        assert start_script(_DYING, folder, number / places).wait(120) == 9
        with open_stores(team) as stores:
            left = {name for name, store in stores.items() if any(i.scope.user == "ann" for i in store.recent(1000))}
        outcomes.add(bool(left))
        if not left:
            assert words_left(team, "ann") == {}
        devmem.forget(team, user="ann")
        assert words_left(team, "ann") == {}
        assert {word for words in words_left(team, "bob").values() for word in words} == set(words_of_user("bob"))
    assert True not in outcomes or len(outcomes) == 2


def test_open_stores_may_be_handed_over(team: Workflow) -> None:
    with open_stores(team) as stores:
        devmem.forget(team, user="ann", stores=stores)
        assert stores["notes"].count() == 2
    assert words_left(team, "ann") == {}


def test_a_selection_is_needed(team: Workflow) -> None:
    with pytest.raises(ValueError, match="say what to forget"):
        devmem.forget(team)


def test_a_store_of_this_process_only_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("memory: [{name: passing, type: simple}]\n", encoding="utf-8")
    assert devmem.forget(tmp_path / "team.yaml", user="ann").stores == ()
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["team.yaml"]
