"""Page of the public names of adapters, read from their sources: most of their frameworks are not installed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from tools.site.names import described, directive, markdown

ROOT: Final = Path(__file__).resolve().parents[2]
_FOLDER: Final = ROOT / "devmem/adapters"
_HEAD: Final = """\
# devmem.adapters: behind other frameworks

Every adapter's public names with their signatures; each section links to the page that explains them with examples.
Methods without a description are those of the framework's own interface.
"""
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def adapters() -> list[str]:
    """Return the names of the adapters that have a page."""
    pages = (page.stem for page in (ROOT / "docs/adapters").glob("*.md"))
    return sorted(name for name in pages if (_FOLDER / name).is_dir() or (_FOLDER / f"{name}.py").exists())


@cache
def public_definitions(adapter: str) -> dict[str, ast.ClassDef | _Function]:
    """Return what defines each public name of an adapter: the names of its `__all__`, or those without underscore."""
    package = _FOLDER / adapter
    files = (
        [package / "__init__.py", *sorted(package.glob("*.py"))] if package.is_dir() else [_FOLDER / f"{adapter}.py"]
    )
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    found = {
        node.name: node
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return {name: found[name] for name in _listed(trees[0]) or sorted(found) if name[0] != "_"}


def adapters_page() -> str:
    """Return the page of all adapters."""
    lines = [_HEAD]
    for adapter in adapters():
        module = f"devmem.adapters.{adapter}"
        lines += [f"## {module}", "", f"[How it is used](../adapters/{adapter}.md)", ""]
        for name, node in public_definitions(adapter).items():
            lines += [*_description(f"{module}.{name}", node), ""]
    return "\n".join(lines)


def _listed(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _description(name: str, node: ast.ClassDef | _Function) -> list[str]:
    about = ast.get_docstring(node) or ""
    if not isinstance(node, ast.ClassDef):
        return directive("function", f"{name}{_signature(node)}", about)
    methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    made = methods.get("__init__")
    lines = [f"::::::{{py:class}} {name}{_signature(made, bound=True) if made else ''}", "", markdown(about), ""]
    if made:
        lines += [markdown(ast.get_docstring(made) or ""), ""]
    for field, text in described(node.body).items():
        lines += [*directive("attribute", f"{name}.{field}", text), ""]
    for method in _public(methods):
        lines += [*_method(name, methods[method]), ""]
    return [*lines, "::::::"]


def _public(methods: dict[str, _Function]) -> Iterator[str]:
    yield from (name for name in methods if name[0] != "_")


def _method(owner: str, node: _Function) -> list[str]:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    about = ast.get_docstring(node) or ""
    if "property" in decorators:
        return directive("property", f"{owner}.{node.name}", about)
    return directive("method", f"{owner}.{node.name}{_signature(node, bound='staticmethod' not in decorators)}", about)


def _signature(node: _Function, *, bound: bool = False) -> str:
    arguments = ast.unparse(node.args)
    if bound:
        arguments = arguments.partition(", ")[2]
    is_init = node.name == "__init__"
    return f"({arguments})" + (f" -> {ast.unparse(node.returns)}" if node.returns and not is_init else "")
