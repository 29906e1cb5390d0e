"""`devmem reindex`: another embedding model for what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.models.service import ChatService, embed, failing

from .conftest import Devmem, one_paragraph

MakeWorkflow = Callable[[str], Path]

STORE = """\
memory:
  - name: notes
    type: simple
    config:
      memory_path: notes.db
      embedding: {embedding}
"""
FIRST = "{provider: minilm}"
SECOND = "{provider: minilm, params: {use_chunking: true}}"


def filled(make_workflow: MakeWorkflow, devmem: Devmem, tmp_path: Path) -> Path:
    path = make_workflow(STORE.replace("{embedding}", FIRST))
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"text": f"Note number {n}."}) + "\n" for n in range(5)), encoding="utf-8")
    devmem("import", path, "notes", data)
    return path


def test_another_model_is_refused_until_everything_is_embedded_anew(
    make_workflow: MakeWorkflow, devmem: Devmem, tmp_path: Path
) -> None:
    filled(make_workflow, devmem, tmp_path)
    path = make_workflow(STORE.replace("{embedding}", SECOND))
    refused = one_paragraph(devmem("search", path, "notes", "note", code=2))
    assert "devmem reindex FILE STORE" in refused
    assert "minilm:all-MiniLM-L6-v2 " in devmem("stores", path).stdout
    done = devmem("reindex", path, "notes").stdout
    assert done == "notes: 5 of 5 items embedded by minilm:all-MiniLM-L6-v2:chunks=average/8191\n"
    (hit, *_) = json.loads(devmem("search", path, "notes", "note number 3", "--json").stdout)
    assert hit["text"] == "Note number 3."
    assert hit["similarity"] > 0.5


def test_a_provider_that_is_down_is_one_paragraph(
    make_workflow: MakeWorkflow, devmem: Devmem, tmp_path: Path, closed_port: int
) -> None:
    filled(make_workflow, devmem, tmp_path)
    down = (
        f'{{provider: openai, model: m, api_key: k, base_url: "http://127.0.0.1:{closed_port}/v1", '
        "params: {max_retries: 0}}"
    )
    path = make_workflow(STORE.replace("{embedding}", down))
    assert "no connection" in one_paragraph(devmem("reindex", path, "notes", code=2))
    path = make_workflow(STORE.replace("{embedding}", FIRST))
    assert "Note number 3." in devmem("search", path, "notes", "note number 3").stdout


def test_what_is_left_waits_when_the_provider_stops(
    make_workflow: MakeWorkflow, devmem: Devmem, tmp_path: Path, service: ChatService
) -> None:
    path = make_workflow(STORE.replace("{embedding}", FIRST))
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"text": f"Note number {n}."}) + "\n" for n in range(100)), encoding="utf-8")
    devmem("import", path, "notes", data)
    other = f'{{provider: openai, model: m, api_key: key-of-test, base_url: "{service.address}"}}'
    path = make_workflow(STORE.replace("{embedding}", other))
    service.script = [embed, embed, failing(400)]
    stopped = devmem("reindex", path, "notes", code=1)
    assert "64 of 100 items embedded by openai:m" in stopped.stdout
    assert "error: 36 items still wait because the provider stopped answering; run the command again." in stopped.stderr
    service.script = [embed]
    assert "36 of 100 items embedded" in devmem("reindex", path, "notes").stdout
    assert "0 of 100 items embedded" in devmem("reindex", path, "notes").stdout
    assert "100 of 100 items embedded" in devmem("reindex", path, "notes", "--force").stdout


def test_what_cannot_be_embedded_is_one_paragraph(workflow: Path, devmem: Devmem, make_workflow: MakeWorkflow) -> None:
    assert "has no `embedding:`" in one_paragraph(devmem("reindex", workflow, "notes", code=2))
    path = make_workflow(STORE.replace("{embedding}", FIRST))
    assert "does not exist yet; there is nothing to embed" in one_paragraph(devmem("reindex", path, "notes", code=2))
    assert "there is no store" in one_paragraph(devmem("reindex", path, "nots", code=2))


def test_a_file_gets_another_model_by_the_name_of_its_provider(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem("add", file, "Das Auto steht in der Garage.", "--embedding", "minilm")
    refused = one_paragraph(devmem("search", file, "car", "--embedding", "e5", code=2))
    assert "devmem reindex FILE --embedding e5" in refused
    done = devmem("reindex", file, "--embedding", "e5").stdout
    assert "1 of 1 item embedded by e5:multilingual-e5-small" in done
    (hit,) = json.loads(devmem("search", file, "car", "--json").stdout)
    assert hit["similarity"] is not None


def test_a_provider_by_its_name_in_a_workflow(make_workflow: MakeWorkflow, devmem: Devmem) -> None:
    path = make_workflow(STORE.replace("{embedding}", "minilm"))
    devmem("validate", path)
    devmem("add", path, "The car is in the garage.")
    assert "minilm" in devmem("stores", path).stdout
    assert "put `embedding: e5` into" in one_paragraph(devmem("search", path, "car", "--embedding", "e5", code=2))
    wrong = make_workflow(STORE.replace("{embedding}", "minilmm"))
    refused = devmem("validate", wrong, code=2).output
    assert "unknown embedding provider 'minilmm'; did you mean 'minilm'?" in refused


def test_a_search_says_that_items_wait_for_their_embedding(
    make_workflow: MakeWorkflow, devmem: Devmem, closed_port: int
) -> None:
    down = (
        f'{{provider: openai, model: m, api_key: k, base_url: "http://127.0.0.1:{closed_port}/v1", '
        "params: {max_retries: 0}}"
    )
    path = make_workflow(STORE.replace("{embedding}", down))
    devmem("add", path, "The car is in the garage.")
    assert "1 item: embedding pending, searched by words alone" in devmem("search", path, "garage").stderr


def test_a_file_without_vectors_is_not_given_some_by_a_search(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem("add", file, "The car is in the garage.", "--embedding", "none")
    found = devmem("search", file, "garage", "--embedding", "minilm")
    assert "no item has an embedding yet: `devmem reindex" in found.stderr


def test_a_file_that_was_made_without_a_model_stays_without_one(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem("add", file, "Das Auto steht in der Garage.", "--embedding", "none")
    devmem("add", file, "Das Fahrrad steht im Hof.")
    assert "0 vectors" in devmem("doctor", file).stdout
    devmem("add", file, "Der Roller steht im Keller.", "--embedding", "minilm")
    assert "minilm" in devmem("doctor", file).stdout


def test_a_store_of_items_has_no_files_to_follow(devmem: Devmem, workflow: Path) -> None:
    assert "not made from files" in devmem("reindex", workflow, "notes", "--dry-run", code=2).stderr
    assert "no store in this workflow is made from files" in devmem("reindex", workflow, code=2).stderr
