"""The JSON forms have the keys that `docs/cli.md` lists, whatever shows them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from devmem import (
    Hit,
    MemoryContentSnapshot,
    MemoryItem,
    MemoryRetrievalResult,
    Scope,
    SearchReport,
    Stage,
    WriteOutcome,
)
from devmem.model.results import RejectedCandidate, RejectReason, StoreWrite
from devmem.stores import HitGroup, WriteStatus
from devmem.views.documents import groups_json, hit_json, hits_json, item_json, report_json, run_json
from devmem.workflow import MemoryUpdateResult, NodeResult, RunResult, StoreFailure

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTION = re.findall(r"^\| ([^|]+) \| (`.*) \|$", PAGE[PAGE.index("## Output") : PAGE.index("## Running")], re.M)
LISTED = {form: set(re.findall(r"`(\w+)`", keys)) for form, keys in SECTION}

ITEM = MemoryItem(
    content_summary="Ann moved the launch.",
    metadata={"room": 5},
    embedding=np.array([1.0, 0.0], dtype=np.float32),
    input_snapshot=MemoryContentSnapshot(text="What happened?"),
    output_snapshot=MemoryContentSnapshot(text="Ann moved the launch."),
    scope=Scope(user="ann"),
    event_time=1.0,
    expires_at=4e9,
)
HIT = Hit(item=ITEM, score=0.7, similarity=0.5, lexical=1.2, parts={"match": 0.7}, passage="to June 2nd", store="notes")
WORDS_ONLY = Hit(item=MemoryItem(content_summary="Bob"), score=0.2, lexical=0.2, store="notes")


def test_an_item_has_the_listed_keys_and_no_embedding() -> None:
    form = json.loads(json.dumps(item_json(ITEM)))
    assert form.keys() == LISTED["item"]
    assert form["scope"] == {"user": "ann"}
    assert "expires_at" not in item_json(MemoryItem(content_summary="x"))


def test_a_hit_has_the_listed_keys() -> None:
    form = hit_json(HIT, waiting=False, parts=True)
    assert form.keys() == LISTED["hit"] | (LISTED["item"] - {"content_summary"})
    assert form["text"] == "Ann moved the launch."
    assert (form["recency"], form["similarity"]) == (None, 0.5)
    assert hit_json(WORDS_ONLY).keys().isdisjoint({"waiting", "parts", "passage"})


def test_a_hit_without_a_similarity_waits_where_others_have_one() -> None:
    assert [form["waiting"] for form in hits_json([HIT, WORDS_ONLY])] == [False, True]
    assert [form["waiting"] for form in hits_json([WORDS_ONLY])] == [False]


def test_neither_a_store_without_a_model_nor_the_latest_items_unasked_wait() -> None:
    of_another_store = replace(WORDS_ONLY, store="board")
    latest = Hit(item=MemoryItem(content_summary="Now"), score=1.0, recency=1.0, store="notes")
    assert [form["waiting"] for form in hits_json([HIT, of_another_store, latest])] == [False, False, False]


def test_a_search_has_the_listed_keys() -> None:
    cut = RejectedCandidate(item_id="d9", reason=RejectReason.NEAR_DUPLICATE, score=0.1, like="d1")
    report = SearchReport(hits=(HIT,), cut=(cut,), candidates=2, period=(1.0, 2.0), stage_ms={"words": 0.5})
    form = report_json(report)
    assert form.keys() == LISTED["search with `--explain`"]
    assert form["cut"][0] == {
        "id": "d9",
        "reason": "says the same as a better hit",
        "score": 0.1,
        "similarity": None,
        "like": "d1",
    }
    assert (form["period"], form["failure"]) == ([1.0, 2.0], None)


def test_a_conversation_has_the_listed_keys() -> None:
    (form,) = groups_json([HitGroup.of([HIT], 0.7, {"best": 0.7})], parts=True)
    assert form.keys() == LISTED["conversation"]
    (plain,) = groups_json([HitGroup.of([HIT], 0.7)])
    assert plain.keys() == LISTED["conversation"] - {"parts"}


def test_a_run_has_the_listed_keys() -> None:
    write = StoreWrite(store="notes", outcome=WriteOutcome(status=WriteStatus.STORED, item_id="d1"))
    recalled = MemoryRetrievalResult(formatted_text="", hits=(HIT,))
    node = NodeResult(
        node="a",
        text="June 2nd",
        recalled={Stage.PLAN: recalled, Stage.GEN: recalled},
        written={
            Stage.FINISHED: MemoryUpdateResult(
                writes=(write,), failures=(StoreFailure(store="board", operation="update", error=OSError("full")),)
            )
        },
    )
    form = run_json("When?", RunResult(nodes=(node,), output="June 2nd"))
    assert form.keys() == LISTED["run"]
    (shown,) = form["nodes"]
    assert shown.keys() == LISTED["node of a run"]
    assert shown["recalled"][0]["stages"] == ["plan", "gen"]
    assert shown["writes"][0].keys() == LISTED["write"]
    assert shown["failures"] == ["memory store 'board' could not update: full"]
    json.dumps(form)
