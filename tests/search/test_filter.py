"""A filter evaluated on an item in plain Python."""

from __future__ import annotations

import pytest

from devmem import Filter, MemoryItem, Scope

NOW = 1_000.0


def test_an_unknown_unbound_part_is_refused_by_name() -> None:
    """The name would otherwise become a column of a query."""
    with pytest.raises(ValueError, match=r"'usr' is not a part of a scope \(agent, user, session"):
        Filter(unbound=("user", "usr"))


def test_an_expired_item_is_never_admitted() -> None:
    """Expiry begins at its very moment."""
    item = MemoryItem(content_summary="x", expires_at=NOW)
    assert not Filter().admits(item, NOW)
    assert Filter().admits(item, NOW - 1)


@pytest.mark.parametrize(("kept", "wanted", "same"), [(10**18, 1e18, True), (1, 1.0, True), (1, True, False)])
def test_numbers_compare_as_in_a_database(kept: float, wanted: float, *, same: bool) -> None:
    """A whole number is the same as an integer and as a float; a flag is not a number."""
    item = MemoryItem(content_summary="x", metadata={"key": kept})
    assert Filter(metadata={"key": wanted}).admits(item, NOW) is same


def test_unbound_and_or_unbound_together_admit_only_what_is_bound_to_nobody() -> None:
    """Every field of a filter narrows it."""
    where = Filter(scope=Scope(user="u"), include_unscoped=True, unbound=("user",))
    assert where.admits(MemoryItem(content_summary="x"), NOW)
    assert not where.admits(MemoryItem(content_summary="x", scope=Scope(user="u")), NOW)
