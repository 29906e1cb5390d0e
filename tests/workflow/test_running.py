"""Whole workflows with real stores: what is passed on, what the next process finds, and whose files are whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import ConfigError, Scope, WorkflowRunner, open_stores
from devmem.errors import ChatModelError, CollectionDamagedError, DevmemError
from devmem.models.openai_chat import content_part
from devmem.transfer.importing.formats import read_records
from devmem.workflow import attached_stores, make_store
from devmem.workflow.stores import attached_file
from tests.conftest import StartScript
from tests.workflow.doubles import ScriptedStore, said

from .runner_doubles import DOWN, ChatsByNode, ScriptedChat, agent_yaml, stores_yaml, write_workflow

NOTES = "{name: notes}"
TWO = "edges: [{from: first, to: second}]"


def test_nodes_run_by_their_edges_and_the_last_one_answers(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, stores_yaml(), "nodes:", agent_yaml("second"), agent_yaml("first", NOTES), TWO)
    chats = ChatsByNode()
    with open_stores(read) as stores:
        result = WorkflowRunner(read, stores, chat_models=chats).run("Go")
    assert chats.order == ["first", "second"]
    assert [node.node for node in result.nodes] == ["first", "second"]
    assert result.output == "second says so"
    assert chats.chats["second"].heard() == [("user", "first says so")]
    assert result.warnings == ()


def test_a_loop_runs_once_and_the_edge_back_is_warned_of(tmp_path: Path) -> None:
    edges = "edges: [{from: first, to: second}, {from: second, to: first}]"
    read = write_workflow(tmp_path, "nodes:", agent_yaml("first"), agent_yaml("second"), edges)
    result = WorkflowRunner(read, {}, chat_models=ChatsByNode()).run("Go")
    assert [node.node for node in result.nodes] == ["first", "second"]
    assert result.warnings == ("the edge from 'second' to 'first' leads back and is not followed",)


def test_another_type_of_node_passes_its_input_on_with_a_warning(tmp_path: Path) -> None:
    edges = "edges: [{from: first, to: code}, {from: code, to: last}]"
    nodes = ("nodes:", agent_yaml("first"), "  - {id: code, type: python}", agent_yaml("last"))
    read = write_workflow(tmp_path, *nodes, edges)
    chats = ChatsByNode()
    result = WorkflowRunner(read, {}, chat_models=chats).run("Go")
    assert chats.chats["last"].heard() == [("user", "first says so")]
    assert result.warnings == ("node 'code' is of type 'python', which devmem does not run; its input is passed on",)


def test_the_last_agent_answers_even_when_another_node_ends_the_workflow(tmp_path: Path) -> None:
    nodes = ("nodes:", agent_yaml("first"), "  - {id: end, type: human}")
    read = write_workflow(tmp_path, *nodes, "edges: [{from: first, to: end}]")
    assert WorkflowRunner(read, {}, chat_models=ChatsByNode()).run("Go").output == "first says so"


def test_a_single_node_is_run_alone_with_its_stores_alone(tmp_path: Path) -> None:
    stores = stores_yaml(("notes", "other"))
    read = write_workflow(
        tmp_path, stores, "nodes:", agent_yaml("first", "{name: other}"), agent_yaml("second", NOTES), TWO
    )
    assert attached_stores(read) == ["other", "notes"]
    assert attached_stores(read, "second") == ["notes"]
    with open_stores(read, attached_stores(read, "second")) as opened:
        runner = WorkflowRunner(read, opened, chat_models=ChatsByNode())
        result = runner.run("Go", node="second")
        assert [node.node for node in result.nodes] == ["second"]
        with pytest.raises(KeyError, match="third"):
            runner.run("Go", node="third")
        with pytest.raises(KeyError, match="stores of node 'first' were not opened"):
            runner.run("Go")
    assert not (tmp_path / "memory" / "other.db").exists()


PLANET = "The code name of the probe is Pelican, and it starts on May 5."


def test_a_second_process_finds_what_the_first_wrote(
    tmp_path: Path, start_script: StartScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_workflow(tmp_path, stores_yaml(), "nodes:", agent_yaml("answer", NOTES))
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, devmem\n"
        f"workflow = devmem.load_workflow({str(tmp_path / 'workflow.yaml')!r})\n"
        "with devmem.open_stores(workflow) as stores:\n"
        "    print(devmem.WorkflowRunner(workflow, stores).run(sys.argv[1]).output)\n"
    )
    monkeypatch.chdir(tmp_path)
    for text, expected in (
        (PLANET, "No relevant memories found"),
        ("What is the code name of the probe?", "Pelican"),
    ):
        process = start_script(script, text)
        assert process.stdout is not None
        assert expected in process.stdout.read()
        assert process.wait(60) == 0


def test_what_one_run_recalled_is_quoted_once_by_the_next(tmp_path: Path) -> None:
    read = write_workflow(
        tmp_path, stores_yaml(), "nodes:", agent_yaml("first", NOTES), agent_yaml("second", NOTES), TWO
    )
    with open_stores(read) as stores:
        runner = WorkflowRunner(read, stores)
        runner.run(PLANET)
        for _ in range(3):
            answer = runner.run("What is the code name of the probe?").output
            assert answer.splitlines()[1:] == [f"- Input: {PLANET}"]


def test_auto_files_are_a_sessions_own_and_the_workflow_is_not_changed(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, stores_yaml(path="auto"), "nodes:", agent_yaml("answer", NOTES))
    before = read.model_dump_json()
    for session in ("one", "two", "one"):
        with open_stores(read, session=session) as stores:
            WorkflowRunner(read, stores, chat_models=ChatsByNode()).run(f"Remember the session {session}.")
    assert read.model_dump_json() == before
    counts = {}
    for session in ("one", "two"):
        assert (read.base_dir / ".devmem" / session / "memory_notes.db").is_file()
        with open_stores(read, session=session) as stores:
            counts[session] = stores["notes"].count()
    assert counts == {"one": 2, "two": 1}


@pytest.mark.parametrize(
    "session", ["", ".", "..", "../x", "a/b", "a\\b", "/abs", "C:x", "a\0b", "x" * 256, "é" * 500_000]
)
def test_a_sessions_name_cannot_leave_its_folder(tmp_path: Path, session: str) -> None:
    read = write_workflow(tmp_path, stores_yaml(path="auto"), "nodes: []")
    with pytest.raises(DevmemError, match="one plain word") as refused:
        make_store(read, "notes", session=session)
    assert len(str(refused.value)) < 200
    with pytest.raises(DevmemError, match="one plain word"), open_stores(read, session=session):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["workflow.yaml"]


@pytest.mark.parametrize("name", ["../up", "a/b", "C:x", "über", "..", "%2e"])
def test_a_stores_name_cannot_leave_the_sessions_folder(tmp_path: Path, name: str) -> None:
    read = write_workflow(tmp_path, f"memory: [{{name: '{name}', type: simple, config: {{memory_path: auto}}}}]")
    with open_stores(read) as stores:
        stores[name].update(said("Remember the milk, please.", "Yes."))
    (file,) = (tmp_path / ".devmem" / "default").glob("*.db")
    assert file.name.startswith("memory_")


def test_stores_are_closed_after_an_error_and_what_was_written_stays(tmp_path: Path) -> None:
    read = write_workflow(
        tmp_path, stores_yaml(), "nodes:", agent_yaml("first", NOTES), agent_yaml("second", NOTES), TWO
    )
    chats = ChatsByNode(second=ScriptedChat(DOWN))
    with pytest.raises(ChatModelError, match="is down"), open_stores(read) as stores:
        WorkflowRunner(read, stores, chat_models=chats).run(PLANET)
    with pytest.raises(Exception, match="closed"):
        stores["notes"].count()
    with open_stores(read) as again:
        assert again["notes"].count() == 1


def test_a_damaged_file_is_an_error_before_any_node_runs_and_stays_as_it_is(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, stores_yaml(("fine", "notes")), "nodes:", agent_yaml("answer", NOTES))
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "notes.db").write_bytes(b"no database, but the only copy of something " * 100)
    with pytest.raises(CollectionDamagedError, match=r"notes\.db"), open_stores(read):
        pytest.fail("a store that is damaged was opened")
    assert (tmp_path / "memory" / "notes.db").read_bytes().startswith(b"no database, but")


def test_a_placeholder_that_a_node_needs_is_an_error_when_it_runs(tmp_path: Path) -> None:
    needs = agent_yaml("first", provider="openai", model="m", api_key="${NO_SUCH_KEY}")
    spared = agent_yaml("second", api_key="${NO_SUCH_KEY}")
    read = write_workflow(tmp_path, "nodes:", needs, spared)
    runner = WorkflowRunner(read, {})
    assert "No relevant memories" in runner.run("Go", node="second").output
    with pytest.raises(ConfigError, match=r"workflow\.yaml:\d+: nodes\[0\]\.config\.api_key: .*NO_SUCH_KEY"):
        runner.run("Go", node="first")


def test_a_placeholder_that_a_store_needs_is_an_error_when_it_is_opened(tmp_path: Path) -> None:
    read = write_workflow(
        tmp_path, stores_yaml(path="$NO_SUCH_PLACE").replace("$NO_SUCH_PLACE", "${NO_SUCH_PLACE}/x.db"), "nodes: []"
    )
    with pytest.raises(ConfigError, match="NO_SUCH_PLACE"):
        make_store(read, "notes")


def test_scope_and_run_are_in_what_is_written(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, stores_yaml(), "nodes:", agent_yaml("answer", NOTES))
    store = ScriptedStore("notes")
    runner = WorkflowRunner(read, {"notes": store}, chat_models=ChatsByNode(), scope=Scope(user="ann"))
    runner.run("One")
    runner.run("Two")
    first, second = (payload.scope for payload in store.payloads)
    assert first.user == second.user == "ann"
    assert first.run
    assert first.run != second.run


def test_writes_that_fail_to_the_end_wait_in_the_state_of_the_session(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, stores_yaml(), "nodes:", agent_yaml("answer", NOTES))
    store = ScriptedStore("notes")
    store.failing["update"] = OSError("no disk")
    runner = WorkflowRunner(read, {"notes": store}, chat_models=ChatsByNode(), rescue_dir=tmp_path / "rescued")
    assert runner.run("One").output == "answer says so"
    (file,) = runner.close()
    assert file.parent == tmp_path / "rescued"
    assert "answer says so" in str(list(read_records(file)))


def test_what_a_node_quotes_reaches_the_end_of_a_chain_of_quoting_nodes(tmp_path: Path) -> None:
    chain = "edges: [{from: first, to: second}, {from: second, to: third}]"
    nodes = (agent_yaml("first", NOTES), agent_yaml("second"), agent_yaml("third", "{name: board}"))
    stores = stores_yaml() + "\n  - {name: board, type: blackboard}"
    read = write_workflow(tmp_path, stores, "nodes:", *nodes, chain)
    with open_stores(read) as opened:
        runner = WorkflowRunner(read, opened)
        runner.run(PLANET)
        opened["board"].update(said("Weather?", "It rained in the afternoon."))
        result = runner.run("What is the code name of the probe?")
    assert [("Pelican" in node.text, "rained" in node.text) for node in result.nodes] == [(True, False)] * 3


def test_images_that_are_given_or_recalled_reach_the_model_as_images(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + name.encode())
    read = write_workflow(tmp_path, stores_yaml(), "nodes:", agent_yaml("only", NOTES))
    chats = ChatsByNode()
    with open_stores(read) as stores:
        runner = WorkflowRunner(read, stores, chat_models=chats)
        runner.run("This is my cat Biscuit.", attachments=[attached_file(tmp_path / "cat.png")])
        runner.run("Is this dog like my cat Biscuit?", attachments=[attached_file(tmp_path / "dog.png")])
    sent = [message for message in chats.chats["only"].requests[1].messages if message.blocks]
    assert [(message.source, [block.describe() for block in message.blocks]) for message in sent] == [
        ("memory", ["[image attachment: cat.png]"]),
        ("user", ["[image attachment: dog.png]"]),
    ]
    assert all(content_part(block) for message in sent for block in message.blocks)
