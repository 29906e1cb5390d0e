"""Four programs on one file at once: two MCP servers, a LangGraph graph and `devmem run`.

`python -m tools.hosts.together [--writes N]` in an environment with MCP and LangGraph. Each program writes N texts and
then looks for what the others wrote. What was lost, what is there twice and what one of them does not see is printed,
and is an error.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

import typer

import devmem

_SERVERS: Final = ("first server", "second server")
_GRAPH: Final = "graph"
_WORKFLOW: Final = "workflow"
_PROGRAMS: Final = (*_SERVERS, _GRAPH, _WORKFLOW)
_YAML: Final = """\
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db, embedding: null}}
nodes:
  - id: assistant
    type: agent
    config: {provider: extractive, memories: [{name: notes, top_k: 3}]}
"""
_PAGE: Final = 1_000
"""Most results that one program asks for at once."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _text(program: str, at: int) -> str:
    return f"Report {at} of the {program}."


@app.command()
def together(
    writes: Annotated[int, typer.Option(min=0, help="Writes of each program.")] = 500,
    graph: Annotated[Path | None, typer.Option(hidden=True, help="Be the graph on this file.")] = None,
) -> None:
    """Write into one file from two MCP servers, a LangGraph graph and a workflow, and look for all of it."""
    if graph is not None:
        print(json.dumps(_run_graph(graph, writes)))
        return
    with tempfile.TemporaryDirectory(prefix="devmem-together-") as name:
        started = time.perf_counter()
        problems = asyncio.run(_judged(Path(name), writes))
        seconds = time.perf_counter() - started
    for problem in problems:
        typer.echo(problem)
    typer.echo(f"{len(_PROGRAMS)} programs, {writes} writes each, {seconds:.0f} s: {len(problems)} problems")
    raise typer.Exit(1 if problems else 0)


async def _judged(folder: Path, writes: int) -> list[str]:
    """Have all programs write, and return what is wrong."""
    file = folder / "notes.db"
    devmem.open(file, embedding=None).close()
    seen = await _write(folder, file, writes)
    expected = {program: {_text(program, at) for at in range(writes)} for program in _PROGRAMS}
    problems = [
        f"{reader} does not see {len(missing)} of the {program}"
        for reader, texts in seen.items()
        for program in _PROGRAMS
        if (missing := expected[program] - texts)
    ]
    with devmem.open(file, embedding=None) as memory:
        kept = Counter(_written(record.text) for record in memory)
    problems += [f"lost: {text}" for texts in expected.values() for text in texts if text not in kept]
    return problems + [f"{count} times: {text}" for text, count in kept.items() if count > 1]


async def _write(folder: Path, file: Path, writes: int) -> dict[str, set[str]]:
    """Run the programs side by side; return the texts that each sees when all have written."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=["-m", "devmem", "mcp", str(file)], env=_environment())

    async def write(client: Client, program: str) -> None:
        for at in range(writes):
            result = await client.call_tool("remember", {"text": _text(program, at)})
            if result.is_error:
                raise RuntimeError(f"{program}: {result.content}")

    async with Client(stdio_client(server)) as one, Client(stdio_client(server)) as two:
        await asyncio.gather(
            write(one, _SERVERS[0]),
            write(two, _SERVERS[1]),
            asyncio.to_thread(_be_graph, file, writes),
            asyncio.to_thread(_be_workflow, folder, writes),
        )
        seen = {name: await _listed(client) for name, client in zip(_SERVERS, (one, two), strict=True)}
    graph = await asyncio.to_thread(_be_graph, file, 0)
    return {**seen, _GRAPH: graph, _WORKFLOW: await asyncio.to_thread(_shown, folder)}


async def _listed(client: Any) -> set[str]:  # noqa: ANN401 - MCP's client
    texts: set[str] = set()
    while True:
        result = await client.call_tool("list", {"limit": 100, "offset": len(texts)})
        found = {_written(str(one["text"])) for one in result.structured_content["memories"]}
        if not found - texts:
            return texts
        texts |= found


def _written(text: str) -> str:
    """Return the text that a program wrote; a workflow's item has an answer beside it."""
    return text.removeprefix("Input: ").split("\n")[0]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONWARNINGS": "ignore"}


def _be_graph(file: Path, writes: int) -> set[str]:
    command = [sys.executable, "-m", "tools.hosts.together", "--graph", str(file), f"--writes={writes}"]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the graph failed: {done.stderr}")
    return {_written(text) for text in json.loads(done.stdout.splitlines()[-1])}


def _be_workflow(folder: Path, writes: int) -> None:
    (folder / "team.yaml").write_text(_YAML, encoding="utf-8")
    inputs = folder / "inputs.txt"
    inputs.write_text("".join(f"{_text(_WORKFLOW, at)}\n" for at in range(writes)), encoding="utf-8")
    _devmem("run", str(folder / "team.yaml"), "--input-file", str(inputs), "--json")


def _shown(folder: Path) -> set[str]:
    """Return what the command line shows of the workflow's store."""
    shown = _devmem("list", str(folder / "team.yaml"), "notes", "--limit", str(_PAGE * len(_PROGRAMS)), "--json")
    return {_written(str(item["text"])) for item in json.loads(shown)}


def _devmem(*arguments: str) -> str:
    command = [sys.executable, "-m", "devmem", *arguments]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"devmem {arguments[0]} failed: {done.stderr}")
    return done.stdout


class _State(TypedDict):
    text: str


def _run_graph(file: Path, writes: int) -> list[str]:
    """Write through a graph's node, and return every text that its store finds."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.store.base import BaseStore

    from devmem.adapters.langgraph import DevmemStore

    def note(state: _State, *, store: BaseStore) -> _State:
        store.put(("reports",), state["text"], {"text": state["text"]})
        return state

    with DevmemStore.open(file) as store:
        builder = StateGraph(_State)
        builder.add_node("note", note)
        builder.add_edge(START, "note")
        builder.add_edge("note", END)
        compiled = builder.compile(store=store)
        for at in range(writes):
            compiled.invoke({"text": _text(_GRAPH, at)})
        texts: list[str] = []
        while found := store.search((), limit=_PAGE, offset=len(texts)):
            texts += [str(item.value.get("text", item.value)) for item in found]
    return texts


if __name__ == "__main__":
    app()
