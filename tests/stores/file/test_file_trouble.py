"""Killed, out of disk, deleted while read: the next load is right and complete."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from devmem.errors import CollectionError
from devmem_stores.file import sources
from devmem_stores.file.chunks import ParseLimits
from devmem_stores.file.sources import Read, SourceFile
from tests.conftest import StartScript
from tests.dying import DYING

from .conftest import Folder, found, names, texts

FILES = 60
_DYING = (
    DYING
    + """
import shutil
from pathlib import Path
from devmem.stores import StoreSetup
from devmem.testing import HashEmbedder
from devmem_stores.file import FileConfig, FileMemory, indexer
indexer._BATCH_SIZE = 8
block = {"index_path": "index.db", "file_sources": [{"path": "docs"}], "embedding": {"provider": "openai"}}

def load(base):
    config, model = FileConfig.model_validate(block), HashEmbedder(32)
    options = {"config": config, "base_dir": Path(base), "open_embedder": lambda _: model}
    FileMemory(StoreSetup(name="docs", store_type="file", **options)).load()

base, share = sys.argv[1:]
shutil.copytree(base, base + "-copy")
lines = lines_of(lambda: load(base + "-copy"))
die_after(int(lines * float(share)), lambda: load(base))
os._exit(1)
"""
)
SHARES = [0.25, 0.55, 0.85, *(pytest.param(at / 20, marks=pytest.mark.kit) for at in range(1, 18))]


def fill(folder: Folder) -> None:
    for at in range(FILES):
        folder.write(f"{at}.txt", f"Document {at} tells of the boiler. " * (at % 7 + 1))


def fresh(folder: Folder, tmp_path: Path) -> list[str]:
    """Chunks of a fresh index of the same files."""
    store = folder.load(index_path=str(tmp_path / "fresh.db"))
    held = texts(store)
    store.close()
    for file in tmp_path.glob("fresh.db*"):
        file.unlink()
    return held


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_killed_while_indexing(folder: Folder, tmp_path: Path, share: float, start_script: StartScript) -> None:
    fill(folder)
    assert start_script(_DYING, folder.base, share).wait(60) == 9
    store = folder.load()
    assert texts(store) == fresh(folder, tmp_path)
    assert len(names(store)) == FILES + 1
    assert store.info().waiting == 0
    assert store.index().stored == 0
    assert store.plan().is_empty()


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_killed_while_a_change_is_taken_in(
    folder: Folder, tmp_path: Path, share: float, start_script: StartScript
) -> None:
    for at in range(6):
        folder.write(f"{at}.txt", f"Document {at} tells of the boiler.\n\n" + "More of it. " * 60)
    store = folder.load()
    store.close()
    original = (folder.docs / "1.txt").read_text()
    folder.write("1.txt", "A line before.\n" + original)
    folder.write("2.txt", "Something else.")
    (folder.docs / "3.txt").unlink()
    (folder.docs / "4.txt").rename(folder.docs / "four.txt")
    assert start_script(_DYING, folder.base, share).wait(60) == 9
    # As it was before: what was interrupted must not be taken for done.
    folder.write("1.txt", original)
    store = folder.load()
    assert texts(store) == fresh(folder, tmp_path)
    cited = {str(item.metadata["citation"]).split("-")[0] for item in store.collection.scan()}
    assert "docs/1.txt:1" in cited
    assert "docs/3.txt" not in names(store)
    assert store.plan().is_empty()


@pytest.fixture
def little_disk() -> Iterator[None]:
    """No file may grow beyond 200 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_said_and_the_next_load_completes(
    folder: Folder, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder.load().close()
    for at in range(40):
        folder.write(f"{at}.txt", "".join(f"Sentence {at} {number} on the boiler. " for number in range(200)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    request.getfixturevalue("little_disk")
    store = folder.make()
    with pytest.raises(CollectionError):
        store.load()
    assert found(store, "where does the key hang?", 1) == ["docs/guide.md:5-7"]
    store.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    store = folder.load()
    assert len(names(store)) == 41
    assert texts(store) == fresh(folder, tmp_path)


def test_a_file_deleted_while_it_is_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = folder.write("a.txt", "the pump")
    store = folder.load()
    folder.write("a.txt", "the red pump")
    fresh_file = folder.write("b.txt", "the valve")
    real = sources.read

    def vanish(file: SourceFile, limits: ParseLimits) -> Read:
        if file.path in (gone, fresh_file):
            file.path.unlink()
        return real(file, limits)

    monkeypatch.setattr("devmem_stores.file.indexer.read", vanish)
    report = store.index()
    assert report.problems == {}
    assert report.deleted == ("docs/a.txt",)
    assert names(store) == ["docs/guide.md"]
