"""Trees of calls and timelines, as people read them."""

from __future__ import annotations

from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.views.diagrams import call_tree, timeline_lines, tree_lines


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
