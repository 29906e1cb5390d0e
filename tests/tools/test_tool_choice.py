"""Sentences of users, and the tools that these ask for: every expected call is a call that the server accepts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devmem.adapters.mcp.tools import TOOLS
from tests.cli.chat_service import ChatService
from tools.bench.__main__ import app
from tools.bench.tool_choice import Choice, read_sentences, scored


def test_every_tool_is_asked_for_in_sixty_sentences() -> None:
    sentences = read_sentences()
    assert len({sentence.say for sentence in sentences}) == 60
    assert Counter(sentence.tool for sentence in sentences).keys() == {tool.name for tool in TOOLS}
    tools = {tool.name: tool.arguments for tool in TOOLS}
    for sentence in sentences:
        given = {name: value for name, value in sentence.arguments.items() if not _is_part(value)}
        complete = {"text": "x", **given} if sentence.tool == "remember" else given
        if sentence.tool == "recall":
            complete["query"] = "x"
        tools[sentence.tool].model_validate(complete)


def _is_part(value: object) -> bool:
    return isinstance(value, str) and value.startswith("~")


def test_a_choice_is_right_with_its_arguments() -> None:
    sentences = read_sentences()
    first = sentences[0]
    good = [Choice(each.tool, json.loads(json.dumps(dict(each.arguments)).replace('"~', '"'))) for each in sentences]
    assert [row.value for row in scored(sentences, good, "good")] == [1.0, 1.0]
    vague = [Choice(first.tool, {"text": "something else"}), *good[1:]]
    assert [row.value for row in scored(sentences, vague, "vague")] == [1.0, 59 / 60]
    silent = [Choice("", {}), *good[1:]]
    assert [row.value for row in scored(sentences, silent, "silent")] == [59 / 60, 59 / 60]


def test_a_model_is_told_the_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-something")
    with ChatService() as service:
        options = ["--base-url", service.address, "--json", str(tmp_path / "rows.json")]
        done = CliRunner().invoke(app, ["tool_choice", "some-model", *options])
    assert done.exit_code == 0, done.output
    assert [row["value"] for row in json.loads((tmp_path / "rows.json").read_text())] == [0.0, 0.0], "it calls nothing"
    offered = [tool["function"]["name"] for tool in service.requests[0]["tools"]]
    assert offered == [tool.name for tool in TOOLS]


def test_the_benchmark_scores_answers_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps([{"tool": "recall", "arguments": {}}] * 60))
    done = CliRunner().invoke(app, ["tool_choice", "--answers", str(file), "--json", str(tmp_path / "rows.json")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "rows.json").read_text())[0]["value"] == 17 / 60
    file.write_text("[]")
    assert CliRunner().invoke(app, ["tool_choice", "--answers", str(file)]).exit_code == 2
