"""Position of a record in its data file, for error messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from devmem.errors import DataFileError
from devmem.transfer.importing.times import parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Position of one record in its file."""

    path: Path
    line: int | None = None
    """1-based, in a file of lines."""
    entry: str = ""
    """In a document: `[3]`, or `[0].conversation.session_2[4]`."""

    def error(self, message: str) -> DataFileError:
        """Return the error that names the record's position."""
        return DataFileError(self.path, f"{self.entry}: {message}" if self.entry else message, line=self.line)

    def invalid(self, error: ValidationError) -> DataFileError:
        """Return the error for the first finding of a model, without the value itself."""
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        return self.error(f"{place}: {first['msg']}" if place else first["msg"])

    def time(self, key: str, raw: object) -> float:
        """Read a time; raises `DataFileError` when it is none."""
        try:
            return parse_time(raw)
        except (ValueError, OverflowError) as error:
            raise self.error(f"{key!r}: {error}") from error
