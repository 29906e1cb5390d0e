"""How hits are ranked is plain data with harmless defaults."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from devmem.storage import Ranking


def test_what_only_some_want_is_off() -> None:
    """Without options hits are ranked by all the evidence, and by nothing that an application has to know of."""
    ranking = Ranking()
    assert (ranking.late_interaction, ranking.context, ranking.time, ranking.collapse) == (True, True, "boost", True)
    assert (ranking.importance, ranking.diversity) == (0.0, 0.0)


def test_options_are_named_and_never_change() -> None:
    ranking = Ranking()
    with pytest.raises(FrozenInstanceError):
        ranking.context = False  # type: ignore[misc]
    assert replace(ranking, context=False) != ranking
    assert hash(ranking) == hash(Ranking())
