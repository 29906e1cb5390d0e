"""Keys of devmem in an agent's `memories[]`, which ChatDev's configuration class passes over."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from entity.configs.base import ConfigError, ConfigFieldSpec, extend_path
from entity.configs.node.memory import MemoryAttachmentConfig
from pydantic import ValidationError

from devmem import Stage
from devmem.adapters.chatdev.forms import specs
from devmem.adapters.chatdev.settings import ATTACHMENT_KEYS
from devmem.config import Attachment

_OWN: Final = frozenset(each.name for each in fields(MemoryAttachmentConfig))


def reading_keys(read: Callable[..., MemoryAttachmentConfig]) -> Any:  # noqa: ANN401 - a class method
    """Return ChatDev's `from_dict` of attachments, which keeps the keys of devmem beside ChatDev's own."""

    @functools.wraps(read)
    def from_dict(_cls: type[MemoryAttachmentConfig], data: Any, *, path: str) -> MemoryAttachmentConfig:  # noqa: ANN401 - the YAML
        config = read(data, path=path)
        given = {key: value for key, value in data.items() if key not in _OWN}
        _check(config.name, given, path)
        setattr(config, ATTACHMENT_KEYS, given)
        return config

    return classmethod(from_dict)


def _check(name: str, given: Mapping[str, Any], path: str) -> None:
    """Check the keys of devmem.

    Raises:
        ConfigError: one is unknown, has a value that it cannot have, or cannot be kept by ChatDev.
    """
    try:
        attachment = Attachment.model_validate({**given, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        known = ", ".join(sorted({*Attachment.model_fields} | _OWN - {"path"}))
        text = f"unknown key; there are {known}" if first["type"] == "extra_forbidden" else first["msg"]
        raise ConfigError(text, extend_path(path, place)) from error
    if attachment.write_stage != (Stage.FINISHED,):
        # Any other would never be written, without a word.
        text = "ChatDev writes when a node has finished, at no other stage"
        raise ConfigError(text, extend_path(path, "write_stage"))


def with_keys(own: Mapping[str, ConfigFieldSpec]) -> dict[str, ConfigFieldSpec]:
    """Return the fields of ChatDev's form with those of devmem's keys behind them."""
    return {**own, **{name: spec for name, spec in specs(Attachment).items() if name not in own}}
