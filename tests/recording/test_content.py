"""Contents and arguments of calls as text and JSON: faithful, bounded, without secrets, and never an exception."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from devmem.recording.content import Renderer, SecretMask
from tests.generated import examples

ROOM = 200


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Account(BaseModel):
    name: str
    key: SecretStr
    hidden: str = Field(default="not shown", exclude=True)


@dataclass
class Job:
    name: str
    lock: Any = field(default_factory=Lock)


class Raising(Mapping[str, str]):
    def __getitem__(self, key: str) -> str:
        raise RuntimeError("boom")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("boom")

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        raise RuntimeError("boom")


def render(value: object, max_length: int = 20_000, *patterns: str) -> str:
    return Renderer(max_length, SecretMask(patterns)).content(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        (np.int64(5), "5"),
        (np.float32(0.5), "0.5"),
        (Decimal("1.50"), '"1.50"'),
        (Path("a/b"), '"a/b"'),
        (datetime(2024, 5, 1, tzinfo=UTC), '"2024-05-01T00:00:00+00:00"'),
        ({"a": {1}}, '{"a": [1]}'),
        (Account(name="ann", key=SecretStr("k")), '{"name": "ann", "key": "[secret]"}'),
        (2**2000, '"[integer of 2001 bits]"'),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_values_are_recorded_as_what_they_are(value: object, text: str) -> None:
    assert render(value) == text


def test_what_cannot_be_read_says_so_and_raises_nothing() -> None:
    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("boom")

    class Nameless:
        def __repr__(self) -> str:
            raise ValueError("boom")

    assert "Raising that raises RuntimeError" in render(Raising())
    assert "Nameless that raises ValueError" in render([Nameless()])
    assert render(UnspeakableError()) == "UnspeakableError: <words that raise RuntimeError>"
    assert '"name": "x"' in render(Job("x")), "a lock cannot be copied, but it can be recorded"


class Unbound:
    """A proxy without its target, as those of web frameworks outside of a request."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("outside of a request")


class Measureless(str):
    def __len__(self) -> int:
        raise ValueError("boom")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Unbound(), "Unbound that raises RuntimeError"),
        (Measureless("x"), "Measureless that raises ValueError"),
        (Fraction(10**400), "Fraction that raises OverflowError"),
    ],
    ids=["proxy", "text", "fraction"],
)
def test_a_value_that_raises_as_soon_as_it_is_looked_at_is_recorded_as_that(value: object, name: str) -> None:
    assert name in render(value)
    assert name in render({"inside": value})


def test_a_value_that_holds_itself_and_one_that_is_huge_take_little() -> None:
    endless: list[object] = []
    endless += [endless, endless, "x"]
    assert len(render(endless)) < 40_000
    many = render(list(range(10**6)), ROOM)
    assert len(many) <= ROOM
    assert json.loads(render({str(n): n for n in range(10**5)}, 10**4))["…"].endswith(" more]")
    assert render("a" * 10**6, ROOM).endswith("… [1000000 characters]")


def test_arguments_share_their_room() -> None:
    arguments = Renderer(ROOM, SecretMask()).arguments({"first": "a" * 500, "second": "b" * 500, "n": 1})
    assert str(arguments["first"]).endswith("[500 characters]")
    assert len(json.dumps(arguments, ensure_ascii=False)) < 2 * ROOM


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "ant-aB1_" * 5,
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1" * 20,
        "hf_" + "Ab" * 17,
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "a" * 35,
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
        "BEARER abcdefghijklmnop123",
    ],
)
def test_keys_of_known_shapes_are_masked_wherever_they_stand(secret: str) -> None:
    assert render(f"before {secret} after") == "before [secret] after"
    assert secret not in render({"text": [f"x {secret}"], secret: 1})
    assert secret[:12] not in render("a" * (ROOM - 8) + " " + secret, ROOM), "cut to an unrecognizable half"


def test_addresses_keep_their_host_and_words_stay() -> None:
    assert (
        render("redis://:pw@host:1/0 and https://example.org/a@b")
        == "redis://[secret]@host:1/0 and https://example.org/a@b"
    )
    assert render("ask-me-anything-about-the-risk-assessment") == "ask-me-anything-about-the-risk-assessment"
    assert render({"max_tokens": 5, "client_secret": None}) == '{"max_tokens": 5, "client_secret": null}'


def test_patterns_of_the_users_own() -> None:
    assert render("card 1234-5678", 100, r"\d{4}-\d{4}") == "card [secret]"
    with pytest.raises(ValueError, match="not a regular expression"):
        SecretMask(["("])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=examples(20))
@given(_JSON, st.integers(min_value=60, max_value=500))
def test_contents_keep_their_limit(value: Any, longest: int) -> None:
    assert len(render(value, longest)) <= longest
