"""Every error that devmem raises on purpose.

    DevmemError
    ├── ConfigError                  the `Finding`s in a workflow file, at least one of them an error
    ├── FormPathError                breadcrumbs that lead to no block of a workflow
    ├── SessionNameError             a session whose name could leave its folder
    ├── UnknownSessionError          a session that has no files
    ├── CommandError                 the arguments of a command cannot be used
    ├── PlaceholderError             a value cannot be put in for a placeholder
    ├── PluginError                  a store type, an embedding provider, a reranker or a URL scheme
    │   ├── UnknownPluginError
    │   ├── PluginClashError         two packages claim one name
    │   ├── BrokenPluginError
    │   ├── StorePluginError         the code of a store type failed
    │   └── PluginLoadError          a module that `plugins:` names
    ├── CollectionError              knows the collection's location
    │   ├── CollectionDamagedError
    │   ├── CollectionBusyError
    │   ├── CollectionUnwritableError
    │   ├── CollectionClosedError
    │   ├── CollectionInUseError     the file belongs to another type of store
    │   ├── CollectionReadOnlyError  an earlier state was asked to change
    │   ├── EncryptionError          the key of a file is missing or wrong, or a part of a store would be left plain
    │   ├── RunConflictError         others changed what a run changed too
    │   ├── RunStateError            an unknown or a finished run
    │   ├── EmbeddingMismatchError
    │   └── OutboxError              writes that wait cannot be kept or sent now
    │       └── OutboxFullError
    ├── AccessError                  an attachment does not allow what it was asked for
    ├── ScopeError                   a handle was asked for what is outside of its scope
    ├── FilterError                  a filter that means nothing, or would mean everything where that is refused
    ├── VersionConflictError         an item was changed meanwhile by somebody else
    ├── ItemNotFoundError
    ├── MemoryFileError              a file that a model keeps in a memory cannot be read or changed as asked
    ├── NotStoredError
    ├── RunFailedError               a run that is a transaction could not write to a store
    ├── NoVersionsError              a store that keeps no versions was asked for one
    │   ├── NoArchiveError           a store that has no archive was asked for archived items
    │   └── ConsolidationError       a store cannot be consolidated, as that could not be reverted
    ├── NoTombstonesError            a store that keeps no tombstones was asked for them
    ├── EmbeddingError
    │   ├── ModelNotFoundError
    │   ├── ModelDamagedError
    │   ├── EmbeddingUnavailableError  the provider does not answer; try again later
    │   ├── RequestRefusedError      a service refused a request, perhaps because of one of its texts
    │   └── TextsRefusedError        the provider embedded the other texts
    ├── AnswerRefusedError           an answer of a service is too large, or a redirect to another origin
    ├── ChatModelError
    │   └── NodeFailedError          the chat model of a workflow's node
    ├── RerankerError
    ├── MessageError                 a message, or data that should be messages
    ├── MissingExtraError
    ├── HostNotFoundError            a framework that is not a package is not on the import path
    ├── DistributionClashError       another project's package `devmem` is mixed with this one
    ├── DataFileError                a file given to `devmem import` or found beside a store
    │   └── DateOrderError           the order of day and month in its dates has to be named
    ├── AmbiguousDateError           day and month of a date cannot be told apart
    ├── UnreadableError              bytes that hold no readable text
    │   └── OversizedError           a file that is larger than the limits allow
    ├── DeadlineError                a call took longer than its caller waits
    ├── BrainRedisError              Redis could not do its part for a store of type `brain`
    ├── Mem0Error                    mem0 could not do its part for a store of type `mem0`
    │   └── Mem0RejectedError        it will never take this request
    ├── PoolClosedError              a pool of database connections was used after it was closed
    ├── ExportError                  a store cannot be written in the form that was asked for
    └── ReadOnlyPageError            the page of `devmem web` was asked to change something and may not

An error keeps its facts as attributes and words its own message: what, which, and what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from devmem.redaction import location_without_credentials, without_credentials


class DevmemError(Exception):
    """Base of every error that devmem raises on purpose; its text has no key or password, whatever a library said."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_credentials(each) if isinstance(each, str) else each for each in args))


class CollectionError(DevmemError):
    """Something is wrong with the place where a store keeps its items."""

    def __init__(self, location: Path | str, message: str) -> None:
        self.location = location_without_credentials(str(location))
        super().__init__(f"{self.location}: {message}")


class CollectionDamagedError(CollectionError):
    """The file is not what it should be; it was left unchanged."""


class CollectionBusyError(CollectionError):
    """Others held the write lock for too long, or changed the same thing repeatedly; nothing was written."""


class CollectionUnwritableError(CollectionError):
    """The disk is full, the folder is missing or may not be written; nothing was written."""


class CollectionClosedError(CollectionError):
    """The collection was used after `close()`."""


class CollectionInUseError(CollectionError):
    """The file holds the items of another type of store."""


class CollectionReadOnlyError(CollectionError):
    """A view of an earlier state of the collection was asked to write; nothing was written."""

    def __init__(self, location: Path | str, state: str) -> None:
        super().__init__(location, f"{state}, which cannot be changed; write to the collection itself.")


class EncryptionError(CollectionError):
    """A key is missing, wrong or none, or a part of an encrypted store would be left plain; nothing was changed."""


class RunConflictError(CollectionError):
    """A run cannot be committed, or reverted, because others changed the same items since; nothing was changed."""

    def __init__(self, location: Path | str, run: str, ids: Sequence[str]) -> None:
        self.run, self.ids = run, tuple(ids)
        named = ", ".join(map(repr, self.ids[:9])) + (", ..." if self.ids[9:] else "")
        super().__init__(location, f"run {run!r} stays unchanged, since others changed or built on {named} meanwhile.")


class RunStateError(CollectionError):
    """A run is not in the state that was needed; nothing was changed."""

    def __init__(self, location: Path | str, run: str, state: str, reason: str) -> None:
        self.run, self.state = run, state
        super().__init__(location, f"run {run!r} is {state}: {reason}.")


class EmbeddingMismatchError(CollectionError):
    """The vectors in the collection were made by another embedding model."""

    def __init__(self, location: Path | str, *, recorded: str, wanted: str, same_name: bool = False) -> None:
        """Word the error; `same_name` is for models of one name, which `devmem reindex` does not tell apart."""
        self.recorded, self.wanted = recorded, wanted
        provider, force = ("PROVIDER", " --force") if same_name else (wanted.partition(":")[0], "")
        super().__init__(
            location,
            f"its vectors were made by {recorded}, but the workflow asks for {wanted}. "
            "Vectors of different models are never mixed: put the old model back, "
            f"or run `devmem reindex FILE STORE{force}` to embed every item again "
            f"(`devmem reindex FILE --embedding {provider}{force}` where there is no workflow).",
        )


class OutboxError(CollectionError):
    """The outbox, in which writes wait for their receiver, cannot be used now."""


class RecallLogError(CollectionError):
    """The log of what agents were shown cannot be read or written now."""


class OutboxFullError(OutboxError):
    """The maximum number of writes waits already; nothing was added."""

    def __init__(self, location: Path | str, limit: int) -> None:
        self.limit = limit
        super().__init__(
            location, f"{limit:,} writes wait here already. Bring the receiver back, or raise the limit, and try again."
        )


class Level(StrEnum):
    """Severity of a finding, in the words of SARIF."""

    ERROR = "error"
    """The workflow cannot be used."""
    WARNING = "warning"
    """The workflow can be used, but probably does not do what its author expects."""
    NOTE = "note"
    """A suggestion, or something worth knowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found while a workflow was checked."""

    message: str
    """Cause, value found and values possible; no location."""
    level: Level = Level.ERROR
    rule: str = ""
    """Identifier of the check, as `unknown-key`; `devmem.config.Rule` describes each."""
    path: str = ""
    """Place in the document, as `memory[1].config.file_sources[0].path`; empty for the whole file."""
    file: str = ""
    """The file as the caller named it; empty when the document did not come from one."""
    line: int | None = None
    """1-based line, or None when the whole file is meant."""

    def __str__(self) -> str:
        place = self.file or "<workflow>"
        if self.line is not None:
            place += f":{self.line}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


NAME: Final = "devmem-framework"
"""Name of the distribution, as in `pyproject.toml`."""
FOREIGN_NAME: Final = "devmem"
"""Name of the other project's distribution."""
PACKAGE: Final = "devmem"
"""Name of the import package, which both distributions install."""


def install_command(extra: str | None = None) -> str:
    """Return the command that installs devmem from where it was installed, with an extra."""
    import json
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    extras = f"[{extra}]" if extra else ""
    try:
        origin = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url, vcs = str(origin.get("url", "")), origin.get("vcs_info")
    if "dir_info" in origin:
        editable = "--editable " if origin["dir_info"].get("editable") else ""
        return f"pip install {editable}{shlex.quote(url2pathname(urlsplit(url).path) + extras)}"
    if vcs:
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"pip install {shlex.quote(f'{NAME}{extras} @ {url}' if url else f'{NAME}{extras}')}"


def installed_version() -> str:
    """Return the version of the installed distribution; in a source tree that was not installed, that there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(NAME)
    except PackageNotFoundError:
        return f"without a version: {NAME} is not installed"


class ConfigError(DevmemError, ValueError):
    """A workflow that cannot be used; carries every finding, warnings and notes included."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(_with_level(finding) for finding in self.findings))

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings of the level `error`, in their order."""
        return tuple(finding for finding in self.findings if finding.level is Level.ERROR)


def _with_level(finding: Finding) -> str:
    return str(finding) if finding.level is Level.ERROR else f"{finding.level}: {finding}"


class FormPathError(DevmemError, ValueError):
    """A path of breadcrumbs leads to no block of a workflow; the message names the step."""


class SessionNameError(DevmemError, ValueError):
    """The name of a session cannot be that of a folder."""

    def __init__(self, session: str) -> None:
        self.session = session
        shown = repr(session) if len(session) <= 80 else f"{session[:40]!r}... ({len(session):,} characters)"
        super().__init__(f"a session's name is one plain word, not {shown}")


class UnknownSessionError(DevmemError, ValueError):
    """A workflow has no files of a session of this name."""

    def __init__(self, session: str, known: Sequence[str]) -> None:
        self.session, self.known = session, tuple(known)
        super().__init__(f"there are no files of a session {session!r}; the sessions are: {', '.join(known)}")


class CommandError(DevmemError):
    """The arguments of a command cannot be used."""


class PlaceholderError(DevmemError, ValueError):
    """A placeholder whose value cannot be put in: a cycle, a list inside a text, too much text."""


class PluginError(DevmemError):
    """A plugin cannot be found or loaded."""


class UnknownPluginError(PluginError):
    """No plugin of this name is installed or registered."""

    def __init__(self, kind: str, name: str, known: Sequence[str], *, suggestion: str | None = None) -> None:
        self.kind, self.name, self.known, self.suggestion = kind, name, tuple(known), suggestion
        hint = f"; did you mean {suggestion!r}?" if suggestion else "."
        super().__init__(
            f"unknown {kind} {name!r}{hint} Possible: {', '.join(known) or 'none'}. "
            "Others need their package installed, or their module under `plugins:`."
        )


class PluginClashError(PluginError):
    """Two packages claim one name; only that name is unusable."""

    def __init__(self, kind: str, name: str, owners: Sequence[str]) -> None:
        self.kind, self.name, self.owners = kind, name, tuple(owners)
        claimed = f"is claimed by {' and by '.join(self.owners)}. Uninstall one of them, or rename what it offers"
        if len(set(self.owners)) == 1:
            claimed = f"is already registered by {self.owners[0]}. Register each under its own name, once"
        super().__init__(f"{kind} {name!r} {claimed}; other names are not affected.")


class BrokenPluginError(PluginError):
    """A plugin is installed but its code cannot be used."""

    def __init__(self, kind: str, name: str, owner: str, reason: str) -> None:
        self.kind, self.name, self.owner, self.reason = kind, name, owner, reason
        super().__init__(
            f"{kind} {name!r} of {owner} cannot be loaded: {reason}. Update or uninstall that package, or use another."
        )


class StorePluginError(PluginError):
    """The code of a store type that is not devmem's failed."""

    def __init__(self, store: str, store_type: str, source: str, error: Exception) -> None:
        self.store, self.store_type, self.source = store, store_type, source
        """The store, its type, and the file and line of the type's code."""
        super().__init__(
            f"memory store {store!r}: its type {store_type!r} ({source}) failed: {type(error).__name__}: {error}"
        )


class PluginLoadError(PluginError):
    """A module that `plugins:` names cannot be imported; it may register types, rerankers and embedding providers."""

    def __init__(self, module: str, reason: str) -> None:
        self.module, self.reason = module, reason
        super().__init__(f"module {module!r} cannot be imported: {reason}")


class AccessError(DevmemError, PermissionError):
    """An attachment whose `read` or `write` is false was asked for it; nothing was read or written."""

    def __init__(self, store: str, access: Literal["read", "write"]) -> None:
        self.store, self.access = store, access
        super().__init__(f"the attachment of the store {store!r} has `{access}: false`; set it to true to allow this")


class ScopeError(DevmemError, ValueError):
    """A scoped handle of a memory was asked for something outside of its scope; nothing was read or written."""


class FilterError(DevmemError, ValueError):
    """A `field` such as `scope.user` has a value that means nothing, or all would be selected where that is refused."""

    def __init__(self, field: str, message: str) -> None:
        self.field, self.reason = field, message
        super().__init__(f"filter: {field}: {message}" if field else f"filter: {message}")


class VersionConflictError(DevmemError):
    """Another version of an item than the expected one is stored; nothing was written."""

    def __init__(self, item_id: str, *, expected: str | None, found: str | None) -> None:
        self.item_id, self.expected, self.found = item_id, expected, found
        """The item's id, and the `version_hash` of the expected and of the stored version; None for none."""
        what = "is not stored any more" if found is None else "is stored already" if expected is None else "was changed"
        super().__init__(f"item {item_id!r} {what}; read it again, and decide on what is there now")


class ItemNotFoundError(DevmemError, LookupError):
    """No item with this id is visible to the caller."""

    def __init__(self, item_id: str) -> None:
        self.item_id = item_id
        super().__init__(f"no item with the id {item_id!r} is visible here; it may be forgotten or expired")


class MemoryFileError(DevmemError, ValueError):
    """A file that a model keeps in a memory cannot be read or changed as asked; the text tells the model why."""


class NotStoredError(DevmemError):
    """A store did not take what was to be remembered."""

    def __init__(self, reasons: Sequence[str], *, stored: Sequence[str] = ()) -> None:
        self.reasons, self.stored = tuple(reasons), tuple(stored)
        """Why each item was not stored, and the ids of those items of the same call that were."""
        beside = f" ({len(self.stored)} others are stored)" if self.stored else ""
        super().__init__(
            f"{len(self.reasons)} of the items not stored: {'; '.join(dict.fromkeys(self.reasons))}{beside}"
        )


class RunFailedError(DevmemError):
    """A store could not be written in a run that is a transaction; what the run wrote to others was dropped."""

    def __init__(self, run: str, failures: Sequence[str]) -> None:
        self.run, self.failures = run, tuple(failures)
        super().__init__(f"run {run!r} was discarded: {'; '.join(self.failures)}")


class NoVersionsError(DevmemError):
    """A store was asked for earlier versions, or for a run, and keeps none."""

    _lack: ClassVar[str] = "keeps no versions of its items"
    _advice: ClassVar[str] = ". Stores in SQLite files and in PostgreSQL keep them."

    def __init__(self, store: str, reason: str) -> None:
        self.store, self.reason = store, reason
        super().__init__(f"memory store {store!r} {self._lack}: {reason}{self._advice}")


class NoArchiveError(NoVersionsError):
    """A store was asked for archived items, or to archive some, and has no archive."""

    _lack = "has no archive"
    _advice = ". Stores in SQLite files and in PostgreSQL have one."


class ConsolidationError(NoVersionsError):
    """A store cannot be consolidated, as its items could not be put back."""

    _lack = "cannot be consolidated"
    _advice = "."


class NoTombstonesError(DevmemError):
    """A store was asked to keep tombstones of what it erases, and cannot."""

    def __init__(self, store: str, reason: str) -> None:
        self.store, self.reason = store, reason
        super().__init__(
            f"memory store {store!r} keeps no tombstones: {reason}. Stores in a SQLite file, in PostgreSQL and in "
            "memory keep them."
        )


class EmbeddingError(DevmemError):
    """An embedding could not be made."""


class ModelNotFoundError(EmbeddingError):
    """The embedding model's files are not on this machine."""


class ModelDamagedError(EmbeddingError):
    """The embedding model's files are not the official ones."""


class EmbeddingUnavailableError(EmbeddingError):
    """The provider does not answer now; the same call may work later."""


class RequestRefusedError(EmbeddingError):
    """The service refused a request, perhaps because of one of its texts."""


class TextsRefusedError(EmbeddingError):
    """The provider refused some of the texts, and embedded the others."""

    def __init__(self, refused: Mapping[int, str], made: Any) -> None:  # noqa: ANN401 - of `embed` or `embed_tokens`
        """Take the reasons by the places of the refused texts, and what was made of the others, in their order."""
        self.refused, self.made = refused, made
        reason = next(iter(refused.values()))
        super().__init__(reason if len(refused) == 1 else f"{len(refused)} texts were refused, the first one: {reason}")


class AnswerRefusedError(DevmemError):
    """An answer of a service is too large, packed in another way than asked for, or a redirect to another origin."""


class ChatModelError(DevmemError):
    """A chat model gave no usable answer."""

    def __init__(self, *args: object, input_tokens: int = 0, output_tokens: int = 0) -> None:
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        """Tokens of an answer that cannot be used, as the service counted them."""
        super().__init__(*args)


class NodeFailedError(ChatModelError):
    """The chat model of a workflow's node gave no usable answer."""

    def __init__(self, node: str, *, provider: str, address: str | None, reason: str, nodes: Sequence[Any]) -> None:
        self.node, self.provider, self.address, self.reason = node, provider, address, reason
        self.nodes = tuple(nodes)
        """The `NodeResult`s of the nodes before it, and that of its own stages that were over."""
        at = f" at {without_credentials(address)}" if address else ""
        super().__init__(f"node {node!r} ({provider}{at}) failed: {reason}")


class GuardError(DevmemError):
    """A check of a store's guard cannot be made, or could not read a text."""


class RerankerError(DevmemError):
    """A reranker cannot be made, or gave no scores."""


class MessageError(DevmemError, ValueError):
    """Something is not a message, or data cannot be read as messages; nothing was added or taken in."""


class MissingExtraError(DevmemError, ImportError):
    """A feature needs a package that is not installed."""

    def __init__(self, *, feature: str, package: str, extra: str | None, advice: str = "") -> None:
        self.feature, self.package, self.extra = feature, package, extra
        more = f" {advice}" if advice else ""
        command = install_command(extra) if extra else f"pip install {package}"
        super().__init__(f"{feature} needs the package {package!r}: {command}.{more}")


class HostNotFoundError(DevmemError, ImportError):
    """A framework that an adapter is for, and that is no package, is not on the import path."""

    def __init__(self, host: str, advice: str) -> None:
        self.host, self.advice = host, advice
        super().__init__(f"{host} is not on the import path: {advice}.")


class DistributionClashError(DevmemError, ImportError):
    """The package `devmem` that Python finds is, wholly or in part, that of another project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"the package in {folder} is not that of {NAME} alone: the distribution {FOREIGN_NAME!r}, a tool for "
            "/dev/mem, installs a package of the same name, and the two overwrite each other's files. "
            f"Uninstall both and install this one again: pip uninstall -y {FOREIGN_NAME} {NAME} && {install_command()}"
        )


class DataFileError(DevmemError):
    """A data file cannot be read as what it should be; it was left unchanged."""

    def __init__(self, path: Path | str, message: str, *, line: int | None = None) -> None:
        self.path, self.message, self.line = str(path), message, line
        place = f"{self.path}:{line}" if line is not None else self.path
        super().__init__(f"{place}: {message}")


class DateOrderError(DataFileError):
    """Day and month of the dates in a data file cannot be told apart; the option `--dates` settles it."""


class AmbiguousDateError(DevmemError, ValueError):
    """Day and month of a date cannot be told apart, or have another order than was named."""


class UnreadableError(DevmemError, ValueError):
    """Bytes that hold no text that can be read; the message says why, without a subject."""


class OversizedError(UnreadableError):
    """A file that is larger than the limits allow."""


class DeadlineError(DevmemError):
    """A call took longer than its caller waits; it may still be running."""


class BrainRedisError(DevmemError):
    """Redis could not do its part; the conversation is kept with its items until it can."""

    def __init__(self, place: str, operation: str, detail: str, advice: str = "") -> None:
        self.place, self.operation, self.detail, self.advice = place, operation, detail, advice
        text = f"{place} could not {operation}, which is kept with the items for now: {detail.rstrip('.')}."
        super().__init__(f"{text} {advice}".strip())


_MEM0_ADVICE: Final[Mapping[str, str]] = {
    "scope": " Set `user_id`, `agent_id` or `run_id` in the store's `config`, or give the node a `role`.",
    "auth": " Check the store's `api_key`; unsent writes are kept and go out with the new one.",
    "timeout": " `timeout` sets how long a request may take.",
    "answer": " Does `host` lead to a server that speaks the mem0 platform's API?",
}


class Mem0Error(DevmemError):
    """mem0 could not do what it was asked; the text never holds the key.

    Attributes:
        kind: `setup` (package, configuration, project), `scope` (no id says whose memories are meant), `auth`,
            `rate limit`, `timeout`, `connection`, `server` (5xx), `model` (behind `mode: oss`), `answer` (none that
            mem0's API promises), `rejected`, `unavailable` (requests back off), or `unknown`.
        maybe_done: whether it may have been done all the same.
        status: of HTTP.
        retry_after: seconds after which the service wants to be asked again.
    """

    def __init__(
        self,
        kind: str,
        operation: str,
        detail: str,
        *,
        maybe_done: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.kind, self.operation, self.maybe_done, self.status = kind, operation, maybe_done, status
        wait = "" if retry_after is None else f"; it wants to be asked again in {retry_after:g} s"
        self.detail, self.retry_after = f"{detail.rstrip('.')}{wait}", retry_after
        super().__init__(f"mem0 could not {operation}: {self.detail}.{_MEM0_ADVICE.get(kind, '')}")


class Mem0RejectedError(Mem0Error):
    """mem0 will never take this request."""

    def __init__(self, operation: str, detail: str, *, status: int | None = None) -> None:
        super().__init__("rejected", operation, detail, status=status)


class PoolClosedError(DevmemError):
    """A pool of database connections was used after it was closed."""

    def __init__(self) -> None:
        super().__init__("it was closed")


class ExportError(DevmemError):
    """The content of a store cannot be written in the form that was asked for."""


class ReadOnlyPageError(DevmemError):
    """Nothing may be changed through this page."""
