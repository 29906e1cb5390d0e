"""Workflow files to validated models, and what the models give for free.

`load_workflow` reads a file; everything that is wrong with it comes in one `ConfigError`, each problem with file, line
and path.
"""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.config.agent import AgentConfig
    from devmem.config.attachment import Attachment
    from devmem.config.base import ConfigModel
    from devmem.config.chat import ChatConfig
    from devmem.config.checking import WorkflowCheck, check_workflow
    from devmem.config.duration import Duration
    from devmem.config.embedding import EmbeddingConfig, EmbeddingParams
    from devmem.config.fields import ChildRoute, EnumOption, FieldSpec, field_specs
    from devmem.config.forms import form
    from devmem.config.index import IndexConfig
    from devmem.config.loading import load_workflow, parse_workflow
    from devmem.config.options import MemoryOptions
    from devmem.config.place import Place
    from devmem.config.placeholders import Unresolved
    from devmem.config.retrieval import RerankerConfig, RetrievalConfig
    from devmem.config.rules import Rule
    from devmem.config.schema import workflow_schema
    from devmem.config.store import StoreDeclaration
    from devmem.config.store_types import StoreTypes
    from devmem.config.template import design_template
    from devmem.config.view import ViewConfig
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
    "IndexConfig",
    "MemoryOptions",
    "NodeConfig",
    "Place",
    "RerankerConfig",
    "RetrievalConfig",
    "Rule",
    "StoreDeclaration",
    "StoreTypes",
    "Subgraph",
    "Unresolved",
    "ViewConfig",
    "Workflow",
    "WorkflowCheck",
    "check_workflow",
    "design_template",
    "field_specs",
    "form",
    "load_workflow",
    "parse_workflow",
    "workflow_schema",
]
