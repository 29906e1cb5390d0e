"""Items, hits, searches, runs and message flows as JSON forms and diagrams."""

from devmem.views.diagrams import dot_graph, mermaid_flowchart, mermaid_sequence
from devmem.views.findings import checks_json, checks_sarif, finding_json
from devmem.views.flow import FlowEdge, Transfer, edges_of, transfers_of
from devmem.views.items import SIGNALS, JsonObject, hit_json, item_json, waiting_ids
from devmem.views.pictures import png_picture
from devmem.views.runs import outcome_json, recalled_hits, run_json
from devmem.views.searches import GROUP_KEYS, groups_json, hits_json, report_json

__all__ = [
    "GROUP_KEYS",
    "SIGNALS",
    "FlowEdge",
    "JsonObject",
    "Transfer",
    "checks_json",
    "checks_sarif",
    "dot_graph",
    "edges_of",
    "finding_json",
    "groups_json",
    "hit_json",
    "hits_json",
    "item_json",
    "mermaid_flowchart",
    "mermaid_sequence",
    "outcome_json",
    "png_picture",
    "recalled_hits",
    "report_json",
    "run_json",
    "transfers_of",
    "waiting_ids",
]
