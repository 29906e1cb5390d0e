"""Store types in installed packages: listed without importing, loaded when they are named, failing one by one."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from devmem import ConfigError, load_workflow
from devmem.errors import NAME, BrokenPluginError, UnknownPluginError
from devmem.plugins import ENTRY_POINT_GROUP, StoreRegistry, StoreType, registry
from devmem.stores import ConfigModel
from tests.workflow.doubles import ScriptedStore

from .strangers import NOTES_SOURCE, install, points_in, registry_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the Python path; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def run_python(folder: Path, code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_names_are_listed_without_importing_a_store(tmp_path: Path) -> None:
    install(tmp_path, "jotter-dist", {"jotter": "jotter_pkg:Jotter"}, {"jotter_pkg": "raise RuntimeError('imported')"})
    code = (
        "import sys, devmem\n"
        "assert {'simple', 'blackboard', 'jotter'} <= set(devmem.plugins.registry.names())\n"
        "owner = devmem.plugins.registry.owner('jotter')\n"
        "assert owner == 'jotter-dist 1.0', owner\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('devmem_stores', 'jotter_pkg')])"
    )
    assert run_python(tmp_path, code) == "[]"


def test_a_strangers_installed_store_is_used_from_yaml(tmp_path: Path) -> None:
    install(tmp_path, "jotter-dist", {"jotter": "jotter_pkg:Jotter"}, {"jotter_pkg": NOTES_SOURCE})
    (tmp_path / "flow.yaml").write_text(
        "memory: [{name: j, type: jotter, config: {memory_path: j.db, mark: '!'}}]\n"
        "nodes: [{id: a, type: agent, config: {memories: [{name: j}]}}]\n"
    )
    code = (
        "import devmem\n"
        "workflow = devmem.load_workflow('flow.yaml')\n"
        "class Chat:\n"
        "    def complete(self, request): return devmem.stores.ChatReply(text='Pelican starts on May 5.')\n"
        "with devmem.open_stores(workflow) as stores:\n"
        "    devmem.WorkflowRunner(workflow, stores, chat_models=lambda node, config: Chat()).run('When?')\n"
        "    print(stores['j'].retrieve('', 'pelican')[0].content_summary)\n"
    )
    assert run_python(tmp_path, code) == "!Pelican starts on May 5."


def test_a_wrong_key_of_a_strangers_store_is_reported_with_its_line(path: Path) -> None:
    types = registry_of(install(path, "jotter-dist", {"jotter": "jotter_pkg:Jotter"}, {"jotter_pkg": NOTES_SOURCE}))
    (path / "flow.yaml").write_text("memory:\n  - name: j\n    type: jotter\n    config:\n      marck: '!'\n")
    with pytest.raises(ConfigError, match=r"flow\.yaml:5: memory\[0\]\.config\.marck: unknown key.*'mark'"):
        load_workflow(path / "flow.yaml", types=types)


def test_one_distribution_that_is_seen_twice_is_one(path: Path) -> None:
    folder = install(path, "jotter-dist", {"jotter": "jotter_pkg:Jotter"}, {"jotter_pkg": NOTES_SOURCE})
    types = StoreRegistry(discover=lambda: [*points_in(folder), *points_in(folder)])
    assert types.get("jotter").name == "jotter"


def described(name: str, factory: Any = ScriptedStore) -> StoreType:
    return StoreType(name=name, config_model=ConfigModel, factory=factory)


def test_a_distribution_whose_module_also_registers_its_store_does_not_clash_with_itself(path: Path) -> None:
    source = NOTES_SOURCE + '\nfrom devmem import register_memory_store\nregister_memory_store("twice_told")(Jotter)\n'
    install(path, "jotter-dist", {"twice_told": "jotter_pkg:Jotter"}, {"jotter_pkg": source})
    code = (
        "import devmem\n"
        "first = devmem.plugins.registry.get('twice_told')\n"
        "print(devmem.plugins.registry.get('twice_told').factory is first.factory)"
    )
    assert run_python(path, code) == "True"


@pytest.mark.parametrize(
    ("value", "source", "reason"),
    [
        pytest.param("broken_pkg:X", "import no_such_module_at_all", "no_such_module_at_all", id="import error"),
        pytest.param("broken_pkg:X", "raise ValueError('my config')", "ValueError: my config", id="any error"),
        pytest.param("broken_pkg:X", "def (", "SyntaxError", id="syntax"),
        pytest.param("broken_pkg:X", "", "no attribute 'X'", id="no such name"),
        pytest.param("broken_pkg", "", "not a subclass of devmem.MemoryBase", id="a module"),
        pytest.param("broken_pkg:X", "X = 3", "3 is not a subclass of devmem.MemoryBase", id="a number"),
        pytest.param("broken_pkg:X", "class X: pass", "not a subclass of devmem.MemoryBase", id="another class"),
        pytest.param(
            "broken_pkg:X",
            "from devmem import MemoryBase\nclass X(MemoryBase): pass",
            "X.config_model is not a subclass of devmem.stores.ConfigModel",
            id="no config_model",
        ),
        pytest.param(
            "broken_pkg:X",
            "from devmem import MemoryBase\nclass X(MemoryBase): config_model = dict",
            "X.config_model is not a subclass of devmem.stores.ConfigModel",
            id="another config_model",
        ),
    ],
)
def test_a_store_that_cannot_be_used_says_whose_it_is_and_why(path: Path, value: str, source: str, reason: str) -> None:
    broken = install(path / "broken", "broken-dist", {"broken": value}, {})
    fine = install(
        path, "jotter-dist", {"jotter": "jotter_pkg:Jotter"}, {"jotter_pkg": NOTES_SOURCE, "broken_pkg": source}
    )
    types = registry_of(broken, fine)
    with pytest.raises(BrokenPluginError, match=r"'broken' of broken-dist 1\.0 cannot be loaded") as caught:
        types.get("broken")
    assert reason in caught.value.reason
    assert caught.value.owner == "broken-dist 1.0"
    assert types.get("jotter").summary == "A stranger's notes"


@pytest.mark.parametrize(("name", "suggestion"), [("simpel", "simple"), ("blackbord", "blackboard"), ("qqq", None)])
def test_an_unknown_name_is_answered_with_the_closest_and_all_known(name: str, suggestion: str | None) -> None:
    with pytest.raises(UnknownPluginError, match=f"unknown store type '{name}'.*blackboard.*simple") as caught:
        registry.get(name)
    assert caught.value.suggestion == suggestion
    assert registry.owner(name) == ""


def test_another_thread_can_register_while_a_store_is_imported() -> None:
    """Imports wait for one another: a lock that is held during one can stop two threads for good."""
    types = StoreRegistry(discover=lambda: [SlowPoint(name="slow", value="x:y", group=ENTRY_POINT_GROUP)])

    class SlowPoint(EntryPoint):
        def load(self) -> Any:
            thread = Thread(target=types.register, args=(described("meanwhile"), "other_module"), daemon=True)
            thread.start()
            thread.join(timeout=20)
            assert not thread.is_alive()
            return ScriptedStore

    slow: object = types.get("slow").factory
    assert slow is ScriptedStore
    assert list(types.names()) == ["meanwhile", "slow"]


@pytest.mark.parametrize("group", ["collections", "embeddings", "guards", "rerankers", "stores"])
def test_the_installed_metadata_is_that_of_pyproject(group: str) -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = pyproject["project"]["entry-points"][f"devmem.{group}"]
    ours = [point for point in entry_points(group=f"devmem.{group}") if point.dist and point.dist.name == NAME]
    assert {point.name: point.value for point in ours} == declared, "the project must be installed again"


_PICKY = """
class Picky:
    def __init__(self, config): self.word = config.params["word"]
    def reason(self, text, before, item): return f"{self.word} is here" if self.word in text else None

def make(config, base_dir): return Picky(config)
"""


def test_a_strangers_check_of_a_guard_is_used_from_yaml(tmp_path: Path) -> None:
    """Found by its entry point, imported when a store names it."""
    install(tmp_path, "picky-dist", {"picky": "picky_pkg:make"}, {"picky_pkg": _PICKY}, group="devmem.guards")
    (tmp_path / "flow.yaml").write_text(
        "memory: [{name: j, type: simple, config: {memory_path: j.db, guard: {checks: [{type: picky, sources: [user], "
        "params: {word: cat}}]}}}]\n"
    )
    code = (
        "import sys, devmem\n"
        "from devmem.models.write_checks import write_check_names\n"
        "assert list(write_check_names()) == ['llm', 'orders', 'picky'] and 'picky_pkg' not in sys.modules\n"
        "with devmem.open('flow.yaml#j') as memory:\n"
        "    memory.add('A dog barks.')\n"
        "    memory.add('A cat sleeps.')\n"
        "    print([(one.text, one.quarantine_reason) for one in memory.list(quarantined=True)])\n"
    )
    assert run_python(tmp_path, code) == "[('A cat sleeps.', 'cat is here')]"
