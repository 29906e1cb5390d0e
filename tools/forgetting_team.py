"""A workflow with every store type that needs no service, filled for many users, each with words of their own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope, Workflow, load_workflow, open_stores
from devmem.messages import AttachmentRef, MessageBlock
from devmem.model.interactions import Interaction, InteractionKind, Participant, ParticipantType
from devmem.recording import InteractionLog
from devmem.recording.forwarder import records_in
from devmem.storage import STATE_FILE, Outbox
from devmem.storage.pending import WRITE
from devmem.stores import MemoryBase, Provenance, SnapshotBlock, SourceKind
from devmem.stores.abilities import versions_of
from devmem.workflow.rescue import dump_write, read_write
from devmem.workflow.stores import records_of, session_folder

WORDS: Final = 50
"""Number of words that only one user has."""
_ITEM_STORES: Final = ("notes", "board", "role", "long", "brain")
_WORKFLOW: Final = """\
memory:
  - {{name: notes, type: simple, config: {{memory_path: "{notes}", durability: normal}}}}
  - {{name: copies, type: simple, config: {{memory_path: "{copies}", durability: normal}}}}
  - {{name: board, type: blackboard, config: {{memory_path: "{board}", durability: normal, max_items: 1000000}}}}
  - {{name: role, type: role_zero, config: {{memory_path: "{role}", durability: normal}}}}
  - {{name: long, type: long_term, config: {{memory_path: "{long}", durability: normal}}}}
  - {{name: brain, type: brain, config: {{memory_path: "{brain}", durability: normal, {short}}}}}
  - {{name: talk, type: conversation, config: {{memory_path: "{talk}", durability: normal, summary: {{keep: 1}}}}}}
  - {{name: docs, type: file, config: {{index_path: "{docs}", file_sources: [{{path: docs}}]}}}}
"""
_STORES: Final = (*_ITEM_STORES, "copies", "talk", "docs")
_PARTS: Final = 14
"""Number of texts over which a user's words are spread."""


def words_of_user(user: str) -> list[str]:
    """Return the words of a user, which nobody else has."""
    return [f"{hashlib.sha256(f'{user}/{n}'.encode()).hexdigest()[:12]}w{n:02}" for n in range(WORDS)]


def make_team(folder: Path, url: str | None = None) -> Workflow:
    """Write the workflow, and the documents that its `file` store indexes, into a folder.

    Args:
        folder: is created.
        url: a PostgreSQL database that the stores are in; None keeps them in files of the folder.
    """
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "guide.md").write_text("# Guide\n\nThe office opens at nine.\n", encoding="utf-8")
    write_team(folder, url)
    return load_workflow(folder / "team.yaml")


def write_team(folder: Path, url: str | None = None) -> None:
    """Write the workflow's file alone, as when its stores have moved to another place."""
    places = {name: f"memory/{name}.db" if url is None else f"{url}&store={name}" for name in _STORES}
    if url is None:
        places["brain"] = "auto"
    text = _WORKFLOW.format(**places, short="keep_messages: 1, max_messages: 2")
    (folder / "team.yaml").write_text(text, encoding="utf-8")


def fill_team(workflow: Workflow, users: Sequence[str], *, rich: Sequence[str] = ()) -> None:
    """Fill every store for users.

    Args:
        workflow: of `make_team`.
        users: each gets items, records, summaries, a copy and a state in every store.
        rich: those of them that get a large attachment, a pending run, and writes that wait for a store too.
    """
    with open_stores(workflow) as stores:
        for name in _ITEM_STORES:
            stores[name].add([item for user in users for item in _items(name, user)])
        stores["copies"].add([item for user in users for item in _copies(user)])
        talk = stores["talk"]
        assert isinstance(talk, InteractionLog)
        talk.record([one for user in users for one in _records(user, 4)])
        talk.compress()
        for user in users:
            stores["brain"].update(_payload(user, _texts(user)[10]))
            stores["brain"].update(_payload(user, _texts(user)[11]))
        for user in rich:
            _fill_richly(stores, user)
    for user in rich:
        _leave_waiting(workflow, user)


def _texts(user: str) -> list[str]:
    """Return the texts of a user; together they have all of the user's words."""
    words = words_of_user(user)
    return [f"{' '.join(words[part::_PARTS])} is what was said of number {part}." for part in range(_PARTS)]


def _items(store: str, user: str) -> Iterator[MemoryItem]:
    """Return the items of a user in one store, which has two of the texts."""
    at = 2 * _ITEM_STORES.index(store)
    for part in (at, at + 1):
        yield MemoryItem(
            id=f"{store}-{user}-{part}",
            content_summary=_texts(user)[part],
            scope=Scope(user=user, agent="writer", session=f"s-{user}", conversation=f"c-{user}"),
            provenance=Provenance(kind=SourceKind.USER, name=user),
        )


def _copies(user: str) -> Iterator[MemoryItem]:
    """Return a copy of an item, and a summary of one that does not name its user."""
    first, second = _items("notes", user)
    yield first
    yield MemoryItem(
        id=hashlib.sha256(second.id.encode()).hexdigest()[:32],
        content_summary=f"A summary: {_texts(user)[1]}",
        provenance=Provenance(kind=SourceKind.SUMMARY, name="summarizer", parents=(second.id,)),
    )


def _records(user: str, count: int, *, first: int = 0) -> Iterator[Interaction]:
    person, agent = Participant(user, ParticipantType.USER), Participant("writer", ParticipantType.AGENT)
    for number in range(first, first + count):
        yield Interaction(
            id=f"{user}-record-{number}",
            conversation=f"c-{user}",
            trace=f"t-{user}",
            source=person if number % 2 == 0 else agent,
            target=agent if number % 2 == 0 else person,
            kind=InteractionKind.INPUT if number % 2 == 0 else InteractionKind.OUTPUT,
            content=_texts(user)[12 + number % 2],
            event_time=1_700_000_000.0 + number,
            pair_id=f"{user}-pair-{number // 2}",
            user=user,
        )


def _payload(user: str, text: str) -> MemoryWritePayload:
    return MemoryWritePayload(
        agent_role="writer",
        inputs_text=f"What is known? {text}",
        output_snapshot=MemoryContentSnapshot(text=text),
        source="writer",
        scope=Scope(user=user, conversation=f"c-{user}"),
    )


def _fill_richly(stores: Mapping[str, MemoryBase], user: str) -> None:
    """Add an older version, a deleted item and a large attachment of a user."""
    notes = stores["notes"]
    first, second = _items("notes", user)
    notes.add([replace(first, content_summary=f"Changed: {_texts(user)[2]}", content_hash="")])
    content = base64.b64encode((" ".join(words_of_user(user)) * 200).encode()).decode()
    attached = AttachmentRef(attachment_id=f"a-{user}", name="a.txt", data_uri=f"data:text/plain;base64,{content}")
    block = SnapshotBlock(block=MessageBlock(type="file", attachment=attached))
    attachment = MemoryContentSnapshot(text=_texts(user)[3], blocks=(block,))
    gone = replace(second, id=f"gone-{user}", content_summary=_texts(user)[4], content_hash="")
    notes.add([replace(second, input_snapshot=attachment, content_hash=""), gone])
    notes.delete(ids=[gone.id])


def _leave_waiting(workflow: Workflow, user: str) -> None:
    """Leave a pending run, unsaved writes and records behind, as processes do that died."""
    folder = session_folder(workflow)
    with open_stores(workflow) as stores:
        with closing(versions_of(stores["notes"]).run(f"run-{user}")) as view:
            view.add([replace(next(_items("notes", user)), id=f"pending-{user}", content_summary=_texts(user)[5])])
        file, name = records_of(stores["talk"], folder)
    with closing(Outbox(folder / STATE_FILE, dump=dump_write, load=read_write, kind=WRITE, place="notes")) as unsaved:
        unsaved.put({f"{user}-{each}": _payload(each, _texts(each)[6]) for each in (user, "nobody-else")})
    with closing(records_in(file, name)) as records:
        records.put({record.id: record for record in _records(user, 2, first=10)})


def left_in_files(folder: Path, words: Sequence[str]) -> dict[str, list[str]]:
    """Return which words are in the raw files of a folder, by the file's path within it; nothing of other files."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            content = file.read_bytes()
            if here := [word for word in words if word.encode() in content]:
                found[str(file.relative_to(folder))] = here
    return found
