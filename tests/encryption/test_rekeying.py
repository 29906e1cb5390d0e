"""`devmem rekey` and the key of the command line: nothing is lost, whenever it stops."""

from __future__ import annotations

import json
import secrets
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

import devmem
from devmem.cli.app import app
from devmem.encryption import StoreKey, protect, rekeying, set_default_key
from devmem.encryption.rekeying import rekey
from devmem.errors import CollectionBusyError, CollectionUnwritableError, EncryptionError
from tests.conftest import StartScript
from tests.encryption.test_stores import RARE, fill, plain_places, store_of, write_workflow

OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def devmem_command(*words: object, env: Mapping[str, str | None] | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"DEVMEM_KEY": None, **(env or {})})
    assert result.exit_code == code, result.output
    return result.output


def key_of(raw: bytes | None) -> StoreKey | None:
    return None if raw is None else StoreKey(raw)


def make(file: Path, key: bytes | None, items: int = 20) -> None:
    with devmem.open(file, key=key, embedding=None) as memory:
        memory.add([f"Note {number} about the {RARE}." for number in range(items)], user="ann")
        memory.erase(memory.add("This is erased.", user="ann"), tombstone=True)
    protect(file, None)


def count(file: Path, key: bytes | None) -> int:
    with devmem.open(file, key=key, embedding=None) as memory:
        assert memory.search(RARE, user="ann")
        found = len(memory)
    protect(file, None)
    return found


@pytest.mark.parametrize(("old", "new"), [(None, NEW), (OLD, NEW), (OLD, None)], ids=["encrypt", "change", "decrypt"])
def test_a_memory_has_its_items_under_another_key(old: bytes | None, new: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    make(file, old)
    mode = file.stat().st_mode
    changed = rekey([file], key_of(old), key_of(new))
    assert [each.name for each in changed] == ["notes.db", "notes.db.tombstones"]
    assert count(file, new) == 20
    assert (plain_places(tmp_path) == []) is (new is not None)
    assert file.stat().st_mode == mode
    with closing(sqlite3.connect(file)) as connection:
        if new is None:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert rekey([file], key_of(old), key_of(new)) == []


def test_a_key_that_a_file_does_not_have_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "notes.db", OLD)
    before = (tmp_path / "notes.db").read_bytes()
    with pytest.raises(EncryptionError, match="another key"):
        rekey([tmp_path / "notes.db"], StoreKey(secrets.token_bytes(32)), StoreKey(NEW))
    with pytest.raises(EncryptionError, match="another key"):
        rekey([tmp_path / "notes.db"], None, None)
    assert (tmp_path / "notes.db").read_bytes() == before


def test_a_file_beside_which_no_journal_can_be_made_is_not_said_to_be_in_use(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    make(file, OLD)
    journal = tmp_path / "notes.db-journal"
    journal.mkdir()
    with pytest.raises(CollectionUnwritableError, match="its key was not changed"):
        rekey([file], StoreKey(OLD), StoreKey(NEW))
    journal.rmdir()
    assert count(file, OLD) == 20


def test_an_open_memory_is_refused_and_stays_usable(tmp_path: Path, start_script: StartScript) -> None:
    file = tmp_path / "notes.db"
    make(file, OLD)
    program = """
import sys, devmem
with devmem.open(sys.argv[1], key=bytes(range(32)), embedding=None) as memory:
    print("open", flush=True)
    sys.stdin.readline()
    memory.add("more", user="ann")
"""
    other = start_script(program, file)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "open\n"
    with pytest.raises(CollectionBusyError, match="another process"):
        rekey([file], StoreKey(OLD), StoreKey(NEW))
    other.stdin.write("\n")
    other.stdin.close()
    assert other.wait(60) == 0
    assert count(file, OLD) == 21


@pytest.mark.parametrize("step", ["_alone", "_check_copy", "_sync", "_put_in_place", "_replace"])
@pytest.mark.parametrize("old", [None, OLD], ids=["plain", "encrypted"])
def test_an_interruption_leaves_one_key_or_the_other_and_is_finished_later(
    step: str, old: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.db"
    make(file, old)
    keys = (key_of(old), StoreKey(NEW))

    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rekeying, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            rekey([file], *keys)
    has_new_key = step == "_replace"
    assert not list(tmp_path.glob("*.part*"))
    if not has_new_key:
        assert count(file, old) == 20
    rekey([file], *keys)
    assert count(file, NEW) == 20
    assert plain_places(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("calls", [1, 2])
def test_a_kill_leaves_one_key_or_the_other(calls: int, tmp_path: Path, start_script: StartScript) -> None:
    file = tmp_path / "notes.db"
    make(file, None)
    program = f"""
import os, signal, sys
from pathlib import Path
from devmem.encryption import StoreKey, rekeying
put, calls = rekeying._put_in_place, []
def killing(*arguments, **options):
    calls.append(1)
    if len(calls) == {calls}:
        os.kill(os.getpid(), signal.SIGKILL)
    put(*arguments, **options)
rekeying._put_in_place = killing
rekeying.rekey([Path(sys.argv[1])], None, StoreKey(bytes(range(1, 33))))
"""
    assert start_script(program, file).wait(60) == -9
    assert count(file, None) == 20 if calls == 1 else file.read_bytes()[:7] == b"devmem\x00"
    rekey([file], None, StoreKey(NEW))
    assert count(file, NEW) == 20


def test_large_attachments_in_files_refuse_to_be_encrypted(tmp_path: Path) -> None:
    make(tmp_path / "notes.db", None)
    (tmp_path / "notes.db.files").mkdir()
    (tmp_path / "notes.db.files" / ("0" * 64)).write_bytes(b"content")
    with pytest.raises(EncryptionError, match="devmem copy"):
        rekey([tmp_path / "notes.db"], None, StoreKey(NEW))
    assert count(tmp_path / "notes.db", None) == 20


def test_a_workflow_is_encrypted_with_its_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of("brain", tmp_path)
    block = store["config"].pop("encryption")  # type: ignore[attr-defined]
    file = write_workflow(tmp_path, store, record_recalls=True)
    fill(file, "brain")
    assert plain_places(tmp_path) != []
    key = secrets.token_hex(32)
    devmem_command("rekey", file, env={"DEVMEM_NEW_KEY": key})
    assert plain_places(tmp_path) == []
    store["config"]["encryption"] = block  # type: ignore[index]
    write_workflow(tmp_path, store, record_recalls=True)
    monkeypatch.setenv("TEST_STORE_KEY", key)
    with devmem.open(f"{file}#notes") as memory:
        memory.add(f"More of the {RARE}.")
        assert len(memory) > 30
    assert plain_places(tmp_path) == []
    assert RARE in devmem_command("shown", file)


def test_a_json_file_is_not_encrypted_as_nothing_could_open_it_again(tmp_path: Path) -> None:
    new = {"DEVMEM_NEW_KEY": NEW.hex()}
    make(tmp_path / "notes.db", None)
    devmem_command("add", tmp_path / "notes.json", f"The {RARE} moved.", "--embedding", "none")
    assert "devmem copy" in devmem_command("rekey", tmp_path / "notes.json", env=new, code=2)
    stores: list[dict[str, object]] = [
        {"name": name, "type": "simple", "config": {"memory_path": f"{name}.{form}"}}
        for name, form in (("notes", "db"), ("other", "json"))
    ]
    file = write_workflow(tmp_path, *stores)
    devmem_command("add", f"{file}#other", f"The {RARE} moved.")
    assert "'other'" in devmem_command("rekey", file, env=new, code=2)
    assert RARE in devmem_command("show", tmp_path / "notes.json")
    assert count(tmp_path / "notes.db", None) == 20


def test_a_file_that_is_not_a_store_is_refused_and_stays_unchanged(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("A text.")
    answer = devmem_command("rekey", tmp_path / "notes.txt", env={"DEVMEM_NEW_KEY": NEW.hex()}, code=2)
    assert "not a SQLite file of a store" in answer
    assert (tmp_path / "notes.txt").read_text() == "A text."


def test_commands_read_and_write_with_the_key_of_the_environment_or_of_a_file(tmp_path: Path) -> None:
    file, key = tmp_path / "notes.db", {"DEVMEM_KEY": OLD.hex()}
    (tmp_path / "key").write_text(OLD.hex())
    option = ("--key-file", tmp_path / "key")
    devmem_command("add", file, f"The {RARE} moved.", "--embedding", "none", env=key)
    assert plain_places(tmp_path) == []
    assert RARE in devmem_command(*option, "search", file, RARE)
    assert RARE in devmem_command("show", file, env=key)
    assert "nothing is wrong" in devmem_command("doctor", file, env=key)
    devmem_command("backup", file, tmp_path / "copy.db", env=key)
    assert plain_places(tmp_path) == []
    devmem_command("restore", tmp_path / "copy.db", tmp_path / "other.db", env=key)
    devmem_command("restore", tmp_path / "copy.db", file, "--force", env=key)
    assert plain_places(tmp_path) == []
    assert RARE in devmem_command("show", tmp_path / "other.db", env=key)
    assert RARE in devmem_command("export", file, env=key)
    for each in ("notes.db", "copy.db", "other.db"):
        protect(tmp_path / each, None)
    assert "is encrypted" in devmem_command("show", file, code=2)
    assert "is encrypted" in devmem_command("doctor", file, code=2)
    assert "another key" in devmem_command("show", file, env={"DEVMEM_KEY": NEW.hex()}, code=2)
    assert "holds no key" in devmem_command("show", file, env={"DEVMEM_KEY": "secret"}, code=2)
    assert OLD.hex() not in devmem_command("--debug", "show", file, env={"DEVMEM_KEY": NEW.hex()}, code=2)


def test_a_workflow_without_encryption_says_that_it_has_no_use_for_the_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(OLD.hex())
    (tmp_path / "w.yaml").write_text(
        "memory: [{name: notes, type: simple, config: {memory_path: n.db, embedding: null}}]"
    )
    answer = devmem_command("--key-file", tmp_path / "key", "add", tmp_path / "w.yaml", "The tide turned.")
    assert "no store declares `encryption`, so what they write is plain" in " ".join(answer.split())


def test_a_workflow_that_is_decrypted_has_use_for_the_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(OLD.hex())
    make(tmp_path / "n.db", OLD)
    (tmp_path / "w.yaml").write_text("memory: [{name: notes, type: simple, config: {memory_path: n.db}}]")
    answer = devmem_command("--key-file", tmp_path / "key", "rekey", tmp_path / "w.yaml", "--plain")
    assert "files are plain" in answer
    assert "warning" not in answer


def test_rekey_needs_to_know_what_is_wanted(tmp_path: Path) -> None:
    make(tmp_path / "notes.db", None)
    assert "no new key" in devmem_command("rekey", tmp_path / "notes.db", code=2)
    assert "exclude each other" in devmem_command(
        "rekey", tmp_path / "notes.db", "--plain", "--new-key-file", "x", code=2
    )
    assert "does not exist" in devmem_command("rekey", tmp_path / "missing.db", "--plain", code=2)
    answer = devmem_command("rekey", tmp_path / "notes.db", "--json", env={"DEVMEM_NEW_KEY": NEW.hex()})
    assert json.loads(answer)["encrypted"] is True
    assert "1 file is plain" in devmem_command(
        "rekey", tmp_path / "notes.db", "--plain", env={"DEVMEM_KEY": NEW.hex()}
    ) or count(tmp_path / "notes.db", None)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_STORE_KEY", secrets.token_hex(32))
    monkeypatch.setattr("devmem.encryption.keys._DEFAULT", [])
    set_default_key(None)
