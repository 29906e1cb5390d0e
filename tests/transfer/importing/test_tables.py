"""Tables as people keep them: German headers, dates of two orders, no column of texts."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import DateOrderError
from devmem.model.times import parse_time
from tests.transfer.reading import items

GERMAN = """\
Datum;Uhrzeit;Absender;Betreff;Nachricht;Raum
03.04.2025;09:05;Jörg;Flur;Die Lampe im Flur ist kaputt.;12
04.04.2025;;Ayşe;Termin;"Der Elektriker kommt
um 14:30 Uhr.";none
none;-;Jörg;;Danke.;
"""


def table(folder: Path, text: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1254", "utf-16"])
def test_german_headers_are_understood(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(GERMAN.encode(encoding))
    options = {"encoding": encoding} if encoding == "cp1254" else {}
    found = items(tmp_path / "a.csv", **options)
    assert [item.content_summary for item in found] == [
        "Jörg: Die Lampe im Flur ist kaputt.",
        "Ayşe: Der Elektriker kommt\num 14:30 Uhr.",
        "Jörg: Danke.",
    ]
    assert [item.event_time for item in found] == [parse_time("2025-04-03T09:05"), parse_time("2025-04-04"), None]
    assert found[0].metadata == {"speaker": "Jörg", "Betreff": "Flur", "Raum": "12"}
    assert {item.indexed_fields for item in found} == {("Betreff",)}


def test_without_a_column_of_texts_the_text_is_built_from_all_words(tmp_path: Path) -> None:
    path = table(
        tmp_path, "Nr,Ort,Titel,Preis,Zustand,Link\n1,Keller,Lampe,5,alt,https://x.org\n2,,Stuhl,7,,\n3,,,9,,\n"
    )
    found = items(path)
    assert [item.content_summary for item in found] == ["Lampe\nOrt: Keller\nZustand: alt", "Stuhl"]
    assert found[0].metadata["Preis"] == "5"
    assert [item.content_summary for item in items(table(tmp_path, "Nr,Was\n1,Lampe\n"))] == ["Lampe"]


def test_a_key_may_have_no_column(tmp_path: Path) -> None:
    path = table(tmp_path, "Text,Datum\nLampe,irgendwann\n")
    (item,) = items(path)
    assert (item.event_time, item.metadata["time"]) == (None, "irgendwann")
    (item,) = items(path, columns={"time": "none"})
    assert (item.event_time, item.metadata["Datum"]) == (None, "irgendwann")
    assert items(path, columns={"time": "none", "text": "none"})[0].content_summary == "Text: Lampe\nDatum: irgendwann"


@pytest.mark.parametrize(
    ("rows", "days"),
    [
        (["03/04/2025", "13/04/2025"], ["2025-04-03", "2025-04-13"]),
        (["03/04/2025", "04/13/2025 10:30 PM"], ["2025-03-04", "2025-04-13T22:30"]),
        (["04/04/2025", "2025/05/06"], ["2025-04-04", "2025-05-06"]),
    ],
)
def test_day_and_month_are_told_apart_by_all_rows(tmp_path: Path, rows: list[str], days: list[str]) -> None:
    path = table(tmp_path, "text,date\n" + "".join(f"x{at},{row}\n" for at, row in enumerate(rows)))
    assert [item.event_time for item in items(path)] == [parse_time(day) for day in days]


def test_day_and_month_that_may_be_both_are_asked_about_once(tmp_path: Path) -> None:
    path = table(tmp_path, "text,date\na,none\nb,03/04/2025\nc,05/06/2025\n")
    with pytest.raises(DateOrderError, match=r"a\.csv:3: .*'03/04/2025'.*`--dates dmy` or `--dates mdy`"):
        items(path)
    assert [item.event_time for item in items(path, dates="dmy")][1:] == [
        parse_time("2025-04-03"),
        parse_time("2025-06-05"),
    ]
    assert [item.event_time for item in items(path, dates="mdy")][1] == parse_time("2025-03-04")


@pytest.mark.parametrize(
    ("header", "row", "time", "metadata"),
    [
        ("text,date,time", "a,2025-04-03 00:00:00,9:05", "2025-04-03T09:05", {}),
        ("text,date,time", "a,,9:05", None, {"time": "9:05"}),
        ("text,time", "a,9:05", None, {"time": "9:05"}),
        ("text,Name,Von,Bis", "a,Ann,3.4.2025,4.4.2025", None, {"Name": "Ann", "Von": "3.4.2025", "Bis": "4.4.2025"}),
    ],
)
def test_dates_and_clocks_of_two_columns_are_one_time(
    tmp_path: Path, header: str, row: str, time: str | None, metadata: dict[str, str]
) -> None:
    (item,) = items(table(tmp_path, f"{header}\n{row}\n"))
    assert item.event_time == (parse_time(time) if time else None)
    assert item.metadata == metadata


def test_excels_line_about_the_delimiter_is_understood(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = table(tmp_path, "sep=;\ntext;a,b,c\nLampe;1\n;2\n")
    assert [item.content_summary for item in items(path)] == ["Lampe"]
    assert "a.csv:4: the row has no text" in caplog.text


_CELL = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)


@given(rows=st.lists(st.lists(_CELL, min_size=3, max_size=3), min_size=1, max_size=6))
def test_what_a_spreadsheet_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    written = io.StringIO()
    csv.writer(written).writerows([["text", "a", "b"], *rows])
    path = table(tmp_path_factory.getbasetemp(), written.getvalue(), "any.csv")
    texts = [row[0].strip() for row in rows if row[0].strip()]
    assert [item.content_summary for item in items(path, encoding="utf-8")] == texts
