"""Encryption of a store's files: keys, which files they belong to, and how files are read and written with them."""

from devmem.encryption.files import connect, diagnose, read_file, sealed_for, unlock
from devmem.encryption.keys import (
    HEADER_BYTES,
    KeySource,
    StoreKey,
    default_key,
    is_database,
    is_sealed,
    key_of,
    protect,
    read_key_file,
    read_key_variable,
    set_default_key,
)

__all__ = [
    "HEADER_BYTES",
    "KeySource",
    "StoreKey",
    "connect",
    "default_key",
    "diagnose",
    "is_database",
    "is_sealed",
    "key_of",
    "protect",
    "read_file",
    "read_key_file",
    "read_key_variable",
    "sealed_for",
    "set_default_key",
    "unlock",
]
