"""SIGKILL between and in the writes of two pending runs and of a writer beside them, compared with dictionaries.

A step that was acknowledged has been done, the one that was under way has been done or has not; whoever opens the
collection next sees that of all items, of each run's view, of its conflicts, and of its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from devmem.errors import RunConflictError
from devmem.model.items import MemoryItem
from devmem.model.versions import RunState
from devmem.storage import Collection, SqliteCollection
from devmem.storage.postgres.collection import PostgresCollection
from tools.postgres_server import PostgresServer
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.statements import Trace, dying, traced, traced_postgres
from tools.torture.results import Plan, Result
from tools.torture.run_model import RunModel, Texts, shown_texts

_IDS: Final = [f"id {number}" for number in range(6)]
_STEPS: Final = 60
"""Number of steps that a process takes if it is not killed."""
_STATEMENTS: Final = 800
"""Number of statements of which one is the last of a process; its steps may be done before."""
_KINDS: Final = (
    *("add", "delete", "erase"),
    *("add in run", "add in run", "delete in run", "clear in run", "commit", "discard"),
)

Versioned = SqliteCollection | PostgresCollection
Open = Callable[[], Versioned]


@dataclass(frozen=True, slots=True)
class Step:
    """One write, of a run in one of two slots or outside of them."""

    kind: str
    slot: int
    texts: Texts
    """Text of each item that is written; of a deletion the ids only matter."""


@dataclass(slots=True)
class State:
    """The dictionaries, and the names of the two runs: an ended run makes room for another."""

    model: RunModel = field(default_factory=RunModel)
    ended: list[int] = field(default_factory=lambda: [0, 0])

    def name(self, slot: int) -> str:
        """Return the name of the pending run of a slot."""
        return f"run {slot} {self.ended[slot]}"

    def take(self, step: Step) -> str:
        """Take a step; return its outcome."""
        model, slot = self.model, step.slot
        match step.kind:
            case "add":
                model.add(step.texts)
            case "delete":
                return str(model.delete(step.texts))
            case "erase":
                return str(model.erase(step.texts))
            case "add in run":
                model.add_in_run(slot, step.texts)
            case "delete in run":
                return str(model.delete_in_run(slot, step.texts))
            case "clear in run":
                return str(model.delete_in_run(slot, model.seen(slot)))
            case "commit" if not model.commit(slot):
                return "conflict"
            case ending:
                if ending == "discard":
                    model.discard(slot)
                self.ended[slot] += 1
        return "done"


def run(plan: Plan) -> list[Result]:
    """Kill processes that write in runs of a file and outside of them."""
    path = plan.folder / "runs.db"
    return [_torture(plan, "pending_runs", partial(SqliteCollection, path), traced, plan.extent(short=15, full=500))]


def run_postgres(plan: Plan) -> list[Result]:
    """Kill processes that write in runs of a PostgreSQL store and outside of them."""
    with closing(PostgresServer()) as server:
        return [
            _torture(
                plan,
                "postgres_pending_runs",
                partial(_opened, server.url()),
                traced_postgres,
                plan.extent(short=4, full=30),
            )
        ]


def _opened(url: str) -> PostgresCollection:
    return PostgresCollection(url, store_type="simple")


def _torture(plan: Plan, fault: str, open_collection: Open, trace: Trace, kills: int) -> Result:
    result, chance, state = Result(fault=fault), plan.random(fault), State()
    with closing(open_collection()):
        pass
    for kill in range(kills):
        where = f"seed {plan.seed}, kill {kill}"
        steps, at = _steps(chance, kill), chance.randrange(_STATEMENTS)
        with Child(partial(_write, open_collection, trace, state, steps, at)) as child:
            outcomes = child.finish()
        result.tried += 1
        result.acknowledged += len(outcomes)
        if child.status == EXIT_FAILED:
            result.fail("unrecovered", f"{where}: it failed at {steps[len(outcomes)]}")
        for step, outcome in zip(steps, outcomes, strict=False):
            if (expected := state.take(step)) != outcome:
                result.fail("wrong", f"{where}: {step}: {outcome} in the place of {expected}")
        found = _judge(open_collection, state, steps[len(outcomes) :][:1], result, where)
        if found is None:
            return result
        state = found
    return result


def _steps(chance: Random, kill: int) -> list[Step]:
    return [
        Step(
            kind=chance.choice(_KINDS),
            slot=chance.randrange(2),
            texts=dict.fromkeys(chance.sample(_IDS, chance.randrange(1, 4)), f"note {kill} {number}"),
        )
        for number in range(_STEPS)
    ]


def _write(
    open_collection: Open, trace: Trace, state: State, steps: list[Step], at: int, send: Callable[[str], None]
) -> None:
    """Take the steps, and report the outcome of each, until the process is killed before a statement."""
    with dying(trace) as die_at, closing(open_collection()) as collection:
        die_at(at)
        with _views(collection, state) as views:
            for step in steps:
                outcome = _take(collection, views, state, step)
                if step.kind in ("commit", "discard") and outcome == "done":
                    state.ended[step.slot] += 1
                    views[step.slot].close()
                    views[step.slot] = _view(collection, state, step.slot)
                send(outcome)


@contextmanager
def _views(collection: Versioned, state: State) -> Iterator[list[Collection]]:
    """Open a view of each run; close those that are in the list at the end."""
    views = [_view(collection, state, slot) for slot in (0, 1)]
    try:
        yield views
    finally:
        for view in views:
            view.close()


def _view(collection: Versioned, state: State, slot: int) -> Collection:
    view = collection.run(state.name(slot))
    # A run exists from its first write on, even if that changes nothing.
    view.delete(ids=["absent"])
    return view


def _take(collection: Versioned, views: list[Collection], state: State, step: Step) -> str:
    """Take a step in the collection; return its outcome."""
    view, ids = views[step.slot], [*step.texts]
    items = [MemoryItem(id=key, content_summary=text) for key, text in step.texts.items()]
    match step.kind:
        case "add" | "add in run":
            (collection if step.kind == "add" else view).add(items)
        case "delete":
            return str(collection.delete(ids=ids))
        case "erase":
            return str(collection.erase(ids=ids))
        case "delete in run":
            return str(view.delete(ids=ids))
        case "clear in run":
            return str(view.clear())
        case ending:
            # An erasure of all that the run wrote has left nothing of it.
            view.delete(ids=["absent"])
            try:
                (collection.commit if ending == "commit" else collection.discard)(state.name(step.slot))
            except RunConflictError:
                return "conflict"
    return "done"


def _judge(open_collection: Open, state: State, under_way: list[Step], result: Result, where: str) -> State | None:
    """Return the state that the collection is in: after what was acknowledged, and after the next step or before it."""
    possible = [state]
    for step in under_way:
        possible.append(deepcopy(state))
        possible[-1].take(step)
    with closing(open_collection()) as collection:
        differences = [_differences(collection, one) for one in possible]
    for one, found in zip(possible, differences, strict=True):
        if not found:
            return one
    result.fail("wrong", f"{where}, at {under_way}: {differences}")
    return None


def _differences(collection: Versioned, state: State) -> list[str]:
    """Return what the collection shows in another way than the dictionaries."""
    found: list[str] = []
    for slot in (0, 1):
        info = collection.find_run(state.name(slot))
        if info is not None and info.state is not RunState.PENDING:
            return [f"{state.name(slot)} is {info.state}"]
    with ExitStack() as stack:
        views: list[AbstractContextManager[Collection]] = [closing(collection.run(state.name(slot))) for slot in (0, 1)]
        shown = [collection, *(stack.enter_context(view) for view in views)]
        wanted = [state.model.outside, *(state.model.seen(slot) for slot in (0, 1))]
        for one, texts in zip(shown, wanted, strict=True):
            found += [f"{read} in the place of {texts}" for read in shown_texts(one, _IDS) if read != texts]
    for slot in (0, 1):
        if collection.find_run(state.name(slot)) is not None:
            conflicts = sorted(collection.conflicts(state.name(slot)))
            found += [f"conflicts {conflicts}"] if conflicts != state.model.conflicts(slot) else []
    return found
