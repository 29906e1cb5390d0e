"""Backups of messages and calls of an Android phone: each a record, with whom and when."""

from __future__ import annotations

import gzip
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import DataFileError
from devmem.model.items import MemoryItem
from devmem.model.record_fields import is_record, span_of
from devmem.transfer.importing import FileFormat, open_data, parse_time

SAMPLES = Path(__file__).parents[2] / "data" / "imports"


def items(path: Path, **options: Any) -> list[MemoryItem]:
    return [record for record in open_data(path, **options).records if isinstance(record, MemoryItem)]


def sms(body: str, **attributes: str) -> str:
    """Return a received message, whose body is XML."""
    others = {"address": "+491701234567", "date": "1748851200000", "type": "1"} | attributes
    return f'<sms body="{body}" {" ".join(f"{key}={quoteattr(value)}" for key, value in others.items())} />'


def mms(parts: str = "", addresses: str = "", **attributes: str) -> str:
    others = {"date": "1748851200000", "msg_box": "1", "address": "+491701234567"} | attributes
    shown = " ".join(f"{key}={quoteattr(value)}" for key, value in others.items())
    return f"<mms {shown}><parts>{parts}</parts><addrs>{addresses}</addrs></mms>"


def backup(folder: Path, *elements: str | bytes, root: str = "smses", name: str = "sms-20250602.xml") -> Path:
    path = folder / name
    whole = [f"<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n<{root}>", *elements, f"</{root}>\n"]
    path.write_bytes(b"\n".join(one if isinstance(one, bytes) else one.encode() for one in whole))
    return path


def test_messages_are_records_with_their_people() -> None:
    meeting, reply, chinese, code, group = items(SAMPLES / "messages.xml")
    assert meeting.content_summary == ("Ann Müller: Treffen wir uns um 7 in der Alten Mühle? 😀\nBring die Flyer mit.")
    assert meeting.metadata == {
        "speaker": "Ann Müller",
        "kind": "message",
        "with": ["Ann Müller"],
        "number": "+49 170 1234567",
    }
    assert (reply.content_summary, reply.metadata["with"]) == ("user: Ja, bis dann!", ["Ann Müller"])
    assert chinese.content_summary == "李娜: 明天下午三点在老磨坊见面,别忘了带传单。"
    assert (code.metadata["with"], code.scope.conversation) == (["95588"], "95588")
    assert group.content_summary == "李娜: The mill from the river\n[image: mill.jpg]"
    assert (group.metadata["with"], group.scope.conversation) == (["Ann Müller", "李娜"], "Ann Müller, 李娜")
    assert reply.event_time == parse_time("2025-06-02T08:05:00.5Z")
    assert all(map(is_record, items(SAMPLES / "messages.xml")))


def test_calls_are_records_that_last() -> None:
    incoming, outgoing, missed, rejected, voicemail = items(SAMPLES / "calls.xml")
    assert [call.content_summary for call in (incoming, outgoing, missed, rejected, voicemail)] == [
        "Incoming call from Ann Müller, 3 min 20 s",
        "Outgoing call to 李娜, 1 h 2 min 5 s",
        "Missed call from +493055501",
        "Rejected call from a private number",
        "Voicemail from Ann Müller, 31 s",
    ]
    assert span_of(incoming.metadata) == (parse_time("2025-06-02T08:00:00Z"), parse_time("2025-06-02T08:03:20Z"))
    assert (missed.metadata, rejected.metadata) == (
        {"kind": "call", "with": ["+493055501"], "number": "+493055501"},
        {"kind": "call"},
    )
    assert all(map(is_record, (incoming, outgoing, missed, rejected, voicemail)))


def test_a_backup_is_known_by_its_content_also_packed(tmp_path: Path) -> None:
    data = (SAMPLES / "messages.xml").read_bytes()
    (tmp_path / "backup").write_bytes(b"\xef\xbb\xbf" + data)
    (tmp_path / "sms.xml.gz").write_bytes(gzip.compress(data))
    for path in (tmp_path / "backup", tmp_path / "sms.xml.gz"):
        assert open_data(path).format is FileFormat.SMS_BACKUP
        assert open_data(path).total == 7
        assert [item.id for item in items(path)] == [item.id for item in items(SAMPLES / "messages.xml")]
    (tmp_path / "other.xml").write_text("<?xml version='1.0'?>\n<feed/>", encoding="utf-8")
    with pytest.raises(DataFileError, match="unrecognised format"):
        open_data(tmp_path / "other.xml")


def test_a_renamed_contact_leaves_the_id(tmp_path: Path) -> None:
    (before,) = items(backup(tmp_path, sms("Hello", contact_name="(Unknown)")))
    (after,) = items(backup(tmp_path, sms("Hello", contact_name="Ann")))
    assert (before.id, before.content_summary) == (after.id, "+491701234567: Hello")
    assert after.content_summary == "Ann: Hello"


def test_own_messages_that_were_not_sent_say_so_and_drafts_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = backup(tmp_path, *(sms("x", type=box) for box in "23456"), mms(), mms('<part ct="text/plain" text="null"/>'))
    assert [item.metadata.get("status") for item in items(path)] == [None, "outbox", "failed", "queued"]
    assert "sms-20250602.xml: left out: drafts: 1, messages without a text: 2" in caplog.text


def test_a_group_is_with_all_others_and_its_message_by_its_sender(tmp_path: Path) -> None:
    part = '<part ct="text/plain" text="Hello all" /><part ct="audio/amr" name="voice.amr" data="AAAA"/>'
    path = backup(
        tmp_path,
        sms("x", address="0049 30 5550199", contact_name="Bo"),
        mms(part, '<addr address="030 5550199" type="137"/>', address="+491701234567~+49305550199"),
        mms(part, address="+491701234567~+49305550199", msg_box="2", sub="Plan"),
    )
    _, received, sent = items(path)
    assert received.content_summary == "Bo: Hello all\n[audio: voice.amr]"
    assert received.metadata["with"] == ["+491701234567", "Bo"]
    assert (sent.content_summary, sent.metadata["with"]) == (
        "user: Plan\nHello all\n[audio: voice.amr]",
        ["+491701234567", "Bo"],
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("&#55357;&#56832;", "😀"),
        ("a&#xD83D;&#xde00;&#55357;&#56846;b", "a😀😎b"),
        ("lone &#55357;; low &#56832;; far &#9999999;", "lone \ufffd; low \ufffd; far \ufffd"),
        ("bell&#7;, zero&#0;, raw\x07, tab&#9;, line&#10;end", "bell , zero , raw , tab\t, line\nend"),
        ("&lt;sms &amp;#55357; &quot;", '<sms &#55357; "'),
        ("\U0001f600 &#128512;", "😀 😀"),
    ],
)
def test_characters_that_xml_does_not_allow_are_read(tmp_path: Path, body: str, expected: str) -> None:
    (item,) = items(backup(tmp_path, sms(body)))
    assert item.content_summary == f"+491701234567: {expected}"


def test_emojis_are_read_wherever_a_part_of_a_large_file_ends(tmp_path: Path) -> None:
    """A file is read in parts of 256 KiB."""
    for shift in range(17):
        (item,) = items(backup(tmp_path, sms("x" * (262_000 - shift) + "&#55357;&#56832;" * 20)))
        assert item.output_snapshot is not None
        assert item.output_snapshot.text.endswith("x" + "😀" * 20)


def test_pictures_are_not_kept_and_take_linear_time(tmp_path: Path) -> None:
    """The parser would read a tag again with each part of the file."""
    picture = f'<part ct="image/jpeg" name="a.jpg" data="{"QUJD" * 2_000_000}"/>'
    (item,) = items(backup(tmp_path, mms(picture)))
    assert item.content_summary == "+491701234567: [image: a.jpg]"


def test_damaged_characters_are_replaced_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (item, _) = items(backup(tmp_path, sms("M@hle").encode().replace(b"@", b"\xfc"), sms("y")))
    assert item.content_summary == "+491701234567: M\ufffdhle"
    assert "sms-20250602.xml:3: characters that are not utf-8 are replaced; --encoding names another" in caplog.text
    (item, _) = items(
        backup(tmp_path, sms("M@hle").encode().replace(b"@", b"\xfc"), sms("y")), encoding="cp1252"
    )  # fmt: skip
    assert item.content_summary == "+491701234567: Mühle"


def declared(body: str, encoding: str) -> str:
    return (
        f"<?xml version='1.0' encoding='{encoding}' standalone='yes' ?>\n<smses count=\"1\">\n{sms(body)}\n</smses>\n"
    )


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        ("ISO-8859-1", "latin-1"),
        ("ISO-8859-1", "utf-8"),
        ("windows-1252", "cp1252"),
        ("UTF-16", "utf-16"),
        ("UTF-16", "utf-16-le"),
        ("UTF-16BE", "utf-16-be"),
        ("UTF-16", "utf-8"),
        ("UTF-8", "utf-8-sig"),
        ("UTF-8", "utf-16"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_declared_encoding_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, encoding: str, codec: str, packed: bool
) -> None:
    data = declared("Gr\u00fc\u00dfe, M\u00fchle", encoding).encode(codec)
    path = tmp_path / "messages.xml"
    path.write_bytes(gzip.compress(data) if packed else data)
    opened = open_data(path)
    assert (opened.format, opened.total) == (FileFormat.SMS_BACKUP, 1)
    assert [item.content_summary for item in items(path)] == ["+491701234567: Gr\u00fc\u00dfe, M\u00fchle"]
    assert caplog.text == ""


def test_chinese_in_utf_16_is_read_and_damage_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = declared("\u660e\u5929\u0a0a@ \U0001f600", "UTF-16").encode("utf-16-le").replace(b"@\0", b"\x00\xdc")
    path = tmp_path / "messages.xml"
    path.write_bytes(b"\xff\xfe" + data)
    (item,) = items(path)
    assert item.content_summary == "+491701234567: \u660e\u5929\u0a0a\ufffd \U0001f600"
    assert "messages.xml:3: characters that are not utf-16 are replaced" in caplog.text
    assert [one.content_summary for one in items(path, encoding="utf-16")] == [item.content_summary]


def test_a_file_that_is_not_of_its_encoding_is_named_where_no_byte_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "messages.xml"
    path.write_text(declared("M\u00fchle", "UTF-7"), encoding="utf-8")
    with pytest.raises(DataFileError, match=r"xml:3: it is not utf-7 .*; --encoding names another"):
        items(path)
    assert [item.content_summary for item in items(path, encoding="utf-8")] == ["+491701234567: M\u00fchle"]


def test_an_encoding_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "messages.xml"
    for name in ("klingon", "base64"):
        path.write_text(declared("x", name))
        with pytest.raises(DataFileError, match=f"xml:1: there is no encoding '{name}'; --encoding names another"):
            items(path)
        assert len(items(path, encoding="utf-8")) == 1


@pytest.mark.parametrize(
    ("count", "told"),
    [
        ("7", "declares 7 messages or calls (`count`) and has 2; the backup may be incomplete"),
        ("1", "declares 1 messages or calls (`count`) and has 2\n"),
        ("2", ""),
        ("many", ""),
    ],
)
def test_another_number_than_the_declared_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: str, told: str
) -> None:
    path = tmp_path / "messages.xml"
    path.write_text(f'<smses count="{count}">{sms("a")}{sms("b", type="3")}</smses>')
    assert len(items(path)) == 1
    assert told in caplog.text
    assert ("`count`" in caplog.text) is bool(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('<smses>\n<sms body="a" />\n<sms body="b', "a.xml:3: the file is cut off"),
        ('<smses>\n<sms body="a" />\n<sms body=b />\n</smses>', "a.xml:3: damaged XML: not well-formed"),
        ("<smses>\n<sms>\n</mms>\n</smses>", "a.xml:3: damaged XML: mismatched tag"),
        ('<!DOCTYPE smses [\n<!ENTITY a "&b;&b;">\n]><smses/>', "a.xml:1: it declares a document type"),
        ("<smses>&a;</smses>", "a.xml:1: damaged XML: undefined entity"),
        ("<feed>\n</feed>", "a.xml:1: expected <smses> or <calls>, found <feed>"),
        ("hello <", "a.xml:1: damaged XML"),
        ("", "a.xml:1: the file is cut off"),
    ],
)
def test_what_is_no_backup_is_refused_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "a.xml").write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=told):
        items(tmp_path / "a.xml", format="sms-backup")


def test_the_messages_above_a_damaged_line_are_read(tmp_path: Path) -> None:
    path = backup(tmp_path, *(sms("x", date=str(10**12 + at)) for at in range(5_000)), "<sms body=")
    records = open_data(path).records
    read = list(islice(records, 5_000))
    assert len({item.id for item in read if isinstance(item, MemoryItem)}) == 5_000
    with pytest.raises(DataFileError, match="xml:5004: damaged XML"):
        next(records)


def test_times_that_are_none_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    message = sms("x", date="soon")
    calls = [
        '<call number="1" duration="long" date="1748851200000" type="1"/>',
        '<call number="2" duration="5" date="999999999999999999" type="9" />',
    ]
    path = backup(tmp_path, message, *calls)
    assert [(item.content_summary, item.event_time is None) for item in items(path)] == [
        ("+491701234567: x", True),
        ("Incoming call from 1", False),
        ("Call with 2, 5 s", True),
    ]
    assert "sms-20250602.xml:3: sms: 'date': not a time: 'soon'" in caplog.text
    assert "sms-20250602.xml:4: call: 'duration': not the seconds of a call: 'long'; it is left out" in caplog.text


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=50), max_size=8))
def test_every_text_is_read_as_the_app_writes_it(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """Characters beyond the first 65,536 as two references, others as they are or as one."""

    def written(character: str) -> str:
        if ord(character) > 0xFFFF:
            pair = character.encode("utf-16-be")
            return "".join(f"&#{int.from_bytes(pair[at : at + 2])};" for at in (0, 2))
        return f"&#{ord(character)};" if character in "\"&<>'" or not ord(character) % 3 else character

    bodies = ["".join(map(written, f"<{text}>")) for text in texts]
    path = backup(tmp_path_factory.mktemp("sms"), *(sms(one, date=str(10**12 + at)) for at, one in enumerate(bodies)))
    expected = [f"+491701234567: <{text}>".replace("\ufffe", " ").replace("\uffff", " ") for text in texts]
    assert [item.content_summary for item in items(path)] == expected


@given(st.binary(max_size=300), st.integers(0, 2_000))
def test_whatever_a_backup_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int
) -> None:
    data = (SAMPLES / "messages.xml").read_bytes()
    path = tmp_path_factory.mktemp("sms") / "a.xml"
    path.write_bytes(data[:place] + noise + data[place:])
    with suppress(DataFileError):
        assert all(item.content_summary for item in items(path, format="sms-backup"))
