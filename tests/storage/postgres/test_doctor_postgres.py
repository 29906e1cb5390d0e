"""`devmem doctor` on a store in a database: what is damaged, what waits, and that nothing is changed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner

from devmem.cli.app import app
from devmem.errors import CollectionError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, SnapshotBlock
from devmem.models.embedder import PassageEmbeddings
from devmem.storage import EraseRequest, Filter, SearchQuery
from devmem.storage.attachments import INLINE_LIMIT
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import composed
from devmem.testing import HashEmbedder

pytestmark = pytest.mark.postgres

EMBEDDER = HashEmbedder(dimension=16)
PICTURE = "data:image/png;base64," + "AAAA" * INLINE_LIMIT


def items() -> list[MemoryItem]:
    """Items of every kind: with a vector and waiting, long, with fields, odd metadata and attachments."""
    ref = AttachmentRef(attachment_id="rocket", mime_type="image/png", data_uri=PICTURE)
    shown = MemoryContentSnapshot(
        text="the rocket", blocks=(SnapshotBlock(block=MessageBlock(type="image", attachment=ref)),)
    )
    odd: dict[str, JsonValue] = {
        "n": 1e300,
        "i": 2**70,
        "deep": [{"a": None, "b": "x\x01y"}],
        "title": "Wombats",
        "big": -0.0,
    }
    return [
        MemoryItem(id="plain", content_summary="tea at three", embedding=EMBEDDER.vector("tea at three")),
        MemoryItem(id="waits", content_summary="rain and wind", scope=Scope(user="ann", agent="é")),
        MemoryItem(id="long", content_summary="a long story. " * 500, embedding=EMBEDDER.vector("story")),
        MemoryItem(
            id="odd", content_summary="odd", metadata=odd, indexed_fields=("title",), trust=-0.0, event_time=-1.5
        ),
        MemoryItem(id="blank", content_summary="", input_snapshot=shown, created_at=1e9),
        MemoryItem(id="half", content_summary="half a character"),
    ]


@pytest.fixture
def url(store_url: str) -> str:
    with closing(PostgresCollection(store_url, model=EMBEDDER.identity, store_type="simple")) as store:
        store.add(items())
        store.add([MemoryItem(id="plain", content_summary="tea at four", embedding=EMBEDDER.vector("tea at four"))])
        store.maintain()
        with closing(store.run("pending")) as view:
            view.add([MemoryItem(id="new", content_summary="milk")])
    return store_url


def test_nothing_waits_where_no_model_is_configured(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as store:
        store.add(items()[1:2])
    report = doctor(store_url)
    assert (report["waiting"], report["findings"]) == (0, [])


def doctor(url: str, *options: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["doctor", url, "--json", *options])
    assert result.exit_code == code, result.output
    report: dict[str, Any]
    (report,) = json.loads(result.stdout)
    return report


def change(url: str, statement: str) -> None:
    """Change rows of the store behind devmem's back."""
    with closing(PostgresCollection(url)) as store:
        text = composed(statement.replace("STORE", f"store = {store._store}"))
        assert store._database.write(lambda connection: connection.execute(text).rowcount) > 0


def test_a_sound_store_is_counted_and_what_waits_is_named(url: str) -> None:
    report = doctor(url)
    assert report["sound"] is True
    assert [one["level"] for one in report["findings"]] == ["warning"]
    assert report["findings"][0]["message"] == "3 items that wait for their embedding"
    assert (report["items"], report["waiting"], report["store_type"]) == (6, 3, "simple")
    assert report["versions"] == 2
    assert "nothing is wrong" not in CliRunner().invoke(app, ["doctor", url]).stdout


DAMAGE = {
    "UPDATE items SET body = '{' WHERE STORE AND id = 'plain'": "item 'plain', cannot be read",
    "UPDATE items SET body = replace(body, 'tea', 'eat') WHERE STORE AND id = 'plain'": "missing or other terms",
    "UPDATE items SET \"user\" = 'eve' WHERE STORE AND id = 'waits'": "columns differ from their content",
    "UPDATE items SET id_key = gen_random_uuid() WHERE STORE AND id = 'waits'": "columns differ from their content",
    "UPDATE items SET metadata = metadata - 'n' WHERE STORE AND id = 'odd'": "columns differ from their content",
    "UPDATE versions SET trust = 0.1 WHERE STORE AND id = 'plain'": "versions whose columns differ",
    "UPDATE versions SET body = '[]' WHERE STORE AND id = 'plain'": "versions that cannot be read",
    "DELETE FROM passages WHERE STORE AND term_length > 50": "missing or other terms",
    "UPDATE passages SET term_hashes = '' WHERE STORE AND term_length = 2": "missing or other terms",
    "UPDATE vectors SET vector = vector + vector WHERE STORE": "not of length 1",
    "UPDATE attachments SET content = 'x' WHERE STORE": "attachments with another content",
}


@pytest.mark.parametrize("statement", DAMAGE, ids=range(len(DAMAGE)))
def test_damage_is_found(url: str, statement: str) -> None:
    change(url, statement)
    report = doctor(url, code=1)
    errors = [one["message"] for one in report["findings"] if one["level"] == "error"]
    if "replace(body" in statement:
        # The hash of the content, which is computed from it, differs from its column too.
        assert "columns differ from their content" in errors.pop(0)
    assert [DAMAGE[statement] in error for error in errors] == [True], errors


WAITING = {
    "DELETE FROM items WHERE STORE AND id = 'waits'": "1 passages without an item",
    "DELETE FROM attachment_uses WHERE STORE": "1 attachments that no item uses",
    "UPDATE search_states SET erased = cleaned + 1 WHERE STORE": "indexes in the database still have something",
    "UPDATE stores SET analysis = '0' WHERE STORE": "another version of the text analysis",
}


@pytest.mark.parametrize("statement", WAITING, ids=range(len(WAITING)))
def test_work_that_waits_is_named_and_left(store_url: str, statement: str) -> None:
    url = f"{store_url}&mode=server"
    with closing(PostgresCollection(url)) as store:
        store.add(items())
        text = composed(statement.replace("STORE", f"store = {store._store}"))
        store._database.write(lambda connection: connection.execute(text))
        for _ in range(2):
            report = doctor(url)
            assert [one["message"] for one in report["findings"] if WAITING[statement] in one["message"]], report


def test_an_erasure_that_did_not_end_is_named(url: str) -> None:
    with closing(PostgresCollection(url)) as store:
        plan = store.begin_erasure(EraseRequest(ids=("plain",)))
        assert "1 erasures that have begun" in str(doctor(url)["findings"])
        store.finish_erasure(plan)
    assert "erasures" not in str(doctor(url)["findings"])


def test_it_examines_the_stores_of_a_workflow(url: str, tmp_path: Path) -> None:
    change(url, "DELETE FROM passages WHERE STORE")
    team = tmp_path / "team.yaml"
    team.write_text(f"memory: [{{name: notes, type: simple, config: {{memory_path: '{url}'}}}}]\n")
    result = CliRunner().invoke(app, ["doctor", str(team), "--json"])
    (report,) = json.loads(result.stdout)
    assert (result.exit_code, report["store"], report["sound"]) == (1, "notes", False)


def test_it_makes_no_store_and_changes_none(url: str) -> None:
    for wrong in (f"{url} that nobody made", f"{url}&schema=other"):
        assert "there is no store" in doctor(wrong, code=1)["findings"][0]["message"]
        assert doctor(wrong, "--fix", code=1)["repaired"] == []
    result = CliRunner().invoke(app, ["doctor", url, "--salvage", "saved.json"])
    assert (result.exit_code, "--salvage for the file" in " ".join(result.output.split())) == (2, True)


REPAIRED = {
    "UPDATE items SET \"user\" = 'eve', id_key = gen_random_uuid() WHERE STORE AND id = 'waits'": 1,
    "UPDATE items SET metadata = metadata - 'n', trust = 0.3 WHERE STORE AND id = 'odd'": 1,
    "DELETE FROM passages WHERE STORE": 6,
    "UPDATE passages SET term_hashes = '' WHERE STORE AND term_length = 2": 3,
    "UPDATE vectors SET vector = vector + vector WHERE STORE": 2,
    "UPDATE items SET length = 0, cues = 0, content_key = gen_random_uuid() WHERE STORE": 6,
}


@pytest.mark.parametrize("mode", ["follow", "server"])
@pytest.mark.parametrize("statement", REPAIRED, ids=range(len(REPAIRED)))
def test_what_follows_from_the_items_is_rebuilt(url: str, statement: str, mode: str) -> None:
    """Also for a process that has the store open, and nothing else of an item changes."""
    with closing(PostgresCollection(f"{url}&mode={mode}")) as store:
        before = {item.id: item.content_summary for item in store.scan()}
        for text in ("tea", "rain", "story", "odd"):
            assert store.search(SearchQuery(text=text))
        change(url, statement)
        report = doctor(url, "--fix")
        assert (report["sound"], len(report["repaired"])) == (False, 1), report
        assert report["repaired"][0].startswith(f"{REPAIRED[statement]} items")
        assert doctor(url, "--fix")["repaired"] == []
        assert {item.id: item.content_summary for item in store.scan()} == before
        for text, wanted in (("tea", "plain"), ("rain", "waits"), ("story", "long"), ("odd", "odd")):
            assert [hit.item.id for hit in store.search(SearchQuery(text=text))] == [wanted]
        assert [
            hit.item.id for hit in store.search(SearchQuery(text="rain", where=Filter(scope=Scope(user="ann"))))
        ] == ["waits"]
        (shown,) = store.get(["blank"])
        assert str(PICTURE) in str(shown.input_snapshot)
        store.commit("pending")
        assert store.count() == 7
        waiting = store.waiting(99)
        store.set_embeddings({item.id: PassageEmbeddings.of(EMBEDDER.vector("x")) for item in waiting})
    assert [one for one in doctor(url)["findings"] if one["level"] == "error"] == []


def test_vectors_of_versions_that_are_damaged_go(url: str) -> None:
    change(url, "UPDATE version_vectors SET vector = vector + vector WHERE STORE")
    assert doctor(url, "--fix")["repaired"] == ["1 versions lost their damaged vectors"]
    assert doctor(url, "--fix")["repaired"] == []
    with closing(PostgresCollection(url)) as store:
        assert [version.item.content_summary for version in store.history("plain")] == ["tea at three", "tea at four"]


def test_what_belongs_to_nothing_is_deleted(url: str) -> None:
    change(url, "DELETE FROM items WHERE STORE AND id = 'long'")
    change(url, "DELETE FROM attachment_uses WHERE STORE")
    done = doctor(url, "--fix")["repaired"]
    assert [line.split(" ", 1)[1] for line in done] == [
        "passages without an item were deleted",
        "vectors without a passage were deleted",
        "attachments that no item uses were deleted",
    ]
    assert "without" not in str(doctor(url)["findings"])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET body = '{' WHERE STORE AND id = 'plain'",
        "UPDATE versions SET body = '[]' WHERE STORE AND id = 'plain'",
        "UPDATE attachments SET content = 'x' WHERE STORE",
    ],
)
def test_what_cannot_be_rebuilt_is_left_and_reported(url: str, statement: str) -> None:
    change(url, statement)
    assert doctor(url, "--fix", code=1)["repaired"] == []
    assert doctor(url, code=1)["items"] == 6


def test_an_item_that_is_stored_twice_is_left(url: str) -> None:
    change(url, "UPDATE items SET id_key = gen_random_uuid() WHERE STORE AND id = 'plain'")
    with closing(PostgresCollection(url)) as store:
        store.add([MemoryItem(id="plain", content_summary="tea at five")])
    (said,) = doctor(url, "--fix", code=1)["repaired"]
    assert "'plain' is stored twice" in said


def test_stores_of_another_version_are_not_repaired(url: str) -> None:
    change(url, "UPDATE stores SET analysis = '0' WHERE STORE")
    result = CliRunner().invoke(app, ["doctor", url, "--fix"])
    assert (result.exit_code, "another version of devmem" in " ".join(result.output.split())) == (2, True)


def test_tables_of_another_devmem_are_named_and_left_alone(url: str) -> None:
    other = f"{url}&schema=of another devmem"
    with closing(PostgresCollection(other)) as store:
        text = composed("UPDATE properties SET value = '8' WHERE name = 'version'")
        store._database.write(lambda connection: connection.execute(text))
    assert "are of schema 8" in doctor(other, code=1)["findings"][0]["message"]
    with pytest.raises(CollectionError, match="tables of schema 8, and this devmem uses schema 1"):
        PostgresCollection(other)
