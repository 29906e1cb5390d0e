"""Keys of encrypted files, and which files of this process belong to which key.

A key is 32 random bytes. No password is stretched: whoever can read a file could try passwords against it for years.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from devmem.errors import EncryptionError

KeyMaterial: TypeAlias = bytes | str
"""A key as 32 bytes, 64 hexadecimal digits or 44 characters of base64."""
KeySource: TypeAlias = KeyMaterial | Callable[[], KeyMaterial]
"""A key, or what returns it, such as a call of a secret manager."""

_BYTES: Final = 32
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")
_FORMS: Final = (
    "a key is 32 random bytes, written as 64 hexadecimal digits or as base64; "
    "`python -c 'import secrets; print(secrets.token_hex(32))'` makes one"
)
_DATABASE: Final = b"devmem\x00D"
_SEALED: Final = b"devmem\x00S"
_CHECK_BYTES: Final = 8
PLAIN_DATABASE: Final = b"SQLite format 3\x00"
HEADER_BYTES: Final = len(_DATABASE) + _CHECK_BYTES
"""Length of what every encrypted file begins with: its kind, and a check value of its key."""


class StoreKey:
    """A key of 32 bytes, which is in no representation, comparison message or pickle."""

    __slots__ = ("_secret",)

    def __init__(self, source: KeySource) -> None:
        """Take the key, or call what returns it.

        Raises:
            EncryptionError: it is not a key; the error does not repeat it.
        """
        self._secret: Final = _decoded(source() if callable(source) else source)

    def derive(self, purpose: bytes) -> bytes:
        """Return 32 bytes that are another key for each purpose: HKDF-Expand with SHA-256 (RFC 5869, 2.3).

        The key is uniformly random, so the step of extraction is left out (3.3).
        """
        return hmac.new(self._secret, purpose + b"\x01", hashlib.sha256).digest()

    def database_key(self) -> str:
        """Return the key of a database as SQLCipher takes it: the key itself, and the salt in the file's header."""
        return f"x'{self._secret.hex()}{self.database_header().hex()}'"

    def database_header(self) -> bytes:
        """Return what a database of this key begins with, where SQLCipher keeps a salt.

        The salt makes the key of the checksums out of the random key, so it need not be random itself.
        """
        return _DATABASE + self._check()

    def sealed_header(self) -> bytes:
        """Return what any other file of this key begins with."""
        return _SEALED + self._check()

    def _check(self) -> bytes:
        return self.derive(b"devmem key check")[:_CHECK_BYTES]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreKey) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self._check())

    def __repr__(self) -> str:
        return "StoreKey(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled: it would be written with whatever holds it")


def _decoded(material: object) -> bytes:
    if isinstance(material, bytes) and len(material) == _BYTES:
        return material
    if isinstance(material, bytes):
        material = material.decode("ascii", "replace")
    if not isinstance(material, str):
        raise EncryptionError("the key", f"is of the type {type(material).__name__}: {_FORMS}.")
    text = material.strip()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    try:
        raw = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _BYTES:
        # What was given is not repeated, nor chained: it may be a password, or a key with a typing error.
        raise EncryptionError("the key", f"cannot be used ({len(text)} characters): {_FORMS}.") from None
    return raw


def read_key_file(path: Path) -> StoreKey:
    """Return the key in a file: the 32 bytes themselves, or their text.

    Raises:
        EncryptionError: the file cannot be read, or holds no key.
    """
    try:
        with path.open("rb") as file:
            content = file.read(1024)
    except OSError as error:
        raise EncryptionError(path, f"the file of the key cannot be read: {error.strerror or error}") from error
    try:
        return StoreKey(content)
    except EncryptionError as error:
        raise EncryptionError(path, f"the file holds no key: {_FORMS}.") from error


def read_key_variable(name: str) -> StoreKey:
    """Return the key in a variable of the environment.

    Raises:
        EncryptionError: it is not set, or holds no key.
    """
    value = os.environ.get(name)
    if not value:
        raise EncryptionError(f"${name}", f"the variable of the key is not set: {_FORMS}.")
    try:
        return StoreKey(value)
    except EncryptionError as error:
        raise EncryptionError(f"${name}", f"the variable holds no key: {_FORMS}.") from error


_KEYS: Final[dict[str, StoreKey]] = {}
_LOCK: Final = threading.Lock()


def protect(path: Path, key: StoreKey | None) -> None:
    """Use a key for a file and those named after it (`store.db-wal`, `store.db.faiss`), or for all within a folder.

    It holds for the rest of the process. None forgets the key.
    """
    with _LOCK:
        if key is None:
            _KEYS.pop(os.path.realpath(path), None)
        else:
            _KEYS[os.path.realpath(path)] = key


def key_of(path: str | Path) -> StoreKey | None:
    """Return the key that a file is read and written with; None for a plain one."""
    if not _KEYS:
        return None
    return next((key for name in _owners(os.path.realpath(path)) if (key := _KEYS.get(name)) is not None), None)


_DEFAULT: Final[list[StoreKey]] = []


def set_default_key(key: StoreKey | None) -> None:
    """Set the key of the memories that a command names by their paths; None has none."""
    _DEFAULT[:] = [] if key is None else [key]


def default_key() -> StoreKey | None:
    """Return the key of the memories that a command names by their paths; None without one."""
    return _DEFAULT[0] if _DEFAULT else None


def known_key(header: bytes) -> StoreKey | None:
    """Return the key of this process that a file with a header was sealed with, wherever it is; None without one."""
    return next((key for key in list(_KEYS.values()) if header == key.sealed_header()), None)


def _owners(path: str) -> Iterator[str]:
    """Yield the paths by which the key of a file may be known, the nearest first."""
    folder, name = os.path.split(path)
    yield path
    for position in range(len(name) - 1, 0, -1):
        if name[position] in "-.":
            yield f"{folder}{os.sep}{name[:position]}"
    if folder != path:
        yield from _owners(folder)


def is_database(header: bytes) -> bool:
    """Whether a file that begins with a header is a SQLite database, encrypted or not."""
    return header[:HEADER_BYTES] == PLAIN_DATABASE or header.startswith(_DATABASE)


def is_sealed(header: bytes) -> bool:
    """Whether a file that begins with a header was encrypted by devmem, and is not a database."""
    return header.startswith(_SEALED)


def is_encrypted(header: bytes) -> bool:
    """Whether a file that begins with a header was encrypted by devmem."""
    return header.startswith((_DATABASE, _SEALED))
