"""Checks of attachments that need their store and their node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from devmem.config.agent import AgentConfig
from devmem.config.attachment import Attachment
from devmem.config.document import Path
from devmem.config.placeholders import Placeholders
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.store import StoreDeclaration
from devmem.config.wording import choices, did_you_mean, quoted
from devmem.config.workflow import NodeConfig, unset_message
from devmem.model.stages import RETRIEVING, Stage


def check_attachments(
    report: Report, memories: object, path: Path, declared: Collection[str], placeholders: Placeholders
) -> None:
    """Report attachments of stores that nobody declared, and stores attached twice; `memories` may be anything."""
    seen: dict[str, Path] = {}
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
