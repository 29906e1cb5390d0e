"""Near-duplicates are recognized, and nothing else is taken for one; diverse hits differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.messages import AttachmentRef, MessageBlock
from devmem.search.selection import diversified, initials, sameness
from devmem.stores import SnapshotBlock
from tests.cases import cases

DAY = 86_400.0


def item(text: str, **fields: Any) -> MemoryItem:
    return MemoryItem(content_summary=text, **fields)


def picture(name: str) -> MemoryContentSnapshot:
    ref = AttachmentRef(attachment_id=name)
    return MemoryContentSnapshot(blocks=(SnapshotBlock(block=MessageBlock(type="image", attachment=ref)),))


@pytest.mark.parametrize(
    ("one", "other"),
    cases("search_diversity", "the_same"),
)
def test_the_same(one: str, other: str) -> None:
    assert sameness(item(one)) == sameness(item(other))
    assert initials(item(one)) == initials(item(other))


WORDS = [
    *("plan", "Plans", "skies", "sky", "dying", "die", "e-mail", "v1.2", "get_name", "the", "A", "an"),
    *("it's", "it’s", "it", "isn't", "isn’t", "is", "not"),
]
MARKS = st.sampled_from([" ", ", ", ". ", "! ", " - ", '" ', " '", "\n", ": (", " – ", "… ", " \N{THUMBS UP SIGN} "])


@given(words=st.lists(st.tuples(st.sampled_from(WORDS), MARKS), max_size=4), other=st.data())
def test_what_says_the_same_begins_with_the_same_letters(words: list[tuple[str, str]], other: st.DataObject) -> None:
    texts = ["".join(word + mark for word, mark in words)]
    texts.append("".join(other.draw(st.sampled_from([word, *WORDS])) + other.draw(MARKS) for word, _ in words))
    texts.append("".join(word.upper() + other.draw(MARKS) for word, _ in words if word not in ("the", "A", "an")))
    for one in texts:
        for two in texts:
            if sameness(item(one)) == sameness(item(two)):
                assert initials(item(one)) == initials(item(two))


@pytest.mark.parametrize(
    ("one", "other"),
    cases("search_diversity", "not_the_same"),
)
def test_not_the_same(one: str, other: str) -> None:
    assert sameness(item(one)) != sameness(item(other))


def test_the_same_of_another_person_is_something_else() -> None:
    ann, bob = (item("I voted yes", metadata={"speaker": name}) for name in ("Ann", "Bob"))
    assert sameness(ann) != sameness(bob)
    one, other = (item("I voted yes", metadata={"agent": name}) for name in ("critic", "planner"))
    assert sameness(one) != sameness(other)
    assert sameness(one) == sameness(item("I voted yes", scope=Scope(agent="critic")))
    assert sameness(item("I swam", scope=Scope(user="u"))) != sameness(item("I swam", scope=Scope(user="v")))
    assert sameness(item("I swam", metadata={"speaker": ["odd"]})) == sameness(item("I swam"))


def test_the_same_on_another_day_is_something_else() -> None:
    """A weekly "I went swimming" tells of several weeks."""
    morning, evening = item("I swam", event_time=10 * DAY), item("I swam", event_time=11 * DAY - 1)
    assert sameness(morning) == sameness(evening)
    assert sameness(morning) != sameness(item("I swam", event_time=11 * DAY))
    assert sameness(morning) != sameness(item("I swam"))


def test_a_summary_that_is_only_the_start() -> None:
    """Long texts that begin alike say different things."""
    one = item("A letter…", output_snapshot=MemoryContentSnapshot(text="A letter about tea"))
    other = item("A letter…", output_snapshot=MemoryContentSnapshot(text="A letter about war"))
    again = item("A letter…", output_snapshot=MemoryContentSnapshot(text="a letter  about tea"))
    assert sameness(one) != sameness(other)
    assert sameness(one) == sameness(again)


def test_the_same_words_with_another_picture() -> None:
    one, other = item("look", input_snapshot=picture("a")), item("look", input_snapshot=picture("b"))
    assert sameness(one) != sameness(other)
    assert sameness(one) == sameness(item("look", input_snapshot=picture("a")))


def chosen_plainly(scores: np.ndarray, vectors: np.ndarray, limit: int, diversity: float) -> list[int]:
    spread = np.ptp(scores)
    value = [(score - scores.min()) / spread if spread else 1.0 for score in scores]
    chosen: list[int] = []
    while len(chosen) < min(limit, len(scores)):
        worth = {
            at: (1 - diversity) * value[at] - diversity * max([0.0, *(vectors[at] @ vectors[one] for one in chosen)])
            for at in range(len(scores))
            if at not in chosen
        }
        chosen.append(max(worth, key=lambda at: worth[at]))
    return chosen


@given(
    seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12), limit=st.integers(0, 14), diversity=st.floats(0.05, 0.95)
)
def test_choosing_is_maximal_marginal_relevance(seed: int, count: int, limit: int, diversity: float) -> None:
    rng = np.random.default_rng(seed)
    scores, vectors = rng.random(count), rng.standard_normal((count, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert diversified(scores, vectors, limit, diversity) == chosen_plainly(scores, vectors, limit, diversity)
