"""Contents of a workflow without errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import devmem.config
from devmem import Stage
from devmem.config import Attachment, Edge, Rule, StoreDeclaration, Workflow, load_workflow
from devmem.errors import ConfigError

from .conftest import Read
from .fakes import DEVALL, OWN, FakeTypes, FilesConfig, NotesConfig


def test_own_document(read: Read) -> None:
    workflow = read(OWN, API_KEY="sk-1234567890")
    convo, docs = workflow.memory
    assert isinstance(convo.config, NotesConfig)
    assert isinstance(docs.config, FilesConfig)
    assert convo.config.memory_path == "memory/convo.db"
    assert convo.config.embedding is not None
    assert convo.config.embedding.api_key is not None
    assert convo.config.embedding.api_key.get_secret_value() == "sk-1234567890"
    assert docs.config.file_sources[0].file_types == (".md", ".mdx")
    assert workflow.version == "1.2.0"
    assert [edge.model_dump() for edge in workflow.edges] == [Edge(source="human", target="answer").model_dump()]
    assert workflow.warnings == ()
    assert workflow.unresolved == ()


def test_agent_node(read: Read) -> None:
    node = read(OWN, API_KEY="k").node("answer")
    assert node.config is not None
    assert (node.config.provider, node.config.model, node.config.role) == ("openai", "gpt-4o-mini", "You answer.")
    assert node.config.params == {"temperature": 0.2}
    assert node.config.memories == (
        Attachment(name="convo", retrieve_stage=(Stage.GEN,), top_k=5, read=True, write=True),
        Attachment(name="docs", write=False),
    )
    assert node.config.plan is None
    assert node.config.critique is None


def test_nodes_of_other_types_keep_their_settings_to_themselves(read: Read) -> None:
    assert read(OWN, API_KEY="k").node("human").config is None


def test_options_of_an_agent_override_only_what_they_set(read: Read) -> None:
    workflow = read(OWN, API_KEY="k")
    options = workflow.options(workflow.node("answer"))
    assert (options.token_budget, options.language, options.dedupe) == (1000, "zh", False)
    assert workflow.options(workflow.node("human")) == workflow.memory_options


def test_devall_document_loads_unchanged(read: Read) -> None:
    workflow = read(DEVALL, API_KEY="sk-1", BASE_URL="http://localhost")
    node = workflow.node("writer")
    assert node.config is not None
    assert (node.config.model, node.config.role) == ("gpt-4o", "You write.\n")
    assert node.config.api_key is not None
    assert node.config.api_key.get_secret_value() == "sk-1"
    assert node.config.critique == "Is it right?"
    assert node.config.memories[0].retrieve_stage == (Stage.GEN, Stage.CRITIQUE)
    assert [node.id for node in workflow.nodes] == ["asker", "writer", "check", "count", "note"]
    assert [(edge.source, edge.target) for edge in workflow.edges] == [("asker", "writer"), ("writer", "check")]
    assert workflow.version == "0.4.0"
    assert {warning.rule for warning in workflow.warnings} == {Rule.NOT_SUPPORTED}


def test_declarations_know_where_they_stand(read: Read) -> None:
    store = read(DEVALL, API_KEY="", BASE_URL="").store("shared")
    assert (store.place.path, store.place.line) == ("graph.memory[0]", 15)
    assert store.place.location == ("graph", "memory", 0)
    node = read(OWN, API_KEY="").node("human")
    assert (node.place.path, node.place.line) == ("nodes[1]", 27)


def test_declarations_can_be_made_in_code() -> None:
    store = StoreDeclaration(name="a", type="notes", config=NotesConfig(max_items=3))
    workflow = Workflow(memory=(store,))
    assert workflow.store("a").config == NotesConfig(max_items=3)
    assert store.place.line is None


def test_unknown_names_raise_key_error(read: Read) -> None:
    workflow = read("memory: []")
    with pytest.raises(KeyError, match="no store 'x'"):
        workflow.store("x")
    with pytest.raises(KeyError, match="no node 'x'"):
        workflow.node("x")


def test_a_single_store_needs_no_list(read: Read) -> None:
    store = read("memory: {name: a, type: notes}").store("a")
    assert store.place.path == "memory"


@pytest.mark.parametrize("written", ["", "null", "[]"])
def test_no_stage_named_means_every_stage(read: Read, written: str) -> None:
    workflow = read(_agent(f"{{name: s, retrieve_stage: {written}}}"))
    attachment = _attachments(workflow)[0]
    assert attachment.retrieve_stage is None
    assert attachment.write_stage == (Stage.FINISHED,)


@pytest.mark.parametrize(
    ("written", "stages"),
    [
        ("gen", (Stage.GEN,)),
        ("pre_gen_thinking", (Stage.PLAN,)),
        ("[post_gen_thinking, critique, pre]", (Stage.CRITIQUE, Stage.PRE)),
        ("'${STAGE}'", (Stage.GEN,)),
    ],
)
def test_stages(read: Read, written: str, stages: tuple[Stage, ...]) -> None:
    workflow = read(_agent(f"{{name: s, retrieve_stage: {written}, write_stage: {written}}}"), STAGE="gen")
    assert _attachments(workflow)[0].retrieve_stage == stages
    assert _attachments(workflow)[0].write_stage == stages


def test_the_model_may_be_called_name(read: Read) -> None:
    assert _first_agent(read("nodes: [{id: a, type: agent, config: {name: m, role: r}}]")).model == "m"
    both = _first_agent(read("nodes: [{id: a, type: agent, config: {name: m, model: n}}]"))
    assert both.model == "n"


def test_an_own_critique_wins_over_reflection(read: Read) -> None:
    text = "nodes: [{id: a, type: agent, config: {critique: own, thinking: %s}}]"
    assert _first_agent(read(text % "{type: reflection, config: {reflection_prompt: theirs}}")).critique == "own"
    assert _first_agent(read(text % "{type: other}")).critique == "own"
    bare = "nodes: [{id: a, type: agent, config: {thinking: {type: reflection, config: 3}}}]"
    assert _first_agent(read(bare)).critique is None


def test_plugins_are_loaded_before_the_stores_are_read(read: Read, store_types: FakeTypes) -> None:
    workflow = read("plugins: acme.stores\nmemory: [{name: a, type: acme}]")
    assert store_types.plugins == ["acme.stores"]
    assert workflow.plugins == ("acme.stores",)
    assert read("graph: {plugins: [acme.stores], memory: [{name: a, type: acme}]}").memory[0].type == "acme"


def test_a_file_knows_itself_and_its_folder(tmp_path: Path, store_types: FakeTypes) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("memory: [{name: a, type: notes}]")
    workflow = load_workflow(file, store_types, environ={})
    assert (workflow.file, workflow.base_dir) == (file, tmp_path)
    assert load_workflow(str(file), store_types, environ={}).file == file


def test_a_file_written_with_a_byte_order_mark(tmp_path: Path, store_types: FakeTypes) -> None:
    file = tmp_path / "w.yaml"
    for encoding in ("utf-8-sig", "utf-16"):
        file.write_bytes("memory: [{name: 记忆, type: notes}]".encode(encoding))
        assert load_workflow(file, store_types).memory[0].name == "记忆"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff", b"memory: \xff", b"x" * (1024 * 1024 + 1)])
def test_a_file_that_cannot_be_read_is_a_config_error(
    tmp_path: Path, store_types: FakeTypes, content: bytes | None
) -> None:
    file = tmp_path / "w.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"w\.yaml"):
        load_workflow(file, store_types)


def test_other_things_than_files_are_config_errors(tmp_path: Path, store_types: FakeTypes) -> None:
    with pytest.raises(ConfigError, match="folder"):
        load_workflow(tmp_path, store_types)
    with pytest.raises(ConfigError, match="no such file"):
        load_workflow("a\0b", store_types)
    with pytest.raises(ConfigError, match="not a regular file"):
        load_workflow("/dev/null", store_types)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens but cannot be read")
def test_files_that_fail_while_they_are_read(tmp_path: Path, store_types: FakeTypes) -> None:
    file = tmp_path / "w.yaml"
    file.symlink_to("/proc/self/mem")
    with pytest.raises(ConfigError, match=r"w\.yaml: the file cannot be read: "):
        load_workflow(file, store_types)
    file.unlink()
    file.write_text("memory: [{name: '${A}', type: notes}]")
    (tmp_path / ".env").symlink_to("/proc/self/mem")
    with pytest.raises(ConfigError, match=r"\.env: the file cannot be read: "):
        load_workflow(file, store_types, environ={})


def _agent(attachment: str) -> str:
    agent = f"plan: p\n      critique: c\n      memories: [{attachment}]"
    return f"memory: [{{name: s, type: notes}}]\nnodes:\n  - id: a\n    type: agent\n    config:\n      {agent}\n"


def _first_agent(workflow: Workflow) -> devmem.config.AgentConfig:
    config = workflow.nodes[0].config
    assert config is not None
    return config


def _attachments(workflow: Workflow) -> tuple[Attachment, ...]:
    return _first_agent(workflow).memories
