"""Pages of the public names of a package: signatures, docstrings, fields and methods, in Markdown for Sphinx."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

PACKAGES: Final = {
    "devmem": "everyday use",
    "devmem.errors": "every error",
    "devmem.messages": "messages, the queue, short-term memory",
    "devmem.workflow": "running workflows from a program",
    "devmem.recording": "recording of calls",
    "devmem.config": "workflow files as models",
    "devmem.models": "embedding providers, chat models, rerankers",
    "devmem.stores": "for authors of store types",
    "devmem.storage": "for authors of databases",
    "devmem.plugins": "registering store types",
    "devmem.server": "a memory for several users over HTTP",
    "devmem.telemetry": "OpenTelemetry",
    "devmem.testing": "suites and doubles for tests of plugins",
}
"""The packages whose names are public, with what they are for; a name that several have is described in the first."""
_SECTION: Final = re.compile(r"^(?P<name>Args|Returns|Raises|Yields|Attributes|Example|Examples):$")
_SECTION_TITLES: Final = {"Args": "Arguments"}
_DEFAULT_LENGTH: Final = 60


def public_names(package: str) -> list[str]:
    """Return the public names of a package: its `__all__`, or what it defines without an underscore."""
    module = importlib.import_module(package)
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return sorted(
        name for name, value in vars(module).items() if name[0] != "_" and getattr(value, "__module__", "") == package
    )


def package_page(package: str) -> str:
    """Return the page of a package: a description of each public name, in the order of the alphabet."""
    module = importlib.import_module(package)
    lines = [f"# {package}: {PACKAGES[package]}", "", markdown(inspect.getdoc(module) or ""), ""]
    for name in public_names(package):
        value = getattr(module, name)
        home = _described_in(package, name, value)
        if home != package:
            lines += [f"* `{package}.{name}` is {{py:obj}}`{home}.{name}`.", ""]
        else:
            lines += [*_description(f"{package}.{name}", value), ""]
    return "\n".join(lines)


def _described_in(package: str, name: str, value: object) -> str:
    for earlier in PACKAGES:
        if earlier == package:
            break
        if name in public_names(earlier) and getattr(importlib.import_module(earlier), name) is value:
            return earlier
    return package


def _description(name: str, value: object) -> list[str]:
    if inspect.isclass(value):
        return _class(name, value)
    if inspect.isfunction(value):
        return directive("function", f"{name}{_signature(value)}", inspect.getdoc(value) or "")
    return directive("data", name, _about_data(name.rpartition(".")[2], value) or f"`{_shortened(value)}`")


def _about_data(name: str, value: object) -> str:
    """Return the docstring below the assignment of a constant or an alias, wherever in devmem it stands."""
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("devmem") and vars(module).get(name) is value:
            about = described(_statements(module_name)).get(name)
            if about:
                return about
    return ""


def _class(name: str, cls: type) -> list[str]:
    kind = "exception" if issubclass(cls, BaseException) else "class"
    lines = [f"::::::{{py:{kind}}} {name}{_class_signature(cls)}", "", markdown(inspect.getdoc(cls) or ""), ""]
    for field, about in _fields(cls):
        lines += [*directive("attribute", f"{name}.{field}", about), ""]
    for method, value in _methods(cls):
        is_property = isinstance(value, property)
        function = value.fget if is_property else getattr(value, "__func__", value)
        sort = "property" if is_property else "method"
        signature = "" if is_property else _signature(function, bound=not isinstance(value, staticmethod))
        lines += [*directive(sort, f"{name}.{method}{signature}", inspect.getdoc(function) or ""), ""]
    return [*lines, "::::::"]


def directive(kind: str, signature: str, about: str) -> list[str]:
    """Return the lines of a directive of Sphinx's Python domain that describes a name."""
    return [f"::::{{py:{kind}}} {signature}", "", markdown(about), "", "::::"]


def _fields(cls: type) -> Iterator[tuple[str, str]]:
    """Return the described fields and the members of a class: an annotation or assignment with a docstring below."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("devmem"):
            found |= _documented_assignments(base)
    plain = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    members = list(cls.__members__) if issubclass(cls, enum.Enum) else []
    names = dict.fromkeys([*plain, *members, *getattr(cls, "model_fields", ()), *found])
    yield from ((name, found.get(name, "")) for name in names if name[0] != "_")


@cache
def _documented_assignments(cls: type) -> Mapping[str, str]:
    body = _statements(cls.__module__)
    for part in cls.__qualname__.split("."):
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == part), [])
    return described(body)


@cache
def _statements(module: str) -> list[ast.stmt]:
    """Return the statements of a loaded module; parsing it once for all its classes takes a tenth of the time."""
    return ast.parse(inspect.getsource(sys.modules[module])).body


def described(statements: list[ast.stmt]) -> dict[str, str]:
    """Return the names that are assigned or annotated with a docstring below."""
    found = {}
    for statement, following in itertools.pairwise(statements):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        text = following.value if isinstance(following, ast.Expr) else None
        name = targets[0].id if isinstance(targets[0], ast.Name) else None
        if name and isinstance(text, ast.Constant) and isinstance(text.value, str):
            found[name] = inspect.cleandoc(text.value)
    return found


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Return public methods and properties, of base classes too where these are no public names themselves."""
    seen = set()
    for base in cls.__mro__:
        own = base.__module__.startswith("devmem") and (base is cls or not _is_public(base))
        for name, value in vars(base).items() if own else ():
            is_method = inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))
            # The tests of a suite are run, not called.
            if not name.startswith(("_", "test_")) and name not in seen and is_method:
                seen.add(name)
                yield name, value


def _is_public(cls: type) -> bool:
    return any(
        cls.__name__ in public_names(package) and getattr(importlib.import_module(package), cls.__name__) is cls
        for package in PACKAGES
    )


class _Annotation(str):
    """An annotation that a signature prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _class_signature(cls: type) -> str:
    if issubclass(cls, enum.Enum) or getattr(cls, "_is_protocol", False) or inspect.isabstract(cls):
        return ""
    try:
        return _signature(cls)
    except ValueError:
        return ""


def _signature(value: Callable[..., object], *, bound: bool = False) -> str:
    signature = inspect.signature(value)
    parameters = [_parameter(parameter) for parameter in signature.parameters.values()]
    if bound and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    result = signature.return_annotation
    shown = inspect.Signature.empty if inspect.isclass(value) or result is inspect.Signature.empty else _named(result)
    return str(inspect.Signature(parameters, return_annotation=shown))


def _parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.annotation is not inspect.Parameter.empty:
        parameter = parameter.replace(annotation=_named(parameter.annotation))
    if parameter.default is not inspect.Parameter.empty:
        parameter = parameter.replace(default=_Annotation(_shortened(parameter.default)))
    return parameter


def _named(annotation: object) -> _Annotation:
    if isinstance(annotation, str):
        return _Annotation(annotation)
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return _Annotation(annotation.__name__)
    plain = re.sub(r"<\w+ (\S+?)(?: at 0x\w+)?>", r"\1", str(annotation))
    return _Annotation(re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", plain))


def _shortened(value: object) -> str:
    text = repr(value)
    return "..." if len(text) > _DEFAULT_LENGTH or " at 0x" in text or text.startswith("<") else text


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown: the entries of its sections become lists."""
    lines: list[str] = []
    within = False
    for line in docstring.splitlines():
        heading = _SECTION.match(line)
        if heading:
            within = True
            lines += [f"**{_SECTION_TITLES.get(heading['name'], heading['name'])}**", ""]
        elif within and line.startswith("    ") and not line.startswith("     "):
            name, colon, about = line.strip().partition(": ")
            lines.append(f"* `{name}`: {about}" if colon and re.fullmatch(r"[\w.*]+", name) else f"* {line.strip()}")
        elif within and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            within = within and not line
            lines.append(line)
    return "\n".join(lines)
