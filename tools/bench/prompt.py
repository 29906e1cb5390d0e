"""Measure what reaches the prompt: recall for statements and times, silence off topic, and facts that changed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import typer
import yaml

import devmem
from devmem import DevmemError
from devmem.text.analysis import estimate_tokens
from tools.bench.retrieval.asking import FETCHED, Answer, ask_all
from tools.bench.retrieval.cases import StoreCase
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.dataset import Dataset
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.metrics import OF_TIME
from tools.bench.retrieval.variants import DEFAULT
from tools.bench.rows import JsonFile, Row, report

_TALK: Final = Path(__file__).with_suffix(".yaml")
_ENTRY: Final = re.compile(r"^\d+\. ", re.MULTILINE)


def command(
    datasets: Annotated[
        list[Path] | None,
        typer.Argument(help="Data sets whose queries are statements, or questions for a time (types `time:...`)."),
    ] = None,
    talk: Annotated[
        Path, typer.Option(help="YAML with `turns` (user, assistant), `probes` and `off_topic` messages.")
    ] = _TALK,
    json_file: JsonFile = None,
) -> None:
    """Measure what a message brings into the prompt: evidence, lines and tokens."""
    try:
        read = read_datasets(datasets or [])
    except (DevmemError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    report([row for dataset in read for row in _recalled(dataset)] + list(_shown(talk)), json_file)


def _recalled(dataset: Dataset) -> Iterator[Row]:
    """Return recall of the evidence among ten hits, and where a time is asked for, the share of them that are of it."""
    memo = EmbeddingMemo()
    answers: list[Answer] = []
    for haystack in dataset.haystacks:
        with StoreCase(DEFAULT).opened(haystack.items, memo, lambda _: None) as searcher:
            answers += ask_all(searcher, haystack, memo)
    of_time = [one.period for one in answers if one.period is not None]
    case = "periods" if of_time else "statements"
    alike = [one.turn for one in answers if not one.question.type.startswith(OF_TIME)]
    found = {name: [turn[name] for turn in alike] for name in (f"recall@{FETCHED}", f"any@{FETCHED}")}
    found |= {name: [one[name] for one in of_time] for name in (of_time[0] if of_time else ())}
    yield from (
        Row(bench="prompt", dataset=dataset.name, case=case, metric=name, value=fmean(values), unit="share")
        for name, values in found.items()
        if values
    )


def _shown(talk: Path) -> Iterator[Row]:
    """Return what `context()` shows of a talk for messages off topic, and for questions about facts that changed."""
    said: dict[str, Any] = yaml.safe_load(talk.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder, devmem.open(Path(folder) / "talk.db") as memory:
        for user, assistant in said["turns"]:
            exchange = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
            memory.add(exchange, conversation="talk")
        off_topic = [memory.context(message) for message in said["off_topic"]]
        blocks = [memory.context(probe["question"]) for probe in said["probes"]]
    kept = [_keeps(block, **probe) for block, probe in zip(blocks, said["probes"], strict=True)]
    yield Row(bench="prompt", case="changed", metric="evidence_kept", value=fmean(kept), unit="share")
    for case, shown in (("off_topic", off_topic), ("changed", blocks)):
        lines, tokens = [len(_ENTRY.findall(one)) for one in shown], [estimate_tokens(one) for one in shown]
        yield Row(bench="prompt", case=case, metric="lines_shown", value=fmean(lines), unit="lines")
        yield Row(bench="prompt", case=case, metric="tokens", value=fmean(tokens), unit="tokens")


def _keeps(block: str, question: str, needed: Sequence[str], stale: Sequence[str] = ()) -> bool:  # noqa: ARG001
    """Whether a block has what answers a question, after what was said before and no longer holds."""
    last = max(block.rfind(text) for text in needed)
    return last >= 0 and all(block.rfind(text) < last for text in stale)
