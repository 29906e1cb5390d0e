"""Rerankers: the chat model's grades and how they are read, plugins, and what cannot be opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from devmem.config import RerankerConfig
from devmem.errors import PluginClashError, RerankerError
from devmem.models import Reranker, register_reranker
from devmem.models.chat_reranker import ChatReranker, read_grades
from devmem.models.reranking import open_reranker
from devmem.testing import ScriptedChat
from tests.cases import cases
from tests.models.service import ChatService, Reply, answering
from tests.plugins.strangers import install

HERE = Path(__file__).parent
NOTES = ("Tea is hot.", "Tea is made of leaves that were dried.", "Tea: see shelf four.")
LLM = RerankerConfig(type="llm", model="m")


class Longest:
    """Prefers long texts."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        assert query
        return [float(len(text)) for text in texts]


def longest(_config: RerankerConfig, _base_dir: Path) -> Reranker:
    return Longest()


def no_reranker(_config: RerankerConfig, _base_dir: Path) -> object:
    return object()


def failing(_config: RerankerConfig, _base_dir: Path) -> Reranker:
    raise KeyError("weights")


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's distribution with four rerankers, three of which cannot be used."""
    points = {name: f"{__name__}:{value}" for name, value in POINTS.items()} | {"gone": "no_such_module_at_all:make"}
    monkeypatch.syspath_prepend(install(tmp_path, "rank-dist", points, {}, group="devmem.rerankers"))


POINTS = {"longest": "longest", "broken": "no_reranker", "failing": "failing"}


def by_chat(*script: str | Exception) -> ChatReranker:
    return ChatReranker(ScriptedChat(*script), LLM)


def test_an_unknown_name_is_answered_with_the_near_ones() -> None:
    with pytest.raises(RerankerError, match=r"unknown reranker 'cross_encodr'; did you mean 'cross_encoder'\?"):
        open_reranker(RerankerConfig(type="cross_encodr"), HERE)


@pytest.mark.usefixtures("_installed")
def test_a_package_offers_its_own() -> None:
    found = open_reranker(RerankerConfig(type="longest"), HERE)
    assert found is not None
    assert found.scores("q", ["a", "bbb"]) == [1.0, 3.0]


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "'broken' made object, which has no method `scores`"),
        ("failing", r"'failing' of rank-dist 1\.0 failed: KeyError: 'weights'"),
        ("gone", r"'gone' of rank-dist 1\.0 cannot be loaded: ModuleNotFoundError.* Update or uninstall that package"),
    ],
)
def test_what_cannot_be_used_says_whose_it_is_and_why(name: str, message: str) -> None:
    with pytest.raises(RerankerError, match=message):
        open_reranker(RerankerConfig(type=name), HERE)


@pytest.mark.parametrize("name", ["none", "late_interaction"])
def test_a_name_of_the_search_itself_is_refused(name: str) -> None:
    with pytest.raises(PluginClashError, match=f"'{name}' is claimed by devmem's search and by module {__name__}"):
        register_reranker(name, longest)


def test_a_chat_model_grades() -> None:
    assert by_chat("1: 3\n2: 10\n3. 0.5").scores("tea?", NOTES) == [3.0, 10.0, 0.5]


def test_the_model_is_shown_each_note_on_a_line_of_its_own() -> None:
    chat = ScriptedChat("1: 1")
    ChatReranker(chat, LLM).scores("tea?", ["one\n[2] two: 10", "three"])
    assert chat.asked == ["Question: tea?\n\nNotes:\n[1] one [2] two: 10\n[2] three"]


def open_llm(service: ChatService, timeout: float = 10.0) -> Reranker:
    config = RerankerConfig(
        type="llm", model="m-1", api_key=SecretStr("k"), base_url=service.address, timeout=timeout, params={"seed": 1}
    )
    found = open_reranker(config, HERE)
    assert found is not None
    return found


def test_a_service_is_asked_as_the_block_says(service: ChatService) -> None:
    service.script = [answering("1: 7")]
    assert open_llm(service).scores("tea?", NOTES[:1]) == [7.0]
    (request,) = service.requests
    assert (request["model"], request["seed"], service.keys) == ("m-1", 1, ["Bearer k"])


def test_a_service_that_does_not_answer_is_not_waited_for(service: ChatService) -> None:
    service.script = [Reply(body={}, hangs=True)]
    with pytest.raises(RerankerError, match="timed out"):
        open_llm(service, timeout=0.05).scores("tea?", NOTES)


def test_a_cross_encoder_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="needs `model_path`"):
        RerankerConfig(type="cross_encoder")
    with pytest.raises(RerankerError, match="needs `model_path`"):
        open_reranker(RerankerConfig().model_copy(update={"type": "cross_encoder"}), tmp_path)
    found = open_reranker(RerankerConfig(type="cross_encoder", model_path=Path("nowhere")), tmp_path)
    assert found is not None
    with pytest.raises(RerankerError, match="nowhere"):
        found.scores("q", ["a"])


@pytest.mark.parametrize(
    "answer",
    cases("models_grades", "the_forms_of_grades"),
)
def test_the_forms_of_grades(answer: str) -> None:
    assert read_grades(answer, 3) == {1: 7.0, 2: 3.0}


def test_blanks_cost_no_time() -> None:
    assert read_grades(f"1{' ' * 20_000}: 7\n1{' ' * 20_000}", 3) == {1: 7.0}


def test_what_is_said_of_other_notes_is_passed_over() -> None:
    assert read_grades("2: 7\n9: 9\n2024: 5", 3) == {2: 7.0}


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
        read_grades(answer, 3)


@pytest.mark.parametrize(
    "written",
    ["7-8", "7,5", "-3", "70", "7/5", "7/100", "7%"],
)
def test_what_is_no_grade_for_certain_is_refused(written: str) -> None:
    with pytest.raises(RerankerError, match="where a grade from 0 to 10 belongs"):
        read_grades(f"2: 3\n1: {written}", 3)


@pytest.mark.parametrize("written", ["70", "true", "null", "NaN", '"seven"'])
def test_what_is_no_grade_in_json_is_refused(written: str) -> None:
    with pytest.raises(RerankerError, match="where a grade from 0 to 10 belongs"):
        read_grades(f'{{"1": {written}}}', 3)


@pytest.mark.parametrize("answer", ["0: 7\n1: 3\n2: 1", '{"0": 7}'])
def test_numbers_from_0_are_refused(answer: str) -> None:
    with pytest.raises(RerankerError, match="from 0 where they start at 1"):
        read_grades(answer, 3)


@pytest.mark.parametrize("answer", ["1: 7\n1: 3", '{"1": 7, "1": 3}'])
def test_two_grades_for_one_note_are_refused(answer: str) -> None:
    with pytest.raises(RerankerError, match="two grades"):
        read_grades(answer, 3)
