"""Work on the indexes of a store that nobody waits for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from devmem.errors import CollectionClosedError, CollectionError

_LOG: Final = logging.getLogger(__name__)


def run_logged(work: Callable[[], object], location: str, is_closed: Callable[[], bool]) -> None:
    """Run work in a thread of its own; what goes wrong is logged, unless the store was closed meanwhile."""
    try:
        work()
    except CollectionClosedError:
        return
    except CollectionError as error:
        if not is_closed():
            _LOG.warning("The indexes of %s were not brought up to date: %s", location, error)
    except Exception:  # noqa: BLE001 - nobody asks for the result
        _LOG.exception("The indexes of %s were not brought up to date.", location)
