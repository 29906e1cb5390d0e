"""ChatDev with devmem's memory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.adapters.chatdev.scripted_service import ScriptedService

if find_spec("schema_registry"):
    # ChatDev's packages import each other in a circle, which works from this one.
    import runtime.bootstrap.schema

    runtime.bootstrap.schema.ensure_schema_registry_populated()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory, where ChatDev's relative paths start."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedService]:
    with ScriptedService() as service:
        monkeypatch.setenv("BASE_URL", service.address)
        monkeypatch.setenv("API_KEY", "key")
        monkeypatch.setenv("MEM0_API_KEY", "key")
        yield service


@pytest.fixture
def installed() -> Iterator[None]:
    from devmem.adapters.chatdev import install, uninstall

    install()
    yield
    uninstall()
