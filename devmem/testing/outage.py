"""Being down, for doubles of services."""

from __future__ import annotations


class Outage:
    """Mixed into a double: its service is down until `recover` is called."""

    _down = True
    refused = 0
    """How often it was asked while the service was down."""

    def recover(self) -> None:
        """Let the service answer from now on."""
        self._down = False

    def fail(self) -> None:
        """Let the service be down from now on."""
        self._down = True

    def _refuses(self) -> bool:
        """Say whether the service is down, and count a question that it does not answer."""
        self.refused += self._down
        return self._down
