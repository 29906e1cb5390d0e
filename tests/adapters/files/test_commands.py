"""Answers of the commands on memory files, as a model reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.adapters.files import ROOT, FileCommands, FolderLimits, resolved
from devmem.errors import MemoryFileError

NOTES = "/memories/notes.md"


def text_of(commands: FileCommands, path: str = NOTES) -> str:
    file = commands.files.read(path)
    assert file is not None
    return file.text


class TestViewing:
    def test_a_file_is_shown_with_line_numbers(self, commands: FileCommands) -> None:
        commands.create(NOTES, "tea\nno milk\nno sugar")
        shown = commands.view(NOTES)
        assert shown == (
            f"Here's the content of {NOTES} with line numbers:\n     1\ttea\n     2\tno milk\n     3\tno sugar"
        )

    @pytest.mark.parametrize(
        ("view_range", "lines"), [([2, 3], ["     2\tb", "     3\tc"]), ([3, -1], ["     3\tc", "     4\td"])]
    )
    def test_a_range_of_lines(self, commands: FileCommands, view_range: list[int], lines: list[str]) -> None:
        commands.create(NOTES, "a\nb\nc\nd")
        assert commands.view(NOTES, view_range).splitlines()[1:] == lines

    @pytest.mark.parametrize("view_range", [[0, 1], [3, 2], [5, -1], [1], [1, 2, 3]])
    def test_a_range_that_is_none_is_explained(self, commands: FileCommands, view_range: list[int]) -> None:
        commands.create(NOTES, "a\nb\nc\nd")
        with pytest.raises(MemoryFileError, match=r"Invalid `view_range`.* the file has 4 lines"):
            commands.view(NOTES, view_range)

    def test_a_directory_lists_two_levels_with_sizes_and_hides_dot_files(self, commands: FileCommands) -> None:
        for path, text in {
            "/memories/a.md": "12345",
            "/memories/deep/b.md": "é",
            "/memories/deep/er/c.md": "x" * 1536,
            "/memories/.hidden": "h",
            "/memories/deep/.git/config": "g",
        }.items():
            commands.create(path, text)
        assert commands.view("/memories").splitlines()[1:] == [
            "1.5K\t/memories",
            "5B\t/memories/a.md",
            "1.5K\t/memories/deep/",
            "2B\t/memories/deep/b.md",
            "1.5K\t/memories/deep/er/",
        ]
        assert "/memories/deep/er/c.md" in commands.view("/memories/deep/")


class TestEditing:
    def test_a_text_that_occurs_once_is_replaced_and_shown_with_its_neighbors(self, commands: FileCommands) -> None:
        commands.create(NOTES, "1\n2\n3\n4\n5\n6")
        told = commands.str_replace(NOTES, "4\n5", "four")
        assert text_of(commands) == "1\n2\n3\nfour\n6"
        assert told.splitlines()[1:] == ["     2\t2", "     3\t3", "     4\tfour", "     5\t6"]

    def test_a_text_that_is_missing_or_repeated_changes_nothing(self, commands: FileCommands) -> None:
        commands.create(NOTES, "tea\ncoffee\ntea")
        commands.create("/memories/other.md", "aaa")
        with pytest.raises(MemoryFileError, match=r"old_str `milk` did not appear verbatim in /memories/notes\.md"):
            commands.str_replace(NOTES, "milk", "")
        with pytest.raises(MemoryFileError, match=r"Multiple occurrences of old_str `tea` in lines: 1, 3\. Please"):
            commands.str_replace(NOTES, "tea", "mate")
        with pytest.raises(MemoryFileError, match="Multiple occurrences"):
            commands.str_replace("/memories/other.md", "aa", "b")
        with pytest.raises(MemoryFileError, match="old_str is empty"):
            commands.str_replace(NOTES, "", "mate")
        assert text_of(commands) == "tea\ncoffee\ntea"

    @pytest.mark.parametrize(("line", "whole"), [(0, "new\na\nb\n"), (1, "a\nnew\nb\n"), (2, "a\nb\nnew\n")])
    def test_lines_are_inserted_behind_a_line(self, commands: FileCommands, line: int, whole: str) -> None:
        commands.create(NOTES, "a\nb")
        assert commands.insert(NOTES, line, "new\n") == f"The file {NOTES} has been edited."
        assert text_of(commands) == whole

    def test_a_file_is_not_created_twice(self, commands: FileCommands) -> None:
        assert commands.create(NOTES, "first") == f"File created successfully at: {NOTES}"
        with pytest.raises(MemoryFileError, match=f"File {NOTES} already exists"):
            commands.create(NOTES, "second")
        assert text_of(commands) == "first"

    @pytest.mark.parametrize("path", ["/memories", "/memories/", "/memories/notes.md/"])
    def test_a_directory_is_no_file(self, commands: FileCommands, path: str) -> None:
        with pytest.raises(MemoryFileError, match="is a directory; name a file in it"):
            commands.create(path, "x")

    def test_a_file_cannot_be_where_a_directory_is_nor_below_a_file(self, commands: FileCommands) -> None:
        commands.create("/memories/a/b.md", "x")
        with pytest.raises(MemoryFileError, match="The path /memories/a is a directory"):
            commands.create("/memories/a", "x")
        with pytest.raises(MemoryFileError, match=r"/memories/a/b\.md is a file, not a directory"):
            commands.create("/memories/a/b.md/c.md", "x")
        with pytest.raises(MemoryFileError, match="The path /memories/a is not a file"):
            commands.insert("/memories/a", 0, "x")

    def test_limits_are_named(self, commands: FileCommands) -> None:
        small = FileCommands(commands.files.memory, limits=FolderLimits(max_chars=10, max_files=1))
        small.create(NOTES, "0123456789")
        with pytest.raises(MemoryFileError, match="would have 13 characters, and 10 is the maximum"):
            small.insert(NOTES, 1, "x")
        with pytest.raises(MemoryFileError, match="there are 1 memory files, and 1 is the maximum"):
            small.create("/memories/other.md", "x")
        assert text_of(small) == "0123456789"


class TestDeletingAndMoving:
    def test_a_file_and_a_directory_are_deleted(self, commands: FileCommands) -> None:
        for path in ("/memories/a/1.md", "/memories/a/b/2.md", "/memories/ab.md"):
            commands.create(path, path)
        assert commands.delete("/memories/a") == "Successfully deleted /memories/a"
        assert commands.files.paths() == ["/memories/ab.md"]
        commands.delete("/memories/ab.md")
        assert commands.files.paths() == []
        with pytest.raises(MemoryFileError, match=r"The path /memories/ab\.md does not exist"):
            commands.delete("/memories/ab.md")
        with pytest.raises(MemoryFileError, match="Cannot delete the /memories directory itself"):
            commands.delete("/memories/a/..")

    def test_a_file_and_a_directory_are_moved(self, commands: FileCommands) -> None:
        commands.create("/memories/a/1.md", "one")
        commands.create("/memories/a/b/2.md", "two")
        told = commands.rename("/memories/a", "/memories/new/place")
        assert told == "Successfully renamed /memories/a to /memories/new/place"
        commands.rename("/memories/new/place/1.md", "/memories/1.md")
        assert {file.path: file.text for file in commands.files.within(ROOT)} == {
            "/memories/1.md": "one",
            "/memories/new/place/b/2.md": "two",
        }

    def test_nothing_is_moved_over_something_or_into_itself(self, commands: FileCommands) -> None:
        commands.create("/memories/a/1.md", "one")
        commands.create("/memories/2.md", "two")
        for old, new, reason in (
            ("/memories/2.md", "/memories/a/1.md", "The destination /memories/a/1.md already exists"),
            ("/memories/2.md", "/memories/a", "The destination /memories/a already exists"),
            ("/memories/a", "/memories/a/b", "Cannot move /memories/a into itself"),
            ("/memories/a", "/memories/2.md/b", "/memories/2.md is a file, not a directory"),
            ("/memories/a", "/memories", "Cannot rename the /memories directory itself"),
            ("/memories/none", "/memories/new", "The path /memories/none does not exist"),
        ):
            with pytest.raises(MemoryFileError, match=reason):
                commands.rename(old, new)
        assert commands.files.paths() == ["/memories/2.md", "/memories/a/1.md"]


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "reason"),
        [
            ("/etc/passwd", "Path must start with /memories, got: /etc/passwd"),
            ("/memories2/x", "Path must start with /memories"),
            ("memories/x", "Path must start with /memories"),
            (
                "/memories/../../../etc/passwd",
                r"Path /memories/\.\./\.\./\.\./etc/passwd would escape /memories directory",
            ),
            ("/memories/a/../../x", "would escape /memories directory"),
            ("/memories/a\nb", "characters that cannot be shown"),
            ("/memories/a\0", "characters that cannot be shown"),
            ("/memories/\ud800", "characters that cannot be shown"),
            ("/memories/" + "x" * 1024, "at most 1,024 characters"),
        ],
    )
    def test_a_path_out_of_the_root_is_refused_by_every_command(
        self, commands: FileCommands, path: str, reason: str
    ) -> None:
        every: list[Callable[[], str]] = [
            lambda: commands.view(path),
            lambda: commands.create(path, "x"),
            lambda: commands.str_replace(path, "a", "b"),
            lambda: commands.insert(path, 0, "x"),
            lambda: commands.delete(path),
            lambda: commands.rename(path, NOTES),
            lambda: commands.rename(NOTES, path),
        ]
        for command in every:
            with pytest.raises(MemoryFileError, match=reason):
                command()

    def test_steps_within_the_root_are_followed(self, commands: FileCommands) -> None:
        commands.create("/memories/a/./b/..//notes.md", "x")
        assert commands.files.paths() == ["/memories/a/notes.md"]

    @given(st.lists(st.sampled_from(["..", ".", "", "a", "b"]), max_size=8))
    def test_what_is_resolved_is_in_the_root_and_stays_as_it_is(self, steps: list[str]) -> None:
        try:
            place = resolved("/".join([ROOT, *steps]))
        except MemoryFileError:
            return
        assert place == ROOT or place.startswith(f"{ROOT}/")
        assert not {"..", ".", ""} & set(place.split("/")[1:])
        assert resolved(place) == place
