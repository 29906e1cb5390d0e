"""The formats that are one JSON document, or a list of objects that may also stand on lines of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeGuard

from devmem.errors import DataFileError
from devmem.transfer.importing.chat_messages import (
    count_langchain,
    count_listed,
    is_langchain,
    is_openai_example,
    is_openai_messages,
    is_sharegpt,
    read_langchain,
    read_openai_messages,
    read_sharegpt,
)
from devmem.transfer.importing.chatgpt import is_chatgpt, read_chatgpt
from devmem.transfer.importing.claude import is_claude, read_claude
from devmem.transfer.importing.exports import count_exported, is_export, read_export
from devmem.transfer.importing.file_format import FileFormat
from devmem.transfer.importing.locomo import count_turns, is_locomo, read_locomo
from devmem.transfer.importing.longmemeval import count_turns as count_turns_of_questions
from devmem.transfer.importing.longmemeval import is_longmemeval, read_longmemeval
from devmem.transfer.importing.mem0_memories import count_mem0, is_mem0, read_mem0
from devmem.transfer.importing.metagpt import count_messages, is_metagpt, read_metagpt
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.prose import is_text_list, read_text_list
from devmem.transfer.importing.records import Record, read_record
from devmem.transfer.importing.slack import is_slack, read_slack
from devmem.transfer.importing.units import count_units, is_units, read_units


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFormat:
    """A format of JSON documents."""

    name: FileFormat
    detects: Callable[[object], bool]
    """Whether a document has it."""
    count: Callable[[object], int]
    """Number of records, or of messages where some of them make none."""
    read: Callable[[object, Origin], Iterator[Record]]
    is_line: Callable[[object], bool] | None = None
    """Whether an object on a line of its own has it; None where the format has no lines."""


def find_document(document: object, origin: Origin) -> DocumentFormat:
    """Return the format of a document.

    Raises:
        DataFileError: it has no known one.
    """
    found = next((one for one in DOCUMENTS.values() if one.detects(document)), None)
    if found is None:
        raise DataFileError(origin.path, f"of no known format ({known_formats()}): the document is {_looks(document)}")
    return found


def known_formats() -> str:
    """Return the names of all formats, for an error."""
    return ", ".join(one.value for one in FileFormat if one is not FileFormat.AUTO)


def _elements(document: object) -> list[object]:
    return document if isinstance(document, list) else [document]


def _of_elements(
    name: FileFormat,
    is_one: Callable[[object], bool],
    count: Callable[[list[object]], int],
    read: Callable[[list[object], Origin], Iterator[Record]],
) -> DocumentFormat:
    """Return a format whose documents are lists of one kind of objects, or one such object."""
    return DocumentFormat(
        name=name,
        detects=lambda document: is_one(next(iter(_elements(document)), None)),
        count=lambda document: count(_elements(document)),
        read=lambda document, origin: read(_elements(document), origin),
        is_line=is_one,
    )


def _is_file_index(document: object) -> TypeGuard[Mapping[str, list[object]]]:
    """Whether a document is the index of DevAll's file memory, whose chunks are items."""
    return isinstance(document, Mapping) and "file_metadata" in document and isinstance(document.get("contents"), list)


def _is_list_of_records(document: object) -> bool:
    return isinstance(document, list) and (not document or isinstance(document[0], Mapping))


def _read_records(document: object, origin: Origin) -> Iterator[Record]:
    if _is_file_index(document):
        document, origin = document["contents"], replace(origin, entry="contents")
    for at, raw in enumerate(_elements(document)):
        yield read_record(raw, replace(origin, entry=f"{origin.entry}[{at}]"))


def _count_nodes(conversations: list[object]) -> int:
    mappings = (raw.get("mapping") for raw in conversations if isinstance(raw, Mapping))
    return sum(len(nodes) for nodes in mappings if isinstance(nodes, Mapping))


def _count_chat_messages(conversations: list[object]) -> int:
    lists = (raw.get("chat_messages") for raw in conversations if isinstance(raw, Mapping))
    return sum(len(messages) for messages in lists if isinstance(messages, list))


_FORMATS: Final = (
    DocumentFormat(name=FileFormat.EXPORT, detects=is_export, count=count_exported, read=read_export),
    _of_elements(FileFormat.LOCOMO, is_locomo, count_turns, read_locomo),
    _of_elements(FileFormat.LONGMEMEVAL, is_longmemeval, count_turns_of_questions, read_longmemeval),
    _of_elements(FileFormat.UNITS, is_units, count_units, read_units),
    DocumentFormat(name=FileFormat.METAGPT, detects=is_metagpt, count=count_messages, read=read_metagpt),
    _of_elements(FileFormat.CHATGPT, is_chatgpt, _count_nodes, read_chatgpt),
    _of_elements(FileFormat.CLAUDE, is_claude, _count_chat_messages, read_claude),
    _of_elements(FileFormat.SLACK, is_slack, len, read_slack),
    DocumentFormat(name=FileFormat.LANGCHAIN, detects=is_langchain, count=count_langchain, read=read_langchain),
    DocumentFormat(
        name=FileFormat.MEM0,
        detects=is_mem0,
        count=count_mem0,
        read=read_mem0,
        is_line=lambda raw: is_mem0([raw]),
    ),
    _of_elements(FileFormat.SHAREGPT, is_sharegpt, count_listed, read_sharegpt),
    DocumentFormat(
        name=FileFormat.OPENAI,
        detects=lambda document: (
            is_openai_messages(document) or is_openai_example(next(iter(_elements(document)), None))
        ),
        count=lambda document: count_listed(_elements(document)),
        read=lambda document, origin: read_openai_messages(_elements(document), origin),
        is_line=is_openai_example,
    ),
    DocumentFormat(
        name=FileFormat.TEXTS,
        detects=is_text_list,
        count=lambda document: len(_elements(document)),
        read=lambda document, origin: read_text_list(_elements(document), origin),
    ),
    DocumentFormat(
        name=FileFormat.DEVALL,
        detects=lambda document: _is_file_index(document) or _is_list_of_records(document),
        count=lambda document: len(document["contents"] if _is_file_index(document) else _elements(document)),
        read=_read_records,
    ),
)
DOCUMENTS: Final[Mapping[FileFormat, DocumentFormat]] = {one.name: one for one in _FORMATS}
"""Formats of documents by name, in the order in which they are tried."""


def _looks(document: object) -> str:
    if isinstance(document, list):
        return f"a list whose first element is of type {type(document[0]).__name__}"
    if isinstance(document, Mapping):
        return f"an object with the keys {', '.join(repr(str(key)[:40]) for key in list(document)[:8]) or 'none'}"
    return f"of type {type(document).__name__}"
