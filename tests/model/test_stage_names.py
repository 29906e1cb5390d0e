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


def test_the_last_stage_does_not_retrieve() -> None:
    assert set(Stage) - set(RETRIEVING) == {Stage.FINISHED}
