"""Keys: their forms, where they are read from, and where they must not be seen."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path

import pytest

from devmem.encryption.keys import StoreKey, key_of, protect, read_key_file, read_key_variable
from devmem.errors import EncryptionError

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
