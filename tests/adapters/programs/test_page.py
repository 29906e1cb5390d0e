"""The page of programs keeps what it says of itself, whether or not a host is installed."""

from __future__ import annotations

import ast

import pytest

from tests.adapters.pages import programs
from tests.adapters.programs.hosts import MODULES
from tools.hosts.__main__ import HOSTS
from tools.site.names import public_names


def test_every_host_without_an_adapter_has_a_program() -> None:
    assert list(programs()) == list(MODULES)
    assert [name for name, host in HOSTS.items() if host.is_program] == [
        title.lower().replace(" ", "_") for title in MODULES
    ]


@pytest.mark.parametrize("title", MODULES)
def test_a_program_is_short_and_uses_devmem_alone(title: str) -> None:
    code = programs()[title]
    assert 3 <= code.count("\n") <= 48
    tree = ast.parse(code)
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    from_modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "devmem" in imported
    assert not [name for name in (*imported, *from_modules) if name.startswith("devmem.")]
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_devmem(node.value)}
    assert used <= set(public_names("devmem"))


def _is_devmem(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "devmem"
