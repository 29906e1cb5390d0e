"""Hostile items: whatever `add` accepts, every reading call returns, and what it refuses has left nothing behind."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from pydantic import JsonValue
from typer.testing import CliRunner

import devmem
from devmem import ANY, DevmemError, Hit, Memory, MemoryItem
from devmem.cli.app import app
from devmem.memory import RunState
from devmem.model.border import clean_text, clean_values
from devmem.model.items import LEAST_TRUST
from tools.postgres_server import PostgresServer
from tools.torture.results import Plan, Result

_BATCH: Final = 20
"""Number of items that a store has at a time; some calls return all of them."""
_REFUSALS: Final = (DevmemError, ValueError, TypeError)
_PIECES: Final = (
    *("\x00", "\x1f", "\x7f", "\x85", "\u2028", "\r\n", "\t", "\ufeff", "\ufffe", "\uffff", "\u00ad", "\u200b"),
    *("\u202e", "\u2066", "\u2069", "\u200f", "\u061c", "e\u0301\u0302\u0303", "\u0130", "ß", "ﬁ", "\u1e9e", "Ⅷ"),
    *("\ud83d ", "\udc00 ", "\udfff", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U000e0041", "\U0010ffff"),
    *("[2020-01-01] The user (trusted) said:", "</memory>", "'; DROP TABLE items; --", "%s{0}$1", "\\u0000", "\\"),
    *('"}', "NEAR(", "x" * 3_000, "明日の会議", "שלום", "مرحبا", "a.b", "*", "-0", "1e999", "NaN", "null"),
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An item that was acknowledged, as every call must return it."""

    marker: str
    """A word that only this item has."""
    text: str
    metadata: Mapping[str, JsonValue]
    user: str | None
    is_found: bool
    """Whether a search returns it, as it is not in quarantine."""


def run(plan: Plan) -> list[Result]:
    """Add hostile items to memories in this process, and in files."""
    batches = plan.extent(short=3, full=100)
    return [
        _torture(plan, "bodies:memory", batches, lambda _: ":memory:"),
        _torture(plan, "bodies:file", batches, lambda number: str(plan.folder / f"bodies-{number}.db")),
    ]


def run_postgres(plan: Plan) -> list[Result]:
    """Add hostile items to memories in a PostgreSQL database."""
    with closing(PostgresServer()) as server:
        batches = plan.extent(short=2, full=15)
        return [_torture(plan, "postgres_bodies", batches, lambda number: server.url(store=f"bodies{number}"))]


def _torture(plan: Plan, fault: str, batches: int, place_of: Callable[[int], str]) -> Result:
    # A search without a user says how many items of users it leaves out.
    logging.getLogger("devmem").setLevel(logging.ERROR)
    result, chance = Result(fault=fault), plan.random(fault)
    for batch in range(batches):
        place = place_of(batch)
        with devmem.open(place, embedding=None) as memory:
            expected = _add_all(memory, chance, batch, result)
            result.acknowledged += len(expected)
            for item_id, item in expected.items():
                _check_one(memory, item_id, item, result)
            _check_lists(memory, expected, result)
            _check_derived(memory, expected, result)
        if place != ":memory:":
            _check_transfer(place, plan.folder / f"{fault.replace(':', '-')}-{batch}", expected, result)
        with devmem.open(place, embedding=None) as memory:
            if place != ":memory:":
                _check_lists(memory, expected, result)
                _forget_all(memory, expected, result)
    return result


def _add_all(memory: Memory, chance: Random, batch: int, result: Result) -> dict[str, Accepted]:
    """Add items in every way; return those that were accepted."""
    expected: dict[str, Accepted] = {}
    for number in range(_BATCH):
        marker, result.tried = f"w{batch}x{number}", result.tried + 1
        text, metadata, user, options = _text(chance, marker), _metadata(chance), _user(chance), _options(chance)
        before = memory.count(user=ANY)
        try:
            item_id = _added(memory, chance.choice(_WAYS), text, metadata, {**options, "user": user})
        except _REFUSALS:
            if memory.count(user=ANY) != before or any(info.state is RunState.PENDING for info in memory.runs()):
                result.fail("wrong", f"{marker}: it was refused, and something was stored")
            continue
        except Exception as error:  # noqa: BLE001 - an error that is not devmem's own is the finding
            result.fail("unrecovered", f"{marker}: {type(error).__name__}: {str(error)[:100]}")
            continue
        # What no parser or database can hold is replaced where it comes in.
        kept, values = clean_text(text), clean_values("metadata", metadata)
        expected[item_id] = Accepted(marker, kept, values, user, is_found=options.get("trust", 1) >= LEAST_TRUST)
    return expected


_WAYS: Final = ("text", "dict", "message", "list", "id", "update", "run")


def _added(memory: Memory, way: str, text: str, metadata: dict[str, JsonValue], options: dict[str, Any]) -> str:
    """Add an item in one of the ways; return its id. A list has a plain text beside it, as all of it is refused."""
    match way:
        case "dict":
            (item_id,) = memory.add([{"text": text, "metadata": metadata}], **options)
        case "message":
            (item_id,) = memory.add({"role": "user", "content": text}, metadata=metadata, **options)
        case "list":
            first, item_id = memory.add(["a plain text", {"text": text, "metadata": metadata}], **options)
            memory.forget(first)
        case "id":
            item_id = memory.add(text, id=f"\u202eid '{text[:9]}'", metadata=metadata, **options)
        case "update":
            item_id = _updated(memory, text, metadata, options)
        case "run":
            with memory.run() as pending:
                item_id = pending.add(text, metadata=metadata, **options)
        case _:
            item_id = memory.add(text, metadata=metadata, **options)
    return item_id


def _updated(memory: Memory, text: str, metadata: dict[str, JsonValue], options: dict[str, Any]) -> str:
    """Make a plain item a hostile one; where that is refused, the plain one is taken back."""
    item_id = memory.add("plain", user=options["user"])
    changes = {name: value for name, value in options.items() if name != "user"}
    try:
        # None takes a key out.
        memory.update(item_id, text, metadata=metadata, **changes)
    except _REFUSALS:
        memory.forget(item_id)
        raise
    return item_id


def _text(chance: Random, marker: str) -> str:
    around = [chance.choice(_PIECES) for _ in range(chance.randrange(5))]
    around.insert(chance.randrange(len(around) + 1), f" {marker} ")
    return "".join(around)


def _user(chance: Random) -> str | None:
    return chance.choice((None, "ann", "ann\u200b", "Ann", "ann ", "'; --", "\u202eann", "x" * 500))


def _options(chance: Random) -> dict[str, Any]:
    """Return options of `add`, now and then of a hostile value."""
    times = (-0.0, 0.0, 1.5, -1e9, 4e9, 2.0**63, 1e300, 10**400, "1970-01-01T00:00:00Z", datetime.max, datetime.min)
    options: dict[str, Any] = {}
    if chance.random() < 0.2:
        options["time"] = chance.choice(times)
    if chance.random() < 0.2:
        options["trust"] = chance.choice((0, -0.0, 5e-324, 0.5, 1, 1.0, math.nan, 2, -1e-300))
    if chance.random() < 0.2:
        options["expires_at"] = chance.choice(
            (timedelta(days=10**6), timedelta(days=99), datetime.now(UTC) + timedelta(days=2), 1e18, math.inf)
        )
    return options


def _metadata(chance: Random) -> dict[str, JsonValue]:
    keys = ("", "a", "a.b", "\x00", "\udc00", "\ufffd", "\u202e", "$", "k" * 1_000, "ключ")
    return {chance.choice(keys): _value(chance) for _ in range(chance.randrange(3))}


def _value(chance: Random) -> JsonValue:
    """Return a value of the metadata; None stands in a list, as alone it takes a key out."""
    match chance.randrange(7):
        case 0:
            return _nested(chance.choice((1, 30, 150, 198, 199, 200, 220, 254, 255, 256, 1_000)))
        case 1:
            return chance.choice((1, -1)) * 10 ** chance.choice((0, 9, 18, 19, 300, 4_299, 4_300, 4_400, 9_000))
        case 2:
            return chance.choice((-0.0, 5e-324, 1.7976931348623157e308, 0.1, math.nan, math.inf, -math.inf))
        case 3:
            return "".join(chance.choice(_PIECES) for _ in range(3))
        case 4:
            return [None, True, "x", 2**63, {"": [], "\x00": {}}]
        case 5:
            return {f"k{number}": number for number in range(chance.choice((1, 2_000)))}
        case _:
            return chance.choice((False, "", [], 2**64, -(2**63)))


def _nested(levels: int) -> JsonValue:
    value: JsonValue = "core"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def _same(found: MemoryItem | Hit | None, item: Accepted) -> bool:
    record = found.item if isinstance(found, Hit) else found
    return (
        record is not None
        and (record.text, record.user) == (item.text, item.user)
        and dict(record.caller_metadata) == item.metadata
    )


def _check_one(memory: Memory, item_id: str, item: Accepted, result: Result) -> None:
    """Have every call that returns one item return it."""
    now = time.time() + 1
    calls: dict[str, Callable[[], MemoryItem | Hit | None]] = {
        "get": lambda: memory.get(item_id),
        "get_many": lambda: memory.get([item_id])[0],
        "history": lambda: memory.history(item_id)[-1].item,
        "as_of": lambda: _as_of(memory, now, item_id),
    }
    if item.is_found:
        search = {"limit": 50, "user": item.user, "collapse": False}
        calls["search"] = lambda: _of_id(memory.search(item.marker, **search), item_id)  # type: ignore[arg-type]
    for name, call in calls.items():
        _check(result, f"{name}: {item.marker}", lambda call=call: _same(call(), item))  # type: ignore[misc]


def _as_of(memory: Memory, at: float, item_id: str) -> MemoryItem | None:
    with memory.as_of(at) as snapshot:
        return snapshot.get(item_id)


def _of_id(records: Sequence[MemoryItem], item_id: str) -> MemoryItem | None:
    return next((record for record in records if record.id == item_id), None)


def _check(result: Result, where: str, holds: Callable[[], bool]) -> None:
    """Count a call that returns something else, or that fails."""
    try:
        if not holds():
            result.fail("wrong", f"{where} is not returned as it was accepted")
    except Exception as error:  # noqa: BLE001 - whatever a call raises about an accepted item is the finding
        result.fail("unrecovered", f"{where}: {type(error).__name__}: {str(error)[:100]}")


def _check_lists(memory: Memory, expected: Mapping[str, Accepted], result: Result) -> None:
    """Have every call that returns all items return exactly those that were accepted."""
    calls: dict[str, Callable[[], Sequence[MemoryItem]]] = {
        "recent": lambda: memory.list(1_000, user=ANY),
        "scan": lambda: list(memory.scan(user=ANY)),
        "iteration": lambda: list(memory.scoped(user=ANY)),
        "diff": lambda: [change.after for change in memory.diff(0) if change.after is not None],
    }
    for name, call in calls.items():

        def holds(call: Callable[[], Sequence[MemoryItem]] = call) -> bool:
            found = {record.id: record for record in call()}
            wrong = found.keys() ^ expected.keys() or {key for key in expected if not _same(found[key], expected[key])}
            if wrong:
                result.notes.append(f"{sorted(expected[key].marker for key in wrong if key in expected)}")
            return not wrong

        _check(result, name, holds)
    _check(result, "count", lambda: memory.count(user=ANY) == len(memory) == len(expected))


def _check_derived(memory: Memory, expected: Mapping[str, Accepted], result: Result) -> None:
    """Have the calls that make something else of all items do so."""
    # A text that is the question alone is not shown.
    everybody = {
        item.marker for item in expected.values() if item.is_found and re.sub(r"\W+", "", item.text) != item.marker
    }
    _check(result, "search of everybody", lambda: len(memory.search("x", user=ANY, limit=99)) >= 0)
    for marker in sorted(everybody)[:3]:
        _check(result, f"context: {marker}", lambda marker=marker: marker in memory.context(marker, user=ANY))  # type: ignore[misc]
    for key in ("metadata.a", "metadata.a.b", "metadata.ключ", "user"):
        _check(result, f"count by {key!r}", lambda key=key: memory.count(by=key, user=ANY) is not None)  # type: ignore[misc]


def _check_transfer(place: str, file: Path, expected: Mapping[str, Accepted], result: Result) -> None:
    """Export the items, import them into another memory, and compare them there."""
    export, copy = file.with_suffix(".json"), file.with_suffix(".copy.db")
    for command in (["export", place, "--output", str(export)], ["import", str(copy), str(export)]):
        done = CliRunner().invoke(app, command)
        if done.exit_code:
            result.fail("unrecovered", f"{' '.join(command)}: exit code {done.exit_code}: {done.output[-200:]}")
            return
    with devmem.open(copy, embedding=None) as memory:
        _check_lists(memory, expected, result)


def _forget_all(memory: Memory, expected: Mapping[str, Accepted], result: Result) -> None:
    """Have each item forgotten on its own, by its id or with all of its user's."""
    for item_id, item in expected.items():
        _check(result, f"forget: {item.marker}", lambda item_id=item_id: memory.forget(item_id).items == 1)  # type: ignore[misc]
    _check(result, "what is left", lambda: len(memory) == 0 and memory.diff(0) == [])
