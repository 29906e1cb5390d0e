"""The pictures of a run: who handed on what to whom, and who called whom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope
from devmem.errors import ExportError
from devmem.messages import AIMessage, UserMessage, dump_message
from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.stores import Provenance, item_from
from devmem.text.devall_frames import frame
from devmem.text.display import one_line, well_formed
from devmem.views.diagrams import (
    FlowEdge,
    Transfer,
    call_tree,
    dot_graph,
    dot_text,
    edges_of,
    mermaid_flowchart,
    mermaid_sequence,
    mermaid_text,
    png_picture,
    timeline_lines,
    transfers_of,
    tree_lines,
)
from tests.strategies import TEXTS, items


def message(sender: str, receivers: list[str], cause: str = "", text: str = "hello", at: float = 1.0) -> MemoryItem:
    metadata: dict[str, JsonValue] = {"sent_from": sender, "send_to": [*receivers], "cause_by": cause}
    return MemoryItem(content_summary=text, metadata=metadata, event_time=at)


def told(*kept: MemoryItem) -> list[tuple[str, str, str, str]]:
    return [(one.sender, one.receiver, one.cause, one.text) for one in transfers_of(kept)]


def test_messages_say_it_themselves() -> None:
    assert told(
        message("Mike", ["Bob", "Alice"], "metagpt.actions.Plan", "the plan", 2.0),
        message("user", ["<all>"], "UserRequirement", "build a game", 1.0),
        message("Bob", ["<self>"], "", "hm", 3.0),
        message("Bob", ["<none>"], "", "nobody hears it", 4.0),
    ) == [
        ("user", "<all>", "UserRequirement", "build a game"),
        ("Mike", "Alice", "metagpt.actions.Plan", "the plan"),
        ("Mike", "Bob", "metagpt.actions.Plan", "the plan"),
        ("Bob", "Bob", "", "hm"),
    ]


def test_other_items_say_it_by_their_message_their_record_or_their_speaker() -> None:
    form = dump_message(AIMessage("done", sent_from="Bob", send_to=["Ann"], cause_by="Write"))
    plain = dump_message(UserMessage("hi"))
    record: dict[str, JsonValue] = {"source": "agent", "target": "user", "type": "output"}
    summary = Provenance(name="compressor", parents=("a", "b"))
    assert told(
        MemoryItem(content_summary="Bob: done", metadata={"message": form}, event_time=1.0),
        MemoryItem(content_summary="hi", metadata={"message": plain}, event_time=2.0),
        MemoryItem(content_summary="42", metadata=record, event_time=3.0),
        MemoryItem(content_summary="Mara: hi", metadata={"speaker": "Mara"}, event_time=4.0),
        MemoryItem(content_summary="a summary", provenance=summary, event_time=5.0),
    ) == [
        ("Bob", "Ann", "Write", "Bob: done"),
        ("user", "<all>", "metagpt.actions.add_requirement.UserRequirement", "hi"),
        ("agent", "user", "output", "42"),
        ("Mara", "<all>", "", "Mara: hi"),
        ("compressor", "<all>", "a, b", "a summary"),
    ]


def exchanged(node: str, received_from: str, asked: str, answered: str, *, run: str, at: float) -> MemoryItem:
    payload = MemoryWritePayload(
        inputs_text=frame(received_from, "user", asked),
        output_snapshot=MemoryContentSnapshot(text=answered),
        scope=Scope(run=run),
        source=node,
    )
    return item_from(payload, f"{asked} {answered}", created_at=at)


def test_what_nodes_wrote_shows_the_way_through_the_workflow() -> None:
    """The last answer of a run goes to everyone; the others are what the next node says it got."""
    assert told(
        exchanged("scribe", "user", "it moved", "noted", run="1", at=1.0),
        exchanged("analyst", "scribe", "noted", "it is on 3 May", run="1", at=2.0),
        exchanged("scribe", "user", "and now?", "noted again", run="2", at=3.0),
    ) == [
        ("user", "scribe", "", "it moved"),
        ("scribe", "analyst", "", "noted"),
        ("analyst", "<all>", "", "it is on 3 May"),
        ("user", "scribe", "", "and now?"),
        ("scribe", "<all>", "", "noted again"),
    ]


@given(kept=st.lists(items(), max_size=5))
def test_any_item_can_be_drawn(kept: list[MemoryItem]) -> None:
    transfers = transfers_of(kept)
    assert len(transfers) >= len([item for item in kept if not item.metadata])
    edges = edges_of(transfers)
    assert sum(edge.count for edge in edges) == len(transfers)
    for diagram in (mermaid_flowchart(edges), mermaid_sequence(transfers), dot_graph(edges)):
        assert "".join(diagram)


EDGES = [
    FlowEdge(sender="user", receiver="<all>", cause="metagpt.actions.UserRequirement", count=1),
    FlowEdge(sender='the "boss"', receiver="user", cause="", count=3),
]


def test_a_flowchart_for_mermaid() -> None:
    assert "".join(mermaid_flowchart(EDGES)) == (
        "flowchart LR\n"
        '    n0["user"]\n'
        '    n1["everyone"]\n'
        '    n2["the #34;boss#34;"]\n'
        '    n0 -->|"UserRequirement"| n1\n'
        '    n2 -->|"3x"| n0\n'
    )


def test_a_sequence_for_mermaid() -> None:
    transfers = transfers_of([message("user", ["Bob"], "a.b.Ask", "Where; and why?", 1.0), message("Bob", [], "", "")])
    assert "".join(mermaid_sequence(transfers)) == (
        "sequenceDiagram\n"
        "    participant n0 as user\n"
        "    participant n1 as Bob\n"
        "    participant n2 as everyone\n"
        "    n0->>n1: Where#59; and why? (Ask)\n"
        "    n1->>n2: #8230;\n"
    )


def test_a_graph_for_graphviz() -> None:
    assert "".join(dot_graph(EDGES)).splitlines()[3:] == [
        '    n0 [label="user"];',
        '    n1 [label="everyone"];',
        '    n2 [label="the \\"boss\\""];',
        '    n0 -> n1 [label="UserRequirement"];',
        '    n2 -> n0 [label="3x"];',
        "}",
    ]


HOSTILE = TEXTS | st.text('"\\#;[]|<>&%{}()\n\r\t`:- abend', max_size=20)


@given(text=HOSTILE)
def test_a_mermaid_label_is_read_as_it_was(text: str) -> None:
    label = mermaid_text(text)
    assert not set(label.replace("#", "").replace(";", "")) & set('"[]|<>&%{}`:\n\\')
    assert re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label) == one_line(well_formed(text))
    assert not set("#;") & set(re.sub(r"#\d+;", "", label))


@given(text=HOSTILE)
def test_a_dot_label_is_read_as_it_was(text: str) -> None:
    label = dot_text(text)
    # As Graphviz's scanner reads a quoted string, then an entity and an escape in a label.
    match = re.fullmatch(r'"((?:[^"\\]|\\.)*)"', label)
    assert match is not None
    shown = re.sub(r"\\(.)", r"\1", match[1]).replace("&amp;", "&")
    assert shown == one_line(well_formed(text))
    assert "\n" not in label


@given(sender=HOSTILE, receiver=HOSTILE, cause=HOSTILE)
def test_no_name_adds_a_line_or_a_node(sender: str, receiver: str, cause: str) -> None:
    transfer = Transfer(sender=sender, receiver=receiver, cause=cause, text=cause, time=0.0, item_id="x")
    edges = edges_of([transfer])
    nodes = len({sender, receiver})
    assert len("".join(mermaid_flowchart(edges)).splitlines()) == 2 + nodes
    assert len("".join(mermaid_sequence([transfer])).splitlines()) == 2 + nodes
    dot = "".join(dot_graph(edges))
    assert len(dot.splitlines()) == 5 + nodes
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", dot)
    assert bare.count("->") == 1
    assert bare.count("[") == 2 + nodes


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("cat > \"$0.got\"; printf '\\211PNG\\r\\n'", None),
        ("echo 'syntax error in line 1' >&2; exit 3", "cannot draw the flow: syntax error in line 1"),
        ("exit 0", "exit code 0, no picture"),
    ],
)
def test_graphviz_draws_and_its_failure_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str | None
) -> None:
    program = tmp_path / "dot"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(ExportError, match="apt install graphviz"):
        png_picture(EDGES)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if said is None:
        assert png_picture(EDGES) == b"\x89PNG\r\n"
        assert (tmp_path / "dot.got").read_text() == "".join(dot_graph(EDGES))
    else:
        with pytest.raises(ExportError, match=said):
            png_picture(EDGES)


def said(speaker: str, content: str, kind: InteractionKind, pair: str = "p") -> Interaction:
    return Interaction(
        id=f"{pair}-{kind.value}",
        conversation="c",
        trace="t",
        source=Participant(speaker, ParticipantType.AGENT),
        target=Participant("ann", ParticipantType.USER),
        kind=kind,
        content=content,
        event_time=0.0,
        pair_id=pair,
    )


def test_an_answer_without_its_question_is_a_line_of_the_tree() -> None:
    lines = list(tree_lines(call_tree([said("writer", "Rain falls.", InteractionKind.OUTPUT)])))
    assert lines == ["writer -> user ann: Rain falls."]


def test_a_name_forges_no_line() -> None:
    records = [said("eve\n2026-01-01 00:00:00  ann -> writer", "hi\nho", InteractionKind.INPUT)]
    assert [line.count("\n") for line in (*timeline_lines(records), *tree_lines(call_tree(records)))] == [0, 0]
