"""Listing: orders and offsets, distinct values, taking the newest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from devmem import Filter, Scope
from devmem.errors import FilterError
from devmem.storage import Collection, Order, event_key, starts_with
from devmem.stores import Provenance, SourceKind
from devmem.testing import ManualClock
from tests.collection_suite.filters import note
from tests.collection_suite.fixtures import MODEL, OpenCollection, Opening, ids


class Listing(Opening):
    """`recent`, `scan`, `values` and `pop`."""

    def test_order_of_events(self, collection: Collection) -> None:
        """Event time first, creation time where there is none; then the sequence, then the order of storing."""
        collection.add(
            [
                note("late", event_time=9.0, created_at=0.0),
                note("second", event_time=5.0, metadata={"sequence": 2}),
                note("tenth", event_time=5.0, metadata={"sequence": 10}),
                note("first", event_time=5.0, metadata={"sequence": 1.5}),
                note("unnumbered", event_time=5.0, metadata={"sequence": "0"}),
                note("unnumbered too", created_at=5.0),
                note("early", created_at=1.0),
            ]
        )
        in_order = ["early", "unnumbered", "unnumbered too", "first", "second", "tenth", "late"]
        assert ids(list(collection.scan(order=Order.EVENT))) == in_order
        assert ids(sorted(collection.scan(), key=event_key)) == in_order
        assert ids(collection.recent(3, order=Order.EVENT)) == ["late", "tenth", "second"]
        assert ids(collection.recent(9, Filter(after=5.0, before=6.0), order=Order.EVENT)) == in_order[1:-1][::-1]

    @pytest.mark.parametrize("order", list(Order))
    def test_offset(self, collection: Collection, order: Order) -> None:
        """Pages add up to the whole, and a page beyond the end is empty."""
        collection.add([note(f"{n:03}", created_at=float(n), scope=Scope(user="ab"[n % 2])) for n in range(30)])
        where = Filter(scope=Scope(user="a"))
        whole = ids(collection.recent(99, where, order=order))
        pages = [ids(collection.recent(4, where, order=order, offset=start)) for start in range(0, 20, 4)]
        assert [name for page in pages for name in page] == whole
        assert ids(list(collection.scan(where, order=order, offset=5))) == whole[::-1][5:]
        assert list(collection.scan(where, order=order, offset=99)) == []

    def test_values_of_a_scope(self, collection: Collection) -> None:
        """Each once, in order, without those that are unscoped."""
        sessions = ["b", "a/2", "a/1", "a/1", None, "c"]
        collection.add(
            [
                note(str(n), scope=Scope(session=session, agent=session and session[0]))
                for n, session in enumerate(sessions)
            ]
        )
        assert collection.values("session") == ["a/1", "a/2", "b", "c"]
        assert collection.values("agent") == ["a", "b", "c"]
        assert collection.values("session", prefix="a/") == ["a/1", "a/2"]
        assert collection.values("session", limit=2, offset=1) == ["a/2", "b"]
        assert collection.values("session", Filter(scope=Scope(agent="a")), limit=1) == ["a/1"]
        assert collection.values("agent", Filter(scope_in={"session": starts_with("a/")})) == ["a"]
        assert collection.values("user") == []

    def test_values_of_metadata(self, collection: Collection) -> None:
        """Flags, then numbers, then texts; a list or a mapping is not a value to compare with."""
        found = ["b", 10, 2, True, "a", 2.0, None, ["a"], {"a": 1}, False, "10", "b", 0.5]
        collection.add([note(str(n), metadata={"key": value}) for n, value in enumerate(found)])
        values = [False, True, 0.5, 2, 10, "10", "a", "b"]
        assert collection.values("metadata.key") == values
        assert collection.values("metadata.key", limit=3, offset=4) == values[4:7]
        assert collection.values("metadata.key", limit=2) == values[:2]
        assert collection.values("metadata.key", offset=6) == values[6:]
        assert collection.values("metadata.key", prefix="a") == ["a"]
        assert collection.values("metadata.other") == []

    def test_values_of_one_users_sources(self, collection: Collection) -> None:
        """As a host names them by paths: each once, in order, those of nobody beside those of a user."""
        names = ["host.b.", "host.a.", "host.a.x.", "host.a.", "other", "host.c."]
        collection.add(
            [
                note(
                    f"{user} {n}",
                    scope=Scope(user=user, agent="cook" if n % 2 else None),
                    provenance=Provenance(kind=SourceKind.NODE, name=name),
                )
                for user, given in (("ann", names), (None, names[:2]), ("bob", ["host.z."]))
                for n, name in enumerate(given)
            ]
        )
        ann, nobody = Filter(scope=Scope(user="ann")), Filter(unbound=("user",))
        assert collection.values("source_name", ann) == ["host.a.", "host.a.x.", "host.b.", "host.c.", "other"]
        assert collection.values("source_name", ann, prefix="host.a.") == ["host.a.", "host.a.x."]
        assert collection.values("source_name", ann, limit=2, offset=1) == ["host.a.x.", "host.b."]
        assert collection.values("source_name", Filter(scope=Scope(user="ann", agent="cook"))) == ["host.a.", "host.c."]
        assert collection.values("source_name", nobody) == ["host.a.", "host.b."]
        either = Filter(scope=Scope(user="bob"), include_unscoped=True)
        assert collection.values("source_name", either, prefix="host.") == ["host.a.", "host.b.", "host.z."]
        assert collection.values("source_kind") == ["node"]
        with pytest.raises(FilterError, match=r"metadata\.KEY, not 'owner'"):
            collection.values("owner")

    def test_counts_of_values(self, collection: Collection) -> None:
        """The most frequent first; a list counts with its elements, None for what has no value; paths are followed."""
        found = ["b", "b", True, 1, 1.0, None, [], ["b", 1, {}], {"a": "b"}, {"a": ["x"]}, "z", "键"]
        collection.add(
            [
                note("none"),
                *(
                    note(str(n), scope=Scope(user="ann" if n % 2 else None), metadata={"k": value})
                    for n, value in enumerate(found)
                ),
            ]
        )
        counts = collection.value_counts("metadata.k")
        assert counts[:3] == [(None, 6), (1, 3), ("b", 3)]
        assert [repr(each) for each in counts[3:]] == ["(True, 1)", "('z', 1)", "('键', 1)"]
        assert collection.value_counts("metadata.k.a") == [(None, 11), ("b", 1), ("x", 1)]
        assert collection.value_counts("user") == [(None, 7), ("ann", 6)]
        assert collection.value_counts("metadata.k", Filter(metadata={"k": "b"}, scope=Scope(user="ann"))) == [("b", 1)]
        assert collection.value_counts("source_kind", Filter(scope=Scope(user="bob"))) == []
        with pytest.raises(FilterError, match=r"metadata\.KEY, not 'owner'"):
            collection.value_counts("owner")

    def test_values_of_expired_items_do_not_count(self, opened: OpenCollection) -> None:
        """As everywhere else."""
        clock = ManualClock()
        collection = opened(model=MODEL, clock=clock)
        collection.add([note("brief", scope=Scope(user="a"), expires_at=clock.now + 10)])
        collection.add([note("lasting", scope=Scope(user="b"))])
        assert collection.values("user") == ["a", "b"]
        clock.advance(10)
        assert collection.values("user") == ["b"]

    def test_pop_takes_the_newest(self, collection: Collection) -> None:
        """It returns what it deletes, newest first, and leaves what the filter does not admit."""
        collection.add([note(str(n), scope=Scope(session="ab"[n % 2])) for n in range(6)])
        assert ids(collection.pop()) == ["5"]
        assert ids(collection.pop(2, Filter(scope=Scope(session="a")))) == ["4", "2"]
        assert ids(list(collection.scan())) == ["0", "1", "3"]
        assert collection.pop(0) == []
        assert ids(collection.pop(9)) == ["3", "1", "0"]
        assert collection.pop() == []

    def test_no_item_is_popped_twice(self, collection: Collection) -> None:
        """Each goes to one of several callers."""
        collection.add([note(str(n)) for n in range(40)])
        with ThreadPoolExecutor(4) as pool:
            taken = [one.id for part in pool.map(lambda _: collection.pop(3), range(16)) for one in part]
        assert sorted(taken, key=int) == [str(n) for n in range(40)]
