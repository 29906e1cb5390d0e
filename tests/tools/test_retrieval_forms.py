"""Data sets are recognised by their content, and their questions name the items that an import makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem.errors import DataFileError
from tests.tools.retrieval_data import DIALOGUES, LOCOMO, LONGMEMEVAL, MEMORIES, UNITS, write, write_lines
from tools.bench.retrieval.command import read_datasets


def test_locomo_evidence_is_repaired_and_what_names_none_is_not_counted(tmp_path: Path) -> None:
    (dataset,) = read_datasets([write(tmp_path / "locomo.json", LOCOMO)])
    (haystack,) = dataset.haystacks
    assert (dataset.name, dataset.items, dataset.questions, dataset.not_counted) == ("locomo", 4, 4, 2)
    assert [(one.type, set(one.gold), one.apart) for one in haystack.questions] == [
        ("single-hop", {"conv-1/D1:1"}, False),
        ("multi-hop", {"conv-1/D1:2", "conv-1/D2:2"}, False),
        ("temporal", {"conv-1/D2:1", "conv-1/D1:1"}, False),
        ("adversarial", {"conv-1/D2:1"}, True),
    ]
    assert haystack.questions[1].gold_sessions == {"session_1", "session_2"}
    assert haystack.session_of["conv-1/D2:2"] == "session_2"
    assert haystack.items[2].content_summary == "Mara: We moved to Lisbon. [shares an image: a photo of a tram]"


def test_each_question_of_longmemeval_has_its_own_haystack(tmp_path: Path) -> None:
    (dataset,) = read_datasets([write(tmp_path / "longmemeval_s.json.gz", LONGMEMEVAL)])
    assert [(one.id, len(one.items)) for one in dataset.haystacks] == [("q1", 4), ("q2", 3)]
    unlabelled, labelled = (one.questions[0] for one in dataset.haystacks)
    assert unlabelled.gold == {"q1/s_b/1", "q1/s_b/2"}
    assert labelled.gold == {"q2/s_a/2"}
    assert labelled.gold_sessions == {"s_a", "s_b"}


def test_a_query_of_units_without_gold_is_not_counted(tmp_path: Path) -> None:
    (dataset,) = read_datasets([write(tmp_path / "chat.units.json.gz", UNITS)])
    (question,) = dataset.haystacks[0].questions
    assert (question.id, question.type, question.gold, dataset.not_counted) == ("k", "fact", frozenset({"chat/a"}), 1)


def test_evidence_in_units_without_text_alone_is_not_counted(tmp_path: Path) -> None:
    units = [{"id": "silent", "text": " "}, {"id": "b", "text": "The bus leaves at nine."}]
    queries = [
        {"id": "neither", "text": "Who hummed?", "gold": ["silent"]},
        {"id": "one", "text": "When does the bus leave?", "gold": ["silent", "b"]},
    ]
    (dataset,) = read_datasets([write(tmp_path / "chat.json", [{"id": "c", "units": units, "queries": queries}])])
    (question,) = dataset.haystacks[0].questions
    assert (question.id, question.gold, dataset.items) == ("one", frozenset({"c/b"}), 1)
    assert (dataset.not_counted, dataset.left_out) == (1, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_dialogues_of_madial_bench_are_asked_with_what_was_said_before(tmp_path: Path, order: int) -> None:
    memories = write_lines(tmp_path / "memories.json", MEMORIES)
    dialogues = write_lines(tmp_path / "talks.json", DIALOGUES)
    (dataset,) = read_datasets([memories, dialogues][::order])
    (question,) = dataset.haystacks[0].questions
    assert (question.text, question.gold) == (
        "Bart: 元旦晚会我要表演！",
        frozenset({"madial/1"}),
    )
    assert (question.gold_sessions, dataset.not_counted) == (frozenset(), 1)


def test_memories_of_madial_bench_are_found_beside_their_dialogues(tmp_path: Path) -> None:
    write_lines(tmp_path / "zh-memory.json", MEMORIES)
    (dataset,) = read_datasets([write_lines(tmp_path / "zh-dialogue.json", DIALOGUES)])
    assert dataset.items == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"text": "just a line"}', "not a data set; known are LoCoMo"),
        ("[]", "not a data set"),
        ("nothing", "the file is not JSON"),
        ('[{"id": "x", "units": [{"id": "a", "text": "t"}]}]', "without a question whose evidence is there"),
        ('[{"id": "x", "units": [], "queries": [{"text": "?"}]}]', "are not as units has them: KeyError('id')"),
        (
            '[{"id": "x", "units": [], "queries": [{"id": "q", "text": " "}]}]',
            "[0]: question 'q': expected text, found ' '",
        ),
        ('[{"id": "x", "units": [], "queries": [{"id": "q", "text": 5}]}]', "not as units has them: AttributeError"),
        (
            '[{"id": 1, "units": []}, {"id": "2", "units": []}, {"id": "1", "units": []}]',
            "[2]: 'id': '1' is that of [0] too",
        ),
    ],
)
def test_what_is_no_data_set_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "data.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataFileError) as caught:
        read_datasets([path])
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
