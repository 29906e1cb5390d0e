"""Opening the stores that a workflow declares."""

from __future__ import annotations

import base64
import hashlib
import logging
import mimetypes
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from devmem import config
from devmem.config import reading
from devmem.config.findings import Rule
from devmem.config.store import EmbeddingConfig, EncryptionConfig
from devmem.config.workflow import RecallRecording, Workflow, base_dir_of
from devmem.encryption.keys import key_of, protect
from devmem.errors import ConfigError, DevmemError, Finding, PluginError, SessionNameError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.message import AttachmentRef, MessageBlock
from devmem.model.results import FileReport, damage
from devmem.models.embedder import Embedder
from devmem.models.embedding_providers import open_embedder
from devmem.plugins import StoreRegistry, is_foreign, plugin_errors, registry
from devmem.recording.forwarder import pending_file
from devmem.storage.connections import tables_of
from devmem.storage.location_report import examine_json
from devmem.storage.opening import file_of
from devmem.storage.pending import STATE_FILE, examine_pending
from devmem.storage.recall_log import RecallLog
from devmem.stores.commit_log import erase_records, erasures_file
from devmem.stores.config import PlaceConfig
from devmem.stores.memory import MemoryBase, StoreSetup
from devmem.stores.recalls import RecallRecorder
from devmem.text.files import expanded

_LOG: Final = logging.getLogger(__name__)

_LONGEST_NAME: Final = 255
"""Bytes of the name of a folder, on the usual file systems."""


def session_folder(workflow: Workflow, session: str = DEFAULT_SESSION) -> Path:
    """Return the folder of a session's `auto` files and rescued writes: `.devmem/SESSION` beside the workflow.

    The files of an encrypted workflow are opened with its key from here on.

    Raises:
        EncryptionError: the key of the workflow's stores is missing or wrong.
        SessionNameError: the session's name could leave that folder, or is too long for the name of a folder.
    """
    is_short = len(session.encode()) <= _LONGEST_NAME
    if not session or not is_short or session in (".", "..", STATE_FILE) or any(char in session for char in "/\\\0:"):
        raise SessionNameError(session)
    folder = workflow.base_dir / ".devmem"
    # The encrypted stores of a workflow have one key.
    found = (getattr(declaration.config, "encryption", None) for declaration in workflow.memory)
    block: EncryptionConfig | None = next((one for one in found if one is not None), None)
    if block is not None and workflow.file is not None:
        protect(folder, block.read_key(workflow.base_dir))
    return folder / session


def open_recalls(workflow: Workflow, folder: Path) -> RecallRecorder:
    """Return the recorder of what agents are shown, as `record_recalls` says, whose log is in the folder."""
    wanted = RecallRecording() if workflow.record_recalls is True else workflow.record_recalls
    log = RecallLog(folder / STATE_FILE, contents=wanted.contents, retention=wanted.retention) if wanted else None
    return RecallRecorder(log)


def session_names(folder: Path) -> list[str]:
    """Return the names of the sessions that have files, given the folder of all of them."""
    found = folder.iterdir() if folder.is_dir() else []
    return sorted(each.name for each in found if each.is_dir())


def make_store(
    workflow: Workflow,
    name: str,
    *,
    session: str = DEFAULT_SESSION,
    types: StoreRegistry = registry,
    embedders: Callable[[EmbeddingConfig], Embedder] = open_embedder,
    clock: Callable[[], float] = time.time,
) -> MemoryBase:
    """Make the store of this name without opening its files; the workflow is not changed.

    Args:
        workflow: declares the store.
        name: the store's name.
        session: whose `auto` files are meant.
        types: where store types are looked up.
        embedders: opens embedding models.
        clock: returns the time in seconds since the epoch.

    Raises:
        KeyError: the workflow declares no such store.
        ConfigError: a placeholder in its configuration has no value.
        PluginError: its type cannot be used, or its code failed.
    """
    declaration = workflow.store(name)
    workflow.require_resolved(*declaration.place.location)
    base_dir = base_dir_of(declaration, workflow.base_dir)

    def open_part(part: str) -> MemoryBase:
        if getattr(workflow.store(part).config, "composes", ()):
            raise PluginError(f"store {name!r}: {part!r} is itself made of other stores; name those")
        return make_store(workflow, part, session=session, types=types, embedders=embedders, clock=clock)

    beside: Path | None = None
    path: str | None = getattr(declaration.config, "memory_path", None)
    file = None if workflow.file is not None or path in (None, "auto") else file_of(str(path))
    if file is not None:
        # Without a workflow the usual folder is one of the working directory, whose files may be anybody's.
        place = base_dir / expanded(file)
        if getattr(declaration.config, "encryption", None) is not None or key_of(place) is not None:
            beside = place.with_name(f"{place.name}.session")
    setup = StoreSetup(
        name=declaration.name,
        store_type=declaration.type,
        config=declaration.config,
        base_dir=base_dir,
        session_dir=beside or session_folder(workflow, session),
        open_embedder=embedders,
        clock=clock,
        recalls=open_recalls(workflow, session_folder(workflow, session)),
        open_store=open_part,
    )
    return types.make(setup)


@contextmanager
def open_stores(
    workflow: Workflow,
    names: Iterable[str] | None = None,
    *,
    session: str = DEFAULT_SESSION,
    types: StoreRegistry = registry,
    embedders: Callable[[EmbeddingConfig], Embedder] = open_embedder,
    clock: Callable[[], float] = time.time,
    load: Callable[[MemoryBase], None] | None = None,
) -> Iterator[Mapping[str, MemoryBase]]:
    """Open stores by name (None: all of the workflow), and save and close them at the end, also after an error.

    Erasures that an earlier process had decided are finished first.

    `load` loads one store, for a caller that shows the progress of a long one; None calls its `load`.

    Raises what `make_store` raises, and `DevmemError` when a store's files cannot be used.
    """
    wanted = [store.name for store in workflow.memory] if names is None else list(dict.fromkeys(names))
    with ExitStack() as opened:
        stores: dict[str, MemoryBase] = {}
        for name in wanted:
            store = make_store(workflow, name, session=session, types=types, embedders=embedders, clock=clock)
            opened.callback(store.close)
            if store.setup.recalls is not None:
                opened.callback(store.setup.recalls.close)
            (load or load_store)(store)
            opened.push(partial(_save, store))
            stores[name] = store
        if left := erase_records(erasures_file(workflow.base_dir)):
            # Imported here: there are hardly ever any, and the command line starts sooner.
            from devmem.workflow.forgetting import recover_open

            recover_open(left, stores)
        yield stores


def load_store(store: MemoryBase, *, looking: bool = False) -> None:
    """Load a store, or make it ready to be looked at.

    Raises:
        DevmemError: it cannot be used, or the code of its type failed.
    """
    with plugin_errors(store.setup, type(store)):
        if looking:
            store.look()
        else:
            store.load()


def _save(store: MemoryBase, _kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
    """Save a store at the end; after an error, which must not be hidden by another one, a failure is logged."""
    try:
        with plugin_errors(store.setup, type(store)):
            store.save()
    except Exception:
        if error is None:
            raise
        _LOG.exception("memory store %r could not save at the end", store.name)


def load_workflow(
    path: str | Path, *, types: StoreRegistry = registry, environ: Mapping[str, str] | None = None
) -> Workflow:
    """Read and check a workflow file, ours or DevAll's.

    Args:
        path: the YAML file.
        types: where store types are looked up.
        environ: values for placeholders; None takes the process's environment.

    Raises:
        ConfigError: with everything that is wrong with the file.
    """
    return config.load_workflow(path, types, environ=environ)


def check_workflow(path: str | Path, *, environ: Mapping[str, str] | None = None) -> reading.WorkflowCheck:
    """Check a workflow file, ours or DevAll's: findings instead of errors, and a closer look than loading it takes.

    Stores of types that are not devmem's are opened to find out whether their code works; no other store is.

    Args:
        path: the YAML file.
        environ: values for placeholders; None takes the process's environment.
    """
    check = reading.check_workflow(path, registry, environ=environ)
    found: list[Finding] = []
    for each in check.workflow.memory if check.workflow is not None else ():
        if check.workflow is None or not is_foreign(registry.get(each.type).factory):
            continue
        try:
            store = make_store(check.workflow, each.name)
            try:
                load_store(store, looking=True)
            finally:
                with plugin_errors(store.setup, type(store)):
                    store.close()
        except ConfigError:
            continue  # a placeholder without a value, of which the check has told
        except DevmemError as error:
            place, file = each.place, str(check.workflow.file or "")
            message = str(error)
            found.append(Finding(message=message, rule=Rule.BROKEN_PLUGIN, file=file, line=place.line, path=place.path))
    return replace(check, findings=(*check.findings, *found))


def location_of(store: MemoryBase) -> str | None:
    """Return the location of a store's items; None when they live in memory, or only the store knows it."""
    config = store.setup.config
    return store.setup.location(config.memory_path) if isinstance(config, PlaceConfig) else None


def records_of(store: MemoryBase, folder: Path) -> tuple[Path, str]:
    """Return the file in which a store's records wait, and their name there: beside its file, or else in a folder."""
    place = location_of(store)
    if place is not None and "://" not in place:
        return pending_file(place), ""
    return folder / STATE_FILE, store.name


def examine_workflow(workflow: Workflow, session: str = DEFAULT_SESSION) -> Iterator[tuple[str, FileReport]]:
    """Yield a report of each file that a workflow's stores keep, with the store's name; nothing is changed.

    The name is empty for the files of state, which have what waits for any of them: the session's own file, and that of
    the workflow's decided erasures.

    Raises:
        SessionNameError: the session's name cannot be used.
    """
    folder = session_folder(workflow, session)
    for declaration in workflow.memory:
        name = declaration.name
        try:
            with closing(make_store(workflow, name, session=session)) as store:
                yield from ((name, report) for report in store.examine())
                file, waiting = records_of(store, folder)
        except Exception as error:  # noqa: BLE001 - a store type may be third-party code; the other stores are examined
            yield name, FileReport(path=name, kind="store", findings=[damage(f"it cannot be examined: {error}")])
            continue
        if not waiting and file.exists():
            yield name, examine_pending(file)
    for file in (folder / STATE_FILE, erasures_file(workflow.base_dir)):
        if file.exists():
            yield "", examine_pending(file)


def examine_file(path: Path) -> FileReport | None:
    """Return the report of a file that is not a SQLite collection; None where it is one.

    Raises `FileNotFoundError` when there is nothing at the path.
    """
    if not path.exists():
        raise FileNotFoundError(2, "No such file", str(path))
    if path.suffix == ".json":
        return examine_json(path)
    tables = tables_of(path)
    is_pending = "pending" in tables and "items" not in tables
    return examine_pending(path) if is_pending or path.name == STATE_FILE or path.suffix == ".pending" else None


_TYPES: Final = frozenset({"image", "audio", "video"})


def attached_file(path: Path) -> MessageBlock:
    """Read a file into a block of a message: an image, sound, a video, or else a file.

    Raises:
        OSError: the file cannot be read.
    """
    content = path.read_bytes()
    mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    kind = mime.partition("/")[0]
    return MessageBlock(
        type=kind if kind in _TYPES else "file",
        attachment=AttachmentRef(
            attachment_id=uuid4().hex,
            mime_type=mime,
            name=path.name,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            data_uri=f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}",
        ),
    )
