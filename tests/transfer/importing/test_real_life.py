"""Exports of other programs: found by their content, read without prompts, thoughts and tools; others are refused."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem import MemoryItem, Scope
from devmem.errors import DataFileError
from devmem.stores import Provenance, SourceKind
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import open_data, read_records
from devmem.transfer.importing.prose import read_paragraphs
from devmem.transfer.importing.records import Position
from tests.generated import examples
from tests.transfer.reading import strict_items as items
from tests.transfer.reading import summaries

SAMPLES = Path(__file__).parents[2] / "data" / "imports"
LAUNCH = ["user: When is the launch?", "assistant: On June 2nd."]
SAID = {
    "chatgpt.json": (FileFormat.CHATGPT, ["user: [image]\nWhen is the launch?", "assistant: On June 2nd."]),
    "claude.json": (
        FileFormat.CLAUDE,
        ["user: Is the venue booked?\n[file: contract.pdf]", "assistant: Yes, the Old Mill."],
    ),
    "claude_code.jsonl": (
        FileFormat.CLAUDE_CODE,
        ["Fixing the build", "user: Why does the build fail?", "assistant: A header is missing."],
    ),
    "codex.jsonl": (FileFormat.CODEX, ["user: Rename the module.", "assistant: It is called notes now."]),
    "general/2024-05-01.json": (
        FileFormat.SLACK,
        [
            "ann: The launch moved, see the plan & ask @Ben Roy",
            "Ben Roy: To June 2nd?",
            "reminder: [file: plan.pdf]",
        ],
    ),
    "langchain.json": (FileFormat.LANGCHAIN, ["user: When is the launch?\n[image]", "assistant: On June 2nd."]),
    "langgraph.json": (FileFormat.LANGCHAIN, LAUNCH),
    "mem0.json": (FileFormat.MEM0, ["Prefers tea", "Lives in Bern"]),
    "sharegpt.json": (FileFormat.SHAREGPT, [*LAUNCH, "user: Thanks."]),
    "openai.jsonl": (
        FileFormat.OPENAI,
        ["user: When is the launch?\n[file: plan.pdf]", "assistant: On June 2nd.", "user: Thanks."],
    ),
    "texts.json": (FileFormat.TEXTS, ["Ann moved the launch to June 2nd.", "The venue is booked."]),
    "notes.txt": (FileFormat.TEXT, ["Ann moved the launch\nto June 2nd.", "The venue is booked."]),
    "notes.md": (
        FileFormat.MARKDOWN,
        ["It is on June 2nd.", "The Old Mill.", "```text\n# no heading\n\nstill the code\n```", "Ann and Ben."],
    ),
    "table.csv": (FileFormat.CSV, ["Ann: The launch moved,\nto June 2nd.", "Ben: The venue is booked."]),
    "table.tsv": (FileFormat.TSV, ["The venue is booked."]),
    "calendar.ics": (
        FileFormat.ICS,
        [
            "Launch, at last\nWhen: 2025-06-02 10:00 to 11:30 (Europe/Berlin)\nWhere: Old Mill; 2nd floor\n"
            "With: Ann Müller, Ben Roy, cem@example.org\nBring the flyers.\nDoors open at 9.",
            "Stand-up (cancelled)\nWhen: 2025-11-03 09:00 to 09:30 (UTC+01:00), every 2 weeks",
            "Trip to Bern\nWhen: 2025-08-01 to 2025-08-03 (all day)\nTrain at 7:30\nBring shoes.",
            "Call\nWhen: 2025-07-03 18:00 (Europe/Berlin)",
        ],
    ),
    "mails.mbox": (
        FileFormat.MBOX,
        [
            "Ann Müller: The launch moved to June 2nd, für alle Gäste.\n\nFrom now on Ben books the venue.",
            "ben@example.org: The Old Mill is booked for 80 guests.\n\nHow many seats do we need?",
            "Ann Müller: Hundert Plätze.\nDanke!",
            "Cem: They are printed.",
        ],
    ),
    "page.html": (
        FileFormat.HTML,
        [
            "It is on June 2nd, at the Old Mill.\nDoors open at 9.",
            "- Book the venue\n- Print the flyers",
            "Who | What\nAnn | Talk",
            "a = 1\n  b = 2",
            "Ship it.",
        ],
    ),
}


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SAID)
def test_what_was_said_is_read_and_nothing_else(name: str, tmp_path: Path) -> None:
    data_format, said = SAID[name]
    path = SAMPLES / name
    assert open_data(path).format is data_format
    found = items(path)
    assert [item.content_summary for item in found] == said
    assert {item.provenance for item in found} == {Provenance(kind=SourceKind.IMPORT, name=path.name)}
    assert {item.trust for item in found} == {0.6}
    packed = tmp_path / path.parent.name / f"{path.name}.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert open_data(packed).format is data_format


@pytest.mark.parametrize("name", SAID)
def test_the_same_file_gives_the_same_items_again(name: str) -> None:
    ids = [item.id for item in items(SAMPLES / name)]
    assert ids == [item.id for item in items(SAMPLES / name)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_conversation_of_chatgpt_whose_last_message_is_missing(tmp_path: Path, is_there: bool) -> None:
    """It was read as one without messages, in silence."""
    (exported,) = json.loads((SAMPLES / "chatgpt.json").read_text(encoding="utf-8"))
    exported["mapping"]["n5"] = None
    if not is_there:
        del exported["mapping"]["n5"]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([exported]), encoding="utf-8")
    assert [item.content_summary for item in items(path)] == ["user: [image]\nWhen is the launch?"]


def test_times_conversations_and_users_are_kept() -> None:
    first, _ = items(SAMPLES / "chatgpt.json")
    assert (first.event_time, first.scope.conversation) == (1714550001.5, "11111111-aaaa-bbbb-cccc-000000000001")
    assert first.metadata == {"speaker": "user", "title": "Launch"}
    first, _ = items(SAMPLES / "claude.json")
    assert first.event_time == seconds("2024-05-01T08:00:10Z")
    _, first, _ = items(SAMPLES / "claude_code.jsonl")
    assert (first.id, first.scope.conversation) == ("cccccccc-0000-0000-0000-000000000001", "33333333-aaaa")
    assert first.metadata["folder"] == "/project"
    _, first = items(SAMPLES / "codex.jsonl")
    assert (first.event_time, first.scope.conversation) == (seconds("2025-10-01T09:00:05Z"), "44444444-aaaa")
    _, answer, _ = items(SAMPLES / "general/2024-05-01.json")
    assert answer.scope == Scope(conversation="general", session="1714550010.000200")
    assert answer.event_time == 1714550020.0003
    first, second = items(SAMPLES / "mem0.json")
    assert (first.scope, first.event_time) == (Scope(user="ann", agent="helper"), seconds("2024-05-01T15:00:00Z"))
    assert (first.metadata, second.metadata) == ({"topic": "drinks"}, {"categories": ["home"]})
    _, _, thanks = items(SAMPLES / "sharegpt.json")
    assert thanks.scope.conversation == "QWJhYvA_1"


def test_paragraphs_know_their_headings_and_lines() -> None:
    told = [(item.metadata["line"], item.metadata.get("section")) for item in items(SAMPLES / "notes.md")]
    assert told == [(3, "Launch"), (6, "Launch > Venue"), (8, "Launch > Venue"), (15, "People")]


def test_columns_are_found_by_their_names_or_named() -> None:
    first, second = items(SAMPLES / "table.csv")
    assert first.metadata == {"speaker": "Ann", "Mood": "calm"}
    assert second.event_time == seconds("2024-05-02T10:00:00Z")
    (row,) = items(SAMPLES / "table.tsv")
    assert row.scope.user == "ann"
    mapped = open_data(SAMPLES / "table.csv", columns={"text": "Mood", "id": "Message"})
    item = next(mapped.records)
    assert isinstance(item, MemoryItem)
    assert (item.content_summary, item.id) == ("Ann: calm", "The launch moved,\nto June 2nd.")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "when,what\n1,2\n", "no column is named text or content"),
        ("a.csv", 'text\n"x\n', "the table cannot be read"),
        ("a.bin", "\0\0\0", "unpack an archive first"),
        ("a.dat", "just words\n", "it begins with 'just words'; --format text reads it"),
        ("a.json", '{"projects": []}', "unrecognised format (not one of jsonl"),
        ("a.json", '[{"title": "x", "mapping": {"a": {"parent": "b"}}, "current_node": "a"}]', "'b' has no place"),
        ("a.json", '[{"chat_messages": [{"sender": "me"}]}]', "[0].chat_messages[0]: 'sender': expected 'human'"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(DataFileError) as caught:
        items(written(tmp_path / name, text))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("note.md", "[[Old Mill]] is booked.\n"),
        ("note.md", "[x] Book the mill.\n"),
        ("note.txt", "[todo] Book the mill.\n"),
    ],
)
def test_a_note_that_begins_with_a_bracket_is_text(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path / name, text)
    assert open_data(path).format == ("markdown" if name.endswith("md") else "text")
    assert [item.content_summary for item in items(path)] == [text.strip().replace("[[Old Mill]]", "Old Mill")]


_KEYS = (
    "messages role content mapping title ts from value type memory chat_messages conversations data id results lc "
    "kwargs payload storage history current_node chat participants thread_path guild channel author entityType name "
    "observations isTrashed userEditedTimestampUsec blocks elements uuid sessionId message parent parentId"
).split()
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from("entity user message Default rich_text_section 1743674400.1".split())
    | st.text(max_size=8)
)
_JSON = st.recursive(
    _VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=6),
    max_leaves=12,
)
_SHAPES = [
    "type name observations",
    "participants messages thread_path",
    "guild channel messages",
    "isTrashed userEditedTimestampUsec",
    "title mapping current_node",
    "chat_messages uuid",
    "ts blocks type",
    "uuid sessionId message type",
    "id memory",
]
_SHAPED = st.sampled_from(_SHAPES).flatmap(lambda keys: st.fixed_dictionaries(dict.fromkeys(keys.split(), _JSON)))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8-sig", "Größe: 42"),
        ("utf-16", "Größe: 42"),
        ("cp1252", "Die Größe der Tür: „zwei Meter“ – über dem Flur, für Gäste."),
        ("gb18030", "会议改到星期五下午三点，地点在二楼会议室。请大家准时参加。"),
    ],
)
def test_texts_and_tables_may_have_another_encoding(
    encoding: str, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    (tmp_path / "a.csv").write_bytes(f"text;who\r\n{text};ann\r\n".encode(encoding))
    assert [one.content_summary for one in items(tmp_path / "a.txt")] == [text]
    assert [one.content_summary for one in items(tmp_path / "a.csv")] == [text]
    assert ("a.csv is not UTF-8" in caplog.text) == (not encoding.startswith("utf"))


def test_of_damaged_utf_8_only_the_damage_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As of a download that was cut off."""
    text = "会议改到星期五下午三点，地点在二楼会议室。"
    (tmp_path / "a.txt").write_bytes(f"one\n\n{text}".encode()[:-1])
    assert [one.content_summary for one in items(tmp_path / "a.txt")] == ["one", text[:-1] + "\ufffd"]
    assert "a.txt is damaged UTF-8; 1 of its characters could not be read" in caplog.text
    assert "first on line 3" in caplog.text


def test_a_guess_is_named_once_and_can_be_corrected(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "Toplantı 2 Haziran'da, şifre değişti."
    (tmp_path / "a.txt").write_bytes(text.encode("cp1254"))
    assert [one.content_summary for one in items(tmp_path / "a.txt")] != [text]
    (record,) = caplog.records
    assert "a guess: where that is wrong, name its encoding (--encoding)" in record.message
    caplog.clear()
    named = open_data(tmp_path / "a.txt", encoding="cp1254").records
    assert summaries(named) == [text]
    assert caplog.text == ""
    with pytest.raises(DataFileError, match="is not utf-8"):
        list(open_data(tmp_path / "a.txt", encoding="utf-8").records)


def test_lines_of_json_are_utf_8(tmp_path: Path) -> None:
    """One damaged byte must not have the rest of a large file read as something else."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"text": "caf\xc3\xa9"}\n{"text": "caf\xe9"}\n')
    with pytest.raises(DataFileError, match=":2: the line is not UTF-8"):
        list(read_records(file, "jsonl"))


@settings(max_examples=examples(50), deadline=None)
@given(document=_JSON | st.lists(_SHAPED, min_size=1, max_size=3) | _SHAPED)
def test_whatever_json_a_file_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, document: object
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "any.json", json.dumps(document))
    with suppress(DataFileError):
        assert all(read_records(path))


@given(st.text(alphabet="#ab `~\n", max_size=60))
def test_paragraphs_lose_no_word(text: str) -> None:
    lines = list(enumerate(text.split("\n"), start=1))
    found = list(read_paragraphs(lines, Position(path=Path("a.txt")), markdown=False))
    assert " ".join(" ".join(item.content_summary for item in found).split()) == " ".join(text.split())


def test_a_memory_of_mem0_stays_until_its_last_day_has_ended(tmp_path: Path) -> None:
    memory = {"id": "5f0c1f4e-0b8f-4f0e-9f1e-2d8f1f2a0001", "memory": "Has a bus pass", "user_id": "ann"}
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps({"results": [{**memory, "expiration_date": "2030-06-02"}, memory]}), encoding="utf-8")
    assert [item.expires_at for item in items(file)] == [seconds("2030-06-03T00:00:00Z"), None]
    file.write_text(json.dumps([{**memory, "expiration_date": "soon"}]), encoding="utf-8")
    with pytest.raises(DataFileError, match=r"'expiration_date': not a time: 'soon'"):
        items(file)
