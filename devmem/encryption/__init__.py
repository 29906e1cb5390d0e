"""Encryption of a store's files: keys, which files they belong to, and how files are read and written with them."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.encryption.files import connect as connect
    from devmem.encryption.files import diagnose as diagnose
    from devmem.encryption.files import read_file as read_file
    from devmem.encryption.files import sealed_for as sealed_for
    from devmem.encryption.files import unlock as unlock
    from devmem.encryption.keys import HEADER_BYTES as HEADER_BYTES
    from devmem.encryption.keys import KeySource as KeySource
    from devmem.encryption.keys import StoreKey as StoreKey
    from devmem.encryption.keys import default_key as default_key
    from devmem.encryption.keys import is_database as is_database
    from devmem.encryption.keys import is_encrypted as is_encrypted
    from devmem.encryption.keys import is_sealed as is_sealed
    from devmem.encryption.keys import key_of as key_of
    from devmem.encryption.keys import protect as protect
    from devmem.encryption.keys import read_key_file as read_key_file
    from devmem.encryption.keys import read_key_variable as read_key_variable
    from devmem.encryption.keys import set_default_key as set_default_key
else:
    _ORIGINS = {
        "devmem.encryption.files": "connect diagnose read_file sealed_for unlock",
        "devmem.encryption.keys": (
            "HEADER_BYTES KeySource StoreKey default_key is_database is_encrypted is_sealed key_of protect "
            "read_key_file read_key_variable set_default_key"
        ),
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
