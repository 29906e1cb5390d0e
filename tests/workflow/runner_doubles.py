"""Workflows from a few lines of YAML, and chat models whose answers a test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent, indent

from devmem import Workflow, load_workflow
from devmem.config import AgentConfig, NodeConfig
from devmem.errors import ChatModelError
from devmem.stores import ChatModel, ChatReply, ChatRequest


class ScriptedChat:
    """Returns its answers in order, the last one from then on, and records its requests; an error is raised."""

    def __init__(self, *answers: str | ChatReply | Exception) -> None:
        self.answers = list(answers or ("noted",))
        self.requests: list[ChatRequest] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ChatReply) else ChatReply(text=answer)

    def heard(self, at: int = 0) -> list[tuple[str, str]]:
        """Return role and text of the messages of one request."""
        return [(message.role.value, message.content) for message in self.requests[at].messages]

    def recalled(self, at: int = 0) -> list[str]:
        """Return the texts that memory found for one request."""
        return [hit.item.content_summary for hit in self.requests[at].recalled]


DOWN = ChatModelError("the chat model of this test is down")


class ChatsByNode:
    """A chat model of its own for every node, which answers `NODE says so` unless it was told otherwise."""

    def __init__(self, **chats: ScriptedChat) -> None:
        self.chats = chats
        self.order: list[str] = []

    def __call__(self, node: NodeConfig, config: AgentConfig) -> ChatModel:
        self.order.append(node.id)
        return self.chats.setdefault(node.id, ScriptedChat(f"{node.id} says so"))


WriteWorkflow = Callable[..., Workflow]


def stores_yaml(names: Sequence[str] = ("notes",), path: str = "memory/{}.db", kind: str = "simple") -> str:
    lines = [f"- {{name: {name}, type: {kind}, config: {{memory_path: '{path.format(name)}'}}}}" for name in names]
    return "memory:\n" + indent("\n".join(lines), "  ")


def agent_yaml(name: str, memories: str = "", **more: str) -> str:
    settings = "".join(f"\n      {key}: {value}" for key, value in more.items())
    return f"  - id: {name}\n    type: agent\n    config:\n      memories: [{memories}]{settings}"


def write_workflow(folder: Path, *parts: str) -> Workflow:
    """Write a workflow file into the folder and read it."""
    file = folder / "workflow.yaml"
    file.write_text("\n".join(dedent(part) for part in parts), encoding="utf-8")
    return load_workflow(file, environ={})
