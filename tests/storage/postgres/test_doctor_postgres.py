"""`devmem doctor` on a store in a database: what is damaged, what waits, and that nothing is changed."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner

from devmem.cli.app import app
from devmem.errors import CollectionError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, SnapshotBlock
from devmem.storage import EraseRequest
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
        "i": 2**60,
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


def doctor(url: str, *options: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["doctor", url, "--json", *options])
    assert result.exit_code == code, result.output
    report: dict[str, Any]
    (report,) = json.loads(result.stdout)
    return report


def change(url: str, statement: str) -> None:
    """Change rows of the store behind devmem's back."""
    with closing(PostgresCollection(url)) as store:
        text = composed(statement.replace("STORE", f"store = {store.database.store}"))
        assert store.database.transactions.write(lambda connection: connection.execute(text).rowcount) > 0


def test_a_sound_store_is_counted_and_what_waits_is_named(url: str) -> None:
    report = doctor(url)
    assert report["sound"] is True
    assert [one["level"] for one in report["findings"]] == ["warning"]
    assert report["findings"][0]["message"] == "3 items that wait for their embedding"
    assert (report["items"], report["waiting"], report["store_type"]) == (6, 3, "simple")
    assert report["versions"] == 2
    assert "nothing is wrong" not in CliRunner().invoke(app, ["doctor", url]).stdout


WAITING = {
    "DELETE FROM attachment_uses WHERE STORE": "1 attachments that no item uses",
    "UPDATE stores SET analysis = '0' WHERE STORE": "another version of the text analysis",
}


@pytest.mark.parametrize("statement", WAITING, ids=range(len(WAITING)))
def test_work_that_waits_is_named_and_left(store_url: str, statement: str) -> None:
    with closing(PostgresCollection(store_url)) as store:
        store.add(items())
        text = composed(statement.replace("STORE", f"store = {store.database.store}"))
        store.database.transactions.write(lambda connection: connection.execute(text))
        for _ in range(2):
            report = doctor(store_url)
            assert [one["message"] for one in report["findings"] if WAITING[statement] in one["message"]], report


def test_an_erasure_that_did_not_end_is_named(url: str) -> None:
    with closing(PostgresCollection(url)) as store:
        plan = store.begin_erasure(EraseRequest(ids=("plain",)))
        assert "1 erasures that have begun" in str(doctor(url)["findings"])
        store.finish_erasure(plan)
    assert "erasures" not in str(doctor(url)["findings"])


def test_it_makes_no_store_and_changes_none(url: str) -> None:
    for wrong in (f"{url} that nobody made", f"{url}&schema=other"):
        assert "there is no store" in doctor(wrong, code=1)["findings"][0]["message"]
        assert doctor(wrong, "--fix", code=1)["repaired"] == []
    result = CliRunner().invoke(app, ["doctor", url, "--salvage", "saved.json"])
    assert (result.exit_code, "--salvage the file" in " ".join(result.output.split())) == (2, True)


def test_attachments_that_no_item_uses_are_deleted(url: str) -> None:
    change(url, "DELETE FROM attachment_uses WHERE STORE")
    assert doctor(url, "--fix")["repaired"] == ["1 attachments that no item uses were deleted"]
    assert doctor(url, "--fix")["repaired"] == []


def test_tables_that_were_made_before_a_field_are_named_and_left_alone(url: str) -> None:
    other = f"{url}&schema=of an earlier devmem"
    with closing(PostgresCollection(other)) as store:
        text = composed("ALTER TABLE items DROP COLUMN source_kind")
        store.database.transactions.write(lambda connection: connection.execute(text))
    wrong = "its table `items` has no column 'source_kind', which this devmem needs"
    assert wrong in doctor(other, code=1)["findings"][0]["message"]
    with pytest.raises(CollectionError, match=wrong):
        PostgresCollection(other)


def test_tables_of_another_devmem_are_named_and_left_alone(url: str) -> None:
    other = f"{url}&schema=of another devmem"
    with closing(PostgresCollection(other)) as store:
        text = composed("UPDATE properties SET value = '8' WHERE name = 'version'")
        store.database.transactions.write(lambda connection: connection.execute(text))
    assert "are of schema 8" in doctor(other, code=1)["findings"][0]["message"]
    with pytest.raises(CollectionError, match="tables of schema 8, and this devmem uses schema 1"):
        PostgresCollection(other)
