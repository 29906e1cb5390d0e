"""Typed payloads of messages: models that the program registers, stored under a name and never imported by it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import PydanticSerializationError

from devmem.errors import MessageError

M = TypeVar("M", bound=type[BaseModel])

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadData:
    """A payload whose model this program does not have, kept as it was stored; it is stored again unchanged."""

    name: str
    value: JsonValue
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further keys that were stored with it, as MetaGPT's `module` and `mapping`."""
    problem: str = field(default="", compare=False)
    """Reason why it is not an instance of the registered model of this name."""


Payload = BaseModel | PayloadData
"""Types that `Message.instruct_content` may have."""


class PayloadRegistry:
    """Payload models by name; safe to use from several threads."""

    def __init__(self) -> None:
        self._models: dict[str, type[BaseModel]] = {}
        self._names: dict[type[BaseModel], str] = {}
        self._lock = threading.Lock()

    def register(self, model: type[BaseModel], name: str = "") -> None:
        """Register a model under a name, by default its class's, so that its payloads are read as its instances.

        Raises:
            MessageError: another model has this name.
        """
        name = name or model.__name__
        with self._lock:
            owner = self._models.setdefault(name, model)
            # A module that is reloaded defines its classes again.
            if _path(owner) != _path(model):
                raise MessageError(
                    f"payload {name!r} is {_path(owner)} already; register {_path(model)} under another name"
                )
            self._models[name] = model
            self._names[model] = name

    def model(self, name: str) -> type[BaseModel] | None:
        """Return the model that is registered under a name, None where there is none."""
        return self._models.get(name)

    def name_of(self, model: type[BaseModel]) -> str:
        """Return the name under which a model's payloads are stored, registered or not."""
        with self._lock:
            if model in self._names:
                return self._names[model]
            return _path(model) if model.__name__ in self._models else model.__name__


payloads: Final = PayloadRegistry()
"""The models that this program registered."""


def register_payload(name: str = "") -> Callable[[M], M]:
    """Return a decorator that registers a model, so that stored messages are read with its instances.

    Raises:
        MessageError: another model has this name.
    """

    def register(model: M) -> M:
        payloads.register(model, name)
        return model

    return register


def dump_payload(payload: Payload) -> dict[str, JsonValue]:
    """Return a payload's JSON form: `class`, `value`, and the further keys that were stored with it.

    Raises:
        MessageError: the model has no JSON form.
    """
    if isinstance(payload, PayloadData):
        return {**payload.extra, "class": payload.name, "value": payload.value}
    name = payloads.name_of(type(payload))
    try:
        return {"class": name, "value": payload.model_dump(mode="json", by_alias=True, round_trip=True)}
    except PydanticSerializationError as error:
        raise MessageError(f"the payload {name!r} cannot be written as JSON: {error}") from error


def load_payload(raw: Mapping[str, Any]) -> Payload:
    """Return the payload of a JSON form, devmem's or MetaGPT's, as an instance of the registered model or as data."""
    extra = {key: value for key, value in raw.items() if key not in {"class", "value"}}
    if not isinstance(raw.get("class"), str) or "value" not in raw:
        return PayloadData(name="", value=dict(raw))
    kept = PayloadData(name=raw["class"], value=raw["value"], extra=extra)
    model = payloads.model(kept.name)
    if model is None:
        return kept
    try:
        return model.model_validate(kept.value)
    except ValidationError as error:
        _LOG.warning("a payload %r is kept as data, it does not fit %s: %s", kept.name, _path(model), error)
        return PayloadData(name=kept.name, value=kept.value, extra=extra, problem=str(error))


def _path(model: type[BaseModel]) -> str:
    return f"{model.__module__}.{model.__qualname__}"
