"""A workflow file or text to a checked `Workflow`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

from devmem.config.compose import compose
from devmem.config.environment import Environment
from devmem.config.reading import Reader
from devmem.config.source import read_text
from devmem.config.store_types import StoreTypes
from devmem.config.workflow import Workflow


def load_workflow(
    path: str | os.PathLike[str], store_types: StoreTypes, *, environ: Mapping[str, str] | None = None
) -> Workflow:
    """Read and check a workflow file.

    `environ` stands in for the process environment.

    Raises:
        ConfigError: the file cannot be read or used; carries every problem, each with its line and path.
    """
    file = pathlib.Path(path)
    text = read_text(file, str(path))
    return _parsed(text, store_types, origin=str(path), base_dir=file.parent, environ=environ).model_copy(
        update={"file": file}
    )


def parse_workflow(
    text: str,
    store_types: StoreTypes,
    *,
    origin: str = "",
    base_dir: pathlib.Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Workflow:
    """Read and check a workflow given as text.

    `origin` names the text in messages; `base_dir` is where relative paths start, else the working directory.

    Raises:
        ConfigError: the text cannot be used; carries every problem, each with its line and path.
    """
    return _parsed(text, store_types, origin=origin, base_dir=base_dir, environ=environ)


def _parsed(
    text: str,
    store_types: StoreTypes,
    *,
    origin: str,
    base_dir: pathlib.Path | None,
    environ: Mapping[str, str] | None,
) -> Workflow:
    document = compose(text, origin=origin)
    environment = Environment(environ, folder=base_dir)
    return Reader(document, store_types, environment).workflow(base_dir or pathlib.Path())
