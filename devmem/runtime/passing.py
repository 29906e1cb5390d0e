"""Nodes that are no agents: they say a fixed text, or pass on what they get."""

from __future__ import annotations

from collections.abc import Sequence

from devmem.config.node_types import LiteralConfig, PassthroughConfig
from devmem.config.workflow import NodeConfig
from devmem.llm import Quotation
from devmem.messages import Message, Role
from devmem.runtime.results import NodeResult


def pass_on(node: NodeConfig, inputs: Sequence[Message]) -> NodeResult:
    """Return what a node that is no agent says: a literal its text, any other its inputs."""
    settings = node.settings
    if isinstance(settings, LiteralConfig):
        said = Message(role=Role(settings.role), content=settings.content, source=node.id)
        return NodeResult(node=node.id, text=said.text(), messages=(said,))
    is_passthrough = node.type == "passthrough"
    passthrough = settings if isinstance(settings, PassthroughConfig) else PassthroughConfig()
    if is_passthrough and passthrough.only_last_message:
        inputs = inputs[-1:]
    text = "\n\n".join(message.text() for message in inputs)
    quotations = [found for each in inputs if (found := Quotation.in_message(each))]
    quotation = Quotation.joined(quotations) if quotations and len(quotations) == len(inputs) else None
    messages = tuple(inputs) if is_passthrough else ()
    return NodeResult(node=node.id, text=text, quoted=quotation is not None, quotation=quotation, messages=messages)
