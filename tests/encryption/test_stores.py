"""A run with each store type on an encrypted place leaves a rare word in no byte of any file."""

from __future__ import annotations

import base64
import secrets
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

import devmem
from devmem import (
    MemoryContentSnapshot,
    MemoryItem,
    MemoryWritePayload,
    WorkflowRunner,
    load_workflow,
    open_stores,
    record_tool,
)
from devmem.encryption.keys import StoreKey, protect
from devmem.errors import CollectionError, ConfigError, EncryptionError
from devmem.messages import AttachmentRef, MessageBlock
from devmem.recording import InteractionRecorder
from devmem.storage import SqliteCollection
from devmem.stores import SnapshotBlock
from devmem.transfer.importing.formats import open_data
from devmem.workflow.rescue import UnsavedWrites
from devmem_stores.conversation import ConversationMemory
from tests.command_line import recalls
from tests.conftest import StartScript

RARE = "quixotrylophane"
TYPES = ("simple", "long_term", "conversation", "blackboard", "role_zero", "brain", "file")
ENCRYPTION = {"key": {"env": "TEST_STORE_KEY"}}
KEY = StoreKey(bytes(range(32)))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_STORE_KEY", secrets.token_hex(32))


def write_workflow(folder: Path, *stores: dict[str, object], **more: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    attached = [
        {"name": store["name"], "write": store["type"] != "file", "retrieve_stage": ["gen"]} for store in stores
    ]
    nodes = [{"id": "helper", "type": "agent", "config": {"provider": "extractive", "memories": attached}}]
    file = folder / "team.yaml"
    file.write_text(yaml.safe_dump({"memory": list(stores), "nodes": nodes, **more}), encoding="utf-8")
    return file


def store_of(store_type: str, folder: Path, path: str = "store.db") -> dict[str, object]:
    config: dict[str, object] = {"memory_path": path, "encryption": ENCRYPTION}
    if store_type == "file":
        sources = folder.parent / "sources"
        sources.mkdir(parents=True)
        (sources / "a.md").write_text(f"# Moving\n\nThe {RARE} moved to June.\n", encoding="utf-8")
        config["file_sources"] = [{"path": str(sources)}]
    return {"name": "notes", "type": store_type, "config": config}


def plain_places(folder: Path, word: str = RARE) -> list[str]:
    """Return the files, but for the workflow, whose name or bytes have the word, in any encoding that stores it."""
    needles = [word.encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be")]
    needles.append(base64.b64encode(needles[0])[:-4])
    return [
        str(file.relative_to(folder))
        for file in sorted(folder.rglob("*"))
        if word in file.name
        or (file.is_file() and file.suffix != ".yaml" and any(each in file.read_bytes() for each in needles))
    ]


def fill(file: Path, store_type: str) -> None:
    """Write, change, search, erase, recall and leave a run open, so that every file of the store is written."""
    if store_type != "file":
        with devmem.open(f"{file}#notes") as memory:
            mine = memory.scoped(user=f"ann {RARE}", agent=RARE)
            mine.add([f"Note {number} about the {RARE}." for number in range(30)], metadata={RARE: RARE})
            mine.add(f"The {RARE} is erased.", metadata={"about": "erased"})
            mine.forget(where=devmem.Filter(metadata={"about": "erased"}), tombstone=True)
            assert mine.search(f"about the {RARE}") or store_type == "conversation"
            if store_type != "brain":  # It keeps no versions.
                run = mine.run(f"run {RARE}")
                run.memory.add(f"The {RARE} is not committed.")
                run.close()
    workflow = load_workflow(file)
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores) as runner:
        runner.run(f"Where is the {RARE}?")


@pytest.mark.parametrize("path", ["store.db", "auto"])
@pytest.mark.parametrize("store_type", TYPES)
def test_a_rare_word_is_in_no_byte_after_a_run(store_type: str, path: str, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    file = write_workflow(folder, store_of(store_type, folder, path), record_recalls=True)
    fill(file, store_type)
    assert plain_places(folder) == []
    assert any(RARE in str(step.query) for step in recalls(file))
    with devmem.open(f"{file}#notes") as memory:
        assert len(memory) > 0


def test_the_same_run_is_found_in_a_plain_store(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    store = store_of("simple", folder)
    del store["config"]["encryption"]  # type: ignore[attr-defined]
    fill(write_workflow(folder, store, record_recalls=True), "simple")
    assert {"store.db", ".devmem/default/state.db"} <= {place.removesuffix("-wal") for place in plain_places(folder)}


KILLED = """
import os, signal, sys, devmem
memory = devmem.open(sys.argv[1], key=bytes(range(32)), embedding=None)
run = memory.run("open")
for number in range(200):
    memory.add(f"Note {number} about the RARE.", user="ann")
    run.memory.add(f"Pending {number} about the RARE.")
os.kill(os.getpid(), signal.SIGKILL)
""".replace("RARE", RARE)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_writer_leaves_no_word_and_loses_nothing(tmp_path: Path, start_script: StartScript) -> None:
    assert start_script(KILLED, tmp_path / "notes.db").wait(60) == -9
    assert (tmp_path / "notes.db-wal").stat().st_size > 0
    assert plain_places(tmp_path) == []
    with devmem.open(tmp_path / "notes.db", key=bytes(range(32)), embedding=None) as memory:
        assert len(memory) == 200
    assert plain_places(tmp_path) == []


def test_a_memory_is_opened_with_its_key_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with devmem.open(file, key=lambda: bytes(range(32)), embedding=None) as memory:
        memory.add(f"The {RARE} moved.", user="ann")
        with pytest.raises(EncryptionError, match="is encrypted"):
            devmem.open(file, embedding=None)
        with pytest.raises(EncryptionError, match="another key"):
            devmem.open(file, key=bytes(32), embedding=None)
        assert memory.search(RARE, user="ann")
    protect(file, None)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(EncryptionError, match="open it with its key"):
        devmem.open(file, embedding=None)
    with pytest.raises(EncryptionError, match="another key"):
        devmem.open(file, key=bytes(32), embedding=None)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.name in before} == before


def test_a_plain_memory_is_not_opened_with_a_key(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add("plain")
    with pytest.raises(EncryptionError, match="devmem rekey"):
        devmem.open(file, key=bytes(32), embedding=None)
    with devmem.open(file, embedding=None) as memory:
        assert memory.search("plain")


@pytest.mark.parametrize("place", [":memory:", "notes.json", "postgresql://host/db"])
def test_a_place_that_cannot_be_encrypted_refuses_a_key(place: str, tmp_path: Path) -> None:
    place = place if ":" in place else str(tmp_path / place)
    with pytest.raises(EncryptionError, match="a key is for SQLite files"):
        devmem.open(place, key=bytes(32))


def test_a_missing_or_wrong_key_of_a_workflow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_workflow(tmp_path, store_of("simple", tmp_path))
    with devmem.open(f"{file}#notes") as memory:
        memory.add(RARE)
    protect(tmp_path / "store.db", None)
    monkeypatch.setenv("TEST_STORE_KEY", secrets.token_hex(32))
    with pytest.raises(EncryptionError, match="another key"):
        devmem.open(f"{file}#notes")
    monkeypatch.delenv("TEST_STORE_KEY")
    with pytest.raises(EncryptionError, match=r"\$TEST_STORE_KEY: .*is not set"):
        devmem.open(f"{file}#notes")


@pytest.mark.parametrize(
    ("kind", "config", "said"),
    [
        ("simple", {"memory_path": "x.json", "encryption": ENCRYPTION}, "a JSON file such as x.json is not encrypted"),
        ("simple", {"memory_path": "postgresql://h/d", "encryption": ENCRYPTION}, "encrypted by its server"),
        ("simple", {"memory_path": "x.db", "encryption": {"key": {}}}, "name one place of the key"),
        (
            "simple",
            {"memory_path": "x.db", "encryption": {"key": {"env": "A", "file": "b"}}},
            "name one place of the key",
        ),
        ("simple", {"memory_path": "x.db", "encryption": {"key": "secret"}}, "encryption.key"),
        ("simple", {"memory_path": "b.db"}, "give both `encryption`"),
        ("simple", {"memory_path": "b.json"}, "give both `encryption`"),
        ("simple", {"memory_path": "b.db", "encryption": {"key": {"env": "B"}}}, "have one key"),
        ("mem0", {"mode": "oss", "infer": False}, "keep files that are not encrypted"),
    ],
)
def test_what_would_stay_plain_beside_an_encrypted_store_is_refused_with_the_reason(
    kind: str, config: dict[str, object], said: str, tmp_path: Path
) -> None:
    other: dict[str, object] = {"name": "other", "type": kind, "config": config}
    with pytest.raises(ConfigError, match=said):
        load_workflow(write_workflow(tmp_path, store_of("simple", tmp_path), other))


def test_records_of_calls_wait_encrypted(tmp_path: Path) -> None:
    store = store_of("conversation", tmp_path)
    workflow = load_workflow(write_workflow(tmp_path, store, conversation={"store": "notes"}))

    class Down(ConversationMemory):
        def record(self, interactions: object) -> None:
            raise CollectionError("notes", "is down")

    with open_stores(workflow) as stores:
        sink = Down(stores["notes"].setup)
        for file in (tmp_path / "store.db.pending", tmp_path / "elsewhere"):
            recorder = InteractionRecorder(sink, file)
            with recorder.trace(), record_tool("t", RARE) as call:
                call.output(RARE)
            recorder.close(0.1)
            assert file.exists()
            assert plain_places(tmp_path) == []


def test_large_attachments_stay_in_the_database(tmp_path: Path) -> None:
    uri = f"data:image/png;base64,{base64.b64encode((RARE * 9000).encode()).decode()}"
    ref = AttachmentRef(attachment_id="a", mime_type="image/png", data_uri=uri)
    snapshot = MemoryContentSnapshot(
        text="a", blocks=(SnapshotBlock(block=MessageBlock(type="image", attachment=ref)),)
    )
    protect(tmp_path / "store.db", KEY)
    with closing(SqliteCollection(tmp_path / "store.db")) as collection:
        collection.add([MemoryItem(id="a", content_summary="a", output_snapshot=snapshot)])
        (item,) = collection.get(["a"])
    assert item.output_snapshot == snapshot
    assert plain_places(tmp_path) == []


@pytest.mark.parametrize("folder", ["rescued", None])
def test_writes_that_no_store_took_wait_encrypted_and_are_imported(
    folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(payload: MemoryWritePayload) -> None:
        raise CollectionError("x", "is down")

    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    place = None if folder is None else tmp_path / folder
    unsaved = UnsavedWrites(place, {"notes": KEY})
    with pytest.raises(CollectionError):
        unsaved.write("notes", MemoryWritePayload(inputs_text=f"The {RARE} waits."), fails)  # type: ignore[arg-type]
    assert plain_places(tmp_path) == []
    (file,) = unsaved.close(["notes"])
    assert plain_places(tmp_path) == []
    assert RARE not in caplog.text
    (record,) = open_data(file).records
    assert RARE in str(record)


def test_the_key_is_in_no_log_and_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = secrets.token_hex(32)
    with caplog.at_level("DEBUG"), devmem.open(tmp_path / "notes.db", key=secret, embedding=None) as memory:
        memory.add(RARE)
        assert secret not in repr(memory) + caplog.text
    with pytest.raises(EncryptionError) as raised:
        devmem.open(tmp_path / "notes.db", key=secrets.token_hex(32), embedding=None)
    assert secret not in str(raised.value)
