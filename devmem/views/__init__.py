"""Items, hits, searches, runs and message flows as JSON forms and diagrams."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.views.diagrams import (
        FlowEdge,
        Transfer,
        dot_graph,
        edges_of,
        mermaid_flowchart,
        mermaid_plan,
        mermaid_sequence,
        png_picture,
        transfers_of,
    )
    from devmem.views.documents import (
        GROUP_KEYS,
        SIGNALS,
        JsonObject,
        checks_json,
        checks_sarif,
        finding_json,
        groups_json,
        hit_json,
        hits_json,
        item_json,
        outcome_json,
        recall_json,
        recalled_hits,
        report_json,
        run_json,
        waiting_ids,
    )
else:
    __getattr__, __dir__ = _lazy_names(__name__)

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
    "mermaid_plan",
    "mermaid_sequence",
    "outcome_json",
    "png_picture",
    "recall_json",
    "recalled_hits",
    "report_json",
    "run_json",
    "transfers_of",
    "waiting_ids",
]
