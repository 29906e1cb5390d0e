"""A prompt gets no memories where nothing stored has to do with it; Chinese ones are found by words alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import devmem
from devmem import Memory, MemoryBase, MemoryManager, load_workflow, open_stores
from devmem.config import Attachment, MemoryOptions
from devmem.search.silence import says_nothing
from devmem.stores import MemoryQuery
from tools.bench.retrieval.items import read_items

IDLE: Final = json.loads((Path(__file__).parent / "data" / "idle_turns.json").read_text(encoding="utf-8"))
"""Written before the rule and kept aside from it."""
DIARY: Final = (
    "Ann moved the launch to June 2nd.", "The venue is the old mill in Graz.", "Ben pays for the catering.",
    "Our sponsor is Brightlake, they give 4000 euros.", "Carla designs the posters.", "The rehearsal is on May 28th.",
    "Dinesh is allergic to peanuts.", "The band wants to be paid in cash.", "Tickets cost 18 euros.",
    "The key of the mill is at the bakery.", "We expect 120 guests.", "Ann's sister lends us the van.",
)  # fmt: skip


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with devmem.open(":memory:") as opened:
        opened.add(list(DIARY))
        yield opened


def share_of_silent(memory: Memory, messages: list[str]) -> float:
    return sum(not memory.context(message) for message in messages) / len(messages)


def test_small_talk_and_unrelated_tasks_recall_nothing(memory: Memory) -> None:
    assert share_of_silent(memory, IDLE["small_talk_en"]) >= 0.95
    assert share_of_silent(memory, IDLE["unrelated_en"]) >= 0.85


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is the launch?", "June 2nd"),
        ("Who pays?", "Ben"),
        ("Where do we keep the key?", "bakery"),
        ("Which nuts must we avoid?", "peanuts"),
        ("How much do our guests pay?", "18 euros"),
        ("Tell me about the sponsor.", "Brightlake"),
    ],
)
def test_questions_about_what_is_stored_are_answered(memory: Memory, question: str, answer: str) -> None:
    assert answer in memory.context(question)


def test_what_only_stands_beside_the_answer_gives_its_place_to_others() -> None:
    said = (
        ("Oak lasts well in salty air.", "The pump costs 640 kroner at Lysvik."),
        ("640 kroner at Lysvik.", "Let's take rhubarb and almond."), ("Rhubarb it is.", "How do whales navigate?"),
        ("By low sounds.", "Havljos sells a pump for 710 kroner now."), ("Good.", "Thanks, that's all."),
    )  # fmt: skip
    with devmem.open(":memory:") as memory:
        for answer, text in said:
            memory.add(
                [{"role": "assistant", "content": answer}, {"role": "user", "content": text}], conversation="talk"
            )
        block = memory.context("What does the pump cost?", limit=5)
        nearest = memory.context("What does the pump cost?", limit=5, relevance=False)
    assert "710 kroner" in block
    assert "rhubarb" not in block.casefold()
    assert "whales" not in block
    assert "rhubarb" in nearest.casefold()


def test_in_chinese_with_e5() -> None:
    diary = [
        "发布会改到六月二日。",
        "场地是格拉茨的老磨坊。",
        "小本负责餐饮费用。",
        "迪内希对花生过敏。",
        "门票十八欧元。",
        "钥匙在面包店。",
    ]
    with devmem.open(":memory:", embedding="e5") as opened:
        opened.add(diary)
        assert share_of_silent(opened, IDLE["small_talk_zh"]) >= 0.95
        assert share_of_silent(opened, IDLE["unrelated_zh"]) >= 0.85
        assert "六月二日" in opened.context("发布会是哪天?")
        assert "花生" in opened.context("谁有过敏?")


def test_without_vectors_the_words_decide() -> None:
    with devmem.open(":memory:", embedding=None) as opened:
        opened.add(list(DIARY))
        assert share_of_silent(opened, IDLE["small_talk_en"]) >= 0.95
        assert opened.context("Write a function that moves the cursor of an editor to the next word") == ""
        assert "mill" in opened.context("Where is the venue?")


@pytest.mark.parametrize(
    "text", ["yes", "👍", "...", "OK, thanks!", "go on", "好的,谢谢", "哈" * 80, "thank you very much"]
)
def test_filler_says_nothing(text: str) -> None:
    assert says_nothing(text)


@pytest.mark.parametrize(
    "text",
    [
        "Who am I?",
        "yes, on Friday",
        "thanks for the launch plan",
        "我是谁",
        "no peanuts",
        "好的" * 39 + "茶",
        "ok 7",
        "hi Ann",
    ],
)
def test_a_message_with_a_word_of_its_own_says_something(text: str) -> None:
    assert not says_nothing(text)


def test_each_store_is_judged_alone_and_an_attachment_turns_it_off(memory: Memory) -> None:
    with devmem.open(":memory:") as other:
        other.add("To leave the editor vim, type :q! and press Enter.")
        stores = {"diary": memory.store, "howto": other.store}

        def shown(**each: object) -> list[str]:
            attachments = [Attachment.model_validate({"name": name, **each}) for name in stores]
            result = MemoryManager(attachments, stores).retrieve(query="How do I exit vim?")
            return [] if result is None else [hit.item.content_summary for hit in result.hits]

        assert shown() == ["To leave the editor vim, type :q! and press Enter."]
        assert len(shown(relevance=False)) > 1


def test_devalls_ranking_shows_what_devall_shows(memory: Memory) -> None:
    attachments = [Attachment(name="diary")]
    stores = {"diary": memory.store}
    assert MemoryManager(attachments, stores).retrieve(query="How do I exit vim?") is None
    devall = MemoryManager(attachments, stores, options=MemoryOptions(ranking="devall"))
    assert devall.retrieve(query="How do I exit vim?") is not None


def test_a_question_for_a_time_is_answered_whatever_is_near() -> None:
    with devmem.open(":memory:") as opened:
        opened.add("Swam in the lake.", time="2026-05-03")
        assert "Swam" in opened.context("What did we do on May 3rd?", asked_at="2026-05-10")


DATA = Path(__file__).parent / "data" / "chinese.units.json"
WORKFLOW = "memory: [{name: notes, type: simple, config: {memory_path: notes.db}}]\n"


def queries() -> list[dict[str, Any]]:
    (group,) = json.loads(DATA.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = group["queries"]
    return found


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[MemoryBase]:
    file = tmp_path / "workflow.yaml"
    file.write_text(WORKFLOW, encoding="utf-8")
    with open_stores(load_workflow(file)) as stores:
        stores["notes"].add(read_items(DATA).items)
        yield stores["notes"]


def found_within(notes: MemoryBase, asked: dict[str, Any], k: int) -> bool:
    hits = notes.search(MemoryQuery(text=asked["text"], limit=k))
    return bool({hit.item.id for hit in hits} & {f"zh/{unit}" for unit in asked["gold"]})


def test_most_questions_find_their_memory_by_words_alone(notes: MemoryBase) -> None:
    missed = [asked["text"] for asked in queries() if not found_within(notes, asked, 5)]
    assert len(missed) <= 0.15 * 30, missed


def test_both_scripts_and_digits_are_found(notes: MemoryBase) -> None:
    found = {
        kind: [found_within(notes, one, 5) for one in queries() if one["type"] == kind]
        for kind in ("繁体", "日期与数字")
    }
    assert all(sum(each) >= 0.75 * len(each) for each in found.values()), found


def test_a_question_for_a_day_favours_a_line_with_a_date() -> None:
    """Also one whose numbers are not digits."""
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add(["发布会改到六月二日。", "发布会在老磨坊。"])
        assert [hit.text for hit in memory.search("发布会是哪天？")] == ["发布会改到六月二日。", "发布会在老磨坊。"]
