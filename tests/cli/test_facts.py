"""Facts of turns: their counts in `devmem stores`, and extracting those that wait."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.models.service import ChatService, Reply, answering

DOWN = Reply(body={"error": {"message": "overloaded"}}, status=400)
FACT = {"subject": "I", "attribute": "diet", "value": "vegan", "quote": "My diet is vegan"}
Devmem = Callable[..., Any]


@pytest.fixture
def service(service: ChatService) -> ChatService:
    wrong = {**FACT, "attribute": "city", "value": "Rome"}
    service.script = [answering(json.dumps({"facts": [FACT, wrong]}))]
    return service


@pytest.fixture
def team(tmp_path: Path, service: ChatService) -> Path:
    llm = {"model": "m", "api_key": "k", "base_url": service.address, "params": {"max_retries": 0}}
    stores = [
        {"name": "notes", "type": "simple", "config": {"memory_path": "notes.db", "facts": {"llm": llm}}},
        {"name": "plain", "type": "simple", "config": {"memory_path": "plain.db"}},
    ]
    node = {"id": "a", "type": "agent", "config": {"memories": ["notes", "plain"], "provider": "extractive"}}
    file = tmp_path / "team.yaml"
    file.write_text(yaml.safe_dump({"memory": stores, "nodes": [node]}))
    return file


def test_what_waits_is_shown_and_extracted(devmem: Devmem, team: Path, service: ChatService) -> None:
    """A model that is down is reported with exit code 1; counts are in `stores` and `doctor` too."""
    good, service.script[:] = service.script[0], [DOWN]
    devmem("add", f"{team}#notes", "My diet is vegan.", "--user", "ann")
    assert "0 facts extracted, 1 turn waiting" in devmem("stores", team, "notes").stdout
    told = devmem("consolidate", team, "notes", "--facts", "waiting", code=1)
    ((asked, own),) = re.findall(r"1 turn waiting \((\d) calls?, (\d) of them failed", told.stdout)
    assert asked == own
    assert int(asked) == len(service.requests)
    failed = int(own)
    assert "1 turn still waiting: ChatModelError: chat model 'm' gave no answer" in told.stderr
    assert "facts of 1 turn(s) are still to be extracted" in devmem("doctor", team).stderr
    service.script[:] = [good]
    told = devmem("consolidate", team, "notes", "--facts", "waiting")
    calls = f"({failed + 1} calls, {failed} of them failed, 0 tokens in, 0 out)"
    assert f"1 fact extracted, 0 turns waiting {calls}" in told.stdout
    assert "1 dropped: the value is not in the quote" in told.stdout
    assert f"1 fact extracted, 0 turns waiting {calls}" in devmem("stores", team).stdout
    notes, *_ = json.loads(devmem("stores", team, "--json").stdout)["stores"]
    assert (notes["facts"]["extracted"], notes["facts"]["waiting"]) == (1, 0)
    assert (notes["facts"]["calls"], notes["facts"]["failures"]) == (failed + 1, failed)
    assert notes["facts"]["dropped"] == {"the value is not in the quote": 1}
    assert 'Fact: ann, diet: vegan (ann said: "My diet is vegan")' in devmem("list", f"{team}#notes").stdout


def test_older_turns_are_read_on_request(devmem: Devmem, team: Path, service: ChatService) -> None:
    """Without `--facts all` nothing is asked for them."""
    whole = yaml.safe_load(team.read_text())
    facts = whole["memory"][0]["config"].pop("facts")
    team.write_text(yaml.safe_dump(whole))
    devmem("add", f"{team}#notes", "My diet is vegan.", "--user", "ann")
    assert "extracts no facts" in devmem("consolidate", team, "notes", "--facts", "all", code=2).stderr
    whole["memory"][0]["config"]["facts"] = facts
    team.write_text(yaml.safe_dump(whole))
    assert "0 facts extracted" in devmem("consolidate", team, "notes", "--facts", "waiting").stdout
    assert service.requests == []
    assert "1 fact extracted" in devmem("consolidate", team, "notes", "--facts", "all").stdout
