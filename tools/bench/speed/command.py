"""`python -m tools.bench speed`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools.bench.rows import JsonFile, Row, report
from tools.bench.speed.corpus import CorpusFiles, prepare
from tools.bench.speed.embedding import measure_embedding
from tools.bench.speed.peers import measure_peers
from tools.bench.speed.processes import Measured, MeasurementError
from tools.bench.speed.rows import label, parse_size, rows_of


def speed(
    sizes: Annotated[str, typer.Option("--sizes", help="Numbers of items, as in 1k,10k,100k,1M.")] = "1k,10k,100k",
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder that keeps the generated memories for the next run.")
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Measure Chroma, LangGraph's InMemoryStore and mem0 too.")
    ] = False,
    environments: Annotated[
        Path, typer.Option("--peer-envs", help="Folder with a virtual environment for each peer.")
    ] = Path("build/peers"),
    peer_seconds: Annotated[
        float, typer.Option("--peer-seconds", help="Seconds that a peer may take to build, and to answer.")
    ] = 300,
    embedding: Annotated[bool, typer.Option(help="Measure the embedding of a query too.")] = True,
    json_file: JsonFile = None,
) -> None:
    """Measure retrieval, memory, disk and opening at each size, one thread, beside raw FAISS and FTS5."""
    try:
        wanted = sorted({parse_size(part) for part in sizes.split(",")})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    # A relative path must mean the same to the processes, which start elsewhere.
    environments = environments.absolute()
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
        corpora = [prepare(size, (cache or Path(folder)).absolute()) for size in reversed(wanted)][::-1]
        found = [_own(corpora)]
        if peers:
            found.append(measure_peers(corpora, environments, peer_seconds, notes))
        if embedding:
            found.append(measure_embedding(environments, notes))
        failed = _collect(chain.from_iterable(found), rows := list[Row]())
    report(rows, json_file)
    for note in notes:
        Console().print(note, highlight=False, soft_wrap=True)
    if failed is not None:
        Console(stderr=True).print(f"measuring stopped: {failed}", highlight=False, soft_wrap=True)
        raise typer.Exit(1)


def _own(corpora: Sequence[CorpusFiles]) -> Iterator[Row]:
    """Measure devmem at each size, and the raw indexes beside it."""
    for corpus in corpora:
        corpus.queries()
        with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
            figures: dict[str, float] = {}
            for phase in ("build", "open", "ask", "threads"):
                figures |= Measured(module="devmem_store").run(phase, corpus, Path(folder))
            figures |= Measured(module="faiss_flat").run("ask", corpus, Path(folder))
            figures |= Measured(module="fts5").run("ask", corpus, Path(folder))
        ratios = {
            "retrieve_scoped_to_retrieve": figures["retrieve_scoped_p50"] / figures["retrieve_p50"],
            "retrieve_to_faiss_flat": figures["retrieve_p50"] / figures["faiss_flat_p50"],
            "fts5_or_to_retrieve": figures["fts5_or_p50"] / figures["retrieve_p50"],
            "fts5_or_to_retrieve_words": figures["fts5_or_p50"] / figures["retrieve_words_p50"],
        }
        yield from rows_of(label(corpus.size), corpus.size, figures | ratios)


def _collect(measured: Iterable[Row], rows: list[Row]) -> MeasurementError | None:
    """Append the rows as they come, reporting progress on the error stream; return the error that ended it early."""
    console = Console(stderr=True)
    try:
        for row in measured:
            if not rows or row.case != rows[-1].case:
                console.print(f"measured: {row.case}", highlight=False)
            rows.append(row)
    except MeasurementError as error:
        return error
    return None
