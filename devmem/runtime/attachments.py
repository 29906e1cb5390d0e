"""Files that are given to a workflow with its input."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from pathlib import Path
from typing import Final
from uuid import uuid4

from devmem.model.blocks import AttachmentRef, MessageBlock

_TYPES: Final = frozenset({"image", "audio", "video"})


def attached_file(path: Path) -> MessageBlock:
    """Read a file into a block of a message: an image, sound, a video, or else a file.

    Raises:
        OSError: the file cannot be read.
    """
    content = path.read_bytes()
    mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    kind = mime.partition("/")[0]
    return MessageBlock(
        type=kind if kind in _TYPES else "file",
        attachment=AttachmentRef(
            attachment_id=uuid4().hex,
            mime_type=mime,
            name=path.name,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            data_uri=f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}",
        ),
    )
