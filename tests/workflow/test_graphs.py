"""DevAll's graphs in devmem's runner: which nodes run in which order, with what, and what is never done silently."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import WorkflowRunner, load_workflow, open_stores
from devmem.config import Edge, Rule
from devmem.errors import Level
from devmem.workflow import RunResult, check_workflow
from devmem.workflow.graph import order_nodes
from tests.cases import cases

from .runner_doubles import ChatsByNode, ScriptedChat

MEMORY = "{memories: [{name: board}]}"


def run(folder: Path, graph: str, *inputs: str, **chats: ScriptedChat) -> tuple[RunResult, ChatsByNode, list[str]]:
    """Run DevAll's graph on each input, and return the last result, the chats and what the board holds."""
    file = folder / "graph.yaml"
    file.write_text("graph:\n  memory: [{name: board, type: blackboard}]\n" + dedent(graph))
    workflow = load_workflow(file, environ={})
    choose = ChatsByNode(**chats)
    with open_stores(workflow) as stores:
        runner = WorkflowRunner(workflow, stores, chat_models=choose)
        for text in inputs or ("Go",):
            result = runner.run(text)
        return result, choose, [item.content_summary for item in stores["board"].recent(10)]


def ran(result: RunResult) -> list[str]:
    return [node.node for node in result.nodes]


def test_a_start_node_gets_the_input_and_nodes_that_nothing_leads_to_do_not_run(tmp_path: Path) -> None:
    graph = """
      start: [second]
      nodes:
        - {id: first, type: agent, config: {}}
        - {id: second, type: agent, config: {}}
      edges: [{from: first, to: second}]
    """
    result, chats, _ = run(tmp_path, graph)
    assert ran(result) == ["second"]
    assert chats.chats["second"].heard() == [("user", "Go")]
    assert result.warnings == ("node 'first' did not run: no edge that is followed leads to it",)


def test_a_literal_says_its_text_and_a_passthrough_hands_on_what_came(tmp_path: Path) -> None:
    graph = """
      nodes:
        - {id: rule, type: literal, config: {content: Be brief., role: user}}
        - {id: gate, type: passthrough}
        - {id: all, type: passthrough, config: {only_last_message: false}}
        - {id: answer, type: agent, config: {}}
        - {id: other, type: agent, config: {}}
      edges:
        - {from: rule, to: gate}
        - {from: rule, to: all}
        - {from: gate, to: answer}
        - {from: all, to: other}
      start: [rule, gate, all]
    """
    result, chats, _ = run(tmp_path, graph)
    assert result.warnings == ()
    assert chats.chats["answer"].heard() == [("user", "Be brief.")]
    assert chats.chats["other"].heard() == [("user", "Go"), ("user", "Be brief.")]


def test_an_edge_may_bring_data_without_triggering_or_trigger_without_data(tmp_path: Path) -> None:
    graph = """
      nodes:
        - {id: plan, type: agent, config: {}}
        - {id: check, type: agent, config: {}}
        - {id: idle, type: agent, config: {}}
        - {id: answer, type: agent, config: {}}
      edges:
        - {from: plan, to: check}
        - {from: plan, to: answer, trigger: false}
        - {from: check, to: answer, carry_data: false}
        - {from: plan, to: idle, trigger: false}
    """
    result, chats, _ = run(tmp_path, graph)
    assert ran(result) == ["plan", "check", "answer"]
    assert chats.chats["answer"].heard() == [("user", "plan says so")]


CONDITIONAL = """
  nodes:
    - {{id: judge, type: agent, config: {{}}}}
    - {{id: next, type: agent, config: {{memories: [{{name: board}}]}}}}
    - {{id: last, type: agent, config: {{memories: [{{name: board}}]}}}}
  edges:
    - {{from: judge, to: next, condition: {condition}}}
    - {{from: next, to: last}}
"""


@pytest.mark.parametrize(
    ("condition", "follows"),
    cases("workflow_graphs", "conditions_that_need_no_code_decide_what_runs_and_writes"),
)
def test_conditions_that_need_no_code_decide_what_runs_and_writes(
    tmp_path: Path, condition: str, follows: bool
) -> None:
    result, _, board = run(
        tmp_path,
        CONDITIONAL.format(condition=condition),
        judge=ScriptedChat("I do not: not yet ACCEPT" if "[not]" in condition else "We ACCEPT"),
    )
    assert ran(result) == (["judge", "next", "last"] if follows else ["judge"])
    assert bool(board) is follows
    assert result.output == ("last says so" if follows else result.nodes[0].text)


def test_what_is_not_carried_out_is_listed_by_line_once(tmp_path: Path) -> None:
    file = tmp_path / "graph.yaml"
    file.write_text(
        dedent("""\
        graph:
          is_majority_voting: true
          end: [b]
          nodes:
            - id: a
              type: agent
              context_window: 5
              config:
                tooling: [{type: function}]
                thinking: {type: tree}
            - {id: b, type: python, config: {}}
            - {id: c, type: agent, context_window: 0, config: {retry: {max_attempts: 2}, input_mode: prompt}}
          edges:
            - {from: a, to: b, condition: code_pass, process: {type: regex_extract}}
            - from: b
              to: c
              dynamic: {type: map}
              keep_message: false
            - {from: c, to: a}
        """)
    )
    found = check_workflow(file, environ={}).findings
    assert [(one.line, one.path.removeprefix("graph."), one.rule) for one in found] == [
        (2, "is_majority_voting", Rule.NOT_SUPPORTED),
        (3, "end", Rule.NOT_SUPPORTED),
        (7, "nodes[0].context_window", Rule.NOT_SUPPORTED),
        (9, "nodes[0].config.tooling", Rule.NOT_SUPPORTED),
        (10, "nodes[0].config.thinking", Rule.NOT_SUPPORTED),
        (11, "nodes[1].type", Rule.NOT_SUPPORTED),
        (12, "nodes[2].config.retry", Rule.NOT_SUPPORTED),
        (14, "edges[0].process", Rule.NOT_SUPPORTED),
        (14, "edges[0].condition", Rule.NOT_SUPPORTED),
        (17, "edges[1].dynamic", Rule.NOT_SUPPORTED),
        (19, "edges[2]", Rule.CYCLE),
    ]


def test_a_board_without_a_path_lasts_for_one_run_as_in_devall(tmp_path: Path) -> None:
    graph = f"""
      nodes: [{{id: a, type: agent, config: {MEMORY}}}]
    """
    _, chats, board = run(tmp_path, graph, "The launch is in June.", "The venue is the mill.")
    assert len(board) == 2
    assert chats.chats["a"].recalled(1) == []
    own = graph.replace("nodes:", "edges: []\n      nodes:")
    (tmp_path / "own.yaml").write_text("memory: [{name: board, type: blackboard}]\n" + dedent(own))
    workflow = load_workflow(tmp_path / "own.yaml", environ={})
    choose = ChatsByNode()
    with open_stores(workflow) as stores:
        runner = WorkflowRunner(workflow, stores, chat_models=choose)
        for text in ("The launch is in June.", "The venue is the mill."):
            runner.run(text)
    assert choose.chats["a"].recalled(1) != []


def test_a_file_that_devall_would_find_elsewhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "memory").mkdir(parents=True)
    (tmp_path / "here" / "memory" / "test.json").write_text("[]")
    (tmp_path / "flows").mkdir()
    file = tmp_path / "flows" / "graph.yaml"
    config = "config: {memory_path: memory/test.json}"
    file.write_text(f"graph:\n  memory:\n  - name: notes\n    type: simple\n    {config}\n  nodes: []\n")
    monkeypatch.chdir(tmp_path / "here")
    (warning,) = (one for one in check_workflow(file, environ={}).findings if one.level is Level.WARNING)
    assert (warning.line, warning.rule) == (5, Rule.MISSING_FILE)
    assert str(tmp_path / "here" / "memory" / "test.json") in warning.message


def ordered(nodes: str, *edges: str) -> tuple[tuple[str, ...], tuple[Edge, ...]]:
    return order_nodes(list(nodes), [Edge.model_validate({"from": edge[0], "to": edge[1]}) for edge in edges])


@pytest.mark.parametrize(
    ("nodes", "edges", "order"),
    [
        pytest.param("", [], "", id="nothing"),
        pytest.param("cab", [], "cab", id="as listed without edges"),
        pytest.param("cba", ["ab", "bc"], "abc", id="by edges"),
        pytest.param("dcba", ["ab", "ac", "bd", "cd"], "acbd", id="diamond, listed order between equals"),
        pytest.param("abc", ["ab", "bc", "ca"], "abc", id="loop"),
        pytest.param("a", ["aa"], "a", id="loop of one"),
        pytest.param("cab", ["ab", "ba", "bc"], "abc", id="after a loop"),
        pytest.param("bca", ["ab", "bc", "cb"], "abc", id="into a loop"),
        pytest.param("dbca", ["ab", "bc", "cb", "cd"], "abcd", id="through a loop"),
        pytest.param("dcba", ["ab", "ba", "bc", "cd", "dc"], "bdca", id="two loops"),
    ],
)
def test_each_node_comes_after_its_senders(nodes: str, edges: list[str], order: str) -> None:
    assert "".join(ordered(nodes, *edges)[0]) == order


def test_an_edge_that_leads_back_is_named_and_not_followed() -> None:
    _, ignored = ordered("abc", "ab", "bc", "cb")
    assert [(edge.source, edge.target) for edge in ignored] == [("c", "b")]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=15))
def test_every_node_runs_once_and_only_edges_of_loops_are_ignored(pairs: list[tuple[str, str]]) -> None:
    nodes, ignored = ordered("abcdef", *(source + target for source, target in pairs))
    assert sorted(nodes) == list("abcdef")
    after = {node: {target for source, target in pairs if source == node} for node in "abcdef"}
    for _ in after:
        after = {node: reach | {far for near in reach for far in after[near]} for node, reach in after.items()}
    for edge in ignored:
        assert edge.source in after[edge.target]
