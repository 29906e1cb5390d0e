"""Selection of the hits among the candidates, and the report of those that were cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from devmem import Filter, Scope
from devmem.storage import Collection, Ranking, SearchQuery, Unique
from devmem.stores import Provenance, SourceKind
from tests.collection_suite.fixtures import PLAIN, Opening, add_encoded, asked, explained, found, item, turn


class RankingChoice(Opening):
    """Selection of the hits among the candidates, and the report of those that were cut."""

    def test_near_duplicates_collapse(self, collection: Collection) -> None:
        """Of those that say the same one is given, and the next best take the places of the others."""
        same = ["The meeting is on Friday.", "the meeting is on friday", "The meeting is: on Friday!"]
        items = [item(text, id=f"same {n}") for n, text in enumerate(same)]
        others = [item(f"The meeting about topic {n}", id=f"other {n}") for n in range(2)]
        collection.add([*items, *others])
        query = asked("the meeting on Friday", limit=3)
        hits = found(collection, query)
        assert len(hits) == 3
        assert len([name for name in hits if name.startswith("same")]) == 1
        assert {name for name in hits if name.startswith("other")} == {"other 0", "other 1"}
        everything = replace(query, ranking=replace(PLAIN, collapse=False), limit=10)
        assert len(found(collection, everything)) == 5

    def test_near_duplicates_of_other_files_or_other_paragraphs_collapse(self, collection: Collection) -> None:
        """Also where words or passages differ in what full-text search sees of them."""
        story = [f"Sentence {n} tells of the weather in some town." for n in range(40)]
        texts = [" ".join(story), "\n\n".join(story)]
        stories = [item(text, id=f"story {n}") for n, text in enumerate(texts)]
        places = ["notes.md", "notes-of-a-cat.md"]
        files = [
            item("The cat is black.", id=name, provenance=Provenance(kind=SourceKind.FILE, name=name))
            for name in places
        ]
        collection.add([*stories, *files])
        assert len(found(collection, asked("weather in town"))) == len({"story", "file"})
        assert len([name for name in found(collection, asked("notes of the black cat")) if name in places]) == 1
        assert len([name for name in found(collection, SearchQuery(text="is it the")) if name in places]) == 1

    def test_many_near_duplicates_take_no_places(self, collection: Collection) -> None:
        """However many there are, what else was found is given."""
        copies = [item(f"the meeting {'!' * n}", id=f"copy {n}") for n in range(40)]
        collection.add([*copies, item("a meeting of other people entirely", id="other")])
        hits = found(collection, asked("the meeting", limit=2))
        assert len(hits) == 2
        assert "other" in hits

    def test_what_only_begins_alike_or_has_no_words_does_not_collapse(self, collection: Collection) -> None:
        """No item disappears behind another that says something else."""
        texts = ["\U0001f44d", "\U0001f44e", "I agree", "I do not agree"]
        collection.add([item(text, id=text) for text in texts])
        assert sorted(found(collection, asked("\U0001f44d agree"))) == sorted(texts)

    def test_least_relevance(self, collection: Collection) -> None:
        """A question that nothing answers finds nothing, and what is left out is named."""
        collection.add([item(text, id=text) for text in ("the launch is on Friday", "rain in the garden", "green tea")])
        query = asked("the launch is on Friday")
        best, *others = (hit.score for hit in collection.search(query))
        assert others
        assert found(collection, replace(query, min_relevance=best)) == ["the launch is on Friday"]
        assert found(collection, replace(query, min_relevance=best + 0.01)) == []
        assert collection.conversations(replace(query, min_relevance=best + 0.01)) == []
        assert len(collection.conversations(replace(query, min_relevance=best))) == 1
        cut = explained(collection, replace(query, min_relevance=best)).cut
        assert {one.item_id for one in cut if one.reason == "less relevant than wanted"} == {
            "rain in the garden",
            "green tea",
        }

    def test_diverse_hits(self, collection: Collection) -> None:
        """With diversity something else comes before more of the same, and what was passed over is named."""
        rain = [item(f"rain rain rain and rain {n}", id=f"rain {n}") for n in range(4)]
        collection.add([*rain, item("rain on the tomatoes of the garden", id="garden")])
        query = asked("rain", limit=2)
        assert "garden" not in found(collection, query)
        diverse = replace(query, ranking=replace(PLAIN, diversity=0.7))
        hits = found(collection, diverse)
        assert hits[0].startswith("rain")
        assert hits[1] == "garden"
        cut = {one.item_id: one.reason for one in explained(collection, diverse).cut}
        assert "too much like the hits that were chosen" in cut.values()
        assert not set(cut) & set(hits)

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 20])
    @pytest.mark.parametrize("ranking", [PLAIN, replace(PLAIN, diversity=0.5), replace(PLAIN, collapse=False)])
    def test_explaining_gives_the_hits_of_a_search(self, collection: Collection, limit: int, ranking: Ranking) -> None:
        """And every other item that was looked at is named once, with the reason why it was cut."""
        same = [item(f"the meeting is on Friday{'.' * n}", id=f"same {n}") for n in range(3)]
        others = [item(f"the meeting about topic {n}", id=f"other {n}") for n in range(5)]
        far = item("tomatoes grow in the garden", id="far")
        collection.add([*same, *others, far])
        query = asked("the meeting on Friday", limit=limit, min_similarity=0.3, ranking=ranking)
        report = explained(collection, query)
        assert report.hits == collection.search(query).hits
        named = [hit.item.id for hit in report.hits] + [one.item_id for one in report.cut]
        assert sorted(named) == sorted(one.id for one in (*same, *others, far))
        assert report.candidates == len(named)

    def test_why_a_candidate_was_cut(self, collection: Collection) -> None:
        """By the threshold, as a near-duplicate of a hit, or by the limit."""
        collection.add(
            [
                item("the meeting is on Friday", id="best"),
                item("The meeting is on Friday!", id="twin"),
                item("the meeting on Monday is long", id="second"),
                item("tomatoes grow in the garden", id="far"),
            ]
        )
        report = explained(collection, asked("the meeting is on Friday", limit=1, min_similarity=0.3))
        (hit,) = report.hits
        reasons = {one.item_id: one for one in report.cut}
        assert hit.item.id in ("best", "twin")
        assert reasons["far"].reason == "less similar than the threshold"
        assert reasons["far"].similarity is not None
        assert reasons["far"].similarity < 0.3
        assert reasons["second"].reason == "beyond the number that was asked for"
        report = explained(collection, asked("the meeting is on Friday", limit=2, min_similarity=0.3))
        first, second = (hit.item.id for hit in report.hits)
        assert second == "second"
        (twin,) = [one for one in report.cut if one.reason == "says the same as a better hit"]
        assert (twin.like, {twin.item_id, first}) == (first, {"best", "twin"})
        assert twin.score is not None

    def test_what_the_filter_left_out_is_counted(self, collection: Collection) -> None:
        """Within the scope only: nobody learns how much others have. Long items count once."""
        long = "A story about rain. " * 100
        mine, other = Scope(user="mine"), Scope(user="other")
        collection.add([item(f"rain {n}", scope=mine) for n in range(3)])
        collection.add([item(f"rain {n} {long}", scope=mine, trust=0.2) for n in range(4)])
        collection.add([item(f"rain {n}", scope=other, trust=0.2) for n in range(5)])
        assert explained(collection, asked("rain")).filtered == 0
        assert explained(collection, asked("rain", where=Filter(scope=mine))).filtered == 0
        assert explained(collection, asked("rain", where=Filter(scope=mine, min_trust=0.5))).filtered == 4
        assert explained(collection, asked("rain", where=Filter(min_trust=0.5))).filtered == 9

    def test_a_very_long_query(self, collection: Collection) -> None:
        """It is searched by its beginning, and the report says how much was left out."""
        collection.add([item("rain in May"), item("the night train")])
        words = "rain " * (10_000 // 5)
        report = explained(collection, SearchQuery(text=words + "last week in May train " * 50_000, limit=1))
        assert report.hits[0].item.content_summary == "rain in May"
        assert report.query_cut == 50_000 * len("last week in May train ")
        assert report.period is None
        assert explained(collection, SearchQuery(text="rain")).query_cut == 0

    def test_the_parts_add_up_to_the_score(self, collection: Collection) -> None:
        """The score contributions of a hit sum up to its score."""
        items = [
            turn(f"{n}", f"{'I' if n % 2 else 'We'} saw the train {n} yesterday", metadata={"importance": n / 5})
            for n in range(5)
        ]
        add_encoded(collection, items)
        query = asked("when did we see the train", ranking=Ranking(importance=0.1))
        hits = collection.search(query)
        assert len(hits) == 5
        for hit in hits:
            assert sum(hit.parts.values()) == pytest.approx(hit.score)
            assert hit.recency == pytest.approx(1)
        report = explained(collection, query)
        assert set(report.stage_ms) == {"filter", "candidates", "late interaction", "features", "selection"}

    def test_importance(self, collection: Collection) -> None:
        """It decides between equals, when it is asked for."""
        collection.add([item(f"a note {n}", id=f"{n}", metadata={"importance": n}) for n in (1, 0)], unique=Unique.ID)
        query = SearchQuery(text="note", ranking=replace(PLAIN, importance=0.5))
        assert found(collection, query) == ["1", "0"]
        assert found(collection, replace(query, ranking=PLAIN)) == ["0", "1"], "the newer of equals comes first"
        odd = [item(f"odd {n}", metadata={"importance": n}) for n in (10**15, -1, True, "high")]
        collection.add(odd)
        assert len(collection.search(replace(query, text="odd"))) == len(odd), "any value is kept like other metadata"
