"""When something that failed may be tried again."""

from __future__ import annotations

import pytest

from devmem.testing import ManualClock
from devmem.text.retry import Backoff


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


def test_each_wait_is_twice_as_long_up_to_the_longest(clock: ManualClock) -> None:
    backoff = Backoff(first=5, longest=18, clock=clock)
    waits = []
    for _ in range(4):
        backoff.failed()
        waits.append(backoff.left)
        clock.advance(backoff.left)
        assert backoff.left == 0
    assert waits == [5, 10, 18, 18]


def test_a_success_starts_over(clock: ManualClock) -> None:
    backoff = Backoff(first=5, clock=clock)
    for _ in range(3):
        backoff.failed()
        clock.advance(backoff.left)
    backoff.worked()
    assert backoff.left == 0
    backoff.failed()
    assert backoff.left == 5


def test_calls_that_fail_together_count_once(clock: ManualClock) -> None:
    backoff = Backoff(first=5, clock=clock)
    for _ in range(4):
        backoff.failed()
        clock.advance(1)
    assert backoff.left == 1


def test_a_number_of_failures_may_pass_without_a_wait(clock: ManualClock) -> None:
    backoff = Backoff(first=30, failures=3, clock=clock)
    backoff.failed()
    backoff.failed()
    assert backoff.left == 0
    backoff.failed()
    assert backoff.left == 30


def test_a_service_may_ask_for_a_longer_wait(clock: ManualClock) -> None:
    backoff = Backoff(first=5, failures=3, clock=clock)
    backoff.failed(retry_after=60)
    assert backoff.left == 60
    backoff.failed(retry_after=2)
    assert backoff.left == 60


def test_one_caller_tries_after_a_wait_while_the_others_are_refused(clock: ManualClock) -> None:
    backoff = Backoff(first=5, clock=clock)
    backoff.failed()
    assert not backoff.admits()
    clock.advance(5)
    assert [backoff.admits(), backoff.admits()] == [True, False]
    backoff.failed()
    assert backoff.left == 10
    clock.advance(10)
    assert backoff.admits()
    backoff.worked()
    assert [backoff.admits(), backoff.admits()] == [True, True]


def test_an_attempt_that_is_never_reported_bars_nobody_for_good(clock: ManualClock) -> None:
    backoff = Backoff(first=5, clock=clock)
    backoff.failed()
    clock.advance(5)
    assert backoff.admits()
    clock.advance(5)
    assert backoff.admits()
