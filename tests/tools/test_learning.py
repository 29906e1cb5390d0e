"""The benchmark of learning from judged hits learns a rule that holds, and reports every number of labels."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from devmem import MemoryItem
from devmem.testing import HashEmbedder
from tests.tools.retrieval_data import LOCOMO, write
from tools.bench.__main__ import app
from tools.bench.learning import run
from tools.bench.retrieval.dataset import Dataset, Haystack, Question
from tools.bench.retrieval.memo import EmbeddingMemo

_TOPICS = ("harbour", "orchard", "violin", "glacier", "lantern", "bakery", "compass", "meadow")
_REMARKS = ("is quiet", "was painted", "looks old", "seems near", "stays open", "turned green")


def _questions_as_evidence(name: str) -> Haystack:
    """Return a haystack whose evidence is what the rules rank last: the one text about a topic that asks."""
    items, questions = [], []
    for topic in _TOPICS:
        texts = [*(f"the {topic} {remark}" for remark in _REMARKS), f"the {topic} moved or not?"]
        items += [MemoryItem(id=f"{name}/{topic}/{at}", content_summary=text) for at, text in enumerate(texts)]
        gold = frozenset({f"{name}/{topic}/{len(_REMARKS)}"})
        questions.append(Question(id=f"{name}/{topic}", text=topic, type="topic", gold=gold))
    return Haystack(id=name, items=tuple(items), questions=tuple(questions))


def test_what_the_labels_have_in_common_is_learned_and_measured_on_other_haystacks() -> None:
    dataset = Dataset(name="asking", haystacks=tuple(_questions_as_evidence(name) for name in ("a", "b")))
    rows = list(run(dataset, EmbeddingMemo(lambda _: HashEmbedder(64)), splits=2))
    values = {(row.case, row.metric): row.value for row in rows}
    assert values["asking labels:none", "ndcg@10"] < 0.6
    assert values["asking labels:all", "gain"] > 0.1
    assert values["asking labels:all", "worst"] > 0
    assert {row.dataset for row in rows} == {"asking"}


def test_every_number_of_labels_is_reported(tmp_path: Path) -> None:
    locomo, file = write(tmp_path / "locomo.json", LOCOMO), tmp_path / "rows.json"
    done = CliRunner().invoke(app, ["learning", str(locomo), "--splits", "2", "--json", str(file)])
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_text(encoding="utf-8"))
    counted = {f"locomo {each}:{count}" for each in ("hits", "questions") for count in (10, 30, 100, 300)}
    assert {row["case"] for row in rows} == {*counted, "locomo labels:none", "locomo labels:all"}
    # Too few questions were judged to check a residual.
    assert {row["value"] for row in rows if row["metric"] == "kept"} == {0.0}


def test_a_file_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["learning", str(tmp_path / "missing.json")], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "cannot be read" in done.output


def test_a_single_question_cannot_be_halved(tmp_path: Path) -> None:
    alone = [{**LOCOMO[0], "qa": LOCOMO[0]["qa"][:1]}]
    arguments = ["learning", str(write(tmp_path / "locomo.json", alone))]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "locomo has 1 questions that count" in done.output
