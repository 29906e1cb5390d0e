"""Conditions compare what they say, and `any_of` adds up what its parts admit."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from devmem import Filter, Scope
from devmem.storage import Collection, Condition, above, at_least, at_most, below, differs_from, one_of, starts_with
from devmem.stores import Provenance, SourceKind
from tests.collection_suite.filters import admitted, note
from tests.collection_suite.fixtures import Opening

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
        """It is somebody else than nobody."""
        collection.add([note("empty", scope=Scope(user="")), note("free"), note("ann", scope=Scope(user="ann"))])
        assert admitted(collection, Filter(scope=Scope(user=""))) == ["empty"]
        assert admitted(collection, Filter(unbound=("user",))) == ["free"]
        assert admitted(collection, Filter(scope_in={"user": one_of("", "ann")})) == ["empty", "ann"]
