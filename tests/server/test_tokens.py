"""The file of tokens, and the options of `devmem mcp` that change it."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

import devmem
from devmem.errors import DataFileError
from devmem.server import TokenFile
from devmem.testing import ManualClock
from tests.cli.conftest import Devmem
from tests.cli.conftest import devmem as run_devmem

devmem_command = run_devmem


@pytest.fixture
def file(tmp_path: Path, clock: ManualClock) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json", clock=clock)


def test_the_file_has_no_token_and_is_its_owners(file: TokenFile) -> None:
    secret = file.add("ann", user="ann")
    assert secret not in file.path.read_text()
    assert secret.rpartition("_")[2] not in file.path.read_text()
    if sys.platform != "win32":
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_token_is_known_until_it_is_revoked_or_expires(file: TokenFile, clock: ManualClock) -> None:
    ann, bob = file.add("ann", user="ann", lifetime=60), file.add("bob", user="bob")
    known = file.verify(ann)
    assert known is not None
    assert (known.name, known.user) == ("ann", "ann")
    clock.now += 60
    assert file.verify(ann) is None
    TokenFile(file.path).revoke("bob")
    assert file.verify(bob) is None


@pytest.mark.parametrize("secret", ["", "devmem_", "devmem_" + "A" * 43, "x" * 10_000, "devmem_é", "ann"])
def test_nothing_else_is_a_token(file: TokenFile, secret: str) -> None:
    file.add("ann", user="ann")
    assert file.verify(secret) is None


def test_the_hash_in_the_file_is_no_token(file: TokenFile) -> None:
    file.add("ann", user="ann")
    digest = json.loads(file.path.read_text())["tokens"][0]["digest"]
    assert file.verify(digest) is None
    assert file.verify(f"devmem_{digest}") is None


def test_a_name_is_given_once(file: TokenFile) -> None:
    file.add("ann", user="ann")
    with pytest.raises(ValueError, match="revoke it first"):
        file.add("ann", user="bob")
    with pytest.raises(ValueError, match="it has: ann"):
        file.revoke("bob")


def test_a_damaged_file_is_named(file: TokenFile) -> None:
    file.path.write_text('{"tokens": [{"name": "ann"}]}')
    with pytest.raises(DataFileError, match=r"tokens\.json: not a file of tokens: tokens\.0\.digest"):
        file.verify("devmem_x")


def test_a_token_reaches_its_scope_only(file: TokenFile) -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        anns, free = memory.add("Ann's.", user="ann"), memory.add("Free.")
        memory.add("Ann's as a writer.", user="ann", agent="writer")
        memory.add("Ann's in a talk.", user="ann", conversation="talk")
        file.add("ann", user="ann")
        file.add("free")
        file.add("writer", user="ann", agent="writer")
        file.add("talk", user="ann", conversation="talk")
        file.add("all", all_users=True)
        reached = {token.name: token.handle(memory) for token in file.tokens()}
        assert anns in reached["ann"]
        assert free not in reached["ann"]
        assert [record.text for record in reached["free"].list()] == ["Free."]
        assert [record.text for record in reached["writer"].list()] == ["Ann's as a writer."]
        assert [record.text for record in reached["talk"].list()] == ["Ann's in a talk."]
        assert len(reached["all"]) == 4


def test_the_command_makes_lists_and_revokes(devmem_command: Devmem, tmp_path: Path) -> None:
    where = ("--tokens", tmp_path / "tokens.json")
    secret = devmem_command("mcp", "--add-token", "ann", "--read-only", "--expires", "30d", *where).stdout.strip()
    found = TokenFile(tmp_path / "tokens.json").verify(secret)
    assert found is not None
    assert found.read_only
    assert found.expires_at is not None
    assert round(found.expires_at - found.created_at) == 30 * 86_400
    listed = devmem_command("mcp", "--list-tokens", *where).stdout
    assert "user ann" in listed
    assert secret not in listed
    devmem_command("mcp", "--revoke-token", "ann", *where)
    assert TokenFile(tmp_path / "tokens.json").verify(secret) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--add-token", "ann", "--user", "ann", "--all-users"), "only one"),
        (("--add-token", "ann", "--expires", "soon"), "duration"),
        (("--add-token", " "), "empty"),
        (("--list-tokens",), "does not exist"),
        (("--revoke-token", "ann"), "does not exist"),
        (("--list-tokens", "--revoke-token", "ann"), "one of them alone"),
        (("notes.db", "--list-tokens"), "serve no memory"),
        (("notes.db", "--unscoped"), "require --add-token"),
        (("--list-tokens", "--expires", "30d"), "require --add-token"),
        ((), "name the memory"),
    ],
)
def test_a_command_that_cannot_be_carried_out_says_why(
    devmem_command: Devmem, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    assert words in devmem_command("mcp", *arguments, "--tokens", tmp_path / "tokens.json", code=2).output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--http", "8000"), "--add-token NAME"),
        ((), "needs --http"),
        (("--http", "8000", "--user", "ann"), "each token has its own"),
    ],
)
def test_a_server_with_tokens_needs_some(
    devmem_command: Devmem, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "tokens.json"
    assert words in devmem_command("mcp", tmp_path / "notes.db", "--tokens", file, *arguments, code=2).output
