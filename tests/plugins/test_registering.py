"""Store types that code registers: as a decorator, as a function, from a module that a workflow names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from devmem import ConfigError, load_workflow, register_memory_store
from devmem.errors import PluginClashError, PluginLoadError
from devmem.plugins import StoreRegistry, registry
from devmem.stores import ConfigModel, StoreSetup
from tests.workflow.doubles import ScriptedStore

from .strangers import NOTES_SOURCE


class NotesConfig(ConfigModel):
    """A setting."""

    color: str = "red"


class Notes(ScriptedStore):
    config_model = NotesConfig
    summary = "The class's own words"

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup.name)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> StoreRegistry:
    """A registry in the place of everyone's, so that a test leaves nothing behind."""
    fresh = StoreRegistry(discover=list)
    monkeypatch.setattr(sys.modules[StoreRegistry.__module__], "registry", fresh)
    return fresh


def test_the_decorator_gives_the_class_back_and_takes_its_words(own: StoreRegistry) -> None:
    assert register_memory_store("notes")(Notes) is Notes
    found = own.get("notes")
    assert (found.name, found.factory, found.config_model) == ("notes", Notes, NotesConfig)
    assert found.summary == own.summary("notes") == "The class's own words"
    assert own.config_model("notes") is NotesConfig
    assert own.owner("notes") == f"module {__name__}"
    assert list(own.names()) == ["notes"]


def test_the_function_takes_a_model_and_a_factory(own: StoreRegistry) -> None:
    def make(setup: StoreSetup) -> Notes:
        return Notes(setup)

    register_memory_store("notes", config_cls=NotesConfig, factory=make, summary="By hand")
    found = own.get("notes")
    assert (found.factory, found.config_model, found.summary) == (make, NotesConfig, "By hand")


@pytest.mark.parametrize("wrong", [object, ConfigModel, 3, type("NoModel", (ScriptedStore,), {"config_model": None})])
def test_what_is_no_store_class_is_refused_at_once(own: StoreRegistry, wrong: Any) -> None:
    with pytest.raises(TypeError, match="is not a subclass of devmem"):
        register_memory_store("notes")(wrong)
    assert list(own.names()) == []


def test_a_module_registers_a_name_once(own: StoreRegistry) -> None:
    def make(setup: StoreSetup) -> Notes:
        return Notes(setup)

    register_memory_store("notes", config_cls=NotesConfig, factory=make)
    for again in (make, lambda setup: Notes(setup), Notes):
        with pytest.raises(PluginClashError, match="'notes' is already registered by module"):
            register_memory_store("notes", config_cls=NotesConfig, factory=again)
    assert own.get("notes").factory is make


def test_a_definition_that_is_run_again_takes_the_place_of_the_former(own: StoreRegistry) -> None:
    cell = "class Cell(Notes): ..."
    for _ in range(2):
        names: dict[str, Any] = {"Notes": Notes, "__name__": "__main__"}
        exec(cell, names)
        register_memory_store("cell")(names["Cell"])
    assert own.get("cell").factory is names["Cell"]


def run_python(folder: Path, code: str) -> str:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FLOW = "plugins: [my_plugin]\nmemory: [{name: j, type: jotter, config: {mark: '!'}}]\n"


def test_a_file_beside_the_workflow_can_be_named_under_plugins(tmp_path: Path) -> None:
    """From any working directory, and as often as a workflow names it."""
    source = NOTES_SOURCE + '\nfrom devmem import register_memory_store\nregister_memory_store("jotter")(Jotter)\n'
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/my-plugin.py").write_text(source)
    (tmp_path / "flows/flow.yaml").write_text(FLOW.replace("[my_plugin]", "[./my-plugin.py]"))
    code = dedent(
        """
        import devmem
        for _ in range(2):
            workflow = devmem.load_workflow("flows/flow.yaml")
        with devmem.open_stores(workflow) as stores:
            print(type(stores["j"]).__name__)
        """
    )
    assert run_python(tmp_path, code) == "Jotter"


def test_a_file_that_does_not_exist_or_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    for file, reason in (("missing.py", "No such file"), ("broken.py", "ZeroDivisionError")):
        for _ in range(2):
            with pytest.raises(PluginLoadError, match=reason):
                registry.load_plugin(str(tmp_path / file))


def test_a_type_can_be_registered_before_anything_else_is_loaded(tmp_path: Path) -> None:
    code = dedent(
        """
        import devmem, sys

        @devmem.register_memory_store("mine", summary="Mine")
        class Mine(devmem.stores.CollectionMemory):
            def compose(self, payload):
                return devmem.stores.skipped("never")

        assert not any(name.startswith("devmem_stores") for name in sys.modules)
        assert {"mine", "simple"} <= set(devmem.plugins.registry.names())
        print(devmem.plugins.registry.summary("mine"), devmem.plugins.registry.summary("simple") != "")
        """
    )
    assert run_python(tmp_path, code) == "Mine True"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param(None, "there is no module 'broken_plugin_of_a_test'", id="not there"),
        pytest.param("import no_such_module_at_all", "there is no module 'no_such_module_at_all'", id="needs another"),
        pytest.param("raise ValueError('my config')", "ValueError: my config", id="fails"),
    ],
)
def test_a_plugin_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, reason: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if source is not None:
        (tmp_path / "broken_plugin_of_a_test.py").write_text(source)
    with pytest.raises(PluginLoadError) as caught:
        registry.load_plugin("broken_plugin_of_a_test")
    assert reason in caught.value.reason
    assert str(caught.value).startswith("module 'broken_plugin_of_a_test' cannot be imported: ")
    (tmp_path / "flow.yaml").write_text("plugins:\n  - broken_plugin_of_a_test\n")
    with pytest.raises(ConfigError, match=r"flow\.yaml:2: plugins\[0\]: module 'broken_plugin_of_a_test' cannot"):
        load_workflow(tmp_path / "flow.yaml")
