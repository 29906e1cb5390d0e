"""Files as items of a memory: versions, scopes, searches, several writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.adapters.files import FileCommands, MemoryFiles
from devmem.errors import MemoryFileError, VersionConflictError
from devmem.memory.scope import ScopeParts
from devmem.storage import starts_with

NOTES = "/memories/notes.md"
TWO_NOTES = ["/memories/a.md", "/memories/b.md"]


@pytest.fixture
def files(memory: devmem.Memory) -> MemoryFiles:
    return MemoryFiles(memory)


class TestVersions:
    def test_a_write_replaces_only_the_version_that_it_expects(self, files: MemoryFiles) -> None:
        first = files.write(NOTES, "one", expected=None)
        second = files.write(NOTES, "two", expected=first.version)
        assert (found := files.read(NOTES))
        assert (found.text, found.version) == ("two", second.version)
        for expected in (None, first.version):
            with pytest.raises(VersionConflictError):
                files.write(NOTES, "stale", expected=expected)
            with pytest.raises(VersionConflictError):
                files.delete(NOTES, expected=expected)
        files.delete(NOTES, expected=second.version)
        assert files.read(NOTES) is None
        with pytest.raises(VersionConflictError):
            files.write(NOTES, "stale", expected=second.version)
        files.delete(NOTES, expected=None)

    def test_what_others_store_beside_is_stored_with_it_or_not_at_all(
        self, files: MemoryFiles, memory: devmem.Memory
    ) -> None:
        beside = devmem.MemoryItem(id="receipt", content_summary="receipt")
        with pytest.raises(VersionConflictError):
            files.write(NOTES, "one", expected="another", beside=lambda _: beside)
        assert "receipt" not in memory
        files.write(NOTES, "one", expected=None, beside=lambda _: beside)
        with pytest.raises(VersionConflictError):
            files.write("/memories/other.md", "two", expected=None, beside=lambda _: beside)
        assert files.paths() == [NOTES]

    def test_an_edit_is_made_to_what_another_writer_stored_meanwhile(self, files: MemoryFiles) -> None:
        files.write(NOTES, "a", expected=None)
        seen: list[str] = []

        def change(text: str) -> str:
            if not seen:
                files.edit(NOTES, lambda other: other + "b")
            seen.append(text)
            return text + "c"

        files.edit(NOTES, change)
        assert seen == ["a", "ab"]
        assert (found := files.read(NOTES))
        assert found.text == "abc"

    def test_a_file_that_changes_while_it_is_moved_moves_with_the_change(
        self, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files.write(NOTES, "old", expected=None)

        def interrupted(path: str) -> bool:
            monkeypatch.undo()
            files.edit(NOTES, lambda _: "new")
            return files.is_directory(path)

        monkeypatch.setattr(files, "is_directory", interrupted)
        assert files.rename(NOTES, "/memories/moved.md") == 1
        assert {file.path: file.text for file in files.within("/memories")} == {"/memories/moved.md": "new"}

    @pytest.mark.parametrize("moves", [False, True])
    @pytest.mark.parametrize(
        ("theirs", "ours", "said"),
        [
            ("/memories/q", "/memories/q/b", "/memories/q is a file"),
            ("/memories/q/b", "/memories/q", "/memories/q is a directory"),
        ],
    )
    def test_no_file_and_directory_of_one_name_by_two_writers(
        self, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch, theirs: str, ours: str, said: str, moves: bool
    ) -> None:
        files.write(NOTES, "old", expected=None)

        def interrupted(path: str) -> bool:
            monkeypatch.undo()
            seen = files.is_directory(path)
            files.write(theirs, "theirs", expected=None)
            return seen

        monkeypatch.setattr(files, "is_directory", interrupted)
        with pytest.raises(MemoryFileError, match=said):
            files.rename(NOTES, ours) if moves else files.write(ours, "ours", expected=None)
        assert files.paths() == [NOTES, theirs]

    def test_writers_of_one_file_lose_nothing(self, tmp_path: Path) -> None:
        def write(name: str) -> None:
            with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
                mine = MemoryFiles(memory)
                for number in range(10):
                    mine.edit(NOTES, lambda text, number=number: f"{text}{name}{number}\n")  # type: ignore[misc]

        with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
            files = MemoryFiles(memory)
            files.write(NOTES, "", expected=None)
            with ThreadPoolExecutor(12) as pool:
                list(pool.map(lambda name: write(name), "abc"))
            assert (found := files.read(NOTES))
            assert sorted(found.text.split()) == sorted(f"{name}{number}" for name in "abc" for number in range(10))

    def test_what_a_model_deletes_or_overwrites_is_in_the_history(self, tmp_path: Path) -> None:
        with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
            files = MemoryFiles(memory)
            item = files.write(NOTES, "first", expected=None).item
            files.edit(NOTES, lambda _: "second")
            files.delete_all(NOTES)
            files.write("/memories/next.md", "a later write", expected=None)
            texts = [version.item.text for version in memory.history(item.id)]
            assert texts[:2] == ["first", "second"]
            memory.forget(source=NOTES)
            assert memory.history(item.id) == []


class TestInTheMemory:
    def test_a_file_is_found_by_its_words_and_its_name(self, files: MemoryFiles, memory: devmem.Memory) -> None:
        files.write("/memories/drinks.md", "Ann takes her tea without milk.", expected=None)
        files.write("/memories/travel.md", "She prefers the night train.", expected=None)
        memory.add("The launch is on June 2nd.")
        (hit,) = memory.search("tea with milk?", limit=1)
        assert (hit.text, hit.item.provenance.name) == ("Ann takes her tea without milk.", "/memories/drinks.md")
        assert memory.search("travel", limit=1)[0].text == "She prefers the night train."
        files.delete_all("/memories/drinks.md")
        assert all("tea" not in hit.text for hit in memory.search("tea"))
        assert len(memory) == 2

    @pytest.mark.parametrize(
        "text", ["", " \n\t", "no newline", "x\n\n\n", "\u00e9\u4e2d\U0001f600", "long. " * 500, "a\r\nb"]
    )
    def test_a_text_is_kept_to_the_last_character(self, files: MemoryFiles, text: str) -> None:
        files.write(NOTES, text, expected=None)
        assert (found := files.read(NOTES))
        assert found.text == text


class TestScopes:
    def test_each_scope_has_files_of_its_own(self, memory: devmem.Memory) -> None:
        scopes: list[ScopeParts] = [{}, {"user": "ann"}, {"user": "ben"}, {"user": "ann", "agent": "writer"}]
        handles = [memory.scoped(**scope) if scope else memory for scope in scopes]
        commands = [FileCommands(handle) for handle in handles]
        for number, mine in enumerate(commands):
            mine.create(NOTES, f"of {number}")
        for number, mine in enumerate(commands):
            assert mine.view(NOTES).endswith(f"of {number}")
            assert mine.files.paths() == [NOTES]
        commands[1].clear()
        assert [mine.files.paths() for mine in commands] == [[NOTES], [], [NOTES], [NOTES]]


@pytest.mark.parametrize(("store_type", "place"), [("simple", "notes.json"), ("conversation", "talk.db")])
def test_any_store_with_a_collection_keeps_files(store_type: str, place: str, tmp_path: Path) -> None:
    declaration: Any = {"type": store_type, "config": {"memory_path": str(tmp_path / place)}}
    with devmem.open(declaration) as memory:
        commands = FileCommands(memory)
        for path in TWO_NOTES:
            commands.create(path, f"about {path}\n")
        commands.insert(TWO_NOTES[0], 1, "more")
        commands.rename(TWO_NOTES[1], "/memories/c.md")
        commands.delete("/memories/c.md")
    with devmem.open(declaration) as memory:
        (file,) = FileCommands(memory).files.within("/memories")
        assert (file.path, file.text) == (TWO_NOTES[0], f"about {TWO_NOTES[0]}\nmore\n")
        assert memory.list(where=devmem.Filter(source_name=starts_with("/memories/")))[0].text == file.text
