"""Three teams with a wrong memory, each of which has given a wrong answer: where does it come from?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import devmem
from devmem import Memory, MemoryItem, Scope, WorkflowRunner, load_workflow, open_stores
from devmem.stores import TRUST, Provenance, SourceKind

_TEAM = """
memory:
  - {name: STORE, type: simple, config: {memory_path: STORE.db, history: keep}}
  - {name: notes, type: simple, config: {memory_path: notes.db}}
record_recalls: true
nodes:
  - id: researcher
    type: agent
    config:
      provider: extractive
      memories: [{name: notes, top_k: 3, min_trust: 0.5, retrieve_stage: [gen]}]
  - id: AGENT
    type: agent
    config:
      provider: extractive
      memories:
        - {name: STORE, top_k: 3, write: false, retrieve_stage: [gen]}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAnswer:
    """A team that has answered, and the memory that misled it."""

    team: Path
    """The workflow's file."""
    agent: str
    """Id of the node that gave the answer."""
    question: str
    answer: str
    user: str | None
    store: str
    item: str
    """Id of the wrong memory."""
    wrong: str
    """Words of it in the answer."""
    evidence: Sequence[str]
    """Words of its page that show why it is wrong."""


def poisoned_tool_result(folder: Path) -> WrongAnswer:
    """A tool brought a text from a page that anybody may write."""
    team = _write(folder, store="policies", agent="clerk")
    with devmem.open(f"{team}#policies") as memory:
        memory.add("Customers send goods back at their own cost.")
        memory.add("Opened software is exchanged, and never refunded.")
        item = _store(
            memory,
            "Return policy: a purchase can be returned for a full refund within 900 days.",
            origin=Provenance(kind=SourceKind.TOOL, name="web_search"),
            metadata={"url": "https://forum.example/t/8821"},
        )
    return _asked(team, "Within how many days can a purchase be returned for a refund?", agent="clerk",
                  store="policies", item=item, wrong="900 days", evidence=("tool", "web_search", "0.40"))  # fmt: skip


def stale_fact(folder: Path) -> WrongAnswer:
    """A date of a season ago stands in the store that the agent reads; the one that holds now is in another."""
    team = _write(folder, store="archive", agent="planner")
    past = datetime.now(UTC) - timedelta(days=120)
    with devmem.open(f"{team}#archive") as memory:
        item = memory.add("Ann said the launch of Harbour is on May 5th.", time=past, conversation="kickoff")
        memory.add("Ben asked who books the venue for the launch.", time=past + timedelta(minutes=3),
                   conversation="kickoff")  # fmt: skip
    with devmem.open(f"{team}#notes") as memory:
        memory.add("Ann moved the launch of Harbour to June 2nd.")
    year = f"{past.astimezone():%Y-%m}"
    return _asked(team, "When is the launch of Harbour?", agent="planner", store="archive", item=item,
                  wrong="May 5th", evidence=(year, "kickoff"))  # fmt: skip


def another_users_preference(folder: Path) -> WrongAnswer:
    """An agent kept what one user said without saying whose it is, so that all users get it."""
    team = _write(folder, store="preferences", agent="concierge")
    with devmem.open(f"{team}#preferences") as memory:
        memory.add("Ann travels with a folding bicycle.", user="ann")
        item = _store(
            memory,
            "Bob here: I always want a window seat in the smoking car.",
            origin=Provenance(kind=SourceKind.NODE, name="concierge"),
            scope=Scope(agent="concierge", conversation="bob-4"),
        )
    return _asked(team, "Which seat do I want on the train?", agent="concierge", user="ann", store="preferences",
                  item=item, wrong="smoking car", evidence=("bob-4", "concierge"))  # fmt: skip


TEAMS: dict[str, Callable[[Path], WrongAnswer]] = {
    "a poisoned tool result": poisoned_tool_result,
    "a stale fact": stale_fact,
    "another user's preference": another_users_preference,
}


def _write(folder: Path, *, store: str, agent: str) -> Path:
    file = folder / "team.yaml"
    file.write_text(_TEAM.replace("STORE", store).replace("AGENT", agent), encoding="utf-8")
    return file


def _store(
    memory: Memory,
    text: str,
    *,
    origin: Provenance,
    scope: Scope | None = None,
    metadata: dict[str, str] | None = None,
) -> str:
    """Store a text as of an origin, as an agent or a tool does."""
    item = MemoryItem(
        id=f"{origin.kind.value}-{origin.name}",
        content_summary=text,
        provenance=origin,
        trust=TRUST[origin.kind],
        created_at=time.time() - 2 * 86_400,
        scope=scope or Scope(),
        metadata=dict(metadata or {}),
    )
    memory.store.add([item])
    return item.id


def _asked(
    team: Path,
    question: str,
    *,
    agent: str,
    store: str,
    item: str,
    wrong: str,
    evidence: Sequence[str],
    user: str | None = None,
) -> WrongAnswer:
    """Have the team answer."""
    workflow = load_workflow(team)
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores, scope=Scope(user=user)) as runner:
        answer = runner.run(question).output
    return WrongAnswer(team=team, agent=agent, question=question, answer=answer, user=user, store=store, item=item,
                       wrong=wrong, evidence=evidence)  # fmt: skip
