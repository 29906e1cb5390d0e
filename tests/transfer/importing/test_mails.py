"""Mails of mailboxes and `.eml` files: what the sender wrote, when, in which thread."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import DataFileError
from devmem.model.record_fields import is_record
from devmem.model.times import parse_time
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import open_data
from devmem.transfer.importing.mail_text import own_words
from tests.cases import cases
from tests.transfer.reading import items

MAILBOX = Path(__file__).parents[2] / "data" / "imports" / "mails.mbox"
SEPARATOR = b"From ann@example.org Wed May  1 08:00:00 2024\n"


def mail(text: str = "Hello.", *, headers: str = "", charset: str = "utf-8") -> bytes:
    head = f"From: Ann <ann@example.org>\n{headers}Content-Type: text/plain; charset={charset}\n\n"
    return head.encode() + text.encode(charset, "replace")


def test_a_mailbox_is_an_item_a_mail() -> None:
    opened = open_data(MAILBOX)
    assert opened.format is FileFormat.MBOX
    plan, booked, seats, flyers = items(MAILBOX)
    assert plan.content_summary == (
        "Ann Müller: The launch moved to June 2nd, für alle Gäste.\n\nFrom now on Ben books the venue."
    )
    assert plan.metadata == {
        "speaker": "Ann Müller",
        "subject": "Launch – plan",
        "from": "ann@example.org",
        "to": ["ben@example.org", "cem@example.org"],
        "with": ["Ann Müller", "Ben Roy", "Cem, the printer"],
        "attachments": ["plan €.pdf"],
        "labels": ["Inbox", "Important"],
        "message_id": "plan-1@example.org",
    }  # fmt: skip
    assert (
        booked.content_summary == "ben@example.org: The Old Mill is booked for 80 guests.\n\nHow many seats do we need?"
    )
    assert seats.content_summary == "Ann Müller: Hundert Plätze.\nDanke!"
    assert flyers.content_summary == "Cem: They are printed."
    assert {item.indexed_fields for item in items(MAILBOX)} == {("subject", "attachments")}
    threads = [item.scope.conversation for item in items(MAILBOX)]
    assert threads == ["plan-1@example.org"] * 3 + [None], "also of a mail that names only the one before it"
    assert [item.event_time for item in items(MAILBOX)] == [
        parse_time(time)
        for time in ("2024-05-01T08:00:00Z", "2024-05-01T09:30:00Z", "2024-05-02T07:15:00Z", "2024-05-03T12:00:00Z")
    ]


def test_a_mail_is_with_sender_and_recipients_other_than_the_owner(tmp_path: Path) -> None:
    received = mail(
        "Hi", headers="To: =?utf-8?b?5p2O5aic?= <li@example.org>, Me <ME@example.org>\nCc: ben@example.org\n"
    )
    sent = b"From: Me <me@example.org>\nTo: ann@example.org\nDate: Wed, 1 May 2024 08:00:00 +0000\n\nHello."
    path = tmp_path / "a.mbox"
    path.write_bytes(SEPARATOR + b"Delivered-To: me@example.org\n" + received + b"\n" + SEPARATOR + sent)
    assert [item.metadata["with"] for item in items(path)] == [["Ann", "李娜", "ben@example.org"], ["ann@example.org"]]
    (tmp_path / "a.eml").write_bytes(sent)
    assert items(tmp_path / "a.eml")[0].metadata["with"] == ["Me", "ann@example.org"]
    assert not any(map(is_record, items(path)))


def test_one_mail_of_a_file(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "Zoë <zoe@example.org>", "Schlüssel – 鍵"
    message["References"], message["Message-ID"] = "<a@x> <b@x>", "<c@x>"
    message["Date"] = "Wed, 01 May 2024 10:00:00 +0200"
    message.set_content("Der Schlüssel liegt unter der Matte. 鍵")
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="Tür.png")
    for name in ("a.eml", "mail"):
        (tmp_path / name).write_bytes(message.as_bytes(policy=SMTP))
        assert open_data(tmp_path / name).format is FileFormat.EML
        (item,) = items(tmp_path / name)
        assert item.content_summary == "Zoë: Der Schlüssel liegt unter der Matte. 鍵"
        assert (item.metadata["subject"], item.metadata["attachments"]) == ("Schlüssel – 鍵", ["Tür.png"])
        assert (item.scope.conversation, item.event_time) == ("a@x", parse_time("2024-05-01T08:00:00Z"))


@pytest.mark.parametrize(
    ("raw", "charset"),
    [
        ("Für Größe – „so“".encode("cp1252"), "iso-8859-1"),
        ("Für Größe – „so“".encode(), "us-ascii"),
        ("Für Größe – „so“".encode(), "x-nobody-knows"),
        ("Für Größe – „so“".encode("utf-16"), "utf-16"),
    ],
)
def test_texts_are_read_in_the_encoding_that_fits(tmp_path: Path, raw: bytes, charset: str) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(f"From: a@x.org\nContent-Type: text/plain; charset={charset}\n\n".encode() + raw)
    assert [item.content_summary for item in items(path)] == ["a@x.org: Für Größe – „so“"]


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        ("Grüße".encode("latin-1"), "Grüße"),
        (b"=?utf-8?q?Gr=C3?= =?utf-8?q?=BC=C3=9Fe?=", "Grüße"),
        (b"=?utf-8*de?B?R3LDvMOfZQ?= an alle", "Grüße an alle"),
        (b"=?utf-8?b?R?= =?x", "=?utf-8?b?R?= =?x"),
    ],
)
def test_headers_are_decoded_however_they_are_written(tmp_path: Path, raw: bytes, subject: str) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(b"From: a@x.org\nSubject: " + raw + b"\n\nHello")
    assert [item.metadata["subject"] for item in items(path)] == [subject]


@pytest.mark.parametrize(("text", "expected"), cases("transfer_mails", "only_the_own_words_of_a_mail_are_kept"))
def test_only_the_own_words_of_a_mail_are_kept(text: str, expected: str) -> None:
    assert own_words(text) == expected


@pytest.mark.parametrize(
    "piece", ["On 3 Apr 2025 Ann wrote:\n> x\n", "-- \n", "From: a\nTo: b\nDate: c\n", "On ", "\n"]
)
@pytest.mark.parametrize("times", [20_000, pytest.param(100_000, marks=pytest.mark.kit)])
def test_hostile_texts_take_linear_time(piece: str, times: int) -> None:
    """Each would take many minutes if it took time quadratic in the number of lines."""
    own_words(piece * times)
    own_words(f"Hello.\n{piece * times}", is_forwarded=True)


def test_a_mailbox_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.mbox"
    whole = MAILBOX.read_bytes()
    path.write_bytes(whole[: whole.index(b"<p>The launch moved")])
    assert [item.content_summary for item in items(path)] == [items(MAILBOX)[0].content_summary]
    assert "a.mbox:1: mail 1: it is cut off: its last part has no end; it is read as far as it goes" in caplog.text
    path.write_bytes(SEPARATOR + mail() + b"\n" + SEPARATOR + b"From: ben@example.org\nSubject: Ha")
    assert [item.content_summary for item in items(path)] == ["Ann: Hello.", "ben@example.org: Ha"]
    assert "a.mbox:6: mail 2: it is cut off within its headers" in caplog.text


FORWARDED = "FYI\n-----Original Message-----\nFrom: Cem\nThe code is 4711."
LOOKS_LIKE_A_SEPARATOR = "Hello.\n\nFrom Ann Wed 10:00\nshe is away."


@pytest.mark.parametrize(
    ("text", "headers", "expected"),
    [
        (FORWARDED, "Subject: WG: Code\n", FORWARDED),
        ("> quoted", "Subject: Call me at 5\n", "Call me at 5"),
        (LOOKS_LIKE_A_SEPARATOR, "", LOOKS_LIKE_A_SEPARATOR),
    ],
    ids=["forwarded by its subject", "without own words", "a line that looks like a separator"],
)
def test_the_text_of_a_mail(tmp_path: Path, text: str, headers: str, expected: str) -> None:
    path = tmp_path / "a.mbox"
    path.write_bytes(SEPARATOR + mail(text, headers=headers))
    assert [item.content_summary for item in items(path)] == [f"Ann: {expected}"]


@pytest.mark.parametrize(
    "data",
    [
        b"From: " + b"(" * 100_000 + b"\n\nHello",
        b"From: a@x.org\nTo: " + b"a@b.org, " * 100_000 + b"\n\nHello",
        b"From: a@x.org\nSubject: " + b"=?utf-8?q?a?= " * 100_000 + b"\n\nHello",
        b"From: a@x.org\nContent-Type: text/plain; charset*0*=x; charset*1*='\n\nHello",
        b"From: a@x.org\nContent-Type: text/html; charset=idna\n\n" + b"Hello <a " * 100_000,
        b"From: a@x.org\nContent-Type: multipart/mixed; boundary*0=a; boundary*1=b\n\nHello\n--ab\n\nHello\n",
    ],
)  # fmt: skip
def test_hostile_mails_are_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(data)
    (item,) = items(path)
    assert "Hello" in item.full_text()


def test_parts_that_nest_too_deeply_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.mbox"
    parts = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3_000))
    path.write_bytes(SEPARATOR + b"From: a@x.org\n" + parts)
    with pytest.raises(DataFileError, match=r"a\.mbox:1: mail 1: its parts nest too deeply"):
        items(path)


_PIECES = [
    SEPARATOR,
    b"From: a@x.org\n",
    b"\n",
    b"a\xff",
    b"--b\n",
    b"Content-Type: multipart/alternative; boundary=b\n",
    b"Content-Type: text/html\n",
    b"Content-Transfer-Encoding: base64\n",
    b"<p",
    b">From ",
    b"=?utf-8?b?",
    b"\0",
]


@given(data=st.lists(st.sampled_from(_PIECES)))
def test_whatever_a_mailbox_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.mbox"
    path.write_bytes(SEPARATOR + b"To: b@x.org\n" + b"".join(data))
    assert all(item.content_summary for item in items(path))
