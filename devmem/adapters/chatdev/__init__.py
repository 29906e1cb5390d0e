"""devmem as the memory of ChatDev 2 (DevAll): one line where ChatDev starts.

from devmem.adapters.chatdev import install; install()
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import devmem
from devmem.config import MemoryOptions
from devmem.errors import HostNotFoundError
from devmem.workflow import open_recalls, session_folder

__all__ = ["install", "uninstall"]


def install(
    *,
    user: str | None = None,
    options: MemoryOptions | None = None,
    mem0_client: Callable[[Any], Any] | None = None,
    record_recalls: str | os.PathLike[str] | None = None,
) -> None:
    """Make devmem the memory of the workflows that ChatDev runs in this process from now on.

    ChatDev's store types `simple`, `file`, `blackboard` and `mem0` are devmem's then, with all of its keys, and the
    other types that are installed are added. Store types that others registered with ChatDev keep working. Installing
    again replaces the arguments.

    Args:
        user: whose items agents see beside the unscoped ones, and who owns what they write; None stands for no user.
        options: token budget, language and order of what an agent is shown.
        mem0_client: returns the client of a `mem0` store for its ChatDev configuration; None has devmem make it.
        record_recalls: a workflow's file, whose log gets what agents are shown, as its key `record_recalls` says;
            `devmem web FILE` shows it.

    Raises:
        HostNotFoundError: ChatDev is not on the import path.
        ValueError: the user is empty text.
        ConfigError: the workflow cannot be used.
    """
    if user is not None and not user.strip():
        raise ValueError("`user` is empty; leave it out where there is none")
    if not _is_chatdev_there():
        raise HostNotFoundError(
            "ChatDev 2", "start Python in ChatDev's folder (the one with run.py), or add that folder to PYTHONPATH"
        )
    from devmem.adapters.chatdev.patches import apply
    from devmem.adapters.chatdev.stores import Installation

    recalls = None
    if record_recalls is not None:
        workflow = devmem.load_workflow(os.fspath(record_recalls))
        recalls = open_recalls(workflow, session_folder(workflow))
    apply(Installation(user=user, options=options or MemoryOptions(), mem0_client=mem0_client, recalls=recalls))


def uninstall() -> None:
    """Return ChatDev to its own memory; does nothing where devmem is not installed. Open stores stay as they are."""
    if _is_chatdev_there():
        from devmem.adapters.chatdev.patches import revert

        revert()


def _is_chatdev_there() -> bool:
    # The two top-level packages together: others have a package of one of these names.
    return find_spec("schema_registry") is not None and find_spec("workflow") is not None
