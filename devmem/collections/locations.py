"""Locations of collections: paths, URLs of files, and URLs of databases."""

from __future__ import annotations

from typing import Final

from devmem.errors import CollectionError

_FILE_URLS: Final = {"sqlite": "db", "json": "json"}
"""Schemes of files, with the ending of an example."""


def file_of(location: str) -> str | None:
    """Return the path of the file that a location names: a path, `sqlite:///x.db` or `json:///x.json`.

    Returns:
        The path; None where the location is a URL of something else than a file.

    Raises:
        CollectionError: the URL of a file has not three slashes.
    """
    scheme, separator, path = location.partition("://")
    if not separator:
        return location
    example = _FILE_URLS.get(scheme.lower())
    if example is None:
        return None
    if not path.startswith("/"):
        raise CollectionError(
            location, f"a file's URL has three slashes and its path, as in {scheme}:///memory/store.{example}."
        )
    return path.removeprefix("/")


def path_of(location: str) -> str:
    """Return the path of a location that has to be a file; raises `CollectionError` for any other."""
    path = file_of(location)
    if path is None:
        raise CollectionError(location, "is no file.")
    return path
