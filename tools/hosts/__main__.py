"""The command: `python -m tools.hosts [HOST...] [--tests FOLDER]`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tools.hosts import conformance
from tools.hosts.baselines import read_baseline
from tools.hosts.environments import ROOT, CommandFailedError, Environment
from tools.hosts.host_tests import Outcome, TestsDidNotRunError, run_contracts, run_host_tests
from tools.hosts.table import PAGE, required_by, tried, with_row

_TEST_PACKAGES: Final = ("pytest>=8.3", "hypothesis>=6.112")
_OF_A_PROGRAM: Final = "1 to 4 minutes, all but seconds for the environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A framework with an adapter or a program; an adapter's tests are in the folder of its host's name."""

    duration: str
    """Measured on two cores that others used too, with pip's cache; environment included."""
    extra: str = ""
    """Extras of devmem that it needs; empty where the extra has the host's name, with `-` for `_`."""
    is_program: bool = False
    """Whether it has no adapter and no extra, but a program on the page `programs.md`."""
    adapter: str = ""
    """Adapter that it runs, where that is not of its name: the folder of our tests, and the page."""
    source: str = ""
    """Folder of a host that is not a package, below the one that `--tests` names."""
    test_files: Sequence[str] = ()
    """The host's own tests, below the folder that `--tests` names."""
    plugin: str = ""
    """Pytest plugin that puts the adapter in the place of the host's memory."""
    packages: Sequence[str] = ()
    """Packages that its own tests need beside it."""
    bare: Sequence[str] = ()
    """Packages of a host that pins what devmem cannot use: installed without their requirements, and with no extra."""
    npm: Mapping[str, str] = field(default_factory=dict)
    suites: Callable[[Environment], list[Outcome]] | None = None
    """Other suites that are run."""

    def page(self, name: str) -> str:
        """Return the name of its page, which is that of the folder of our tests too."""
        return "programs" if self.is_program else self.adapter or name

    def extras(self, name: str) -> list[str]:
        """Return the extras of devmem that it needs."""
        named = self.extra or ("" if self.bare or self.is_program else name.replace("_", "-"))
        return named.split(",") if named else []

    def requirements(self, name: str) -> list[str]:
        """Return the requirements of the host itself."""
        return list(self.packages) if self.is_program else [*required_by(self.extras(name)), *self.bare]


HOSTS: Final[Mapping[str, Host]] = {
    "mcp": Host(
        duration="4 minutes, 3 of them for the environment",
        npm={"node": "node@22", **{name: package for name, package, _ in conformance.SUITES}},
        suites=conformance.run_suites,
    ),
    "langgraph": Host(
        duration="5 minutes, half of them for the environment",
        packages=(
            "langmem>=0.0.30",
            "mcp>=2.3",
            "langgraph-checkpoint-sqlite>=3.1",
            "pytest-asyncio>=1.5",
            "pytest-mock>=3.14",
        ),
        plugin="tools.hosts.shims.langgraph",
        test_files=(
            "langgraph/libs/checkpoint/tests/test_store.py",
            "langgraph/libs/checkpoint-sqlite/tests/test_store.py",
        ),
    ),
    "anthropic": Host(
        duration="1 minute, half of it for the environment",
        packages=("pytest-asyncio>=1.5",),
        plugin="tools.hosts.shims.anthropic",
        test_files=("anthropic/tests/lib/tools/memory_tools/test_filesystem.py",),
    ),
    "pydantic_ai": Host(duration="2 minutes, 1 of them for the environment"),
    # The harness pins the package: with it the newest one is not tried.
    "pydantic_ai_harness": Host(duration="2 minutes, 1 of them for the environment", adapter="pydantic_ai"),
    "openai_agents": Host(
        duration="2 minutes, 1 of them for the environment",
        packages=("pytest-asyncio>=1.5",),
        plugin="tools.hosts.shims.openai_agents",
        test_files=(
            "openai_agents/tests/memory/test_session.py",
            "openai_agents/tests/memory/test_session_limit.py",
        ),
    ),
    "chatdev": Host(
        duration="6 minutes, 4 of them for the environment",
        extra="openai,mem0",
        source="chatdev",
        packages=("tenacity>=9", "fastmcp>=2", "requests>=2.32", "pytest-asyncio>=1.5"),
        plugin="tools.hosts.shims.chatdev",
        test_files=("chatdev/tests/test_mem0_memory.py", "chatdev/tests/test_memory_embedding_consistency.py"),
    ),
    "metagpt": Host(
        duration="2 minutes, 1 of them for the environment",
        packages=("aiofiles>=23", "loguru>=0.6", "redis>=5", "tenacity>=8", "pytest-asyncio>=1.5"),
        bare=("metagpt==0.8.2",),
        plugin="tools.hosts.shims.metagpt",
        test_files=(
            "metagpt/tests/metagpt/memory/test_memory.py",
            "metagpt/tests/metagpt/memory/test_brain_memory.py",
        ),
    ),
    "agentuniverse": Host(
        duration="1 minute, nearly all of it for the environment",
        packages=("loguru>=0.7", "opentelemetry-sdk>=1.30", "tomli>=2.2"),
        bare=("agentUniverse==0.0.19.1",),
    ),
    "google_adk": Host(duration="3 minutes, all but seconds for the environment"),
    "haystack": Host(duration="2 minutes, all but seconds for the environment"),
    "langchain": Host(
        duration="2 minutes, all but seconds for the environment",
        packages=("langchain-tests>=1.1", "pytest-asyncio>=1.5"),
    ),
    "llama_index": Host(duration="3 minutes, 2 of them for the environment"),
    "strands": Host(duration="2 minutes, all but seconds for the environment"),
    "agent_framework": Host(duration="1 minute, all but seconds for the environment"),
    "crewai": Host(
        duration="8 minutes, 5 of them for the environment",
        packages=("pytest-asyncio>=1.5",),
        plugin="tools.hosts.shims.crewai",
        test_files=(
            "crewai/lib/crewai/tests/memory/test_unified_memory.py",
            "crewai/lib/crewai/tests/memory/test_qdrant_edge_storage.py",
        ),
    ),
    "agno": Host(duration=_OF_A_PROGRAM, is_program=True, packages=("agno>=3.1",)),
    "autogen": Host(duration=_OF_A_PROGRAM, is_program=True, packages=("autogen-agentchat>=0.7", "autogen-ext>=0.7")),
    "semantic_kernel": Host(duration=_OF_A_PROGRAM, is_program=True, packages=("semantic-kernel>=1.45",)),
    "smolagents": Host(duration=_OF_A_PROGRAM, is_program=True, packages=("smolagents>=1.26",)),
    "dspy": Host(duration=_OF_A_PROGRAM, is_program=True, packages=("dspy>=3.4",)),
}

app = typer.Typer(add_completion=False)


@app.command()
def hosts(
    names: Annotated[list[str] | None, typer.Argument(help=f"Hosts: {', '.join(HOSTS)}.", show_default="all")] = None,
    tests: Annotated[Path | None, typer.Option(help="Folder with the hosts' own test files.")] = None,
    envs: Annotated[Path, typer.Option(help="Folder of the environments.")] = Path("build/hosts"),
    write: Annotated[bool, typer.Option("--write", help="Renew the table of docs/adapters/README.md.")] = False,
) -> None:
    """Run the adapters' tests, the hosts' own tests and their suites, each host in an environment of its own.

    It ends with an error when a test fails that is not on the host's list of expected failures, when one on the list
    passes or is not there, and when an environment cannot be made; the other hosts are run all the same.
    """
    if unknown := set(names or ()) - HOSTS.keys():
        raise typer.BadParameter(f"{sorted(unknown)[0]!r} is no host; there are {', '.join(HOSTS)}")
    folder = tests.resolve() if tests else None
    results = [_run(name, envs.resolve(), folder, write=write) for name in names or HOSTS]
    raise typer.Exit(max(results))


def _run(name: str, envs: Path, tests: Path | None, *, write: bool) -> int:
    """Run a host's tests and print the results; return the exit code: 2 is that they could not be run."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    host = HOSTS[name]
    console.print(f"{name} (usually {host.duration})")
    start = time.perf_counter()
    try:
        environment = _environment(name, host, envs, tests)
        if environment is None:
            console.print("  nothing was run: it is not a package; name the folder with its code with --tests")
            return 0
        if environment.make():
            console.print(f"  environment: {time.perf_counter() - start:.0f} s")
            start = time.perf_counter()
        outcomes = _outcomes(name, host, environment, tests)
        row = tried(name, host.page(name), host.requirements(name), environment, outcomes)
    except (CommandFailedError, TestsDidNotRunError) as error:
        console.print(f"  {error}")
        return 2
    console.print("  " + ", ".join(map(" ".join, zip(row.minimum, row.tested, strict=True))))
    if write:
        PAGE.write_text(with_row(PAGE.read_text(encoding="utf-8"), row), encoding="utf-8")
    for line in (line for outcome in outcomes for line in outcome.lines()):
        console.print(line)
    if host.test_files and not tests:
        console.print("  its own tests were not run: name their folder with --tests")
    console.print(f"  tests: {time.perf_counter() - start:.0f} s")
    return 0 if all(outcome.comparison.agrees for outcome in outcomes) else 1


def _environment(name: str, host: Host, envs: Path, tests: Path | None) -> Environment | None:
    """Return a host's environment; None where the host is a folder, and none is named."""
    if host.source and not tests:
        return None
    return Environment(
        folder=envs / name,
        requirements=[*_TEST_PACKAGES, *host.packages],
        extra=",".join(host.extras(name)),
        bare=host.bare,
        npm=host.npm,
        source=tests / host.source if tests and host.source else None,
    )


def _outcomes(name: str, host: Host, environment: Environment, tests: Path | None) -> list[Outcome]:
    folder = "programs/test_runs.py" if host.is_program else host.page(name)
    outcomes = [run_contracts(environment, f"tests/adapters/{folder}")]
    if tests and host.test_files:
        baseline = read_baseline(ROOT / "tests/adapters" / name / "host_failures.yaml")
        outcomes += [run_host_tests(environment, tests, file, host.plugin, baseline) for file in host.test_files]
    if host.suites:
        outcomes.extend(host.suites(environment))
    return outcomes


if __name__ == "__main__":
    app()
