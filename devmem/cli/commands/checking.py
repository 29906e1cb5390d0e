"""`devmem validate`: what is wrong with workflow files, and what a run of one would do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from devmem.cli.declaring import argument, option
from devmem.cli.failures import EXIT_FAILED, EXIT_PARTLY
from devmem.cli.inputs import Output, deliver
from devmem.cli.targets import JsonTerminal, load
from devmem.cli.terminal import Terminal
from devmem.config.findings import Rule
from devmem.config.reading import WorkflowCheck
from devmem.errors import CommandError, Finding, Level, installed_version
from devmem.redaction import without_credentials
from devmem.text.display import number_of
from devmem.views.diagrams import mermaid_plan
from devmem.workflow.plan import StoreAccess, WorkflowPlan
from devmem.workflow.plan import plan as plan_of_file
from devmem.workflow.stores import check_workflow

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_STYLES: Final = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "dim"}


class _Format(StrEnum):
    """Forms in which workflows are reported."""

    FINDINGS = "findings"
    SARIF = "sarif"
    PLAN = "plan"
    MERMAID = "mermaid"
    SCHEMA = "schema"


def validate(
    terminal: JsonTerminal,
    files: Annotated[list[Path] | None, argument("FILE...", "Workflows (YAML).")] = None,
    kind: Annotated[
        _Format,
        option(
            "`findings`; `sarif` for code scanning; `plan`, what a run of one workflow will read, write and send "
            "away, and `mermaid`, its picture; or `schema`, the JSON Schema of workflows, for editors.",
            "--format",
        ),
    ] = _Format.FINDINGS,
    fail_on: Annotated[
        Level, option("Lowest level of a finding that makes the exit code 1, or 2 of an error.")
    ] = Level.ERROR,
    output: Output = None,
) -> None:
    """List every problem of workflows, or show what a run will do.

    Each finding is a line `FILE:LINE: PATH: MESSAGE`, led by its level unless it is an error. A file that has only
    warnings is valid. Only stores of plugins are opened, to find out whether their code works.

    A plan says who reads and writes which store at which stage, with the limits in force; what data is sent where; and
    likely mistakes, such as a store that is never read. Nothing is opened, called or written.

    The schema covers every installed store type, and those of a workflow's `plugins:`. Most editors complete and check
    a YAML file that starts with `# yaml-language-server: $schema=workflow.schema.json`.

    Examples:
        devmem validate team.yaml
        devmem validate configs/*.yaml --fail-on warning
        devmem validate configs/*.yaml --format sarif > devmem.sarif
        devmem validate team.yaml --format plan
        devmem validate --format schema --output configs/workflow.schema.json
    """
    if kind is _Format.SCHEMA:
        from devmem.config.schema import workflow_schema
        from devmem.plugins import registry

        for file in files or ():
            load(terminal, file)
        deliver(terminal, [json.dumps(workflow_schema(registry), indent=2, ensure_ascii=False) + "\n"], output)
    elif not files:
        raise CommandError("name a workflow (YAML).")
    elif kind in (_Format.PLAN, _Format.MERMAID):
        if len(files) > 1:
            raise CommandError("a plan shows one workflow: name one FILE.")
        found = plan_of_file(files[0])
        if terminal.as_json:
            terminal.json(found)
        elif kind is _Format.MERMAID:
            deliver(terminal, mermaid_plan(found), output)
        else:
            _show_plan(terminal, found)
    else:
        _validate(terminal, [check_workflow(file) for file in files], fail_on, kind)


def _validate(terminal: Terminal, checks: list[WorkflowCheck], fail_on: Level, kind: _Format) -> None:
    """Print the findings in workflows, and end the command with their exit code."""
    if terminal.as_json or kind is _Format.SARIF:
        findings = [finding for check in checks for finding in check.findings]
        files = [
            {"file": check.file, "valid": not check.count(Level.ERROR)}
            | {f"{level.value}s": check.count(level) for level in Level}
            for check in checks
        ]
        found = _sarif(findings) if kind is _Format.SARIF else {"files": files, "findings": findings}
        terminal.json(found, indent=2)
    else:
        for check in checks:
            show_check(terminal, check)
    levels = [level for level in Level if any(check.count(level) for check in checks)]
    if Level.ERROR in levels:
        raise typer.Exit(EXIT_FAILED)
    if any(list(Level).index(level) <= list(Level).index(fail_on) for level in levels):
        raise typer.Exit(EXIT_PARTLY)


def _sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return findings as a SARIF log with one run."""
    rules = [rule.value for rule in Rule]
    told = [{"id": rule.value, "shortDescription": {"text": rule.description}} for rule in Rule]
    driver = {"name": "devmem", "version": installed_version(), "rules": told}
    results = []
    for finding in findings:
        path = Path(finding.file)
        # A relative reference is resolved against the repository's root.
        uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
        place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
        if finding.line is not None:
            place["region"] = {"startLine": finding.line}
        location: dict[str, Any] = {"physicalLocation": place}
        if finding.path:
            location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
        message = {"text": finding.message}
        result: dict[str, Any] = {"level": finding.level.value, "message": message, "locations": [location]}
        if finding.rule in rules:
            result |= {"ruleId": finding.rule, "ruleIndex": rules.index(finding.rule)}
        results.append(result)
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def show_check(terminal: Terminal, check: WorkflowCheck) -> None:
    """Print every finding as `FILE:LINE: PATH: MESSAGE`, led by its level unless it is an error; then a summary."""
    for finding in check.findings:
        level = "" if finding.level is Level.ERROR else f"{finding.level}: "
        terminal.print(without_credentials(f"{level}{finding}"), style=_STYLES[finding.level])
    if (workflow := check.workflow) is None:
        return
    agents = [node.config for node in workflow.nodes if node.config is not None]
    counted = [
        number_of(len(workflow.memory), "store"),
        number_of(len(workflow.nodes), "node") + f" ({number_of(len(agents), 'agent')})",
        number_of(len(workflow.edges), "edge"),
        number_of(sum(len(agent.memories) for agent in agents), "attachment"),
        *(number_of(count, level.value) for level in Level if (count := check.count(level))),
    ]
    verdict, style = ("cannot run here", "red") if check.count(Level.ERROR) else ("OK", "green")
    terminal.print(f"{check.file}: {verdict}: {', '.join(counted)}", style=style)


def _show_plan(terminal: Terminal, found: WorkflowPlan) -> None:
    """Print what a run reads, writes and sends away."""
    accesses = [
        (one.agent, one.store, ", ".join(one.reads_at), ", ".join(one.writes_at), _limits_text(one))
        for one in found.accesses
    ]
    columns: tuple[str, ...] = ("agent", "store", "reads at", "writes at", "limits")
    _section(terminal, "Who reads and writes what", columns, accesses, "no agent is attached to a store")
    stores = [
        (one.name, one.type, ", ".join(one.readers), ", ".join(one.writers), one.embedding or "words alone",
         one.location)
        for one in found.stores
    ]  # fmt: skip
    columns = ("store", "type", "read by", "written by", "embedding", "location")
    _section(terminal, "Stores", columns, stores, "none")
    sent = [(one.address, "another" if one.leaves else "this", "; ".join(one.data)) for one in found.destinations]
    empty = "none: everything stays in this process and its files"
    _section(terminal, "Data that is sent to a service", ("address", "machine", "data"), sent, empty)
    for name in found.not_run:
        terminal.report("warning", f"node {name!r} will not run: no edge that devmem may follow leads to it")
    for finding in found.findings:
        terminal.report(finding.level.value, f"{finding}")


def _section(
    terminal: Terminal, title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], empty: str
) -> None:
    terminal.print(title if rows else f"{title}: {empty}")
    if rows:
        terminal.table(columns, rows)
    terminal.print()


def _limits_text(access: StoreAccess) -> str:
    """Return the limits of an access in words: of reads, then of writes."""
    limits = {
        "top_k": access.top_k,
        "similarity >=": access.similarity_threshold,
        "score >=": access.min_relevance,
        "trust >=": access.min_trust or None,
        "budget": access.token_budget,
        "where": access.where or None,
    }
    read = [f"{name} {value}" for name, value in limits.items() if value is not None] if access.reads_at else []
    return ", ".join([*read, *([f"ttl {access.ttl:g} s"] if access.ttl is not None and access.writes_at else [])])
