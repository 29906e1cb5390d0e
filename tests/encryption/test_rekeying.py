"""`devmem rekey` and the key of the command line: nothing is lost, whenever it stops."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import devmem

# A process keeps the keys of its files; nothing public takes them back.
from devmem.encryption.keys import protect, set_default_key
from devmem.errors import DevmemError
from tests.command_line import run_devmem
from tests.conftest import StartScript
from tests.dying import DYING
from tests.encryption.test_stores import RARE, fill, plain_places, store_of, write_workflow

OLD, NEW = bytes(range(32)), bytes(range(1, 33))


def devmem_command(*words: object, env: Mapping[str, str | None] | None = None, code: int = 0) -> str:
    return run_devmem(*words, code=code, env={"DEVMEM_KEY": None, **(env or {})}).output


def make(file: Path, key: bytes | None, items: int = 20) -> None:
    with devmem.open(file, key=key, embedding=None) as memory:
        memory.add([f"Note {number} about the {RARE}." for number in range(items)], user="ann")
        memory.forget(memory.add("This is erased.", user="ann"), tombstone=True, verify=True)
    protect(file, None)


def count(file: Path, key: bytes | None) -> int:
    with devmem.open(file, key=key, embedding=None) as memory:
        assert memory.search(RARE, user="ann")
        found = len(memory)
    protect(file, None)
    return found


def rekey(file: Path, old: bytes | None, new: bytes | None, *, code: int = 0) -> str:
    env = {"DEVMEM_KEY": old.hex() if old else None, "DEVMEM_NEW_KEY": new.hex() if new else None}
    return devmem_command("rekey", file, *([] if new else ["--plain"]), env=env, code=code)


def opens(file: Path, key: bytes | None) -> bool:
    try:
        return count(file, key) == 20
    except DevmemError:
        protect(file, None)
        return False


@pytest.mark.parametrize(("old", "new"), [(None, NEW), (OLD, NEW), (OLD, None)], ids=["encrypt", "change", "decrypt"])
def test_a_memory_has_its_items_under_another_key(old: bytes | None, new: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    make(file, old)
    mode = file.stat().st_mode
    rekey(file, old, new)
    assert count(file, new) == 20
    assert (plain_places(tmp_path) == []) is (new is not None)
    assert file.stat().st_mode == mode
    before = file.read_bytes()
    rekey(file, old, new)
    assert file.read_bytes() == before


def test_a_key_that_a_file_does_not_have_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "notes.db", OLD)
    before = (tmp_path / "notes.db").read_bytes()
    assert "another key" in rekey(tmp_path / "notes.db", secrets.token_bytes(32), NEW, code=2)
    assert (tmp_path / "notes.db").read_bytes() == before


_DYING = (
    DYING
    + """
import shutil
from devmem.cli import main
file, share = sys.argv[1:]
sys.stdout = open(os.devnull, "w")

def rekey(name):
    try:
        main(["rekey", name])
    except SystemExit as done:
        assert not done.code, done.code

shutil.copy(file, file + "-copy.db")
lines = lines_of(lambda: rekey(file + "-copy.db"))
os.unlink(file + "-copy.db")
die_after(int(lines * float(share)), lambda: rekey(file))
os._exit(9)
"""
)


@pytest.mark.parametrize("old", [None, OLD], ids=["plain", "encrypted"])
@pytest.mark.parametrize("places", [12, pytest.param(100, marks=pytest.mark.kit)])
def test_a_process_that_dies_leaves_one_key_or_the_other_and_is_finished_later(
    places: int, old: bytes | None, tmp_path: Path, start_script: StartScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMEM_NEW_KEY", NEW.hex())
    if old:
        monkeypatch.setenv("DEVMEM_KEY", old.hex())
    changed: set[bytes | None] = set()
    for number in range(1, places):
        file = tmp_path / str(number) / "notes.db"
        file.parent.mkdir()
        make(file, old)
        assert start_script(_DYING, file, number / places).wait(60) == 9
        # Where its tombstones have the other key, neither opens it until the change is finished.
        opened = {key for key in (old, NEW) if opens(file, key)}
        assert len(opened) <= 1
        changed |= opened
        rekey(file, old, NEW)
        assert count(file, NEW) == 20
        assert plain_places(file.parent) == []
    assert changed == {old, NEW}


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
    assert "another process" in rekey(file, OLD, NEW, code=2)
    other.stdin.write("\n")
    other.stdin.close()
    assert other.wait(60) == 0
    assert count(file, OLD) == 21


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
    assert RARE in devmem_command("log", "--shown", file)


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
    assert RARE in devmem_command("list", tmp_path / "notes.json")
    assert count(tmp_path / "notes.db", None) == 20


def test_commands_read_and_write_with_the_key_of_the_environment_or_of_a_file(tmp_path: Path) -> None:
    file, key = tmp_path / "notes.db", {"DEVMEM_KEY": OLD.hex()}
    (tmp_path / "key").write_text(OLD.hex())
    option = ("--key-file", tmp_path / "key")
    devmem_command("add", file, f"The {RARE} moved.", "--embedding", "none", env=key)
    assert plain_places(tmp_path) == []
    assert RARE in devmem_command(*option, "search", file, RARE)
    assert RARE in devmem_command("list", file, env=key)
    assert "nothing is wrong" in devmem_command("doctor", file, env=key)
    devmem_command("backup", file, tmp_path / "copy.db", env=key)
    assert plain_places(tmp_path) == []
    devmem_command("backup", tmp_path / "other.db", tmp_path / "copy.db", "--restore", env=key)
    devmem_command("backup", file, tmp_path / "copy.db", "--restore", "--force", env=key)
    assert plain_places(tmp_path) == []
    assert RARE in devmem_command("list", tmp_path / "other.db", env=key)
    assert RARE in devmem_command("export", file, env=key)
    for each in ("notes.db", "copy.db", "other.db"):
        protect(tmp_path / each, None)
    assert "is encrypted" in devmem_command("list", file, code=2)
    assert "is encrypted" in devmem_command("doctor", file, code=2)
    assert "another key" in devmem_command("list", file, env={"DEVMEM_KEY": NEW.hex()}, code=2)
    assert "holds no key" in devmem_command("list", file, env={"DEVMEM_KEY": "secret"}, code=2)
    assert OLD.hex() not in devmem_command("--debug", "list", file, env={"DEVMEM_KEY": NEW.hex()}, code=2)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TEST_STORE_KEY", secrets.token_hex(32))
    yield
    set_default_key(None)
