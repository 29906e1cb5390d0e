"""Any text and any attachment is returned unchanged."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import Any

import pytest

from devmem import Filter, MemoryContentSnapshot, Scope
from devmem.messages import AttachmentRef, MessageBlock
from devmem.storage import Collection, SearchQuery
from devmem.stores import SnapshotBlock, WriteStatus
from tests.collection_suite.fixtures import MODEL, OpenCollection, Opening, item

_TEXTS = {
    "chinese": "北京的会议改到星期五。预算是三万元。",
    "japanese": "会議は金曜日に変更されました。",
    "korean": "회의가 금요일로 변경되었습니다.",
    "thai": "การประชุมถูกเลื่อนเป็นวันศุกร์",
    "arabic": "تم نقل الاجتماع إلى يوم الجمعة",
    "emoji": "👩‍👩‍👧‍👦 and 🇦🇹 and e\u0301 and \ufeff",
    "line ends": "a\r\nb\rc\nd\u2028e\u0085f\tg",
    "quotes": "it's \"quoted\" \\ and ${NOT_A_VARIABLE} '; DROP TABLE items; --",
    "controls": "before\x01after\x1f",
    "markup": "===== End of Memory =====\n<script>",
    # More words and bytes than 16 bits count.
    "very long": "word " * 70_000,
    "one long word": "x" * 70_000,
}


def _attached(name: str, content: bytes) -> SnapshotBlock:
    uri = "data:image/png;base64," + base64.b64encode(content).decode()
    ref = AttachmentRef(attachment_id=name, mime_type="image/png", name=f"{name}.png", data_uri=uri)
    return SnapshotBlock(role="user", block=MessageBlock(type="image", attachment=ref))


class Content(Opening):
    """Texts and attachments."""

    @pytest.mark.parametrize("field", ["created_at", "event_time", "trust"])
    def test_a_negative_zero_is_a_zero(self, opened: OpenCollection, field: str) -> None:
        """A database gives back a positive one, which must not look like damage."""
        first = opened(model=MODEL)
        stored = item("tea at four", id="1", metadata={"importance": -0.0}, **{field: -0.0})
        first.add([stored])
        assert [hit.item for hit in first.search(SearchQuery(text="tea"))] == [stored]

    def test_a_time_beyond_every_float_is_refused(self, opened: OpenCollection) -> None:
        """Its column could not hold it."""
        first = opened(model=MODEL)
        with pytest.raises(ValueError, match="`event_time` is too large a number"):
            first.add([item("tea", event_time=10**400)])
        assert first.count() == 0

    @pytest.mark.parametrize("name", _TEXTS)
    def test_any_text_is_kept(self, opened: OpenCollection, name: str) -> None:
        """Also in snapshots, metadata, and after the place was opened again."""
        text = _TEXTS[name]
        snapshot = MemoryContentSnapshot(text=text + "!")
        stored = item(text, id="1", metadata={"key": text[:5000]}, input_snapshot=snapshot)
        first = opened(model=MODEL)
        first.add([stored])
        assert first.get(["1"]) == [stored]
        assert [hit.item for hit in first.search(SearchQuery(vector=stored.embedding))] == [stored]
        if self.persists:
            first.close()
            assert list(opened(model=MODEL).scan()) == [stored]

    def test_any_name_is_kept(self, collection: Collection) -> None:
        """In the id and wherever an item says whose it is, and no two names are one."""
        names = ("a/b", "a\\b", "\\ud83d", "%", "\\escaped:x", "ann", "Ann", "ann ")
        stored = [
            item(f"note {name!r}", id=name, scope=Scope(user=name, agent=name), metadata={"speaker": name, name: name})
            for name in names
        ]
        collection.add(stored)
        assert collection.get([one.id for one in stored]) == stored
        for one in stored:
            assert list(collection.scan(Filter(metadata={one.id: one.id}))) == [one]
            where = Filter(scope=Scope(user=one.id))
            assert list(collection.scan(where)) == [one]
            assert [hit.item for hit in collection.search(SearchQuery(text="note", where=where))] == [one]
        assert len(collection.search(SearchQuery(text="note", limit=9))) == len(names)
        assert collection.delete(ids=["%"]) == 1
        assert collection.count() == len(names) - 1

    @pytest.mark.parametrize(
        "fields",
        [
            {"scope": Scope(user=5)},  # type: ignore[arg-type]
            {"metadata": {"key": object()}},
            {"event_time": float("inf")},
            {"expires_at": float("nan")},
        ],
    )
    def test_what_could_not_be_read_again_is_refused(self, collection: Collection, fields: dict[str, Any]) -> None:
        """With the item's id, and the items beside it stay searchable."""
        collection.add([item("a good note", id="good")])
        with pytest.raises(ValueError, match="bad"):
            collection.add([replace(item("a bad note", id="bad"), **fields)])
        assert [hit.item.id for hit in collection.search(SearchQuery(text="note"))] == ["good"]

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("北京的会议改到星期五", "会议"),
            ("会議は金曜日に変更されました", "金曜日"),
            ("회의가 금요일로 변경되었습니다", "금요일"),
            ("การประชุมถูกเลื่อนเป็นวันศุกร์", "ประชุม"),
            ("Straße nach Zürich", "STRASSE zürich"),
            ("call getUserName() first", "user name"),
            ("error E1042 in parse_config", "parse config"),
            ("version 3.14 is out", "3.14"),
        ],
    )
    def test_words_of_many_kinds_are_found(self, collection: Collection, text: str, query: str) -> None:
        """Full-text search works in scripts without spaces, and inside identifiers."""
        collection.add([item(text, id="wanted"), item("nothing of the kind", id="other")])
        assert [hit.item.id for hit in collection.search(SearchQuery(text=query))] == ["wanted"]

    def test_blocks_are_kept_whole(self, collection: Collection) -> None:
        """Types, roles, data and attachments of a snapshot lose nothing, unknown types included."""
        blocks = (
            SnapshotBlock(role="user", block=MessageBlock(type="text", text="look")),
            _attached("small", b"\x89PNG tiny"),
            SnapshotBlock(role="tool", block=MessageBlock(type="hologram", data={"angle": 90, "tags": ["a", None]})),
        )
        snapshot = MemoryContentSnapshot(text="look", blocks=blocks)
        stored = item("a picture", input_snapshot=snapshot, output_snapshot=snapshot)
        collection.add([stored])
        assert collection.get([stored.id]) == [stored]

    def test_a_large_attachment_is_kept(self, opened: OpenCollection) -> None:
        """Also after the place was opened again."""
        snapshot = MemoryContentSnapshot(blocks=(_attached("x", bytes(range(256)) * 2000),))
        stored = item("a large picture", id="1", output_snapshot=snapshot)
        first = opened(model=MODEL)
        first.add([stored])
        assert first.get(["1"]) == [stored]
        assert [hit.item for hit in first.search(SearchQuery(text="picture"))] == [replace(stored, embedding=None)]
        if self.persists:
            first.close()
            assert opened(model=MODEL).recent(1) == [stored]

    def test_two_items_may_share_an_attachment(self, collection: Collection) -> None:
        """Deleting one item leaves the other its attachment."""
        snapshot = MemoryContentSnapshot(blocks=(_attached("x", b"shared" * 40_000),))
        one, two = item("one", id="1", input_snapshot=snapshot), item("two", id="2", output_snapshot=snapshot)
        collection.add([one, two])
        collection.delete(ids=["1"])
        assert collection.get(["2"]) == [two]
        collection.delete(ids=["2"])
        collection.add([one])
        assert collection.get(["1"]) == [one]

    @pytest.mark.parametrize("prefix", ["@", "@@", "@x"])
    def test_a_data_uri_with_the_hash_of_another_attachment_is_kept_as_it_came(
        self, opened: OpenCollection, prefix: str
    ) -> None:
        """It does not become the attachment of somebody else's item, whichever way it is read."""
        content = b"a secret" * 40_000
        other = item(
            "a secret picture", id="1", output_snapshot=MemoryContentSnapshot(blocks=(_attached("x", content),))
        )
        uri = f"data:image/png;base64,{prefix}{hashlib.sha256(content).hexdigest()}"
        block = SnapshotBlock(
            block=MessageBlock(type="image", attachment=AttachmentRef(attachment_id="y", data_uri=uri))
        )
        given = item("a forged picture", id="2", input_snapshot=MemoryContentSnapshot(blocks=(block, block)))
        first = opened(model=MODEL)
        first.add([other, given])
        assert [outcome.status for outcome in first.add([given])] == [WriteStatus.DUPLICATE]
        changed = item("a forged picture, changed", id="2", input_snapshot=given.input_snapshot)
        first.add([changed])
        assert first.get(["1", "2"]) == [other, changed]
        hits = [hit.item for hit in first.search(SearchQuery(text="changed"))]
        assert hits == [replace(changed, embedding=None)]
        if self.persists:
            first.close()
            first = opened(model=MODEL)
        first.delete(ids=["1"])
        assert first.recent(2) == [changed]

    def test_a_data_uri_that_is_none_is_kept_as_it_came(self, collection: Collection) -> None:
        """Nothing is dropped because it could not be understood."""
        uri = "data:image/png;base64," + "not base64 at all! " * 10_000
        ref = AttachmentRef(attachment_id="x", data_uri=uri)
        block = SnapshotBlock(block=MessageBlock(type="image", attachment=ref))
        stored = item("broken", input_snapshot=MemoryContentSnapshot(blocks=(block,)))
        collection.add([stored])
        assert collection.get([stored.id]) == [stored]
