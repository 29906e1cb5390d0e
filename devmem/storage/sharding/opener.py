"""Opening a sharded store by its URL; the entry point `shards`."""

from __future__ import annotations

from functools import partial
from os.path import realpath
from typing import Final

from devmem.config.shards import ShardsConfig
from devmem.errors import CollectionError
from devmem.storage.opening import (
    CollectionOptions,
    DatabaseOpener,
    StoreMetadata,
    drop_location,
    file_of,
    find_opener,
    inspect_location,
)
from devmem.storage.protocol import Collection
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import recover
from devmem.storage.sharding.shard_set import ShardSet


class ShardsOpener:
    """Opens the store that a URL such as `shards://user?one=one.db&two=two.db` names."""

    keeps_states: bool = False

    def __call__(self, location: str, options: CollectionOptions, /) -> ShardedCollection:
        """Open the store; raises `CollectionError` where no shard can be reached, or they are of different stores."""
        config = _config(location)
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
        for place in _config(location).shards.values():
            opener = find_opener(place)
            if isinstance(opener, DatabaseOpener):
                opener.check(place)

    def inspect(self, location: str, name: str | None, /) -> StoreMetadata | None:
        """Return type and model of the store, as the first shard that can be reached has them; None where none is."""
        failed: CollectionError | None = None
        for place in _config(location).shards.values():
            try:
                if (found := inspect_location(place, name)) is not None:
                    return found
            except CollectionError as error:
                failed = error
        if failed is not None:
            raise failed
        return None

    def drop(self, location: str, name: str | None, /) -> bool:
        """Drop the store in every database; a shard that is a file is left to whoever removes files."""
        places = list(_config(location).shards.values())
        if files := [place for place in places if file_of(place) is not None]:
            raise CollectionError(files[0], "is a file: remove the shards' files, and those beside them.")
        dropped = [drop_location(place, name) for place in places]
        return any(dropped)


def _config(location: str) -> ShardsConfig:
    try:
        return ShardsConfig.parse(location)
    except ValueError as error:
        raise CollectionError("the shards", str(error)) from error


def _open_shard(place: str, options: CollectionOptions) -> Collection:
    return find_opener(place)(place, options)


open_shards: Final = ShardsOpener()
"""The opener of the scheme."""
