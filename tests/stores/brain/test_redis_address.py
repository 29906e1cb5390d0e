"""The address of the Redis server in front of a `brain` store."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from devmem_stores.brain.config import RedisConfig


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"host": "cache", "port": 6380, "db": 2}, "redis://cache:6380/2"),
        ({"host": "127.0.0.1"}, "redis://127.0.0.1:6379/0"),
        ({"url": "rediss://cache/1"}, "rediss://cache/1"),
    ],
)
def test_host_and_port_are_an_address_too(given: dict[str, object], url: str) -> None:
    assert RedisConfig.model_validate(given).url.get_secret_value() == url


def test_an_address_and_a_host_are_one_too_many() -> None:
    with pytest.raises(ValidationError, match="host"):
        RedisConfig.model_validate({"url": "redis://cache/1", "host": "cache"})
