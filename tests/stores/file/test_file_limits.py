"""Hostile files: each is reported within its limits, nothing outside a source is read, and the rest is indexed."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from docx import Document

from devmem_stores.file import FileMemory, sources
from devmem_stores.file.chunks import ParseLimits
from devmem_stores.file.sources import SourceFile

from .conftest import Folder, found, names, texts

GUIDE_LINE = "docs/guide.md:5-7"


def problems(store: FileMemory) -> dict[str, str]:
    assert store.report is not None
    return dict(store.report.problems)


def loaded(folder: Folder, **limits: float) -> FileMemory:
    """Load the folder; its guide is found whatever else is there."""
    store = folder.load(limits=limits, embedding=None)
    assert found(store, "where does the key hang?", 1) == [GUIDE_LINE]
    return store


def test_a_link_to_itself_is_reported(folder: Folder) -> None:
    (folder.docs / "loop.txt").symlink_to("loop.txt")
    (folder.docs / "a.txt").symlink_to("b.txt")
    (folder.docs / "b.txt").symlink_to("a.txt")
    assert sorted(problems(loaded(folder))) == ["docs/a.txt", "docs/b.txt", "docs/loop.txt"]


def test_a_table_that_repeats_a_long_header_is_reported(folder: Folder) -> None:
    header = ",".join("column" * 20 + str(number) for number in range(60))
    folder.write("wide.csv", header + "\n" + "1,2,3,4,5,6,7,8\n" * 2000)
    store = loaded(folder)
    assert "limits.max_expansion = 20" in problems(store)["docs/wide.csv"]
    assert names(store) == ["docs/guide.md"]


def paragraphs() -> bytes:
    """A document whose only paragraph is repeated 300,000 times."""
    plain, large = io.BytesIO(), io.BytesIO()
    document = Document()
    document.add_paragraph("x")
    document.save(plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, re.sub(rb"<w:p>.*</w:p>", lambda one: one[0] * 300_000, source.read(name)))
    return large.getvalue()


def test_a_file_that_takes_too_long_is_reported_once(folder: Folder) -> None:
    name = "bomb.docx"
    folder.write(name, paragraphs())
    folder.write("z.txt", "the valve")
    store = loaded(folder, max_seconds=0.5)
    assert problems(store) == {f"docs/{name}": "takes longer to parse than limits.max_seconds = 0.5"}
    assert "docs/z.txt" in names(store), "a file after it is indexed by another process"
    assert store.index().unchanged == 3, "it is not parsed again until it or the limits change"
    assert problems(store)
    store.close()
    report = loaded(folder, max_seconds=0.6).report
    assert report is not None
    assert report.changed == (f"docs/{name}",)


def test_a_file_that_takes_too_much_memory_is_reported(folder: Folder) -> None:
    folder.write("large.md", "*a*" * 100_000)
    folder.write("later.html", "<p>The pump is in the cellar.</p>")
    store = loaded(folder, max_memory=100_000_000, max_seconds=300)
    assert "limits.max_memory" in problems(store)["docs/large.md"]
    assert "docs/later.html" in names(store)


def test_a_file_that_crashes_its_parser_is_reported(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "pypdf.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.syspath_prepend(modules)
    folder.write("a.pdf", "%PDF")
    assert problems(loaded(folder)) == {"docs/a.pdf": "ended the process that parsed it, with status 3"}


def test_a_file_that_became_too_large_leaves_the_index_until_the_limit_is_raised(folder: Folder) -> None:
    folder.write("a.log", "the pump\n")
    store = loaded(folder, max_bytes=1000)
    assert names(store) == ["docs/a.log", "docs/guide.md"]
    folder.write("a.log", "the pump\n" * 200)
    report = store.index()
    assert report.problems == {"docs/a.log": "has 1,800 bytes, more than limits.max_bytes = 1,000"}
    assert names(store) == ["docs/guide.md"]
    store.close()
    store = loaded(folder, max_bytes=2000)
    assert (problems(store), names(store)) == ({}, ["docs/a.log", "docs/guide.md"])


def link_the_file(folder: Folder) -> None:
    (folder.docs / "in/a.txt").unlink()
    (folder.docs / "in/a.txt").symlink_to(folder.base / "outside/a.txt")


def link_its_folder(folder: Folder) -> None:
    (folder.docs / "in").rename(folder.base / "away")
    (folder.docs / "in").symlink_to(folder.base / "outside", target_is_directory=True)


def put_a_pipe(folder: Folder) -> None:
    (folder.docs / "in/a.txt").unlink()
    os.mkfifo(folder.docs / "in/a.txt")


@pytest.mark.parametrize("swap", [link_the_file, link_its_folder, put_a_pipe])
def test_what_takes_a_listed_files_place_is_not_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Folder], None]
) -> None:
    (folder.base / "outside").mkdir()
    (folder.base / "outside/a.txt").write_text("The secret word is platypus.")
    folder.write("in/a.txt", "the pump")
    real = sources.read

    def read(file: SourceFile, limits: ParseLimits) -> sources.Read:
        if file.name == "docs/in/a.txt":
            swap(folder)
        return real(file, limits)

    monkeypatch.setattr("devmem_stores.file.indexer.read", read)
    store = loaded(folder)
    assert "was replaced" in problems(store)["docs/in/a.txt"]
    assert not any("platypus" in text for text in texts(store))
