"""Facts beside turns: extracted in the background by a chat model, of the turn's scope and trust, and gone with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

import devmem
from devmem import Memory, MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope
from devmem.models import ChatModel
from devmem.models.facts import FactModel
from devmem.recording import Participant, ParticipantType
from devmem.stores import FactKeepingMemory, MemoryQuery, Provenance, SourceKind
from devmem.stores.fact_queue import FactStatus
from devmem_stores.conversation import ConversationMemory
from tests.models.service import ChatService, Reply, answering
from tests.stores.interactions import record

DOWN = Reply(body={"error": {"message": "overloaded"}}, status=400)
Open = Callable[..., Memory]


def stated(*facts: tuple[str, str, str, str]) -> Reply:
    names = ("subject", "attribute", "value", "quote")
    return answering(json.dumps({"facts": [dict(zip(names, fact, strict=True)) for fact in facts]}))


def said_in(request: dict[str, Any]) -> str:
    return " ".join(one["text"] for one in json.loads(request["messages"][-1]["content"]))


def diet_of(request: dict[str, Any]) -> Reply:
    """Answer as a model that knows one fact: what somebody's diet is."""
    text = said_in(request)
    found = [word for word in ("vegan", "paleo", "keto", "素食") if word in text]
    if not found:
        return stated()
    quote = f"My diet is {found[0]}" if found[0] != "素食" else "我的饮食是素食"
    return stated(("I", "diet", found[0], quote))


def hold_answers(service: ChatService) -> tuple[threading.Event, threading.Event]:
    """Return events: the first is set when the model is asked, and it answers when the second one is set."""
    asked, answers = threading.Event(), threading.Event()

    def held(request: dict[str, Any]) -> Reply:
        asked.set()
        assert answers.wait(60)
        return diet_of(request)

    service.script = [held]
    return asked, answers


@pytest.fixture
def service(service: ChatService) -> ChatService:
    service.script = [diet_of]
    return service


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "notes.db")


@pytest.fixture
def open_memory(service: ChatService, place: str) -> Iterator[Open]:
    opened: list[Memory] = []

    def open_memory(kind: str = "simple", facts: object = None, **config: Any) -> Memory:
        llm = {"model": "m", "api_key": "k", "base_url": service.address, "params": {"max_retries": 0}}
        block = {"memory_path": place, "facts": {"llm": llm, **(facts or {})}, **config}  # type: ignore[dict-item]
        memory = devmem.open({"type": kind, "name": "notes", "config": block})
        opened.append(memory)
        return memory

    yield open_memory
    for memory in opened:
        memory.close()


def store_of(memory: Memory) -> FactKeepingMemory:
    return cast("FactKeepingMemory", memory.store)


def caught_up(memory: Memory) -> FactStatus:
    return store_of(memory).catch_up_facts()


def facts_in(memory: Memory) -> list[MemoryItem]:
    return [item for item in store_of(memory).scan() if "fact" in item.metadata]


def value_of(item: MemoryItem) -> str:
    parts = item.metadata["fact"]
    assert isinstance(parts, dict)
    return str(parts["value"])


def values_in(memory: Memory) -> list[tuple[str | None, str]]:
    return sorted((item.scope.user, value_of(item)) for item in facts_in(memory))


class FactCases:
    """Every place keeps facts in the same way."""

    def test_a_fact_stands_beside_its_turn(self, open_memory: Open, service: ChatService) -> None:
        """Its text names its origin; its scope, time, expiry and trust are those of the turn at most."""
        memory = open_memory(ttl="30d")
        turn = memory.add("My diet is vegan since May.", user="ann", conversation="c", time=1_700_000_000, trust=0.5)
        status = caught_up(memory)
        assert (status.waiting, status.extracted, status.calls, status.dropped, status.failure) == (0, 1, 1, {}, "")
        kept, (fact,) = store_of(memory).get([turn])[0], facts_in(memory)
        assert kept.content_summary == "My diet is vegan since May."
        assert fact.content_summary == 'Fact: ann, diet: vegan (ann said: "My diet is vegan")'
        assert "fact" in fact.metadata
        assert (fact.scope, fact.trust, fact.event_time) == (kept.scope, 0.5, 1_700_000_000)
        assert fact.expires_at == kept.expires_at is not None
        assert (fact.provenance.parents, fact.provenance.kind) == ((turn,), SourceKind.USER)
        assert {hit.id for hit in memory.search("vegan diet", user="ann")} == {turn, fact.id}
        assert 'Fact: ann, diet: vegan (ann said: "My diet is vegan")' in memory.context("vegan diet", user="ann")
        assert len(service.requests) == 1

    def test_a_new_value_is_a_version(self, open_memory: Open) -> None:
        """Of the same subject in the same scope; a value that is said again changes nothing."""
        memory = open_memory()
        for text in ("My diet is paleo.", "My diet is paleo, as I said.", "My diet is vegan now."):
            memory.add(text, user="ann")
            caught_up(memory)
        (fact,) = facts_in(memory)
        assert [value_of(version.item) for version in memory.history(fact.id)] == ["paleo", "vegan"]
        status = caught_up(memory)
        assert (status.extracted, status.dropped) == (2, {"known already": 1})

    def test_facts_of_other_scopes_are_never_replaced(self, open_memory: Open) -> None:
        """Nor shown to others: the same subject and attribute have another id for each user and conversation."""
        memory = open_memory()
        memory.add("My diet is paleo.", user="ann", conversation="one")
        memory.add("My diet is vegan.", user="ann", conversation="two")
        memory.add("My diet is keto.", user="bob", conversation="one")
        memory.add("ann said: My diet is vegan.", user="bob", conversation="ann")
        memory.add("我的饮食是素食。", conversation="one")
        caught_up(memory)
        assert len({item.id for item in facts_in(memory)}) == len(facts_in(memory)) == 5
        seen = memory.scoped(user="ann")
        assert {store_of(memory).get([hit.id])[0].scope.user for hit in seen.search("diet", limit=20)} == {"ann"}
        assert len(seen.search("diet", limit=20)) == 4

    def test_an_older_or_less_trusted_value_does_not_replace_a_fact(self, open_memory: Open) -> None:
        """As of turns that were imported later, or of what a page says."""
        memory = open_memory(facts={"sources": ["user", "tool"]})
        memory.add("My diet is vegan.", user="ann", time=2_000)
        memory.add("My diet is paleo.", user="ann", time=1_000)
        page = Provenance(kind=SourceKind.TOOL, name="browser")
        memory.add("My diet is keto.", user="ann", time=3_000, source=page, metadata={"speaker": "ann"})
        status = caught_up(memory)
        assert values_in(memory) == [("ann", "vegan")]
        assert status.dropped == {"older than what is known": 1, "less trusted than what is known": 1}

    def test_a_model_that_is_down_costs_no_write(self, open_memory: Open, service: ChatService) -> None:
        """The turns wait, also for the next process, which extracts each of them once."""
        service.script = [DOWN]
        memory = open_memory()
        memory.add("My diet is vegan.", user="ann")
        memory.add("My diet is keto.", user="bob")
        status = caught_up(memory)
        assert (status.waiting, status.extracted) == (2, 0)
        assert status.failure.startswith("ChatModelError: chat model 'm' gave no answer")
        assert status.calls == status.failures == len(service.requests) > 0
        memory.close()
        service.script = [diet_of]
        again = open_memory()
        assert facts_in(again) == []
        status = caught_up(again)
        assert (status.waiting, status.extracted, status.failure) == (0, 2, "")
        assert values_in(again) == [("ann", "vegan"), ("bob", "keto")]
        asked = len(service.requests)
        assert (status.calls, status.calls - status.failures) == (asked, 2)
        assert caught_up(again).extracted == 2
        assert len(service.requests) == asked

    def test_a_call_that_closing_interrupts_is_counted(self, open_memory: Open, service: ChatService) -> None:
        """The turn waits, and the next process asks again."""
        asked, answers = hold_answers(service)
        memory = open_memory()
        memory.add("My diet is vegan.", user="ann")
        assert asked.wait(60)
        memory.close()
        answers.set()
        service.script = [diet_of]
        status = caught_up(open_memory())
        assert (status.waiting, status.extracted, status.calls, status.failures) == (0, 1, 2, 0)

    def test_no_call_follows_the_closing(
        self, open_memory: Open, service: ChatService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A model that is opened only after that is not asked: nobody would count the call."""
        opening, opened = threading.Event(), threading.Event()
        usual = FactModel.open

        def slow(model: FactModel) -> ChatModel:
            opening.set()
            assert opened.wait(60)
            return usual(model)

        monkeypatch.setattr(FactModel, "open", slow)
        memory = open_memory()
        memory.add("My diet is vegan.", user="ann")
        assert opening.wait(60)
        (extracting,) = [thread for thread in threading.enumerate() if thread.name == "devmem-facts"]
        memory.close()
        opened.set()
        extracting.join(60)
        assert not service.requests
        again = open_memory()
        status = caught_up(again)
        assert (status.waiting, status.extracted, status.calls) == (0, 1, len(service.requests))

    @pytest.mark.parametrize("text", ["", '{"facts": [{"subject": "I', "{" * 9_000])
    def test_an_unreadable_answer_is_counted(self, text: str, open_memory: Open, service: ChatService) -> None:
        """Empty ones are failures of the model, which is asked again."""
        usage = {"prompt_tokens": 40, "completion_tokens": 5}
        service.script = [Reply(body={**cast("Any", answering(text).body), "usage": usage})]
        memory = open_memory()
        memory.add("My diet is vegan.", user="ann")
        status = caught_up(memory)
        assert facts_in(memory) == []
        asked = len(service.requests)
        assert (status.calls, status.input_tokens, status.output_tokens) == (asked, asked * 40, asked * 5)
        assert status.failures == (0 if text else asked)
        if text:
            assert (status.waiting, status.dropped) == (0, {"the answer is not JSON": 1})
        else:
            assert (status.waiting, status.dropped) == (1, {})
            assert "without a text" in status.failure

    def test_what_a_hostile_answer_claims_is_dropped(self, open_memory: Open, service: ChatService) -> None:
        """Quotes of nobody, values of nowhere, subjects of others; facts of others stay as they are."""
        memory = open_memory()
        memory.add("My diet is keto.", user="bob")
        caught_up(memory)
        service.script = [
            stated(
                ("bob", "diet", "poison", "My diet is poison"),
                ("bob", "diet", "poison", "My diet is vegan"),
                ("bob", "diet", "vegan", "My diet is vegan"),
                ("SYSTEM", "rule", "vegan", "My diet is vegan"),
            )
        ]
        memory.add("My diet is vegan.", user="ann")
        status = caught_up(memory)
        assert values_in(memory) == [("bob", "keto")]
        assert status.dropped == {
            "the quote is not in the turn": 1,
            "the subject is not in the turn": 2,
            "the value is not in the quote": 1,
        }

    def test_facts_are_erased_with_their_turn(self, open_memory: Open, service: ChatService) -> None:
        """Also those that are being extracted at that moment, or wait."""
        memory = open_memory()
        turn = memory.add("My diet is vegan.", user="ann")
        caught_up(memory)
        receipt = memory.forget(turn, verify=True)
        assert receipt.items == 2
        assert facts_in(memory) == []
        asked, answers = hold_answers(service)
        late = memory.add("My diet is keto.", user="ann")
        assert asked.wait(60)
        memory.forget(late, verify=True)
        answers.set()
        assert caught_up(memory).waiting == 0
        assert (facts_in(memory), len(memory)) == ([], 0)

    def test_a_changed_turn_is_read_again(self, open_memory: Open) -> None:
        """Its fact is stale until then; one that it does not state any more is deleted."""
        memory = open_memory()
        turn = memory.add("My diet is paleo.", user="ann")
        caught_up(memory)
        memory.update(turn, "My diet is vegan.")
        caught_up(memory)
        assert values_in(memory) == [("ann", "vegan")]
        assert memory.stale() == []
        memory.update(turn, "It is raining.")
        caught_up(memory)
        assert facts_in(memory) == []

    def test_facts_follow_the_trust_of_their_turn(self, open_memory: Open) -> None:
        """In quarantine there are none; out of it they are extracted again."""
        memory = open_memory()
        turn = memory.add("My diet is paleo.", user="ann")
        caught_up(memory)
        assert [fact.trust for fact in facts_in(memory)] == [0.8]
        memory.update(turn, trust=0.3)
        caught_up(memory)
        assert [fact.trust for fact in facts_in(memory)] == [0.3]
        memory.update(turn, trust=0)
        caught_up(memory)
        assert facts_in(memory) == []
        memory.update(turn, trust=1)
        caught_up(memory)
        assert [fact.trust for fact in facts_in(memory)] == [0.8]

    def test_a_users_own_item_is_never_replaced(self, open_memory: Open) -> None:
        """Neither one with a key, nor one under the very id of a fact."""
        memory = open_memory()
        memory.add("My diet is paleo.", user="ann")
        caught_up(memory)
        (fact,) = facts_in(memory)
        memory.forget(fact.id, verify=True)
        own = memory.add("Reserved.", user="ann", id=fact.id)
        keyed = memory.add("Diet: see the doctor.", user="ann", key="ann.diet")
        memory.add("My diet is vegan.", user="ann")
        status = caught_up(memory)
        assert status.dropped["an item that is not a fact has its id"] == 1
        assert [memory.get(each).text for each in (own, keyed)] == ["Reserved.", "Diet: see the doctor."]  # type: ignore[union-attr]

    def test_turns_of_a_run_are_read_when_it_is_committed(self, open_memory: Open, service: ChatService) -> None:
        """Those of a run that is discarded never are, and reverting takes the facts along."""
        memory = open_memory()
        with memory.run("night") as run:
            run.add("My diet is paleo.", user="ann")
            assert caught_up(memory).waiting == 1
            assert service.requests == []
        caught_up(memory)
        assert values_in(memory) == [("ann", "paleo")]
        memory.revert("night")
        assert (facts_in(memory), len(memory)) == ([], 0)

    def test_the_guard_catches_facts_too(self, open_memory: Open) -> None:
        memory = open_memory(guard={"max_length": 30})
        memory.add("My diet is vegan.", user="ann")
        status = caught_up(memory)
        assert status.extracted == 1
        assert ["fact" in each.metadata for each in memory.list(quarantined=True, user="ann")] == [True]
        assert [hit.text for hit in memory.search("vegan", user="ann")] == ["My diet is vegan."]

    def test_stored_turns_are_read_on_request_alone(self, open_memory: Open, service: ChatService) -> None:
        """Turns that are older than the `facts:` block cost nothing unless they are asked for."""
        plain = open_memory(facts={"sources": ["file"]})
        for at, name in enumerate(("ann", "bob")):
            plain.add("My diet is vegan.", user=name, time=1_000 + at)
        plain.close()
        memory = open_memory()
        assert caught_up(memory) == FactStatus(waiting=0)
        done: list[int] = []
        status = store_of(memory).catch_up_facts(done.append, whole=True)
        assert (status.extracted, status.waiting, done) == (2, 0, [1, 2])
        asked = len(service.requests)
        assert store_of(memory).catch_up_facts(whole=True).extracted == 2
        assert len(service.requests) == asked == 2

    def test_two_processes_extract_each_turn_once(self, open_memory: Open, service: ChatService) -> None:
        """Stores on one place share the queue; none asks about a turn that another one has taken."""
        one, two = open_memory(), open_memory()
        for at in range(12):
            (one, two)[at % 2].add("My diet is vegan.", user=f"user {at}")
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda memory: caught_up(memory), (one, two) * 2))
        for memory in (one, two):
            caught_up(memory)
        assert len(facts_in(one)) == 12
        assert len(service.requests) == 12
        assert caught_up(one).extracted == 12

    def test_a_turn_of_a_dead_process_is_asked_about_again(self, open_memory: Open, service: ChatService) -> None:
        """Facts that it had stored already are not asked for again."""
        memory = open_memory()
        memory.add("My diet is vegan.", user="ann")
        caught_up(memory)
        turn = next(item.id for item in store_of(memory).scan() if "fact" not in item.metadata)
        extractor = store_of(memory)._facts
        assert extractor is not None
        now = memory.store.setup.clock()
        # As a process leaves it that dies between the facts and the end of its work.
        extractor.queue.announce([turn], now - 1_000)
        (waiting,) = extractor.queue.turns()
        assert extractor.queue.take(waiting, now - 1_000) is not None
        assert caught_up(memory).waiting == 0
        assert len(service.requests) == 1
        assert values_in(memory) == [("ann", "vegan")]

    def test_a_conversation_keeps_facts_of_what_people_say(self, open_memory: Open, service: ChatService) -> None:
        """Not of calls of tools and models; they are found by search, and stay out of the chronological view."""
        memory = open_memory("conversation")
        store = cast("ConversationMemory", memory.store)
        user, agent = Participant("ann", ParticipantType.USER), Participant("helper", ParticipantType.AGENT)
        others = [Participant("web", ParticipantType.TOOL), Participant("gpt", ParticipantType.LLM)]
        sides = [(user, agent), *((agent, other) for other in others), *((other, agent) for other in others)]
        records = [
            record(at, source=source, target=target, user="ann", content=f"My diet is vegan, {at}.")
            for at, (source, target) in enumerate(sides)
        ]
        store.record(records)
        assert caught_up(memory).extracted == 1
        assert len(service.requests) == 1
        (fact,) = facts_in(memory)
        assert fact.content_summary == 'Fact: ann, diet: vegan (ann said: "My diet is vegan")'
        assert len(store.log("c")) == len(records)
        assert "Fact:" not in store.context(agent="helper")
        seen = [hit.item.id for hit in store.search(MemoryQuery(text="diet", limit=9))]
        assert fact.id not in seen
        searched = open_memory("conversation", view={"order": "search"})
        query = MemoryQuery(text="vegan diet", limit=9, where=devmem.Filter(scope=Scope(agent="helper")))
        assert fact.id in [hit.item.id for hit in searched.store.search(query)]


class TestInAFile(FactCases):
    @pytest.mark.parametrize("ending", ["db", "json"])
    def test_the_queue_is_in_the_files_of_the_store(
        self, open_memory: Open, service: ChatService, place: str, ending: str
    ) -> None:
        """Which `devmem doctor` examines, and which have nothing of what was erased."""
        service.script = [DOWN]
        memory = open_memory(memory_path=str(Path(place).with_suffix(f".{ending}")))
        turn = memory.add("My diet is vegan.", user="ann", id="Rumpelstiltskin")
        caught_up(memory)
        report = list(memory.store.examine())[-1]
        assert {name: report.facts[name] for name in ("waiting turns", "extracted", "dropped")} == {
            "waiting turns": 1,
            "extracted": 0,
            "dropped": 0,
        }
        assert "facts of 1 turn(s)" in report.findings[-1].message
        files = [file for file in memory.store.files() if file.is_file()]
        assert any(turn.encode() in file.read_bytes() for file in files)
        memory.forget(turn, verify=True)
        assert not any(turn.encode() in file.read_bytes() for file in files if file.exists())

    def test_a_queue_that_cannot_be_written_costs_no_write(
        self, open_memory: Open, service: ChatService, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The log says what to do; `whole` reads the turns later."""
        place = str(tmp_path / "notes.json")
        Path(f"{place}.states").mkdir()
        memory = open_memory(memory_path=place)
        memory.add("My diet is vegan.", user="ann")
        assert "stay without facts unless `devmem consolidate --facts all` asks for them" in caplog.text
        assert len(memory) == 1
        Path(f"{place}.states").rmdir()
        memory.close()
        again = open_memory(memory_path=place)
        assert store_of(again).catch_up_facts(whole=True).extracted == 1


class TestInMemory(FactCases):
    @pytest.fixture
    def place(self) -> str | None:
        return None

    # Closing forgets them, and two stores have nothing in common.
    test_a_model_that_is_down_costs_no_write = None  # type: ignore[assignment]
    test_a_call_that_closing_interrupts_is_counted = None  # type: ignore[assignment]
    test_no_call_follows_the_closing = None  # type: ignore[assignment]
    test_stored_turns_are_read_on_request_alone = None  # type: ignore[assignment]
    test_two_processes_extract_each_turn_once = None  # type: ignore[assignment]
    test_a_conversation_keeps_facts_of_what_people_say = None  # type: ignore[assignment]


def test_an_exchange_is_read_by_its_sides(tmp_path: Path, service: ChatService, open_memory: Open) -> None:
    """The question is said by the user or the one sender, the answer by the agent."""
    memory = open_memory()
    store_of(memory).update(
        MemoryWritePayload(
            inputs_text="My diet is vegan.",
            input_snapshot=MemoryContentSnapshot(text="(system) My diet is keto.\n\n(user) My diet is vegan."),
            output_snapshot=MemoryContentSnapshot(text="Noted: vegan."),
            scope=Scope(user="ann", agent="helper"),
        )
    )
    caught_up(memory)
    (request,) = service.requests
    said = json.loads(request["messages"][-1]["content"])
    assert said == [{"speaker": "ann", "text": "My diet is vegan."}, {"speaker": "helper", "text": "Noted: vegan."}]
