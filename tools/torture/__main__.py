"""The command: `python -m tools.torture [--short] [--json FILE] [--peer NAME] ...`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from secrets import randbelow
from typing import Annotated, Final

import typer
from rich.console import Console

from tools.bench.rows import JsonFile, Row, write_json
from tools.torture.faults import (
    bodies,
    clocks,
    consolidations,
    corruption,
    erasures,
    files,
    forgetting,
    full_disk,
    growth,
    http_clients,
    interruptions,
    kills,
    long_lists,
    lost_updates,
    moved_files,
    pending_runs,
    postgres,
    postgres_forgetting,
    postgres_interruptions,
    postgres_versions,
    processes,
    recording,
    scopes,
    servers,
    store_runs,
    storm,
    texts,
    tombstones,
    upkeep,
    versions,
)
from tools.torture.peers import faults as peer_faults
from tools.torture.peers.faults import PEERS, PeerMissingError
from tools.torture.results import Plan, Result, print_results

FAULTS: Final = {
    "kills": kills.run,
    "interruptions": interruptions.run,
    "corruption": corruption.run,
    "full_disk": full_disk.run,
    "processes": processes.run,
    "lost_updates": lost_updates.run,
    "postgres": postgres.run,
    "postgres_lost_updates": lost_updates.run_postgres,
    "postgres_versions": postgres_versions.run,
    "postgres_forgetting": postgres_forgetting.run,
    "postgres_interruptions": postgres_interruptions.run,
    "recording": recording.run,
    "clocks": clocks.run,
    "files": files.run,
    "servers": servers.run,
    "scopes": scopes.run,
    "texts": texts.run,
    "versions": versions.run,
    "upkeep": upkeep.run,
    "forgetting": forgetting.run,
    "store_runs": store_runs.run,
    "tombstones": tombstones.run,
    "consolidations": consolidations.run,
    "postgres_consolidations": consolidations.run_postgres,
    "pending_runs": pending_runs.run,
    "postgres_pending_runs": pending_runs.run_postgres,
    "erasures": erasures.run,
    "postgres_erasures": erasures.run_postgres,
    "long_lists": long_lists.run,
    "postgres_long_lists": long_lists.run_postgres,
    "moved_files": moved_files.run,
    "bodies": bodies.run,
    "postgres_bodies": bodies.run_postgres,
    "http_clients": http_clients.run,
    "storm": storm.run,
    "postgres_storm": storm.run_postgres,
    "growth": growth.run,
    "postgres_growth": growth.run_postgres,
}
"""Classes of faults by name, in the order of the table."""

app = typer.Typer(add_completion=False)


@app.command()
def torture(
    faults: Annotated[list[str] | None, typer.Argument(help=f"Classes of faults: {', '.join(FAULTS)}.")] = None,
    short: Annotated[bool, typer.Option("--short", help="Inject few faults of each class, in under a minute.")] = False,
    peer: Annotated[list[str] | None, typer.Option(help=f"Torture another store instead: {', '.join(PEERS)}.")] = None,
    peer_envs: Annotated[Path, typer.Option(help="Folder of the peers' environments.")] = Path("build/peers"),
    seed: Annotated[int | None, typer.Option(help="Seed of an earlier run, to repeat it.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Inject faults into devmem's stores and compare what is left with what was acknowledged.

    Exits with 1 when anything was lost, doubled, leaked, wrong or not recovered.
    """
    console = Console()
    chosen = seed if seed is not None else randbelow(1_000_000)
    console.print(f"seed {chosen}")
    if peer:
        rows = [row for name in peer for row in _inject_into_peer(name, peer_envs, chosen, short, console)]
        if json_file is not None:
            write_json(rows, json_file)
        return
    for name in faults or ():
        if name not in FAULTS:
            raise typer.BadParameter(f"there is no class {name!r}; possible: {', '.join(FAULTS)}")
    results = _inject(faults or list(FAULTS), seed=chosen, short=short, console=console)
    print_results(results, console, f"devmem, seed {chosen}")
    if json_file is not None:
        write_json([row for result in results for row in result.rows()], json_file)
    if any(result.failed for result in results):
        raise typer.Exit(1)


def _inject(names: list[str], *, seed: int, short: bool, console: Console) -> list[Result]:
    results: list[Result] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="devmem-torture-") as folder, console.status(name):
            started = time.monotonic()
            found = FAULTS[name](Plan(folder=Path(folder), seed=seed, short=short))
            for result in found:
                result.seconds = (time.monotonic() - started) / len(found)
                # A run takes most of an hour, and may be broken off.
                console.print(f"{result.fault}: {'FAILED' if result.failed else 'passed'}", highlight=False)
            results += found
    return results


def _inject_into_peer(name: str, environments: Path, seed: int, short: bool, console: Console) -> list[Row]:
    if name not in PEERS:
        raise typer.BadParameter(f"there is no peer {name!r}; possible: {', '.join(PEERS)}")
    with tempfile.TemporaryDirectory(prefix="devmem-torture-") as folder, console.status(name):
        try:
            results = peer_faults.run(Plan(folder=Path(folder), seed=seed, short=short), name, environments)
        except PeerMissingError as error:
            console.print(f"{name} is not installed: {error}", markup=False)
            return []
    print_results(results, console, f"{name}, seed {seed}")
    return [row for result in results for row in result.rows(name)]


if __name__ == "__main__":
    app()
