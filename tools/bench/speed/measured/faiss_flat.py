"""A bare FAISS flat index: the floor of exact search by vector, without rows, text or durability."""

from __future__ import annotations

import faiss

from tools.bench.speed.measured.measuring import TOP_K, answer, arguments, read_corpus, read_queries, timed


def main() -> None:
    """Build in memory and ask."""
    _, corpus, size, _ = arguments()
    faiss.omp_set_num_threads(1)
    _, vectors = read_corpus(corpus, size)
    asked = read_queries(corpus, size)["vectors"]
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    timing, _ = timed(lambda at: index.search(asked[at : at + 1], TOP_K), len(asked))
    answer(timing.figures("faiss_flat"))


if __name__ == "__main__":
    main()
