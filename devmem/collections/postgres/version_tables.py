"""The tables of versions, runs and erasures.

`items` holds the current version of each item. `versions` holds those that ended, and those of pending runs, which have
no `recorded_until`. Passages, vectors and token codes of versions have tables of their own, so that nothing which reads
current items reads them. Recorded times are microseconds since the epoch; those of one item differ.
"""

from __future__ import annotations

from typing import Final

VERSION_TABLES: Final = ("versions", "version_passages", "version_vectors", "version_tokens", "runs", "erasures")
"""Partitioned by store, as all tables with what a store holds."""

CREATE_VERSION_TABLES: Final = """
ALTER TABLE items ADD COLUMN operation text, ADD COLUMN change_run text COLLATE "C", ADD COLUMN recorded_from bigint,
    ADD COLUMN change_actor text COLLATE "C";
CREATE INDEX items_by_change_run ON items(store, change_run) WHERE change_run IS NOT NULL;
CREATE TABLE versions(
    LIKE items INCLUDING DEFAULTS,
    recorded_until bigint,
    end_operation text,
    end_run text COLLATE "C",
    end_actor text COLLATE "C",
    base bigint,
    PRIMARY KEY (store, row)
) PARTITION BY LIST (store);
CREATE INDEX versions_by_id ON versions(store, id_key);
CREATE INDEX versions_by_end ON versions(store, recorded_until);
CREATE INDEX versions_by_change_run ON versions(store, change_run) WHERE change_run IS NOT NULL;
CREATE INDEX versions_by_end_run ON versions(store, end_run) WHERE end_run IS NOT NULL;
CREATE UNIQUE INDEX versions_pending ON versions(store, change_run, id_key) WHERE recorded_until IS NULL;
CREATE INDEX versions_expiring ON versions(store, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE version_passages(LIKE passages, PRIMARY KEY (store, passage)) PARTITION BY LIST (store);
CREATE TABLE version_vectors(LIKE vectors, PRIMARY KEY (store, passage)) PARTITION BY LIST (store);
CREATE TABLE version_tokens(LIKE tokens, PRIMARY KEY (store, passage)) PARTITION BY LIST (store);
CREATE TABLE runs(
    store integer NOT NULL,
    run text COLLATE "C" NOT NULL,
    state text NOT NULL,
    actor text COLLATE "C",
    started_at bigint NOT NULL,
    committed_at bigint,
    ended_at bigint,
    PRIMARY KEY (store, run)
) PARTITION BY LIST (store);
CREATE TABLE erasures(
    store integer NOT NULL,
    id text COLLATE "C",
    row bigint
) PARTITION BY LIST (store);
CREATE INDEX erasures_by_store ON erasures(store)
"""
"""Statements that bring tables of version 2 to version 3."""
