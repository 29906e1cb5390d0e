"""The store type of docs/plugins.md passes the suite that the page recommends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import devmem
from devmem.testing import StoreSuite

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"


def _example(name: str) -> type[devmem.MemoryBase]:
    """Run the code block that defines a class, registering nothing, and return the class."""
    code = next(
        block
        for block in re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        if f"class {name}(" in block
    )
    names: dict[str, Any] = {"__name__": f"docs_plugins_{name}"}
    exec(compile(re.sub(r"^@devmem\.register.*\n", "", code, flags=re.MULTILINE), str(_PAGE), "exec"), names)
    example: type[devmem.MemoryBase] = names[name]
    return example


class TestNotes(StoreSuite):
    store_class = _example("NotesMemory")
    config: ClassVar = {"memory_path": "memory/notes.db"}
