"""Recording of the calls into devmem and its store types, also in threads that start meanwhile."""

from __future__ import annotations

import dis
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

PACKAGES: Final = ("devmem", "devmem_stores")
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
"""Calls in Python 3.11 only; later versions inline them."""
_RESUMABLE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A frame of ours that was entered."""

    file: str
    """Path from the source root, as in `devmem/memory/handle.py`."""
    function: str
    """Qualified name within the file."""
    depth: int
    """Number of our frames on the thread's stack, this one included."""
    resumed: bool
    """The frame is a generator that continues, which is no call of its own."""

    @property
    def package(self) -> str:
        """Folder of the file."""
        return self.file.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """Calls of one operation."""

    name: str
    threads: Sequence[Sequence[Call]]
    """Calls by thread, the caller's first."""

    def figures(self) -> dict[str, int]:
        """Return the number of calls, files and packages, and the depth of the deepest stack of our frames."""
        calls = [call for thread in self.threads for call in thread if not call.resumed]
        return {
            "calls": len(calls),
            "files": len({call.file for call in calls}),
            "depth": max((call.depth for call in calls), default=0),
            "packages": len({call.package for call in calls}),
        }


class Recorder:
    """Records calls between `installed`, which is entered before anything starts a thread, and its end."""

    def __init__(self) -> None:
        self._active = False
        self._calls: dict[int, list[Call]] = {}
        self._stacks: dict[int, list[FrameType]] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Observe this thread, and those that start inside the block."""
        before, before_of_threads = sys.getprofile(), threading.getprofile()
        threading.setprofile(self._observe)
        sys.setprofile(self._observe)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(before_of_threads)

    def record(self, name: str, act: Callable[[], object]) -> Trip:
        """Return the calls that an operation makes."""
        self._calls, self._stacks = {threading.get_ident(): []}, {}
        self._active = True
        try:
            act()
        finally:
            self._active = False
        own, *others = self._calls.values()
        # The order in which threads start varies from run to run.
        others.sort(key=lambda calls: [(call.file, call.function) for call in calls])
        return Trip(name=name, threads=[own, *others])

    def _observe(self, frame: FrameType, event: str, _: object) -> None:
        if not self._active or event not in {"call", "return"}:
            return
        code = frame.f_code
        file = _file_of(code.co_filename)
        if file is None or code.co_name in _COMPREHENSIONS:
            return
        thread = threading.get_ident()
        stack = self._stacks.setdefault(thread, [])
        if event == "call":
            stack.append(frame)
            call = Call(file=file, function=code.co_qualname, depth=len(stack), resumed=_is_resumed(frame))
            self._calls.setdefault(thread, []).append(call)
        # A frame that was entered before the recording began was not pushed.
        elif stack and stack[-1] is frame:
            stack.pop()


def package_folder(package: str) -> Path:
    """Return the folder of an importable package."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@cache
def _prefixes() -> tuple[tuple[str, int], ...]:
    """Return the beginnings of our files' paths, each with the length of its source root."""
    folders = [package_folder(package) for package in PACKAGES]
    return tuple((f"{folder}{os.sep}", len(f"{folder.parent}{os.sep}")) for folder in folders)


@cache
def _file_of(path: str) -> str | None:
    """Return the path from the source root; None where the file is not ours."""
    for prefix, root in _prefixes():
        if path.startswith(prefix):
            return path[root:].replace(os.sep, "/")
    return None


def _is_resumed(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & _RESUMABLE) and frame.f_lasti > _first_resume(frame.f_code)


@cache
def _first_resume(code: CodeType) -> int:
    """Return the offset at which the body of a generator begins."""
    return next((each.offset for each in dis.get_instructions(code) if each.opname == "RESUME" and not each.arg), 0)
