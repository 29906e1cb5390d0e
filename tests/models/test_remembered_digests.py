"""The digest of a model's weights is remembered for the very same file, and computed again for any other."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from devmem.errors import ModelDamagedError
from devmem.models import model_files
from devmem.models.model_files import cache_folder, official_content

OFFICIAL = b"weights " * 1000
DIGEST = hashlib.sha256(OFFICIAL).hexdigest()
DAYS = 86_400.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
    """Seconds added to the time; the cache folder is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    later = [10.0]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + sum(later))
    return later


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> list[int]:
    """Sizes of what was hashed."""
    sizes: list[int] = []
    real = model_files.check_digest

    def counted(path: Path, content: bytes | memoryview, official: str, *, advice: str) -> None:
        sizes.append(len(content))
        real(path, content, official, advice=advice)

    monkeypatch.setattr(model_files, "check_digest", counted)
    return sizes


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(OFFICIAL)
    return path


def test_the_same_file_is_hashed_once(weights: Path, hashed: list[int]) -> None:
    for _ in range(3):
        assert official_content(weights, DIGEST, advice="") == OFFICIAL
    assert hashed == [len(OFFICIAL)]


def test_another_digest_is_not_believed(weights: Path, hashed: list[int]) -> None:
    official_content(weights, DIGEST, advice="")
    with pytest.raises(ModelDamagedError):
        official_content(weights, "0" * 64, advice="")


@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_that_was_changed_is_noticed(weights: Path, hashed: list[int], in_place: bool) -> None:
    """Also where its size and its time of change are those of before."""
    official_content(weights, DIGEST, advice="")
    before = weights.stat()
    damaged = OFFICIAL.replace(b"w", b"v", 1)
    if in_place:
        weights.write_bytes(damaged)
    else:
        (weights.parent / "new").write_bytes(damaged)
        (weights.parent / "new").replace(weights)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ModelDamagedError, match="advice"):
        official_content(weights, DIGEST, advice="advice")


def test_after_a_week_it_is_hashed_again(weights: Path, hashed: list[int], clock: list[float]) -> None:
    official_content(weights, DIGEST, advice="")
    clock.append(8 * DAYS)
    official_content(weights, DIGEST, advice="")
    assert len(hashed) == 2


def test_a_file_that_is_new_is_not_remembered_yet(weights: Path, hashed: list[int], clock: list[float]) -> None:
    clock.clear()
    official_content(weights, DIGEST, advice="")
    official_content(weights, DIGEST, advice="")
    assert len(hashed) == 2


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"x": 1}'])
def test_a_damaged_cache_costs_nothing(weights: Path, hashed: list[int], content: bytes) -> None:
    cache_folder().mkdir(parents=True)
    (cache_folder() / "digests.json").write_bytes(content)
    assert official_content(weights, DIGEST, advice="") == OFFICIAL
    official_content(weights, DIGEST, advice="")
    assert len(hashed) == 1


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have owners")
def test_what_others_may_write_is_not_believed(weights: Path, hashed: list[int]) -> None:
    official_content(weights, DIGEST, advice="")
    (cache_folder() / "digests.json").chmod(0o666)
    official_content(weights, DIGEST, advice="")
    assert len(hashed) == 2


def test_without_a_folder_for_caches_it_is_hashed_each_time(
    weights: Path, hashed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights.with_name("no folder").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(weights.with_name("no folder")))
    for _ in range(2):
        assert official_content(weights, DIGEST, advice="") == OFFICIAL
    assert len(hashed) == 2
