"""What a store holds, for elsewhere: snapshots that can be read back or read by people, and pictures of the flow."""

from devmem.exporting.diagrams import dot_graph, mermaid_flowchart, mermaid_sequence
from devmem.exporting.flow import FlowEdge, Transfer, edges_of, transfers_of
from devmem.exporting.markdown import markdown_parts
from devmem.exporting.pictures import png_picture
from devmem.exporting.reading import every_item
from devmem.exporting.snapshot import Snapshot, json_parts, snapshot_of

__all__ = [
    "FlowEdge",
    "Snapshot",
    "Transfer",
    "dot_graph",
    "edges_of",
    "every_item",
    "json_parts",
    "markdown_parts",
    "mermaid_flowchart",
    "mermaid_sequence",
    "png_picture",
    "snapshot_of",
    "transfers_of",
]
