"""What people and programs read of items, hits and message flows: JSON forms and diagrams."""

from devmem.views.diagrams import dot_graph, mermaid_flowchart, mermaid_sequence
from devmem.views.flow import FlowEdge, Transfer, edges_of, transfers_of
from devmem.views.pictures import png_picture

__all__ = [
    "FlowEdge",
    "Transfer",
    "dot_graph",
    "edges_of",
    "mermaid_flowchart",
    "mermaid_sequence",
    "png_picture",
    "transfers_of",
]
