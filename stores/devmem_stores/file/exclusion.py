"""Files of a source that are left out: by `exclude`, and by `.gitignore` where the source asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class _Rules:
    folder: Path
    """Folder that the patterns are relative to."""
    spec: GitIgnoreSpec

    def verdict(self, path: Path, *, is_folder: bool) -> bool | None:
        """Whether the path is left out; None when no pattern matches it."""
        relative = path.relative_to(self.folder).as_posix()
        return self.spec.check_file(f"{relative}/" if is_folder else relative).include


class Exclusion:
    """Rules for the entries of one folder; a deeper `.gitignore` takes precedence, as in git."""

    def __init__(self, exclude: _Rules | None, layers: Sequence[_Rules] = (), *, gitignore: bool = False) -> None:
        self._exclude, self._layers, self._gitignore = exclude, tuple(layers), gitignore

    @classmethod
    def of(cls, root: Path, exclude: Sequence[str], *, gitignore: bool) -> Exclusion:
        """Return the rules of a source; raises `OSError` when a `.gitignore` above it cannot be read."""
        rules = _Rules(root, GitIgnoreSpec.from_lines(exclude)) if exclude else None
        above = [_read(folder) for folder in _above(root)] if gitignore else []
        return cls(rules, [layer for layer in above if layer is not None], gitignore=gitignore)

    def inside(self, folder: Path) -> Exclusion:
        """Return the rules for a folder's entries; raises `OSError` when its `.gitignore` cannot be read."""
        layer = _read(folder) if self._gitignore else None
        return self if layer is None else Exclusion(self._exclude, (*self._layers, layer), gitignore=True)

    def leaves_out(self, path: Path, *, is_folder: bool) -> bool:
        """Whether an entry is left out."""
        if self._gitignore and is_folder and path.name == ".git":
            return True
        if self._exclude is not None and self._exclude.verdict(path, is_folder=is_folder):
            return True
        for layer in reversed(self._layers):
            verdict = layer.verdict(path, is_folder=is_folder)
            if verdict is not None:
                return verdict
        return False


def _above(root: Path) -> list[Path]:
    """Return the folders above a source up to the repository that it is in, outermost first."""
    for at, folder in enumerate([root, *root.parents]):
        if (folder / ".git").exists():
            return list(reversed([root, *root.parents][1 : at + 1]))
    return []


def _read(folder: Path) -> _Rules | None:
    file = folder / ".gitignore"
    if not file.is_file():
        return None
    return _Rules(folder, GitIgnoreSpec.from_lines(file.read_text("utf-8", errors="replace").splitlines()))
