"""A filter lets through exactly what it says, for every operation that takes one; conditions and alternatives."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any

import pytest
from pydantic import JsonValue

from devmem import Filter, MemoryItem, Scope
from devmem.storage import (
    Collection,
    Condition,
    SearchQuery,
    above,
    absent,
    at_least,
    at_most,
    below,
    differs_from,
    one_of,
    starts_with,
)
from devmem.stores import Provenance, SourceKind
from tests.collection_suite.fixtures import EMBEDDER, NOW, Opening, add_encoded, asked, ids, item

_PARTS = [part.name for part in fields(Scope)]
_KEYS = [
    "plain",
    "with space",
    "a.b",
    'say "hi"',
    "back\\slash",
    "it's",
    "ключ",
    "键",
    "😀",
    "tab\there",
    "[0]",
    "$",
    "#",
]


def admitted(collection: Collection, where: Filter) -> list[str]:
    """Return the ids of the items that a filter admits; every operation must agree with `Filter.admits`."""
    found = ids(list(collection.scan(where)))
    assert found == [one.id for one in collection.scan() if where.admits(one, time.time())]
    hits = collection.search(SearchQuery(text="note", vector=EMBEDDER.vector("note"), where=where, limit=99))
    assert sorted(hit.item.id for hit in hits) == sorted(found)
    assert ids(collection.recent(99, where)) == found[::-1]
    assert collection.count(where) == len(found)
    return found


def note(name: str, **parts: Any) -> MemoryItem:
    """Return an item of a text that a search for notes finds."""
    return item(f"note {name}", id=name, **parts)


_TALK = ("When is the launch?", "On Friday, I think.", "Who told you?", "Ann did, in the launch meeting.")


def _turn(name: str, text: str, **parts: Any) -> MemoryItem:
    return item(text, id=name, embedding=None, created_at=NOW, **parts)


def _scores(collection: Collection, where: Filter) -> dict[str, float]:
    return {hit.item.id: hit.score for hit in collection.search(asked("When is the launch?", where=where))}


class Filtering(Opening):
    """Every part of `Filter`."""

    @pytest.mark.parametrize("part", _PARTS)
    def test_scope(self, collection: Collection, part: str) -> None:
        """Each part restricts, an item that is not bound to one is not everybody's, and nobody else's is ever shown."""
        mine, other = Scope(**{part: "mine"}), Scope(**{part: "other"})
        collection.add([note("mine", scope=mine), note("other", scope=other), note("free")])
        assert admitted(collection, Filter(scope=mine)) == ["mine"]
        assert admitted(collection, Filter()) == ["mine", "other", "free"]
        assert admitted(collection, Filter(scope=mine, include_unscoped=True)) == ["mine", "free"]
        assert admitted(collection, Filter(include_unscoped=True)) == ["mine", "other", "free"]
        assert admitted(collection, Filter(unbound=(part,))) == ["free"]
        assert admitted(collection, Filter(scope=mine, include_unscoped=True, unbound=(part,))) == ["free"]
        assert admitted(collection, Filter(scope=mine, unbound=(part,))) == []
        assert collection.delete(where=Filter(unbound=(part,))) == 1
        assert ids(list(collection.scan())) == ["mine", "other"]

    def test_several_unbound_parts(self, collection: Collection) -> None:
        """Every part that is named restricts, and a scope restricts beside it."""
        collection.add(
            [
                note("agent", scope=Scope(agent="a")),
                note("both", scope=Scope(agent="a", user="u")),
                note("session", scope=Scope(agent="a", session="s")),
            ]
        )
        assert admitted(collection, Filter(scope=Scope(agent="a"), unbound=("user",))) == ["agent", "session"]
        assert admitted(collection, Filter(unbound=("user", "session"))) == ["agent"]

    def test_all_parts_of_a_scope_must_match(self, collection: Collection) -> None:
        """Two parts narrow the scope, they do not widen it."""
        collection.add([note("a", scope=Scope(user="u", session="1")), note("b", scope=Scope(user="u", session="2"))])
        assert admitted(collection, Filter(scope=Scope(user="u", session="2"))) == ["b"]
        assert admitted(collection, Filter(scope=Scope(user="u"))) == ["a", "b"]

    def test_time(self, collection: Collection) -> None:
        """The event's time counts, and where there is none the time of storing; from `after` on, before `before`."""
        collection.add(
            [
                note("stored at 1", created_at=1.0),
                note("stored at 2", created_at=2.0),
                note("happened at 3", created_at=1.0, event_time=3.0),
                note("happened at 0", created_at=9.0, event_time=0.0),
            ]
        )
        assert admitted(collection, Filter(after=2.0)) == ["stored at 2", "happened at 3"]
        assert admitted(collection, Filter(before=2.0)) == ["stored at 1", "happened at 0"]
        assert admitted(collection, Filter(after=1.0, before=3.0)) == ["stored at 1", "stored at 2"]

    def test_source(self, collection: Collection) -> None:
        """Kind and name of the source restrict, each alone and both together."""
        collection.add(
            [
                note("a", provenance=Provenance(kind=SourceKind.FILE, name="x.md")),
                note("b", provenance=Provenance(kind=SourceKind.TOOL, name="x.md")),
                note("c", provenance=Provenance(kind=SourceKind.FILE, name="y.md")),
            ]
        )
        assert admitted(collection, Filter(source_kind="file")) == ["a", "c"]
        assert admitted(collection, Filter(source_name="x.md")) == ["a", "b"]
        assert admitted(collection, Filter(source_kind="file", source_name="x.md")) == ["a"]

    @pytest.mark.parametrize("key", _KEYS)
    def test_metadata_key(self, collection: Collection, key: str) -> None:
        """A key is a name, whatever is in it: no path, no pattern, no quoting."""
        collection.add([note("yes", metadata={key: "v"}), note("no", metadata={key: "w"}), note("none")])
        assert admitted(collection, Filter(metadata={key: "v"})) == ["yes"]

    @pytest.mark.parametrize(
        ("wanted", "others"),
        [
            ("1", [1, 1.0, True, None, ["1"], {"1": "1"}]),
            (1, ["1", 2, True, None, [1]]),
            (0, ["", None, "0", []]),
            (True, [1, "true", False, None]),
            (False, ["false", True, None]),
            (1.5, ["1.5", 1, 2, None]),
            ("", [" ", None, 0, []]),
            ("naïve 键 😀", ["naive 键 😀", "naïve"]),
            ("100%_", ["100xx", "100%"]),
            ("x' OR '1'='1", ["x"]),
            (2**53 + 1, [2**53, 2**53 + 2]),
        ],
    )
    def test_metadata_value(self, collection: Collection, wanted: str | float, others: list[JsonValue]) -> None:
        """A value matches itself and none that only looks like it."""
        collection.add([note("yes", metadata={"key": wanted})])
        collection.add([note(f"no {n}", metadata={"key": other}) for n, other in enumerate(others)])
        assert admitted(collection, Filter(metadata={"key": wanted})) == ["yes"]

    def test_metadata_of_a_lower_level(self, collection: Collection) -> None:
        """A dotted key is the key of that name, and where an item has none, a path through mappings, not lists."""
        collection.add(
            [
                note("deep", metadata={"a": {"b": 1}}),
                note("flat", metadata={"a.b": 1}),
                note("both", metadata={"a.b": 2, "a": {"b": 1}}),
                note("list", metadata={"a": [{"b": 1}], "c": {'say "hi"': {"键": True}}}),
            ]
        )
        assert admitted(collection, Filter(metadata={"a.b": 1})) == ["deep", "flat"]
        assert admitted(collection, Filter(metadata={"a.b": absent()})) == ["list"]
        assert admitted(collection, Filter(metadata={'c.say "hi".键': True})) == ["list"]
        assert admitted(collection, Filter(metadata={"b": 1})) == []

    def test_a_filter_that_is_used_again_sees_what_changed(self, collection: Collection) -> None:
        """Items that came, went or changed since the last search are compared too."""
        where = Filter(metadata={"room": 1})
        collection.add([note("stays", metadata={"room": 1}), note("moves in", metadata={"room": 2})])
        collection.add([note("moves out", metadata={"room": 1}), note("goes", metadata={"room": 1})])
        assert admitted(collection, where) == ["stays", "moves out", "goes"]
        collection.add([note("moves in", metadata={"room": 1}), note("moves out", metadata={"room": 2})])
        collection.delete(ids=["goes"])
        collection.add([note("comes", metadata={"room": 1}), note("else", metadata={"room": True})])
        assert admitted(collection, where) == ["stays", "moves in", "comes"]
        assert admitted(collection, Filter(metadata={"room": True})) == ["else"]

    @pytest.mark.parametrize(
        ("where", "hidden"),
        [
            (Filter(min_trust=0.5), {"trust": 0.1}),
            (Filter(scope=Scope(run="1")), {"scope": Scope(user="u", conversation="c", run="2")}),
            (Filter(metadata={"kept": True}), {}),
            (Filter(scope=Scope(user="u")), {"scope": Scope(user="other", conversation="c")}),
        ],
        ids=["trust", "run", "metadata", "user"],
    )
    def test_what_is_hidden_moves_no_score(self, collection: Collection, where: Filter, hidden: dict[str, Any]) -> None:
        """Neither as a neighbour nor in the words' statistics: scores are those of the admitted items collection."""
        kept = {"scope": Scope(user="u", conversation="c", run="1"), "trust": 0.9, "metadata": {"kept": True}}
        mine = [_turn(f"mine {n}", text, **kept) for n, text in enumerate(_TALK)]
        add_encoded(collection, mine)
        before = _scores(collection, where)
        poison = [
            _turn(f"hidden {n}", f"the launch is on Friday {n}", **{**kept, "metadata": {}, **hidden}) for n in range(9)
        ]
        collection.delete(ids=[one.id for one in mine])
        mixed = [one for pair in zip(mine, poison, strict=False) for one in pair] + poison[len(mine) :]
        add_encoded(collection, mixed)
        assert _scores(collection, where) == before

    def test_the_best_allowed_are_found_behind_better_ones(self, collection: Collection) -> None:
        """A filter is applied while searching, not to the first few hits."""
        collection.add([note(f"tea number {n}", scope=Scope(user="other")) for n in range(300)])
        collection.add([note("coffee", scope=Scope(user="me"))])
        query = SearchQuery(
            text="tea", vector=EMBEDDER.vector("note tea"), where=Filter(scope=Scope(user="me")), limit=1, candidates=1
        )
        assert [hit.item.id for hit in collection.search(query)] == ["coffee"]


_VALUES: dict[str, JsonValue] = {
    "one": 1,
    "two": 2,
    "half": 0.5,
    "flag": True,
    "text 1": "1",
    "a": "a",
    "ab": "ab",
    "b": "b",
    "zoe": "Zoë",
    "listed": ["a", 1],
    "null": None,
}


class Comparing(Opening):
    """Conditions and alternatives."""

    @pytest.mark.parametrize(
        ("condition", "wanted"),
        [
            (one_of(1, "a"), ["one", "a"]),
            (one_of(), []),
            (one_of(True), ["flag"]),
            (above(1), ["two"]),
            (at_least(1), ["one", "two"]),
            (below(1), ["half"]),
            (at_most(1), ["one", "half"]),
            (above("a"), ["ab", "b"]),
            (at_least("a"), ["a", "ab", "b"]),
            (below("a"), ["text 1", "zoe"]),
            (at_most("a"), ["text 1", "a", "zoe"]),
            (starts_with("a"), ["a", "ab"]),
            (starts_with("Zo"), ["zoe"]),
            (starts_with(""), ["text 1", "a", "ab", "b", "zoe"]),
            (differs_from("a"), [name for name in [*_VALUES, "absent"] if name != "a"]),
            (differs_from(1), [name for name in [*_VALUES, "absent"] if name != "one"]),
        ],
        ids=str,
    )
    def test_a_condition_on_metadata(self, collection: Collection, condition: Condition, wanted: list[str]) -> None:
        """Numbers compare with numbers and texts with texts; what is absent only differs."""
        collection.add([*(note(name, metadata={"key": value}) for name, value in _VALUES.items()), note("absent")])
        assert admitted(collection, Filter(metadata={"key": condition})) == wanted

    @pytest.mark.parametrize(
        ("condition", "wanted"),
        [
            (one_of("a/b", "c"), ["a/b", "c"]),
            (starts_with("a/"), ["a/", "a/b"]),
            (differs_from("c"), ["a/", "a/b", "a0", "free"]),
            (at_least("a0"), ["a0", "c"]),
        ],
        ids=str,
    )
    def test_a_condition_on_a_scope(self, collection: Collection, condition: Condition, wanted: list[str]) -> None:
        """One of several owners, all below one namespace, anybody but one."""
        names = ["a/", "a/b", "a0", "c"]
        collection.add([*(note(name, scope=Scope(session=name)) for name in names), note("free")])
        assert admitted(collection, Filter(scope_in={"session": condition})) == wanted

    def test_a_condition_on_the_source(self, collection: Collection) -> None:
        """Kind and name take conditions too."""
        kinds = (SourceKind.FILE, SourceKind.TOOL, SourceKind.USER)
        collection.add([note(kind.value, provenance=Provenance(kind=kind, name=f"x/{kind.value}")) for kind in kinds])
        assert admitted(collection, Filter(source_kind=one_of("file", "tool"))) == ["file", "tool"]
        assert admitted(collection, Filter(source_kind=differs_from("file"))) == ["tool", "user"]
        assert admitted(collection, Filter(source_name=starts_with("x/t"))) == ["tool"]

    def test_any_of(self, collection: Collection) -> None:
        """As source or as target; the other fields restrict beside it."""
        talks = {"1": ("ann", "bob"), "2": ("bob", "ann"), "3": ("bob", "cy"), "4": ("ann", "cy")}
        collection.add(
            [
                note(name, metadata={"from": source, "to": target}, scope=Scope(user="u" if name < "4" else "v"))
                for name, (source, target) in talks.items()
            ]
        )
        of_ann = (Filter(metadata={"from": "ann"}), Filter(metadata={"to": "ann"}))
        assert admitted(collection, Filter(any_of=of_ann)) == ["1", "2", "4"]
        assert admitted(collection, Filter(any_of=of_ann, scope=Scope(user="u"))) == ["1", "2"]
        assert admitted(collection, Filter(any_of=of_ann, metadata={"to": "cy"})) == ["4"]

    def test_an_empty_name_is_a_name(self, collection: Collection) -> None:
        """An empty name is a user of its own, not "no user"."""
        collection.add([note("empty", scope=Scope(user="")), note("free"), note("ann", scope=Scope(user="ann"))])
        assert admitted(collection, Filter(scope=Scope(user=""))) == ["empty"]
        assert admitted(collection, Filter(unbound=("user",))) == ["free"]
        assert admitted(collection, Filter(scope_in={"user": one_of("", "ann")})) == ["empty", "ann"]
