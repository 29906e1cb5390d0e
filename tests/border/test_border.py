"""Characters and values that no database or parser can hold are replaced or refused on every way in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import devmem
from devmem import (
    ConfigError,
    MemoryItem,
    Scope,
    acting_as,
    load_workflow,
)
from devmem.messages import Message
from devmem.storage import Filter, contains
from tests.command_line import run_devmem
from tests.server.conftest import serving_team

DIRTY = "An emoji \ud83d cut in two, a whole \ud83d\ude00, and\0 more"
CLEAN = "An emoji \ufffd cut in two, a whole 😀, and\ufffd more"
KEYS: dict[str, Any] = {"mood\udc00": [DIRTY, {"deep": DIRTY}], "n": 2**63 - 1, "share": 0.5, "none": None}
CLEAN_KEYS: dict[str, Any] = {"mood\ufffd": [CLEAN, {"deep": CLEAN}], "n": 2**63 - 1, "share": 0.5, "none": None}
NAMES = ["ann\0", "\ud83d"]


def nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


BAD_VALUES = [
    (float("nan"), "holds nan"),
    ([{"b": float("-inf")}], "holds -inf"),
    (2**63, "more than 64 bits"),
    (-(10**400), "more than 64 bits"),
    (nested(66), "nested too deeply"),
    (nested(100_000), "nested too deeply"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


def texts(file: Path) -> list[str]:
    with devmem.open(file, embedding=None) as memory:
        assert all(memory.get(record.id) == record for record in memory.list(9))
        return [record.text for record in memory.list(9)]


def test_a_text_and_metadata_in_python(file: Path) -> None:
    with devmem.open(file, embedding=None) as memory:
        plain = memory.add(DIRTY, metadata=KEYS)
        (message,) = memory.add({"role": "user", "content": DIRTY, "name": "ann", "metadata": KEYS})
        changed = memory.add("before")
        memory.update(changed, text=DIRTY, metadata=KEYS)
        for record in memory.get([plain, message, changed]):
            assert (record.text, {key: record.metadata[key] for key in CLEAN_KEYS if key != "none"}) == (
                CLEAN,
                {key: value for key, value in CLEAN_KEYS.items() if key != "none"},
            )
        assert memory.search(DIRTY)[0].text == CLEAN
        assert CLEAN in memory.context("emoji \ud83d").encode().decode()
        assert memory.count(where=Filter(metadata={"mood\udc00": contains(DIRTY)})) == 3
        assert memory.count(where=Filter(metadata={"share": 0.5})) == 3


WORKFLOW = """\
memory:
  - name: notes
    type: simple
    config: {memory_path: notes.db}
nodes:
  - id: answer
    type: agent
    config: {memories: [{name: notes}]}
"""


@pytest.mark.parametrize("text", [r"a\0b", r"a\ud83db"])
def test_a_workflow_with_such_a_character_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    """Whoever writes a file can take it out."""
    path = tmp_path / "team.yaml"
    path.write_text(WORKFLOW.replace("notes.db", f'"{text}"'), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"team\.yaml:4: "):
        load_workflow(path)


def test_a_command_line(file: Path) -> None:
    """Bytes that are no UTF-8 arrive as halves of surrogate pairs; a process cannot be given a NUL."""
    run_devmem("add", file, "one byte \udcff of Latin-1")
    run_devmem("add", file, "-", stdin=b"from stdin \xff and \0")
    command: list[str | bytes] = [sys.executable, "-m", "devmem", "add", str(file), b"as a process \xff"]
    refused = subprocess.run([*command, "--user", b"\xff"], capture_output=True, check=False)
    assert (refused.returncode, b"half a surrogate pair" in refused.stderr) == (2, True)
    subprocess.run(command, check=True, capture_output=True)
    assert texts(file) == ["as a process \ufffd", "from stdin \ufffd and \ufffd", "one byte \ufffd of Latin-1"]
    assert "\ufffd of Latin-1" in run_devmem("search", file, "byte \udcff").output


def test_an_import(tmp_path: Path, file: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"text": DIRTY, "metadata": KEYS}) + "\n", encoding="utf-8")
    run_devmem("import", file, data)
    (tmp_path / "team.yaml").write_text(WORKFLOW, encoding="utf-8")
    assert texts(file) == [CLEAN]
    data.write_text('{"text": "x", "user": "ann\\u0000"}\n', encoding="utf-8")
    assert "data.jsonl:1" in run_devmem("import", file, data, code=2).output
    assert texts(file) == [CLEAN]


def test_http_and_mcp(tmp_path: Path) -> None:
    with serving_team(tmp_path) as team:
        # Escapes of halves, which most parsers refuse.
        body = json.dumps({"memories": [{"text": DIRTY, "metadata": {"mood": DIRTY}}]})
        added = team.request("POST", "/v1/memories", content=body, user="ann")
        assert added.status_code == 201, added.text
        (found,) = team.request("GET", "/v1/memories", user="ann").json()["memories"]
        assert (found["text"], found["metadata"]) == (CLEAN, {"mood": CLEAN})

        async def ask() -> Any:
            async with team.mcp("ann") as client:
                await client.call_tool("remember", {"text": "Another \0 note"})
                return await client.call_tool("recall", {"query": "emoji note"})

        told = asyncio.run(ask()).structured_content["memories"]
        assert {each["text"] for each in told} == {CLEAN, "Another \ufffd note"}


@pytest.mark.parametrize("name", NAMES, ids=["NUL", "half a pair"])
@pytest.mark.parametrize(
    "use",
    [
        lambda memory, name: memory.add("x", user=name),
        lambda memory, name: memory.add("x", id=name),
        lambda memory, name: memory.add(Message("x", id=name)),
        lambda memory, name: memory.scoped(session=name),
        lambda memory, name: acting_as(name).__enter__(),
        lambda memory, name: devmem.trace(conversation=name).__enter__(),
        lambda memory, name: Scope(conversation=name),
        lambda memory, name: MemoryItem(content_summary="x", id=name),
    ],
)
def test_a_name_is_refused(use: Callable[[devmem.Memory, str], object], name: str) -> None:
    """With another character in its place, it could be somebody else's."""
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("there")
        with pytest.raises(ValueError, match="which no name may"):
            use(memory, name)
        assert len(memory) == 1


@pytest.mark.parametrize(("value", "said"), BAD_VALUES)
def test_a_value_that_cannot_be_kept_is_refused(value: Any, said: str) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("there", id="1")
        for use in (
            lambda: memory.add("x", metadata={"key": value}),
            lambda: memory.add(Message("x", metadata={"key": value})),
            lambda: memory.update("1", metadata={"key": value}),
            lambda: MemoryItem(content_summary="x", metadata={"key": value}),
        ):
            with pytest.raises(ValueError, match=f"'key' .*{said}"):
                use()
        assert [record.metadata for record in memory] == [{}]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "键", ""]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(value=_JSON)
def test_everything_else_is_let_in_unchanged(value: Any) -> None:
    assert MemoryItem(content_summary="x", metadata={"key": value}).metadata == {"key": value}
    assert Message("x", metadata={"key": value}).metadata == {"key": value}
