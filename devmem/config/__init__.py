"""Workflow files to validated models, and what the models give for free.

`load_workflow` reads a file; everything that is wrong with it comes in one `ConfigError`, each problem with file, line
and path.
"""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.agent import AgentConfig, Attachment, ChatConfig, ViewConfig
    from devmem.config.base import ConfigModel, Duration, MemoryOptions
    from devmem.config.document import SourcePosition
    from devmem.config.filter_forms import FilterForm, dump_filter, load_filter
    from devmem.config.findings import Rule
    from devmem.config.forms import ChildRoute, EnumOption, FieldSpec, design_template, field_specs, form
    from devmem.config.placeholders import Unresolved
    from devmem.config.reading import WorkflowCheck, check_workflow, load_workflow, parse_workflow
    from devmem.config.schema import workflow_schema
    from devmem.config.store import (
        EmbeddingConfig,
        EmbeddingParams,
        IndexConfig,
        RerankerConfig,
        RetrievalConfig,
        StoreDeclaration,
        StoreTypes,
    )
    from devmem.config.workflow import Edge, NodeConfig, Subgraph, Workflow
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "AgentConfig",
    "Attachment",
    "ChatConfig",
    "ChildRoute",
    "ConfigModel",
    "Duration",
    "Edge",
    "EmbeddingConfig",
    "EmbeddingParams",
    "EnumOption",
    "FieldSpec",
    "FilterForm",
    "IndexConfig",
    "MemoryOptions",
    "NodeConfig",
    "RerankerConfig",
    "RetrievalConfig",
    "Rule",
    "SourcePosition",
    "StoreDeclaration",
    "StoreTypes",
    "Subgraph",
    "Unresolved",
    "ViewConfig",
    "Workflow",
    "WorkflowCheck",
    "check_workflow",
    "design_template",
    "dump_filter",
    "field_specs",
    "form",
    "load_filter",
    "load_workflow",
    "parse_workflow",
    "workflow_schema",
]
