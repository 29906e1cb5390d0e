"""Prices of models, from a YAML file."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from devmem.config.base import ConfigModel
from devmem.config.compose import compose
from devmem.config.document import Report, read_text
from devmem.config.placeholders import Environment, Placeholders
from devmem.config.validate import Validator

_MILLION = 1_000_000


class ModelPrice(ConfigModel):
    """Price of a model, in the file's currency for a million tokens."""

    input: float = Field(ge=0)
    """Price of the tokens that the model reads."""
    output: float = Field(default=0.0, ge=0)
    """Price of the tokens that it writes; an embedding model writes none."""

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """Return the price of some calls."""
        return (tokens_in * self.input + tokens_out * self.output) / _MILLION


class Prices(ConfigModel):
    """Prices by which a plan counts."""

    currency: str = Field(default="USD", min_length=1)
    """Name of the currency, for people."""
    models: dict[str, ModelPrice] = Field(default_factory=dict)
    """Prices by the model's name as the workflow has it."""


def load_prices(path: str | os.PathLike[str]) -> Prices:
    """Read a file of prices.

    Raises:
        ConfigError: it cannot be read or used; carries every problem, each with its line and path.
    """
    report = Report(compose(read_text(Path(path), str(path)), origin=str(path)))
    placeholders = Placeholders({}, Environment(), report.spoil)
    found = Validator(report, placeholders).validate(Prices, report.document.data, ())
    report.raise_errors()
    return found or Prices()
