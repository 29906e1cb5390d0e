"""Distributions of strangers: a real `dist-info` folder and a module on disk."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from textwrap import dedent

from devmem.plugins import ENTRY_POINT_GROUP, StoreRegistry

NOTES_SOURCE = dedent(
    '''
    """A stranger's store."""

    from pydantic import Field

    from devmem import MemoryItem
    from devmem.stores import CollectionConfig, CollectionMemory, skipped


    class JotterConfig(CollectionConfig):
        mark: str = Field(default="", max_length=3)


    class Jotter(CollectionMemory):
        config_model = JotterConfig
        summary = "A stranger's notes"

        def compose(self, payload):
            if not payload.output_text():
                return skipped("no output")
            mark = self.setup.config_as(JotterConfig).mark
            return MemoryItem(content_summary=mark + payload.output_text(), created_at=self.setup.clock())
    '''
)


def install(
    folder: Path,
    name: str,
    points: Mapping[str, str],
    modules: Mapping[str, str],
    *,
    version: str = "1.0",
    group: str = ENTRY_POINT_GROUP,
) -> Path:
    """Install a distribution into `folder`: its modules, and the entry points that its metadata declares."""
    folder.mkdir(parents=True, exist_ok=True)
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[{group}]", *(f"{key} = {value}" for key, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def points_in(*folders: Path, group: str = ENTRY_POINT_GROUP) -> list[EntryPoint]:
    """Read the entry points of the distributions in the folders, as `importlib.metadata` does for the whole path."""
    found = distributions(path=[str(folder) for folder in folders])
    return [point for each in found for point in each.entry_points if point.group == group]


def registry_of(*folders: Path) -> StoreRegistry:
    """A registry that sees the distributions in the folders and nothing else."""
    return StoreRegistry(discover=lambda: points_in(*folders))
