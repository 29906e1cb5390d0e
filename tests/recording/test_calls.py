"""The records of a call: its input before, its answer or its error after, and who called whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from devmem import record_agent, record_llm, record_tool
from devmem.recording import (
    InteractionKind,
    InteractionRecorder,
    ParticipantType,
    RecordingOptions,
    carry,
    continue_trace,
    current_trace,
)

from .conftest import ListSink


@record_tool("calculator", input_field="number")
def double(number: Any) -> Any:
    return number * 2


def test_a_call_is_two_records_with_opposite_directions(recorder: InteractionRecorder, sink: ListSink) -> None:
    with recorder, recorder.trace(conversation="c", trace="t", user="ann"):
        assert double(21) == 42
    asked, answered = sink.in_order()
    assert sink.told() == ["ann input calculator: 21", "calculator output ann: 42"]
    assert asked.pair_id == answered.pair_id != ""
    assert (asked.conversation, asked.trace, asked.params) == ("c", "t", {"number": 21})
    assert asked.event_time < answered.event_time


def test_an_agent_may_be_left_out_with_what_it_calls(recorder: InteractionRecorder, sink: ListSink) -> None:
    @record_agent("secretary", auto_trace=False)
    def note(number: int) -> int:
        with record_agent("typist", collection_types=["tool"]):
            return cast("int", double(number))

    with recorder, recorder.trace(user="ann"):
        assert note(2) == 4
        double(3)
    assert sink.told() == ["ann input calculator: 3", "calculator output ann: 6"]


def test_nested_calls_name_the_call_that_they_were_made_from(recorder: InteractionRecorder, sink: ListSink) -> None:
    @record_agent("writer")
    def write(task: str) -> str:
        return f"{task}: {double(2)}"

    with recorder, recorder.trace():
        write("sum")
    write_in, tool_in, tool_out, write_out = sink.in_order()
    assert (write_in.parent_id, tool_in.parent_id, tool_out.parent_id) == (None, write_in.id, write_in.id)
    assert write_out.parent_id is None
    assert tool_in.source.name == "writer"


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (None, "null"),
        (7, "7"),
        ("text with output and kwargs", "text with output and kwargs"),
        ({"kwargs": 1, "output": 2}, '{"kwargs": 1, "output": 2}'),
        (b"abc", '"[3 bytes]"'),
        (float("nan"), '"nan"'),
    ],
)
def test_answers_of_any_type_are_recorded(
    recorder: InteractionRecorder, sink: ListSink, answer: object, content: str
) -> None:
    """agentUniverse loses the answers None, 7 and any text with "output" in it (A7)."""
    with recorder, recorder.trace(), record_tool("tool", "q") as call:
        call.output(answer)
    assert sink.in_order()[1].content == content


def test_an_error_is_an_output_of_its_kind_and_goes_on(recorder: InteractionRecorder, sink: ListSink) -> None:
    with recorder, recorder.trace(), pytest.raises(ZeroDivisionError), record_tool("tool", "1/0"):
        _ = 1 / 0
    _, error = sink.in_order()
    assert (error.kind, error.content) == (InteractionKind.ERROR, "ZeroDivisionError: division by zero")
    assert error.source.name == "tool"


def test_async_calls_in_parallel_keep_their_own_callers(recorder: InteractionRecorder, sink: ListSink) -> None:
    @record_tool("slow")
    async def slow(name: str) -> str:
        await asyncio.sleep(0)
        return name

    @record_agent("a")
    async def agent(name: str) -> list[str]:
        return list(await asyncio.gather(slow(f"{name}1"), slow(f"{name}2")))

    async def main() -> None:
        await asyncio.gather(agent("x"), agent("y"))

    with recorder, recorder.trace():
        asyncio.run(main())
    by_id = {one.id: one for one in sink.in_order()}
    for one in sink.in_order():
        if one.target.name == "slow":
            parent = by_id[one.parent_id or ""]
            assert str(one.params["name"]).startswith(str(parent.params["name"]))


def test_a_stream_is_recorded_whole_and_calls_between_its_parts_are_the_callers(
    recorder: InteractionRecorder, sink: ListSink
) -> None:
    @record_llm("model")
    def answer() -> Iterator[str]:
        yield "Hel"
        double(1)
        yield "lo"

    with recorder, recorder.trace(user="ann"):
        parts = []
        for part in answer():
            parts.append(part)
            double(5)
    assert parts == ["Hel", "lo"]
    told = sink.told()
    assert told[0] == "ann input model: {}"
    assert told[-1] == "model output ann: Hello"
    assert "model input calculator: 1" in told
    assert told.count("ann input calculator: 5") == 2


def test_streams_take_values_and_exceptions_and_may_be_left(recorder: InteractionRecorder, sink: ListSink) -> None:
    @record_llm("model")
    def answer() -> Any:
        try:
            got = yield "first"
        except KeyError:
            got = "caught"
        yield got
        yield "never asked for"

    with recorder, recorder.trace():
        stream = answer()
        assert next(stream) == "first"
        assert stream.send("sent") == "sent"
        stream.close()
        thrown = answer()
        next(thrown)
        assert thrown.throw(KeyError()) == "caught"
        thrown.close()
    assert [one.content for one in sink.in_order() if one.kind is InteractionKind.OUTPUT] == [
        "firstsent",
        "firstcaught",
    ]


def test_a_trace_goes_on_in_another_process(recorder: InteractionRecorder, sink: ListSink) -> None:
    """A carried trace is JSON; the parent comes before the child whatever the other clock says."""
    with recorder:
        with recorder.trace(conversation="c", trace="t"), record_agent("boss", "go"):
            carried = carry()
        assert current_trace() is None
        late = InteractionRecorder(sink, recorder._file, clock=lambda: 5.0)
        with late, continue_trace(carried, late):
            double(1)
    boss, *_ = sink.in_order()
    child = next(one for one in sink.in_order() if one.target.name == "calculator")
    assert (child.conversation, child.trace, child.parent_id) == ("c", "t", boss.id)
    assert child.event_time > boss.event_time
    with pytest.raises(ValueError, match="carry"), continue_trace({"conversation": "c"}):
        pass


def test_outside_of_a_trace_and_of_what_is_recorded_nothing_is(sink: ListSink, tmp_path: Any) -> None:
    assert double(2) == 4
    options = RecordingOptions(types=frozenset({ParticipantType.TOOL}))
    with (
        InteractionRecorder(sink, tmp_path / "waiting.db", options) as recorder,
        recorder.trace(user="ann"),
        record_agent("a", "q"),
    ):
        double(3)
    assert sink.told() == ["a input calculator: 3", "calculator output a: 6"]


def test_the_output_field_counts_in_streams_and_an_answer_without_it_is_kept(
    recorder: InteractionRecorder, sink: ListSink
) -> None:
    parts: list[dict[str, object]] = [{"answer": "be"}, {"answer": "cause", "n": 1}, {"cost": 3}]
    recorded = record_agent("helper", "why?", output_field="answer")

    async def asynchronous() -> AsyncIterator[dict[str, object]]:
        for part in parts:
            yield part

    async def read() -> list[dict[str, object]]:
        return [part async for part in recorded(asynchronous)()]

    with recorder, recorder.trace(user="ann"):
        assert [list(recorded(lambda: (part for part in parts))()), asyncio.run(read())] == [parts] * 2
        assert list(recorded(lambda: (part for part in parts[2:]))()) == parts[2:]
        recorded(lambda: {"reply": "because"})()
    told = ["because", "because", '[{"cost": 3}]', '{"reply": "because"}']
    assert sink.told()[1::2] == [f"helper output ann: {each}" for each in told]


def test_a_callback_inside_of_its_wrapper_records_the_call_once_with_its_true_caller(
    recorder: InteractionRecorder, sink: ListSink
) -> None:
    with recorder, recorder.trace(user="ann"), record_llm("model", "q", call_id="run-1") as wrapper:
        with record_llm("model", "q", call_id="run-1") as callback:
            callback.output("from the callback")
        wrapper.output("a")
    assert sink.told() == ["ann input model: q", "model output ann: a"]
    assert sink.in_order()[0].parent_id is None


def test_arguments_are_named_and_an_argument_none_is_an_input(recorder: InteractionRecorder, sink: ListSink) -> None:
    class Tools:
        @record_tool("look", input_field="what")
        def look(self, what: object, *rest: object, deep: bool = False, **more: object) -> None: ...

    @record_tool("plain", input_field="what")
    def plain(what: object, other: int = 1) -> None: ...

    with recorder, recorder.trace():
        Tools().look(None, 2, 3, deep=True, extra="x")
        plain(None, other=2)
        with pytest.raises(TypeError, match="missing"):
            plain()  # type: ignore[call-arg]
        record_tool("length")(len)([1, 2])
    inputs = [one for one in sink.in_order() if one.kind is InteractionKind.INPUT]
    assert [one.content for one in inputs[:2]] == ["null", "null"]
    assert inputs[0].params == {"what": None, "rest": [2, 3], "deep": True, "more": {"extra": "x"}}
    assert inputs[1].params == {"what": None, "other": 2}
    assert [one.content for one in sink.in_order()][-1] == "2"


def test_an_object_that_returns_coroutines_is_recorded_with_the_answer(
    recorder: InteractionRecorder, sink: ListSink
) -> None:
    class Adder:
        async def __call__(self, number: int) -> int:
            with record_tool("adder", number) as call:
                call.output(number + 1)
            return number + 1

    called: Any = record_agent("object", input_field="number")(Adder())

    async def main() -> int:
        return cast("int", await called(2))

    with recorder, recorder.trace(conversation="c"):
        assert asyncio.run(main()) == 3
    assert sink.told() == [
        "user input object: 2",
        "object input adder: 2",
        "adder output object: 3",
        "object output user: 3",
    ]


@pytest.mark.parametrize("ids", [{"conversation": 5}, {"trace": 7}, {"user": 9}])
def test_ids_that_no_store_takes_are_refused_at_once(recorder: InteractionRecorder, ids: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="is an id as text, not"), recorder.trace(**ids):
        pass


@pytest.mark.parametrize(("name", "params"), [(None, None), (5, None), ("t", [1, 2])])
def test_names_and_arguments_that_cannot_be_recorded_are_refused_at_once(name: Any, params: Any) -> None:
    with pytest.raises(TypeError, match="a name is a text and `params` are a mapping"):
        record_tool(name, params=params)


def test_secrets_are_masked_and_long_texts_shortened(sink: ListSink, tmp_path: Any) -> None:
    options = RecordingOptions(max_content_length=60)
    tool = record_tool("t", params={"api_key": "abc", "url": "postgres://me:pw12@host/db"})
    with InteractionRecorder(sink, tmp_path / "waiting.db", options) as recorder, recorder.trace(), tool as call:
        call.output("Bearer " + "a" * 30 + " " + "x" * 100)
    asked, answered = sink.in_order()
    assert asked.params == {"api_key": "[secret]", "url": "postgres://[secret]@host/db"}
    assert "aaaa" not in answered.content
    assert answered.content.endswith("characters]")
    assert len(answered.content) <= 60
