"""Opening a sharded store by its URL; the entry point `shards`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from os.path import realpath
from typing import Final, cast

from devmem.errors import CollectionError, Finding
from devmem.model.results import FileReport, damage, unfinished
from devmem.redaction import location_without_credentials
from devmem.storage.opening import (
    CollectionOptions,
    DatabaseOpener,
    StoreMetadata,
    drop_location,
    file_of,
    find_opener,
    inspect_location,
    shards_of,
)
from devmem.storage.protocol import Collection
from devmem.storage.shard import Tenant
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import recover
from devmem.storage.sharding.reading import filter_of
from devmem.storage.sharding.shard_map import ShardMap
from devmem.storage.sharding.shard_set import Shard, ShardSet, missing_shard
from devmem.text.display import number_of

_TRIES: Final = 3
_NAMED: Final = 5
"""Number of ids of misplaced items that are named for each tenant."""


class ShardsOpener:
    """Opens the store that a URL such as `shards://user?one=one.db&two=two.db` names."""

    keeps_states: bool = False

    def __call__(self, location: str, options: CollectionOptions, /) -> ShardedCollection:
        """Open the store; raises `CollectionError` where no shard can be reached, or they are of different stores."""
        config = shards_of(location)
        files = [realpath(file) for place in config.shards.values() if (file := file_of(place)) is not None]
        if twice := next((file for file in files if files.count(file) > 1), None):
            raise CollectionError(twice, "is named twice: two shards are the same database.")
        shards = ShardSet(
            config,
            partial(_open_shard, options=options),
            lambda place: inspect_location(place, options.name, busy_timeout=options.busy_timeout) is not None,
            patience=options.busy_timeout,
        )
        opened = ShardedCollection(shards, options.clock)
        try:
            recover(shards)
        except BaseException:
            opened.close()
            raise
        return opened

    def check(self, location: str, /) -> None:
        """Check the URL and that of each shard; raises `CollectionError` where one is wrong."""
        for place in shards_of(location).shards.values():
            opener = find_opener(place)
            if isinstance(opener, DatabaseOpener):
                opener.check(place)

    def inspect(self, location: str, name: str | None, /) -> StoreMetadata | None:
        """Return type and model of the store, as the first shard that can be reached has them; None where none is."""
        failed: CollectionError | None = None
        for place in shards_of(location).shards.values():
            try:
                if (found := inspect_location(place, name)) is not None:
                    return found
            except CollectionError as error:
                failed = error
        if failed is not None:
            raise failed
        return None

    def examine(self, location: str, name: str | None, /) -> FileReport:
        """Report missing shards, and items in another shard than their tenant's, where no search within it looks."""
        shown = location_without_credentials(location)
        with ExitStack() as stack:
            opened: dict[str, Shard] = {}
            absent: dict[str, str] = {}
            findings: list[Finding] = []
            for shard, place in shards_of(location).shards.items():
                try:
                    if inspect_location(place, name) is None:
                        absent[shard] = place
                        continue
                    found = stack.enter_context(closing(_open_shard(place, CollectionOptions(name=name))))
                    opened[shard] = cast("Shard", found)
                except CollectionError as error:
                    findings.append(unfinished(f"the tenants of the shard {shard!r} are not compared: {error}"))
            facts, others = _compared(opened, absent)
        return FileReport(path=shown, kind="shards", facts=facts, findings=[*findings, *others])

    def drop(self, location: str, name: str | None, /) -> bool:
        """Drop the store in every database; a shard that is a file is left to whoever removes files."""
        places = list(shards_of(location).shards.values())
        if files := [place for place in places if file_of(place) is not None]:
            raise CollectionError(files[0], "is a file: remove the shards' files, and those beside them.")
        dropped = [drop_location(place, name) for place in places]
        return any(dropped)


def _compared(opened: Mapping[str, Shard], absent: Mapping[str, str]) -> tuple[dict[str, int], list[Finding]]:
    """Return the numbers of shards and of items in the wrong one, and a finding for each tenant of such items.

    Args:
        opened: the shards that can be read.
        absent: the places without a store, by shard; those that the map knows are findings too.
    """
    missing: list[Finding] = []
    try:
        known, found = _newest_map(opened), list[tuple[int, str]]()
        members = () if known is None else known.members
        missing += [damage(str(missing_shard(place, name))) for name, place in absent.items() if name in members]
        for _ in range(_TRIES):
            found = [] if known is None else list(_misplaced(known, opened))
            # A tenant that moved meanwhile was read where it no longer lives.
            if (latest := _newest_map(opened)) is None or known is None or latest.version == known.version:
                break
            known = latest
    except CollectionError as error:
        # What is damaged there is in the report of the shard itself.
        return {"shards": len(opened)}, [*missing, unfinished(f"the tenants are not compared: {error}")]
    counted = sum(items for items, _ in found)
    return {"shards": len(opened), "misplaced": counted}, [*missing, *(damage(told) for _, told in found)]


def _newest_map(opened: Mapping[str, Shard]) -> ShardMap | None:
    raws = [(raw, f"the shard {name!r}") for name, shard in opened.items() if (raw := shard.shard_map()) is not None]
    return max((ShardMap.from_bytes(*raw) for raw in raws), key=lambda one: one.version, default=None)


def _misplaced(known: ShardMap, opened: Mapping[str, Shard]) -> Iterator[tuple[int, str]]:
    """Yield the number of items of each tenant that are in another shard than its own, and what to do about them."""
    for name, shard in opened.items():
        hidden = known.hidden(name)
        for tenant, items in shard.tenants(known.by).items():
            own = known.shard_of(tenant)
            if not items or own == name or (hidden is not None and hidden.value == tenant):
                continue
            first = shard.recent(_NAMED, filter_of(Tenant(known.by, tenant)))
            ids = ", ".join(item.id for item in first) + (", ..." if items > len(first) else "")
            whose = f"of {known.by} {tenant!r}" if tenant is not None else f"without a {known.by}"
            told = f"{number_of(items, 'item')} {whose} in the shard {name!r} instead of {own!r}, where searches look"
            yield items, f"{told}: {ids}; {_way_out(shard.info().location, known.by, tenant)}"


def _way_out(place: str, by: str, tenant: str | None) -> str:
    which = f"--where '!{by}'" if tenant is None else f"--{by} {shlex.quote(tenant)}"
    database = shlex.quote(place)
    return (
        f"`devmem export {database} {which} -o out.json`, `devmem forget {database} {which}` and then `devmem import` "
        "of out.json into the whole store move them"
    )


def _open_shard(place: str, options: CollectionOptions) -> Collection:
    return find_opener(place)(place, options)


open_shards: Final = ShardsOpener()
"""The opener of the scheme."""
