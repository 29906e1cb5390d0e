"""MetaGPT, without the packages that it only imports."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import devmem

if find_spec("metagpt"):
    from tools.hosts.shims.metagpt import prepare

    prepare()


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[devmem.Memory]:
    config = {"memory_path": str(tmp_path / "roles.db"), "memory_k": 3}
    with devmem.open({"type": "role_zero", "config": config}) as memory:
        yield memory


@pytest.fixture
def memory(whole: devmem.Memory) -> devmem.Memory:
    return whole.scoped(user="ann", session="monday")
