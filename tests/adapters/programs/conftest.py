"""Programs of hosts without an adapter; each runs where its host is installed (`make test-hosts HOSTS=agno`)."""

from __future__ import annotations

from importlib.util import find_spec

from tests.adapters.programs.hosts import MODULES

collect_ignore_glob = [] if any(map(find_spec, MODULES.values())) else ["test_runs.py"]
