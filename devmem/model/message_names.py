"""Names in a message: the role, the cause and the addressees."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Final

from devmem.errors import MessageError

ROUTE_ALL: Final = "<all>"
"""In `send_to`: everybody."""
ROUTE_NONE: Final = "<none>"
"""In `send_to`: nobody."""
ROUTE_SELF: Final = "<self>"
"""In `send_to`: the sender."""
USER_REQUIREMENT: Final = "metagpt.actions.add_requirement.UserRequirement"
"""MetaGPT's name for a user's requirement: the cause of a user's message that names no other."""


class Role(StrEnum):
    """Role of a speaker, as chat models name it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def role_of(role: str) -> Role:
    """Return the role of a name.

    Raises:
        MessageError: there is no such role.
    """
    try:
        return Role(role)
    except ValueError:
        raise MessageError(
            f"{role!r} is not a role; roles are {', '.join(Role)}. A speaker's own name is the `source`."
        ) from None


def action_name(action: object) -> str:
    """Return the name of an action, an agent or a tool.

    A string is its own name; a class or function is named as `module.Qualified.name`, anything else by its class; None
    is the empty name.

    Raises:
        MessageError: two different things would get the same name: a lambda, or a plain value such as a number.
    """
    if action is None:
        return ""
    if isinstance(action, str):
        # For a member of a string enumeration this is its value.
        return str.__str__(action)
    while isinstance(action, partial):
        action = action.func
    named = action if isinstance(action, type) or inspect.isroutine(action) else type(action)
    module, name = getattr(named, "__module__", None), named.__qualname__
    if "<lambda>" in name or (module == "builtins" and named is not action):
        raise MessageError(f"{action!r} names no action: give a string, a class, a function or an instance of a class")
    return f"{module}.{name}" if module else name


def action_names(actions: object) -> list[str]:
    """Return the names of one action or of several; a string or a class is one, also where several are expected.

    Raises:
        MessageError: as `action_name`.
    """
    several = isinstance(actions, Iterable) and not isinstance(actions, str | type)
    return [action_name(each) for each in (actions if several else [actions])]  # type: ignore[attr-defined]


def addresses(send_to: object) -> frozenset[str]:
    """Return the names of one addressee or several; no name means everybody.

    Raises:
        MessageError: as `action_name`.
    """
    return frozenset(action_names(send_to)) - {""} or frozenset({ROUTE_ALL})
