"""The one place where devmem's files are opened: encrypted with the key that they have, or plain without one.

Databases are SQLCipher's (AES-256 in CBC mode, HMAC-SHA-512 for each page). Other files are sealed as a whole:
AES-256-GCM in chunks whose nonces count and mark the last one, so that none can be moved, left out or cut off (the
construction STREAM of Hoang, Reyhanitabar, Rogaway and Vizár, 2015), under a key that is derived for each writing.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack

from devmem.encryption.keys import HEADER_BYTES, PLAIN_DATABASE, StoreKey, is_encrypted, key_of, known_key, protect
from devmem.errors import EncryptionError, MissingExtraError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SALT_BYTES: Final = 16
_CHUNK: Final = 1 << 20
_TAG_BYTES: Final = 16
_INTERRUPTED: Final = (
    "If a change of the key was interrupted, run `devmem rekey` again with both keys, which finishes it."
)


class ConnectOptions(TypedDict, total=False):
    """Options of `sqlite3.connect`."""

    timeout: float
    isolation_level: Literal["DEFERRED", "EXCLUSIVE", "IMMEDIATE"] | None
    check_same_thread: bool
    cached_statements: int


def connect(path: str | Path, *, uri: str | None = None, **options: Unpack[ConnectOptions]) -> sqlite3.Connection:
    """Open a SQLite file of devmem, with the key that it has.

    Args:
        path: the file; `:memory:` is never encrypted.
        uri: how SQLite opens it, where more than its path is needed.
        options: those of `sqlite3.connect`.

    Raises:
        EncryptionError: the key is wrong, or the file is plain; nothing was changed.
        MissingExtraError: the package of the encryption is not installed.
        sqlite3.Error: the file cannot be opened.
    """
    key = key_of(path)
    if key is not None:
        return _connect_with(key, Path(path), uri, **options)
    return sqlite3.connect(uri or os.fspath(path), uri=uri is not None, **options)


def unlock(path: Path, key: StoreKey) -> None:
    """Use a key for a file, which need not exist yet, for the rest of the process; see `protect`.

    Raises:
        EncryptionError: the key is wrong, or the file is plain; nothing was changed.
        MissingExtraError: the package of the encryption is not installed.
    """
    if key_of(path) == key:
        return
    if path.is_file() and path.stat().st_size:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        try:
            _connect_with(key, path, uri).close()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "") != "SQLITE_CANTOPEN":
                raise
            # A read-only file system has no room for the log that SQLite makes to read, and no process that writes.
            _connect_with(key, path, f"{uri}&immutable=1").close()
    protect(path, key)


def _connect_with(key: StoreKey, path: Path, uri: str | None, **options: Unpack[ConnectOptions]) -> sqlite3.Connection:
    # Imported here: most stores are plain.
    from devmem.encryption import sqlcipher

    connection = sqlcipher.connect(uri or os.fspath(path), key, uri=uri is not None, **options)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        # SQLite could make nothing of the file, as of an encrypted one that is read without its key.
        is_no_database = getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB"
        if is_no_database and (refused := diagnose(path, key)) is not None:
            raise refused from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def diagnose(path: str | Path, key: StoreKey | None = None) -> EncryptionError | None:
    """Return why a file that SQLite could not read needs another key, or none; None where the file is damaged.

    To be asked only after SQLite failed: closing a file that this process has open would release SQLite's locks on it
    (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        with Path(path).open("rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return None
    return refusal(Path(path), header, key)


def refusal(path: Path, header: bytes, key: StoreKey | None) -> EncryptionError | None:
    """Return why a file with a header cannot be opened with a key, or with None; None where nothing is against it."""
    if header == PLAIN_DATABASE and key is not None:
        return EncryptionError(
            path, "is not encrypted, but was opened with a key: leave the key out, or encrypt it with `devmem rekey`."
        )
    if is_encrypted(header) and key is None:
        return EncryptionError(
            path,
            "is encrypted: open it with its key (`encryption:` in the workflow, `key=` in Python; on the command line "
            "DEVMEM_KEY or --key-file).",
        )
    if key is not None and is_encrypted(header) and header not in (key.database_header(), key.sealed_header()):
        return EncryptionError(path, f"is encrypted with another key; it was left unchanged. {_INTERRUPTED}")
    return None


def seal(parts: Iterable[bytes | memoryview], key: StoreKey) -> Iterator[bytes]:
    """Yield the content of a sealed file, a chunk at a time."""
    header, salt = key.sealed_header(), secrets.token_bytes(_SALT_BYTES)
    cipher = _cipher(key, salt)
    yield header + salt
    number, waiting = 0, bytearray()
    for part in parts:
        view = memoryview(part).cast("B")
        for start in range(0, len(view), _CHUNK):
            waiting += view[start : start + _CHUNK]
            while len(waiting) > _CHUNK:
                yield cipher.encrypt(_nonce(number, last=False), bytes(waiting[:_CHUNK]), header)
                del waiting[:_CHUNK]
                number += 1
    yield cipher.encrypt(_nonce(number, last=True), bytes(waiting), header)


def unseal(path: Path, content: bytes, key: StoreKey) -> bytes:
    """Return the content of a sealed file.

    Raises:
        EncryptionError: the key is wrong, the file is not sealed, or it was changed.
    """
    from cryptography.exceptions import InvalidTag

    header, salt = content[:HEADER_BYTES], content[HEADER_BYTES : HEADER_BYTES + _SALT_BYTES]
    if (refused := refusal(path, header, key)) is not None:
        raise refused
    if header != key.sealed_header():
        raise EncryptionError(path, f"is not encrypted, but belongs to an encrypted store. {_INTERRUPTED}")
    cipher, plain, size = _cipher(key, salt), bytearray(), _CHUNK + _TAG_BYTES
    body = memoryview(content)[HEADER_BYTES + _SALT_BYTES :]
    try:
        for number, start in enumerate(range(0, max(len(body), 1), size)):
            nonce = _nonce(number, last=start + size >= len(body))
            plain += cipher.decrypt(nonce, bytes(body[start : start + size]), header)
    except (InvalidTag, ValueError) as error:
        raise EncryptionError(path, "was changed or cut off since it was encrypted; it was left unchanged.") from error
    return bytes(plain)


def _cipher(key: StoreKey, salt: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        raise MissingExtraError(feature="An encrypted store", package="cryptography", extra="encrypted") from error
    return AESGCM(key.derive(b"devmem sealed file" + salt))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def sealed_for(path: Path, parts: Iterable[bytes | memoryview]) -> Iterable[bytes | memoryview]:
    """Return the bytes to write to a file so that `read_file` returns the parts: sealed where the file has a key."""
    key = key_of(path)
    return parts if key is None else seal(parts, key)


def read_with(path: Path, key: StoreKey | None) -> bytes:
    """Return the content of a file, which is sealed with a key where it is sealed at all; raises as `read_file`."""
    content = path.read_bytes()
    return unseal(path, content, key) if key is not None and is_encrypted(content) else content


def read_file(path: Path) -> bytes:
    """Return the content of a file that may be sealed.

    Raises:
        OSError: it cannot be read.
        EncryptionError: it is encrypted and the key is missing or wrong, or it was changed.
    """
    content = path.read_bytes()
    key = key_of(path) or known_key(content[:HEADER_BYTES])
    if key is not None:
        return unseal(path, content, key)
    if (refused := refusal(path, content[:HEADER_BYTES], None)) is not None:
        raise refused
    return content
