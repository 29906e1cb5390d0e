"""`devmem rekey`: encrypting memories, changing their key, and making them plain again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from devmem.cli.declaring import argument, option
from devmem.cli.targets import JsonTerminal, load, require_path
from devmem.encryption.keys import (
    HEADER_BYTES,
    StoreKey,
    default_key,
    is_database,
    is_encrypted,
    read_key_file,
    read_key_variable,
)
from devmem.encryption.rekeying import rekey as rekey_files
from devmem.errors import CommandError
from devmem.text.files import expanded

if TYPE_CHECKING:
    from devmem.config.workflow import Workflow

_NEW_KEY: Final = "DEVMEM_NEW_KEY"
_WORKFLOWS: Final = (".yaml", ".yml")


def rekey(
    terminal: JsonTerminal,
    place: Annotated[Path, argument("FILE", "SQLite file of a store, or a workflow (YAML).")],
    new_key_file: Annotated[Path | None, option("The new key; or the variable DEVMEM_NEW_KEY.", metavar="FILE")] = None,
    plain: Annotated[bool, option("Decrypt: write plain files.")] = False,
) -> None:
    """Encrypt a memory, change its key, or decrypt it.

    The current key is that of DEVMEM_KEY or --key-file, or of the workflow's `encryption` blocks; a plain memory has
    none. For a workflow, the files of all its stores and sessions are changed; afterwards, its `encryption` blocks must
    name the new key. No other process may have the memory open. Each file is replaced in one step, so it always opens
    with one key or the other, even if the command is killed; run it again to continue.

    Examples:
        devmem rekey notes.db --new-key-file key.txt
        devmem --key-file key.txt rekey notes.db --plain
    """
    require_path(place, "its server encrypts it")
    if not place.is_file():
        raise CommandError(f"{place} does not exist.")
    new = _new_key(new_key_file, plain=plain)
    old, places = default_key(), [place]
    if place.suffix in _WORKFLOWS:
        workflow = load(terminal, place, uses_key=True)
        old, places = _key_of(workflow) or old, _places(workflow, encrypts=new is not None)
    else:
        _check_file(place, encrypts=new is not None)
    changed = rekey_files(places, old, new)
    answer = {"files": [str(file) for file in changed], "encrypted": new is not None}
    terminal.answer(answer, f"{place}: {_told(len(changed), plain=new is None)}")


def _told(changed: int, *, plain: bool) -> str:
    if not changed:
        return f"no file was changed: none exists that {'is encrypted' if plain else 'does not have the new key'}"
    files = "1 file is" if changed == 1 else f"{changed:,} files are"
    return f"{files} {'plain' if plain else 'encrypted with the new key'}"


def _check_file(file: Path, *, encrypts: bool) -> None:
    """Raise `CommandError` for a file that is not a store's, or could not be opened once it is encrypted."""
    if encrypts and file.suffix == ".json":
        raise CommandError(
            f"{file}: a JSON file cannot be encrypted: copy its items into a SQLite file "
            f"(`devmem copy {file} {file.with_suffix('.db')}`), encrypt that, and delete this one."
        )
    with file.open("rb") as opened:
        header = opened.read(HEADER_BYTES)
    if not (is_database(header) or is_encrypted(header)):
        raise CommandError(f"{file} is not a SQLite file of a store; nothing was changed.")


def _new_key(file: Path | None, *, plain: bool) -> StoreKey | None:
    named = file is not None or bool(os.environ.get(_NEW_KEY))
    if plain:
        if file is not None:
            raise CommandError("--plain and --new-key-file exclude each other.")
        return None
    if not named:
        raise CommandError(f"no new key: give --new-key-file FILE, set {_NEW_KEY}, or decrypt with --plain.")
    return read_key_variable(_NEW_KEY) if file is None else read_key_file(file)


def _key_of(workflow: Workflow) -> StoreKey | None:
    """Return the key that the workflow's stores declare; None where they are plain."""
    found = (getattr(store.config, "encryption", None) for store in workflow.memory)
    block = next((one for one in found if one is not None), None)
    return None if block is None else block.read_key(workflow.base_dir)


def _places(workflow: Workflow, *, encrypts: bool) -> list[Path]:
    """Return the files of a workflow's stores, and the folder of its sessions.

    Raises:
        CommandError: a store would stay plain where its workflow is to be encrypted.
    """
    from devmem.config.workflow import base_dir_of
    from devmem.storage.opening import file_of

    places = [workflow.base_dir / ".devmem"]
    for store in workflow.memory:
        for key in ("memory_path", "outbox"):
            path = getattr(store.config, key, None)
            file = None if path in (None, "auto") else file_of(str(path))
            if file is None:
                continue
            if file.endswith(".json") and encrypts:
                raise CommandError(
                    f"the store {store.name!r} is a JSON file ({file}), which cannot be encrypted: give it a "
                    "SQLite file (`devmem copy` copies its items); nothing was changed."
                )
            if not file.endswith(".json"):
                places.append(base_dir_of(store, workflow.base_dir) / expanded(file))
    return places
