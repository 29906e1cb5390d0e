"""`devmem shards`: sizes, moves, and shards that join."""

from __future__ import annotations

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import devmem as library

from .conftest import Devmem

TEAM = "memory: [{{name: notes, type: simple, config: {{memory_path: {{shards: {shards}, by: user}}}}}}]"


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A workflow with a store on two files."""
    path = tmp_path / "team.yaml"
    path.write_text(TEAM.format(shards="[one.db, two.db]"))
    with library.open(f"{path}#notes") as memory:
        for user in ("ann", "bob", "王芳", "dan", "eve", "fay"):
            memory.add(f"{user} takes the train", user=user)
        memory.add("The office is closed on Friday.")
    return path


def test_sizes_and_tenants_are_shown(team: Path, devmem: Devmem) -> None:
    told = devmem("shards", team, "notes", "--tenants").stdout
    assert "one.db" in told
    assert "王芳" in told
    assert "(none)" in told
    found = json.loads(devmem("shards", "show", f"{team}#notes", "--json").stdout)
    assert sum(each["items"] for each in found["shards"]) == 7
    assert (found["by"], found["move"]) == ("user", None)


def test_a_tenant_is_moved(team: Path, devmem: Devmem) -> None:
    for target in ("one", "two", "one"):
        devmem("shards", "move", team, "notes", "王芳", "--to", target)
        found = json.loads(devmem("shards", f"{team}#notes", "--tenants", "--json").stdout)
        assert {each["shard"] for each in found["tenants"] if each["tenant"] == "王芳"} == {target}
    told = devmem("shards", "move", f"{team}#notes", "--unscoped", "--to", "two").stdout
    assert "the items without a tenant" in told
    assert "already in one" in devmem("shards", "move", f"{team}#notes", "王芳", "--to", "one").stdout
    assert "no move was in progress" in devmem("shards", "move", f"{team}#notes", "--cancel").stdout
    assert json.loads(devmem("count", f"{team}#notes", "--all-users", "--json").stdout)["count"] == 7


def test_what_is_wrong_is_said(team: Path, tmp_path: Path, devmem: Devmem) -> None:
    assert "the shards are one, two" in devmem("shards", "move", f"{team}#notes", "ann", "--to", "six", code=2).stderr
    assert "--to names the shard" in devmem("shards", "move", f"{team}#notes", "ann", code=2).stderr
    with library.open(tmp_path / "plain.db", embedding=None) as memory:
        memory.add("alone")
    assert "keeps its items in one place" in devmem("shards", tmp_path / "plain.db", code=2).stderr


def test_doctor_names_items_in_the_wrong_shard_and_its_way_out_works(
    team: Path, tmp_path: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reports = json.loads(devmem("doctor", team, "--json").stdout)
    assert [(one["kind"], one["sound"], one.get("misplaced")) for one in reports if one["kind"] == "shards"] == [
        ("shards", True, 0)
    ]
    found = json.loads(devmem("shards", f"{team}#notes", "--tenants", "--json").stdout)
    home = {one["tenant"]: one["shard"] for one in found["tenants"]}
    wrong = "two" if home["王芳"] == "one" else "one"
    for number in range(7):
        devmem("add", f"{wrong}.db", f"王芳 takes bus {number}", "--id", f"w-{number}", "--user", "王芳")
    devmem(
        "add", f"{wrong}.db", "somebody waits", "--id", "w-8", "--user", next(u for u in home if u and home[u] == wrong)
    )
    bus = ("search", f"{team}#notes", "bus", "--user", "王芳")
    assert "takes bus" not in devmem(*bus).stdout
    told = " ".join(devmem("doctor", team, code=1).stderr.split())
    assert (
        f"7 items of user '王芳' in the shard '{wrong}' instead of '{home['王芳']}', where searches look: w-6, " in told
    )
    assert "w-8" not in told
    report = next(one for one in json.loads(devmem("doctor", team, "--json", code=1).stdout) if one["kind"] == "shards")
    assert (report["sound"], report["misplaced"]) == (False, 7)
    commands = [shlex.split(one)[1:] for one in told.split("`")[1::2] if one.startswith("devmem ")]
    for command in commands[:2]:
        devmem(*command, *(["--yes"] if command[0] == "forget" else []))
    devmem("import", f"{team}#notes", "out.json")
    devmem("doctor", team)
    assert "takes bus" in devmem(*bus).stdout
    assert json.loads(devmem("count", f"{team}#notes", "--all-users", "--json").stdout)["count"] == 15


@pytest.mark.parametrize("command", [("doctor",), ("show",), ("--key-file", "key", "show")])
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("shards://room?one=one.db", "expected one of user, agent, conversation, found the text 'room'"),
        ("shards://user?one=~no-such-user/x.db", "the home folder ~no-such-user is unknown"),
    ],
)
def test_a_wrong_url_of_shards_is_no_internal_error(
    command: tuple[str, ...], url: str, said: str, tmp_path: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key").write_text("ab" * 32, encoding="utf-8")
    error = " ".join(devmem(*command, url, code=2).stderr.split())
    assert error.startswith("error: the shards: ")
    assert said in error


def test_doctor_examines_the_shards_of_a_url_in_the_home_folder(
    team: Path, tmp_path: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(team.parent))
    assert "2 shards, 0 misplaced" in devmem("doctor", "shards://user?one=~/one.db&two=~/two.db").stdout
    none = f"shards://user?one={tmp_path}/no.db&two={tmp_path}/none.db"
    assert "none of the shards has a store yet" in devmem("doctor", none, code=2).stderr


def test_a_shard_that_is_opened_on_its_own_says_so(team: Path, devmem: Devmem) -> None:
    """An item that it takes may belong to another shard, where no search of the store finds it."""
    assert "one.db is one shard of a store" in devmem("add", team.parent / "one.db", "Hello.", "--user", "zoe").stderr
    assert "shard" not in devmem("search", f"{team}#notes", "Hello.", "--user", "ann").stderr
    told = devmem("shards", "move", f"{team}#notes", "nobody", "--to", "two").stdout
    assert "is the name right?" in told or "already in two" in told


def test_a_shard_joins(team: Path, devmem: Devmem) -> None:
    team.write_text(TEAM.format(shards="[one.db, two.db, three.db, four.db]"))
    assert "new" in devmem("shards", f"{team}#notes").stdout
    due = json.loads(devmem("shards", "rebalance", f"{team}#notes", "--dry-run", "--json").stdout)
    done = json.loads(devmem("shards", "rebalance", team, "notes", "--json").stdout)
    assert {each["tenant"] for each in done} == {each["tenant"] for each in due}
    assert {each["target"] for each in done} <= {"three", "four"}
    assert "nothing had to move" in devmem("shards", "rebalance", f"{team}#notes").stdout
    found = json.loads(devmem("shards", f"{team}#notes", "--json").stdout)
    assert sum(each["items"] for each in found["shards"]) == 7


def test_a_shard_is_drained_and_left_out(team: Path, devmem: Devmem) -> None:
    place = f"{team}#notes"
    assert "no shard 'six'" in devmem("shards", "drain", place, "six", code=2).stderr
    assert "missing arguments" in devmem("shards", "drain", place, code=2).stderr
    team.write_text(TEAM.format(shards="[two.db]"))
    refused = devmem("shards", place, code=2).stderr
    assert "tenants live in the shard 'one'" in refused
    assert "devmem shards drain MEMORY one" in refused
    team.write_text(TEAM.format(shards="[one.db, two.db]"))
    done = json.loads(devmem("shards", "drain", team, "notes", "one", "--json").stdout)
    assert done["drained"] == "one"
    assert {(each["source"], each["target"]) for each in done["moves"]} == {("one", "two")}
    assert "drained" in devmem("shards", place).stdout
    assert "leave it out of the configuration" in devmem("shards", "drain", place, "one").stdout
    assert "nothing had to move" in devmem("shards", "rebalance", place).stdout
    team.write_text(TEAM.format(shards="[two.db]"))
    (team.parent / "one.db").unlink()
    assert json.loads(devmem("count", place, "--all-users", "--json").stdout)["count"] == 7


def test_a_drained_shard_takes_tenants_again(team: Path, devmem: Devmem) -> None:
    place = f"{team}#notes"
    devmem("shards", "drain", place, "one")
    assert "one takes tenants again" in devmem("shards", "drain", place, "one", "--cancel").stdout
    assert devmem("shards", "rebalance", place, "--json").stdout != "[]"
    found = json.loads(devmem("shards", place, "--json").stdout)
    assert all(each["state"] == "ok" and each["items"] for each in found["shards"])


def test_archived_items_stay_with_their_tenant(team: Path, devmem: Devmem) -> None:
    """They are archived, shown, counted, searched and brought back as in one database."""
    place = f"{team}#notes"
    devmem("consolidate", place, "--archive-before", "tomorrow", "--max-trust", "1")
    assert json.loads(devmem("count", place, "--all-users", "--archived", "--json").stdout)["count"] == 7
    devmem("shards", "drain", place, "one")
    assert json.loads(devmem("count", place, "--all-users", "--archived", "--json").stdout)["count"] == 7
    (hit,) = json.loads(devmem("search", place, "train", "--user", "ann", "--archived", "--json").stdout)
    assert hit["id"][:5] in devmem("show", place, "--all-users", "--archived").stdout
    assert "王芳" in devmem("export", place, "--archived").stdout
    devmem("forget", place, "--user", "bob", "--yes")
    assert json.loads(devmem("count", place, "--all-users", "--archived", "--json").stdout)["count"] == 6


@pytest.fixture
def down(team: Path) -> tuple[str, str]:
    """The name of a shard that is away, and a user who lives in it."""
    with library.open(f"{team}#notes") as memory:
        shards = memory.store.collection.shards  # type: ignore[attr-defined]
        home = {user: shards.map.shard_of(user) for user in ("ann", "bob", "王芳", "dan", "eve", "fay")}
    user, name = next((user, name) for user, name in home.items() if name != shards.map.shard_of(None))
    for file in team.parent.glob(f"{name}.db*"):
        file.rename(team.parent / f"away{file.name}")
    return name, user


def test_a_search_says_what_is_down(team: Path, down: tuple[str, str], devmem: Devmem) -> None:
    (name, user), place = down, f"{team}#notes"
    warning = f"shards that could not be reached: {name}"
    for options in ((), ("--explain",), ("--json",)):
        done = devmem("search", place, "train", "--all-users", "--top-k", "20", *options)
        assert warning in done.stderr
        assert "train" in done.stdout
    found = json.loads(devmem("search", place, "train", "--all-users", "--json").stdout)
    assert found["missing_shards"] == [name]
    assert all("train" in hit["text"] or "Friday" in hit["text"] for hit in found["hits"])
    assert isinstance(json.loads(devmem("search", place, "Friday", "--json").stdout), list)
    explained = json.loads(devmem("search", place, "train", "--all-users", "--json", "--explain").stdout)
    assert explained["missing_shards"] == [name]
    assert f"should be the shard {name!r}" in devmem("search", place, "train", "--user", user, code=2).stderr
    assert "Friday" in devmem("search", place, "Friday").stdout
    assert name in devmem("shards", place).stdout


@pytest.mark.parametrize("as_url", [False, True])
def test_a_store_may_fail_instead(team: Path, down: tuple[str, str], devmem: Devmem, as_url: bool) -> None:
    team.write_text(team.read_text().replace("by: user", "by: user, on_down: fail"))
    url = f"shards://user?one={team.parent}/one.db&two={team.parent}/two.db&on_down=fail"
    place = url if as_url else f"{team}#notes"
    assert f"shard {down[0]!r}" in devmem("search", place, "train", "--all-users", code=2).stderr


@pytest.mark.parametrize("is_empty", [False, True])
def test_doctor_names_a_shard_that_is_missing(team: Path, devmem: Devmem, *, is_empty: bool) -> None:
    """Half of the tenants are in it: all the rest of the store may be sound."""
    file = team.parent / "two.db"
    file.unlink()
    if is_empty:
        file.touch()
    told = " ".join(devmem("doctor", team, code=1).stderr.split())
    assert "two.db: is missing or empty, and should be the shard 'two': is its disk mounted?" in told
    assert file.exists() == is_empty


def test_doctor_reports_on_each_shard_where_an_index_of_one_is_damaged(team: Path, devmem: Devmem) -> None:
    """Their tenants cannot be listed, and all else can be examined."""
    file = team.parent / "two.db"
    with closing(sqlite3.connect(file)) as found:
        found.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        of_items = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'items'"
        pages = [page for (page,) in found.execute(of_items)]
        ((size,),) = found.execute("PRAGMA page_size")
    data = bytearray(file.read_bytes())
    for page in pages:
        data[(page - 1) * size : page * size] = b"\xff" * size
    file.write_bytes(data)
    reports = json.loads(devmem("doctor", team, "--json", code=1).stdout)
    assert [(one["kind"], one["sound"]) for one in reports] == [
        ("collection", True),
        ("collection", False),
        ("shards", True),
    ]
    (team.parent / "one.db").unlink()
    told = " ".join(devmem("doctor", team, code=1).stderr.split())
    assert "two.db: the file is damaged" in told
    assert "one.db: is missing or empty" in told


def test_doctor_finds_nothing_wrong_with_shards_that_were_never_written(tmp_path: Path, devmem: Devmem) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(TEAM.format(shards="[one.db, two.db]"))
    devmem("doctor", path)
    assert not list(tmp_path.glob("*.db"))


def test_doctor_names_unscoped_items_in_the_wrong_shard(
    team: Path, tmp_path: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(devmem("shards", f"{team}#notes", "--tenants", "--json").stdout)
    home = next(one["shard"] for one in found["tenants"] if one["tenant"] is None)
    wrong = "two" if home == "one" else "one"
    devmem("add", f"{wrong}.db", "The lift is broken.", "--id", "lift")
    told = " ".join(devmem("doctor", team, code=1).stderr.split())
    assert f"1 item without a user in the shard '{wrong}' instead of '{home}', where searches look: lift; " in told
    for command in [shlex.split(one)[1:] for one in told.split("`")[1:5:2]]:
        devmem(*command, *(["--yes"] if command[0] == "forget" else []))
    devmem("import", f"{team}#notes", "out.json")
    devmem("doctor", team)
    assert "lift" in devmem("search", f"{team}#notes", "lift").stdout
    assert json.loads(devmem("count", f"{team}#notes", "--all-users", "--json").stdout)["count"] == 8
