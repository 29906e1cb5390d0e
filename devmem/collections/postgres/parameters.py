"""Parameters of statements in PostgreSQL's binary form."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

from devmem.indexes.row_column import Rows

_INT8, _INT8_ARRAY = 20, 1016
_ELEMENT: Final = np.dtype([("length", ">i4"), ("number", ">i8")])


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """Row or passage numbers as a parameter of the type `bigint[]`; as a list they take psycopg ten times as long."""

    numbers: Rows | Sequence[int]


class _RowNumbersDumper(Dumper):
    format = Format.BINARY
    oid = _INT8_ARRAY

    def dump(self, obj: RowNumbers) -> Buffer | None:
        elements = np.empty(len(obj.numbers), dtype=_ELEMENT)
        elements["length"], elements["number"] = 8, obj.numbers
        # Number of dimensions, whether there are nulls, type; length and lower bound of the only dimension.
        return struct.pack(">iiiii", 1, 0, _INT8, len(elements), 1) + elements.tobytes()


def register_parameters(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Have a connection take the parameters of this module."""
    connection.adapters.register_dumper(RowNumbers, _RowNumbersDumper)
