"""The indexes of a store, as its `index:` block describes them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from devmem.config.base import ConfigModel
from devmem.model.field_paths import is_path

LEAST_FOR_APPROXIMATE: Final = 1000
"""Fewer vectors than this give nothing to learn codes from, and are searched exactly in no time."""
_KEY: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:/ -]*$"
"""Keys that every database can name in an expression."""


def _checked_path(path: str) -> str:
    if not is_path(path):
        raise ValueError(
            f"{path!r} is no path of a field: write keys with periods between them, as in author.name, and [*] or [0] "
            "behind a list, as in chapters[*].content"
        )
    return path


class IndexConfig(ConfigModel):
    """Indexes of vectors, metadata and fields; the defaults suit every size that was measured, up to a million."""

    search: Literal["auto", "exact", "approximate"] = "auto"
    """`exact` compares with every vector; `approximate` looks at short codes first and compares with the best of them;
    `auto` is exact until there are `approximate_from` vectors."""
    approximate_from: int = Field(default=5_000, ge=LEAST_FOR_APPROXIMATE)
    """Vectors from which `auto` searches approximately; below it an exact search takes about half a millisecond."""

    metadata: tuple[Annotated[str, Field(pattern=_KEY)], ...] = ()
    """Keys of the items' metadata that have an index of their own: filters on them and lists of their values read no
    other item."""

    fields: tuple[Annotated[str, AfterValidator(_checked_path)], ...] | None = None
    """Fields of the items' metadata that are searched beside their text, each by itself: `title`, `author.name`,
    `chapters[*].content`. An item is as good as its best field. Absent keeps those that the store records; after a
    change `devmem reindex` brings the items up to date that are there."""

    mode: Literal["auto", "follow", "server"] = "auto"
    """Where a PostgreSQL store is searched: `follow` keeps its indexes in the memory of each process, `server` reads
    them from the database; `auto` follows until there are `server_from` passages when the store is opened. A file is
    always followed."""
    server_from: int = Field(default=200_000, ge=0)
    """Passages from which `auto` searches in the database: some 350 MB of memory, and seconds to open."""

    codes_mb: int = Field(default=256, ge=0)
    """Memory that a process may take for codes of the vectors of a PostgreSQL store that is searched in the database,
    in MB: 72 bytes a passage at 384 dimensions. Beyond it, and with `search: exact`, searches within a filter compare
    with all vectors that it admits, and others use an HNSW index."""

    def threshold(self) -> int | None:
        """Return the number of vectors from which the search is approximate; None when it never is."""
        if self.search == "exact":
            return None
        return LEAST_FOR_APPROXIMATE if self.search == "approximate" else self.approximate_from
