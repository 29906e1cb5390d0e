"""A long conversation through a `role_zero` store that is killed again and again, and what it recalls afterwards.

Each LoCoMo conversation goes turn by turn through a store with a small window. The process that adds them is killed at
random points and started again, until all turns are there; every turn has to be in the window or in long-term memory,
once. Then its first questions whose evidence has left the window are asked as messages of the user.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from devmem.messages import UserMessage
from devmem.stores import EmbeddingConfig, StoreSetup
from devmem_stores.role_zero import RoleZeroConfig, RoleZeroMemory
from devmem_stores.role_zero.role import RoleMessages
from tools.bench.retrieval.dataset import Haystack, Question
from tools.bench.retrieval.forms import read_conversations
from tools.bench.rows import JsonFile, Row, report

_MEMORY_K: Final = 50
_TOP_K: Final = 5
_QUESTIONS: Final = 20
_SMALLEST: Final = 400
"""Minimum number of turns of a conversation that is used."""
_KILLS: Final = 8
_BATCH_SIZE: Final = 5
"""Turns that are added together, so that kills hit batches too."""


def command(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="Conversations in LoCoMo's form.")],
    json_file: JsonFile = None,
) -> None:
    """Measure a `role_zero` store: kills while a long conversation is added, and what questions recall afterwards."""
    report(list(run(files)), json_file)


def run(paths: Sequence[Path]) -> Iterator[Row]:
    """Measure every conversation that is long enough; `all` joins their questions."""
    found: list[bool] = []
    for path in paths:
        talks = read_conversations(path, path.stem).haystacks
        for talk in (each for each in talks if len(each.items) >= _SMALLEST):
            with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
                rows = dict(_measure(talk, Path(folder), found))
            yield from (_row(path, talk.id, metric, value) for metric, value in rows.items())
        yield _row(path, "all", "questions", len(found))
        yield _row(path, "all", f"any@{_TOP_K}", float(np.mean(found)))


def _row(path: Path, case: str, metric: str, value: float) -> Row:
    unit = "share" if "@" in metric else "ms" if metric.endswith("_p50") else "count"
    return Row(bench="role_zero", case=case, metric=metric, value=float(value), unit=unit, dataset=path.stem)


def _measure(talk: Haystack, folder: Path, found: list[bool]) -> Iterator[tuple[str, float]]:
    yield "turns", len(talk.items)
    yield "kills", _add_and_kill(talk, folder)
    store = _open(folder)
    memory = store.role("listener")
    window, long_term = ([message.id for message in part] for part in (memory.window(), memory.long_term()))
    expected = [item.id for item in talk.items]
    yield "lost", len(set(expected) - {*window, *long_term})
    yield "doubled", len(window) + len(long_term) - len({*window, *long_term})
    yield "misplaced", sum(a != b for a, b in zip([*long_term, *window], expected, strict=False))
    yield "window", len(window)
    asked = [each for each in talk.questions if not each.apart and each.gold <= set(long_term)][:_QUESTIONS]
    answers = [_ask(memory, each) for each in asked]
    store.close()
    found += [hit for hit, _ in answers]
    yield "questions", len(asked)
    yield f"any@{_TOP_K}", float(np.mean([hit for hit, _ in answers]))
    yield "recall_p50", float(np.percentile([time for _, time in answers], 50))


def _ask(memory: RoleMessages, question: Question) -> tuple[bool, float]:
    """Ask as the user would; return whether an evidence turn was recalled, and the time in ms."""
    memory.add(UserMessage(question.text, id="asked"))
    started = time.perf_counter()
    recall = memory.recall(_MEMORY_K)
    taken = (time.perf_counter() - started) * 1000
    memory.delete_newest()
    if recall.failures or not recall.query:
        raise RuntimeError(f"nothing was searched for: {recall.failures}")
    return bool(question.gold & {message.id for message in recall.related}), taken


def _open(folder: Path) -> RoleZeroMemory:
    config = RoleZeroConfig(
        memory_path="talk.db", memory_k=_MEMORY_K, similarity_top_k=_TOP_K, embedding=EmbeddingConfig(provider="minilm")
    )
    store = RoleZeroMemory(StoreSetup(name="bench", store_type="role_zero", config=config, base_dir=folder))
    store.load()
    return store


def _add_and_kill(talk: Haystack, folder: Path) -> int:
    """Add every turn in processes that are killed; return how many were killed."""
    turns = folder / "turns.jsonl"
    lines = (
        json.dumps({"id": i.id, "text": i.content_summary, "time": i.event_time, **i.metadata}) for i in talk.items
    )
    turns.write_text("\n".join(lines), encoding="utf-8")
    chance = random.Random(len(talk.items))
    kills = 0
    while True:
        command = [sys.executable, "-m", "tools.bench.role_zero", str(folder), str(turns)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            if process.stdout is None:
                raise RuntimeError("the process has no output")
            if kills < _KILLS:
                for _ in range(chance.randrange(1, len(talk.items) // (_BATCH_SIZE * _KILLS))):
                    process.stdout.readline()
                process.send_signal(signal.SIGKILL)
            process.communicate()
        kills += process.returncode == -signal.SIGKILL
        if process.returncode > 0:
            raise RuntimeError(f"adding the turns failed: exit code {process.returncode}")
        if process.returncode == 0:
            return kills


def _turn(raw: Mapping[str, Any]) -> UserMessage:
    text = str(raw["text"]).removeprefix(f"{raw['speaker']}: ")
    return UserMessage(text, id=raw["id"], source=raw["speaker"], created_at=raw["time"], cause_by="Talk")


def add_turns(folder: Path, turns: Path) -> None:
    """Add the turns that are not there yet, and print a line after each few."""
    store = _open(folder)
    memory = store.role("listener")
    news = memory.find_news(_turn(json.loads(line)) for line in turns.read_text(encoding="utf-8").splitlines())
    for start in range(0, len(news), _BATCH_SIZE):
        memory.add_batch(news[start : start + _BATCH_SIZE])
        sys.stdout.write(f"{start}\n")
        sys.stdout.flush()
    store.close()


if __name__ == "__main__":
    add_turns(Path(sys.argv[1]), Path(sys.argv[2]))
