"""A memory served to several users: tokens, the guard before every request, and the plain HTTP interface."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.server.guard import LOOPBACK as LOOPBACK
    from devmem.server.guard import MAX_WORKERS as MAX_WORKERS
    from devmem.server.guard import Allowances as Allowances
    from devmem.server.guard import Door as Door
    from devmem.server.guard import Guard as Guard
    from devmem.server.guard import Limits as Limits
    from devmem.server.guard import TokenAccess as TokenAccess
    from devmem.server.guard import checked_address as checked_address
    from devmem.server.guard import token_of as token_of
    from devmem.server.tokens import Token as Token
    from devmem.server.tokens import TokenFile as TokenFile
else:
    # The forms of requests and answers, which commands use, need no server.
    _ORIGINS = {
        "devmem.server.guard": "LOOPBACK MAX_WORKERS Allowances Door Guard Limits TokenAccess checked_address token_of",
        "devmem.server.tokens": "Token TokenFile",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
