"""Names of sizes, and figures as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tools.bench.rows import Row

_FACTORS: Final = {"k": 1_000, "m": 1_000_000}


def parse_size(text: str) -> int:
    """Parse `500`, `10k` or `1M`; raises `ValueError` for anything else, and for less than 10."""
    word = text.strip().lower()
    factor = _FACTORS.get(word[-1:], 1)
    digits = word[:-1] if factor > 1 else word
    if not digits.isdecimal() or int(digits) * factor < 10:
        raise ValueError(f"{text!r} is no size; write 500, 10k or 1M, at least 10")
    return int(digits) * factor


def label(size: int) -> str:
    """Return the case of a row for a size: `10k` for 10000, `1M` for 1000000."""
    if size % 1_000_000 == 0:
        return f"{size // 1_000_000}M"
    return f"{size // 1_000}k" if size % 1_000 == 0 else str(size)


def rows_of(case: str, size: int, figures: Mapping[str, float]) -> Iterator[Row]:
    """Yield a row for each figure; those in bytes are divided by the number of items."""
    for metric, value in figures.items():
        if metric in ("ram_bytes", "disk_bytes"):
            yield Row(bench="speed", case=case, metric=f"{metric}_per_item", value=value / size, unit="bytes")
        else:
            yield Row(bench="speed", case=case, metric=metric, value=value, unit=_unit(metric))


def _unit(metric: str) -> str:
    if metric.endswith("_per_s") or metric.startswith("qps_"):
        return "1/s"
    if "_to_" in metric:
        return "ratio"
    return "share" if metric.startswith("recall@") else "ms"
