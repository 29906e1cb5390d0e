"""The rules that a workflow's document is held against.

A rule has an identifier, the kind of subject that it looks at, and a generator of its findings. One pass over a graph
(`inspect_graph`) shows every subject to the rules of its kind. Rules marked `close` are for `check_workflow` alone:
they look at this machine, or at what was probably forgotten.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Final, TypeAlias, TypeVar

from devmem.config.agent import CARRIED_OUT, NODE_TYPES, ONLY_IN_CONFIG, SETTINGS, AgentConfig, ChatConfig
from devmem.config.base import all_keys, field_at
from devmem.config.document import DocumentPath
from devmem.config.findings import Rule, choices, closest, did_you_mean, quoted
from devmem.config.placeholders import has_placeholder
from devmem.config.store import EmbeddingConfig, RetrievalConfig, StoreDeclaration
from devmem.config.subjects import (
    Attached,
    Attachments,
    Chat,
    Embedding,
    Graph,
    Inspection,
    Root,
    Store,
    Subject,
    Written,
)
from devmem.config.workflow import (
    Edge,
    NodeConfig,
    Subgraph,
    base_dir_of,
    source_paths,
    unset_message,
    written_stores,
)
from devmem.errors import Level
from devmem.model.caller import RETRIEVING, Stage
from devmem.text.files import expanded

NODE_KEYS: Final = ("id", "type", "description")
AGENT_KEYS: Final = (*all_keys([AgentConfig]), "thinking")
EDGE_KEYS: Final = ("from", "to", "trigger", "carry_data", "condition")
NEAR_MISS: Final = 0.75
"""Likeness from which a key that nothing reads is taken for a misspelt one."""


Found: TypeAlias = Iterator[tuple[DocumentPath, str]]
"""Findings: where below the subject, and the message."""
S = TypeVar("S", bound=Subject)
Find: TypeAlias = Callable[[S], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    rule: Rule
    level: Level
    close: bool
    find: Find[Any]


_CHECKS: Final[dict[type, list[_Check]]] = {}


def check(
    rule: Rule, subject: type[S], *, level: Level = Level.WARNING, close: bool = False
) -> Callable[[Find[S]], Find[S]]:
    """Register a rule: the generator of its findings about a kind of subjects."""

    def register(find: Find[S]) -> Find[S]:
        _CHECKS.setdefault(subject, []).append(_Check(rule=rule, level=level, close=close, find=find))
        return find

    return register


def inspect(subject: Subject) -> None:
    """Hold one subject against the rules of its kind."""
    inspection = subject.inspection
    for each in _CHECKS.get(type(subject), ()):
        if each.close is inspection.close and not (each.level is Level.ERROR and inspection.report.is_full):
            for tail, message in each.find(subject):
                inspection.report.add((*subject.path, *tail), message, each.rule, each.level)


def inspect_graph(graph: Graph, stores: Mapping[str, StoreDeclaration]) -> None:
    """Hold a graph and everything in it against the rules, without its subgraphs.

    `stores` are those that its agents may attach, by name: those of the graphs around it too.
    """
    inspection = graph.inspection
    inspect(graph)
    for store in graph.stores:
        _inspect_store(store, inspection)
    for node in graph.nodes:
        if node.config is None:
            continue
        path = (*node.place.location, "config")
        inspect(Chat(path, inspection, node.config))
        for index, entry in enumerate(node.config.memories):
            if entry.name in stores:
                inspect(Attached((*path, "memories", index), inspection, entry, node.config, stores[entry.name]))


def _inspect_store(store: StoreDeclaration, inspection: Inspection) -> None:
    path = (*store.place.location, "config")
    inspect(Store(path, inspection, store))
    for key, block in store.config:
        if isinstance(block, EmbeddingConfig):
            inspect(Embedding((*path, key), inspection, block, tokens=False))
        elif isinstance(block, ChatConfig):
            inspect(Chat((*path, key), inspection, block))
        elif isinstance(block, RetrievalConfig) and block.tokens is not None:
            inspect(Embedding((*path, key, "tokens"), inspection, block.tokens, tokens=True))


# Keys that nothing reads, or that are read elsewhere.


_READ: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "graph": ((), ()),
    "node": (("config", *NODE_KEYS), ("config", "context_window", "log_output", "dynamic", "position")),
    "agent": (AGENT_KEYS, ("tooling", "retry", "input_mode", "skills", "memory")),
    "settings": (all_keys([*SETTINGS.values()]), ()),
    "edge": (EDGE_KEYS, ()),
    "condition": (all_keys(field_at(Edge, ("condition",))[0]), ()),
    "condition_config": (all_keys(field_at(Edge, ("condition", "config"))[0]), ()),
}
"""Keys that devmem reads, and keys that only DevAll reads; those of a graph are looked at as parts of the document."""


def _misspelt(value: Mapping[Any, Any], keys: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Return the keys that nothing reads and that are nearly one of `keys`, each with that one.

    Keys that another system reads, `others` among them, may stand anywhere.
    """
    unread = [key for key in value if isinstance(key, str) and key not in (*keys, *others)]
    found = {key: closest(key, keys, cutoff=NEAR_MISS) for key in unread}
    return {key: meant for key, meant in found.items() if meant is not None and meant not in value}


@check(Rule.UNKNOWN_KEY, Written)
def _misspelt_keys(written: Written) -> Found:
    for key, meant in _misspelt(written.value, *_READ[written.what]).items():
        yield (key,), f"this key is not read; did you mean {meant!r}?"


def _misplaced(node: Written) -> Iterator[str]:
    """Return the keys of an agent that stand in its node, and not in its `config`."""
    config = node.value.get("config")
    own = config if isinstance(config, dict) else {}
    if node.kind == "agent":
        yield from (key for key in node.value if key in AGENT_KEYS and key not in own)


@check(Rule.MISPLACED_KEY, Written, level=Level.ERROR)
def _keys_of_an_agent_beside_its_config(node: Written) -> Found:
    for key in _misplaced(node):
        if key in ONLY_IN_CONFIG:
            yield (key,), f"`{key}` belongs inside the agent's `config`, where it is read"


@check(Rule.MISPLACED_KEY, Written)
def _keys_of_an_agent_in_the_node(node: Written) -> Found:
    read, others = _READ["node"]
    for key in _misplaced(node):
        if key not in (*ONLY_IN_CONFIG, *read, *others, *_misspelt(node.value, read, others)):
            yield (key,), f"this key is not read here; `{key}` belongs inside `config`"


@check(Rule.MISPLACED_KEY, Written, level=Level.ERROR)
def _store_in_an_agent(agent: Written) -> Found:
    if agent.what == "agent" and "memory" in agent.value:
        yield (
            ("memory",),
            "an agent no longer has its own `memory`: declare the store under the document's `memory` and name it "
            "in the agent's `memories`",
        )


@check(Rule.UNKNOWN_NAME, Written)
def _node_type(node: Written) -> Found:
    if isinstance(node.kind, str) and node.kind and node.kind not in NODE_TYPES:
        meant = closest(node.kind, NODE_TYPES)
        hint = f"; did you mean {meant!r}?" if meant else "; its input is passed on"
        yield ("type",), f"devmem knows no node type {quoted(node.kind)}{hint}"


# What DevAll has and devmem does not carry out.

_NOT_CARRIED_OUT: Final[Mapping[str, Mapping[str, str]]] = {
    "graph": {
        "is_majority_voting": "majority voting is not carried out; the output is that of the last node",
        "end": "`end` is not read; the output is that of the last node that ran",
    },
    "node": {
        "context_window": "a node keeps no earlier messages here; use a memory instead of `context_window`",
        "dynamic": "the node runs once; `dynamic` is not carried out",
    },
    "agent": {
        "tooling": "the agent has no tools here",
        "skills": "the agent has no skills here",
        "retry": "a request that fails is repeated by devmem's own rules; `retry` is not read",
    },
    "edge": {
        "process": "the output is passed on as it is; `process` is not carried out",
        "dynamic": "the target runs once; `dynamic` is not carried out",
        "keep_message": "nothing is kept between runs of a node; `keep_message` is not read",
        "clear_context": "nothing is kept between runs of a node; `clear_context` is not read",
        "clear_kept_context": "nothing is kept between runs of a node; `clear_kept_context` is not read",
    },
}


@check(Rule.NOT_SUPPORTED, Written)
def _settings_of_devall(written: Written) -> Found:
    for key, message in _NOT_CARRIED_OUT.get(written.what, {}).items():
        if written.value.get(key):
            yield (key,), message


@check(Rule.NOT_SUPPORTED, Written)
def _nodes_of_devall(node: Written) -> Found:
    # Nodes that ask a person are left to the runner: the first of them gets what the person said, the input.
    if isinstance(node.kind, str) and node.kind in NODE_TYPES.keys() - CARRIED_OUT - {"human"}:
        yield ("type",), f"a node of type {node.kind!r} is not carried out; its input is passed on"


@check(Rule.NOT_SUPPORTED, Written)
def _modes_of_devall(agent: Written) -> Found:
    if agent.what != "agent":
        return
    if agent.value.get("input_mode") not in (None, "messages"):
        yield ("input_mode",), "the model gets its input as messages; `input_mode` is not read"
    thinking = agent.value.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in (None, "reflection"):
        yield ("thinking",), f"thinking of type {str(kind)[:40]!r} is not carried out"


@check(Rule.NOT_SUPPORTED, Graph)
def _conditions_that_are_functions(graph: Graph) -> Found:
    for path, edge in graph.edges:
        if (function := edge.condition.function) is not None:
            message = (
                f"the condition is the Python function {function!r}, which is not called; "
                "the edge is not followed, and what only it leads to does not run"
            )
            yield (*path, "condition"), message


@check(Rule.CYCLE, Graph)
def _first_circle(graph: Graph) -> Found:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for _, edge in graph.edges:
        sorter.add(edge.target, edge.source)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        around = set(pairwise(circle))
        closing = [path for path, edge in graph.edges if (edge.source, edge.target) in around][-1]
        names = " -> ".join(quoted(name) for name in circle)
        yield closing, f"the edges {names} lead in a circle; each node runs once, and no edge is followed back"


# Attachments.


def _named_entries(attachments: Attachments) -> Iterator[tuple[DocumentPath, str]]:
    """Return the names of the attached stores, each with its place below the list."""
    entries = attachments.entries
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        name = entry.get("name") if isinstance(entry, dict) else entry
        if isinstance(name, str):
            yield ((index,) if isinstance(entry, str) else (index, "name")), name


@check(Rule.UNSET_VARIABLE, Attachments, level=Level.ERROR)
def _attachment_by_an_unset_variable(attachments: Attachments) -> Found:
    for tail, _ in _named_entries(attachments):
        if names := attachments.missing.get((*attachments.path, *tail)):
            yield tail, unset_message(names)


@check(Rule.DUPLICATE_NAME, Attachments, level=Level.ERROR)
def _store_attached_twice(attachments: Attachments) -> Found:
    seen: dict[str, DocumentPath] = {}
    for tail, name in _named_entries(attachments):
        where = (*attachments.path, *tail)
        if name in seen and where not in attachments.missing:
            line = attachments.inspection.report.document.line(seen[name])
            yield tail, f"the store {quoted(name)} is attached to this node already, on line {line}"
        seen.setdefault(name, where)


def _no_store(name: str, declared: Collection[str]) -> str:
    return f"there is no store {quoted(name)}{did_you_mean(name, declared)} Declared stores: {choices(declared)}."


@check(Rule.UNKNOWN_NAME, Attachments, level=Level.ERROR)
def _undeclared_store(attachments: Attachments) -> Found:
    declared, seen = attachments.declared, set[str]()
    for tail, name in _named_entries(attachments):
        if name and name not in (*declared, *seen) and (*attachments.path, *tail) not in attachments.missing:
            yield tail, _no_store(name, declared)
        seen.add(name)


@check(Rule.NO_EFFECT, Attached)
def _attachment_without_effect(attached: Attached) -> Found:
    entry, store = attached.entry, attached.store
    read_only = getattr(store.config, "read_only", False)
    if entry.write and "write" in entry.model_fields_set and read_only:
        yield ("write",), f"stores of type {store.type!r} are read-only; nothing will be written"
    if entry.ttl is not None and (not entry.write or read_only):
        yield ("ttl",), "nothing is written to this store here, so nothing expires"
    if entry.view is not None and "view" not in type(store.config).model_fields:
        yield ("view",), f"stores of type {store.type!r} have no views; all of it is read"
    if not entry.read and not entry.write:
        yield ("read",), "this store is neither read nor written here"
    view = entry.view or getattr(store.config, "view", None)
    by_time = view is not None and view.order != "search"
    if entry.similarity_threshold > -1 and (by_time or not getattr(store.config, "has_similarity", True)):
        advice = "; `view: {order: search}` finds by similarity" if by_time else ""
        yield ("similarity_threshold",), f"the latest items are read here, whatever their similarity{advice}"


@check(Rule.NO_EFFECT, Attached)
def _stage_without_effect(attached: Attached) -> Found:
    entry, agent = attached.entry, attached.agent
    stages = [("retrieve_stage", stage) for stage in (entry.retrieve_stage or () if entry.read else ())]
    stages += [("write_stage", stage) for stage in (entry.write_stage if entry.write else ())]
    for key, stage in stages:
        if key == "retrieve_stage" and stage is Stage.FINISHED:
            message = "what is found at the stage 'finished' reaches no prompt, only the result of the run"
            yield (key,), f"{message}; prompts are reached from {choices(RETRIEVING)}"
        prompt = {Stage.PLAN: agent.plan, Stage.CRITIQUE: agent.critique}
        if stage in prompt and prompt[stage] is None:
            yield (key,), f"the stage {stage.value!r} does not happen here, because the agent has no `{stage.value}`"


# Recording and transactions.


@check(Rule.UNKNOWN_NAME, Root, level=Level.ERROR)
def _stores_of_a_recording(root: Root) -> Found:
    if (block := root.recording) is None:
        return
    names = [store.name for store in root.stores]
    wanted = [(("copies", index, "into"), rule.into) for index, rule in enumerate(block.copies)]
    for tail, name in [*wanted, (("store",), block.store)]:
        if name not in names:
            yield tail, _no_store(name, names)


@check(Rule.UNKNOWN_NAME, Root, level=Level.ERROR)
def _parts_of_composed_stores(root: Root) -> Found:
    declared = {store.name: store.config for store in root.stores}
    for store in root.stores if not root.path else ():
        for index, name in enumerate(getattr(store.config, "composes", ())):
            where = (*store.place.location, "config", "stores", index)
            if name not in declared:
                yield where, _no_store(name, declared.keys() - {store.name})
            elif getattr(declared[name], "composes", ()):
                yield where, f"{quoted(name)} is itself made of other stores; name those"
            elif getattr(declared[name], "memory_path", "auto") is None:
                yield (
                    where,
                    f"{quoted(name)} keeps its items for this process only: give it a `memory_path`",
                )


@check(Rule.INVALID_VALUE, Root, level=Level.ERROR)
def _stores_that_keep_no_records(root: Root) -> Found:
    if (block := root.recording) is None:
        return
    for index, rule in enumerate(block.copies):
        if rule.into == block.store:
            yield ("copies", index, "into"), f"the records are in {quoted(rule.into)} already; name another store"
    for store in root.stores:
        if store.name == block.store and not getattr(store.config, "keeps_records", False):
            yield ("store",), f"stores of type {store.type!r} keep no records; name one of type 'conversation'"


@check(Rule.INVALID_VALUE, Root, level=Level.ERROR)
def _stores_without_versions(root: Root) -> Found:
    """Report the written stores that cannot hold what is not committed yet."""
    for store in written_stores(root.stores, root.nodes) if root.transaction else ():
        location = getattr(store.config, "memory_path", None) or ""
        if not getattr(store.config, "keeps_versions", False):
            reason = f"stores of the type {store.type!r} cannot hold what is not committed yet"
        elif location.endswith(".json"):
            reason = f"the JSON file {location} cannot hold what is not committed yet; a path that ends with .db can"
        else:
            continue
        yield (), f"the store {store.name!r} cannot take part in a transaction: {reason}"


@check(Rule.PLAIN_FILE, Root, level=Level.ERROR)
def _plain_files_of_an_encrypted_workflow(root: Root) -> Found:
    """Report what would be written in plain beside encrypted stores, and stores that do not share their key."""
    blocks = {store.name: block for store in root.stores if (block := getattr(store.config, "encryption", None))}
    if not blocks:
        return
    first = next(iter(blocks))
    if root.path:
        return
    for store in root.stores:
        if blocks.get(store.name) == blocks[first]:
            continue
        where = (*store.place.location, "config")
        if store.name in blocks:
            yield (*where, "encryption"), f"the files of a session have one key: name that of {quoted(first)}"
        elif "memory_path" not in type(store.config).model_fields:
            yield where, f"stores of the type {store.type!r} keep files that are not encrypted as {quoted(first)} is"
        elif getattr(store.config, "memory_path", None) and not getattr(store.config, "sends_to", ()):
            yield where, f"this store's file is plain, and that of {quoted(first)} is encrypted: give both `encryption`"


@check(Rule.UNKNOWN_NAME, Root)
def _unknown_agents(root: Root) -> Found:
    """Warn about agents that no node is: only calls that are recorded from Python could be theirs."""
    known = frozenset(_agent_names(root.nodes))
    copies = enumerate(root.recording.copies if root.recording else ())
    named = [(("copies", at, "agents", index), name) for at, rule in copies for index, name in enumerate(rule.agents)]
    for where, name in [*named, *(() if root.path else _viewed(root.nodes))]:
        # A variable that nothing sets has its own warning.
        if name not in known and not any(map(has_placeholder, (name, *known))):
            yield (
                where,
                f"no agent is named {quoted(name)}{did_you_mean(name, known)} Agents: {choices(sorted(known))}.",
            )


def _agent_names(nodes: Iterable[NodeConfig]) -> Iterator[str]:
    """Return the names by which stores know the agents, those of subgraphs included."""
    for node in nodes:
        if node.config is not None:
            yield node.config.agent or node.id
        elif isinstance(node.settings, Subgraph):
            yield from _agent_names(node.settings.nodes)


def _viewed(nodes: Iterable[NodeConfig]) -> Iterator[tuple[DocumentPath, str]]:
    """Return the agents whose interactions others see, with the place of each in this document."""
    for node in nodes:
        if node.config is not None:
            for index, entry in enumerate(node.config.memories):
                if entry.view is not None and entry.view.agent_id is not None:
                    yield (*node.place.location, "config", "memories", index, "view", "agent_id"), entry.view.agent_id
        elif isinstance(node.settings, Subgraph) and node.settings.file is None:
            yield from _viewed(node.settings.nodes)


# Files and folders.


@check(Rule.MISSING_FILE, Store)
def _sources_of_devall(store: Store) -> Found:
    """Warn at the start where files are looked for: DevAll starts at the working directory."""
    return sources_without_files(store) if store.path[:1] == ("graph",) else iter(())


def sources_without_files(store: Store) -> Found:
    """Report the sources of a store that do not exist or are empty."""
    folder = base_dir_of(store.declaration, store.inspection.base_dir)
    for index, path in enumerate(source_paths(store.declaration)):
        place = (folder / path).resolve()
        if has_magic(path):
            continue
        if not place.exists():
            other = (pathlib.Path(path)).resolve()
            nor = f" and no {str(other)!r}" if store.path[:1] == ("graph",) and other != place else ""
            yield ("file_sources", index, "path"), f"there is no {str(place)!r}{nor}: nothing is indexed of it"
        elif place.is_dir() and not any(place.iterdir()):
            yield ("file_sources", index, "path"), f"the folder {str(place)!r} is empty: nothing is indexed of it"


@check(Rule.MISSING_FILE, Store)
def _file_that_devall_has(store: Store) -> Found:
    """Warn where DevAll would find a file in the working directory and devmem starts a new one beside the workflow."""
    if store.path[:1] != ("graph",):
        return
    for key in ("memory_path", "index_path"):
        written = getattr(store.declaration.config, key, None)
        if written is None or str(written) == "auto":
            continue
        folder = base_dir_of(store.declaration, store.inspection.base_dir)
        ours, theirs = folder / str(written), pathlib.Path(str(written))
        if not theirs.is_absolute() and theirs.exists() and not ours.exists():
            message = (
                f"paths start at the workflow's folder here, so this is {str(ours)!r}, which does not exist; "
                f"DevAll takes {str(theirs.resolve())!r}, which does"
            )
            yield (key,), message


def unwritable_file(store: Store) -> Found:
    """Report the paths of a store where neither the file nor, if it is missing, its folder can be written."""
    for key in ("memory_path", "index_path"):
        written = getattr(store.declaration.config, key, None)
        if not isinstance(written, str) or written == "auto" or "://" in written or has_placeholder(written):
            continue
        file = base_dir_of(store.declaration, store.inspection.base_dir) / expanded(written)
        there = next((one for one in (file, *file.parents) if one.exists()), file)
        if file.is_dir():
            yield (key,), f"{str(file)!r} is a folder; name a file in it"
        elif there != file and not there.is_dir():
            yield (key,), f"{str(file)!r} cannot be written: {str(there)!r} is not a folder"
        elif not os.access(there, os.W_OK):
            yield (key,), f"{str(file)!r} cannot be written: {str(there)!r} does not allow it"


@check(Rule.UNWRITABLE_FILE, Store)
def _json_file_that_cannot_be_written(store: Store) -> Found:
    """Warn at the start: a JSON file is written at the end, when it is too late."""
    path = getattr(store.declaration.config, "memory_path", None)
    return unwritable_file(store) if str(path).endswith(".json") else iter(())
