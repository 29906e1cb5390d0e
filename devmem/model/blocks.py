"""The multimodal blocks of messages.

The block and attachment fields are those of DevAll's (ChatDev 2) message blocks, so that what it stored reads in
unchanged; a key that is not known here is kept in `data` or `metadata`, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated

from pydantic import BeforeValidator, JsonValue


def keep_unknown(raw: object, *, known: frozenset[str], into: str) -> object:
    """Move the keys that a record does not know into its open mapping `into`; other values pass unchanged."""
    if not isinstance(raw, Mapping) or not (unknown := raw.keys() - known):
        return raw
    kept = {key: value for key, value in raw.items() if key in known}
    extra = {key: raw[key] for key in raw if key in unknown}
    return {**kept, into: {**extra, **dict(raw.get(into) or {})}}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentRef:
    """A file that belongs to a message: inline, on disk, or at a provider."""

    attachment_id: str
    mime_type: str | None = None
    name: str | None = None
    size: int | None = None
    """Bytes."""
    sha256: str | None = None
    local_path: str | None = None
    remote_file_id: str | None = None
    data_uri: str | None = None
    """`data:MIME;base64,...`; None when the bytes are in `local_path` or at the provider."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


_ATTACHMENT_KEYS = frozenset(f.name for f in fields(AttachmentRef))
_KeepAttachment = BeforeValidator(partial(keep_unknown, known=_ATTACHMENT_KEYS, into="metadata"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBlock:
    """One part of a message's content."""

    type: str = "text"
    """`text`, `image`, `audio`, `video`, `file` or `data`; a host's own types are kept as they are."""
    text: str | None = None
    attachment: Annotated[AttachmentRef, _KeepAttachment] | None = None
    data: Mapping[str, JsonValue] = field(default_factory=dict)

    def describe(self) -> str:
        """Return the text, or a note in brackets that names the block's type."""
        if self.text is not None:
            return self.text
        if self.attachment is not None:
            return f"[{self.type} attachment: {self.attachment.name or self.attachment.attachment_id}]"
        return f"[{self.type} block]"


_BLOCK_KEYS = frozenset(f.name for f in fields(MessageBlock))
KeepBlock = BeforeValidator(partial(keep_unknown, known=_BLOCK_KEYS, into="data"))
