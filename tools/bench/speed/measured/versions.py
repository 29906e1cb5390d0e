"""Updates and searches with half of all versions old, beside a collection without old versions, in one process."""

from __future__ import annotations

from tools.bench.half_old import compare
from tools.bench.speed.measured.measuring import answer, arguments, read_corpus

if __name__ == "__main__":
    _, corpus, size, folder = arguments()
    answer(compare(*read_corpus(corpus, size), folder))
