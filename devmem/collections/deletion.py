"""The rule of deletions: they say what to delete."""

from __future__ import annotations

from collections.abc import Sequence

from devmem.errors import FilterError
from devmem.search.filters import Filter


def check_deletion(ids: Sequence[str] | None, where: Filter | None) -> None:
    """Refuse a deletion of everything that does not say so.

    Raises:
        FilterError: there are no ids, and no filter that restricts anything.
    """
    if ids is None and (where is None or where.everything()):
        raise FilterError("", "a deletion needs ids or a filter that restricts; `clear` deletes everything")
