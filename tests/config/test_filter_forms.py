"""Filters as JSON and YAML have them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import devmem
from devmem import Filter, MemoryItem, Scope
from devmem.errors import FilterError
from devmem.storage import absent, at_least, below, contains, one_of, starts_with
from tests.collection_suite.agreement import FILTERS, ITEMS, NOW
from tests.generated import examples


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(where=FILTERS, items=ITEMS)
def test_a_form_says_what_its_filter_says(where: Filter, items: list[MemoryItem]) -> None:
    form = json.loads(json.dumps(devmem.dump_filter(where)))
    read = devmem.load_filter(form)
    assert [read.admits(item, NOW) for item in items] == [where.admits(item, NOW) for item in items], form
    assert devmem.load_filter(devmem.dump_filter(read)) == read


def test_unscoped_items_are_included_whatever_the_number_of_parts() -> None:
    read = devmem.load_filter({"user": "ann", "session": "s1", "include_unscoped": True, "metadata.topic": "launch"})
    assert read == Filter(scope=Scope(user="ann", session="s1"), include_unscoped=True, metadata={"topic": "launch"})
    both = Filter(scope=Scope(user="", session=""), include_unscoped=True, unbound=("session", "user"))
    assert devmem.load_filter(devmem.dump_filter(both)).admits(MemoryItem(content_summary="note"), NOW)


def test_each_form_of_a_condition() -> None:
    read = devmem.load_filter(
        {
            "agent": ["writer", "editor"],
            "user": "ann",
            "session": None,
            "source": {"^=": "reports/"},
            "metadata.topic": "launch",
            "metadata.stars": {">=": 3, "<": 5},
            "metadata.tags": [{"~=": "a"}, {"~=": ["b", "c"]}],
            "metadata.due": {"before": date(2026, 6, 2)},
            "metadata.room": None,
            "after": 5,
            "none_of": [{"metadata.state": "done"}, {"min_trust": 0.5}],
        }
    )
    assert read == Filter(
        scope=Scope(user="ann"),
        scope_in={"agent": one_of("writer", "editor")},
        unbound=("session",),
        source_name=starts_with("reports/"),
        metadata={
            "topic": "launch",
            "stars": (at_least(3), below(5)),
            "tags": (contains("a"), contains("b", "c")),
            "due": devmem.load_filter({"metadata.due": {"before": "2026-06-02"}}).metadata["due"],
            "room": absent(),
        },
        after=5.0,
        none_of=(Filter(metadata={"state": "done"}), Filter(min_trust=0.5)),
    )


_DEEP: dict[str, object] = {}
for _ in range(5_000):
    _DEEP = {"none_of": [_DEEP]}


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ([], "expected a mapping"),
        ({"topic": "a"}, "a key of the metadata is metadata.topic"),
        ({"usr": "a"}, "did you mean 'user'"),
        ({"metadata.": "a"}, "no item has such a key"),
        ({"any_of": [{}, {"metadata.a": {"$gt": 1}}]}, "any_of[1].metadata.a: no operator is '$gt'"),
        ({"any_of": []}, "any_of: expected a list"),
        ({"none_of": {"user": "a"}}, "none_of: expected a list"),
        ({"metadata.a": {}}, "metadata.a: expected an operator"),
        ({"metadata.a": {">": [1, 2]}}, "metadata.a: expected text, a number"),
        ({"metadata.a": {"^=": 1}}, "metadata.a: `^=` compares with text"),
        ({"metadata.a": [["x"]]}, "metadata.a: expected text, a number"),
        ({"metadata.a": float("nan")}, "NaN"),
        ({"user": 5}, "user: expected text"),
        ({"after": "soonish"}, "after: "),
        ({"after": True}, "after: expected a time"),
        ({"min_trust": "high"}, "min_trust: expected a number"),
        ({"include_unscoped": 1}, "include_unscoped: expected true or false"),
        ({"source_kind": "flie"}, "source_kind: expected one of file, import, node, summary, tool, user, not 'flie'"),
        ({"with": 3}, "with: expected a name or a list of names"),
        ({"with": []}, "with: expected a name"),
        ({"with": ["Ann", " "]}, "with: expected a name"),
        ({"during": "soonish"}, "during: expected a time such as `March 2026`"),
        ({"during": ["2026-05-01"]}, "during: expected a time"),
        ({"during": ["2026-05-02", "2026-05-01"]}, "during: the end is not after the start"),
        ({"during": ["2026-05-02", "soonish"]}, "during: "),
        ({"during": None}, "during: expected a time"),
        (_DEEP, "at most 50 levels"),
        ({"any_of": [{}] * 2_000}, "a list of 1 to 1,000 filters"),
    ],
)
def test_what_is_no_filter_is_refused_at_its_place(form: object, said: str) -> None:
    with pytest.raises(FilterError) as refused:
        devmem.load_filter(form)
    assert said in str(refused.value)


def test_people_and_time_of_records() -> None:
    """A name is one of several or the only one; a record is of every time that it lasts into."""
    memory = devmem.open(":memory:", embedding=None)
    spring = {"from": "2026-03-30T18:00:00+00:00", "to": "2026-04-02T20:00:00Z"}
    memory.add("The fair", metadata={"kind": "event", "with": ["Ann Li", "Bo"], **spring})
    memory.add("A call", metadata={"kind": "call", "with": "Ann Li"}, time="2026-05-02T18:00:00Z")
    memory.add("A note", time="2026-04-10")
    memory.add("A mail", metadata={"from": "Ann Li", "to": ["Bo"]}, time="2026-05-03")

    def matching(**form: object) -> set[str]:
        read = devmem.load_filter(form)
        assert devmem.load_filter(devmem.dump_filter(read)) == read
        return {record.text for record in memory.list(where=form)}

    assert matching(**{"with": "Ann Li"}) == {"The fair", "A call"}
    assert matching(**{"with": ["Bo", "Cem"]}) == {"The fair"}
    assert matching(**{"with": "Ann"}) == set()
    assert matching(during="April 2026") == {"The fair", "A note"}
    assert matching(during="may 2026") == {"A call", "A mail"}
    assert matching(during=["2026-04-02", "2026-04-03"]) == {"The fair"}
    assert matching(during=date(2026, 4, 10)) == {"A note"}
    assert matching(during="2026-03-30") == {"The fair"}
    assert f"{memory.list(where={'with': 'Bo'})[0].time:%Y-%m-%d}" == "2026-03-30", "its start is its time"


def test_a_memory_takes_the_form(tmp_path: Path) -> None:
    with devmem.open(str(tmp_path / "m.db"), embedding=None) as memory:
        memory.add("The launch moves.", metadata={"stars": 4, "tags": ["launch"]})
        memory.add("The launch party.", metadata={"stars": 2})
        asked = {"none_of": [{"metadata.tags": {"~=": "launch"}}]}
        assert [hit.text for hit in memory.search("launch", where=asked)] == ["The launch party."]
        assert memory.count(where={"metadata.stars": {">": 3}}) == len(memory.list(where={"metadata.stars": 4})) == 1
        assert memory.forget(where={"metadata.stars": {"<": 3}}).items == 1
        with pytest.raises(devmem.DevmemError, match=r"devmem\.ANY means everyone"):
            memory.search("launch", where={"user": ["ann", "bob"]})
