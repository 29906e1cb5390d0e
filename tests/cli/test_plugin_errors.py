"""Errors of a stranger's code name the store, its type and the file; they are not reported as devmem's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import load_workflow, open_stores
from devmem.errors import StorePluginError
from devmem.workflow.stores import make_store
from tests.cli.conftest import Devmem

PLUGIN = """
import devmem
from devmem.stores import CollectionMemory, ConfigModel, CollectionConfig

class Mine(CollectionMemory):
    config_model = CollectionConfig
    {method}

    def compose(self, payload):
        return devmem.stores.item_from(payload, "text", created_at=0.0)

devmem.register_memory_store("{name}", config_cls=CollectionConfig, factory={factory}, summary="A stranger's")
"""
FACTORY = {"method": "", "factory": "lambda setup: {}[1]"}
LOAD = {"method": "def load(self): open('/nonexistent/token')", "factory": "Mine"}
SEARCH = {"method": "def search(self, query): return [].pop()", "factory": "Mine"}
NOTHING = {"method": "", "factory": "lambda setup: None"}


def write(folder: Path, code: dict[str, str]) -> Path:
    # What is registered lasts as long as the process, and two files cannot register one name.
    name = f"mine_{folder.name}"
    (folder / "mine.py").write_text(PLUGIN.format(name=name, **code), encoding="utf-8")
    file = folder / "team.yaml"
    file.write_text(
        "plugins: [./mine.py]\n"
        f"memory: [{{name: notes, type: {name}, config: {{memory_path: n.db}}}}]\n"
        "nodes: [{id: n, type: agent, config: {provider: extractive, memories: [{name: notes}]}}]\n"
    )
    return file


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (FACTORY, "mine.py:12) failed: KeyError: 1"),
        (LOAD, "mine.py:7) failed: FileNotFoundError: [Errno 2]"),
        (NOTHING, "failed: TypeError: its factory returned None, which is not a devmem.MemoryBase"),
    ],
)
@pytest.mark.parametrize(
    ("command", "code_of_exit"),
    [
        (["run", "FILE", "--input", "Which tea?"], 2),
        (["add", "FILE", "notes", "Tea is at five."], 2),
        (["validate", "FILE"], 2),
        (["search", "FILE", "notes", "tea"], 2),
        (["stores", "FILE"], 1),
    ],
)
def test_what_fails_while_a_store_is_opened_is_the_plugins_error(
    devmem: Devmem, tmp_path: Path, command: list[str], code_of_exit: int, code: dict[str, str], says: str
) -> None:
    file = write(tmp_path, code)
    (tmp_path / "n.db").touch()
    result = devmem(*(str(file) if part == "FILE" else part for part in command), code=code_of_exit)
    said = " ".join(f"{result.stdout} {result.stderr}".split())
    assert "memory store 'notes': its type 'mine_" in said
    assert says in said
    assert "internal error" not in said


def test_what_fails_in_a_search_is_the_plugins_error(devmem: Devmem, tmp_path: Path) -> None:
    file = write(tmp_path, SEARCH)
    devmem("add", file, "notes", "Tea is at five.")
    result = devmem("search", file, "notes", "tea", code=2)
    assert "memory store 'notes': its type 'mine_" in result.stderr
    assert "IndexError" in result.stderr
    assert devmem("validate", file).exit_code == 0


def test_a_program_gets_the_same_error_with_its_cause(tmp_path: Path) -> None:
    workflow = load_workflow(write(tmp_path, LOAD))
    with pytest.raises(StorePluginError, match="'notes'") as failed, open_stores(workflow):
        pass
    assert (failed.value.store, failed.value.store_type) == ("notes", f"mine_{tmp_path.name}")
    assert isinstance(failed.value.__cause__, FileNotFoundError)
    make_store(workflow, "notes").close()
