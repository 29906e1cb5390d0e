"""SQLite's FTS5 asked for any of a question's words: full text as it comes with SQLite."""

from __future__ import annotations

import sqlite3

from tools.bench.speed.measured.measuring import TOP_K, answer, arguments, read_corpus, read_queries, timed


def main() -> None:
    """Build in a file and ask."""
    _, corpus, size, folder = arguments()
    texts, _ = read_corpus(corpus, size)
    asked = [" OR ".join(f'"{word}"' for word in str(text).split()) for text in read_queries(corpus, size)["texts"]]
    connection = sqlite3.connect(folder / "fts5.db")
    connection.execute("CREATE VIRTUAL TABLE items USING fts5(content)")
    with connection:
        connection.executemany("INSERT INTO items (content) VALUES (?)", ((text,) for text in texts))
    query = "SELECT rowid FROM items WHERE items MATCH ? ORDER BY rank LIMIT ?"
    timing, _ = timed(lambda at: connection.execute(query, (asked[at], TOP_K)).fetchall(), len(asked))
    connection.close()
    answer(timing.figures("fts5_or"))


if __name__ == "__main__":
    main()
