"""The page of `devmem web`: time of the server for each view, and the bytes of the first one.

The application is called in this process, without a socket; a search's time includes the search itself, which is
measured beside it. The processor's time is that of all threads, and says more than the clock on a busy machine.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated

import httpx
import typer

import devmem
from devmem.model.caller import DEFAULT_SESSION
from devmem.web.app import make_app
from devmem.web.desk import Desk
from devmem.workflow.runner import WorkflowRunner
from devmem.workflow.stores import load_workflow, open_stores
from tools.bench.rows import JsonFile, Row, report
from tools.bench.synthetic import make_corpus

_CALLS = 40
_WORKFLOW = """
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db}}
record_recalls: true
nodes:
  - {id: helper, type: agent, config: {provider: extractive, memories: [{name: notes, write: false}]}}
"""


def command(
    sizes: Annotated[str, typer.Option(help="Numbers of memories, as 1000,10000.")] = "1000,10000",
    json_file: JsonFile = None,
) -> None:
    """Measure the views of the page."""
    report([row for size in sizes.split(",") for row in run(int(size))], json_file)


def run(size: int) -> Iterator[Row]:
    """Fill a memory, run an agent some times, and measure the views."""
    case, texts = f"{size / 1000:g}k", make_corpus(size, dimension=8).texts
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "team.yaml")
        file.write_text(_WORKFLOW, encoding="utf-8")
        workflow = load_workflow(file)
        with open_stores(workflow) as stores:
            memory = devmem.Memory(stores["notes"])
            ids = memory.add([f"{text} {at}" for at, text in enumerate(texts)], conversation="talk")
            with WorkflowRunner(workflow, stores) as runner:
                for text in texts[:20]:
                    runner.run(text)
            desk = Desk(workflow, stores, session=DEFAULT_SESSION)
            alone = [_seconds(lambda at=at: memory.search(texts[at], limit=5)) for at in range(_CALLS)]  # type: ignore[misc]
            yield Row(bench="web", case=case, metric="search_alone_p50", value=median(alone[1:]) * 1e3, unit="ms")
            began = time.process_time()
            for at in range(1, _CALLS):
                memory.search(texts[at], limit=5)
            each = (time.process_time() - began) * 1e3 / (_CALLS - 1)
            yield Row(bench="web", case=case, metric="search_alone_cpu", value=each, unit="ms")
            paths = {
                "first": lambda _: "/",
                "search": lambda at: f"/?q={texts[at]}",
                "item": lambda at: f"/item/notes/{ids[at]}",
                "shown": lambda _: "/shown",
                "step": lambda at: f"/step/{at % 20 + 1}",
                "who": lambda _: "/who",
                "talk": lambda _: "/talk?store=notes&conversation=talk",
                "health": lambda _: "/health",
                "transfer": lambda _: "/transfer",
            }
            yield from asyncio.run(_measured(desk, paths, case))


async def _measured(desk: Desk, paths: dict[str, Callable[[int], str]], case: str) -> list[Row]:
    app = make_app(desk, host="127.0.0.1", port=80)
    rows: list[Row] = []
    cookies = {"devmem": app.new_cookie()}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", cookies=cookies) as client:
        for name, path in paths.items():
            times, used = [], []
            for at in range(_CALLS):
                started, before = time.perf_counter(), time.process_time()
                (await client.get(path(at))).raise_for_status()
                times.append((time.perf_counter() - started) * 1e3)
                used.append((time.process_time() - before) * 1e3)
            values = {"p50": median(times[1:]), "p99": quantiles(times[1:], n=100)[98]}
            values |= {"cpu_p50": median(used[1:]), "cpu_p99": quantiles(used[1:], n=100)[98]}
            rows += [Row(bench="web", case=case, metric=f"{name}_{p}", value=v, unit="ms") for p, v in values.items()]
        first = await client.get("/")
        parts = re.findall(r'(?:href|src)="(/static/[^"]+)"', first.text)
        size = sum([len((await client.get(part)).content) for part in parts]) + len(first.content)
        rows.append(Row(bench="web", case=case, metric="first_page_uncompressed", value=size / 1000, unit="kB"))
    return rows


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
