"""mem0 inside this process: local vectors, our embedding models, with and without a language model."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryWritePayload, WriteOutcome
from devmem.errors import Mem0Error
from devmem.stores import Embedder, StoreSetup, WriteStatus
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock
from devmem_stores.mem0 import Mem0Config, Mem0Memory
from tests.models.service import Reply, answering, failing

from .conftest import Allowed, mem0_error
from .llm_server import LlmServer, facts

MakeOss = Callable[..., Mem0Memory]
LLM_KEY = "sk-llm-secret-0123456789"
REPEATING = failing(401, {"error": {"message": f"Bearer {LLM_KEY}"}})


@pytest.fixture
def make_oss(tmp_path: Path, clock: ManualClock, sleeps: list[float]) -> Iterator[MakeOss]:
    made: list[Mem0Memory] = []

    def make(embedder: Embedder | None = None, **config: Any) -> Mem0Memory:
        given = {"mode": "oss", "infer": False, "user_id": "ann", **config}
        setup = StoreSetup(
            name="notes",
            store_type="mem0",
            config=Mem0Config.model_validate(given),
            base_dir=tmp_path,
            session_dir=tmp_path / "session",
            open_embedder=lambda _: embedder or HashEmbedder(),
            clock=clock,
            monotonic=clock,
        )
        made.append(Mem0Memory(setup, sleep=sleeps.append))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def llm(network: Allowed) -> Iterator[LlmServer]:
    with LlmServer() as server:
        network.ports.add(server.port)
        yield server


def say(store: Mem0Memory, text: str) -> WriteOutcome:
    return store.update(MemoryWritePayload(inputs_text=text))


FACTS = ("Ann moved the launch to June 2nd.", "The cat is called Miso.", "Bob repairs old clocks.")


def test_stores_and_finds_without_any_language_model(make_oss: MakeOss) -> None:
    store = make_oss()
    outcomes = [say(store, fact) for fact in FACTS]
    assert [outcome.status for outcome in outcomes] == [WriteStatus.STORED] * 3
    found = store.retrieve("", "The cat is called Miso.", top_k=2)
    assert found[0].content_summary == FACTS[1]
    assert found[0].id == outcomes[1].item_id
    assert store.count() == 3
    assert {item.content_summary for item in store.get_all()} == set(FACTS)
    assert store.delete(ids=[found[0].id, found[0].id]) == 1
    assert (store.clear(), store.count()) == (2, 0)
    assert store.info().location.startswith("qdrant: ")


def test_folder_that_another_has_open_costs_no_write(make_oss: MakeOss, clock: ManualClock) -> None:
    first, second = make_oss(), make_oss(outbox="other.db")
    say(first, FACTS[0])
    with warnings.catch_warnings():
        # qdrant leaves its lock file open when it cannot have the folder.
        warnings.simplefilter("ignore", ResourceWarning)
        outcome = say(second, FACTS[1])
        assert outcome.status is WriteStatus.QUEUED
        assert "already accessed" in outcome.reason
        del outcome
        first.close()
        clock.advance(1000)
        second.save()
        gc.collect()
    assert second.count() == 2


CHILD = """
import json, sys
from pathlib import Path
from devmem.stores import StoreSetup
from devmem_stores.mem0 import Mem0Config, Mem0Memory

setup = StoreSetup(name="notes", store_type="mem0", config=Mem0Config(mode="oss", infer=False, user_id="ann"),
                   session_dir=Path(sys.argv[1]))
store = Mem0Memory(setup)
print(json.dumps([item.content_summary for item in store.retrieve("", sys.argv[2], top_k=1)]))
store.close()
"""


def test_second_process_finds_it_with_the_bundled_model(tmp_path: Path) -> None:
    config = Mem0Config(mode="oss", infer=False, user_id="ann")
    store = Mem0Memory(StoreSetup(name="notes", store_type="mem0", config=config, session_dir=tmp_path / "session"))
    for fact in FACTS:
        assert say(store, fact).status is WriteStatus.STORED
    store.close()
    arguments = [sys.executable, "-c", CHILD, str(tmp_path / "session"), "What is the name of the cat?"]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [FACTS[1]]


def test_language_model_extracts(make_oss: MakeOss, llm: LlmServer) -> None:
    llm.script = [facts("Ann likes tea", "Ann has a cat")]
    store = make_oss(infer=True, oss={"llm": llm.config(api_key=LLM_KEY)})
    say(store, "I like tea, and my cat does not.")
    assert {item.content_summary for item in store.get_all()} == {"Ann likes tea", "Ann has a cat"}
    assert "I like tea, and my cat does not." in llm.requests[0]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("reply", "error"),
    [(answering("Sorry, I cannot."), "answer"), (failing(503), "server")],
)
def test_failing_language_model_costs_no_write(
    reply: Reply, error: str, make_oss: MakeOss, llm: LlmServer, clock: ManualClock
) -> None:
    """mem0 takes an answer that it cannot read for no facts, and 2.0.0 an exception too."""
    llm.script = [reply]
    store = make_oss(infer=True, retries=0, oss={"llm": llm.config(api_key=LLM_KEY)})
    outcome = say(store, "I like tea.")
    assert outcome.status is WriteStatus.QUEUED
    assert isinstance(outcome.failure, Mem0Error)
    assert outcome.failure.kind == error
    llm.script = [facts("Ann likes tea")]
    clock.advance(1000)
    store.save()
    assert [item.content_summary for item in store.get_all()] == ["Ann likes tea"]


def test_failing_embedding_model_costs_no_write(make_oss: MakeOss, clock: ManualClock) -> None:
    embedder = FailingEmbedder()
    store = make_oss(embedder, retries=0)
    outcome = say(store, "I like tea.")
    assert isinstance(outcome.failure, Mem0Error)
    assert outcome.failure.kind == "model"
    with mem0_error("model"):
        store.retrieve("", "tea")
    embedder.recover()
    clock.advance(1000)
    store.save()
    assert store.count() == 1


def test_keys_of_the_models_stay_secret(make_oss: MakeOss, llm: LlmServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    llm.script = [REPEATING]
    store = make_oss(infer=True, retries=0, oss={"llm": llm.config(api_key=LLM_KEY)})
    outcome = say(store, "I like tea.")
    assert outcome.failure is not None
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith(("openai", "httpcore"))]
    assert all(
        LLM_KEY not in text for text in [*logged, outcome.reason, repr(outcome), repr(store.config), repr(store)]
    )


def test_configuration_that_mem0_refuses_is_named(make_oss: MakeOss) -> None:
    store = make_oss(oss={"vector_store": {"provider": "nonsense", "config": {}}})
    with mem0_error("setup", match="refuses the configuration"):
        store.retrieve("", "tea")


def test_mem0_s_own_embedding_model(make_oss: MakeOss, llm: LlmServer) -> None:
    """Its service refuses here; what counts is that mem0 asks it, and that its keys stay secret."""
    embedder = {"provider": "openai", "config": {"openai_base_url": llm.address, "api_key": LLM_KEY, "model": "m"}}
    llm.script = [REPEATING]
    store = make_oss(infer=False, retries=0, oss={"embedder": embedder, "custom": [{"token": LLM_KEY}]})
    with mem0_error("setup", match="unknown key 'custom'"):
        store.retrieve("", "tea")
    store = make_oss(infer=False, retries=0, oss={"embedder": embedder})
    with mem0_error("auth") as caught:
        store.retrieve("", "tea")
    assert LLM_KEY not in str(caught.value)
    assert llm.requests[0]["model"] == "m"


def test_closing_ends_the_connections_of_mem0_s_models(make_oss: MakeOss, llm: LlmServer) -> None:
    store = make_oss(infer=True, oss={"llm": llm.config(api_key=LLM_KEY)})
    say(store, "I like tea.")
    assert len(llm.requests) == 1
    store.close()
    assert llm.left_alone()
