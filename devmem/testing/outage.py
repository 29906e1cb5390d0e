"""Outages, for doubles of services."""

from __future__ import annotations


class Outage:
    """Mixed into a double: its service is down until `recover` is called."""

    _down = True
    refused = 0
    """Number of requests while the service was down."""

    def recover(self) -> None:
        """Let the service answer from now on."""
        self._down = False

    def fail(self) -> None:
        """Let the service be down from now on."""
        self._down = True

    def _refuses(self) -> bool:
        """Whether the service is down; a request that it refuses is counted."""
        self.refused += self._down
        return self._down
