"""agentUniverse, without the packages that it only imports."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("agentuniverse"):
    from tools.hosts.shims.agentuniverse import prepare

    prepare()
