"""MADial-Bench: dialogues in which an assistant should recall memories of its user, kept in a second file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from devmem import MemoryItem
from devmem.errors import DataFileError
from devmem.transfer.importing.files import FileReader, parse_json
from tools.bench.retrieval.dataset import Dataset, Haystack, Question
from tools.bench.retrieval.items import is_memories, read_items

_SAID: Final = 300
"""Characters of what was said last that are the query."""
_UTTERANCE: Final = re.compile(r'^<([^>]*)>:?"?(.*?)"?\s*$', re.DOTALL)


def is_dialogues(path: Path) -> bool:
    """Whether a file holds dialogues of this form; raises `DataFileError` when it cannot be read."""
    _, first = next(FileReader(path).lines(), (0, ""))
    try:
        raw = json.loads(first)
    except (json.JSONDecodeError, RecursionError):
        return False
    return isinstance(raw, Mapping) and {"dialogue", "test-turn", "relevant-id"} <= raw.keys()


def memories_beside(dialogues: Path, given: Sequence[Path]) -> Path:
    """Find the memories that belong to dialogues: among the given files, or beside them under the like name.

    Raises:
        DataFileError: there are none.
    """
    likely = dialogues.with_name(dialogues.name.replace("dialogue", "memory"))
    for path in (*given, likely):
        if path != dialogues and path.is_file() and is_memories(path):
            return path
    raise DataFileError(dialogues, "dialogues of MADial-Bench; name the file of their memories beside it")


def read_madial(dialogues: Path, memories: Path, name: str) -> Dataset:
    """Read dialogues and memories; all memories are one haystack.

    Raises:
        DataFileError: a file is not as MADial-Bench has it.
    """
    items = {item.id: item for item in read_items(memories).items}
    questions = list(_questions(dialogues, items))
    counted = tuple(question for question in questions if question.gold)
    if not counted:
        raise DataFileError(dialogues, f"no dialogue recalls a memory of {memories}")
    haystack = Haystack(id=memories.stem, items=tuple(items.values()), questions=counted)
    return Dataset(name=name, haystacks=(haystack,), not_counted=len(questions) - len(counted))


def _questions(path: Path, items: Mapping[str, MemoryItem]) -> Iterator[Question]:
    for number, line in FileReader(path).lines():
        try:
            raw: Any = parse_json(line)
            turn = min(raw["test-turn"])
            said = "\n".join(filter(None, map(_utterance, raw["dialogue"][:turn])))
            gold = frozenset(one for named in raw["relevant-id"] if (one := f"madial/{named}") in items)
            question = Question(id=str(raw["id"]), text=said[-_SAID:], type="dialogue", gold=gold)
        except (KeyError, TypeError, ValueError) as error:
            raise DataFileError(path, f"not a dialogue of MADial-Bench: {error!r}", line=number) from error
        if not question.text.strip():
            raise DataFileError(path, "nothing is said before `test-turn`, so there is nothing to ask", line=number)
        yield question


def _utterance(line: str) -> str:
    """Return `Speaker: text` for a line `<Speaker>:"text"`, nothing of the marks for beginning and end."""
    found = _UTTERANCE.match(line.strip())
    if found is None:
        return line.strip()
    speaker, text = found.groups()
    return f"{speaker}: {text}" if text else ""
