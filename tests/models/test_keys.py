"""Keys as files, web pages and shells hand them over: cleaned or refused, and never shown."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

import devmem
from devmem.config import EmbeddingConfig, RerankerConfig
from devmem.errors import (
    ChatModelError,
    ConfigError,
    DevmemError,
    EmbeddingError,
    MissingExtraError,
)
from devmem.messages import Message, Role
from devmem.models.openai_chat import OpenAIChat
from devmem.models.reranking import open_reranker
from devmem.redaction import hide, without_credentials
from devmem.storage import open_collection
from devmem.stores import ChatRequest, open_embedder
from tests.models.service import ChatService, answering, failing

KEY = "sk-live-Zq7+x/0123456789"
AROUND = ("{}\n", "{}\r", "{}\r\n", " {}", "\t{}", "\ufeff{}", "{}\u00a0", "\u00a0{}\u200b", "\ufeff {}\n")
INSIDE = ("sk-live\n0123456789", "sk-live\r0123456789", "sk-live\x7f0123456789",
          "sk-ключ-0123456789", "sk-live\u00e90123456789", "sk-live\u200b0123456789")  # fmt: skip


def basic_auth(user: str, key: str) -> str:
    return b64encode(f"{user}:{key}".encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in a header": lambda key: f"Illegal header value {f'Bearer {key}'.encode()!r}",
    "as Python writes it": repr,
    "in JSON": json.dumps,
    "in JSON as it is": lambda key: json.dumps(key, ensure_ascii=False),
    "percent-encoded": lambda key: f"http://host/?key={quote(key, safe='')}&x=1",
    "percent-encoded in small letters": lambda key: quote(key, safe="").lower(),
    "in a form": quote_plus,
    "in a URL": lambda key: f"https://user:{key}@host/",
    "in basic auth": lambda key: basic_auth("", key),
    "in basic auth, user 'a'": lambda key: basic_auth("a", key),
    "in basic auth, user 'ab'": lambda key: basic_auth("ab", key),
}


def embed(address: str) -> None:
    block = {"provider": "openai", "base_url": address, "params": {"max_retries": 0}}
    open_embedder(EmbeddingConfig.model_validate(block), shared=False).embed(["a text"])


def complete(address: str) -> None:
    messages = (Message(role=Role.USER, content="Hi"),)
    OpenAIChat("m", base_url=address, max_retries=0).complete(ChatRequest(messages=messages))


def rerank(address: str) -> None:
    config = RerankerConfig(type="llm", model="m", base_url=address, params={})
    reranker = open_reranker(config, Path())
    assert reranker is not None
    reranker.scores("tea?", ["tea"])


@pytest.mark.parametrize("form", AROUND)
def test_what_stands_around_a_key_is_left_out(
    service: ChatService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    form: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", form.format(KEY))
    embed(service.address)
    complete(service.address)
    service.script = [answering("1: 7")]
    rerank(service.address)
    assert {*service.keys} == {f"Bearer {KEY}"}
    assert "the key in OPENAI_API_KEY has white space or invisible characters around it" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", INSIDE)
@pytest.mark.parametrize("ask", [embed, complete, rerank])
def test_a_key_that_no_header_carries_is_refused_by_its_variable(
    service: ChatService, monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], None], key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(DevmemError, match="the key in OPENAI_API_KEY has a control character") as caught:
        ask(service.address)
    shown = "".join(traceback.format_exception(caught.value))
    assert isinstance(caught.value, EmbeddingError | ChatModelError)
    assert "0123456789" not in shown
    assert not service.requests


@pytest.mark.parametrize("key", INSIDE)
def test_a_workflow_is_refused_by_the_variable_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    path = tmp_path / "team.yaml"
    block = '{provider: openai, api_key: "${MY_KEY:-sk-default-0123456789}"}'
    path.write_text(f"memory: [{{name: notes, type: simple, config: {{embedding: {block}}}}}]\n", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"api_key: .* control character .*found the value of '\$\{MY_KEY\}'"
    ) as caught:
        devmem.open(f"{path}#notes")
    assert "0123456789" not in str(caught.value)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("key", [KEY, "pässwört 0123456789", "line\nbreak-0123456789", "short7"])
def test_a_key_is_masked_in_every_form(key: str, form: Callable[[str], str]) -> None:
    hide(key)
    shown = without_credentials(f"the library says {form(key)} there")
    assert shown.startswith("the library says ")
    assert shown.endswith(" there")
    for part in (key, *(make(key) for make in FORMS.values())):
        assert part not in shown
    assert key[-6:] not in shown


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_service_that_repeats_the_key(
    service: ChatService, monkeypatch: pytest.MonkeyPatch, form: Callable[[str], str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = {"error": {"message": f"wrong key: {form(KEY)}"}}
    service.script = [failing(401, said)]
    for ask in (embed, complete, rerank):
        with pytest.raises(DevmemError, match="wrong key") as caught:
            ask(service.address)
        shown = "".join(traceback.format_exception(caught.value))
        assert KEY not in shown
        assert form(KEY) not in shown


def test_no_command_and_no_log_shows_the_key(
    service: ChatService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    service.script = [failing(400, {"error": {"message": f"bad header {KEY}"}})]
    path = tmp_path / "team.yaml"
    block = f'{{provider: openai, api_key: "${{MY_KEY}}", base_url: "{service.address}", params: {{max_retries: 0}}}}'
    path.write_text(
        f"memory: [{{name: notes, type: simple, config: {{memory_path: n.db, embedding: {block}}}}}]\n",
        encoding="utf-8",
    )
    with devmem.open(f"{path}#notes") as memory:
        memory.add("A note.")
        assert memory.search("note")
    assert "bad header ***" in caplog.text
    assert "the key in `api_key` of memory[0].config has white space" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    "password", ["pa%zz12ss", "p@ss/w0rd#x1", "пароль123", "sk-1\n2345", "a:b@c/d?e=f9", "\ufeffse9"]
)
@pytest.mark.parametrize("encoded", [False, True])
def test_the_password_of_a_database_is_in_no_error(password: str, encoded: bool) -> None:
    written = quote(password, safe="") if encoded else password
    for url in (f"postgresql://u:{written}@127.0.0.1:1/db", f"postgresql://127.0.0.1:1/db?user=u&password={written}"):
        with pytest.raises(DevmemError) as caught, closing(open_collection(url, busy_timeout=0.01)):
            pass
        shown = str(caught.value)
        assert written not in shown
        assert password not in shown


@pytest.mark.parametrize("ask", [embed, complete])
def test_a_proxy_that_needs_a_package_names_it(
    service: ChatService, monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], None]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks5://user:geheim7@127.0.0.1:1080")
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(MissingExtraError, match=r"SOCKS proxy in ALL_PROXY.*pip install socksio") as caught:
        ask(service.address)
    assert "geheim7" not in "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("ALL_PROXY", "carrier-pigeon://user:geheim7@127.0.0.1:1080")
    with pytest.raises(DevmemError, match="proxy in ALL_PROXY, HTTPS_PROXY or HTTP_PROXY cannot be used") as caught_too:
        ask(service.address)
    assert "geheim7" not in str(caught_too.value)
