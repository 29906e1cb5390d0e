"""Check the names of agents whose records are copied or seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from devmem.config.conversation import ConversationRecording
from devmem.config.document import Path
from devmem.config.placeholders import has_placeholder
from devmem.config.report import Report
from devmem.config.rules import Rule
from devmem.config.wording import choices, did_you_mean, quoted
from devmem.config.workflow import NodeConfig, Subgraph


def warn_about_agents(
    report: Report, nodes: Iterable[NodeConfig], recording: ConversationRecording | None, path: Path
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


def _viewed(nodes: Iterable[NodeConfig]) -> Iterator[tuple[Path, str]]:
    """Return the agents whose interactions others see, with the place of each in this document."""
    for node in nodes:
        if node.config is not None:
            for index, entry in enumerate(node.config.memories):
                if entry.view is not None and entry.view.agent_id is not None:
                    yield (*node.place.location, "config", "memories", index, "view", "agent_id"), entry.view.agent_id
        elif isinstance(node.settings, Subgraph) and node.settings.file is None:
            yield from _viewed(node.settings.nodes)


def _check(report: Report, name: str, path: Path, known: Collection[str]) -> None:
    # A variable that nothing sets has a warning of its own.
    if name not in known and not any(map(has_placeholder, (name, *known))):
        message = f"no agent is named {quoted(name)}{did_you_mean(name, known)} Agents: {choices(sorted(known))}."
        report.warn(path, message, Rule.UNKNOWN_NAME)
