"""Items, hits, searches, runs and message flows as JSON forms and diagrams."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.views.diagrams import FlowEdge as FlowEdge
    from devmem.views.diagrams import Transfer as Transfer
    from devmem.views.diagrams import dot_graph as dot_graph
    from devmem.views.diagrams import edges_of as edges_of
    from devmem.views.diagrams import mermaid_flowchart as mermaid_flowchart
    from devmem.views.diagrams import mermaid_plan as mermaid_plan
    from devmem.views.diagrams import mermaid_sequence as mermaid_sequence
    from devmem.views.diagrams import png_picture as png_picture
    from devmem.views.diagrams import transfers_of as transfers_of
    from devmem.views.documents import GROUP_KEYS as GROUP_KEYS
    from devmem.views.documents import SIGNALS as SIGNALS
    from devmem.views.documents import JsonObject as JsonObject
    from devmem.views.documents import checks_json as checks_json
    from devmem.views.documents import checks_sarif as checks_sarif
    from devmem.views.documents import finding_json as finding_json
    from devmem.views.documents import groups_json as groups_json
    from devmem.views.documents import hit_json as hit_json
    from devmem.views.documents import hits_json as hits_json
    from devmem.views.documents import item_json as item_json
    from devmem.views.documents import outcome_json as outcome_json
    from devmem.views.documents import recall_json as recall_json
    from devmem.views.documents import recalled_hits as recalled_hits
    from devmem.views.documents import report_json as report_json
    from devmem.views.documents import run_json as run_json
    from devmem.views.documents import waiting_ids as waiting_ids
else:
    _ORIGINS = {
        "devmem.views.diagrams": (
            "FlowEdge Transfer dot_graph edges_of mermaid_flowchart mermaid_plan mermaid_sequence png_picture "
            "transfers_of"
        ),
        "devmem.views.documents": (
            "GROUP_KEYS SIGNALS JsonObject checks_json checks_sarif finding_json groups_json hit_json hits_json "
            "item_json outcome_json recall_json recalled_hits report_json run_json waiting_ids"
        ),
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
