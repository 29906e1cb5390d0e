"""Whose items a search by a node may see."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from devmem.collections import Filter
from devmem.model.items import AnyUser

User: TypeAlias = str | AnyUser | None
"""A user's id; None is nobody, `devmem.ANY` everybody."""


def visible_to(user: User, where: Filter | None = None) -> Filter:
    """Return the filter of what a user may see: the user's items and those bound to nobody.

    Without a user only what is bound to nobody is visible, unless `where` names the user itself.

    Raises:
        ValueError: the user is empty text, as an unset variable gives.
    """
    where = where or Filter()
    if isinstance(user, str):
        if not user.strip():
            raise ValueError("`user` is empty; leave it out where there is none")
        return replace(where, scope=replace(where.scope, user=user), or_unbound=True)
    if user is None and where.scope.user is None:
        return replace(where, unbound=tuple({*where.unbound, "user"}))
    return where
