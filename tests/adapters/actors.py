"""Who the history says has written what is in a memory."""

from __future__ import annotations

import devmem


def actors(memory: devmem.Memory) -> set[str | None]:
    """Return the actors of the first versions of everybody's records."""
    everybody = memory.scoped(user=devmem.ANY)
    return {everybody.history(record.id)[0].actor for record in everybody}
