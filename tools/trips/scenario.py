"""The seven trips: what is done, on a SQLite file, without embeddings, each once before it is recorded.

Only public names are used, so that the trips stay the same while what they pass through changes.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import devmem
from tools.trips.recorder import Recorder, Trip

TITLES: Final = {
    "add": "memory.add",
    "get": "memory.get",
    "search": "memory.search",
    "retrieve": "manager.retrieve",
    "update": "manager.update",
    "erase": "memory.forget",
    "run": "memory.run",
}
_KNOWN: Final = (
    "Ann moved the launch from May 5th to June 2nd.",
    "The venue is booked until the evening.",
    "Ann drinks tea, never coffee.",
    "The train to Basel leaves at nine.",
    "Invoices are sent on the first Monday of a month.",
    "The red folder has the contract with the printer.",
)
_WORKFLOW: Final = """\
memory:
  - name: notes
    type: simple
    config: {memory_path: notes.db}
nodes:
  - id: helper
    type: agent
    config:
      provider: extractive
      memories:
        - {name: notes, retrieve_stage: [gen], top_k: 5}
"""


def record_trips() -> list[Trip]:
    """Return the seven trips in the order of their titles."""
    recorder = Recorder()
    with TemporaryDirectory() as folder, recorder.installed():
        found = {trip.name: trip for trip in _of_memory(recorder, Path(folder)) + _of_workflow(recorder, Path(folder))}
    return [found[name] for name in TITLES]


def _of_memory(recorder: Recorder, folder: Path) -> list[Trip]:
    with devmem.open(folder / "memory.db", embedding=None) as memory:
        memory.add(_KNOWN, user="ann")
        for user in ("bob", "eve"):
            memory.add(["The lift is out of order.", "Parcels are kept at the desk."], user=user)
        first = memory.add("The rehearsal is on Friday.", user="ann")

        def run(text: str) -> None:
            with memory.run() as pending:
                pending.add(text, user="ann")

        memory.get(first)
        memory.search("When is the launch?", user="ann")
        run("Ann books the venue.")
        trips = [
            recorder.record("add", lambda: memory.add("The posters are printed.", user="ann")),
            recorder.record("get", lambda: memory.get(first)),
        ]
        memory.search("Who drinks coffee?", user="ann")
        trips.append(recorder.record("search", lambda: memory.search("When does the train leave?", user="ann")))
        trips.append(recorder.record("run", lambda: run("The doors open at seven.")))
        memory.forget(user="bob", verify=True)
        trips.append(recorder.record("erase", lambda: memory.forget(user="eve", verify=True)))
        return trips


def _of_workflow(recorder: Recorder, folder: Path) -> list[Trip]:
    file = folder / "team.yaml"
    file.write_text(_WORKFLOW, encoding="utf-8")
    workflow = devmem.load_workflow(file, environ={})
    agent = workflow.node("helper").config
    assert agent is not None
    with devmem.open_stores(workflow) as stores:
        manager = devmem.MemoryManager(agent.memories, stores)

        def update(text: str, answer: str) -> None:
            said = devmem.MemoryContentSnapshot(text=answer)
            manager.update(devmem.MemoryWritePayload(inputs_text=text, output_snapshot=said))

        for text in _KNOWN:
            update(text, "That is noted.")
        trips = [recorder.record("update", lambda: update("The posters are printed.", "They go out on Monday."))]
        manager.retrieve(query="Who drinks coffee?")
        trips.append(recorder.record("retrieve", lambda: manager.retrieve(query="When does the train leave?")))
        return trips
