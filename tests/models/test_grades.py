"""Reading a chat model's grades: as JSON or line by line, and refused where they are not clear."""

from __future__ import annotations

import pytest

from devmem.errors import RerankerError
from devmem.models.chat_reranker import read_grades
from tests.cases import cases

NOTES = 3


@pytest.mark.parametrize(
    "answer",
    cases("models_grades", "the_forms_of_grades"),
)
def test_the_forms_of_grades(answer: str) -> None:
    assert read_grades(answer, NOTES) == {1: 7.0, 2: 3.0}


def test_blanks_cost_no_time() -> None:
    assert read_grades(f"1{' ' * 20_000}: 7\n1{' ' * 20_000}", NOTES) == {1: 7.0}


def test_what_is_said_of_other_notes_is_passed_over() -> None:
    assert read_grades("2: 7\n9: 9\n2024: 5", NOTES) == {2: 7.0}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I like them all.",
        "7: 3",
        "7.5\n3.0",
        "7\n3\n0",
        "[7, 3, 0]",
        "1 7\n2 3",
        "1-7",
        "Note 1\nGrade: 7",
        "2024-05-01: 7",
        '{"1": 7, "2":',
        '{"grades": []}',
        '[{"number": 1, "grade": 7}]',
        "{" * 100_000 + "}",
    ],
)
def test_no_grades(answer: str) -> None:
    with pytest.raises(RerankerError, match="gave no grades; it said"):
        read_grades(answer, NOTES)


@pytest.mark.parametrize(
    "written",
    ["7-8", "7,5", "-3", "70", "7/5", "7/100", "7%"],
)
def test_what_is_no_grade_for_certain_is_refused(written: str) -> None:
    with pytest.raises(RerankerError, match="where a grade from 0 to 10 belongs"):
        read_grades(f"2: 3\n1: {written}", NOTES)


@pytest.mark.parametrize("written", ["70", "true", "null", "NaN", '"seven"'])
def test_what_is_no_grade_in_json_is_refused(written: str) -> None:
    with pytest.raises(RerankerError, match="where a grade from 0 to 10 belongs"):
        read_grades(f'{{"1": {written}}}', NOTES)


@pytest.mark.parametrize("answer", ["0: 7\n1: 3\n2: 1", '{"0": 7}'])
def test_numbers_from_0_are_refused(answer: str) -> None:
    with pytest.raises(RerankerError, match="from 0 where they start at 1"):
        read_grades(answer, NOTES)


@pytest.mark.parametrize("answer", ["1: 7\n1: 3", '{"1": 7, "1": 3}'])
def test_two_grades_for_one_note_are_refused(answer: str) -> None:
    with pytest.raises(RerankerError, match="two grades"):
        read_grades(answer, NOTES)
