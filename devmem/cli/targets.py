"""The store that a command is about: a file, a database, a workflow's store; finding, opening and showing it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from urllib.parse import urlencode

from devmem.cli.declaring import OptionGroup, Parameters, argument, option
from devmem.cli.failures import unknown
from devmem.cli.terminal import Terminal
from devmem.errors import CommandError
from devmem.model.caller import DEFAULT_SESSION
from devmem.redaction import location_without_credentials

if TYPE_CHECKING:
    from devmem.config.workflow import Workflow
    from devmem.stores.indexing import Indexing, IndexPlan, IndexReport, IndexStep
    from devmem.stores.memory import MemoryBase


def index_with_progress(
    terminal: Terminal, name: str, store: Indexing, *, rebuild: bool = False, drop_missing: bool = False
) -> IndexReport:
    """Index a store of files while a bar shows the progress, where a person watches."""
    with terminal.progress(f"indexing {name}", None) as bar:

        def show(step: IndexStep) -> None:
            what = f"indexing {name}: {step.chunks:,} chunks, files"
            bar.update(bar.task_ids[0], completed=step.files, total=step.total, description=what)

        return store.index(show, rebuild=rebuild, drop_missing=drop_missing)


def load_with_progress(terminal: Terminal, store: MemoryBase) -> None:
    """Load a store; of one that is made from files, show the progress and print the changes."""
    from devmem.stores.indexing import Indexing
    from devmem.workflow.stores import load_store

    if isinstance(store, Indexing):
        report = index_with_progress(terminal, store.name, store)
        if not report.is_empty():
            terminal.report("note", f"{store.name}: {report_text(report)}")
    load_store(store)


def plan_text(plan: IndexPlan) -> str:
    """Return the numbers of new, changed, renamed, deleted and unchanged files."""
    counts = {kind: len(getattr(plan, kind)) for kind in ("new", "changed", "renamed", "deleted")}
    return ", ".join(
        [*(f"{count:,} {kind}" for kind, count in counts.items() if count), f"{plan.unchanged:,} unchanged"]
    )


def report_text(report: IndexReport) -> str:
    """Return what an indexing did, and the size of the index."""
    kept_out = f", {report.kept_out:,} chunks kept out by tombstones" if report.kept_out else ""
    return (
        f"{plan_text(report)}; {report.files:,} files in {report.chunks:,} chunks, {report.embedded:,} embedded now"
        f"{kept_out}, {report.seconds:.1f} s"
    )


_SESSIONS_SHOWN: Final = 5
WorkflowFile: TypeAlias = Annotated[Path, argument("FILE", "Workflow (YAML).")]
Session: TypeAlias = Annotated[str, option("Session whose `auto` files are used.", metavar="NAME")]
AskedAtOption: TypeAlias = Annotated[
    str | None,
    option("When it is asked, from which `last week` counts; with a zone, in its days.", "--asked-at", metavar="TIME"),
]
Archived: TypeAlias = Annotated[
    bool, option("The archived items, which nothing else finds; a search indexes them first.", "--archived")
]
EmbeddingName: TypeAlias = Annotated[
    str | None,
    option(
        "Provider of the embedding model of a file, such as minilm or e5; none searches by words only.",
        "--embedding",
        metavar="PROVIDER",
    ),
]
JsonTerminal: TypeAlias = Annotated[Terminal, option("Print JSON for programs.", "--json")]
"""The terminal of a command that has the option `--json`."""


def load(terminal: Terminal, file: Path, *, uses_key: bool = False) -> Workflow:
    """Read a workflow; raises `ConfigError` when it cannot be used.

    Args:
        terminal: of the command.
        file: YAML.
        uses_key: whether `--key-file` is for the files of this workflow, as of `devmem rekey`.
    """
    from devmem.workflow.stores import load_workflow

    workflow = load_workflow(file)
    announce(terminal, workflow, uses_key=uses_key)
    return workflow


def announce(terminal: Terminal, workflow: Workflow, *, uses_key: bool = False) -> None:
    """Warn where the key of the command does not encrypt what the stores of a workflow write."""
    declared = (getattr(store.config, "encryption", None) for store in workflow.memory)
    if terminal.has_key and not uses_key and workflow.file is not None and not any(declared):
        terminal.report(
            "warning",
            f"{workflow.file}: no store declares `encryption`, so what they write is plain; --key-file is for memories "
            "that are named by their files",
        )


def check_session(workflow: Workflow, session: str) -> None:
    """Raise `CommandError` when a session's name cannot be used."""
    from devmem.workflow.stores import session_folder

    try:
        session_folder(workflow, session)
    except ValueError as error:
        raise CommandError(f"--session: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions(OptionGroup):
    """The state of a store that is shown: the current one, one of an earlier time, or its archive."""

    as_of: Annotated[
        str | None,
        option("The items as they were at a time, such as 2026-06-02T14:30, yesterday or 3 days ago.", metavar="TIME"),
    ] = None
    archived: Archived = False

    @property
    def is_current(self) -> bool:
        """Whether it is the current state."""
        return self.as_of is None and not self.archived

    @contextmanager
    def of(self, store: MemoryBase) -> Iterator[MemoryBase]:
        """Show this state of a store for a `with` block.

        Raises:
            CommandError: the time cannot be read, or both are asked for.
            NoVersionsError: the store keeps no versions.
        """
        if self.is_current:
            yield store
            return
        from devmem.stores.abilities import as_of
        from devmem.stores.archiving import archived

        if self.as_of is not None and self.archived:
            raise CommandError("give either --as-of or --archived: an earlier time has no archive.")
        state = archived(store) if self.as_of is None else as_of(store, seconds_of_option("--as-of", self.as_of))
        with closing(state):
            yield state


NOW: Final = StateOptions()
"""The current state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """A store, declared by a workflow file or by the path of a file."""

    terminal: Terminal
    """Where progress and warnings are shown."""
    workflow: Workflow
    store: str
    session: str = DEFAULT_SESSION
    """Session whose `auto` files are meant."""
    words: tuple[str, ...] = ()
    """The arguments after the store."""
    words_only: bool = False
    """Whether `--embedding none` says that it has no model, which a command that writes records in the file."""

    def make(self) -> MemoryBase:
        """Return the store without opening its files; raises `DevmemError` when it is unknown or cannot be used."""
        from devmem.workflow.stores import make_store

        check_session(self.workflow, self.session)
        names = [store.name for store in self.workflow.memory]
        if self.store not in names:
            raise unknown("store", self.store, names, file=str(self.workflow.file or "workflow"))
        return make_store(self.workflow, self.store, session=self.session)

    @contextmanager
    def opened(self, state: StateOptions = NOW, *, save: bool = False, looking: bool = False) -> Iterator[MemoryBase]:
        """Open the store for a `with` block.

        Args:
            state: which of its states is shown.
            save: save it at the end, as a command that only reads must not.
            looking: open it without indexing or embedding anything, for a command that reads items but does not search.

        Raises:
            DevmemError: the store cannot be used.
        """
        from devmem.memory.opening import record_words_only
        from devmem.plugins import plugin_errors
        from devmem.workflow.stores import load_store

        with closing(self.make()) as store:
            if looking:
                load_store(store, looking=True)
            else:
                load_with_progress(self.terminal, store)
            if save and self.words_only:
                record_words_only(store)
            with plugin_errors(store.setup, type(store), only_inside=True):
                with state.of(store) as shown:
                    yield shown
                if save:
                    store.save()

    @contextmanager
    def opened_existing(self, *, save: bool = False, looking: bool = False) -> Iterator[MemoryBase]:
        """Open the store as `opened` does; raises `CommandError` when nothing was ever written to it."""
        self.check_written("; there is nothing to change" if save else "")
        with self.opened(save=save, looking=looking) as store:
            yield store

    @contextmanager
    def opened_if_written(self, state: StateOptions = NOW, *, looking: bool = False) -> Iterator[MemoryBase | None]:
        """Open the store as `opened` does; None, after a warning with the reason, when nothing was ever written."""
        if (reason := self.why_empty()) is not None:
            self.terminal.report("warning", reason)
            yield None
            return
        with self.opened(state, looking=looking) as store:
            yield store

    def check_written(self, then: str = "") -> None:
        """Raise `CommandError`, with what follows from it, when nothing was ever written to the store."""
        if (reason := self.why_empty()) is not None:
            raise CommandError(f"{reason}{then}.")

    def why_empty(self) -> str | None:
        """Return the reason why the store, which is not open, has no items; None when it may have some.

        Nothing is made for it, neither a file nor the tables of a database.

        Raises:
            CollectionError: a database cannot be reached.
        """
        from devmem.storage.opening import file_of, inspect_location
        from devmem.stores.config import PlaceConfig
        from devmem.workflow.stores import location_of

        store = self.make()
        if not isinstance(store.setup.config, PlaceConfig):
            return None
        location = location_of(store)
        if location is None:
            return f"memory store {store.name!r} has no `memory_path`: it keeps items for one process only"
        if (file := file_of(location)) is not None:
            if Path(file).exists():
                return None
            return f"memory store {store.name!r} is empty: {file} does not exist yet{_sessions_there(store, file)}"
        if inspect_location(location, store.name) is None:
            return f"memory store {store.name!r} is empty: {shown_store(location, store.name)} does not exist yet"
        return None


def seconds_of_option(option: str, time: str) -> float:
    """Return the time that an option names, in seconds since the epoch; raise `CommandError` for any other text."""
    from devmem.text.moments import parse_moment

    try:
        return parse_moment(time)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error


def asked_at_of_option(time: str | None) -> datetime | float | None:
    """Return the time that `--asked-at` names, with its zone; raise `CommandError` for any other text."""
    from devmem.text.moments import asker_time

    try:
        return None if time is None else asker_time(time)
    except ValueError as error:
        raise CommandError(f"--asked-at: {error}") from error


def period_of_options(since: str, until: str | None) -> tuple[float, float | None]:
    """Return the times of `--from` and `--to`; raise `CommandError` where one is unreadable, or the second earlier."""
    start, end = seconds_of_option("--from", since), None if until is None else seconds_of_option("--to", until)
    if end is not None and end < start:
        raise CommandError("--to is earlier than --from.")
    return start, end


def check_lasting(store: MemoryBase, lost: str) -> None:
    """Raise `CommandError` when a store keeps its items for this process only, so that `lost` would be lost."""
    from devmem.stores.config import PlaceConfig
    from devmem.workflow.stores import location_of

    if isinstance(store.setup.config, PlaceConfig) and location_of(store) is None:
        raise CommandError(
            f"memory store {store.name!r} keeps its items for one process only, so {lost} would be lost; "
            "give it a `memory_path` (a path, or `auto` for a file of the session)."
        )


def _sessions_there(store: MemoryBase, file: str) -> str:
    """Return which sessions have files, in parentheses, where that of a store's file has none: the likely ones."""
    folder = store.setup.session_dir
    if folder is None or Path(file).parent != folder or folder.exists():
        return ""
    from devmem.workflow.stores import session_names

    names = session_names(folder.parent)
    likely = difflib.get_close_matches(folder.name, names, n=_SESSIONS_SHOWN)
    shown = sorted([*likely, *(name for name in names if name not in likely)][:_SESSIONS_SHOWN])
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return f" (sessions with files: {', '.join(shown)}{more})" if names else ""


def shown_store(location: str, name: str) -> str:
    """Return how to show a store of a database: the URL without its password, with the store's name."""
    shown = location_without_credentials(location)
    if re.search(r"[?&]store=", shown):
        return shown
    return f"{shown}{'&' if '?' in shown else '?'}{urlencode({'store': name})}"


MemoryPlace: TypeAlias = Annotated[
    str,
    argument("MEMORY", "A file (notes.db), a workflow (team.yaml), or a store of one (team.yaml#notes)."),
]
OptionalStore: TypeAlias = Annotated[
    str | None, argument("STORE", "Store of the workflow; not needed if there is only one.")
]
ANY_NUMBER: Final = 1_000_000
_DATABASE_URL: Final = re.compile(r"postgres(ql)?:/", re.IGNORECASE)
"""How the URL of a database begins as a path, which has no double slashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How a command names its store: by MEMORY [STORE], words after them, and `--session`."""

    words: str = ""
    """The words after the store in the help; empty where there are none."""
    about: str = ""
    """Their help."""
    least: int = 0
    most: int = 0
    """Minimum and maximum number of words."""
    reading: bool = False
    """Whether the store is only read, so that no model is recorded in one that has none."""
    embedding: bool = False
    """Whether `--embedding` names the model of a file."""

    def parameters(self) -> tuple[Parameters, Parameters]:
        """Return the arguments, and the options, which come last in the help."""
        arguments: Parameters = {"memory": (MemoryPlace, ...)}
        if self.words:
            given = argument(f"[STORE] {self.words}", self.about)
            arguments["words"] = (
                (Annotated[list[str], given], ...) if self.least else (Annotated[list[str] | None, given], None)
            )
        else:
            arguments["store"] = (OptionalStore, None)
        options: Parameters = {"session": (Session, DEFAULT_SESSION)}
        return arguments, options | ({"embedding": (EmbeddingName, None)} if self.embedding else {})

    def take(self, terminal: Terminal, given: dict[str, Any]) -> StoreAddress:
        """Take the values of the parameters out of those that are given, and return the store that they name."""
        words = (given.pop("words") or []) if self.words else [each for each in [given.pop("store")] if each]
        return find_store(
            terminal,
            given.pop("memory"),
            words,
            given.pop("session"),
            least=self.least,
            most=self.most,
            usage=f"MEMORY [STORE] {self.words}".rstrip(),
            reading=self.reading,
            embedding=given.pop("embedding") if self.embedding else None,
        )


Place: TypeAlias = Annotated[StoreAddress, Target()]
ReadPlace: TypeAlias = Annotated[StoreAddress, Target(reading=True)]


def every_store(terminal: Terminal, memory: str, store: str | None, session: str) -> list[StoreAddress]:
    """Return the store that MEMORY and STORE name; where they name a workflow alone, every store of it."""
    from devmem.memory.opening import is_workflow

    if store is not None or not is_workflow(memory):
        return [find_store(terminal, memory, [store] if store else [], session, reading=True)]
    workflow = load(terminal, Path(memory))
    check_session(workflow, session)
    return stores_of(terminal, workflow, [each.name for each in workflow.memory], session)


def stores_of(terminal: Terminal, workflow: Workflow, names: Sequence[str], session: str) -> list[StoreAddress]:
    """Return the addresses of stores of a workflow."""
    return [StoreAddress(terminal=terminal, workflow=workflow, store=name, session=session) for name in names]


def require_file(path: Path, advice: str) -> None:
    """Check as `require_path` does, and use the key of the command, if it has one, for the file."""
    require_path(path, advice)
    unlock_file(path)


def require_path(path: Path, advice: str) -> None:
    """Raise `CommandError`, with the advice, where the argument FILE of a command is the URL of a database."""
    if _DATABASE_URL.match(str(path)):
        raise CommandError(f"{path} is the URL of a database, not a file: {advice}.")


def unlock_file(path: Path) -> None:
    """Use the key of the command, if it has one, for a file that it names.

    Raises:
        EncryptionError: the key is wrong, or the file is not encrypted.
    """
    from devmem.encryption.files import unlock
    from devmem.encryption.keys import default_key

    if (key := default_key()) is not None:
        unlock(path, key)


def find_store(
    terminal: Terminal,
    memory: str,
    words: Sequence[str] = (),
    session: str = DEFAULT_SESSION,
    *,
    least: int = 0,
    most: int = 0,
    usage: str = "MEMORY [STORE]",
    reading: bool = False,
    embedding: str | None = None,
) -> StoreAddress:
    """Return the store that MEMORY and the first of the words name, and the words after it: `MEMORY [STORE] QUERY`.

    After a workflow, the first word is the store's name if a store has that name, or if there is a word too many.

    Args:
        terminal: where warnings are printed.
        memory: the argument MEMORY.
        words: the arguments after it.
        session: the session whose `auto` files are meant.
        least: minimum number of words after the store.
        most: maximum number of words after the store.
        usage: the arguments as the help has them, for an error.
        reading: whether the store is only read, so that no model is recorded in one that has none.
        embedding: the option --embedding.

    Raises:
        CommandError: there is no such store, or the number of words is wrong.
        ConfigError: the workflow cannot be used.
    """
    from devmem.memory.opening import is_workflow

    if is_workflow(memory):
        if embedding is not None:
            raise CommandError(f"--embedding is for a file; put `embedding: {embedding}` into {memory}.")
        workflow = load(terminal, Path(memory))
        store, rest = _store_and_rest(workflow, words, most)
    else:
        workflow, store = _declared(terminal, memory, embedding, reading=reading)
        rest = tuple(words)
    if not least <= len(rest) <= most:
        problem = "missing" if len(rest) < least else "too many"
        raise CommandError(f"{problem} arguments: expected {usage}, and {memory} is the MEMORY.")
    return StoreAddress(
        terminal=terminal, workflow=workflow, store=store, session=session, words=rest, words_only=embedding == "none"
    )


def _declared(terminal: Terminal, place: str, embedding: str | None, *, reading: bool) -> tuple[Workflow, str]:
    """Declare the store of a file, with the model of --embedding."""
    from devmem.memory.opening import declared_store, declared_to_read

    block = {None: "auto", "none": None}.get(embedding, embedding)
    workflow, store = declared_to_read(place, block) if reading else declared_store(place, block)
    announce(terminal, workflow)
    if reading and block not in ("auto", None) and getattr(workflow.memory[0].config, "embedding", block) is None:
        terminal.report(
            "note", f"no item has an embedding yet: `devmem reindex {place} --embedding {embedding}` makes them"
        )
    return workflow, store


def _store_and_rest(workflow: Workflow, words: Sequence[str], most: int) -> tuple[str, tuple[str, ...]]:
    names = [store.name for store in workflow.memory]
    file = str(workflow.file or "workflow")
    if words and (words[0] in names or len(words) > most):
        if words[0] not in names:
            raise unknown("store", words[0], names, file=file)
        return words[0], tuple(words[1:])
    if len(names) == 1:
        return names[0], tuple(words)
    listed = f"it has {', '.join(names)}" if names else "it has none"
    raise CommandError(f"{file}: name a store of this workflow; {listed}.")
