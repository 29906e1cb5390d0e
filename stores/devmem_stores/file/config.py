"""Configuration of the `file` store type."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from devmem.config.base import KNOWN_HOME
from devmem.stores import CollectionConfig, ConfigModel, HistoryDays


def _as_list(value: object) -> object:
    """Let one value stand for a list of it."""
    return [value] if isinstance(value, (str, dict, ConfigModel)) else value


def _suffix(value: str) -> str:
    suffix = value.strip().lower().removeprefix("*")
    if not suffix.strip("."):
        raise ValueError("expected an ending such as .md")
    return suffix if suffix.startswith(".") else f".{suffix}"


def _known_encoding(value: str) -> str:
    try:
        codecs.lookup(value)
    except LookupError as error:
        raise ValueError(f"there is no encoding {value!r}; leave the key out to have it detected") from error
    return value


Suffix = Annotated[str, AfterValidator(_suffix)]
_OneOrMany: Final = BeforeValidator(_as_list, json_schema_input_type=list[str] | str | None)


class FileSource(ConfigModel):
    """Files that a `file` store indexes."""

    path: Annotated[str, KNOWN_HOME] = Field(min_length=1)
    """A file, a folder, or a pattern with `*`, `?` or `**`; relative to the workflow's folder."""
    file_types: Annotated[list[Suffix] | None, _OneOrMany] = None
    """Endings such as `.md`, in any case; absent takes texts, documents and source code, and no binary file."""
    recursive: bool = True
    """Look into subfolders too."""
    encoding: Annotated[str, AfterValidator(_known_encoding)] | None = None
    """Encoding of the files; absent detects it for each."""
    exclude: Annotated[list[str], _OneOrMany] = Field(default_factory=list)
    """Patterns of files to leave out, as in a `.gitignore`, relative to the source."""
    gitignore: bool = False
    """Leave out files that the `.gitignore` files of the source, and of the repository above it, ignore."""


_OneOrManySources: Final = BeforeValidator(_as_list, json_schema_input_type=list[FileSource] | FileSource)


class FileLimits(ConfigModel):
    """Limits of a single file; one beyond them is reported, not indexed, and does not stop the others."""

    max_bytes: int = Field(default=64_000_000, ge=1)
    """Maximum size of a file in bytes."""
    max_chunks: int = Field(default=20_000, ge=1)
    """Maximum number of chunks of a file."""
    max_seconds: float = Field(default=30.0, gt=0)
    """Longest time to parse a file; the process that does it is ended then."""
    max_expansion: float = Field(default=20.0, ge=0)
    """Maximum number of characters in a file's chunks for each of its bytes, beyond the first million."""
    max_memory: int = Field(default=1_000_000_000, ge=100_000_000)
    """Maximum memory, in bytes, that parsing a file takes; enforced on Linux only."""


class FileConfig(CollectionConfig):
    """Configuration of a `file` store."""

    read_only: ClassVar[bool] = True
    keeps_states: ClassVar[bool] = True

    index_path: Annotated[str, KNOWN_HOME] | None = None
    """Where the index lives: a path such as `memory/docs.db`, a database (`postgresql://host/database`), or `auto` for
    a file of the session; absent keeps it for this process only. In place of DevAll's `x.json` the index is kept in
    `x.db` beside it."""
    memory_path: Annotated[str, KNOWN_HOME] | None = None
    """Where the index lives when `index_path` is absent."""
    history: HistoryDays = Field(default="none", json_schema_extra={"advanced": True})
    """How long the versions of chunks that were changed or deleted are kept: a number of days, `keep` permanently,
    `none` not at all, as the files have a history of their own."""
    file_sources: Annotated[list[FileSource], _OneOrManySources] = Field(min_length=1)
    """The files to index; one that is in several sources is indexed once."""
    chunk_size: int = Field(default=500, ge=32)
    """Greatest length of a chunk, in `chunk_unit`; a code fence may be up to four times as long."""
    chunk_overlap: int = Field(default=50, ge=0)
    """Length of a chunk's end that the next one of the same section repeats, in `chunk_unit`; at most half a chunk."""
    chunk_unit: Literal["characters", "tokens"] = "characters"
    """Unit of chunk lengths; tokens are estimated without the model's tokenizer."""
    limits: FileLimits = Field(default_factory=FileLimits, json_schema_extra={"advanced": True})
    """Limits of a single file."""
    watch: bool = False
    """Follow changes while the store is open, within two seconds; without it they are taken in at every load."""

    @model_validator(mode="before")
    @classmethod
    def _find_place(cls, given: Any) -> Any:  # noqa: ANN401 - whatever stands in the YAML
        """Let `memory_path` name the index itself, for everything that looks for a store's place."""
        if not isinstance(given, dict):
            return given
        path = given.get("index_path") or given.get("memory_path")
        if not isinstance(path, str) or not path:
            return given
        kept = str(Path(path).with_suffix(".db")) if path.endswith(".json") and "://" not in path else path
        return {**given, "index_path": path, "memory_path": kept}

    @model_validator(mode="after")
    def _check_overlap(self) -> Self:
        if 2 * self.chunk_overlap > self.chunk_size:
            raise ValueError(
                f"chunk_overlap = {self.chunk_overlap} is more than half of chunk_size = {self.chunk_size}"
            )
        return self
