"""A team of five agents whose every call is recorded, and the call tree that its records must show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from devmem import record_agent, record_knowledge, record_llm, record_tool
from devmem.recording import (
    Interaction,
    InteractionKind,
    InteractionRecorder,
    RecordingOptions,
    in_order,
    in_trace,
)
from devmem.recording.content import shortened
from devmem.views.diagrams import CallNode, call_tree

LONG: Final = "A long text, of which a record keeps the beginning and the length. " * 400
_CUT: Final = RecordingOptions().max_content_length
HELPERS: Final = ("planner", "searcher", "writer", "critic")
_PARALLEL: Final = slice(2, 4)
"""Helpers that the boss asks at the same time; they begin in any order."""
RECORDS_PER_RUN: Final = 58


@record_tool("nothing", input_field="key")
def _nothing(key: str) -> None: ...


@record_tool("number", input_field="key")
def _number(key: str) -> int:
    return len(key)


@record_tool("table", input_field="key")
def _table(key: str) -> dict[str, object]:
    return {"output": key, "kwargs": [1, None]}


@record_tool("long", input_field="key")
def _long(key: str) -> str:
    return f"{key}: {LONG}"


@record_tool("failing", input_field="key")
def _failing(key: str) -> None:
    raise LookupError(key)


@record_knowledge("library", input_field="key")
def _library(key: str) -> list[str]:
    return [key, "a book"]


@record_llm("model", input_field="key")
def _model(key: str) -> Iterator[str]:
    """Stream an answer, and call a tool in the middle of it."""
    yield f"{key}: "
    yield str(_number(key))
    yield "."


@record_agent("helper", input_field="key")
def _helper(key: str) -> str:
    """Call a model and four tools in turn, as each of the four helpers does."""
    said = "".join(_model(key))
    _nothing(key)
    _table(key)
    try:
        _failing(key)
    except LookupError:
        said += " failed once."
    return said


@record_agent("boss", input_field="key")
def _boss(key: str) -> str:
    """Ask two helpers in turn and two at the same time."""
    answers = [_helper(f"{key}/{name}") for name in HELPERS[:2]]
    with ThreadPoolExecutor(2) as pool:
        answers += pool.map(in_trace(_helper), [f"{key}/{name}" for name in HELPERS[2:]])
    _library(key)
    _long(key)
    return str(len(answers))


def run_team(recorder: InteractionRecorder, conversation: str, key: str) -> None:
    """Run the team once, as a trace of the same name."""
    with recorder.trace(conversation=conversation, trace=key, user="ann"):
        _boss(key)
        _number(key)
        _nothing(key)


@dataclass(frozen=True, slots=True)
class Seen:
    """A call and its answer, with the calls from within it in the order of their beginnings."""

    callee: str
    question: str
    answer: str
    calls: tuple[Seen, ...] = ()


def expected_calls(key: str) -> list[Seen]:
    """Return the calls of a run."""
    helpers = [_expected_helper(f"{key}/{name}") for name in HELPERS]
    boss_calls = (
        *helpers,
        Seen("library", key, f'["{key}", "a book"]'),
        Seen("long", key, shortened(f"{key}: {LONG}", _CUT)),
    )
    return [
        Seen("boss", key, "4", boss_calls),
        Seen("number", key, str(len(key))),
        Seen("nothing", key, "null"),
    ]


def _expected_helper(key: str) -> Seen:
    said = f"{key}: {len(key)}."
    calls = (
        Seen("model", key, said, (Seen("number", key, str(len(key))),)),
        Seen("nothing", key, "null"),
        Seen("table", key, f'{{"output": "{key}", "kwargs": [1, null]}}'),
        Seen("failing", key, f"LookupError: {key}"),
    )
    return Seen("helper", key, f"{said} failed once.", calls)


def faults_of(key: str, records: Sequence[Interaction]) -> list[str]:
    """Return what is wrong with the records of a run; none when they are those of its calls, each once."""
    faults = []
    if len({one.id for one in records}) != len(records):
        faults.append("an id comes twice")
    inputs = {one.pair_id: one for one in records if one.kind is InteractionKind.INPUT}
    outputs = {one.pair_id: one for one in records if one.kind is not InteractionKind.INPUT}
    if inputs.keys() != outputs.keys() or len(inputs) + len(outputs) != len(records):
        faults.append(f"{len(inputs)} inputs and {len(outputs)} outputs of {len(records)} records are no pairs")
    by_id = {one.id: one for one in records}
    position = {one.id: at for at, one in enumerate(in_order(records))}
    for one in inputs.values():
        parent = by_id.get(one.parent_id or "")
        answer = outputs.get(one.pair_id)
        if answer is None:
            continue
        if position[one.id] > position[answer.id]:
            faults.append(f"{one.target.name} answers before it is asked")
        if parent is not None and not (
            position[parent.id] < position[one.id] and position[answer.id] < position[outputs[parent.pair_id].id]
        ):
            faults.append(f"{one.target.name} is not called within {parent.target.name}")
    if not faults and [_as_seen(node) for node in call_tree(records)] != expected_calls(key):
        faults.append("the tree is not that of the calls")
    return faults


def _as_seen(node: CallNode) -> Seen:
    calls = [_as_seen(call) for call in node.calls]
    if node.call.target.name == "boss":
        calls[_PARALLEL] = sorted(calls[_PARALLEL], key=lambda seen: HELPERS.index(seen.question.rpartition("/")[2]))
    return Seen(
        callee=node.call.target.name,
        question=node.call.content,
        answer=node.answer.content if node.answer else "",
        calls=tuple(calls),
    )
