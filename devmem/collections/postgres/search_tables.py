"""The tables that a search reads where processes do not keep the indexes in memory; see `server/segments.py`."""

from __future__ import annotations

from typing import Final

SEARCH_TABLES: Final = ("search_states", "segments", "postings")
"""Partitioned by store, as all tables with what a store holds."""
CODE_TABLES: Final = ("vector_codes",)
"""The same, of version 4."""

CREATE_SEARCH_TABLES: Final = """
CREATE TABLE search_states(
    store integer NOT NULL,
    merged pg_snapshot NOT NULL DEFAULT '1:1:',
    PRIMARY KEY (store)
) PARTITION BY LIST (store);
CREATE TABLE segments(
    store integer NOT NULL,
    segment bigint NOT NULL,
    passages bytea NOT NULL,
    lengths bytea NOT NULL,
    texts integer NOT NULL,
    total_length bigint NOT NULL,
    PRIMARY KEY (store, segment)
) PARTITION BY LIST (store);
CREATE TABLE postings(
    store integer NOT NULL,
    segment bigint NOT NULL,
    term bigint NOT NULL,
    docs bytea NOT NULL,
    codes bytea NOT NULL,
    PRIMARY KEY (store, segment, term)
) PARTITION BY LIST (store);
ALTER TABLE segments ALTER passages SET STORAGE EXTERNAL, ALTER lengths SET STORAGE EXTERNAL;
ALTER TABLE postings ALTER docs SET STORAGE EXTERNAL, ALTER codes SET STORAGE EXTERNAL;
CREATE INDEX items_by_turn ON items(store, conversation, row) WHERE conversation IS NOT NULL;
CREATE INDEX items_by_turn_of_session ON items(store, session, row) WHERE session IS NOT NULL;
DROP INDEX items_by_conversation;
DROP INDEX items_by_session;
CREATE INDEX items_standing ON items(store, row) WHERE cues & 12 <> 0
"""
"""Statements that bring tables of version 1 to version 2."""

CREATE_CODE_TABLES: Final = """
CREATE TABLE vector_codes(
    store integer NOT NULL,
    block bigint NOT NULL,
    passages bytea NOT NULL,
    codes bytea NOT NULL,
    PRIMARY KEY (store, block)
) PARTITION BY LIST (store);
ALTER TABLE vector_codes ALTER passages SET STORAGE EXTERNAL, ALTER codes SET STORAGE EXTERNAL;
CREATE INDEX items_of_user ON items(store, "user", agent, conversation) INCLUDE (row, expires_at);
CREATE INDEX items_by_source ON items(store, "user", agent, source_name);
DROP INDEX items_by_scope
"""
"""Statements that bring tables of version 3 to version 4."""

MARK_SEGMENTS: Final = """
ALTER TABLE segments ADD COLUMN coded boolean NOT NULL DEFAULT true;
ALTER TABLE segments ALTER COLUMN coded DROP DEFAULT
"""
"""Statements that bring tables of version 4 to version 5.

A process of version 3 that goes on cannot make segments without a value, and these would have no codes of vectors.
"""

COUNT_ERASURES: Final = """
ALTER TABLE search_states ADD COLUMN erased bigint NOT NULL DEFAULT 0, ADD COLUMN cleaned bigint NOT NULL DEFAULT 0
"""
"""Statement that brings tables of version 5 to version 6."""

INLINE_TOKENS: Final = "ALTER TABLE tokens ALTER codes SET STORAGE MAIN"
"""Statement that brings tables of version 6 to version 7.

Codes of more than 2 KB, some forty tokens, would be kept apart from their row, where reading them takes twice as long.
"""
