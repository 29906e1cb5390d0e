"""Keys, databases and sealed files: what they hold is in no byte, and what was changed is not taken."""

from __future__ import annotations

import base64
import pickle
import secrets
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem.encryption.files import connect, read_file, seal, sealed_for, unseal
from devmem.encryption.keys import StoreKey, key_of, protect, read_key_file, read_key_variable
from devmem.errors import EncryptionError, MissingExtraError, install_command
from tests.generated import examples

KEY = StoreKey(bytes(range(32)))
OTHER = StoreKey(bytes(32))
CHUNK = 1 << 20


def sealed(content: bytes) -> bytes:
    return b"".join(seal([content], KEY))


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_a_sealed_file_is_read_as_it_was_written(parts: list[bytes]) -> None:
    assert unseal(Path("x"), b"".join(seal(parts, KEY)), KEY) == b"".join(parts)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 7])
def test_content_around_the_size_of_a_chunk_is_read_as_it_was_written(size: int) -> None:
    content = secrets.token_bytes(size)
    assert unseal(Path("x"), sealed(content), KEY) == content


@settings(max_examples=examples(20))
@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_changed_byte_is_noticed_wherever_it_is(content: bytes, data: st.DataObject) -> None:
    raw = bytearray(sealed(content))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(EncryptionError):
        unseal(Path("x"), bytes(raw), KEY)


def test_chunks_cannot_be_cut_off_left_out_or_moved() -> None:
    raw, head, size = sealed(secrets.token_bytes(3 * CHUNK)), 32, CHUNK + 16
    chunks = [raw[at : at + size] for at in range(head, len(raw), size)]
    assert len(chunks) == 3
    for order in ([0, 1], [0, 2], [1, 0, 2], [0, 1, 2, 2], []):
        with pytest.raises(EncryptionError):
            unseal(Path("x"), raw[:head] + b"".join(chunks[at] for at in order), KEY)


def test_a_sealed_file_needs_its_key(tmp_path: Path) -> None:
    file = tmp_path / "file"
    protect(file, KEY)
    file.write_bytes(b"".join(sealed_for(file, [b"zebrafish"])))
    assert b"zebrafish" not in file.read_bytes()
    assert read_file(file) == b"zebrafish"
    protect(file, OTHER)
    with pytest.raises(EncryptionError, match="run `devmem rekey` again"):
        read_file(file)
    protect(file, None)
    with pytest.raises(EncryptionError, match="open it with its key"):
        read_file(file)


def test_a_plain_file_in_the_place_of_a_sealed_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"forged")
    protect(file, KEY)
    with pytest.raises(EncryptionError, match="is not encrypted"):
        read_file(file)


def database(file: Path, key: StoreKey | None) -> Path:
    protect(file, key)
    with closing(connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute("INSERT INTO notes VALUES ('zebrafish')")
    return file


def test_a_damaged_database_is_not_taken_for_one_of_another_key(tmp_path: Path) -> None:
    file = database(tmp_path / "x.db", KEY)
    raw = bytearray(file.read_bytes())
    raw[100] ^= 1
    file.write_bytes(raw)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        connect(file)


def test_an_encrypted_database_raises_the_errors_of_sqlite3(tmp_path: Path) -> None:
    file = database(tmp_path / "x.db", KEY)
    protect(file, KEY)
    with (
        closing(connect(file, timeout=0, isolation_level=None)) as first,
        closing(connect(file, timeout=0, isolation_level=None)) as second,
    ):
        with pytest.raises(sqlite3.OperationalError, match="no such table") as raised:
            first.execute("SELECT * FROM missing")
        assert raised.value.sqlite_errorname == "SQLITE_ERROR"
        first.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as busy:
            second.execute("BEGIN IMMEDIATE")
        assert busy.value.sqlite_errorname == "SQLITE_BUSY"
        first.execute("CREATE UNIQUE INDEX one ON notes (text)")
        with pytest.raises(sqlite3.IntegrityError):
            first.executemany("INSERT INTO notes VALUES (?)", [("zebrafish",)])
        with pytest.raises(sqlite3.OperationalError):
            first.executescript("NONSENSE")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.execute("SELECT 1")


def test_a_file_is_opened_by_sqlcipher_itself_with_the_documented_settings(tmp_path: Path) -> None:
    from sqlcipher3 import dbapi2

    file = database(tmp_path / "x.db", KEY)
    with closing(dbapi2.connect(file)) as connection:
        connection.execute(f"PRAGMA key = \"x'{bytes(range(32)).hex()}'\"")
        connection.execute("PRAGMA cipher_page_size = 8192")
        assert connection.execute("SELECT text FROM notes").fetchall() == [("zebrafish",)]


@pytest.mark.parametrize(
    ("package", "use"), [("sqlcipher3", "connect(Path('x'))"), ("cryptography", "list(sealed_for(Path('x'), [b'']))")]
)
def test_a_missing_package_names_the_extra(package: str, use: str, tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules[{package!r}] = None
from pathlib import Path
from devmem.encryption.files import connect, sealed_for
from devmem.encryption.keys import StoreKey, protect
protect(Path("x"), StoreKey(bytes(32)))
try:
    {use}
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(MissingExtraError.__name__)
    assert f"{package!r}: {install_command('encrypted')}" in done.stdout


RAW = bytes(range(5, 37))


@pytest.mark.parametrize(
    "form",
    [
        RAW,
        RAW.hex(),
        RAW.hex().upper(),
        base64.b64encode(RAW).decode(),
        base64.urlsafe_b64encode(RAW).decode(),
        f" {RAW.hex()}\n",
        f"{RAW.hex()}\n".encode(),
        lambda: RAW,
        lambda: RAW.hex(),
    ],
)
def test_every_form_of_a_key_is_the_same_key(form: object) -> None:
    assert StoreKey(form) == StoreKey(RAW)  # type: ignore[arg-type]
    assert StoreKey(form).database_key() == StoreKey(RAW).database_key()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "form", ["", "correct horse battery staple", RAW[:31], RAW + b"1", RAW.hex()[:-1], "密码" * 8, None, 7, b"\xff" * 9]
)
def test_what_is_no_key_is_refused_and_not_repeated(form: object) -> None:
    with pytest.raises(EncryptionError, match="32 random bytes") as raised:
        StoreKey(form)  # type: ignore[arg-type]
    assert form in ("", None, 7) or str(form) not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_key_is_in_no_representation_and_no_pickle() -> None:
    key = StoreKey(RAW)
    assert repr(key) == str(key) == "StoreKey(...)"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


def test_a_key_is_read_from_a_file_as_bytes_or_as_text(tmp_path: Path) -> None:
    for content in (RAW, RAW.hex().encode(), base64.b64encode(RAW) + b"\n"):
        (tmp_path / "key").write_bytes(content)
        assert read_key_file(tmp_path / "key") == StoreKey(RAW)
    (tmp_path / "key").write_bytes(b"secret but short")
    with pytest.raises(EncryptionError, match="holds no key") as raised:
        read_key_file(tmp_path / "key")
    assert "secret but short" not in str(raised.value)
    with pytest.raises(EncryptionError, match="cannot be read"):
        read_key_file(tmp_path / "missing")
    with pytest.raises(EncryptionError, match="cannot be read"):
        read_key_file(tmp_path)


def test_a_key_is_read_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_KEY", RAW.hex())
    assert read_key_variable("STORE_KEY") == StoreKey(RAW)
    monkeypatch.setenv("STORE_KEY", "secret but short")
    with pytest.raises(EncryptionError, match=r"\$STORE_KEY: .*holds no key") as raised:
        read_key_variable("STORE_KEY")
    assert "secret but short" not in str(raised.value)
    monkeypatch.delenv("STORE_KEY")
    with pytest.raises(EncryptionError, match="is not set"):
        read_key_variable("STORE_KEY")


def test_a_key_belongs_to_a_file_and_those_named_after_it(tmp_path: Path) -> None:
    key = StoreKey(RAW)
    protect(tmp_path / "notes.db", key)
    for name in (
        "notes.db",
        "notes.db-wal",
        "notes.db.faiss",
        "notes.db.files/ab",
        "a/../notes.db",
    ):
        assert key_of(tmp_path / name) == key, name
    for name in ("notes.dbx", "other.db", "notes", "deeper/notes.db", ""):
        assert key_of(tmp_path / name) is None, name
    protect(tmp_path / "folder", key)
    assert key_of(tmp_path / "folder" / "deep" / "file") == key
    protect(tmp_path / "folder", None)
    assert key_of(tmp_path / "folder" / "deep" / "file") is None


def test_a_key_is_found_by_another_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    protect(tmp_path / "link" / "notes.db", StoreKey(RAW))
    assert key_of(tmp_path / "real" / "notes.db") == StoreKey(RAW)
