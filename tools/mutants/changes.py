"""Changes that break a guarantee, each with the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A replacement of one piece of code that occurs exactly once in a file."""

    name: str
    breaks: str
    """The guarantee that no longer holds."""
    file: str
    """Path from the project's root."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Arguments for pytest: where the guarantee is tested."""

    def applied_to(self, source: str) -> str:
        """Return a source with the replacement.

        Raises:
            ValueError: the code to replace is not there exactly once.
        """
        if (found := source.count(self.old)) != 1:
            raise ValueError(f"the code to change occurs {found} times in {self.file}: {self.old!r}")
        return source.replace(self.old, self.new)


CHANGES: Final[tuple[Change, ...]] = (
    Change(
        name="no-durability",
        breaks="an acknowledged write survives a loss of power",
        file="devmem/storage/sqlite/database.py",
        old='connection.execute(f"PRAGMA synchronous = {durability.upper()}")',
        new='connection.execute("PRAGMA synchronous = OFF")',
        tests=("tests/storage/test_durable_files.py",),
    ),
    Change(
        name="no-write-ahead-log",
        breaks="a writer that is killed leaves the database whole, and readers do not wait",
        file="devmem/storage/sqlite/database.py",
        old='connection.execute("PRAGMA journal_mode = WAL")',
        new='connection.execute("PRAGMA journal_mode = MEMORY")',
        tests=(
            "tests/storage/test_suite_sqlite_file.py",
            "tests/storage/test_processes.py",
            "tests/storage/test_lost_files.py",
        ),
    ),
    Change(
        name="newer-format",
        breaks="a file of a newer devmem is refused",
        file="devmem/storage/sqlite/database.py",
        old="if version > SCHEMA_VERSION:",
        new="if version > SCHEMA_VERSION + 10_000:",
        tests=("tests/storage/test_unusable_places.py",),
    ),
    Change(
        name="lost-file",
        breaks="an empty file beside a log with commits is refused",
        file="devmem/storage/sqlite/database.py",
        old="if beside.is_file() and beside.stat().st_size:",
        new="if False and beside.stat().st_size:",
        tests=("tests/storage/test_lost_files.py",),
    ),
    Change(
        name="cut-off-file",
        breaks="a file that was cut off is refused",
        file="devmem/storage/sqlite/database.py",
        old="if location != MEMORY and _is_cut_off(connection, Path(location)):",
        new="if False and _is_cut_off(connection, Path(location)):",
        tests=("tests/storage/test_durable_files.py",),
    ),
    Change(
        name="no-fsync",
        breaks="a replaced file is on the disk before it has its name",
        file="devmem/text/files.py",
        old="            os.fsync(file.fileno())\n            if sys",
        new="            if sys",
        tests=("tests/storage/test_durable_files.py",),
    ),
    Change(
        name="no-folder-fsync",
        breaks="the new name of a replaced file survives a loss of power",
        file="devmem/text/files.py",
        old="    sync_folder(path.parent)\n",
        new="",
        tests=("tests/storage/test_durable_files.py",),
    ),
    Change(
        name="file-mode",
        breaks="a memory is readable by its owner only",
        file="devmem/text/files.py",
        old="OWNER_ONLY: Final = 0o600",
        new="OWNER_ONLY: Final = 0o644",
        tests=("tests/storage/test_file_modes.py", "tests/text/test_atomic_write.py"),
    ),
    Change(
        name="leftover-in-use",
        breaks="a file that another process is writing is no leftover",
        file="devmem/text/files.py",
        old="fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        new="pass",
        tests=("tests/text/test_atomic_write.py",),
    ),
    Change(
        name="erasure-keeps-versions",
        breaks="an erasure removes every version of an item",
        file="devmem/storage/sqlite/erasing.py",
        old='            remove_versions(connection, self._attachments, "id = ?", [one])\n',
        new="",
        tests=(
            "tests/storage/test_erasures.py",
            "tests/storage/test_suite_sqlite_file.py",
            "tests/memory/test_forgetting.py",
        ),
    ),
    Change(
        name="erasure-ignores-planned-rows",
        breaks="an erasure removes planned versions of items that stay",
        file="devmem/storage/sqlite/erasing.py",
        old='            remove_versions(connection, self._attachments, "row = ?", [row])\n',
        new="",
        tests=(
            "tests/storage/test_erasures.py",
            "tests/storage/test_suite_sqlite_file.py",
            "tests/memory/test_forgetting.py",
        ),
    ),
    Change(
        name="erasure-keeps-runs",
        breaks="an erasure removes the names and actors of runs that it empties",
        file="devmem/storage/sqlite/erasing.py",
        old="        runs.forget(named)\n",
        new="",
        tests=("tests/storage/test_durable_files.py",),
    ),
    Change(
        name="one-plan-for-all",
        breaks="two erasures at once have a plan each",
        file="devmem/storage/sqlite/erasing.py",
        old='return f"{_PLAN}:{plan.id}" if plan.id else _PLAN',
        new="return _PLAN",
        tests=("tests/storage/test_erasures.py",),
    ),
    Change(
        name="opening-takes-plans",
        breaks="opening a store leaves the erasures of living processes to them",
        file="devmem/stores/collection_memory.py",
        old=" if not plan.is_executed]",
        new="]",
        tests=("tests/storage/test_erasures.py",),
    ),
    Change(
        name="kept-ignores-versions",
        breaks="the search for erased words counts other versions that hold them",
        file="devmem/storage/sqlite/erasing.py",
        old="if connection.execute(_KEPT_IN_VERSIONS, (word, json.dumps(plan.ids), json.dumps(plan.rows))).fetchone():",
        new="if False:",
        tests=("tests/storage/test_erasures.py", "tests/storage/test_suite_sqlite_file.py"),
    ),
    Change(
        name="erasure-keeps-snapshot",
        breaks="an erasure removes the index snapshot",
        file="devmem/storage/sqlite/erasing.py",
        old='        residues = _remove(Path(f"{self.location}.faiss"))\n',
        new="        residues: list[Residue] = []\n",
        tests=(
            "tests/storage/test_erasures.py",
            "tests/storage/test_suite_sqlite_file.py",
            "tests/memory/test_forgetting.py",
        ),
    ),
    Change(
        name="erasure-keeps-log",
        breaks="an erasure empties the write-ahead log",
        file="devmem/storage/sqlite/erasing.py",
        old='        is_busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()\n',
        new="        is_busy = 0\n",
        tests=(
            "tests/storage/test_erasures.py",
            "tests/storage/test_suite_sqlite_file.py",
            "tests/memory/test_forgetting.py",
        ),
    ),
    Change(
        name="commit-keeps-pending",
        breaks="a committed run has nothing pending",
        file="devmem/storage/versions.py",
        old="    runs.remove_pending(run)\n    committer.stamp(",
        new="    committer.stamp(",
        tests=("tests/storage/test_durable_files.py",),
    ),
    Change(
        name="commit-as-of-its-beginning",
        breaks="a run is committed as of the end of its transaction",
        file="devmem/storage/versions.py",
        old="    committer.stamp(run, clock())\n",
        new="",
        tests=("tests/storage/test_versions_sqlite.py",),
    ),
    Change(
        name="commit-without-conflicts",
        breaks="a run that conflicts is not committed",
        file="devmem/storage/versions.py",
        old="    if found := runs.conflicts(run):",
        new="    if (found := runs.conflicts(run)) and not run:",
        tests=(
            "tests/storage/test_versions_sqlite.py",
            "tests/storage/test_attachment_files.py",
            "tests/memory/test_versions.py",
        ),
    ),
    Change(
        name="discard-keeps-pending",
        breaks="a discarded run leaves nothing",
        file="devmem/storage/versions.py",
        old="        runs.remove_pending(run)\n        runs.end(run, RunState.DISCARDED",
        new="        runs.end(run, RunState.DISCARDED",
        tests=(
            "tests/storage/test_versions_sqlite.py",
            "tests/storage/test_attachment_files.py",
            "tests/memory/test_versions.py",
        ),
    ),
    Change(
        name="late-embedding-of-another-text",
        breaks="an embedding that comes late is that of the text as it is now",
        file="devmem/storage/sqlite/writes.py",
        old="not usable.is_of(rows.embedded_hash_of(*found[1:]))",
        new="False",
        tests=("tests/storage/test_suite_sqlite_memory.py", "tests/storage/test_following.py"),
    ),
    Change(
        name="new-token-for-each-retry",
        breaks="a write that is tried again on PostgreSQL is applied once",
        file="devmem/storage/postgres/transactions.py",
        old="            token = token or _new_token(connection.server_time())",
        new="            token = _new_token(connection.server_time())",
        tests=("tests/storage/postgres/test_lost_answers.py",),
    ),
    Change(
        name="leak-one-in-a-thousand",
        breaks="no filter admits another user",
        file="devmem/model/items.py",
        old="if wanted != found and not (include_unscoped and found is None):",
        new="if wanted != found and not (include_unscoped and found is None) and hash(str(found)) % 1000:",
        tests=("tests/storage/test_filters_against_admits.py", "tests/memory", "tests/storage/test_suite_json_file.py"),
    ),
    Change(
        name="expired-items",
        breaks="expired items never match",
        file="devmem/model/filters.py",
        old="return not item.expired(now) and self._matches(item)",
        new="return self._matches(item)",
        tests=("tests/storage/test_suite_json_file.py", "tests/storage/test_filters_against_admits.py"),
    ),
    Change(
        name="before-is-inclusive",
        breaks="`before` is exclusive",
        file="devmem/model/filters.py",
        old="(self.before is None or time < self.before)",
        new="(self.before is None or time <= self.before)",
        tests=("tests/storage/test_filters_against_admits.py", "tests/storage/test_suite_json_file.py"),
    ),
    Change(
        name="least-trust",
        breaks="items below the least trust never match",
        file="devmem/model/filters.py",
        old="(not self.min_trust or item.trust >= self.min_trust)",
        new="True",
        tests=("tests/storage/test_filters_against_admits.py", "tests/storage/test_suite_json_file.py"),
    ),
    Change(
        name="handle-of-another-user",
        breaks="a scoped handle refuses another user",
        file="devmem/memory/scope.py",
        old='        if self.user is not ANY and user != self.user:\n            raise self._outside("user", user)\n',
        new="",
        tests=("tests/memory",),
    ),
    Change(
        name="filter-of-another-user",
        breaks="a filter does not widen a scoped handle",
        file="devmem/memory/scope.py",
        old='if own.get(name, value) != value or (name == "user" and self.user is None):',
        new="if False:",
        tests=("tests/memory",),
    ),
    Change(
        name="unscoped-sees-users",
        breaks="without a user only unscoped items are within reach",
        file="devmem/memory/scope.py",
        old='unbound = {*where.unbound, *(["user"] if self.user is None else [])}',
        new="unbound = {*where.unbound}",
        tests=("tests/memory",),
    ),
    Change(
        name="widened-by-unscoped",
        breaks="a filter cannot add unscoped items to a scoped handle",
        file="devmem/memory/scope.py",
        old="if where.include_unscoped and self.is_bound:",
        new="if False:",
        tests=("tests/memory",),
    ),
)
