"""devmem's memories in the place of MetaGPT's, and stand-ins for the packages that MetaGPT only imports.

MetaGPT 0.8.2, the newest release of the package, pins a version of lancedb that is not there any more, and versions of
numpy, typer and others below those that devmem needs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Final

from tools.hosts.shims.stand_ins import stand_in_for

_IMPORTED: Final = (
    "PIL aioboto3 aiohttp anthropic azure boto3 botocore bs4 chardet dashscope docx git gitignore_parser google "
    "gymnasium imap_tools joblib nbclient nbformat openai pandas playwright qianfan redis regex requests sklearn "
    "sparkai tiktoken tree_sitter tree_sitter_python volcenginesdkarkruntime websockets zhipuai"
)
_CONFIG: Final = "llm:\n  api_type: openai\n  api_key: none\n  model: none\n"
"""Configuration without which MetaGPT cannot be imported."""
_FOLDER: Final = tempfile.TemporaryDirectory(prefix="devmem-metagpt-")


def prepare() -> None:
    """Let MetaGPT be imported, with a folder of its own until the process ends."""
    stand_in_for(_IMPORTED.split())
    config = Path(_FOLDER.name) / "config/config2.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(_CONFIG, encoding="utf-8")
    os.environ["METAGPT_PROJECT_ROOT"] = _FOLDER.name


def _replace() -> None:
    import metagpt.memory
    from metagpt.memory import brain_memory, memory

    from devmem.adapters.metagpt import DevmemBrainMemory, DevmemMemory

    host: Any = metagpt.memory
    host.Memory = memory.Memory = DevmemMemory
    brain_memory.BrainMemory = DevmemBrainMemory


def pytest_configure() -> None:
    """Replace the classes before the tests import them."""
    prepare()
    _replace()
