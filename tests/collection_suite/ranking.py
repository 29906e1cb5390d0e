"""Ranking by more than words and meaning: passages, tokens, conversations, speakers, times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from devmem import Filter, MemoryContentSnapshot, MemoryItem, Scope
from devmem.search.spelling import SpellingCheck
from devmem.storage import Collection, Ranking, SearchQuery, passages_of
from devmem.testing.abilities import needs
from tests.collection_suite.fixtures import (
    EMBEDDER,
    MODEL,
    NOW,
    PLAIN,
    OpenCollection,
    Opening,
    add_encoded,
    asked,
    encoded,
    explained,
    found,
    item,
    record,
    turn,
    waiting_item,
)


class RankingEvidence(Opening):
    """Passages, token vectors, conversations, speakers, times."""

    def test_the_passage_that_was_found_is_given(self, collection: Collection) -> None:
        """Unless the summary has it, of which it repeats nothing."""
        rain = " ".join(f"Part {n} of the report is about taxes and rain." for n in range(60))
        whole = f"A zebra opens the report. {rain} At last a zeppelin lands."
        long = MemoryItem(
            id="long", content_summary=f"{whole[:300]}…", input_snapshot=MemoryContentSnapshot(text=whole)
        )
        add_encoded(collection, [long, turn("short", "A walrus sleeps.")])

        def passage(query: SearchQuery) -> str | None:
            hit = collection.search(query)[0]
            assert hit.snippet == hit.item.dated_summary() + (f"\n… {hit.passage}" if hit.passage else "")
            return hit.passage

        for query in (asked("Where does the zeppelin land?"), SearchQuery(text="zeppelin")):
            assert (passage(query) or "").endswith("At last a zeppelin lands.")
        start = passage(asked("zebra opens"))
        assert start is None or "zebra" not in start
        assert passage(asked("walrus sleeps")) is None

    def test_a_long_item_takes_no_places_of_others(self, collection: Collection) -> None:
        """Its passages are many, and each of them would be among the best candidates."""
        long = MemoryItem(id="long", content_summary="The lake is cold and deep. " * 1500)
        notes = [MemoryItem(id=f"{n}", content_summary=f"The lake is cold, note {n}.") for n in range(12)]
        assert len(passages_of(long)) > 40
        add_encoded(collection, [long, *notes])
        for limit in (3, 10):
            query = asked("the cold lake", candidates=10, limit=limit)
            assert len(found(collection, query)) == limit
            assert len(found(collection, SearchQuery(text=query.text, candidates=10, limit=limit))) == limit

    def test_a_long_item_is_found_by_its_last_passage(self, collection: Collection) -> None:
        """By words and by meaning, and its similarity is that of the passage."""
        story = " ".join(f"Part {n} of the report is about taxes and rain." for n in range(80))
        end = "At last a zeppelin lands."
        long = MemoryItem(id="long", content_summary=f"{story}\n{end}")
        assert len(passages_of(long)) > 3
        add_encoded(collection, [long, MemoryItem(id="short", content_summary="Rain and taxes.")])
        last = passages_of(long)[-1]
        assert found(collection, SearchQuery(text="zeppelin")) == ["long"]
        hit = collection.search(SearchQuery(vector=EMBEDDER.vector(last)))[0]
        assert hit.item.id == "long"
        assert hit.similarity == pytest.approx(1, abs=1e-4)
        assert found(collection, asked("zeppelin lands"))[0] == "long"
        late = MemoryItem(id="late", content_summary=f"{story} More of it.\nAn airship departs.")
        collection.add([late])
        (prepared,) = encoded([late])
        assert prepared.embeddings is not None
        collection.set_embeddings({"late": prepared.embeddings})
        assert found(collection, SearchQuery(vector=EMBEDDER.vector(passages_of(late)[-1])))[0] == "late"

    @needs("persists")
    def test_the_embeddings_of_every_passage_are_kept(self, opened: OpenCollection) -> None:
        """Whoever opens the place again, and writes to it, searches by what was embedded."""
        story = " ".join(f"Part {n} of the report is about taxes and rain." for n in range(80))
        long = MemoryItem(id="long", content_summary=f"{story}\nAt last a zeppelin lands.")
        titled = MemoryItem(
            id="titled", content_summary="a note", metadata={"title": "snow"}, indexed_fields=("title",)
        )
        before = opened(model=MODEL)
        add_encoded(before, [long, titled, turn("short", "A walrus sleeps.")])
        opened(model=MODEL).add([waiting_item("Tea at three.", id="waits")])
        after = opened(model=MODEL)
        for name, made in before.embeddings(["long", "titled", "short"]).items():
            kept = after.embeddings([name])[name]
            assert np.array_equal(made.vectors, kept.vectors)
            assert len(made.tokens or ()) == len(kept.tokens or ()) == len(made.vectors)
            assert all(map(np.array_equal, made.tokens or (), kept.tokens or ()))
        assert [one.id for one in after.waiting(9)] == ["waits"]
        assert after.search(SearchQuery(vector=EMBEDDER.vector("snow")))[0].field == "title"

    def test_token_vectors_decide(self, collection: Collection) -> None:
        """A text that has the query's words among many others is found by them, unless it is not asked for."""
        filler = "an alpha beta gamma delta epsilon zeta eta theta iota kappa lambda omicron sigma tau upsilon omega"
        items = [
            MemoryItem(id="long", content_summary=f"{filler} violet trumpet"),
            MemoryItem(id="short", content_summary="violet"),
            *(MemoryItem(id=f"other {n}", content_summary=f"something else {n}") for n in range(20)),
        ]
        add_encoded(collection, items)
        # Words count little beside the match here, so that it decides.
        query = replace(asked("violet trumpet"), text="")
        assert found(collection, query)[0] == "long"
        without = replace(query, ranking=replace(PLAIN, late_interaction=False))
        assert found(collection, without)[0] == "short"
        assert found(collection, without) == found(collection, replace(without, tokens=None))
        by_tokens, by_vector = explained(collection, query), explained(collection, without)
        assert (by_tokens.reranked, by_vector.reranked) == (len(items), 0)
        assert all(hit.rerank is not None for hit in by_tokens.hits)
        assert all(hit.rerank is None for hit in by_vector.hits)

    def test_items_without_encodings_among_those_with(self, collection: Collection) -> None:
        """A waiting item is found by its text, and is not ranked below every item with more signals."""
        add_encoded(collection, [turn(f"{n}", f"note {n} about rain", conversation=None) for n in range(20)])
        collection.add([waiting_item("the umbrella is in the hall", id="waits")])
        collection.add([item("the umbrella stand is green", id="no tokens")])
        query = asked("umbrella in the hall")
        hits = collection.search(query)
        assert hits[0].item.id == "waits"
        by_id = {hit.item.id: hit for hit in hits}
        assert (by_id["waits"].similarity, by_id["waits"].rerank) == (None, None)
        assert by_id["no tokens"].similarity is not None

    def test_a_long_answer_counts_by_its_opening(self, collection: Collection) -> None:
        """A field is no part of an answer: with one, a short answer is not long; what others say does not count."""
        rest = " ".join(f"Part {n} of the answer is about taxes and rain." for n in range(80))
        opening = "The night train to Vienna leaves from the main station."
        long = f"{' '.join([opening] * 12)} {rest}"
        items = [
            turn("long", long, metadata={"speaker": "assistant"}),
            turn("by a user", long, conversation="d", metadata={"speaker": "user"}),
            turn(
                "short",
                f"{opening} It is late.",
                conversation="e",
                metadata={"speaker": "assistant", "title": "trains"},
                indexed_fields=("title",),
            ),
        ]
        add_encoded(collection, items)
        hits = explained(collection, asked("the night train to Vienna, from the main station")).hits
        parts = {hit.item.id: hit.parts.get("opening", 0.0) for hit in hits}
        assert parts["long"] > 0
        assert (parts["by a user"], parts["short"]) == (0.0, 0.0)

    def test_a_conversation_lends_its_evidence(self, collection: Collection) -> None:
        """A short turn after one that matches gains; one of another conversation or user does not."""
        matching = turn("match", "Shall we take the night train to Vienna?")
        text = "Yes, the train, gladly."
        same, alone = turn("same", text), turn("alone", text, conversation=None)
        others = [turn("conversation", text, conversation="another"), turn("user", text, user="another")]
        noise = [turn(f"{n}", f"something about number {n}", conversation=f"{n}") for n in range(10)]
        add_encoded(collection, [matching, *others, alone, same, *noise])
        query = asked("night train to Vienna", limit=20, ranking=replace(PLAIN, collapse=False))
        hits = {hit.item.id: hit for hit in collection.search(query)}
        assert hits["same"].parts["window"] > 0
        assert hits["same"].score > hits["conversation"].score + 0.01
        assert hits["conversation"].score == pytest.approx(hits["user"].score, abs=1e-6)
        assert all("window" not in hits[name].parts for name in ("conversation", "user", "alone"))
        assert "conversation" not in hits["alone"].parts
        without = replace(query, ranking=replace(query.ranking, context=False))
        scores = [hit.score for hit in collection.search(without) if hit.item.content_summary == text]
        assert scores == pytest.approx([scores[0]] * 4)

    def test_an_answer_that_shares_nothing_with_the_question_is_found(self, collection: Collection) -> None:
        """The turns around the best hits are candidates too, unless the filter or the threshold excludes them."""
        talk = [turn("asks", "Which colour is your bicycle?"), turn("answers", "Turquoise.", trust=0.5)]
        noise = [turn(f"{n}", f"something about number {n}", conversation=f"{n}") for n in range(10)]
        add_encoded(collection, [*noise, *talk])
        query = asked("Which colour is your bicycle?", candidates=2, limit=2)
        assert found(collection, query) == ["asks", "answers"]
        assert "answers" not in found(collection, replace(query, ranking=replace(PLAIN, context=False)))
        assert "answers" not in found(collection, replace(query, where=Filter(min_trust=0.6)))
        assert found(collection, replace(query, min_similarity=0.5)) == ["asks"]

    def test_deleted_turns_are_no_neighbours(self, collection: Collection) -> None:
        """They lend nothing any more, and those around them become neighbours."""
        turns = [
            turn("question", "Shall we take the night train to Vienna?"),
            *(turn(f"between {n}", f"Unrelated remark {n}.") for n in range(3)),
            turn("answer", "Gladly."),
        ]
        add_encoded(collection, turns)
        query = asked("night train to Vienna", limit=20)

        def window() -> float:
            (hit,) = [hit for hit in collection.search(query) if hit.item.id == "answer"]
            return hit.parts.get("window", 0.0)

        far = window()
        collection.delete(ids=["between 0", "between 2"])
        near = window()
        assert near > far
        collection.delete(ids=["question"])
        assert window() < near

    def test_the_speaker_whom_the_query_names(self, collection: Collection) -> None:
        """A query that names a speaker ranks that speaker's words before the same words of another."""
        said = [turn(who, f"I like green tea {n}", metadata={"speaker": who}) for n, who in enumerate(("Ann", "Bob"))]
        add_encoded(collection, said)
        for who in ("Ann", "Bob"):
            hits = collection.search(asked(f"Which tea does {who} like?"))
            assert hits[0].item.id == who
            assert [hit.parts["speaker"] > 0 for hit in hits] == [True, False]
        assert all("speaker" not in hit.parts for hit in collection.search(asked("Which tea?")))

    def test_the_time_that_the_query_names(self, collection: Collection) -> None:
        """`boost` prefers what is of that time, `narrow` finds nothing else, `off` does not look."""
        day = 86_400.0
        days = {"week": NOW - 7 * day, "month": NOW - 40 * day, "today": NOW}
        items = [turn(name, "We went swimming", conversation=None, event_time=at) for name, at in days.items()]
        undated = turn("stored then", "We went swimming far out", conversation=None)
        add_encoded(collection, [*items, replace(undated, created_at=NOW - 8 * day)])
        query = asked("What did we do last week? swimming?")
        boosted = collection.search(query).hits
        assert {hit.item.id for hit in boosted[:2]} == {"week", "stored then"}
        assert len(boosted) == 4
        narrow = replace(query, ranking=replace(PLAIN, time="narrow"))
        report = explained(collection, narrow)
        assert {hit.item.id for hit in report.hits} == {"week", "stored then"}
        assert report.filtered == 2
        monday = datetime(2024, 3, 4, tzinfo=UTC).timestamp()
        assert report.period == (monday, monday + 7 * day)
        off = replace(query, ranking=replace(PLAIN, time="off"))
        assert all("in_time" not in hit.parts for hit in collection.search(off))
        assert explained(collection, off).period is None
        nowhere = replace(narrow, text="swimming in 1999? in 1999")
        assert found(collection, nowhere) == []

    def test_a_question_for_a_time_alone_is_answered_by_all_of_it_in_its_order(self, collection: Collection) -> None:
        """The day's own texts share no word with "What did we do", and others share some."""
        day, told = 86_400.0, ("soup", "rope", "a hull", "paint")
        noon = datetime(2024, 3, 14, 12, tzinfo=UTC).timestamp()
        items = [item(f"What did we do with {what}?", id=f"other {what}", event_time=noon - 9 * day) for what in told]
        items += [item(f"Mended {what}.", id=f"{hour}", event_time=noon + hour * 600) for hour, what in enumerate(told)]
        add_encoded(collection, items)
        query = replace(asked("What did we do on March 14th?"), now=noon + 20 * day)
        report = collection.search(query)
        assert [hit.item.id for hit in report.hits][:4] == ["0", "1", "2", "3"]
        assert report.asks_for_period
        assert found(collection, replace(query, limit=2))[0] == "0"
        about = replace(query, text="What did we do with rope on March 14th?")
        assert not collection.search(about).asks_for_period

    def test_words_that_no_item_has_decide_nothing_beside_a_short_time(self, collection: Collection) -> None:
        day = 86_400.0
        told = ("soup", "rope", "a hull", "paint", "the deck", "a sail")
        items = [item(f"Mended {what}.", id=f"{ago}", event_time=NOW - ago * day) for ago, what in enumerate(told)]
        add_encoded(collection, items)
        query = replace(asked("What was mended three days ago?"), now=NOW)
        assert not collection.search(query).asks_for_period
        on_board = replace(query, text="What was done on board the ship three days ago?")
        assert found(collection, on_board)[0] == "3"
        assert collection.search(on_board).asks_for_period
        assert not collection.search(replace(on_board, text="Was the rope aboard three days ago?")).asks_for_period

    def test_what_is_said_around_a_day_counts_less_than_what_is_said_on_it(self, collection: Collection) -> None:
        day = 86_400.0
        noon = datetime(2024, 3, 14, 12, tzinfo=UTC).timestamp()
        away = {"on it": 0, "the evening before": -1, "two days later": 2, "a week later": 7}
        items = [turn(name, "We went swimming", conversation=None) for name in away]
        add_encoded(collection, [replace(one, event_time=noon + away[one.id] * day) for one in items])
        hits = collection.search(replace(asked("Where did we go swimming on March 14th?"), now=noon + 20 * day))
        counted = {hit.item.id: hit.parts.get("in_time", 0.0) for hit in hits}
        assert counted["on it"] > counted["the evening before"] == counted["two days later"] > 0
        assert counted["a week later"] == 0
        alone = replace(asked("What did we do on March 14th?"), now=noon + 20 * day)
        assert found(collection, alone)[0] == "on it"

    def test_the_session_that_a_question_names(self, collection: Collection) -> None:
        """Sessions count in the order in which they began, from the last one too, without the one that still runs."""
        days = {"a": 9, "b": 5, "c": 2, "now": 0}
        items = [
            replace(
                turn(f"{name}{number}", f"{name} said {10 + number} words on tea", conversation=None),
                scope=Scope(session=name),
                event_time=NOW - ago * 86_400.0 - 60 + number,
            )
            for name, ago in days.items()
            for number in range(3)
        ]
        add_encoded(collection, items)

        def told(text: str) -> list[str]:
            query = replace(asked(text), now=NOW, limit=3)
            return [hit.item.id for hit in collection.search(query)]

        assert told("What did we discuss in our second session?") == ["b0", "b1", "b2"]
        assert told("What did we talk about in our last session?") == ["c0", "c1", "c2"]
        assert told("What did we discuss three sessions ago?") == ["a0", "a1", "a2"]
        in_b = replace(
            asked("What did we discuss in our first session?"), now=NOW, where=Filter(scope=Scope(session="b"))
        )
        assert {hit.item.id for hit in collection.search(in_b)} == {"b0", "b1", "b2"}
        assert not any(
            "in_time" in hit.parts for hit in collection.search(asked("What did we discuss 9 sessions ago?"))
        )

    def test_of_a_long_period_the_hits_are_spread_over_all_of_it(self, collection: Collection) -> None:
        start = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
        collection.add([item(f"entry {n + 1000}", id=f"{n}", event_time=start + n * 600) for n in range(400)])
        query = replace(asked("What happened in January 2024?"), limit=4)
        at = [int(hit.item.id) for hit in collection.search(query)]
        assert at == sorted(at)
        assert [number // 100 for number in at] == [0, 1, 2, 3]

    def test_a_date_without_a_year_is_the_next_one_where_nothing_is_of_the_last(self, collection: Collection) -> None:
        """Calendars are imported: "December 10" is the coming one unless the past one holds something."""
        coming = datetime(2024, 12, 10, 9, tzinfo=UTC).timestamp()
        collection.add(
            [item("Dentist at nine.", id="coming", event_time=coming), item("Tea.", id="tea", event_time=NOW)]
        )
        query = replace(asked("What are my plans for December 10?"), now=NOW)
        assert collection.search(query)[0].item.id == "coming"
        past = datetime(2023, 12, 10, 9, tzinfo=UTC).timestamp()
        collection.add([item("Snow.", id="past", event_time=past)])
        assert collection.search(query)[0].item.id == "past"

    def test_a_message_that_tells_something_is_ranked_by_meaning(self, collection: Collection) -> None:
        """Its words and tokens are found by chance; what it asks is ranked by them as ever."""
        items = [item(text, id=text) for text in ("alpha beta", "gamma delta", "epsilon zeta")]
        add_encoded(collection, items)
        text = "yesterday morning nobody understood anything"
        hits = collection.search(replace(asked(text), ranking=PLAIN))
        assert any("meaning" in hit.parts for hit in hits)
        for other in (f"{text}?", "nobody understood", "alpha beta gamma delta"):
            assert not any("meaning" in hit.parts for hit in collection.search(replace(asked(other), ranking=PLAIN)))

    def test_the_report_says_how_near_the_best_item_is(self, collection: Collection) -> None:
        """Whatever the threshold cuts, so that a caller can tell whether anything has to do with the query."""
        add_encoded(collection, [item("oolong tea", id="1"), item("a bus", id="2")])
        report = collection.search(asked("oolong tea"))
        assert report.best_similarity == pytest.approx(1.0, abs=0.01)
        assert report.best_score == pytest.approx(report.hits[0].score)
        far = collection.search(replace(asked("zzz"), min_similarity=0.99))
        assert far.hits == ()
        assert (far.best_similarity or 0.0) < 0.99

    def test_a_date_without_a_year_is_the_last_one_that_memories_reach(self, collection: Collection) -> None:
        """The last May is meant by "in May", or an earlier one where no candidate is of that May."""
        months = {"may": datetime(2022, 5, 8, tzinfo=UTC), "june": datetime(2022, 6, 8, tzinfo=UTC)}
        items = [turn(name, "We went swimming", conversation=None) for name in months]
        add_encoded(collection, [replace(one, event_time=months[one.id].timestamp()) for one in items])
        query = asked("Where did we go swimming in May?")
        assert [(hit.item.id, "in_time" in hit.parts) for hit in collection.search(query)] == [
            ("may", True),
            ("june", False),
        ]
        start, end = datetime(2022, 5, 1, tzinfo=UTC), datetime(2022, 6, 1, tzinfo=UTC)
        assert explained(collection, query).period == (start.timestamp(), end.timestamp())
        later = turn("later", "We went swimming", conversation=None)
        add_encoded(collection, [replace(later, event_time=datetime(2023, 5, 9, tzinfo=UTC).timestamp())])
        assert [hit.item.id for hit in collection.search(query) if "in_time" in hit.parts] == ["later"]
        with_year = replace(query, text="Where did we go swimming in May 2021?")
        assert all("in_time" not in hit.parts for hit in collection.search(with_year))

    def test_a_record_is_of_every_time_that_it_lasts_into(self, collection: Collection) -> None:
        """Also where it began before; an end alone, or one before the start, says nothing."""
        began = datetime(2024, 1, 20, tzinfo=UTC).timestamp()
        spans = {
            "long": {"from": "2024-01-20T00:00:00Z", "to": "2024-02-10T00:00:00Z"},
            "short": {"from": "2024-01-20", "to": "2024-01-25"},
            "wrong": {"from": "2024-01-20", "to": "2023-02-10"},
            "mail": {"from": "ann@example.org", "to": ["bo@example.org"]},
        }
        add_encoded(
            collection,
            [turn(name, f"Kitchen, {name}", event_time=began, metadata=span) for name, span in spans.items()],
        )
        hits = collection.search(asked("What about the kitchen in February?"))
        assert {hit.item.id: hit.parts.get("in_time", 0.0) > 0 for hit in hits} == {
            name: name == "long" for name in spans
        }

    def test_records_of_the_event_that_is_found(self, collection: Collection) -> None:
        """Records of the same hour gain, those of the same people more, and those of another user nothing."""
        noon = NOW - 30 * 86_400.0
        add_encoded(
            collection,
            [
                record("plan", "Barbecue at Dianshan lake", noon, about={"with": "Bo"}),
                record("same people", "He brings charcoal", noon + 600, kind="message", about={"with": ["Bo"]}),
                record("others", "She brings charcoal", noon + 600, kind="message", about={"with": "Cem"}),
                record("days later", "Who brings charcoal", noon + 5 * 86_400, kind="message", about={"with": ["Bo"]}),
                record("another user", "We bring charcoal", noon + 600, user="v"),
                record("turn", "I bring charcoal", noon + 600, kind="gossip"),
            ],
        )
        hits = collection.search(asked("Who was at the barbecue at Dianshan lake? charcoal"))
        gained = {hit.item.id: hit.parts.get("same_event", 0.0) for hit in hits}
        assert gained["same people"] > gained["others"] > gained["days later"]
        assert gained["others"] > gained["another user"]
        assert gained["turn"] == 0.0

    def test_people_and_place_of_a_record_are_found(self, collection: Collection) -> None:
        """By words, whether the text names them or not; only those of records."""
        records = [
            record("dinner", "Dinner", NOW, about={"with": ["Zhou Xiaofeng"], "where": "Luigi's"}),
            record("lunch", "Lunch", NOW, kind="gossip", about={"with": "Zhou Xiaofeng", "where": "Luigi's"}),
        ]
        add_encoded(collection, records)
        hits = collection.search(asked("Dinner or lunch with Zhou Xiaofeng?"))
        parts = {hit.item.id: hit.parts.get("speaker", 0.0) for hit in hits}
        assert parts["dinner"] > 0.0
        for name in ("Zhou Xiaofeng", "Luigi's"):
            assert [hit.item.id for hit in collection.search(SearchQuery(text=name)) if hit.lexical] == ["dinner"]

    def test_the_last_call(self, collection: Collection) -> None:
        """A question for the last time finds the last record that matches as well, not whatever came later."""
        at = [NOW - day * 86_400.0 for day in (40, 3, 90, 1)]
        texts = ["Call to Ann, 2 minutes", "Call to Ann, 12 minutes", "Call to Ann, 5 minutes", "Photo of the park"]
        kinds = ["call", "call", "call", "photo"]
        add_encoded(
            collection,
            [
                record(f"{n}", text, time, kind=kind)
                for n, (text, time, kind) in enumerate(zip(texts, at, kinds, strict=True))
            ],
        )
        for question in ("When did I last call Ann?", "my most recent call to Ann", "我上次 call Ann 是什么时候？"):
            assert found(collection, asked(question))[0] == "1"
        many = [
            record(f"x{n}", f"Call to Ann Li, {n} min", NOW - n * 86_400.0 - 9, kind="call", about={"with": "Ann Li"})
            for n in range(60)
        ]
        others = [
            record(f"y{n}", f"Call to Bo Li, {n} min", NOW - n, kind="call", about={"with": ["Bo Li"]})
            for n in range(9)
        ]
        add_encoded(collection, [*many, *others])
        last = asked("When was my last call with Ann Li?", candidates=10)
        assert found(collection, replace(last, ranking=replace(PLAIN, depth=10)))[:2] == ["x0", "x1"]
        plain = collection.search(asked("How long was the call to Ann last week?"))
        assert all("latest" not in hit.parts for hit in plain)

    def test_small_talk_beside_a_question_counts_little(self, collection: Collection) -> None:
        """With `focus`, only what asks something decides, also which time is meant; the report shows what that is."""
        add_encoded(
            collection,
            [item("we were on the cold lake in May", id="lake"), item("my sister arrives by train", id="train")],
        )
        message = "In May we were on the cold lake for hours! By the way, when does my sister arrive?"
        whole = explained(collection, SearchQuery(text=message, ranking=PLAIN))
        asked_alone = explained(collection, SearchQuery(text=message, ranking=replace(PLAIN, focus=True)))
        assert [hit.item.id for hit in whole.hits] == ["lake", "train"]
        assert [hit.item.id for hit in asked_alone.hits] == ["train", "lake"]
        assert whole.period is not None
        assert asked_alone.period is None
        assert (whole.asked, asked_alone.asked) == (None, "when does my sister arrive?")

    def test_a_misspelled_word_is_searched_for_as_what_is_meant(self, collection: Collection) -> None:
        """Any word of several items, or one of a vocabulary; deleted items count for nothing."""
        texts = {"a": "we receive parcels", "b": "they receive letters", "c": "a window, the parcels"}
        add_encoded(collection, [item(text, id=name) for name, text in texts.items()])

        def corrected(text: str, vocabulary: frozenset[str] | None = None) -> dict[str, str]:
            check = SpellingCheck(vocabulary=vocabulary)
            return dict(collection.search(SearchQuery(text=text, ranking=PLAIN, spelling=check)).corrected)

        mistyped = SearchQuery(text="recieve", ranking=PLAIN, spelling=SpellingCheck())
        assert set(found(collection, mistyped)) == {"a", "b"}
        assert found(collection, replace(mistyped, spelling=None)) == []
        assert corrected("who will recieve it?") == {"recieve": "receive"}
        assert corrected("who will receive it?") == {}
        assert corrected("which wiindow?") == {}, "a single item may have a typo itself"
        known = frozenset({"window", "receive", "widow", "letter", "relieve"})
        assert corrected("which wondow will recieve it?", known) == {"wondow": "window", "recieve": "receive"}
        assert collection.delete(ids=["a", "b"]) == 2
        assert corrected("who will recieve it?") == corrected("who will recieve it?", known) == {}

    def test_no_correction_tells_of_items_that_a_filter_hides(self, collection: Collection) -> None:
        """Only words that the search may find are meant, and only what it may find shows that a word is right."""
        own = [turn(f"a{n}", f"we receive parcels, {n}", user="ann") for n in range(2)]
        others = [turn(f"b{n}", f"they recieve lettuce, {n}", user="bob") for n in range(30)]
        add_encoded(collection, [*own, *others])

        def corrected(text: str, user: str | None) -> dict[str, str]:
            where = Filter(scope=Scope(user=user))
            for vocabulary in (frozenset({"receive", "lettuce"}), None):
                check = SpellingCheck(vocabulary=vocabulary)
                report = collection.search(SearchQuery(text=text, ranking=PLAIN, where=where, spelling=check))
                told.append(dict(report.corrected))
            assert told[-1] == told[-2]
            return told[-1]

        told: list[dict[str, str]] = []
        assert corrected("the letttuce that we recieve", "ann") == {"recieve": "receive"}
        assert corrected("the letttuce that we recieve", "bob") == {"letttuce": "lettuce"}
        assert corrected("the letttuce that we recieve", "cay") == {}
        assert corrected("the letttuce that we recieve", None) == {"letttuce": "lettuce"}

    def test_the_clock_is_asked_when_the_query_does_not_say_when(self, opened: OpenCollection) -> None:
        """Relative times in a query start from the collection's clock."""
        collection = opened(model=MODEL, clock=lambda: NOW)
        collection.add([item("a walk", id=f"{n}", event_time=NOW - n * 86_400.0) for n in range(4)])
        query = SearchQuery(text="the walk yesterday", ranking=Ranking(time="narrow"))
        assert found(collection, query) == ["1"]
        assert found(collection, replace(query, now=NOW - 86_400.0)) == ["2"]
