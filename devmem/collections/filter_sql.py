"""Filters as SQL conditions on the table `items`, for any dialect; `Filter.admits` is what they have to agree with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias

from devmem.search.conditions import Condition, Operator, Scalar
from devmem.search.filters import SCOPE_PARTS, Filter

Sql: TypeAlias = tuple[str, list[object]]
"""A condition and its parameters."""

SQL_OPERATORS: Final = {Operator.ABOVE: ">", Operator.AT_LEAST: ">=", Operator.BELOW: "<", Operator.AT_MOST: "<="}


class FilterDialect(ABC):
    """The parts of a condition that differ between databases: marks, names, texts, and how values are compared."""

    mark: ClassVar[str]
    """A parameter's place in a statement."""
    true: ClassVar[str]
    """A condition that always holds."""
    event_time: ClassVar[str]
    """Expression of the time of the event, or of storing where there is none."""

    @abstractmethod
    def column(self, name: str) -> str:
        """Return the name of a column as statements write it."""

    @abstractmethod
    def text(self, value: str) -> str | None:
        """Return a text as its column holds it."""

    @abstractmethod
    def column_condition(self, column: str, wanted: Condition) -> Sql:
        """Return the condition on a text column; a value that is not a condition is compared without this."""

    @abstractmethod
    def metadata_condition(self, key: str, wanted: Condition) -> Sql:
        """Return the condition on a key of the metadata at their top level."""

    def where(self, where: Filter, now: float) -> Sql:
        """Return the condition of a filter; expired items never match. `now` is in seconds since the epoch."""
        alive = f"(expires_at IS NULL OR expires_at > {self.mark})"
        return joined(" AND ", [(alive, [now]), *self._conditions(where)])

    def metadata(self, metadata: Mapping[str, Scalar | Condition]) -> Sql:
        """Return the condition that an item's metadata match at their top level."""
        return joined(" AND ", list(self._metadata_conditions(metadata)))

    def _conditions(self, where: Filter) -> Iterator[Sql]:
        yield from self._scope_conditions(where)
        for column, wanted in (("source_kind", where.source_kind), ("source_name", where.source_name)):
            if wanted is not None:
                yield self._column(column, wanted)
        for operator, bound in ((">=", where.after), ("<", where.before)):
            if bound is not None:
                yield f"{self.event_time} {operator} {self.mark}", [bound]
        if where.min_trust:
            yield f"trust >= {self.mark}", [where.min_trust]
        yield from self._metadata_conditions(where.metadata)
        if where.any_of:
            parts = [joined(" AND ", [(self.true, []), *self._conditions(part)]) for part in where.any_of]
            condition, values = joined(" OR ", [(f"({part})", found) for part, found in parts])
            yield f"({condition})", values

    def _scope_conditions(self, where: Filter) -> Iterator[Sql]:
        for part in SCOPE_PARTS:
            column = self.column(part)
            if (value := getattr(where.scope, part)) is not None:
                unbound = f" OR {column} IS NULL" if where.or_unbound else ""
                yield f"({column} = {self.mark}{unbound})", [self.text(value)]
            if part in where.unbound:
                yield f"{column} IS NULL", []
            if part in where.scope_in:
                yield self._column(column, where.scope_in[part])

    def _column(self, column: str, wanted: str | Condition) -> Sql:
        if isinstance(wanted, Condition):
            return self.column_condition(column, wanted)
        return f"{column} = {self.mark}", [self.text(wanted)]

    def _metadata_conditions(self, metadata: Mapping[str, Scalar | Condition]) -> Iterator[Sql]:
        for key, wanted in metadata.items():
            condition = wanted if isinstance(wanted, Condition) else Condition(Operator.ONE_OF, (wanted,))
            yield self.metadata_condition(key, condition)


def joined(operator: str, parts: Sequence[Sql]) -> Sql:
    """Return one condition of several, with the parameters of all."""
    return operator.join(part for part, _ in parts), [value for _, values in parts for value in values]
