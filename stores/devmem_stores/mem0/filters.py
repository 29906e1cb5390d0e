"""Whose memories are meant: from ids, scope and role to what mem0 is asked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, TypeAlias

from pydantic import JsonValue

from devmem import Filter, MemoryItem, Scope
from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.errors import Mem0ScopeError

Filters: TypeAlias = dict[str, JsonValue]

_LONGEST_ID: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Who memories belong to, in mem0's words; None is not restricted."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def given(self) -> dict[str, str]:
        """Return the ids that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def alternatives(self) -> list[dict[str, str]]:
        """Return what matches: user and agent are searched side by side, each within the run."""
        run = {"run_id": self.run_id} if self.run_id is not None else {}
        owners = [(name, value) for name, value in self.given().items() if name != "run_id"]
        return [{name: value, **run} for name, value in owners] or ([run] if run else [])


def find_ids(config: Mem0Config, scope: Scope, role: str, *, operation: str) -> Ids:
    """Return the ids whose memories are meant: those of the configuration, else of the scope, else of the role.

    Raises:
        Mem0ScopeError: there is no id at all; mem0 would take that for everybody.
    """
    ids = Ids(
        user_id=config.user_id or scope.user,
        agent_id=config.agent_id or scope.agent,
        run_id=config.run_id,
    )
    if config.user_id is None and config.agent_id is None and config.run_id is None and role.strip():
        # The role joins ids from the scope too, because a search without a scope has nothing but the role to go by.
        ids = Ids(user_id=ids.user_id, agent_id=ids.agent_id or role_id(role))
    if not ids.given():
        raise Mem0ScopeError(operation, "neither an id nor a role says whose memories are meant")
    return ids


def role_id(role: str) -> str:
    """Name an agent by its role: a short name is taken as it is, a whole prompt is known by its hash."""
    name = role.strip()
    if len(name) <= _LONGEST_ID and not any(char.isspace() for char in name):
        return name
    return f"role-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def platform_filters(ids: Ids, metadata: Mapping[str, str] | None = None) -> Filters:
    """Write the filter as the platform takes it: one id, `OR` of user and agent, `AND` with anything more."""
    conditions: list[JsonValue] = [{name: value} for name, value in ids.given().items() if name != "run_id"]
    if len(conditions) > 1:
        conditions = [{"OR": conditions}]
    if ids.run_id is not None:
        conditions.insert(0, {"run_id": ids.run_id})
    for key, value in (metadata or {}).items():
        conditions.append({"metadata": {key: value}})
    only = conditions[0] if len(conditions) == 1 else None
    return only if isinstance(only, dict) else {"AND": conditions}


def own_filter(where: Filter, config: Mem0Config) -> Filter:
    """Return the filter without the unbound parts that the configuration binds: all of the store is that user's."""
    bound = {"user": config.user_id, "agent": config.agent_id, "run": config.run_id}
    return replace(where, unbound=tuple(part for part in where.unbound if bound.get(part) is None))


def restricts_more(where: Filter, ids: Ids) -> bool:
    """Whether a filter asks for more than what mem0 finds by the ids."""
    if where.everything():
        return False
    by_user = Filter(scope=Scope(user=ids.user_id), or_unbound=where.or_unbound)
    return where != by_user or ids.agent_id is not None or ids.run_id is not None


def matches(item: MemoryItem, where: Filter) -> bool:
    """Whether an item passes a filter."""
    # mem0 itself leaves out what has expired.
    return where.admits(item, now=-math.inf)
