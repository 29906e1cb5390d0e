"""`DevmemSession` in the place of the Agents SDK's `SQLiteSession`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import agents
import pytest
from agents.memory import SessionSettings

import devmem
from devmem.adapters.openai_agents import DevmemSession


class SQLiteSession(DevmemSession):
    """A session in a file that is made as the SDK's is."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        self._opened = devmem.open(db_path, embedding=None)
        super().__init__(session_id, self._opened, session_settings=session_settings)

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests import one another as `tests.memory...`, as in their repository."""
    for folder in {parent for name in config.args for parent in Path(name).resolve().parents}:
        if (folder / "tests" / "__init__.py").is_file():
            sys.path.insert(0, str(folder))


_agents: Any = agents
_agents.SQLiteSession = SQLiteSession
