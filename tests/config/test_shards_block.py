"""Messages about a block of shards: each quotes what was found and says what would be right."""

from __future__ import annotations

import pytest

from devmem.config import parse_workflow
from devmem.errors import ConfigError
from devmem.plugins import registry

KEYS = "Possible keys: shards, by, on_down"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("{shards: [a.db], by: person}", "`by`: expected one of user, agent, conversation, found the text 'person'"),
        ("{shard: [a.db]}", f"unknown key 'shard'; did you mean 'shards'? {KEYS}"),
        ("{zz: 1}", f"unknown key 'zz'. {KEYS}; `shards` is required: databases by name, or a list of them"),
        (
            "{shards: [a.db], on_down: reprot}",
            "`on_down`: expected one of report, fail, found the text 'reprot'; did you mean 'report'?",
        ),
        (
            "{shards: 5}",
            "`shards`: expected a list of databases, or a mapping of names to them, found the number 5",
        ),
        ("{shards: {one: [5]}}", "`shards.one`: expected text, found a list"),
        ("{shards: [a.db, a.db]}", "`shards`: two shards would have the same name: give them names, as in"),
        ("{shards: {one: a.json}}", "shard 'one': a JSON file cannot be one: use a path that ends with .db"),
    ],
)
def test_a_wrong_block(place: str, said: str) -> None:
    text = f"memory:\n- name: team\n  type: simple\n  config:\n    memory_path: {place}\n"
    with pytest.raises(ConfigError) as refused:
        parse_workflow(text, registry, origin="team.yaml")
    assert str(refused.value).startswith(f"team.yaml:5: memory[0].config.memory_path: {said}")


def test_a_budget_of_tokens_is_no_secret() -> None:
    with pytest.raises(ConfigError, match=r"token_budget: expected a whole number, found the text 'many'"):
        parse_workflow("memory: []\nmemory_options: {token_budget: many}\n", registry)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("key_names: Topic", "config.key_names: expected a list, found the text 'Topic'"),
        ("key_llm: Topic", "config.key_llm: expected a mapping, found the text 'Topic'"),
        ("key_llm: {api_key: [Topic]}", "config.key_llm.api_key: expected text, found a list"),
        ("embedding: {params: {key: Topic, key_file: 1}, provider: 1}", "config.embedding.provider: "),
    ],
)
def test_what_is_about_a_key_is_no_secret(written: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_workflow(f"memory: [{{name: team, type: simple, config: {{{written}}}}}]", registry)
    assert said in str(refused.value)
    assert ("Topic" in str(refused.value)) == ("Topic" in said)


def test_a_block_where_a_duration_belongs() -> None:
    text = "memory: [{name: team, type: simple, config: {ttl: {days: 3}}}]"
    with pytest.raises(ConfigError, match=r"config\.ttl: expected a duration such as .*, found a mapping$"):
        parse_workflow(text, registry)
