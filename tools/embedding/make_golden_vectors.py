"""Writes `tests/models/golden_minilm.json`: what sentence-transformers makes of the golden texts.

    python -m tools.embedding.make_golden_vectors

Needs sentence-transformers, and the model's files in the installed package or in the folder given as an argument.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import numpy as np

from devmem.model.items import Vector
from devmem.models.minilm import find_model
from tools.embedding.golden_texts import GOLDEN_TEXTS

TARGET = Path("tests/models/golden_minilm.json")


def reference_vectors(texts: list[str], folder: Path) -> Vector:
    """Embed `texts` with sentence-transformers on one CPU, shape (len(texts), 384), unit length."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    rows: Vector = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return rows


def main() -> None:
    """Write the file; run from the repository's root."""
    folder = find_model(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    rows = reference_vectors(list(GOLDEN_TEXTS), folder)
    entries = [
        {"text": text, "vector": base64.b64encode(row.astype("<f4").tobytes()).decode()}
        for text, row in zip(GOLDEN_TEXTS, np.asarray(rows), strict=True)
    ]
    TARGET.write_text(json.dumps(entries, ensure_ascii=True, indent=0) + "\n", "utf-8")
    print(f"{TARGET}: {len(entries)} texts, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
