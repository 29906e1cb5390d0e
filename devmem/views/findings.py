"""The findings of checked workflows as JSON and as SARIF 2.1.0, which code-scanning services read.

SARIF: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from devmem.config import Rule
from devmem.errors import Finding, Level
from devmem.runtime import WorkflowCheck
from devmem.views.items import JsonObject

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def finding_json(finding: Finding) -> JsonObject:
    """Return a finding's `level`, `rule`, `file`, `line` (null for the whole file), `path` and `message`."""
    return {
        "level": finding.level.value,
        "rule": finding.rule,
        "file": finding.file,
        "line": finding.line,
        "path": finding.path,
        "message": finding.message,
    }


def checks_json(checks: Sequence[WorkflowCheck]) -> JsonObject:
    """Return the outcome of checking workflows: `files` with their counts, and `findings`."""
    return {
        "files": [
            {"file": check.file, "valid": check.workflow is not None}
            | {f"{level.value}s": check.count(level) for level in Level}
            for check in checks
        ],
        "findings": [finding_json(finding) for check in checks for finding in check.findings],
    }


def checks_sarif(checks: Sequence[WorkflowCheck], version: str) -> JsonObject:
    """Return the findings as a SARIF log with one run; `version` is that of devmem."""
    findings = [finding for check in checks for finding in check.findings]
    rules = list(Rule)
    driver = {
        "name": "devmem",
        "version": version,
        "rules": [{"id": rule.value, "shortDescription": {"text": rule.description}} for rule in rules],
    }
    results = [_result(finding, [rule.value for rule in rules]) for finding in findings]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(finding: Finding, rules: Sequence[str]) -> JsonObject:
    place: JsonObject = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line is not None:
        place["region"] = {"startLine": finding.line}
    location: JsonObject = {"physicalLocation": place}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    result: JsonObject = {"level": finding.level.value, "message": {"text": finding.message}, "locations": [location]}
    if finding.rule in rules:
        result |= {"ruleId": finding.rule, "ruleIndex": rules.index(finding.rule)}
    return result


def _uri(file: str) -> str:
    """Return a relative reference for a relative path, which services resolve against the repository's root."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
