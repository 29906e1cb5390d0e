"""The docstrings under the fields of a configuration model, read from its source when they are asked for."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel


def field_description(model: type[BaseModel], name: str) -> str | None:
    """Return a field's description: that of its `Field`, or else the docstring under it, in its class or a base."""
    given = model.model_fields[name].description
    if given is not None:
        return given
    found = (_docstrings(base).get(name) for base in model.__mro__ if name in inspect.get_annotations(base))
    return next(found, None)


@cache
def _docstrings(model: type) -> Mapping[str, str]:
    """Return the docstrings of a class by field; none where its source cannot be had, as at a prompt."""
    try:
        source = dedent(inspect.getsource(model))
    except (OSError, TypeError):
        return {}
    (definition,) = ast.parse(source).body
    return dict(_documented(definition.body)) if isinstance(definition, ast.ClassDef) else {}


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                yield name, inspect.cleandoc(docstring)
            case _:
                pass
