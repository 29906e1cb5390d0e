"""Measure what reaches the prompt: recall for statements and times, silence off topic, and facts that changed."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import typer
import yaml

import devmem
from devmem import DevmemError
from devmem.search.silence import relevant_hits
from devmem.stores import QueryEmbedding
from devmem.text.analysis import estimate_tokens
from tools.bench.retrieval.asking import FETCHED, Answer, ask_all
from tools.bench.retrieval.cases import StoreCase, StoreSearcher
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.dataset import Dataset, Haystack
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.metrics import OF_TIME, measure
from tools.bench.retrieval.variants import Variant
from tools.bench.rows import JsonFile, Row, report

_TALK: Final = Path(__file__).with_suffix(".yaml")
_ENTRY: Final = re.compile(r"^\d+\. ", re.MULTILINE)
_LEAST_SIMILARITIES: Final = (0.28, 0.31, 0.33, 0.35, 0.36, 0.40)
"""Constants of a model that silence is measured with."""
_Idle = Mapping[str, Sequence[str]]
"""Messages that need no memory, by kind."""


def command(
    datasets: Annotated[
        list[Path] | None,
        typer.Argument(help="Data sets whose queries are statements, or questions for a time (types `time:...`)."),
    ] = None,
    talk: Annotated[
        Path, typer.Option(help="YAML with `turns` (user, assistant), `probes` and `off_topic` messages.")
    ] = _TALK,
    idle: Annotated[
        Path | None, typer.Option(help="JSON with lists of messages that need no memory, which each data set is asked.")
    ] = None,
    provider: Annotated[str, typer.Option("--embedding", help="Embedding provider of the stores.")] = "minilm",
    json_file: JsonFile = None,
) -> None:
    """Measure what a message brings into the prompt: evidence, lines and tokens."""
    try:
        read = read_datasets(datasets or [])
        messages: _Idle = {} if idle is None else json.loads(idle.read_text(encoding="utf-8"))
    except (DevmemError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    rows = [row for dataset in read for row in _recalled(dataset, provider, messages)]
    report([*rows, *_shown(talk)], json_file)


def _recalled(dataset: Dataset, provider: str, idle: _Idle) -> Iterator[Row]:
    """Return recall of the evidence among ten hits, and where a time is asked for, the share of them that are of it."""
    memo, variant = EmbeddingMemo(), Variant(name="devmem", config={"embedding": {"provider": provider}})
    answers: list[Answer] = []
    silence: dict[tuple[str, str], list[float]] = {}
    for haystack in dataset.haystacks:
        with StoreCase(variant).opened(haystack.items, memo, lambda _: None) as searcher:
            answers += ask_all(searcher, haystack, memo)
            if idle:
                _add_silence(silence, searcher, haystack, idle)
    of_time = [one.period for one in answers if one.period is not None]
    case = "periods" if of_time else "statements"
    alike = [one.turn for one in answers if not (one.question.apart or one.question.type.startswith(OF_TIME))]
    found = {name: [turn[name] for turn in alike] for name in (f"recall@{FETCHED}", f"any@{FETCHED}")}
    found |= {name: [one[name] for one in of_time] for name in (of_time[0] if of_time else ())}
    yield from (
        Row(bench="prompt", dataset=dataset.name, case=case, metric=name, value=fmean(values), unit="share")
        for name, values in found.items()
        if values
    )
    for (case, metric), values in silence.items():
        yield Row(bench="prompt", dataset=dataset.name, case=case, metric=metric, value=fmean(values), unit="share")


def _add_silence(
    silence: dict[tuple[str, str], list[float]], searcher: StoreSearcher, haystack: Haystack, idle: _Idle
) -> None:
    """Add for each constant whether idle messages are shown nothing, and what is left of the questions' recall."""
    asked = [(kind, text, None) for kind, texts in idle.items() for text in texts]
    questions = [("", one.text, one) for one in haystack.questions if not one.apart]
    for kind, text, question in [*asked, *questions]:
        query = searcher.variant.query(QueryEmbedding(text), FETCHED, question.asked_at if question else None)
        # As the store searches for relevant hits: others take the place of those that are not.
        report = searcher.store.search(replace(query, limit=2 * FETCHED))
        for least in _LEAST_SIMILARITIES:
            hits = relevant_hits(text, report, least)[:FETCHED]
            figures = {f"silent {kind}": float(not hits)}
            if question is not None:
                found = measure([hit.item.id for hit in hits], question.gold)
                figures = {name: found[name] for name in (f"recall@{FETCHED}", f"any@{FETCHED}")}
            for name, value in figures.items():
                silence.setdefault((f"silence: {least:.2f}", name), []).append(value)


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
