"""A memory served to several users: tokens, the guard before every request, and the plain HTTP interface."""

from devmem.server.guard import (
    LOOPBACK,
    MAX_WORKERS,
    Allowances,
    Door,
    Guard,
    Limits,
    TokenAccess,
    checked_address,
    token_of,
)
from devmem.server.tokens import Token, TokenFile

__all__ = [
    "LOOPBACK",
    "MAX_WORKERS",
    "Allowances",
    "Door",
    "Guard",
    "Limits",
    "Token",
    "TokenAccess",
    "TokenFile",
    "checked_address",
    "token_of",
]
