"""Declarations of shards that are wrong: `devmem validate` says so, with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Devmem

_HEAD = "version: 0.4.0\nmemory:\n  - name: notes\n    type: {kind}\n    config:\n      memory_path: {path}\n"
_MODEL = "      facts: {llm: {provider: openai, model: some, api_key: x}}\n"


@pytest.mark.parametrize(
    ("kind", "path", "words"),
    [
        ("simple", "{shards: {a: a.db, b: a.db}}", "two shards are the same database"),
        ("simple", "{shards: {a: a.db, b: ./x/../a.db}}", "two shards are the same database"),
        ("simple", "{shards: [x/a.db, y/a.db]}", "two shards would have the same name"),
        ("simple", "{shards: [a.db, 'shards://user?a=b.db']}", "a shard is the path of a SQLite file or the URL"),
        ("simple", "{shards: [a.db, 'SHARDS://user?a=b.db']}", "a shard is the path of a SQLite file or the URL"),
        ("simple", "{shards: {a: {shards: [b.db]}}}", "`shards.a`: expected text, found a mapping"),
        (
            "simple",
            "{shards: [a.db, b.db], by: team}",
            "`by`: expected one of user, agent, conversation, found the text 'team'",
        ),
        ("simple", "{shards: [a.db, b.db], on_dwon: fail}", "on_dwon"),
        ("simple", "{shards: []}", "`shards`: expected at least 1 element, found a mapping"),
        ("simple", "{shard: [a.db]}", "shard"),
        ("simple", "'Shards://user?a=a.db'", "shards"),
        ("simple", "{shards: {a: 'postgres:me:geheim@h/db', b: b.db}}", "postgres"),
        ("brain", "{shards: [a.db, b.db]}", "needs one database"),
        ("brain", "'shards://user?a=a.db&b=b.db'", "needs one database"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, devmem: Devmem, kind: str, path: str, words: str) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(_HEAD.format(kind=kind, path=path))
    done = devmem("validate", file, code=2)
    told = done.stdout + done.stderr
    assert words in told
    assert "team.yaml:6" in told
    assert "geheim" not in told


def test_a_file_store_and_extracted_facts_need_one_database(tmp_path: Path, devmem: Devmem) -> None:
    file = tmp_path / "team.yaml"
    sources = "      file_sources: [{path: d}]\n"
    for kind, key, rest in (("simple", "memory_path", _MODEL), ("file", "index_path", sources)):
        head = _HEAD.format(kind=kind, path="{shards: [a.db, b.db]}").replace("memory_path", key)
        file.write_text(head + rest)
        done = devmem("validate", file, code=2)
        told = done.stdout + done.stderr
        assert "team.yaml:6" in told
        assert "has to keep more" in told or "needs one database" in told


def test_one_shard_is_a_store(tmp_path: Path, devmem: Devmem) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(_HEAD.format(kind="simple", path="{shards: [a.db]}"))
    devmem("add", f"{file}#notes", "tea", "--user", "ann")
    assert "1" in devmem("count", f"{file}#notes", "--user", "ann").stdout
