"""Locations of collections: paths, URLs of files, and URLs of databases."""

from __future__ import annotations

import re
from typing import Final

from devmem.errors import CollectionError

_FILE_URLS: Final = {"sqlite": "db", "json": "json"}
"""Schemes of files, with the ending of an example."""
_WITHOUT_SLASHES: Final = re.compile(r"(?P<scheme>sqlite|json|postgres|postgresql):(?!//)", re.IGNORECASE)
_CONNECTION_STRING: Final = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|password|service)\s*=")


def check_spelling(location: str) -> None:
    """Refuse what looks like the URL of a database and would become a file of a strange name.

    Raises:
        CollectionError: the scheme of a URL is there but not `//`, or it is a connection string of libpq.
    """
    if found := _WITHOUT_SLASHES.match(location):
        raise CollectionError(location, f"a URL begins with {found['scheme']}:// (two slashes after the colon).")
    if "://" not in location and _CONNECTION_STRING.search(location):
        raise CollectionError(
            "the location",
            "looks like a connection string of libpq; write it as a URL: postgresql://HOST:PORT/DATABASE.",
        )


def file_of(location: str) -> str | None:
    """Return the path of the file that a location names: a path, `sqlite:///x.db` or `json:///x.json`.

    Returns:
        The path; None where the location is a URL of something else than a file.

    Raises:
        CollectionError: the URL of a file has not three slashes, or a URL is misspelled so that it looks like a path.
    """
    check_spelling(location)
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
