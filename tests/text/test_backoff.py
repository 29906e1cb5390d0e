"""When something that failed may be tried again, and calls that end, fail, or take too long."""

from __future__ import annotations

import contextvars
import threading

import pytest

from devmem.errors import DeadlineError
from devmem.redaction import without_credentials
from devmem.testing import ManualClock
from devmem.text.retry import Backoff, within


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


NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


def test_a_call_in_time_returns_its_result_in_the_callers_context() -> None:
    NAME.set("ann")
    assert within(60, NAME.get) == "ann"
    assert within(60, lambda: None) is None


def test_an_error_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


def test_a_call_over_time_is_left_to_itself() -> None:
    over = threading.Event()
    with pytest.raises(DeadlineError, match=r"no end within 0\.01 s"):
        within(0.01, over.wait)
    over.set()


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("no https://***@host/v1 there", "no https://ann:geheim@host/v1 there"),
        ("http://***@[::1]:80/", "http://token@[::1]:80/"),
        ("http://host/?mail=a@b.org", "http://host/?mail=a@b.org"),
        ("mail a@b.org", "mail a@b.org"),
    ],
)
def test_credentials_in_urls_are_masked(shown: str, text: str) -> None:
    assert without_credentials(text) == shown
