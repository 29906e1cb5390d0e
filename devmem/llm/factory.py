"""Opening chat models by the name of their provider."""

from __future__ import annotations

from pydantic import SecretStr

from devmem.config.chat import ChatConfig
from devmem.errors import ChatModelError
from devmem.llm.base import ChatModel
from devmem.llm.extractive import ExtractiveChat
from devmem.llm.openai_chat import MAX_RETRIES, TIMEOUT, OpenAIChat

PROVIDERS = ("extractive", "openai")


def open_chat_model(
    provider: str,
    *,
    model: str | None = None,
    api_key: SecretStr | None = None,
    base_url: str | None = None,
    timeout: float = TIMEOUT,
    max_retries: int = MAX_RETRIES,
) -> ChatModel:
    """Open a chat model; an unknown provider with a `base_url` is taken to be OpenAI-compatible.

    `timeout` (seconds for one request) and `max_retries` are for services.

    Raises:
        ChatModelError: the provider is not known, or the model has no name or no key.
        MissingExtraError: the provider's package is not installed.
    """
    if provider == "extractive":
        return ExtractiveChat()
    if provider != "openai" and base_url is None:
        raise ChatModelError(
            f"unknown chat provider {provider!r}. Possible: {', '.join(PROVIDERS)}; a service that speaks OpenAI's "
            "protocol works under any name with its `base_url`."
        )
    if not model:
        raise ChatModelError(f"provider {provider!r} needs the model's name: set `name` (or `model`).")
    return OpenAIChat(model, api_key=api_key, base_url=base_url, timeout=timeout, max_retries=max_retries)


def open_chat(config: ChatConfig) -> ChatModel:
    """Open the chat model that a store's `llm:` block names; raises what `open_chat_model` raises."""
    return open_chat_model(config.provider, model=config.model, api_key=config.api_key, base_url=config.base_url)
