"""The behaviour of DevAll's (ChatDev 2) tests of its mem0 store, and what importing mem0 does."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from devmem import ConfigError, MemoryContentSnapshot, MemoryManager, MemoryWritePayload, load_workflow
from devmem.config import Attachment
from devmem.errors import MissingExtraError
from devmem_stores.mem0 import Mem0Memory, in_process

from .conftest import MakeStore, mem0_error
from .fake_mem0 import FakeMem0, JsonObject


def said(text: str, **more: Any) -> MemoryWritePayload:
    return MemoryWritePayload(inputs_text=text, **more)


def searched(fake: FakeMem0) -> JsonObject:
    return fake.called("/v3/memories/search/")[-1].body


def added(fake: FakeMem0) -> JsonObject:
    return fake.called("/v3/memories/add/")[-1].body


@pytest.mark.parametrize(
    ("ids", "filters"),
    [
        ({"agent_id": "bot"}, {"agent_id": "bot"}),
        ({"user_id": "ann"}, {"user_id": "ann"}),
        ({"user_id": "ann", "agent_id": "bot"}, {"OR": [{"user_id": "ann"}, {"agent_id": "bot"}]}),
        ({"run_id": "r1"}, {"run_id": "r1"}),
        ({"user_id": "ann", "run_id": "r1"}, {"AND": [{"run_id": "r1"}, {"user_id": "ann"}]}),
        ({"nobody": True}, {"agent_id": "writer"}),
    ],
)
def test_a_search_filters_by_ids_and_a_write_belongs_to_each(
    ids: dict[str, Any], filters: JsonObject, make_store: MakeStore, fake: FakeMem0
) -> None:
    store = make_store(**ids)
    store.retrieve("writer", "tea?")
    store.update(said("I like tea", agent_role="writer"))
    assert searched(fake)["filters"] == filters
    sent = {key: value for key, value in added(fake).items() if key.endswith("_id")}
    assert sent == ({"agent_id": "writer"} if "nobody" in ids else ids)


def test_without_ids_and_role_nobody_is_asked_for(make_store: MakeStore, fake: FakeMem0) -> None:
    with mem0_error("scope", match="user_id"):
        make_store(nobody=True).retrieve("", "tea?")
    assert fake.requests == []


@pytest.mark.parametrize("query", ["", "  \n", "=== INPUT FROM my node (user) ===\n\n "])
def test_blank_query_asks_nothing(query: str, store: Mem0Memory, fake: FakeMem0) -> None:
    assert store.retrieve("", query) == []
    assert fake.requests == []


@pytest.mark.parametrize(("threshold", "passed"), [(0.5, 0.5), (0.0, 0.0), (-1.0, None)])
def test_threshold_is_passed_when_it_is_one(
    threshold: float, passed: float | None, store: Mem0Memory, fake: FakeMem0
) -> None:
    store.retrieve("", "tea?", similarity_threshold=threshold)
    assert searched(fake).get("threshold") == passed


@pytest.mark.parametrize("key", ["results", "memories"])
def test_both_forms_of_an_answer_are_read(key: str, store: Mem0Memory, fake: FakeMem0) -> None:
    fake.answers_key = key
    fake.remember("Ann likes tea", user_id="ann", categories=["food"])
    found = store.retrieve("writer", "tea")
    assert [item.content_summary for item in found] == ["Ann likes tea"]
    metadata = found[0].metadata
    assert (metadata["source"], metadata["score"], metadata["categories"]) == ("mem0", 1.0, ["food"])
    assert metadata["agent_role"] == "writer"


def test_only_what_the_user_said_is_sent(store: Mem0Memory, fake: FakeMem0) -> None:
    answer = MemoryContentSnapshot(text="I am the agent's answer")
    store.update(said("I like tea", output_snapshot=answer))
    body = added(fake)
    assert body["messages"] == [{"role": "user", "content": "I like tea"}]
    assert body["infer"] is True
    assert "async_mode" not in body
    assert "answer" not in str(body)


@pytest.mark.parametrize("text", ["", "   \n"])
def test_blank_input_sends_nothing(text: str, store: Mem0Memory, fake: FakeMem0) -> None:
    outcome = store.update(said(text, output_snapshot=MemoryContentSnapshot(text="an answer")))
    assert outcome.status == "skipped"
    assert fake.requests == []


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("=== INPUT FROM TASK (user) ===\n\nI like tea", "I like tea"),
        ("=== INPUT FROM my long node (assistant) ===\n\nI like tea", "I like tea"),
        ("=== INPUT FROM A (user) ===\n\nOne.\n\n=== INPUT FROM B c (user) ===\n\nTwo.", "One.\n\nTwo."),
        ("a === b is clean", "a === b is clean"),
    ],
)
def test_headers_of_the_pipeline_are_stripped(text: str, sent: str, store: Mem0Memory, fake: FakeMem0) -> None:
    store.update(said(text))
    store.retrieve("", text)
    assert added(fake)["messages"][0]["content"] == sent
    assert searched(fake)["query"] == sent


def test_api_key_is_required(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("memory:\n  - {name: notes, type: mem0, config: {user_id: ann}}\nnodes: []\n")
    with pytest.raises(ConfigError, match="api_key"):
        load_workflow(file, environ={})


def test_missing_package_says_what_to_install(store: Mem0Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(in_process, "version", missing)
    with pytest.raises(ImportError, match=r"\[mem0\].*pip install mem0ai") as caught:
        store.load()
    assert isinstance(caught.value, MissingExtraError)


def test_run_of_nobody_recalls_the_user_that_the_configuration_names(store: Mem0Memory, fake: FakeMem0) -> None:
    """The store is that user's; `unbound` asks for what no user owns in a store that many share."""
    fake.remember("Ann likes tea.", user_id="ann")
    found = MemoryManager([Attachment(name="notes")], {"notes": store}).retrieve(query="What does Ann like?")
    assert found is not None
    assert [item.content_summary for item in found.items] == ["Ann likes tea."]
    assert len(fake.called("/v3/memories/search/")) == 1


CODE = """
import socket, sys
from pathlib import Path
from devmem_stores.mem0.in_process import load_mem0

tried = []
def refuse(self, address):
    tried.append(address)
    raise ConnectionRefusedError
socket.socket.connect = refuse
socket.getaddrinfo = lambda host, *rest, **more: refuse(None, host)
before = (Path(sys.argv[1]) / "early").exists() and __import__("mem0")
load_mem0(telemetry=sys.argv[2] == "on", folder=Path(sys.argv[1]) / "own")
from mem0.memory import telemetry
print(bool(telemetry.MEM0_TELEMETRY), telemetry.client_telemetry.posthog is not None, tried)
"""


def load(folder: Path, telemetry: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MEM0_")}
    return subprocess.run(
        [sys.executable, "-c", CODE, str(folder), telemetry],
        env={**inherited, "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_telemetry_is_off_and_the_home_folder_untouched(tmp_path: Path) -> None:
    done = load(tmp_path, "off")
    assert done.stdout == "False False []\n", done.stderr
    assert (tmp_path / "own" / "config.json").exists()
    assert not (tmp_path / ".mem0").exists()


def test_mem0_that_reports_already_is_refused(tmp_path: Path) -> None:
    (tmp_path / "early").touch()
    assert "MEM0_TELEMETRY=False" in load(tmp_path, "off").stderr
    assert load(tmp_path, "off", MEM0_TELEMETRY="False").returncode == 0


def test_other_major_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "version", lambda _: "1.0.11")
    with mem0_error("setup", match=r"1\.0\.11 is installed"):
        in_process.check_package()


ROOT = Path(__file__).resolve().parents[3]
OLDEST = "2.0.0"
TESTS = ("test_devall.py", "test_failures.py", "test_outbox.py", "test_items.py", "test_in_process.py")


@pytest.mark.kit
def test_oldest_supported_version(tmp_path: Path) -> None:
    assert f'mem0 = ["mem0ai>={OLDEST},<3"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    folder = tmp_path / "old"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*install, "--target", str(folder), f"mem0ai=={OLDEST}"], check=True)
    tests = [str(Path(__file__).parent / name) for name in TESTS]
    version = "import importlib.metadata, mem0, pytest, sys; assert importlib.metadata.version('mem0ai') == %r; "
    code = version % OLDEST + "sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", "-m", "not kit", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), "MEM0_TELEMETRY": "False", "MEM0_DIR": str(tmp_path / "mem0")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
