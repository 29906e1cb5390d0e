"""In which order nodes run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.config import Edge
from devmem.workflow.graph import order_nodes


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
