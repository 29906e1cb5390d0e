"""Forgetting in every store of a workflow, in all of its sessions, and in the files beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from devmem.config.workflow import Workflow
from devmem.errors import UnknownSessionError
from devmem.model.caller import DEFAULT_SESSION
from devmem.plugins import StoreRegistry, registry
from devmem.recording.log import InteractionStore
from devmem.storage.erasure import EraseRequest, Residue
from devmem.storage.opening import file_of
from devmem.storage.pending import STATE_FILE
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.commit_log import erasures_file
from devmem.stores.config import PlaceConfig
from devmem.stores.memory import MemoryBase
from devmem.workflow.erasing import (
    Target,
    WorkflowReceipt,
    WorkflowSelection,
    execute,
    preview,
    recover,
    select_erasure,
)
from devmem.workflow.recording import records_of
from devmem.workflow.stores import load_store, make_store, session_folder, session_names
from devmem.workflow.waiting import settle_records

_NONE: Final[Mapping[str, MemoryBase]] = {}


class WorkflowForgetting:
    """A forgetting over the stores of a workflow: selected, then previewed or executed.

    Stores are opened when they are needed, and closed at the end of the `with` block; those of the caller stay open.
    """

    def __init__(
        self,
        workflow: Workflow,
        *,
        session: str | None = None,
        stores: Mapping[str, MemoryBase] = _NONE,
        types: StoreRegistry = registry,
    ) -> None:
        """Find the stores; nothing is opened yet.

        Args:
            workflow: declares the stores.
            session: the only session whose files are meant; None means all of them.
            stores: stores that are open already, by name, such as those of a runner; they are of `session`, or else of
                the usual one.
            types: where store types are looked up.

        Raises:
            SessionNameError: the session's name cannot be used.
            UnknownSessionError: there are no files of it, and none of its stores is open.
            ConfigError: a placeholder in the configuration of a store has no value.
            PluginError: the type of a store cannot be used.
        """
        self._workflow, self._types = workflow, types
        self._given = stores
        self._usual = session or DEFAULT_SESSION
        there = sessions_of(workflow)
        self._sessions = [self._usual] if session is not None else there
        if self._usual not in there and not stores:
            session_folder(workflow, self._usual)
            raise UnknownSessionError(self._usual, there)
        self._decisions = erasures_file(workflow.base_dir)
        self._opened = ExitStack()
        self._kept: dict[str, MemoryBase] = {}
        self._targets = list(self._find_targets())

    def __enter__(self) -> WorkflowForgetting:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def select(self, request: EraseRequest, *, settle: bool = True) -> WorkflowSelection:
        """Return what is forgotten with a selection.

        With `settle`, what earlier processes had decided to forget is finished first, and the records that wait are
        stored, so that they are found. Without, as for a dry run, nothing is changed.
        """
        residues = [*recover(self._decisions, self._targets), *self._settle()] if settle else []
        folders = [session_folder(self._workflow, session) for session in self._sessions]
        selection = select_erasure(self._targets, request, folders)
        selection.residues += residues
        return selection

    def preview(self, selection: WorkflowSelection) -> WorkflowReceipt:
        """Return the receipt of a dry run."""
        return preview(selection)

    def execute(self, selection: WorkflowSelection, *, search: bool = True, vacuum: bool = False) -> WorkflowReceipt:
        """Forget what is selected, and return the receipt; see `devmem.forget`."""
        files = [session_folder(self._workflow, session) for session in self._sessions]
        records = [target.records[0] for target in self._targets if target.records is not None]
        return execute(selection, self._decisions, [*files, *records], search=search, vacuum=vacuum)

    def _settle(self) -> Iterator[Residue]:
        for target in self._targets:
            if target.records is not None and target.records[0].exists():
                with target.open() as store:
                    if isinstance(store, InteractionStore):
                        yield from settle_records(store, *target.records)

    def _find_targets(self) -> Iterator[Target]:
        known: set[Path] = set()
        for session in self._sessions:
            for declaration in self._workflow.memory:
                store = self._made(declaration.name, session)
                files = list(store.files())
                own = {file for file in files if file not in known or file.name == STATE_FILE}
                is_usual = session == self._usual
                is_given = is_usual and declaration.name in self._given
                if is_given or (is_usual and _is_elsewhere(store)) or any(file.exists() for file in own):
                    known |= own
                    yield self._target(store, session, files, is_usual=is_usual)
                store.close()

    def _target(self, store: MemoryBase, session: str, files: list[Path], *, is_usual: bool) -> Target:
        name = store.name
        opening: Callable[[], AbstractContextManager[MemoryBase]] = (
            partial(self._usual_store, name) if is_usual else partial(self._other_store, name, session)
        )
        records = records_of(store, session_folder(self._workflow, session))
        return Target(
            setup=store.setup,
            session="" if is_usual else session,
            open=opening,
            files=tuple(files),
            is_elsewhere=_is_elsewhere(store),
            records=records if isinstance(store, InteractionStore) else None,
        )

    def _made(self, name: str, session: str) -> MemoryBase:
        return make_store(self._workflow, name, session=session, types=self._types)

    def _usual_store(self, name: str) -> AbstractContextManager[MemoryBase]:
        if name in self._given:
            return nullcontext(self._given[name])
        if name not in self._kept:
            self._kept[name] = self._opened.enter_context(self._other_store(name, self._usual))
        return nullcontext(self._kept[name])

    @contextmanager
    def _other_store(self, name: str, session: str) -> Iterator[MemoryBase]:
        store = self._made(name, session)
        try:
            if isinstance(store, CollectionMemory):
                # Neither the model is needed, nor what loading does beside opening, such as indexing files.
                store.search_by_words()
            else:
                load_store(store)
            yield store
        finally:
            store.close()


def _is_elsewhere(store: MemoryBase) -> bool:
    """Whether a store's items are in a server or behind a service, where no file shows whether there are any."""
    config = store.setup.config
    if not isinstance(config, PlaceConfig):
        return True
    place = store.setup.location(config.memory_path)
    return place is not None and file_of(place) is None


def sessions_of(workflow: Workflow) -> list[str]:
    """Return the sessions of a workflow that have files, after the usual one."""
    found = session_names(session_folder(workflow).parent)
    return [DEFAULT_SESSION, *(name for name in found if name != DEFAULT_SESSION)]
