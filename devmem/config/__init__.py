"""Workflow files to validated models, and what the models give for free.

`load_workflow` reads a file; everything that is wrong with it comes in one `ConfigError`, each problem with file, line
and path.
"""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.agent import AgentConfig as AgentConfig
    from devmem.config.agent import Attachment as Attachment
    from devmem.config.agent import ChatConfig as ChatConfig
    from devmem.config.agent import ViewConfig as ViewConfig
    from devmem.config.base import ConfigModel as ConfigModel
    from devmem.config.base import Duration as Duration
    from devmem.config.base import MemoryOptions as MemoryOptions
    from devmem.config.base import StoreTypes as StoreTypes
    from devmem.config.document import SourcePosition as SourcePosition
    from devmem.config.filter_forms import FilterForm as FilterForm
    from devmem.config.filter_forms import dump_filter as dump_filter
    from devmem.config.filter_forms import load_filter as load_filter
    from devmem.config.findings import Rule as Rule
    from devmem.config.forms import ChildRoute as ChildRoute
    from devmem.config.forms import EnumOption as EnumOption
    from devmem.config.forms import FieldSpec as FieldSpec
    from devmem.config.forms import design_template as design_template
    from devmem.config.forms import field_specs as field_specs
    from devmem.config.forms import form as form
    from devmem.config.placeholders import Unresolved as Unresolved
    from devmem.config.reading import WorkflowCheck as WorkflowCheck
    from devmem.config.reading import check_workflow as check_workflow
    from devmem.config.reading import load_workflow as load_workflow
    from devmem.config.reading import parse_workflow as parse_workflow
    from devmem.config.schema import workflow_schema as workflow_schema
    from devmem.config.store import EmbeddingConfig as EmbeddingConfig
    from devmem.config.store import EmbeddingParams as EmbeddingParams
    from devmem.config.store import IndexConfig as IndexConfig
    from devmem.config.store import RerankerConfig as RerankerConfig
    from devmem.config.store import RetrievalConfig as RetrievalConfig
    from devmem.config.store import StoreDeclaration as StoreDeclaration
    from devmem.config.workflow import Edge as Edge
    from devmem.config.workflow import NodeConfig as NodeConfig
    from devmem.config.workflow import Subgraph as Subgraph
    from devmem.config.workflow import Workflow as Workflow
else:
    _ORIGINS = {
        "devmem.config.agent": "AgentConfig Attachment ChatConfig ViewConfig",
        "devmem.config.base": "ConfigModel Duration MemoryOptions StoreTypes",
        "devmem.config.document": "SourcePosition",
        "devmem.config.filter_forms": "FilterForm dump_filter load_filter",
        "devmem.config.findings": "Rule",
        "devmem.config.forms": "ChildRoute EnumOption FieldSpec design_template field_specs form",
        "devmem.config.placeholders": "Unresolved",
        "devmem.config.reading": "WorkflowCheck check_workflow load_workflow parse_workflow",
        "devmem.config.schema": "workflow_schema",
        "devmem.config.store": (
            "EmbeddingConfig EmbeddingParams IndexConfig RerankerConfig RetrievalConfig StoreDeclaration"
        ),
        "devmem.config.workflow": "Edge NodeConfig Subgraph Workflow",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
