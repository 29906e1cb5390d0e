"""Calls that end, fail, or take too long."""

from __future__ import annotations

import contextvars
import threading

import pytest

from devmem.errors import DeadlineError
from devmem.redaction import without_credentials
from devmem.text.retry import within

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
