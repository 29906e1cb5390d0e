"""Prompts that a person chooses: to start from what is known, and to keep what was found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcp import MCPError, types

from devmem.adapters.mcp.answers import passage_of, passages_answer
from devmem.memory import Memory

_RECALLED: Final = 10

_ABOUT: Final = types.Prompt(
    name="about",
    title="What is known about ...",
    description="Puts what is remembered about a topic before the conversation.",
    arguments=[types.PromptArgument(name="topic", description="A topic or a question.", required=True)],
)
_KEEP: Final = types.Prompt(
    name="keep",
    title="Keep what matters",
    description="Asks for the conversation's lasting facts and decisions to be stored in memory.",
)


def list_prompts(*, read_only: bool) -> types.ListPromptsResult:
    """Return the prompts; of a server that is read-only those that store nothing."""
    return types.ListPromptsResult(prompts=[_ABOUT] if read_only else [_ABOUT, _KEEP])


def get_prompt(
    memory: Memory, name: str, arguments: Mapping[str, str], budget: int, *, read_only: bool
) -> types.GetPromptResult:
    """Return a prompt with what it recalls, within a budget of tokens.

    Raises:
        MCPError: there is no such prompt, or an argument is missing.
    """
    if name == _ABOUT.name:
        return _result(_ABOUT, _about(memory, arguments.get("topic", ""), budget))
    if name == _KEEP.name and not read_only:
        return _result(_KEEP, _keep())
    raise MCPError(types.INVALID_PARAMS, f"there is no prompt {name!r}")


def _result(prompt: types.Prompt, text: str) -> types.GetPromptResult:
    message = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=prompt.description, messages=[message])


def _about(memory: Memory, topic: str, budget: int) -> str:
    if not topic.strip():
        raise MCPError(types.INVALID_PARAMS, "the prompt `about` needs the argument `topic`")
    hits = memory.search(topic, limit=_RECALLED)
    found = passages_answer([passage_of(hit) for hit in hits], budget=budget, none="Nothing is remembered about it.")
    return f"This is what is remembered about {topic.strip()!r}.\n\n{found.text}\n\nTake it into account from here on."


def _keep() -> str:
    return (
        "Go through our conversation and pick what should be known in later ones: facts, decisions, preferences, open "
        "questions. For each, call `recall` first; call `update` where an older memory is no longer true, `remember` "
        "where it is new, and nothing where it is known. One memory a fact, in words that make sense on their own, "
        "with the date where it matters."
    )
