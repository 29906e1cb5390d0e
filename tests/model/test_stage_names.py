"""Stages, by our names and by DevAll's."""

from __future__ import annotations

import pytest

from devmem import Stage
from devmem.model.caller import RETRIEVING


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("pre", Stage.PRE),
        ("plan", Stage.PLAN),
        ("pre_gen_thinking", Stage.PLAN),
        ("gen", Stage.GEN),
        ("critique", Stage.CRITIQUE),
        ("post_gen_thinking", Stage.CRITIQUE),
        ("finished", Stage.FINISHED),
    ],
)
def test_names(name: str, stage: Stage) -> None:
    assert Stage(name) is stage


@pytest.mark.parametrize("name", ["", "GEN", "pre_gen", 3])
def test_other_names_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid"):
        Stage(name)


def test_the_last_stage_does_not_retrieve() -> None:
    assert set(Stage) - set(RETRIEVING) == {Stage.FINISHED}
