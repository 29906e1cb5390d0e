"""The bytes that the items of stores take, by kind: in the database, in the index snapshot, and in memory."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from devmem.search.indexes.index_set import IndexReader, stored_sizes
from devmem.search.indexes.postings import PostingsIndex
from devmem.storage import SearchQuery, SqliteCollection
from tools.bench.rows import JsonFile, Row, report

_KINDS: Final = {
    "items": "items: text, metadata, columns",
    "passages": "terms",
    "vectors": "vectors",
    "tokens": "token codes",
}
_VERSIONS: Final = ("versions", "runs")


def command(
    files: Annotated[list[Path], typer.Argument(help="Files of stores; each is copied first.", exists=True)],
    json_file: JsonFile = None,
) -> None:
    """Print the bytes that an item takes, by kind: on disk, page by page, and in the arrays of an open store."""
    report(list(run(files)), json_file)


def run(files: list[Path]) -> Iterator[Row]:
    """Yield the sizes of stores, a case for each file."""
    for file in files:
        with tempfile.TemporaryDirectory(prefix="devmem-bytes-") as folder:
            copy = Path(folder) / file.name
            _copy(file, copy)
            in_memory = _opened(copy)
            with closing(sqlite3.connect(copy)) as connection:
                (items,) = connection.execute("SELECT count(*) FROM items").fetchone()
                sizes = {**_on_disk(connection), **_in_snapshot(Path(f"{copy}.faiss"))}
            for place, found in (("disk", sizes), ("memory", in_memory)):
                found = {**found, "all": sum(found.values())}
                for kind, size in found.items():
                    yield Row(
                        bench="bytes",
                        case="/".join(file.parts[-3:-1]) or file.name,
                        metric=f"{place}: {kind}",
                        value=size / max(items, 1),
                        unit="bytes/item",
                    )


def _copy(file: Path, copy: Path) -> None:
    """Copy a store with its log; one that another process has open gives what it committed."""
    for suffix in ("", "-wal"):
        if (there := Path(f"{file}{suffix}")).exists():
            shutil.copyfile(there, f"{copy}{suffix}")


def _opened(path: Path) -> Mapping[str, int]:
    """Search a store, so that it is brought to its format and gets its snapshot; return the bytes of its arrays."""
    with closing(SqliteCollection(path)) as collection:
        with closing(sqlite3.connect(path)) as connection:
            (tokens,) = connection.execute("SELECT COALESCE(sum(length(codes)), 0) FROM tokens").fetchone()
        dimension = collection.info().dimension or 1
        query = np.zeros(dimension, dtype=np.float32)
        query[0] = 1
        collection.search(SearchQuery(text="anything", vector=query))
        collection.database.follower.indexes.wait_for_build()
        reader = collection.database.follower.indexes.reader()
        return {**_of_reader(reader), "token codes": tokens}


def _of_reader(reader: IndexReader) -> Mapping[str, int]:
    """Return the bytes of the arrays of indexes, by kind."""
    parts = {"columns": reader.doc_values, "passage numbers": reader.passage_map}
    sizes = {name: sum(_array_bytes(part)) for name, part in parts.items()}
    sizes["postings"] = sum(_posting_bytes(reader.postings))
    return {**sizes, "vectors": reader.vectors.size_bytes if reader.vectors is not None else 0}


def _array_bytes(part: Any) -> Iterator[int]:  # noqa: ANN401 - whatever the index is
    for array in part.parts().values():
        yield array.nbytes


def _posting_bytes(postings: PostingsIndex) -> Iterator[int]:
    """Yield the bytes of the arrays of postings as searches read them; `parts` joins those that were added last."""
    parts = postings.parts()
    yield from (parts["rows"].nbytes, parts["lengths"].nbytes)
    for segment in postings._segments:  # noqa: SLF001 - what no public name shows
        for array in (segment._terms, segment._starts, segment.docs, segment._codes):  # noqa: SLF001
            yield array.nbytes


def _on_disk(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the bytes of the pages of each kind; needs SQLite's table `dbstat`."""
    sizes: dict[str, int] = {}
    pages = "SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name"
    for name, size, unused in connection.execute(pages):
        if name in _KINDS:
            sizes[_KINDS[name]] = size - unused
            sizes["unused parts of these pages"] = sizes.get("unused parts of these pages", 0) + unused
        elif name.startswith(_VERSIONS):
            sizes["versions and runs"] = sizes.get("versions and runs", 0) + size
        elif name.startswith(("items_by", "passages_by", "sqlite_autoindex_items")):
            sizes[f"index {name}"] = size
        else:
            sizes["other tables and indexes"] = sizes.get("other tables and indexes", 0) + size
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    return {**sizes, "free pages": free * page}


def _in_snapshot(path: Path) -> dict[str, int]:
    """Return the bytes of the parts of a snapshot file; there is none where a store is small."""
    sizes: dict[str, int] = {}
    for name, size in stored_sizes(path).items() if path.exists() else ():
        kind = f"snapshot {name.partition('/')[0]}"
        sizes[kind] = sizes.get(kind, 0) + size
    return sizes
