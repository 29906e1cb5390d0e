"""Configuration of the `simple` store type."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from devmem.stores import CollectionConfig, FactKeepingConfig, KeysConfig, RetentionConfig


class SimpleConfig(FactKeepingConfig, KeysConfig, RetentionConfig, CollectionConfig):
    """Configuration of a `simple` store."""

    max_content_length: int = Field(default=500, ge=50)
    """Maximum length in characters of the summary that agents are shown; all of the text is kept, and found by words
    and meaning."""
    min_content_length: int = Field(default=0, ge=0)
    """Least number of characters, of the input and the output together; a shorter exchange is skipped, and the outcome
    says so."""
    ranking: Literal["hybrid", "devall"] = Field(default="hybrid", json_schema_extra={"advanced": True})
    """`hybrid` joins meaning and words; `devall` scores as DevAll does: 0.7 cosine + 0.3 text overlap."""

    @model_validator(mode="after")
    def _refuse_two_orders(self) -> Self:
        if self.ranking == "devall" and self.retrieval.reranker.reads_hits:
            raise ValueError(
                "`ranking: devall` is DevAll's own order, which no reranker changes: leave it out, or the reranker "
                f"{self.retrieval.reranker.type!r}"
            )
        return self
