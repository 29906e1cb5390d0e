"""No message, warning or representation repeats a secret."""

from __future__ import annotations

import traceback

import pytest

from devmem.config import EmbeddingConfig
from devmem.errors import ConfigError
from tests.cases import cases

from .conftest import Read
from .fakes import OWN

SECRET = "hunter2hunter2"


@pytest.mark.parametrize("text", cases("config_secrets", "errors"))
def test_errors(read: Read, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, S=SECRET)
    lines = "".join(traceback.format_exception(caught.value))
    assert SECRET not in lines


def test_numbers_and_dates_in_a_secret_place(read: Read) -> None:
    for written in ("12345678", "2024-01-31", "1.5"):
        with pytest.raises(ConfigError) as caught:
            read(f"memory: [{{name: a, type: cloud, config: {{api_key: {written}}}}}]")
        assert written not in str(caught.value)
        assert "put it in quotes" in str(caught.value)


def test_a_validator_of_a_secret_that_repeats_it_is_masked(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"api_key: \*\*\* is too short for a key, found the text$"):
        read("memory: [{name: a, type: cloud, config: {api_key: abcdef}}]")


def test_representations(read: Read) -> None:
    text = OWN.replace("params: {temperature: 0.2}", "params: {token: hunter2hunter2}").replace(
        "folder: memory", "folder: hunter2hunter2"
    )
    workflow = read(text.replace("memory_path: ${folder}/convo.db", ""), API_KEY=SECRET)
    assert SECRET not in repr(workflow)
    assert SECRET not in str(workflow)
    assert SECRET not in workflow.model_dump_json(exclude={"vars", "nodes"})


def test_models_made_in_code() -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        EmbeddingConfig.model_validate({"api_key": [SECRET]})
    assert SECRET not in str(caught.value)
