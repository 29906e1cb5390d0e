"""The speed benchmark: what it makes up, what it measures, and what it says of a peer that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tools.bench.__main__ import app
from tools.bench.speed.corpus import prepare
from tools.bench.speed.embedding import measure_embedding
from tools.bench.speed.measured.measuring import share_found
from tools.bench.speed.peers import PEERS, measure_peers
from tools.bench.speed.processes import Measured, MeasurementError


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


def test_the_nearest_are_the_exact_ones(cache: Path) -> None:
    corpus = prepare(300, cache)
    queries = corpus.queries()
    exact = np.argsort(-(queries.vectors @ np.array(corpus.vectors()).T), axis=1)[:, :10]
    np.testing.assert_array_equal(queries.nearest, exact)
    assert all(len(text.split()) == 8 for text in queries.texts)


@pytest.mark.kit
def test_the_command_measures_a_size(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    arguments = ["speed", "--sizes", "200", "--cache", str(cache), "--no-embedding", "--json", str(file)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    rows = {row["metric"]: row for row in json.loads(file.read_text(encoding="utf-8"))}
    assert {(row["bench"], row["case"]) for row in rows.values()} == {("speed", "200")}
    assert rows["recall@10"]["value"] == pytest.approx(1.0, abs=0.01)
    wanted = {
        "build",
        "cold_open",
        "disk_bytes_per_item",
        "retrieve_p50",
        "retrieve_p99",
        "retrieve_scoped_p50",
        "retrieve_scoped_to_retrieve",
        *(f"qps_{threads}{beside}" for threads in (1, 2, 4) for beside in ("", "_writing")),
        "faiss_flat_p50",
        "fts5_or_p50",
    }
    assert wanted <= rows.keys()
    assert all(row["value"] > 0 for row in rows.values())


@pytest.mark.parametrize("sizes", ["9", "ten", "1k,", "-5k", "k"])
def test_a_size_that_is_none_is_refused(sizes: str) -> None:
    done = CliRunner().invoke(app, ["speed", "--sizes", sizes])
    assert done.exit_code == 2
    assert "write 500, 10k or" in " ".join(done.output.replace("│", " ").split())


def test_an_absent_peer_is_reported_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chroma = next(peer for peer in PEERS if peer.name == "chroma")
    monkeypatch.setattr("tools.bench.speed.peers.PEERS", (chroma,))
    notes: list[str] = []
    (row,) = measure_peers([], tmp_path, 1.0, notes)
    assert (row.case, row.metric, row.value) == ("chroma", "installed", 0.0)
    (note,) = notes
    assert note.startswith("chroma: not installed; ")
    assert f"{tmp_path}/chroma/bin/pip install chromadb numpy" in note


def test_what_takes_too_long_or_fails_is_said(cache: Path, tmp_path: Path) -> None:
    corpus = prepare(100, cache)
    with pytest.raises(MeasurementError, match=r"`build` did not finish in 0\.01 s"):
        Measured(module="devmem_store").run("build", corpus, tmp_path, seconds=0.01)
    with pytest.raises(MeasurementError, match="no_such_module"):
        Measured(module="no_such_module").run("build", corpus, tmp_path)


@pytest.mark.kit
def test_minilm_is_measured_and_an_absent_reference_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    rows = list(measure_embedding(tmp_path, notes))
    assert {(row.case, row.metric) for row in rows} >= {
        ("minilm:onnx", "embed_first"),
        ("minilm:onnx", "embed_batch_per_s"),
    }
    assert all(row.value > 0 for row in rows)
    assert len(notes) == 1


def test_recall_is_the_share_of_the_exact_nearest() -> None:
    assert share_found([[1, 2], [5, 9]], np.array([[1, 2], [5, 6]])) == 0.75
    assert share_found([[1, 2]], np.array([[1, 3], [5, 6]])) == 0.5
