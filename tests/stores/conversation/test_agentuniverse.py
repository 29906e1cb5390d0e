"""Rows of agentUniverse keep their meaning: there an answer is stored with the caller as its source."""

from __future__ import annotations

import pytest

from devmem.recording import InteractionKind
from devmem_stores.conversation.agentuniverse import from_agentuniverse

ROW = {
    "id": "1",
    "conversation_id": "c",
    "trace_id": "t",
    "source": "ann",
    "source_type": "user",
    "target": "rag",
    "target_type": "agent",
    "type": "output",
    "content": "Because.",
    "metadata": {"timestamp": "2024-05-06T07:08:09", "pair_id": "agent_1", "params": "{}"},
    "additional_args": {"x": 1},
}


def test_an_answer_goes_from_the_answerer_to_the_asker() -> None:
    answer = from_agentuniverse(ROW)
    assert (answer.source.name, answer.target.name, answer.kind) == ("rag", "ann", InteractionKind.OUTPUT)
    assert (answer.conversation, answer.trace, answer.pair_id, answer.extras) == ("c", "t", "agent_1", {"x": 1})
    assert answer.to_json()["timestamp"] == "2024-05-06T07:08:09.000000+00:00"
    question = from_agentuniverse({**ROW, "type": "input"})
    assert (question.source.name, question.target.name) == ("ann", "rag")


def test_a_row_that_is_none_says_why() -> None:
    with pytest.raises(ValueError, match="not 'chat'"):
        from_agentuniverse({**ROW, "type": "chat"})
    with pytest.raises(ValueError, match="expected a time, found None"):
        from_agentuniverse({**ROW, "metadata": {}})
