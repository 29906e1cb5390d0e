"""Memories as resources: each has a URI, and clients page through them."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from mcp import MCPError, types

from devmem.adapters.mcp.answers import passage_of
from devmem.memory import Memory
from devmem.stores import one_line, shorten

_PREFIX: Final = "memory://items/"
_PAGE: Final = 50
_TITLE: Final = 60
"""Characters of a memory's text that name it in a list."""


def uri_of(item_id: str) -> str:
    """Return the URI of a memory."""
    return _PREFIX + quote(item_id, safe="")


def list_resources(memory: Memory, cursor: str | None) -> types.ListResourcesResult:
    """Return a page of the memories, newest first.

    Raises:
        MCPError: the cursor is none that this server handed out.
    """
    start = _offset(cursor)
    records = memory.recent(_PAGE + 1, offset=start)
    resources = []
    for record in records[:_PAGE]:
        passage = passage_of(record)
        source = f", from {passage.source}" if passage.source else ""
        resources.append(
            types.Resource(
                uri=uri_of(record.id),
                name=record.id,
                title=shorten(one_line(record.text), _TITLE),
                description=one_line(f"{passage.date[:10]}{source}"),
                mime_type="text/plain",
                annotations=types.Annotations(last_modified=passage.date),
            )
        )
    more = str(start + _PAGE) if len(records) > _PAGE else None
    return types.ListResourcesResult(resources=resources, next_cursor=more)


def list_templates() -> types.ListResourceTemplatesResult:
    """Return the form of the URIs."""
    template = types.ResourceTemplate(
        uri_template=_PREFIX + "{id}",
        name="memory",
        title="A memory",
        description="One memory by its id, as the tools `recall` and `list` show it.",
        mime_type="text/plain",
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


def read_resource(memory: Memory, uri: str) -> types.ReadResourceResult:
    """Return a memory's whole text.

    Raises:
        MCPError: there is no memory of this URI within reach.
    """
    record = memory.get(unquote(uri.removeprefix(_PREFIX))) if uri.startswith(_PREFIX) else None
    if record is None:
        raise MCPError(types.INVALID_PARAMS, f"there is no memory {uri!r}", {"uri": uri})
    facts = passage_of(record).model_dump(mode="json", exclude={"text"}, exclude_none=True)
    contents = types.TextResourceContents(
        uri=uri, mime_type="text/plain", text=record.text, _meta={"devmem/memory": facts}
    )
    return types.ReadResourceResult(contents=[contents])


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > 9:
        raise MCPError(types.INVALID_PARAMS, f"{cursor!r} is no cursor of this server", {"cursor": cursor})
    return int(cursor)
