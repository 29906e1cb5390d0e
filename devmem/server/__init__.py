"""A memory served to several users: tokens, the guard before every request, and the plain HTTP interface."""

from devmem.server.guard import LOOPBACK, Access, Door, Guard, Limits, checked_address, token_of
from devmem.server.tokens import Token, TokenFile

__all__ = ["LOOPBACK", "Access", "Door", "Guard", "Limits", "Token", "TokenFile", "checked_address", "token_of"]
